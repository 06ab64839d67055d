"""What an ecosystem must offer so that models can be exported to it and the exports be proven equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from transformer.inference.export.description import ExportDescription
from transformer.inference.line_translator import Progress
from transformer.model_directory import Model


class Exported(Protocol):
    """An exported model, run by the library it was written for, on the CPU. Text goes through its own vocabulary."""

    def translate(
        self, lines: Sequence[str], beam_size: int, limits: Sequence[int], progress: Progress = lambda _: None
    ) -> list[str]:
        """Beam search, 1 being greedy; scores are the mean log P of the pieces, </s> counted.

        PAD, <s> and <unk> never come out, and a blank line is blank again.

        Args:
            limits: the most pieces of each translation, </s> included.
            progress: is called with the number of lines of each batch that is done.
        """
        ...

    def log_probs(self, lines: Sequence[str], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """log P of each piece of these translations (forced decoding), by the distribution that the search uses.

        Of our network, that is the one in which PAD and <s> are no outcomes: `search.beam_search.log_distribution`. An
        export gets it by a bias of its output projection that rules them out, as Marian's models do.

        Args:
            targets: ids of the target vocabulary, the closing </s> included where it was written.
        """
        ...


@dataclass(frozen=True)
class Target:
    """An ecosystem.

    Attributes:
        name: what `--to` takes, and a key of `obstacles.LIMITS`.
        library: what the hub calls it.
        modules: what must be installed, under the names that pip knows.
        quantizations: what `--quantization` takes.
        impossible: ids that its search rules out before it normalises. Ours does so with PAD and <s>; <unk> it only
            never chooses.
        write: fill an empty folder with everything but README.md and export.json; the last argument is one of
            `quantizations`, or None for fp32.
        open: run what was written; export.json is there by then.
        usage: the part of README.md that says how to translate.
        next_step: a command to try, told when the export has its name.
    """

    name: str
    library: str
    modules: tuple[str, ...]
    quantizations: tuple[str, ...]
    impossible: tuple[int, ...]
    write: Callable[[Model, Path, str | None], None]
    open: Callable[[Path], Exported]
    usage: Callable[[Model, ExportDescription], str]
    next_step: Callable[[Path, ExportDescription], str]
