from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transformer.config import Settings
from transformer.config_corpora import FileCorpus, HubCorpus
from transformer.config_file import CONFIGS, differences, find_config, load_config, save_settings, section_overrides
from transformer.config_schema import SECTIONS
from transformer.errors import ConfigError

Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a config and returns its path."""

    def write_config(content: str | bytes) -> Path:
        path = tmp_path / "my.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_config


def _refusal(config: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(config, overrides)
    message = str(caught.value)
    assert "pydantic" not in message
    assert "Traceback" not in message
    return message


def _sources(entries: list[Any] | dict[str, Any]) -> list[str]:
    return [corpus.src for corpus in (entries.values() if isinstance(entries, dict) else entries)]


# --- what a good config means ---


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_config_loads_and_bears_its_own_name(path: Path) -> None:
    loaded = load_config(path)
    assert loaded.name == path.stem
    assert loaded.data.train
    assert loaded.data.valid
    assert loaded.data.test
    first_line = path.read_text(encoding="utf-8").splitlines()[0]
    assert first_line == "# yaml-language-server: $schema=../docs/configuration.schema.json"


def test_the_big_model_is_the_papers() -> None:
    base, big = load_config("base"), load_config("big")
    changed = {difference.key: difference.second for difference in differences(base, big)}
    assert changed.pop("train.save_every")
    assert changed == {  # table 3, §5.2, §6.1
        "name": "big",
        "model.d_model": 1024,
        "model.d_ff": 4096,
        "model.n_heads": 16,
        "model.dropout": 0.3,
        "train.max_steps": 300_000,
        "train.average_checkpoints": 20,
    }


def test_a_config_is_found_by_path_first_then_among_the_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config("base.yaml") == find_config("base") == CONFIGS / "base.yaml"
    (tmp_path / "base").mkdir()  # a folder is no config
    assert find_config("base") == CONFIGS / "base.yaml"
    (tmp_path / "base.yaml").write_text("name: mine")
    assert load_config("base.yaml").name == load_config("base").name == "mine"
    assert load_config(tmp_path / "base.yaml").name == "mine"


def test_a_missing_config_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    assert "did you mean multi30k?" in _refusal(Path("mutli30k.yaml"))
    assert "base, big, demo, multi30k" in _refusal(Path("zzz"))
    assert "is a folder" in _refusal(tmp_path)
    assert "cannot be read" in _refusal(Path("x" * 5000))


@pytest.mark.parametrize(  # case K2 of other toolkits' troubles: PyYAML alone reads 1e-4 as text and 010 as 8
    ("key", "written", "value"),
    [
        ("train.lr", "1e-4", 1e-4),
        ("train.lr", "5E-4", 5e-4),
        ("train.lr", "1", 1.0),
        ("train.lr", ".5", 0.5),
        ("train.lr", "+1.e-2", 0.01),
        ("train.lr", "~", None),
        ("train.max_tokens", "1e5", 100_000),
        ("train.max_tokens", "1e+4", 10_000),
        ("train.max_tokens", "0o17", 15),
        ("train.max_tokens", "0x1F", 31),
        ("seed", "010", 10),
        ("name", "no", "no"),
        ("name", "on", "on"),
        ("name", "2020-01-01", "2020-01-01"),
        ("name", "1_000", "1_000"),
        ("name", "'1e3'", "1e3"),
        ("vocabulary.byte_fallback", "false", False),
        ("vocabulary.byte_fallback", "TRUE", True),
    ],
)
def test_plain_words_mean_what_yaml_1_2_says_in_files_and_overrides(
    write: Write, key: str, written: str, value: object
) -> None:
    section, _, name = key.rpartition(".")
    in_file = load_config(write(f"{section}: {{{name}: {written}}}" if section else f"{name}: {written}"))
    in_override = load_config(write("{}"), [f"{key}={written}"])
    assert in_file == in_override
    found = getattr(getattr(in_file, section) if section else in_file, name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("train.lr", "abc"),
        ("train.lr", "nan"),
        ("train.lr", ".nan"),
        ("train.lr", ".inf"),
        ("train.lr", "-1"),
        ("train.lr", "'0.1'"),
        ("train.lr", "1e999"),
        ("train.max_tokens", "1.5"),
        ("train.max_tokens", "automatic"),
        ("train.max_tokens", "true"),
        ("train.max_tokens", "10_000"),
        ("train.max_tokens", "1" + "0" * 50),
        ("vocabulary.joint", "no"),
        ("vocabulary.joint", "yes"),
        ("vocabulary.joint", "1"),
        ("model.norm", "Layer_norm"),
        ("name", "12"),
        ("name", "true"),
        ("data.train", "{src: a, tgt: b}"),
        ("data.test", "[{src: a, tgt: b}]"),
        ("data.train", "a.en"),
    ],
)
def test_a_bad_value_is_named_with_its_line_and_the_rule(write: Write, key: str, written: str) -> None:
    section, _, name = key.rpartition(".")
    indent = "  " if section else ""
    message = _refusal(write(f"# a comment\n{section and section + ':'}\n{indent}{name}: {written}\n"))
    assert message.startswith(str(write("")) + ":3: ")
    assert f"{key} is " in message
    assert "must be " in message
    in_override = _refusal(write("{}"), f"{key}={written}")
    assert in_override.startswith(f"override {key}=")
    assert "must be " in in_override


def test_a_remedy_follows_the_rule(write: Write) -> None:
    assert "remove the quotes" in _refusal(write("train: {lr: '0.1'}"))
    assert "write 10000" in _refusal(write("train: {max_steps: 10_000}"))
    assert "put it in quotes" in _refusal(write("name: 12"))
    assert "did you mean rotary?" in _refusal(write("model: {positions: rotari}"))
    assert "the default is 0.1" in _refusal(write("model: {dropout: 2}"))
    assert "indent its settings below it" in _refusal(write("train:\nname: x"))


# --- case K1: wrong keys ---


@pytest.mark.parametrize(
    ("content", "line", "key", "suggestion"),
    [
        ("name: x\nlearning_rte: 0.001\n", 2, "learning_rte", "train.lr (in the section train)"),
        ("train:\n  label_smothing: 0.1\n", 2, "train.label_smothing", "train.label_smoothing"),
        ("train:\n\n  d_model: 8\n", 3, "train.d_model", "model.d_model (in the section model)"),
        ("lr: 0.1\n", 1, "lr", "train.lr (in the section train)"),
        ("train.lr: 0.1\n", 1, "train.lr", "train.lr (in the section train)"),
        ("model: {max_tokens: 5}\n", 1, "model.max_tokens", "train.max_tokens or translate.max_tokens"),
        ("modle: {d_model: 8}\n", 1, "modle", "model"),
        ("data:\n  train:\n  - {src: a, tgtt: b, tgt: c}\n", 3, "data.train[0].tgtt", "tgt"),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_that_was_meant(
    write: Write, content: str, line: int, key: str, suggestion: str
) -> None:
    message = _refusal(write(content))
    assert message.startswith(f"{write(content)}:{line}: {key} is not ")
    assert f"did you mean {suggestion}?" in message


def test_a_key_like_nothing_is_refused_too(write: Write) -> None:
    assert "zzzzzz is not a setting; docs/configuration.md" in _refusal(write("zzzzzz: 1"))


@pytest.mark.parametrize(
    "content", ["seed: 1\nname: x\nseed: 2\n", "train:\n  lr: 1\n  lr: 1\n", "data: {}\n\ndata: {}"]
)
def test_a_key_given_twice_is_refused_with_both_lines(write: Write, content: str) -> None:
    message = _refusal(write(content))
    assert ":3: " in message
    assert "is given twice, first in line " in message


def test_everything_wrong_is_told_at_once_in_reading_order(write: Write) -> None:
    content = """\
