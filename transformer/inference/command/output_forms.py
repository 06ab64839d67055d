"""The forms in which `translate.py` gives out translations: those of pairs (`data.writers`), and those of scores.

text          the translation
tsv           source, tab, translation
xml, sgm      a WMT submission
jsonl         everything, see `translation_lines`
ranked        number of the line, rank, score, translation: n lines for each line of the input
scores        the score
scored_pairs  source, reference, score: a corpus with scores, as it is read with `columns: {src: 1, tgt: 2, score: 3}`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from data.writers import CELL_ENDS, Labels, Output, write_pieces
from data.writers import FORMS as PAIR_FORMS
from transformer.inference.command.results import Result
from transformer.inference.command.translation_lines import DIGITS, translation_line
from transformer.inference.translation import Translation


def write_translations(output: Output, form: str, results: Iterable[Result], labels: Labels) -> None:
    """Write translations in one of the forms above: into a file that appears whole, or to a stream, each at once.

    Raises OSError.
    """
    if write := PAIR_FORMS.get(form):
        write(output, (result.pair._replace(tgt=result.translation.text) for result in results), labels)
        return
    lines = _LINES[form]
    write_pieces(output, (f"{line}\n" for number, result in enumerate(results, 1) for line in lines(number, result)))


def _record(number: int, result: Result) -> Iterator[str]:
    yield translation_line(result.translation, result.pair.src)


def _ranked(number: int, result: Result) -> Iterator[str]:
    best = result.translation
    for rank, translation in enumerate((best, *best.alternatives), 1):
        yield f"{number}\t{rank}\t{_score(translation)}\t{translation.text.translate(CELL_ENDS)}"


def _scored(number: int, result: Result) -> Iterator[str]:
    yield _score(result.translation)


def _scored_pair(number: int, result: Result) -> Iterator[str]:
    src, tgt = (text.translate(CELL_ENDS) for text in (result.pair.src, result.translation.text))
    yield f"{src}\t{tgt}\t{_score(result.translation)}"


def _score(translation: Translation) -> str:
    return f"{translation.score:.{DIGITS}f}"


_LINES: dict[str, Callable[[int, Result], Iterator[str]]] = {
    "jsonl": _record,
    "ranked": _ranked,
    "scores": _scored,
    "scored_pairs": _scored_pair,
}
