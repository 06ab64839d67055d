"""Fine-tuning: what two vocabularies share is kept to the bit, whatever is tied; what is frozen stays."""

from __future__ import annotations

import fnmatch
import json
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.testing import assert_close

from data.vocabulary import UNK_ID, Vocabulary
from transformer.config import ModelSettings, TranslateSettings
from transformer.errors import RunError
from transformer.model import Transformer
from transformer.model_directory import DESCRIPTION, WEIGHTS, Model, new_network, save_model
from transformer.training.averaging import moving_average_copy, update_moving_average
from transformer.training.initialization import freeze, initialise_from

Tie = Literal["three_way", "target", "source_target", "none"]
Pair = tuple[Vocabulary, Vocabulary]
TIES: tuple[Tie, ...] = get_args(Tie)
NEED_ONE_VOCABULARY = ("three_way", "source_target")
TINY: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 2, "d_model": 16, "d_ff": 24, "n_heads": 2}

# In the order of precedence, least first.
USES = ("encoder.embedding.table.weight", "decoder.embedding.table.weight", "projection.weight")


def learn(lines: list[str], size: int, *tags: str) -> Vocabulary:
    return Vocabulary.learn(lines * 9, size=size, byte_fallback=False, tags=tags)


@pytest.fixture(scope="module")
def english() -> Vocabulary:
    return learn(["the cat sat on the mat", "the dog sang in the hall"], 32)


@pytest.fixture(scope="module")
def german() -> Vocabulary:
    return learn(["die katze sass auf der matte", "der hund sang im saal"], 36)


@pytest.fixture(scope="module")
def both() -> Vocabulary:
    """Joint, of other text: some pieces of it are English, some German, some neither; 'q' and 'w' are in neither."""
    lines = ["the rat sat in the wall", "the man sang", "die maus sass auf dem quark", "der mann sang im hall"]
    return learn(lines, 44, "<bt>")


def make_settings(**model: Any) -> ModelSettings:
    return ModelSettings(**TINY | model)


def save(directory: Path, src: Vocabulary, tgt: Vocabulary, **model: Any) -> Transformer:
    """A model in which no two numbers are equal, neither ones nor zeros."""
    settings = make_settings(**model)
    network = new_network(settings, src, tgt).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.5)
    directory.mkdir(parents=True, exist_ok=True)
    save_model(directory, Model(network, settings, TranslateSettings(), src, tgt, "en", "de"))
    return network


def start(directory: Path, src: Vocabulary, tgt: Vocabulary, **model: Any) -> tuple[Transformer, str]:
    settings = make_settings(**model)
    network = new_network(settings, src, tgt).eval()
    return network, initialise_from(directory, network, settings, src, tgt)


def refusal(directory: Path, src: Vocabulary, tgt: Vocabulary, **model: Any) -> str:
    with pytest.raises(RunError) as error:
        start(directory, src, tgt, **model)
    assert str(error.value).startswith("train.init_from: ")
    return str(error.value)


def strings(vocabulary: Vocabulary) -> list[str]:
    return vocabulary.all_pieces()


def tied_with(network: Transformer, use: str) -> list[str]:
    return [other for other in USES if network.get_parameter(other) is network.get_parameter(use)]


# --- what is kept ---


@pytest.mark.parametrize("joint", [True, False], ids=["joint vocabulary", "separate vocabularies"])
@pytest.mark.parametrize("tie", TIES)
def test_the_same_vocabulary_gives_the_same_network_to_the_bit(
    joint: bool, tie: Tie, tmp_path: Path, english: Vocabulary, german: Vocabulary
) -> None:
    if not joint and tie in NEED_ONE_VOCABULARY:
        pytest.skip("such networks have one vocabulary")  # Settings refuses two: a shared matrix has one row a piece
    vocabularies = (english, english) if joint else (english, german)
    old = save(tmp_path, *vocabularies, tie_embeddings=tie)
    new, report = start(tmp_path, *vocabularies, tie_embeddings=tie)
    assert_close(new.state_dict(), old.state_dict(), rtol=0, atol=0)
    ids = torch.randint(4, 30, (3, 5)), torch.randint(4, 30, (3, 6))
    assert torch.equal(new(*ids), old(*ids))
    src, tgt = (len(vocabulary) for vocabulary in vocabularies)
    assert report == (
        f"initialised from {tmp_path}: {src} of {src} source pieces and {tgt} of {tgt} target pieces keep their "
        "embeddings"
    )


