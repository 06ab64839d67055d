"""The parity gate: an export gets its name only after it has done what its origin does.

Both translate the same lines, greedily and with a beam of 5, under the one length rule that all know (the mean log P of
the pieces); and both say how probable our greedy translations are, piece by piece.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from data.vocabulary import EOS_ID
from transformer.config_translate import TranslateSettings
from transformer.errors import RunError
from transformer.inference.export.gate_lines import MOST_EXTRA, GateLines, length_limits
from transformer.inference.export.target import Exported
from transformer.inference.line_translator import Progress
from transformer.inference.search.beam_search import IMPOSSIBLE
from transformer.inference.translator import Translator
from transformer.model_directory import Model

BEAM_SIZE = 5
TOLERANCE = 1e-4  # nats, of the log P of a piece
BLEU_TOLERANCE = 0.1
MOST_LOST = 2.0  # BLEU, by a quantisation
SHOWN = 3  # lines in a message

Result = TypeVar("Result")


@dataclass(frozen=True)
class Parity:
    """What was found. BLEU and lines per second are those of beam 5.

    Attributes:
        lines: where they come from.
        greedy_identical, beam_identical: how many of the lines have the same text.
        largest_difference: of log P, over all pieces, in nats.
        bleu_against: what BLEU compares with.
    """

    lines: str
    n_lines: int
    greedy_identical: int
    beam_identical: int
    largest_difference: float
    bleu_against: str
    bleu: float
    bleu_of_origin: float
    lines_per_second: float
    lines_per_second_of_origin: float

    @property
    def bleu_difference(self) -> float:
        """Of the export to its origin."""
        return self.bleu - self.bleu_of_origin

    @property
    def speed_up(self) -> float:
        """Lines per second of the export, as a multiple of its origin's."""
        return self.lines_per_second / self.lines_per_second_of_origin

    def describe(self) -> str:
        """A sentence for people."""
        return (
            f"on {self.n_lines} lines, {self.lines}: {self.greedy_identical} greedy translations and "
            f"{self.beam_identical} of beam {BEAM_SIZE} are the same; log P of a piece differs by "
            f"{self.largest_difference:.1e} at most; BLEU against {self.bleu_against} {self.bleu:.2f}, of the origin "
            f"{self.bleu_of_origin:.2f}; {self.speed_up:.1f} times the speed (beam {BEAM_SIZE})"
        )


