"""BLEU and chrF of translations against one reference each: what training and `translate.py` show.

Both metrics are sacrebleu's (Post 2018, "A Call for Clarity in Reporting BLEU Scores"). They read detokenised,
mixed-case text and tokenise it themselves, so that figures can be compared across systems; the signature beside each
figure says how it was computed. `measurement` has everything else, from the same metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF

from data.errors import DataError
from transformer.errors import ConfigError
from transformer.evaluation.tokenization import DEFAULT, load_bleu


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


def score(hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = DEFAULT) -> Scores:
    """Corpus BLEU (Papineni et al. 2002; mixed case) and chrF2 (Popović 2015) of parallel lines.

    An empty line counts as it stands; no pair is left out. Corpus BLEU never uses the effective order, so a corpus
    without a single 4-gram scores 0, with a note.

    Raises:
        DataError: the numbers of lines differ, or there are none.
        ConfigError, RunError: as `tokenization.load_bleu`.
    """
    check_counts(hypotheses, references)
    bleu, chrf = load_bleu(tokenizer), CHRF()
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
        note=why_zero(bleu_score),
    )


def check_counts(hypotheses: Sequence[str], references: Sequence[str], test: str = "") -> None:
    """Raises DataError, with the name of the test set, when the numbers of lines differ, or there are none."""
    of = f" of {test}" if test else ""
    # sacrebleu's Python interface cuts the longer list in silence; only its command line compares the counts.
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} hypotheses but {len(references)} references{of}: line N of one must translate line "
            "N of the other. Nothing was scored; look for a lost, added or split line."
        )
    if not hypotheses:
        raise DataError(f"0 hypotheses and 0 references{of}: there is nothing to score.")


def why_zero(bleu: BLEUScore) -> str:
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


def literature_bleu() -> BLEU:
    """For lines in `literature_form`; its figures stand beside published ones (Multi30k, IWSLT14), and no others."""
    # force: the lines end in a separated full stop on purpose. lowercase: changes nothing, but the signature says so.
    return BLEU(tokenize="none", lowercase=True, effective_order=False, force=True)


def literature_form(lines: Sequence[str], language: str) -> list[str]:
    """Lines lower-cased and tokenised with Moses' rules.

    Args:
        language: of the text, as a code such as "de"; it chooses Moses' list of abbreviations.

    Raises:
        ConfigError: sacremoses is not installed.
    """
    try:
        from sacremoses import MosesTokenizer
    except ImportError as error:
        raise ConfigError("BLEU in the literature's form needs sacremoses: run `pip install sacremoses`.") from error
    tokenizer = MosesTokenizer(lang=language)
    return [tokenizer.tokenize(line.lower(), return_str=True, escape=False) for line in lines]