@pytest.mark.parametrize("projection_bias", [False, True])
def test_the_same_pieces_in_another_order_give_the_same_logits(projection_bias: bool, tmp_path: Path) -> None:
    """Of letters only, in order of frequency."""
    old_vocabulary = learn(["a b b c c c d d d d"], 9)
    new_vocabulary = learn(["d c c b b b a a a a"], 9)
    pieces, place = strings(old_vocabulary), strings(new_vocabulary).index
    assert sorted(pieces) == sorted(strings(new_vocabulary)) != pieces
    moved = torch.tensor([place(piece) for piece in pieces])  # old id → new id

    old = save(tmp_path, old_vocabulary, old_vocabulary, projection_bias=projection_bias)
    new, report = start(tmp_path, new_vocabulary, new_vocabulary, projection_bias=projection_bias)
    src, tgt = torch.randint(4, 9, (3, 5)), torch.randint(4, 9, (3, 6))
    assert_close(new(moved[src], moved[tgt])[..., moved], old(src, tgt))
    assert "9 of 9 source pieces and 9 of 9 target pieces" in report


def test_sentences_of_shared_pieces_get_the_logits_they_had(
    tmp_path: Path, english: Vocabulary, both: Vocabulary
) -> None:
    old_ids, new_ids = strings(english), strings(both)
    shared = [piece for piece in old_ids if piece in new_ids]
    assert 4 < len(shared) < min(len(english), len(both))
    before = torch.tensor([old_ids.index(piece) for piece in shared])
    after = torch.tensor([new_ids.index(piece) for piece in shared])

    old = save(tmp_path, english, english)
    new, report = start(tmp_path, both, both)
    src, tgt = torch.randint(4, len(shared), (3, 5)), torch.randint(4, len(shared), (3, 6))
    assert_close(new(after[src], after[tgt])[..., after], old(before[src], before[tgt])[..., before])
    n = f"{len(shared)} of {len(both)}"
    assert report.endswith(f": {n} source pieces and {n} target pieces keep their embeddings")


def test_each_side_has_its_own_matches(tmp_path: Path, english: Vocabulary, german: Vocabulary) -> None:
    save(tmp_path, english, german, tie_embeddings="target")
    _, report = start(tmp_path, german, german, tie_embeddings="target")
    shared = len(set(strings(english)) & set(strings(german)))
    n = len(german)
    assert f"{shared} of {n} source pieces and {n} of {n} target pieces keep" in report


def make_cases() -> list[tuple[bool, Tie, Tie]]:
    """Every way to tie the old model, under one vocabulary or two, and the new one, under one vocabulary."""
    cases = product([True, False], TIES, TIES)
    return [(joint, old, new) for joint, old, new in cases if joint or old not in NEED_ONE_VOCABULARY]


@pytest.mark.parametrize(("joint", "old_tie", "new_tie"), make_cases())
def test_every_row_comes_from_the_use_that_goes_before_the_others(
    joint: bool, old_tie: Tie, new_tie: Tie, tmp_path: Path, english: Vocabulary, german: Vocabulary, both: Vocabulary
) -> None:
    old_vocabularies = dict(zip(USES, (english, english, english) if joint else (english, german, german), strict=True))
    old = save(tmp_path, english, english if joint else german, tie_embeddings=old_tie)
    new, report = start(tmp_path, both, both, tie_embeddings=new_tie)

    for use in USES:
        group = tied_with(new, use)
        for new_id, piece in enumerate(strings(both)):
            known = [other for other in group if piece in strings(old_vocabularies[other])]
            if known:
                old_id = strings(old_vocabularies[known[-1]]).index(piece)
                assert torch.equal(new.get_parameter(use)[new_id], old.get_parameter(known[-1])[old_id])
    joined = any(set(tied_with(new, use)) - set(tied_with(old, use)) for use in USES)
    assert (f"tie_embeddings {old_tie} → {new_tie} joins" in report) == joined
    assert "\n" not in report


