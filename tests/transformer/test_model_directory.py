"""The model directory: what goes in comes out, and nothing that is damaged, newer or hostile is taken for a model."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from data.vocabulary import Vocabulary
from transformer.config import ModelSettings, Settings, TranslateSettings
from transformer.config_file import save_settings
from transformer.errors import RunError
from transformer.files import sha256_of
from transformer.model_directory import (
    DESCRIPTION,
    WEIGHTS,
    Model,
    distinct,
    find_model,
    load_model,
    load_weights,
    new_network,
    save_model,
    vocabulary_hashes,
    write_card,
)

Tie = Literal["three_way", "target", "source_target", "none"]
TINY: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 2, "d_model": 32, "d_ff": 48, "n_heads": 2}


@pytest.fixture(scope="module")
def vocabularies() -> tuple[Vocabulary, Vocabulary]:
    """Two of different sizes."""
    src = Vocabulary.learn(["the cat sat", "the dog sang"] * 9, size=30, byte_fallback=False)
    return src, Vocabulary.learn(["die katze sass", "der hund sang"] * 9, size=40, byte_fallback=False)


def make_model(src: Vocabulary, tgt: Vocabulary, **model: Any) -> Model:
    chosen = ModelSettings(**TINY | model)
    network = new_network(chosen, src, tgt).eval()
    translate = TranslateSettings(beam_size=7, alpha=0.1 + 0.2, length_penalty="average")
    return Model(network, chosen, translate, src, tgt, "en", "de")


@pytest.fixture
def saved(tmp_path: Path, vocabularies: tuple[Vocabulary, Vocabulary]) -> Path:
    """A model directory with a joint vocabulary."""
    directory = tmp_path / "model"
    directory.mkdir()
    save_model(directory, make_model(vocabularies[0], vocabularies[0]))
    return directory


def edit(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the description, as somebody with an editor could."""
    description = json.loads((directory / DESCRIPTION).read_text())
    change(description)
    (directory / DESCRIPTION).write_text(json.dumps(description))


def replace_weights(directory: Path, weights: dict[str, torch.Tensor]) -> None:
    """Other weights, with the checksum that belongs to them."""
    save_file(weights, directory / WEIGHTS)
    edit(directory, lambda d: d["sha256"].update({WEIGHTS: sha256_of(directory / WEIGHTS)}))


def refusal(path: Path) -> str:
    with pytest.raises(RunError) as error:
        load_model(path)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- there and back ---


@pytest.mark.parametrize("joint", [True, False], ids=["joint vocabulary", "separate vocabularies"])
@pytest.mark.parametrize("tie", ["three_way", "target", "source_target", "none"])
def test_a_model_comes_back_with_bitwise_equal_logits(
    joint: bool, tie: Tie, tmp_path: Path, vocabularies: tuple[Vocabulary, Vocabulary]
) -> None:
    if not joint and tie in ("three_way", "source_target"):
        pytest.skip("such networks have one vocabulary")  # Settings refuses two: a shared matrix has one row a piece
    src, tgt = (vocabularies[0], vocabularies[0]) if joint else vocabularies
    model = make_model(src, tgt, tie_embeddings=tie)
    save_model(tmp_path, model)
    found = load_model(tmp_path)

    ids = torch.randint(4, 30, (3, 5)), torch.randint(4, len(tgt), (3, 6))
    assert torch.equal(found.network(*ids), model.network(*ids))
    assert (found.settings, found.translate) == (model.settings, model.translate)
    assert (found.src_vocabulary.hash, found.tgt_vocabulary.hash) == (src.hash, tgt.hash)
    assert (found.src_lang, found.tgt_lang) == ("en", "de")
    assert vocabulary_hashes(tmp_path) == (src.hash, tgt.hash)
    names = {"vocabulary.model"} if joint else {"src.model", "tgt.model"}
    assert {path.name for path in tmp_path.iterdir()} == {WEIGHTS, DESCRIPTION, "README.md", *names}


def test_whoever_may_read_the_folder_may_read_all_files_of_it(saved: Path) -> None:
    assert {path.stat().st_mode & 0o777 for path in saved.iterdir()} == {saved.stat().st_mode & 0o666}


@pytest.mark.parametrize(("tie", "n_matrices"), [("three_way", 1), ("target", 2), ("source_target", 2), ("none", 3)])
def test_tied_matrices_are_stored_once_and_tied_again(
    tie: Tie, n_matrices: int, tmp_path: Path, vocabularies: tuple[Vocabulary, Vocabulary]
) -> None:
    save_model(tmp_path, make_model(vocabularies[0], vocabularies[0], tie_embeddings=tie))
    size = torch.Size([len(vocabularies[0]), 32])
    assert sum(tensor.shape == size for tensor in load_file(tmp_path / WEIGHTS).values()) == n_matrices
    network = load_model(tmp_path).network
    uses = [network.encoder.embedding.table.weight, network.decoder.embedding.table.weight, network.projection.weight]
    assert len({id(use) for use in uses}) == n_matrices


