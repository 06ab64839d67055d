"""A Marian folder becomes a model directory that cuts text, computes and translates as transformers does with it."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from tests.transformer.inference.imports.conftest import ENGLISH, GERMAN, ODD, MakeMarian
from transformer.errors import RunError
from transformer.inference.imports.marian import import_marian
from transformer.inference.imports.marian_weights import interleaving
from transformer.inference.translator import Translator
from transformer.model_directory import Model, load_model, save_model

transformers = pytest.importorskip("transformers")
LINES = [*ENGLISH, *GERMAN, *ODD, "中国 и Путин abc", "K", "KH Katz"]


def strings(folder: Path) -> dict[int, str]:
    return {i: string for string, i in json.loads((folder / "vocab.json").read_text(encoding="utf-8")).items()}


def theirs_of(model: Model, folder: Path) -> list[int | None]:
    """Of each of our ids that is a row there, its number there."""
    rows: dict[str, int] = {string: i for i, string in strings(folder).items()}
    pieces = model.tgt_vocabulary.all_pieces()
    found = [rows.get(piece) for piece in pieces]
    start = json.loads((folder / "config.json").read_text())["decoder_start_token_id"]
    return [None, found[1], start, *found[3:]]


def test_text_is_cut_as_there_on_either_side(make_marian: MakeMarian) -> None:
    folder = make_marian()
    model, tokenizer, known = (
        import_marian(folder),
        transformers.MarianTokenizer.from_pretrained(folder),
        strings(folder),
    )
    for line in LINES:
        pieces = model.src_vocabulary.pieces(model.src_vocabulary.encode([line])[0])
        ours = [piece if piece in known.values() else "<unk>" for piece in pieces]  # which has its row: see below
        assert ours == [known[i] for i in tokenizer(line)["input_ids"]][:-1]
        target = [known[i] for i in tokenizer(text_target=line)["input_ids"]][:-1]
        if "<unk>" not in target:
            assert model.tgt_vocabulary.pieces(model.tgt_vocabulary.encode([line])[0]) == target
    assert sum("<unk>" in [known[i] for i in tokenizer(line)["input_ids"]] for line in ENGLISH) > 0


def test_what_is_not_in_vocab_json_is_read_as_unknown_and_never_written(make_marian: MakeMarian) -> None:
    folder = make_marian(bias=False)
    model = import_marian(folder)
    known, network = strings(folder).values(), model.network
    pieces = model.src_vocabulary.all_pieces()
    (extra,) = [i for i, piece in enumerate(pieces) if i > EOS_ID and piece not in known]
    table = network.encoder.embedding.table.weight
    assert torch.equal(table[extra], table[1])
    assert network.projection.bias.count_nonzero() == 1
    src, tgt = torch.randint(4, len(table), (3, 7)), torch.randint(4, len(table), (3, 5))
    assert network(src, tgt).softmax(-1)[..., extra].max() < 1e-12


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_function": "gelu", "scale_embedding": False, "decoder_layers": 3},
        {"tie_word_embeddings": False},
        {"d_model": 18, "bias": False},
    ],
    ids=str,
)
def test_logits_are_those_of_transformers(changes: dict[str, Any], make_marian: MakeMarian) -> None:
    folder = make_marian(**changes)
    model = import_marian(folder)
    theirs = transformers.MarianMTModel.from_pretrained(folder).eval()
    rows = theirs_of(model, folder)
    ids = [i for i, row in enumerate(rows) if row is not None and i != BOS_ID]
    src = torch.tensor([model.src_vocabulary.encode([line])[0][:9] for line in (ENGLISH[0], GERMAN[0])])
    src = torch.cat([src, torch.full((2, 1), EOS_ID)], 1)
    src[1, 7:] = torch.tensor([EOS_ID, PAD_ID, PAD_ID])
    tgt = torch.cat([torch.full((2, 1), BOS_ID), torch.tensor([ids[4:11], ids[9:16]])], 1)
    pad = theirs.config.pad_token_id
    there = torch.tensor([pad if row is None else row for row in rows])
    with torch.no_grad():
        expected = theirs(input_ids=there[src], attention_mask=src != PAD_ID, decoder_input_ids=there[tgt]).logits
        assert_close(model.network(src, tgt)[..., ids], expected[..., there[ids]], atol=1e-5, rtol=0)
    assert expected.std() > 0.3  # no comparison of nothing with nothing


@pytest.mark.parametrize("beam_size", [1, 3])
def test_translations_are_those_of_transformers(beam_size: int, make_marian: MakeMarian, tmp_path: Path) -> None:
    folder = make_marian()
    (tmp_path / "model").mkdir()
    save_model(tmp_path / "model", import_marian(folder))
    translator = Translator.load(tmp_path / "model", "cpu", beam_size=beam_size)
    theirs = transformers.MarianMTModel.from_pretrained(folder).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    lines = [line for line in LINES if line.strip()]
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    unknown = [[tokenizer.unk_token_id], *theirs.generation_config.bad_words_ids]  # <unk> is never written here
    ids = theirs.generate(**batch, num_beams=beam_size, early_stopping="never", bad_words_ids=unknown)
    assert translator.translate(lines) == tokenizer.batch_decode(ids, skip_special_tokens=True)
    assert (translator.src_lang, translator.tgt_lang) == ("en", "de")


def test_tables_of_each_language_are_imported_with_their_own_vocabularies(make_marian: MakeMarian) -> None:
    folder = make_marian(share_encoder_decoder_embeddings=False)
    shutil.copy(folder / "vocab.json", folder / "target_vocab.json")
    stated = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(stated | {"separate_vocabs": True}))
    weights = load_file(folder / "model.safetensors")
    assert not torch.equal(weights["model.encoder.embed_tokens.weight"], weights["model.decoder.embed_tokens.weight"])
    model = import_marian(folder)
    assert model.settings.tie_embeddings == "target"
    theirs = transformers.MarianMTModel.from_pretrained(folder).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(
        folder, separate_vocabs=True, target_vocab_file=str(folder / "target_vocab.json")
    )
    batch = tokenizer(ENGLISH[0], return_tensors="pt")
    src = torch.tensor([[*model.src_vocabulary.encode([ENGLISH[0]])[0], EOS_ID]])
    rows = theirs_of(model, folder)
    with torch.no_grad():
        start = torch.tensor([[theirs.config.decoder_start_token_id]])
        expected = theirs(**batch, decoder_input_ids=start).logits[0, 0]
        ours = model.network(src, torch.tensor([[BOS_ID]]))[0, 0]
    ids = [i for i, row in enumerate(rows) if row is not None and i > BOS_ID]
    assert_close(ours[ids], expected[[rows[i] for i in ids]], atol=1e-5, rtol=0)


def test_language_codes_become_tags(make_marian: MakeMarian) -> None:
    folder = make_marian()
    model = import_marian(folder)
    tag = model.src_vocabulary.tag_id(">>deu<<")
    assert tag == EOS_ID + 1
    tokenizer, known = transformers.MarianTokenizer.from_pretrained(folder), strings(folder)
    there = [known[i] for i in tokenizer(">>deu<< the cat")["input_ids"]]
    ours = model.src_vocabulary.pieces([tag, *model.src_vocabulary.encode(["the cat"])[0], EOS_ID])
    assert ours == there


@pytest.mark.parametrize("d_model", [2, 6, 7, 16])
def test_the_permutation_of_columns_turns_their_positions_into_ours(d_model: int) -> None:
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    from transformer.embeddings import sinusoidal_positions

    theirs = MarianSinusoidalPositionalEmbedding(9, d_model).create_weight()
    assert_close(theirs[:, interleaving(d_model)], sinusoidal_positions(9, d_model), atol=1e-5, rtol=0)


def test_an_imported_model_directory_is_a_model_directory_like_any_other(
    make_marian: MakeMarian, tmp_path: Path
) -> None:
    model = import_marian(make_marian())
    (tmp_path / "model").mkdir()
    save_model(tmp_path / "model", model)
    again = load_model(tmp_path / "model")
    assert_close(again.network.state_dict(), model.network.state_dict(), rtol=0, atol=0)
    assert again.translate.beam_size == 3


# --- what is refused ---


def refusal(folder: Path) -> str:
    with pytest.raises(RunError) as error:
        import_marian(folder)
    assert str(folder) in str(error.value)
    return str(error.value)


class Explosive:
    def __reduce__(self) -> tuple[Any, ...]:
        raise AssertionError


@pytest.mark.parametrize("name", ["with 'odd' \"name\" $HOME", "a`touch pwned`b $(touch pwned) \\"])
def test_a_pickle_is_never_opened_and_the_command_that_converts_it_is_named(
    make_marian: MakeMarian, name: str, tmp_path: Path
) -> None:
    folder = make_marian(name=name)
    expected = load_file(folder / "model.safetensors")
    torch.save(expected, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    message = refusal(folder)
    assert "model.safetensors is missing" in message and "pytorch_model.bin is a pickle" in message
    (command,) = [line for line in message.splitlines() if line.startswith("python -c")]
    subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True, cwd=tmp_path)
    assert not (tmp_path / "pwned").exists()
    assert_close(load_file(folder / "model.safetensors"), expected, rtol=0, atol=0)


def test_a_pickle_in_the_place_of_safetensors_is_damage(make_marian: MakeMarian) -> None:
    folder = make_marian()
    (folder / "model.safetensors").write_bytes(pickle.dumps({"model.shared.weight": [1.0]}))
    assert "damaged" in refusal(folder)


def test_all_missing_files_are_named_at_once(make_marian: MakeMarian) -> None:
    folder = make_marian()
    for name in ("source.spm", "vocab.json", "model.safetensors"):
        (folder / name).unlink()
    assert "model.safetensors, vocab.json, source.spm are missing" in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "bart"}, ["model_type is 'bart'", "'marian'"]),
        ({"model_type": None}, ["model_type is None"]),
        ({"activation_function": "tanh"}, ["activation_function: 'tanh'"]),
        ({"activation_function": ["relu"], "decoder_ffn_dim": 7}, ["activation_function", "ffn_dim: 24", "and 7"]),
        ({"encoder_layers": -1, "d_model": "wide"}, ["n_encoder_layers", "d_model"]),
        ({"decoder_start_token_id": 10**6}, ["decoder_start_token_id", "1000000"]),
        ({"pad_token_id": None}, ["pad_token_id", "None"]),
        ({"decoder_start_token_id": None}, ["decoder_start_token_id", "None"]),
        ({"encoder_layers": 9}, ["lacks model.encoder.layers.2.self_attn.q_proj.weight"]),
        ({"d_model": 8}, ["the network needs"]),
        ({"d_model": 100}, ["other shapes", "config.json"]),
        ({"encoder_ffn_dim": 30, "decoder_ffn_dim": 30}, ["the network needs"]),
    ],
    ids=str,
)
def test_a_configuration_that_cannot_be_kept_is_refused(
    changes: dict[str, Any], words: list[str], make_marian: MakeMarian
) -> None:
    folder = make_marian()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    message = refusal(folder)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"\xff", b"[" * 100_000, b'{"source_lang": "\\ud800"}', b'{"\\udfff": 0}'],
    ids=["cut", "list", "bytes", "deep", "half", "half key"],
)
def test_damaged_json_is_named(name: str, content: bytes, make_marian: MakeMarian) -> None:
    folder = make_marian()
    (folder / name).write_bytes(content)
    assert name in refusal(folder)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"the": 10**6}, "different whole numbers"),
        ({"the": 1}, "different whole numbers"),
        ({"the": [1]}, "different whole numbers"),
        ({"the": True}, "different whole numbers"),
        ({"</s>": None}, "different whole numbers"),
    ],
)
def test_ids_that_are_no_rows_are_refused(entry: dict[str, Any], words: str, make_marian: MakeMarian) -> None:
    folder = make_marian()
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    (folder / "vocab.json").write_text(json.dumps(vocab | entry))
    assert words in refusal(folder)


def test_paths_in_the_files_lead_nowhere(make_marian: MakeMarian, tmp_path: Path) -> None:
    folder = make_marian()
    for name in ("config.json", "tokenizer_config.json"):
        content = json.loads((folder / name).read_text())
        hostile = {
            "_name_or_path": "/etc/passwd",
            "vocab_file": "../../secret",
            "auto_map": {"AutoModel": "x--evil.py"},
        }
        (folder / name).write_text(json.dumps(content | hostile))
    assert import_marian(folder).src_lang == "en"


def test_a_damaged_sentencepiece_model_is_named(make_marian: MakeMarian) -> None:
    folder = make_marian()
    (folder / "source.spm").write_bytes(b"\xff\xff")
    assert "source.spm" in refusal(folder)


def test_half_precision_is_read(make_marian: MakeMarian) -> None:
    folder = make_marian()
    weights = load_file(folder / "model.safetensors")
    save_file({name: tensor.half() for name, tensor in weights.items()}, folder / "model.safetensors")
    assert import_marian(folder).network.projection.weight.dtype == torch.float32
