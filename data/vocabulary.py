"""Subword vocabularies (§5.1), learnt and applied by sentencepiece."""

from __future__ import annotations

import hashlib
import io
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import sentencepiece

from data.atomic import whole_file
from data.errors import DataError

PAD_ID = 0
UNK_ID = 1
BOS_ID = 2
EOS_ID = 3

# sentencepiece's trainer leaves out lines over 4,192 bytes without a word; a character takes at most 4 bytes.
_LONGEST_TRAINING_LINE = 1000  # characters
_SMALLEST_SIZE = (
    EOS_ID + 2
)  # the special pieces and one more: always too small, so that sentencepiece names the minimum


_SAMPLING = threading.Lock()  # sentencepiece has one seed for the whole process


class Vocabulary:
    """Turns sentences into ids and back; a sentencepiece model whose first ids are pad, unk, bos and eos.

    Special pieces are never found in text: `<s>` typed by a user is three ordinary characters. Nor are those of the
    type UNUSED, which models from elsewhere may have, except where all others leave unknown what is as a whole one of
    them.
    """

    def __init__(self, model: bytes, name: str = "the vocabulary") -> None:
        self._model = model
        self._processor = _load_processor(model, name)

    @classmethod
    def learn(
        cls,
        lines: Iterable[str],
        *,
        size: int,
        type: Literal["bpe", "unigram"] = "bpe",  # noqa: A002 - the name of the setting
        byte_fallback: bool = True,
        character_coverage: float = 1.0,
        normalization: str = "nmt_nfkc",
        tags: Sequence[str] = (),
    ) -> Vocabulary:
        """Learn a vocabulary of exactly `size` pieces; the same text gives the same bytes on any machine.

        `lines` are read a second time when `size` is impossible, to find the possible range: no one-way iterator.
        Under the identity normalisation, spaces are kept as they are; otherwise runs of them count as one. Each of
        `tags` becomes a piece that is never found in text; see `tag_id`.

        Raises DataError when `size` is too small or too large for the text, with the possible range, or there is none.
        """
        options: dict[str, Any] = {
            "model_type": type,
            "byte_fallback": byte_fallback,
            "character_coverage": character_coverage,
            "normalization_rule_name": normalization,
            "remove_extra_whitespaces": normalization != "identity",
            "control_symbols": list(tags),
        }
        try:
            return cls(_train(lines, size, options))
        except (RuntimeError, ValueError, SyntaxError) as error:  # all of them its own
            raise DataError(_explain_failure(str(error), lines, size, options)) from error

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what `save` wrote. Raises DataError when the file is missing or damaged."""
        try:
            return cls(path.read_bytes(), str(path))
        except OSError as error:
            raise DataError(f"{path}: cannot read the vocabulary: {error.strerror}") from error

    def save(self, path: Path) -> None:
        """Write a sentencepiece model file, whole or not at all."""
        with whole_file(path) as stream:
            stream.write(self._model)

    @property
    def hash(self) -> str:
        """SHA-256 of the model file, hexadecimal: two vocabularies are the same if this is."""
        return hashlib.sha256(self._model).hexdigest()

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @cached_property
    def n_special(self) -> int:
        """How many ids come before those of text: pad, unk, bos, eos and tags."""
        return next(i for i in range(EOS_ID + 1, len(self) + 1) if i == len(self) or not self._processor.is_control(i))

    @property
    def has_bytes(self) -> bool:
        """Whether the 256 ids behind the special ones are bytes, with which unknown characters are spelled."""
        return self.n_special < len(self) and bool(self._processor.is_byte(self.n_special))

    def tag_id(self, tag: str) -> int | None:
        """The id of a tag of `learn`; None when this vocabulary was learnt without it."""
        found = int(self._processor.piece_to_id(tag))
        return found if self._processor.is_control(found) and found > EOS_ID else None

    @cached_property
    def _has_unused(self) -> bool:
        return any(self._processor.is_unused(i) for i in range(len(self)))

    def encode(self, sentences: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Ids of each sentence, without special ones; a blank sentence gives none."""
        ids: list[list[int]] = self._processor.encode(list(sentences), out_type=int, num_threads=threads)
        if self._has_unused:
            rows = zip(sentences, ids, strict=True)
            return [self.encode_with_spans(sentence)[0] if UNK_ID in row else row for sentence, row in rows]
        return ids

    def _look_up(self, piece: Any) -> int:
        """The id of a piece of a sentence; an unknown one may be UNUSED as a whole."""
        found = int(piece.id)
        if found == UNK_ID and self._has_unused:
            unused = int(self._processor.piece_to_id(piece.piece))
            return unused if self._processor.is_unused(unused) else UNK_ID
        return found

    def sample(self, sentences: Sequence[str], amount: float, seed: int) -> list[list[int]]:
        """As `encode`, but cut at random; the same for the same seed, in every process.

        (sentencepiece 0.2.2 and 0.2.3 salt their random numbers once a process; pyproject.toml keeps them out.)

        bpe leaves out each merge with probability `amount` (BPE-dropout, Provilkov et al. 2020); unigram draws cuts
        with P^amount (Kudo 2018).
        """

        def draw() -> list[list[int]]:
            sentencepiece.set_random_generator_seed(seed)
            ids: list[list[int]] = self._processor.encode(
                list(sentences), out_type=int, enable_sampling=True, alpha=amount, nbest_size=-1, num_threads=1
            )
            return ids

        # sentencepiece draws from a generator of each thread, seeded when that thread first draws: hence a fresh one.
        with _SAMPLING, ThreadPoolExecutor(max_workers=1) as fresh:
            return fresh.submit(draw).result()

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of ids; pad, bos and eos are left out, unk is ` ⁇ `, broken bytes are U+FFFD.

        A byte piece can spell a line end, which would shift every line after it; it becomes a space.
        """
        text_ids = [[i for i in ids if i > EOS_ID or i == UNK_ID] for ids in sentences]  # tags spell nothing
        return [text.replace("\n", " ") for text in self._processor.decode(text_ids)] if text_ids else []

    def encode_with_spans(self, sentence: str) -> tuple[list[int], list[tuple[int, int]]]:
        """As `encode`, and the characters sentence[begin:end] that each piece stands for."""
        found = self._processor.encode(sentence, out_type="immutable_proto")  # its pieces are gone as soon as it is
        return [self._look_up(piece) for piece in found.pieces], [(piece.begin, piece.end) for piece in found.pieces]

    def decode_with_spans(self, ids: Sequence[int]) -> tuple[str, list[int], list[tuple[int, int]]]:
        """As `decode`, the ids that spell something, and the characters text[begin:end] that each of them spells."""
        spelling = [i for i in ids if i > EOS_ID or i == UNK_ID]
        found = self._processor.decode([spelling], out_type="immutable_proto")[0]
        spans = [(piece.begin, piece.end) for piece in found.pieces]
        return found.text.replace("\n", " "), spelling, spans

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces as sentencepiece spells them (`▁` begins a word), for people to look at; never join them."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def all_pieces(self) -> list[str]:
        """The piece of every id, in order."""
        return self.pieces(range(len(self)))


def have_equal_ids(one: Vocabulary, other: Vocabulary) -> bool:
    """Whether each id is the same piece in both, so that they can share embeddings, however they cut text."""
    if one is other:
        return True
    return len(one) == len(other) and one.all_pieces() == other.all_pieces()


def _load_processor(model: bytes, name: str) -> Any:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
    except (RuntimeError, ValueError) as error:
        raise DataError(f"{name}: not a sentencepiece model, or damaged; make it again with preprocess.py") from error
    found = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if found != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
        raise DataError(
            f"{name}: the ids of pad, unk, bos, eos are {', '.join(map(str, found))}, not 0, 1, 2, 3: "
            "damaged, or not made by this program; make it again with preprocess.py"
        )
    return processor


def _train(lines: Iterable[str], size: int, options: dict[str, Any]) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_short_lines(lines),
        model_writer=model,
        vocab_size=size,
        pad_id=PAD_ID,
        unk_id=UNK_ID,
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        num_threads=16,  # stored in the model and the order of its sums: the same everywhere, or hashes would differ
        minloglevel=2,  # errors only; they arrive as exceptions
        **options,
    )
    return model.getvalue()


def _short_lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        for start in range(0, len(line), _LONGEST_TRAINING_LINE):
            yield line[start : start + _LONGEST_TRAINING_LINE]


def _explain_failure(message: str, lines: Iterable[str], size: int, options: dict[str, Any]) -> str:
    """What a message of sentencepiece's C++ means for the settings."""
    largest = re.search(r"Vocabulary size too high .* <= (\d+)", message)
    n_without_text = 4 + len(options["control_symbols"]) + (256 if options["byte_fallback"] else 0)
    if (
        "sentences_.empty()" in message
        or "all_chars_count" in message
        or (largest and int(largest[1]) <= n_without_text)
    ):
        return "the training text has no characters to learn a vocabulary from: every line is blank"
    if largest:
        return (
            f"vocabulary.size {size} is too large for this text: it gives at most {largest[1]} pieces. "
            f"Choose vocabulary.size from {_find_smallest_size(lines, options)} to {largest[1]}, or give more text"
        )
    if required := _required_size(message):
        return (
            f"vocabulary.size {size} is too small for this text: its characters, the special pieces and, with "
            f"byte_fallback, 256 bytes need {required}. Choose vocabulary.size {required} or more, or lower "
            "vocabulary.character_coverage"
        )
    return f"sentencepiece could not learn the vocabulary of {size} pieces: {message}"


def _find_smallest_size(lines: Iterable[str], options: dict[str, Any]) -> int:
    try:
        _train(lines, _SMALLEST_SIZE, options)
    except RuntimeError as error:
        return _required_size(str(error)) or _SMALLEST_SIZE
    return _SMALLEST_SIZE


def _required_size(message: str) -> int | None:
    found = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    return int(found[1]) if found else None
