"""A checkpoint of the seed repository becomes a model directory with its logits, of text cut into its words."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from data.vocabulary import BOS_ID, EOS_ID
from tests.transformer.test_seed_repository import COMBINATIONS, Options, Weights, logits_there, random_weights
from transformer.errors import RunError
from transformer.inference.imports.seed import BEGIN, import_seed
from transformer.inference.translator import Translator
from transformer.model_directory import save_model

WORDS = ["<unk>", "<blank>", "<s>", "</s>", "the", "cat", "sat", ".", "auf", "matte", "k@@", "atze", "<begin>"]


def write(
    directory: Path, options: Options, weights: Weights, words: tuple[list[str], list[str]], **changes: Any
) -> Any:
    """What its train.py saves, and the lists that the command in the error message writes."""
    settings = argparse.Namespace(
        d_model=options.d_model,
        d_inner_hid=options.d_inner,
        n_layers=options.n_layers,
        n_head=options.n_head,
        d_k=options.d_k,
        d_v=options.d_v,
        dropout=0.1,
        proj_share_weight=options.trg_emb_prj_weight_sharing,
        embs_share_weight=options.emb_src_trg_weight_sharing,
        scale_emb_or_prj=options.scale_emb_or_prj,
        src_pad_idx=1,
        trg_pad_idx=1,
        cuda=False,
        save_mode="best",
    )
    for name, value in changes.items():
        delattr(settings, name) if value is None else setattr(settings, name, value)
    torch.save(
        {"epoch": 3, "settings": settings, "model": {n: w.float() for n, w in weights.items()}},
        directory / "model.chkpt",
    )
    for side, of_side in zip(("src", "trg"), words, strict=True):
        (directory / f"{side}.json").write_text(json.dumps(of_side))
    return directory / "model.chkpt", directory / "src.json", directory / "trg.json"


@pytest.mark.parametrize(
    "options", COMBINATIONS, ids=lambda options: "-".join(map(str, list(vars(options).values())[:3]))
)
def test_logits_are_those_of_its_network(options: Options, tmp_path: Path) -> None:
    weights = random_weights(options)
    model = import_seed(*write(tmp_path, options, weights, (WORDS, WORDS)))
    assert model.settings.dropout == 0.1
    line, target = "the matte sat nowhere k@@ atze .", "auf the cat ."
    ids = model.src_vocabulary.encode([line])[0]
    tag = model.src_vocabulary.tag_id(BEGIN)
    assert tag is not None
    src = torch.tensor([[tag, *ids, EOS_ID]])
    tgt = torch.tensor([[BOS_ID, *model.tgt_vocabulary.encode([target])[0]]])
    there = [WORDS.index(word) if word in WORDS else 0 for word in ["<s>", *line.split(), "</s>"]]
    expected = logits_there(
        {name: tensor.float().double() for name, tensor in weights.items()},
        options,
        torch.tensor([there]),
        torch.tensor([[WORDS.index(word) for word in ["<s>", *target.split()]]]),
    )
    logits = model.network.double()(src, tgt)
    assert_close(
        logits[0, :, ours(model.tgt_vocabulary.all_pieces())],
        expected[0],
        atol=1e-5,
        rtol=0,
    )
    if len(model.tgt_vocabulary) > len(WORDS):
        assert logits.softmax(-1)[..., EOS_ID + 1].max() < 1e-9


def ours(pieces: list[str]) -> list[int]:
    """Of each of WORDS, its id here."""
    return [pieces.index(word if word in ("<unk>", "<blank>", "<s>", "</s>") else f"▁{word}") for word in WORDS]


def test_it_translates_words_into_words(tmp_path: Path) -> None:
    options = Options(True, False, "prj", n_src_vocab=13, n_trg_vocab=9)
    model = import_seed(*write(tmp_path, options, random_weights(options), (WORDS, WORDS[:9])))
    assert (len(model.src_vocabulary), len(model.tgt_vocabulary)) == (14, 9)
    (tmp_path / "model").mkdir()
    save_model(tmp_path / "model", model)
    translator = Translator.load(tmp_path / "model", "cpu", min_length=3)
    (line,) = translator.translate(["the cat sat ."])
    assert line and set(line.split()) <= set(WORDS[4:9])


def load(tmp_path: Path, **changes: Any) -> str:
    options = Options(True, True, "prj")
    paths = write(tmp_path, options, random_weights(options), (WORDS, WORDS), **changes)
    with pytest.raises(RunError) as error:
        import_seed(*paths)
    return str(error.value)


def test_older_revisions_are_named_as_such(tmp_path: Path) -> None:
    assert "its settings lack scale_emb_or_prj" in load(tmp_path, scale_emb_or_prj=None)


def test_settings_that_do_not_fit_the_weights_are_refused(tmp_path: Path) -> None:
    assert "the network needs" in load(tmp_path, d_k=7)
    assert "lacks encoder.layer_stack.2" in load(tmp_path, n_layers=3)
    assert "n_heads" in load(tmp_path, n_head=0)


class Explosive:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("exploded"),))


def test_what_is_more_than_tensors_and_options_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    message = load(tmp_path, save_mode=Explosive())
    assert "not loaded here" in message
    assert not Path("exploded").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x04]\x94."], ids=["empty", "zip", "list"])
def test_damaged_files_are_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.chkpt").write_bytes(content)
    with pytest.raises(RunError, match=r"model\.chkpt: not a checkpoint"):
        import_seed(tmp_path / "model.chkpt", tmp_path / "src.json", tmp_path / "trg.json")


def test_other_checkpoints_are_told_apart(tmp_path: Path) -> None:
    torch.save({"state_dict": {}}, tmp_path / "model.chkpt")
    with pytest.raises(RunError, match="which holds 'model' and 'settings'"):
        import_seed(tmp_path / "model.chkpt", tmp_path / "src.json", tmp_path / "trg.json")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (WORDS[1:], "not a list of all words"),
        ([*WORDS, 5], "not a list of all words"),
        ([*WORDS, "\ud800"], "cannot be read as JSON"),
        ({"the": 1}, "not a list of all words"),
        ([*WORDS, "mouse"], "13 rows, but the list has 14 words"),
        ([*WORDS[:-1], "cat"], "twice the same"),
    ],
)
def test_lists_that_are_not_its_vocabulary_are_refused(words: Any, message: str, tmp_path: Path) -> None:
    options = dataclasses.replace(Options(True, False, "prj"))
    paths = write(tmp_path, options, random_weights(options), (words, WORDS))
    with pytest.raises(RunError, match=message):
        import_seed(*paths)


def test_languages_that_share_a_table_have_one_list(tmp_path: Path) -> None:
    options = Options(True, True, "prj")
    paths = write(tmp_path, options, random_weights(options), (WORDS, [*WORDS[:4], *WORDS[:3:-1]]))
    with pytest.raises(RunError, match="these lists differ"):
        import_seed(*paths)