class Gate:
    """The side of the origin, computed once for any number of exports.

    Args:
        impossible: see `Target`. With a beam, the origin searches in the same way as the export.
        progress: is called with the number of lines of each batch that is translated: twice here, twice by each export.
    """

    def __init__(
        self,
        model: Model,
        given: GateLines,
        impossible: tuple[int, ...] = IMPOSSIBLE,
        progress: Progress = lambda _: None,
    ) -> None:
        self.given, self.progress = given, progress
        settings = TranslateSettings(
            beam_size=1,
            length_penalty="average",
            alpha=1.0,
            tag=model.translate.tag,
            max_length_ratio=model.translate.max_length_ratio,
            max_extra_length=min(model.translate.max_extra_length, MOST_EXTRA),
        )
        beam = settings.model_copy(update={"beam_size": BEAM_SIZE})
        vocabularies = model.src_vocabulary, model.tgt_vocabulary
        self.translator = Translator(model.network, *vocabularies, settings, "cpu")
        self.limits = length_limits(settings, model.src_vocabulary.encode(given.lines))
        self.greedy = list(self.translator.translations(given.lines, progress=progress, annotate=True))
        self.texts = [translation.text for translation in self.greedy]
        ids = {piece: i for i, piece in enumerate(model.tgt_vocabulary.all_pieces())}
        self.targets = [[ids[piece] for piece in translation.pieces or ()] for translation in self.greedy]
        searcher = Translator(model.network, *vocabularies, beam, "cpu")
        searcher.search.rules = replace(searcher.search.rules, impossible=impossible)
        translations, self.seconds = timed(lambda: list(searcher.translations(given.lines, progress=progress)))
        self.beam = [translation.text for translation in translations]

    def check(self, exported: Exported) -> Parity:
        """Compare an export in fp32.

        Raises:
            RunError: it does something else; the message says what.
        """
        parity, greedy = self.compare(exported)
        differing = [i for i, text in enumerate(greedy) if text != self.texts[i] and not self._is_tie(i, text)]
        problems = [f"line {i + 1}: {self.texts[i]!r} is translated, {greedy[i]!r} by the export" for i in differing]
        if len(problems) > SHOWN:
            problems[SHOWN:] = [f"{len(problems) - SHOWN} more lines are translated otherwise"]
        if not parity.largest_difference <= TOLERANCE:  # nor if it is no number
            problems.append(f"log P of a piece differs by {parity.largest_difference:.2e}; {TOLERANCE:.0e} is allowed")
        if not abs(parity.bleu_difference) <= BLEU_TOLERANCE:
            problems.append(
                f"BLEU of beam {BEAM_SIZE} is {parity.bleu:.2f}, of the origin {parity.bleu_of_origin:.2f}, against "
                f"{parity.bleu_against}; a difference of {BLEU_TOLERANCE} is allowed"
            )
        if problems:
            raise RunError("\n".join(["the export does not do what the model does, and is thrown away:", *problems]))
        return parity

    def check_quantised(self, exported: Exported) -> Parity:
        """Compare an export whose weights are rounded, after that in fp32 has been found equal.

        Raises:
            RunError: too much is lost.
        """
        parity, _ = self.compare(exported)
        if not parity.bleu_difference >= -MOST_LOST:
            raise RunError(
                f"the quantised export loses {-parity.bleu_difference:.1f} BLEU against {parity.bleu_against}, and is "
                f"thrown away; {MOST_LOST} are allowed. Take another --quantization, or none"
            )
        return parity

    def compare(self, exported: Exported) -> tuple[Parity, list[str]]:
        """What an export does with the lines, and its greedy translations."""
        import sacrebleu  # slow to import

        lines = self.given.lines
        greedy = exported.translate(lines, 1, self.limits, self.progress)
        places = [i for i, target in enumerate(self.targets) if target]
        log_probs = exported.log_probs([lines[i] for i in places], [self.targets[i] for i in places])
        differences = [
            abs(ours - theirs)
            for i, row in zip(places, log_probs, strict=True)
            for ours, theirs in zip(self.greedy[i].token_log_probs or (), row, strict=True)
        ]
        beam, seconds = timed(lambda: exported.translate(lines, BEAM_SIZE, self.limits, self.progress))
        references = [self.given.references or self.texts]
        n_scored = len(references[0])
        bleu, bleu_of_origin = (
            sacrebleu.corpus_bleu(texts[:n_scored], references).score for texts in (beam, self.beam)
        )
        parity = Parity(
            lines=self.given.origin,
            n_lines=len(lines),
            greedy_identical=sum(map(str.__eq__, greedy, self.texts)),
            beam_identical=sum(map(str.__eq__, beam, self.beam)),
            # As `max` of numbers with a nan among them is anything:
            largest_difference=math.nan if any(map(math.isnan, differences)) else max(differences, default=0.0),
            bleu_against="references" if self.given.references else "greedy translations of the origin",
            bleu=bleu,
            bleu_of_origin=bleu_of_origin,
            lines_per_second=len(lines) / seconds,
            lines_per_second_of_origin=len(lines) / self.seconds,
        )
        return parity, greedy

    def _is_tie(self, place: int, text: str) -> bool:
        """Whether another greedy translation parts from ours where two pieces are equally probable, within rounding."""
        tokens = [*self.translator.tgt_vocabulary.encode([text])[0], EOS_ID]
        ours = self.targets[place]
        parting = next((i for i, pair in enumerate(zip(tokens, ours, strict=False)) if pair[0] != pair[1]), None)
        [scored] = self.translator.scored([(self.given.lines[place], text)])
        mine, others = self.greedy[place].token_log_probs, scored.token_log_probs
        if parting is None or mine is None or others is None:
            return False
        return abs(mine[parting] - others[parting]) <= TOLERANCE


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """A result, and the seconds it took."""
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began
