"""The rules of the demo grammar with their shares, and finished sentences."""

from __future__ import annotations

from collections.abc import Callable

from data.grammar import compound_sentences as compound
from data.grammar import quantities, questions, statements
from data.grammar.speaker import Speaker
from data.grammar.trees import Pair
from data.grammar.words import ADDRESSEES, YOU, Phrase

_RULES: tuple[tuple[float, tuple[Callable[[Speaker], Pair], str]], ...] = (
    (26, (statements.statement, ".")),
    (2, (statements.object_first, ".")),
    (11, (statements.described, ".")),
    (3, (statements.compared, ".")),
    (3, (statements.liked, ".")),
    (4, (statements.laid, ".")),
    (2, (statements.weather_report, ".")),
    (4, (statements.request, ".")),
    (3, (quantities.price, ".")),
    (2, (quantities.age, ".")),
    (4, (quantities.existence, ".")),
    (2, (quantities.arithmetic, ".")),
    (1, (quantities.time_of_day, ".")),
    (3, (quantities.timetable, ".")),
    (7, (questions.yes_no_question, "?")),
    (2, (questions.who_question, "?")),
    (4, (questions.object_question, "?")),
    (4, (questions.adverb_question, "?")),
    (1, (quantities.measure_question, "?")),
    (9, (compound.subordinated, ".")),
    (4, (compound.taken_up, ".")),
    (3, (compound.coordinated, ".")),
    (5, (compound.reported, ".")),
    (4, (compound.asked_indirectly, ".")),
    (4, (compound.infinitive, ".")),
    (2, (compound.purpose, ".")),
    (6, (compound.relative_clause, ".")),
)


def sentence(speaker: Speaker) -> Pair:
    """One English sentence and its German translation."""
    rule, mark = speaker.weighted(_RULES)
    called: Phrase | None = None
    speaker.you = YOU
    if speaker.chance(0.6 if rule is statements.request else 0.08):
        called, speaker.you = speaker.pick(ADDRESSEES)
    en, de = rule(speaker)
    if called:
        en, de = f"{called.en}, {en}", f"{called.de}, {de}"
    return _finished(en, mark), _finished(de, mark)


def _finished(text: str, mark: str) -> str:
    text = text.removesuffix(",").replace(",,", ",")
    return text[0].upper() + text[1:] + mark