def test_what_is_no_longer_tied_is_copied_to_each_use(tmp_path: Path, english: Vocabulary) -> None:
    old = save(tmp_path, english, english, tie_embeddings="three_way")
    new, _ = start(tmp_path, english, english, tie_embeddings="none")
    ids = torch.randint(4, 30, (3, 5)), torch.randint(4, 30, (3, 6))
    assert torch.equal(new(*ids), old(*ids))
    assert len({new.get_parameter(use).data_ptr() for use in USES}) == 3


# --- what is new ---


def test_a_new_piece_begins_as_the_mean_of_its_parts_or_as_it_was_drawn(
    tmp_path: Path, english: Vocabulary, both: Vocabulary
) -> None:
    old = save(tmp_path, english, english, tie_embeddings="none")
    settings = make_settings(tie_embeddings="none")
    new = new_network(settings, both, both)
    drawn = {use: new.get_parameter(use).detach().clone() for use in USES}
    initialise_from(tmp_path, new, settings, both, both)

    old_ids = {piece: old_id for old_id, piece in enumerate(strings(english))}
    kinds = {"kept": 0, "mean": 0, "drawn": 0}
    for new_id, piece in enumerate(strings(both)):
        (parts,) = english.encode(both.decode([[new_id]]))
        kind = "kept" if piece in old_ids else "mean" if parts and UNK_ID not in parts else "drawn"
        kinds[kind] += 1
        for use in USES:
            if kind == "drawn":
                expected = drawn[use][new_id]
            else:
                rows = [old_ids[piece]] if kind == "kept" else parts
                expected = old.get_parameter(use)[rows].mean(dim=0)
            assert_close(new.get_parameter(use)[new_id], expected)
    assert min(kinds.values()) > 0, kinds
    tag = both.tag_id("<bt>")
    assert torch.equal(new.get_parameter(USES[0])[tag], drawn[USES[0]][tag])


def test_a_tag_is_not_the_text_that_spells_it(tmp_path: Path, english: Vocabulary) -> None:
    """Both have the piece ▁the, but as a tag it is never found in text."""
    with_tag = learn(["cat sat on mat dog sang in hall"], 30, "▁the")
    assert "▁the" in strings(english)
    save(tmp_path, english, english)
    _, report = start(tmp_path, with_tag, with_tag)
    shared = (set(strings(english)) & set(strings(with_tag))) - {"▁the"}
    assert f"{len(shared)} of {len(with_tag)} source pieces" in report


def test_vocabularies_without_a_common_letter_share_the_special_pieces_only(
    tmp_path: Path, english: Vocabulary
) -> None:
    greek = learn(["αβγ αβ βγ"], 9)
    old = save(tmp_path, english, english)
    new, report = start(tmp_path, greek, greek)
    shared = 5  # pad, unk, bos, eos and ▁
    assert f"{shared} of {len(greek)} source pieces" in report
    assert torch.equal(new.encoder.embedding.table.weight[:4], old.encoder.embedding.table.weight[:4])


# --- how ---


def test_parameters_are_filled_where_they_are_and_no_random_number_is_drawn(
    tmp_path: Path, english: Vocabulary, both: Vocabulary
) -> None:
    """An optimizer or a moving average may hold them already; and a seed gives one order of the data."""
    save(tmp_path, english, english)
    settings = make_settings()
    network = new_network(settings, both, both)
    before, drawn = list(network.parameters()), torch.get_rng_state()
    initialise_from(tmp_path, network, settings, both, both)
    assert all(one is other for one, other in zip(network.parameters(), before, strict=True))
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in network.parameters())
    assert tied_with(network, USES[0]) == list(USES)
    assert torch.equal(torch.get_rng_state(), drawn)


