"""What the network attends to while it reads one sentence and writes one translation, ready to be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from data.vocabulary import BOS_ID, EOS_ID
from transformer.errors import ConfigError
from transformer.inference.translator import Translator
from transformer.model import AttentionWeights

MAX_PIECES = 250  # on a side: nobody could read more

Kind = Literal["cross", "encoder", "decoder"]


@dataclass(frozen=True)
class Shares:
    """One kind of attention: the weights of every layer, (1, H, queries, keys), and the pieces on their axes."""

    weights: Sequence[Tensor]
    keys: Sequence[str]
    queries: Sequence[str]


@dataclass(frozen=True)
class AttentionReading:
    """A sentence, its translation, and the weights of every layer and head.

    Attributes:
        src_pieces: S pieces that the encoder reads: tags, the sentence, </s>; "▁" begins a word.
        written: T pieces that the decoder writes, the last one </s>.
        read: T pieces that it has read last when it writes those: <s>, and all that is written but the last (§3.1).
        weights: per layer (1, H, ·, ·); row t of the decoder's is that of written[t].
    """

    sentence: str
    translation: str
    src_pieces: Sequence[str]
    written: Sequence[str]
    read: Sequence[str]
    weights: AttentionWeights

    @property
    def title(self) -> str:
        """Both texts, one below the other."""
        return f"{self.sentence}\n{self.translation}"

    def shares(self, kind: Kind) -> Shares:
        """The encoder's of source to source, the decoder's of target to target, or that between them."""
        match kind:
            case "cross":
                return Shares(self.weights.cross, self.src_pieces, self.written)
            case "encoder":
                return Shares(self.weights.encoder, self.src_pieces, self.src_pieces)
            case "decoder":
                return Shares(self.weights.decoder, self.read, self.written)


def mean_of(weights: Sequence[Tensor]) -> Tensor:
    """The mean over layers and heads of (1, H, T, S): (T, S)."""
    return torch.stack([heads[0].mean(dim=0) for heads in weights]).mean(dim=0)


def read_attention(translator: Translator, sentence: str, translation: str | None = None) -> AttentionReading:
    """Read a sentence and a translation of it, with the translator's first network.

    Args:
        translation: any text in the target language, such as a reference; None: what the translator makes of the
            sentence. It is split into pieces anew, which can differ from those that the search chose.

    Raises:
        ConfigError: a text is blank, or has too many pieces to be drawn or to be translated at once.
    """
    source, target = translator.src_vocabulary, translator.tgt_vocabulary
    [src] = source.encode([sentence])
    if not src:
        raise ConfigError("the sentence is blank: there is nothing to draw.")
    _check_length("sentence", len(src))
    if translation is None:
        most = translator.settings.max_source_length
        if most is not None and len(src) > most:
            raise ConfigError(
                f"the sentence has {len(src)} pieces, and this model translates at most {most} at once: there is no "
                "one picture of its parts. Give one of the parts as the sentence."
            )
        [translation] = translator.translate([sentence])
    elif not translation.strip():
        raise ConfigError("the translation is blank: give a text, or leave it out to see the model's own.")
    [tgt] = target.encode([translation])
    _check_length("translation", len(tgt))
    src, written, read = [*translator.prefix, *src, EOS_ID], [*tgt, EOS_ID], [BOS_ID, *tgt]
    weights = translator.network.attention_weights(
        torch.tensor([src], device=translator.device), torch.tensor([read], device=translator.device)
    )
    pieces = source.pieces(src), target.pieces(written), target.pieces(read)
    return AttentionReading(sentence, translation, *pieces, weights)


def _check_length(what: str, n_pieces: int) -> None:
    if n_pieces > MAX_PIECES:
        raise ConfigError(
            f"the {what} has {n_pieces} pieces: at most {MAX_PIECES} can be drawn legibly; give a shorter one."
        )
