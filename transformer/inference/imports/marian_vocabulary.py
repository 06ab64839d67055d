"""The vocabulary of a Marian folder, as sentencepiece models whose ids are rows of the network.

There, a sentencepiece model of each language cuts text into strings, and vocab.json, which is for both, numbers them.
Here, a vocabulary is a sentencepiece model and a piece's id its place in it. So each language gets a model with a place
for every entry of vocab.json, in one order for both: those that its own model knows, with their scores, and the others,
which its text is never cut into. Either cuts text exactly as before.

Two things in MarianTokenizer have no counterpart: `</s>`, `<unk>`, `<pad>` and a leading `>>xx<<` in a text are special
there and mere characters here (for the last see `translate.tag`); and where a target is cut into a piece that
vocab.json lacks, <unk> there, it is cut otherwise here, as no translation could hold that piece.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from data.errors import DataError
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Vocabulary
from transformer.errors import RunError
from transformer.inference.imports.layout import Layout
from transformer.inference.imports.sentencepiece_model import CONTROL, UNIGRAM, UNKNOWN, UNUSED, number_specials

BYTES = {f"<0x{byte:02X}>" for byte in range(256)}


@dataclass(frozen=True)
class Entries:
    """What a Marian folder says about the ids of one language.

    Attributes:
        pieces: string → row.
        n_rows: of the network's table; what has no string there is never read or written.
        unk, eos: rows. pad: likewise; None where this language's table needs none.
        start: the row of what the decoder reads first; None for a source with a table of its own.
    """

    pieces: Mapping[str, int]
    n_rows: int
    unk: int
    eos: int
    pad: int | None
    start: int | None

    @property
    def strings(self) -> dict[int, str]:
        """row → string, for every row."""
        return {row: f"<row {row}>" for row in range(self.n_rows)} | {row: s for s, row in self.pieces.items()}


def arrange(entries: Entries, src_pieces: Sequence[str], controls: Collection[str] = ()) -> Layout:
    """The order of ids: pad, unk, bos, eos, tags, bytes, then all else as it was.

    What the decoder reads first becomes <s>. Where that is padding, as in Marian's own models, ours is a new row.

    Args:
        entries: of the language, or of both.
        src_pieces: what text of the source language is cut into.
        controls: strings that text is never cut into and that spell nothing: tags, as `>>xx<<` is one.
    """
    strings = entries.strings
    start = entries.pieces.get("<s>") if entries.start is None else entries.start
    pad = None if entries.pad == start else entries.pad
    special = {pad, entries.unk, start, entries.eos}
    rest = [row for row in range(entries.n_rows) if row not in special]
    tags = [row for row in rest if strings[row] in controls or re.fullmatch(r">>.*<<", strings[row], re.DOTALL)]
    in_bytes = [row for row in rest if strings[row] in BYTES] if entries.pieces.keys() >= BYTES else []
    first = {*tags, *in_bytes}
    ordered = [*tags, *in_bytes, *(row for row in rest if row not in first)]
    unknown = [piece for piece in src_pieces if piece not in entries.pieces]
    pad_string = "<pad>" if entries.pad is None else strings[entries.pad]
    if start is None or start in (entries.pad, entries.eos):
        bos_string = _free("<s>", {*strings.values(), *unknown})
    else:
        bos_string = strings[start]
    return Layout(
        strings=[pad_string, strings[entries.unk], bos_string, strings[entries.eos]]
        + [strings[row] for row in ordered]
        + unknown,
        rows=[pad, entries.unk, start, entries.eos, *ordered, *[entries.unk] * len(unknown)],
        n_tags=len(tags),
        n_unknown=len(unknown),
    )


def _free(string: str, taken: Collection[str]) -> str:
    while string in taken:
        string = f"<{string}>"
    return string


def build(model: Any, layout: Layout, name: str) -> Vocabulary:
    """The vocabulary that cuts text as `model` does, with the ids of `layout`.

    Raises:
        RunError: the model has pieces of bpe that the layout lacks, or the other way round.
    """
    known = {piece.piece: piece for piece in model.pieces if piece.type not in (UNKNOWN, CONTROL)}
    strings = layout.strings[EOS_ID + 1 + layout.n_tags :]
    if model.trainer_spec.model_type != UNIGRAM and known.keys() != set(strings):
        fewer, more = len(set(strings) - known.keys()), len(known.keys() - set(strings))
        raise RunError(
            f"{name}: a sentencepiece model that is not of type unigram, with {fewer:,} pieces fewer and {more:,} "
            "more than vocab.json: with these it would cut text otherwise. Only unigram models may differ"
        )
    built = type(model)()
    built.CopyFrom(model)
    del built.pieces[:]
    special = {PAD_ID: CONTROL, UNK_ID: UNKNOWN, BOS_ID: CONTROL, EOS_ID: CONTROL}
    for i, string in enumerate(layout.strings):
        if i < EOS_ID + 1 + layout.n_tags:
            built.pieces.add(piece=string, score=0.0, type=special.get(i, CONTROL))
        elif string in known:
            built.pieces.add().CopyFrom(known[string])
        else:
            built.pieces.add(piece=string, score=0.0, type=UNUSED)
    number_specials(built)
    spec = built.trainer_spec
    spec.vocab_size = len(built.pieces)
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = layout.strings[: EOS_ID + 1]
    try:
        return Vocabulary(built.SerializeToString(), name)
    except DataError as error:
        raise RunError(str(error)) from error
