"""Fine-tuning: training starts from the weights of another model, and leaves parts of the network as they are.

So a trained model is taken to another kind of text or another language pair (Zoph et al. 2016; Kocmi & Bojar 2018).
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from data.vocabulary import EOS_ID, UNK_ID, Vocabulary
from transformer.config import ModelSettings
from transformer.errors import RunError
from transformer.model import Transformer
from transformer.model_directory import find_model, load_model

# The matrices that have a row for each piece. Where a network ties some that the other model has apart, the rows of
# the later one remain: a tied matrix comes to resemble the output projection of a network without ties more than its
# embeddings (Press & Wolf 2017), and a mean of rows that were never near each other would be neither.
SRC_EMBEDDING = "encoder.embedding.table.weight"
TGT_EMBEDDING = "decoder.embedding.table.weight"
PROJECTION = "projection.weight"
PROJECTION_BIAS = "projection.bias"

# All else changes what the network computes, also where shapes stay equal, as they do with other n_heads.
MAY_DIFFER = {"dropout", "attention_dropout", "feed_forward_dropout", "layer_drop", "tie_embeddings"}


class Matches(NamedTuple):
    """Which rows of an old vocabulary the ids of a new one begin with."""

    same: dict[int, int]  # new id → the old id of the same piece
    parts: dict[int, list[int]]  # new id of a new piece → the old ids of its text


@torch.no_grad()
def initialise_from(
    path: Path,
    network: Transformer,
    model_settings: ModelSettings,
    src_vocabulary: Vocabulary,
    tgt_vocabulary: Vocabulary,
) -> str:
    """Copy the weights of a run or model directory into a fresh network, whose vocabularies may be others.

    On each side a piece that both vocabularies have keeps its row, in embedding and projection. A new piece begins with
    the mean of the rows of the pieces into which the old vocabulary cuts its text (Gee et al. 2022, "Fast Vocabulary
    Transfer"); as the text is cut on its own, a piece from inside words is cut as if it began one. What has no text
    (tags, bytes) or unknown characters stays as it was drawn. Matrices may be tied otherwise than in the old model.

    The network's parameters are filled, not replaced, on whichever device they are. Draws no random numbers. Returns
    one line that says what was kept.

    Raises:
        RunError: there is no such model, it is damaged, or it differs in a setting that changes what a network
            computes; the message names all that differ.
    """
    try:
        directory = find_model(path)
        old = load_model(directory)
    except RunError as error:
        raise RunError(f"train.init_from: {error}") from error
    _refuse_other_network(directory, old.settings, model_settings)

    src = match_pieces(old.src_vocabulary, src_vocabulary)
    tgt = match_pieces(old.tgt_vocabulary, tgt_vocabulary)
    by_piece = {SRC_EMBEDDING: src, TGT_EMBEDDING: tgt, PROJECTION: tgt}
    if model_settings.projection_bias:
        by_piece[PROJECTION_BIAS] = tgt
    weights = old.network.state_dict()
    missing, unexpected = network.load_state_dict({n: w for n, w in weights.items() if n not in by_piece}, strict=False)
    assert set(missing) == set(by_piece) and not unexpected, "equal settings make equal networks"
    for name, matches in by_piece.items():  # before the others: in a tied matrix a piece may be new to one side only
        table, old_table = network.get_parameter(name), weights[name]
        for new_id, parts in matches.parts.items():
            table[new_id] = old_table[parts].mean(dim=0)
    for name, matches in by_piece.items():
        table, old_table = network.get_parameter(name), weights[name]
        table[list(matches.same)] = old_table[list(matches.same.values())].to(table.device)

    kept = (
        f"{len(src.same):,} of {len(src_vocabulary):,} source pieces and "
        f"{len(tgt.same):,} of {len(tgt_vocabulary):,} target pieces"
    )
    return f"initialised from {directory}: {kept} keep their embeddings" + _tied_anew(old.network, network)


def match_pieces(old: Vocabulary, new: Vocabulary) -> Matches:
    """Find every piece of `new` in `old`, or what the old vocabulary makes of its text."""
    old_ids = {identity: old_id for old_id, identity in enumerate(_identities(old))}
    same = {i: old_ids[identity] for i, identity in enumerate(_identities(new)) if identity in old_ids}
    unmatched = [i for i in range(len(new)) if i not in same]
    cuts = old.encode(new.decode([[i] for i in unmatched]))
    parts = {i: cut for i, cut in zip(unmatched, cuts, strict=True) if cut and UNK_ID not in cut}
    return Matches(same, parts)


def freeze(network: Transformer, patterns: Sequence[str]) -> None:
    """Leave out of training every parameter that has a name like one of the patterns, such as `decoder.layers.0.*`.

    In a pattern `*` stands for any characters, dots included, `?` for one, `[ab]` for one of these. A tied matrix has
    several names and is one parameter: with three_way, `encoder.*` freezes target embedding and projection too. Dropout
    goes on in frozen parts.

    Raises:
        RunError: a pattern is like no name, or nothing is left to train; nothing is frozen then.
    """
    parameters = dict(network.named_parameters(remove_duplicate=False))
    if unmatched := [pattern for pattern in patterns if not fnmatch.filter(parameters, pattern)]:
        raise RunError(
            f"train.freeze: no parameter has a name like {', '.join(map(repr, unmatched))}; of the {len(parameters)} "
            f"names the first are {', '.join(list(parameters)[:5])}; 'encoder.*' means all that begin with 'encoder.'"
        )
    names = {name for pattern in patterns for name in fnmatch.filter(parameters, pattern)}
    frozen = {id(parameters[name]) for name in names}
    if all(id(parameter) in frozen for parameter in network.parameters()):
        raise RunError(
            f"train.freeze: {', '.join(map(repr, patterns))} freeze every parameter, and leave nothing to train: "
            "remove a pattern (a tied matrix is frozen under any of its names)"
        )
    for name in names:
        parameters[name].requires_grad_(False)


def _identities(vocabulary: Vocabulary) -> list[Hashable]:
    """By id, what makes two pieces the same: pad, unk, bos and eos their id, others their string.

    A tag `<bt>` is not the text `<bt>`.
    """
    pieces = vocabulary.all_pieces()
    return [i if i <= EOS_ID else (piece, i < vocabulary.n_special) for i, piece in enumerate(pieces)]


def _refuse_other_network(directory: Path, old: ModelSettings, new: ModelSettings) -> None:
    there, here = (
        s.model_dump(exclude=MAY_DIFFER) | {"d_head": s.key_width, "d_value": s.value_width} for s in (old, new)
    )
    differing = [
        key
        for key in here
        if there[key] != here[key] and getattr(old, key) != getattr(new, key)  # a null that others decide is no cause
    ]
    if differing:
        lines = "\n".join(f"  model.{key}: {json.dumps(there[key])} → {json.dumps(here[key])}" for key in differing)
        overrides = " ".join(f"model.{key}={json.dumps(there[key])}" for key in differing)
        raise RunError(
            f"train.init_from: {directory} is another network (there → now):\n{lines}\n"
            f"Its weights fit only a network like it: set {overrides}, or remove train.init_from."
        )


def _tied_anew(old: Transformer, new: Transformer) -> str:
    """What the line about a new start adds when matrices are tied now that were not."""
    names = (SRC_EMBEDDING, TGT_EMBEDDING, PROJECTION)
    pairs = {(id(new.get_parameter(name)), id(old.get_parameter(name))) for name in names}
    if len(pairs) == len({now for now, _ in pairs}):
        return ""
    return (
        f"; where tie_embeddings {old.settings.tie_embeddings} → {new.settings.tie_embeddings} joins matrices, "
        "the output projection's rows go before the target embedding's, and these before the source embedding's"
    )
