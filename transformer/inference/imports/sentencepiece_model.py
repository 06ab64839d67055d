"""sentencepiece models taken apart and put together, as the protocol buffers that they are."""

from __future__ import annotations

from typing import Any

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transformer.errors import ConfigError, RunError

UNKNOWN, CONTROL, UNUSED = 2, 3, 5  # types of pieces, by sentencepiece's numbers
UNIGRAM, WORD = 1, 3  # types of models; the second cuts at spaces


def read_model(content: bytes, name: str) -> Any:
    """A sentencepiece model as a protocol buffer.

    Raises:
        ConfigError: protobuf, an optional library, is not installed.
        RunError: it is none.
    """
    model = _protocol().ModelProto()
    from google.protobuf.message import DecodeError

    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise RunError(f"{name}: not a sentencepiece model, or damaged") from error
    return model


def new_model(model_type: int) -> Any:
    """An empty sentencepiece model that leaves text as it is. Raises ConfigError as `read_model`."""
    model = _protocol().ModelProto()
    model.trainer_spec.model_type = model_type
    model.normalizer_spec.name = "identity"
    number_specials(model)
    return model


def _protocol() -> Any:
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError as error:
        raise ConfigError("importing a vocabulary needs protobuf: run `pip install protobuf`") from error
    return sentencepiece_model_pb2


def number_specials(model: Any) -> None:
    """Give pad, unk, bos and eos the ids that `data.vocabulary` has."""
    spec = model.trainer_spec
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = PAD_ID, UNK_ID, BOS_ID, EOS_ID


def controls(model: Any) -> set[str]:
    """The strings that text is never cut into and that spell nothing."""
    return {piece.piece for piece in model.pieces if piece.type == CONTROL}


def text_pieces(model: Any) -> list[str]:
    """The pieces that text is cut into."""
    return [piece.piece for piece in model.pieces if piece.type not in (UNKNOWN, CONTROL, UNUSED)]