def test_a_run_stands_for_its_model(tmp_path: Path, english: Vocabulary) -> None:
    save(tmp_path / "model", english, english)
    _, report = start(tmp_path, english, english)
    assert report.startswith(f"initialised from {tmp_path / 'model'}: ")


@pytest.mark.gpu
def test_a_network_on_the_gpu_is_filled_there(tmp_path: Path, english: Vocabulary, both: Vocabulary) -> None:
    save(tmp_path, english, english)
    settings = make_settings()
    torch.manual_seed(3)
    there = new_network(settings, both, both)
    torch.manual_seed(3)
    on_gpu = new_network(settings, both, both).cuda()
    for network in (there, on_gpu):
        initialise_from(tmp_path, network, settings, both, both)
    assert_close(on_gpu.cpu().state_dict(), there.state_dict(), rtol=0, atol=0)


# --- what is refused ---

OTHERS: dict[str, Any] = {
    "n_encoder_layers": 2,
    "n_decoder_layers": 1,
    "d_model": 32,
    "d_ff": 25,
    "n_heads": 4,
    "d_head": 6,
    "d_value": 10,
    "norm_position": "pre",
    "norm": "rms_norm",
    "norm_epsilon": 1e-5,
    "activation": "gelu",
    "positions": "rotary",
    "attention_bias": True,
    "projection_bias": True,
    "embedding_norm": True,
    "scaling": "projection",
}
HARMLESS: dict[str, Any] = {
    "dropout": 0.4,
    "attention_dropout": 0.2,
    "feed_forward_dropout": 0.3,
    "layer_drop": 0.1,
    "tie_embeddings": "target",
}


def test_every_setting_of_the_network_is_tested_here() -> None:
    assert OTHERS.keys() | HARMLESS.keys() == ModelSettings.model_fields.keys()


@pytest.mark.parametrize("key", OTHERS)
def test_a_model_that_differs_in_one_setting_is_refused_with_both_values_and_the_remedy(
    key: str, tmp_path: Path, english: Vocabulary
) -> None:
    save(tmp_path, english, english)
    message = refusal(tmp_path, english, english, **{key: OTHERS[key]})
    assert str(tmp_path) in message
    (line,) = [line for line in message.splitlines() if line.startswith("  model.")]
    assert line.startswith(f"  model.{key}: ")
    assert line.endswith(f" → {json.dumps(OTHERS[key])}")
    assert f"set model.{key}=" in message


def test_all_differences_are_named_at_once(tmp_path: Path, english: Vocabulary) -> None:
    save(tmp_path, english, english)
    message = refusal(tmp_path, english, english, **OTHERS)
    assert [line.partition(":")[0] for line in message.splitlines() if line.startswith("  ")] == [
        f"  model.{key}" for key in ModelSettings.model_fields if key in OTHERS
    ]
    assert "  model.d_model: 16 → 32\n" in message
    assert "  model.d_head: 8 → 6\n" in message  # what its null stands for
    assert '  model.norm_position: "post" → "pre"\n' in message
    assert "model.n_encoder_layers=1 model.n_decoder_layers=2 model.d_model=16 " in message


def test_a_refused_network_is_left_as_it_was(tmp_path: Path, english: Vocabulary) -> None:
    save(tmp_path, english, english)
    settings = make_settings(n_decoder_layers=3)
    network = new_network(settings, english, english)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(RunError, match="n_decoder_layers: 2 → 3"):
        initialise_from(tmp_path, network, settings, english, english)
    assert_close(network.state_dict(), before, rtol=0, atol=0)


def test_dropout_is_no_difference_and_null_is_what_it_stands_for(tmp_path: Path, english: Vocabulary) -> None:
    old = save(tmp_path, english, english)
    new, _ = start(tmp_path, english, english, **HARMLESS, d_head=8, d_value=8)
    ids = torch.randint(4, 30, (3, 5)), torch.randint(4, 30, (3, 6))
    assert torch.equal(new(*ids), old(*ids))