def test_a_loaded_model_is_ready_to_translate(saved: Path) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    network = load_model(saved).network
    assert torch.equal(torch.get_rng_state(), before)
    assert not network.training
    assert {(p.device.type, p.dtype) for p in network.parameters()} == {("cpu", torch.float32)}


def test_given_weights_replace_the_networks_own(tmp_path: Path, vocabularies: tuple[Vocabulary, Vocabulary]) -> None:
    model = make_model(*vocabularies, tie_embeddings="target")
    own = distinct(model.network, model.network.state_dict())
    weights = {name: tensor + 1 for name, tensor in own.items()}
    save_model(tmp_path, model, weights)
    network = load_model(tmp_path).network
    assert_close(distinct(network, network.state_dict()), weights, rtol=0, atol=0)


def test_the_card_says_what_it_is(saved: Path) -> None:
    card = (saved / "README.md").read_text()
    n_parameters = sum(parameter.numel() for parameter in load_model(saved).network.parameters())
    for words in ("en → de", "1 + 2 layers", f"{n_parameters:,} parameters", "translate.py --model"):
        assert words in card


def test_settings_of_the_search_may_be_edited_by_hand(saved: Path) -> None:
    edit(saved, lambda description: description["translate"].update(beam_size=2))
    assert load_model(saved).translate.beam_size == 2


# --- where a model is found ---


def test_a_run_stands_for_its_model_else_its_best_else_its_last_checkpoint(tmp_path: Path) -> None:
    for place in ("checkpoints/last", "checkpoints/best", "model", "."):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / DESCRIPTION).touch()
        assert find_model(tmp_path) == tmp_path / place


def test_where_there_is_no_model_the_message_says_what_was_looked_for(tmp_path: Path) -> None:
    assert "no such directory" in refusal(tmp_path / "nowhere")
    (tmp_path / "model").mkdir()
    assert "has train.py saved a checkpoint yet?" in refusal(tmp_path)


# --- what is refused ---


def test_a_newer_format_asks_for_a_newer_program(saved: Path) -> None:
    edit(saved, lambda description: description.update(format=99, something_new=1))
    message = refusal(saved)
    assert str(saved / DESCRIPTION) in message
    assert "format 99" in message
    assert "update the program" in message


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "longer", "a flipped bit"])
@pytest.mark.parametrize("name", [WEIGHTS, "vocabulary.model"])
def test_a_damaged_file_is_named(damage: str, name: str, saved: Path) -> None:
    content = (saved / name).read_bytes()
    flipped = bytearray(content)
    flipped[random.randrange(len(content))] ^= 1 << random.randrange(8)
    damaged = {"empty": b"", "truncated": content[: len(content) // 2], "longer": content + b"\0"}
    (saved / name).write_bytes(damaged.get(damage, bytes(flipped)))
    if damage == "missing":
        (saved / name).unlink()
    assert str(saved / name) in refusal(saved)


@pytest.mark.parametrize(
    "model", [{"d_ff": 40}, {"n_decoder_layers": 1}, {"n_decoder_layers": 3}, {"norm": "rms_norm"}]
)
def test_weights_of_another_network_are_refused_by_name(
    model: dict[str, Any], saved: Path, vocabularies: tuple[Vocabulary, Vocabulary]
) -> None:
    edit(saved, lambda description: description["model"].update(model))
    message = refusal(saved)
    assert str(saved / WEIGHTS) in message
    stored = load_file(saved / WEIGHTS)
    needed = dict(make_model(vocabularies[0], vocabularies[0], **model).network.named_parameters())
    different = {n for n in stored.keys() | needed.keys() if n not in stored or n not in needed}
    different |= {n for n in stored.keys() & needed.keys() if stored[n].shape != needed[n].shape}
    named = [name for name in different if f"{name} is" in message]
    assert 0 < len(named) == min(5, len(different))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.bfloat16, torch.float64])
def test_numbers_of_another_kind_are_refused(dtype: torch.dtype, saved: Path) -> None:
    weights = load_file(saved / WEIGHTS)
    weights["encoder.embedding.table.weight"] = weights["encoder.embedding.table.weight"].to(dtype)
    replace_weights(saved, weights)
    assert f"encoder.embedding.table.weight is {dtype}" in refusal(saved)


