"""BLEU and chrF of translations against references: one scorer for training, `translate.py` and `evaluate.py`.

Both metrics are sacrebleu's (Post 2018, "A Call for Clarity in Reporting BLEU Scores"). They read detokenised,
mixed-case text and tokenise it themselves, so that figures can be compared across systems; the signature beside each
figure says how it was computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF

from data.errors import DataError
from transformer.errors import ConfigError


@dataclass(frozen=True)
class Scores:
    """BLEU and chrF of one set of lines, 0 to 100, with what a reader needs to trust them.

    Words are counted as BLEU's tokeniser sees them. `note` is empty, or says why BLEU is exactly 0.
    """

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    hypothesis_words: int
    reference_words: int
    n_lines: int
    note: str = ""

    @property
    def length_ratio(self) -> float:
        """Words of the hypotheses / words of the references: below 1, translations are too short."""
        return self.hypothesis_words / self.reference_words if self.reference_words else float("nan")

    def formatted(self) -> str:
        """The scores as three lines of text, signatures included, and the note if there is one."""
        lines = [
            f"BLEU   {self.bleu:6.2f}  {self.bleu_signature}",
            f"chrF   {self.chrf:6.2f}  {self.chrf_signature}",
            f"length {self.length_ratio:6.3f}  {self.hypothesis_words:,} words, {self.reference_words:,} in the "
            f"reference; {self.n_lines:,} lines",
        ]
        return "\n".join([*lines, self.note] if self.note else lines)


def score(hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """Corpus BLEU (Papineni et al. 2002; 13a tokenisation, mixed case) and chrF2 (Popović 2015) of parallel lines.

    An empty line counts as it stands; no pair is left out. Corpus BLEU never uses the effective order, so a corpus
    without a single 4-gram scores 0, with a note.

    Raises:
        DataError: the numbers of lines differ, or there are none.
    """
    _check_counts(hypotheses, references)
    bleu, chrf = BLEU(tokenize="13a", effective_order=False), CHRF()
    bleu_score = bleu.corpus_score(hypotheses, [references])
    return Scores(
        bleu=bleu_score.score,
        # The signature counts the references of each line, which are known only after scoring.
        bleu_signature=str(bleu.get_signature()),
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        chrf_signature=str(chrf.get_signature()),
        hypothesis_words=bleu_score.sys_len,
        reference_words=bleu_score.ref_len,
        n_lines=len(hypotheses),
        note=_why_zero(bleu_score),
    )


def _check_counts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    # sacrebleu's Python interface cuts the longer list in silence; only its command line compares the counts.
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} hypotheses but {len(references)} references: line N of one must translate line N of "
            "the other. Nothing was scored; look for a lost, added or split line."
        )
    if not hypotheses:
        raise DataError("0 hypotheses and 0 references: there is nothing to score.")


def _why_zero(bleu: BLEUScore) -> str:
    """The reason for a BLEU of exactly 0; empty for any other score."""
    if bleu.score > 0:
        return ""
    if bleu.sys_len == 0:
        return "BLEU is 0 because every hypothesis is empty."
    if bleu.counts[0] == 0:
        return "BLEU is 0 because no hypothesis shares a word with its reference."
    if 0 in bleu.totals:
        longest = bleu.totals.index(0)
        return f"BLEU is 0 because the longest hypothesis has {longest} word(s) and corpus BLEU needs 4-grams."
    return "BLEU is 0 because the hypotheses are far shorter than the references."


def format_table(scores: Mapping[str, Scores]) -> str:
    """One row per test set, then the signatures and any notes."""
    width = max(map(len, ["test set", *scores]))
    rows = [f"{'test set':{width}}    BLEU    chrF  length    lines      words  reference words"]
    for name, row in scores.items():
        rows.append(
            f"{name:{width}}  {row.bleu:6.2f}  {row.chrf:6.2f}  {row.length_ratio:6.3f}  {row.n_lines:7,}  "
            f"{row.hypothesis_words:9,}  {row.reference_words:15,}"
        )
    # A set that keeps its order: test sets are scored alike, so each signature is printed once.
    signatures = dict.fromkeys(f"BLEU {row.bleu_signature}" for row in scores.values())
    signatures |= dict.fromkeys(f"chrF {row.chrf_signature}" for row in scores.values())
    notes = [f"{name}: {row.note}" for name, row in scores.items() if row.note]
    return "\n".join([*rows, "", *signatures, *notes])


def literature_score(hypotheses: Sequence[str], references: Sequence[str], language: str) -> tuple[float, str]:
    """BLEU and its signature in the form of many papers: both sides lower-cased and tokenised with Moses' rules.

    Such figures (Multi30k, IWSLT14) are not comparable with `score`'s, and only here to stand beside published ones.

    Args:
        language: of the text, as a code such as "de"; it chooses Moses' list of abbreviations.

    Raises:
        DataError: the numbers of lines differ, or there are none.
        ConfigError: sacremoses is not installed.
    """
    _check_counts(hypotheses, references)
    try:
        from sacremoses import MosesTokenizer
    except ImportError as error:
        raise ConfigError("BLEU in the literature's form needs sacremoses: run `pip install sacremoses`.") from error
    tokenizer = MosesTokenizer(lang=language)
    tokenised = [
        [tokenizer.tokenize(line.lower(), return_str=True, escape=False) for line in side]
        for side in (hypotheses, references)
    ]
    # force: the lines end in a separated full stop on purpose. lowercase: changes nothing, but the signature says so.
    bleu = BLEU(tokenize="none", lowercase=True, effective_order=False, force=True)
    result = bleu.corpus_score(tokenised[0], [tokenised[1]])
    return result.score, str(bleu.get_signature())