def test_where_there_is_no_model_the_setting_is_named(tmp_path: Path, english: Vocabulary) -> None:
    assert f"{tmp_path / 'nowhere'}: no such directory" in refusal(tmp_path / "nowhere", english, english)
    assert "has train.py saved a checkpoint yet?" in refusal(tmp_path, english, english)


@pytest.mark.parametrize("name", [WEIGHTS, "vocabulary.model", DESCRIPTION])
def test_a_truncated_file_is_named(name: str, tmp_path: Path, english: Vocabulary) -> None:
    save(tmp_path, english, english)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    assert str(tmp_path / name) in refusal(tmp_path, english, english)


def test_weights_put_in_the_place_of_others_are_refused(tmp_path: Path, english: Vocabulary) -> None:
    save(tmp_path, english, english)
    save_file({"weights": torch.ones(3)}, tmp_path / WEIGHTS)
    assert str(tmp_path / WEIGHTS) in refusal(tmp_path, english, english)


# --- frozen parts ---


def make_network(tie: Tie = "three_way") -> Transformer:
    return Transformer(make_settings(tie_embeddings=tie, dropout=0.0), 30, 30)


def train_a_little(network: Transformer) -> dict[str, Tensor]:
    """Returns how far each parameter went in two updates."""
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.1, weight_decay=0.1)
    for _ in range(2):
        network(torch.randint(4, 30, (3, 5)), torch.randint(4, 30, (3, 6))).square().mean().backward()
        optimizer.step()
    return {name: (parameter.detach() - before[name]).abs().max() for name, parameter in network.named_parameters()}


@pytest.mark.parametrize(
    "patterns",
    [
        ["encoder.*"],
        ["decoder.layers.0.*", "*norm*"],
        ["projection.weight"],
        ["*.bias"],
        ["decoder.layers.[01].f*"],
        [],
    ],
)
@pytest.mark.parametrize("tie", ["none", "target"])
def test_frozen_parameters_stay_and_all_others_move(patterns: list[str], tie: Tie) -> None:
    network = make_network(tie)
    freeze(network, patterns)
    names = dict(network.named_parameters(remove_duplicate=False))
    frozen = {id(p) for name, p in names.items() if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
    assert bool(frozen) == bool(patterns)
    for name, distance in train_a_little(network).items():
        assert (distance == 0) == (id(names[name]) in frozen), name


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("tie", TIES)
def test_a_tied_matrix_is_frozen_under_any_of_its_names(use: str, tie: Tie) -> None:
    network = make_network(tie)
    freeze(network, [use])
    assert [name for name in USES if not network.get_parameter(name).requires_grad] == tied_with(network, use)
    train_a_little(network)


def test_the_moving_average_of_a_frozen_part_stays_too() -> None:
    network = make_network("none")
    freeze(network, ["encoder.*"])
    average = moving_average_copy(network)
    before = {name: value.clone() for name, value in average.state_dict().items()}
    train_a_little(network)
    update_moving_average(average, network, step=1, decay=0.9)
    for name, value in average.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith("encoder."), name


def test_patterns_that_match_nothing_are_named_and_nothing_is_frozen() -> None:
    network = make_network()
    with pytest.raises(RunError) as error:
        freeze(network, ["encoder.*", "encodr.*", "Decoder.*", "encoder"])
    message = str(error.value)
    assert "like 'encodr.*', 'Decoder.*', 'encoder';" in message
    for name in list(dict(network.named_parameters()))[:5]:
        assert name in message
    assert all(parameter.requires_grad for parameter in network.parameters())


@pytest.mark.parametrize("patterns", [["*"], ["encoder.*", "decoder.*"]])
def test_something_must_be_left_to_train(patterns: list[str]) -> None:
    """The second: the projection is tied to what is frozen."""
    network = make_network()
    with pytest.raises(RunError, match=r"train\.freeze: .* freeze every parameter"):
        freeze(network, patterns)
    assert all(parameter.requires_grad for parameter in network.parameters())