def test_weights_that_are_no_safetensors_are_refused(saved: Path) -> None:
    (saved / WEIGHTS).write_bytes(b"\x80\x04\x95" + b"pickle" * 9)
    edit(saved, lambda d: d["sha256"].update({WEIGHTS: sha256_of(saved / WEIGHTS)}))
    assert str(saved / WEIGHTS) in refusal(saved)


def test_a_vocabulary_that_is_none_is_refused(saved: Path) -> None:
    (saved / "vocabulary.model").write_bytes(b"not a vocabulary")
    edit(saved, lambda d: d["sha256"].update({"vocabulary.model": sha256_of(saved / "vocabulary.model")}))
    assert str(saved / "vocabulary.model") in refusal(saved)


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "sub/../../secret", ".", "", "README.md", "model.json", "src.model"]
)
def test_the_description_names_no_file_but_those_of_a_model(name: str, saved: Path) -> None:
    """A path out of the directory would let a stranger's model look at other files."""
    (saved.parent / "secret").write_text("x")
    edit(saved, lambda description: description["sha256"].update({name: "0" * 64}))
    message = refusal(saved)
    assert message.startswith(f"{saved / DESCRIPTION}: not the description of a model")
    with pytest.raises(RunError):
        vocabulary_hashes(saved)


@pytest.mark.parametrize("name", [WEIGHTS, "vocabulary.model"])
def test_a_file_without_a_checksum_is_not_trusted(name: str, saved: Path) -> None:
    edit(saved, lambda description: description["sha256"].pop(name))
    assert str(saved / DESCRIPTION) in refusal(saved)
    with pytest.raises(RunError):
        vocabulary_hashes(saved)


HOSTILE = ["", "[]", "null", "1e999", "[" * 100_000, '{"format": ' + "1" * 5000 + "}", '{"format": "1"}', "\0", "\xff"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_description_that_is_none_is_refused(text: str, saved: Path) -> None:
    (saved / DESCRIPTION).write_bytes(text.encode("latin-1"))
    assert str(saved / DESCRIPTION) in refusal(saved)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(["format", "model", "translate", "sha256"]), value=JSON)
def test_any_other_value_in_the_description_is_refused_with_one_sentence(key: str, value: Any, saved: Path) -> None:
    original = (saved / DESCRIPTION).read_text()
    edit(saved, lambda description: description.update({key: value}))
    try:
        load_model(saved)
    except RunError as error:
        assert str(saved) in str(error)
        assert "\n" not in str(error)
    else:  # what means the same, or the defaults, which do not fit these weights but for translate
        assert key in ("format", "translate")
    finally:
        (saved / DESCRIPTION).write_text(original)


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("model", {"d_model": -1}),
        ("model", {"d_model": "32"}),
        ("model", {"n_heads": 5}),
        ("model", {"unknown": 1}),
        ("model", {"d_model": 10**9, "d_ff": 10**9}),
        ("model", {"n_heads": 10**9, "d_head": 10**9}),
        ("translate", {"alpha": "high"}),
    ],
)
def test_impossible_settings_are_refused_by_name(section: str, change: dict[str, Any], saved: Path) -> None:
    edit(saved, lambda description: description[section].update(change))
    message = refusal(saved)
    assert message.startswith(f"{saved / DESCRIPTION}: not the settings of a ")


def test_loading_weights_into_a_network_that_trains_keeps_its_parameters(
    vocabularies: tuple[Vocabulary, Vocabulary], tmp_path: Path
) -> None:
    """An optimizer holds them: they are filled, not replaced."""
    one, other = (make_model(*vocabularies, tie_embeddings="target").network for _ in range(2))
    before = [id(parameter) for parameter in one.parameters()]
    load_weights(one, dict(other.named_parameters()), tmp_path)
    assert [id(parameter) for parameter in one.parameters()] == before
    assert_close(one.state_dict(), other.state_dict(), rtol=0, atol=0)


def test_text_that_is_no_text_does_not_keep_the_card_from_being_written(saved: Path, tmp_path: Path) -> None:
    """A lone half of a pair of surrogates, as JSON may hold it."""
    (tmp_path / "translations").mkdir()
    (tmp_path / "translations" / "test.json").write_text('{"test_set": "\\ud800", "metrics": {"bleu": {"score": 1}}}')
    save_settings(Settings(name="a-run"), tmp_path / "settings.yaml")
    write_card(saved, tmp_path)
    assert "| ? | None | 1.0 |" in (saved / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", [5, None, [], {"en": 1}])
def test_a_language_that_is_no_text_is_refused(saved: Path, language: Any) -> None:
    edit(saved, lambda d: d.update(src_lang=language))
    with pytest.raises(RunError, match="the languages are no text"):
        load_model(saved)
