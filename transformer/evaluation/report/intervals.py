"""How sure the BLEU of a validation is: 95 % confidence intervals by bootstrap resampling."""

from __future__ import annotations

from pathlib import Path

from tqdm import tqdm

from transformer.errors import RunError
from transformer.evaluation.report.run import Run, load_hypotheses
from transformer.evaluation.sentence_statistics import Statistics
from transformer.evaluation.significance import confidence_intervals
from transformer.evaluation.tokenization import load_bleu, tokenizer_at_hand

Interval = tuple[float, float]

_known: dict[tuple[Path, int, int], tuple[float, Interval]] = {}  # by file, when it was written, and references


def validation_intervals(run: Run, most_new: int | None = None) -> dict[int, Interval]:
    """Step → interval, of the validations whose translations are still there and give the BLEU that was logged.

    Each takes about 0.1 s for 1,000 sentences, and is remembered while the program runs.

    Args:
        most_new: so many, the newest, may be found that are not known yet; None: all.
    """
    if run.valid_text is None:
        return {}
    references = tuple(run.valid_text[1])
    tokenizer = tokenizer_at_hand(run.languages[1])
    left = len(run.validations) if most_new is None else most_new
    found, others = {}, []
    for line in tqdm(run.validations[::-1], desc=f"intervals of {run.name}", delay=1, leave=False, disable=None):
        step = int(line["step"])
        if step not in run.translated or "valid_bleu" not in line:
            continue
        path = run.translated[step]
        try:
            key = (path, path.stat().st_mtime_ns, hash(references))
            if key not in _known:
                if not left:
                    continue
                left -= 1
                _known[key] = _bleu(load_hypotheses(path, len(references)), references, tokenizer)
        except (OSError, RunError) as error:
            run.complain(str(error))
            continue
        bleu, interval = _known[key]
        if abs(bleu - float(line["valid_bleu"])) < 0.005:
            found[step] = interval
        else:
            others.append(step)
    if others:
        run.complain(
            f"{run.path / 'validation'}: the translations of {len(others):,} validations (the first at {others[-1]:,}) "
            "have not the BLEU that was logged, so their intervals are left out; were the data prepared again?"
        )
    return found


def _bleu(hypotheses: list[str], references: tuple[str, ...], tokenizer: str) -> tuple[float, Interval]:
    """BLEU, as validation computes it, and its interval."""
    statistics = Statistics.of(load_bleu(tokenizer), hypotheses, [references])
    return statistics.figure(), confidence_intervals({"bleu": statistics})["bleu"]