name: a/b
train:
  lr: abc
  lr: 3
  cooldown_steps: 5
  max_steps: 5
  label_smothing: 0.1
model:
  dropout: 2
  d_model: 100
  n_heads: 7
vocabulary:
  joint: false
data:
  train:
  - {src: $NOT_SET_ANYWHERE/a, tgt: b}
  - {hub: x, src: y}
"""
    message = _refusal(write(content), "seed=-1", "train.lr=0", "trane.lr=1", "name", "model=3", "seed=3")
    told = message.splitlines()
    assert told[0] == f"{len(told) - 1} problems in the settings:"
    order = [
        ":1: name",
        ":4: train.lr is given twice",
        ":6: train: cooldown_steps 5",
        ":7: train.label_smothing",
        ":9: model.dropout",
        ":11: model: d_model 100",
        ":13: model.tie_embeddings",
        ":16: data.train[0].src",
        ":17: data.train[1].src",
        "override seed=-1: seed",
        "override train.lr=0: train.lr",
        "override trane.lr=1: trane",
        "override name: an override is section.key=value",
        "override model=3: model is a section",
        "override seed=3: seed is given twice",
    ]
    assert len(told) - 1 == len(order)
    for line, beginning in zip(told[1:], order, strict=True):
        assert beginning in line


def test_a_contradiction_that_only_a_default_causes_is_not_told(write: Write) -> None:
    message = _refusal(write("model: {d_model: 100, n_heads: x}"))  # the default of n_heads would not divide 100
    assert "n_heads" in message
    assert "divisible" not in message


# --- overrides ---


def test_overrides_replace_values_of_the_file(write: Write) -> None:
    config = write("name: a\ntrain: {lr: 1, max_steps: 7}\nmodel: {d_model: 100, n_heads: 8}")
    loaded = load_config(config, ["train.lr=2e-3", " model.d_model = 64 ", "name=b", "train.clip_norm=1"])
    assert (loaded.train.lr, loaded.train.max_steps, loaded.train.clip_norm) == (0.002, 7, 1.0)
    assert (loaded.name, loaded.model.d_model) == ("b", 64)


def test_an_override_repairs_a_bad_value_of_the_file(write: Write) -> None:
    assert load_config(write("train: {lr: abc}"), ["train.lr=1"]).train.lr == 1.0


def test_a_list_of_corpora_is_one_override(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    config = write("data: {train: [{src: x.en, tgt: x.de}, {src: y.en, tgt: y.de}]}")
    loaded = load_config(config, ["data.train=[{src: a.en, tgt: ../a.de}]"])
    assert loaded.data.train == [FileCorpus(src=str(folder / "a.en"), tgt=str(tmp_path / "a.de"))]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["train.lr=1", "train.lr=1"], "override train.lr=1: train.lr is given twice"),
        (["train.lr"], "an override is section.key=value"),
        (["=1"], "an override is section.key=value"),
        (["other.yaml"], "--config other.yaml"),
        (["train={lr: 1}"], "train is a section; give its settings one by one"),
        (["data.test.x={src: a, tgt: b}"], "data.test is given as a whole"),
        (["train.lrr=1"], "did you mean train.lr?"),
        (["lr=1"], "did you mean train.lr"),
        (["trian.lr=1"], "did you mean train?"),
        (["train.lr=[1"], "the value of train.lr cannot be read"),
        (["train.lr="], "the value of train.lr cannot be read"),
        (["data.train=[{src: a, tgt: b, tgt: c}]"], "data.train[0].tgt is given twice"),
        (["name=!!python/object:os.system x"], "the tag !!python/object:os.system is not allowed"),
        (["model.n_heads=7"], "override model.n_heads=7: model: d_model 512 is not divisible by n_heads 7"),
        (["name=\udcff"], "the character U+DCFF is not allowed"),
    ],
)
def test_a_bad_override_is_refused_by_name(write: Write, overrides: list[str], words: str) -> None:
    message = _refusal(write("{}"), *overrides)
    assert message.startswith("override ")
    assert words in message


def test_overrides_of_one_section_come_without_the_rest() -> None:
    assert section_overrides("translate", []) == {}
    assert section_overrides("translate", ["translate.beam_size=1e1", "translate.alpha=1"]) == {
        "beam_size": 10,
        "alpha": 1.0,
    }
    with pytest.raises(ConfigError) as caught:
        section_overrides(
            "translate", ["train.lr=1", "seed=3", "translate.beam=0", "translat.x=1", "translate.alpha=-1"]
        )
    told = str(caught.value).splitlines()
    assert told[0] == "5 problems in the settings:"
    assert told[1] == "  override train.lr=1: train.lr is fixed here; only settings of translate can be given"
    assert "override seed=3: seed is fixed here" in told[2]
    assert "did you mean translate.beam_size?" in told[3]
    assert "did you mean translate?" in told[4]
    assert "translate.alpha is -1" in told[5]


# --- paths ---


def test_input_paths_are_relative_to_the_config_file(write: Write, tmp_path: Path) -> None:
    (tmp_path / "parquet").mkdir()
    config = write(
        "data:\n  train: [{src: a.en, tgt: ../b.de}, {src: /abs/a, tgt: ./c}]\n"
        "  valid: [{hub: parquet}, {hub: wmt14}, {hub: ./missing}]\n  test: {x: {src: d/e, tgt: f}}\n"
    )
    data = load_config(config).data
    assert data.train == [
        FileCorpus(src=str(tmp_path / "a.en"), tgt=str(tmp_path.parent / "b.de")),
        FileCorpus(src="/abs/a", tgt=str(tmp_path / "c")),
    ]
    assert data.valid == [
        HubCorpus(hub=str(tmp_path / "parquet")),
        HubCorpus(hub="wmt14"),  # no folder of that name: it stays a name on the hub
        HubCorpus(hub=str(tmp_path / "missing")),
    ]
    assert _sources(data.test) == [str(tmp_path / "d/e")]


def test_variables_and_home_are_expanded_in_paths(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORPORA", "/there")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("UNSET", raising=False)
    config = write("data: {train: [{src: $CORPORA/a.en, tgt: '${CORPORA}x/a'}, {src: ~/a, tgt: a$$b}]}")
    first, second = load_config(config).data.train
    assert (first, second) == (
        FileCorpus(src="/there/a.en", tgt="/therex/a"),
        FileCorpus(src="/home/me/a", tgt=str(tmp_path / "a$b")),
    )
    for name in ("UNSET", "EMPTY"):
        message = _refusal(write(f"data:\n  test:\n    x:\n      src: a\n      tgt: ${name}/a\n"))
        assert f":5: data.test.x.tgt is ${name}/a, but the environment variable {name} is not set" in message
    assert "write $$ for a dollar sign" in _refusal(write("data: {train: [{src: a$, tgt: b}]}"))


# --- hostile and broken files ---

_BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{last}'] * 9)}]\n" for last, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "there is nothing in it"),
        (b"# only a comment\n", "there is nothing in it"),
        (b"just text", "holds no settings"),
        (b"- a\n- b\n", "holds no settings"),
        (b"a: 1\n---\nb: 2\n", "another document"),
        (b"train:\n  lr: 1\n bad: 2\n", ":3: this is not YAML"),
        (b"train:\n\tlr: 1\n", "spaces, no tabs"),
        (b"name: 'x\n", "this is not YAML"),
        (b"a: *missing\n", "undefined alias"),
        (b"name: caf\xe9\n", ":1: the byte 0xe9 is not UTF-8"),
        ("name: x\n".encode("utf-16"), "not UTF-8"),
        (b"\x7fELF\x00\x01", "U+007F is not allowed"),
        (b"name: x\n\x00", ":2: the character U+0000 is not allowed"),
        (b"!!python/object/apply:os.system ['true']\n", "tag !!python/object/apply:os.system is not allowed"),
        (b"name: !!python/name:os.system x\n", "tag !!python/name:os.system is not allowed"),
        (b"seed: !!int abc\n", "tag !!int is not allowed"),
        (b"? [a, b]\n: c\n", "a key must be one word"),
        (_BOMB.encode(), "more than 10000 values"),
        (b"a: &a [*a]\n", "an alias contains itself"),
        (b"a: &a {b: *a}\n", "an alias contains itself"),
        (b"[" * 5000, "nested deeper"),
        (b'name: "\\ud800"\n', "no Unicode characters"),
        (b'name: "\\Uffffffff"\n', "this is not YAML"),
        (b"seed: " + b"9" * 9000, "too long"),
        (b"a: b\n" * 60_000, "is no config"),
    ],
)
def test_a_file_that_holds_no_settings_is_refused_in_one_line(write: Write, content: bytes, words: str) -> None:
    path = write(content)
    message = _refusal(path)
    assert message.startswith(f"{path}:")
    assert words in message
    assert "\n" not in message


def test_a_byte_order_mark_and_windows_line_ends_are_harmless(write: Write) -> None:
    assert load_config(write(b"\xef\xbb\xbfname: x\r\nseed: 3\r\n")).seed == 3


def test_an_alias_may_stand_for_a_value(write: Write) -> None:
    data = load_config(write("data: {train: [&a {src: /a, tgt: /b}], valid: [*a]}")).data
    assert data.train == data.valid


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(write: Write) -> None:
    path = write("name: x")
    path.chmod(0)
    assert "check its permissions" in _refusal(path)


def _loads_or_is_refused(path: Path, overrides: list[str]) -> None:
    try:
        assert isinstance(load_config(path, overrides), Settings)
    except ConfigError as error:
        assert str(error).isprintable() or "\n  " in str(error)


_KEYS = [*SECTIONS, "name", "seed", "lr", "train", "src", "tgt", "hub", "d_model", "data", "test", "1e5", "0", "~"]
_SIGNS = ["- ", ": ", "\n", "  ", "[", "]", "{", "}", ",", "'", '"', "|", ">", "#", "%", "&a", "*a", "!!str", "$", "<<"]
_WORDS = st.sampled_from(_KEYS + _SIGNS)


@settings(max_examples=150, deadline=None)
@given(content=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8", "ignore"))))
def test_arbitrary_bytes_are_settings_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary.yaml"
    path.write_bytes(content)
    _loads_or_is_refused(path, [])


@settings(max_examples=200, deadline=None)
@given(words=st.lists(_WORDS, max_size=30), override=st.lists(_WORDS | st.just("=") | st.just("."), max_size=10))
def test_scrambled_configs_are_settings_or_refused(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], override: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "scrambled.yaml"
    path.write_text("".join(words), encoding="utf-8")
    _loads_or_is_refused(path, ["".join(override)] if override else [])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["src", "tgt", "hub", "x"]), inner),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_value_of_any_setting_is_accepted_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    section = data.draw(st.sampled_from(sorted(SECTIONS)))
    values = data.draw(st.dictionaries(st.sampled_from(sorted(SECTIONS[section])), _JSON, min_size=1, max_size=4))
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(json.dumps({section: values}), encoding="utf-8")  # JSON is YAML
    _loads_or_is_refused(path, [])


# --- saving and comparing ---


@pytest.mark.parametrize("name", ["base", "big", "demo", "multi30k"])
def test_saved_settings_load_back_equal_from_anywhere(tmp_path: Path, name: str) -> None:
    overrides = ["train.lr=1e-9", "data.src_lang=no", "data.tgt_lang='1e5'", "vocabulary.size=1e5", "train.patience=3"]
    first = load_config(name, overrides)
    save_settings(first, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == first
    assert list(tmp_path.iterdir()) == [tmp_path / "config.yaml"]  # nothing half-written left


@settings(max_examples=100, deadline=None)
@example(path="a\x85b\u2028", language="\x85", lr=1.0)  # PyYAML folds these lines unless they are escaped
@example(path=" \n\r\u2029", language="\n", lr=1.0)
@given(
    path=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20),
    language=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
    lr=st.floats(min_value=1e-300, max_value=10),
)
def test_any_text_and_number_survives_saving(
    tmp_path_factory: pytest.TempPathFactory, path: str, language: str, lr: float
) -> None:
    corpus = {"src": "/" + path.strip("/."), "tgt": "/t"}
    corpus["src"] = os.path.abspath(corpus["src"])  # noqa: PTH100
    first = Settings.model_validate({"data": {"train": [corpus], "src_lang": language}, "train": {"lr": lr}})
    file = tmp_path_factory.getbasetemp() / "saved.yaml"
    save_settings(first, file)
    assert load_config(file) == first


def test_differences_name_the_settings_and_both_values() -> None:
    first = load_config("demo")
    second = load_config("demo", ["train.lr=1", "name=x", "data.train=[{hub: wmt14}]"])
    assert differences(first, first) == []
    found = differences(first, second)
    assert [difference.key for difference in found] == ["name", "data.train", "train.lr"]
    assert str(found[2]) == f"train.lr: {first.train.lr} → 1.0"
    assert differences(second, first) == [(key, b, a) for key, a, b in found]
