"""Vocabularies: what goes in comes out as sentencepiece normalises it, and impossible sizes are explained."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Vocabulary

FILLER = [f"the cat number {i} sat on the mat" for i in range(200)]
FILLER += [f"die katze nummer {i} sass auf der matte" for i in range(200)]
V4_SRC = ["the cat sat", "the dog sat", "a bird sang"]
V4_TGT = ["die katze sass", "der hund sass", "ein vogel sang"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.learn(FILLER, size=400)


@pytest.fixture(scope="module")
def identity_vocabulary() -> Vocabulary:
    return Vocabulary.learn(FILLER, size=400, normalization="identity")


def normalised(text: str, model: Path) -> str:
    """What sentencepiece itself makes of a text before it is cut into pieces."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return str(processor.normalize(text)).replace("▁", " ").removeprefix(" ")  # the space before the first word


sentences = st.text(
    st.characters(codec="utf-8", exclude_characters="\n") | st.sampled_from("<s>/▁ \u2581\ufeff\u00ad\u200b⁇½ﬁ０")
)


def test_pad_unk_bos_eos_are_the_first_ids(vocabulary: Vocabulary) -> None:
    assert (PAD_ID, UNK_ID, BOS_ID, EOS_ID) == (0, 1, 2, 3)
    assert vocabulary.pieces([PAD_ID, UNK_ID, BOS_ID, EOS_ID]) == ["<pad>", "<unk>", "<s>", "</s>"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("size", [290, 301])
def test_a_vocabulary_has_the_size_that_was_asked_for(kind: Any, size: int) -> None:
    assert len(Vocabulary.learn(FILLER, size=size, type=kind)) == size


@given(sentences)
def test_decoding_undoes_encoding_up_to_normalisation(
    vocabulary: Vocabulary, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "vocabulary.model"
    vocabulary.save(path)
    assert vocabulary.decode(vocabulary.encode([text])) == [normalised(text, path)]


@given(sentences)
def test_under_the_identity_rule_every_character_but_one_survives(identity_vocabulary: Vocabulary, text: str) -> None:
    # U+2581 is how sentencepiece writes a space.
    assert identity_vocabulary.decode(identity_vocabulary.encode([text])) == [text.replace("▁", " ")]


@given(sentences)
def test_text_never_becomes_a_special_id(vocabulary: Vocabulary, text: str) -> None:
    [ids] = vocabulary.encode([text])
    assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID} & set(ids)  # with byte fallback nothing is unknown either


@pytest.mark.parametrize("text", ["<s>", "</s>", "<pad>", "<unk>", "<0x41>", "a <s> b", "<s></s><pad>"])
def test_look_alikes_of_special_pieces_are_text(text: str) -> None:
    vocabulary = Vocabulary.learn([*FILLER, *[text] * 500], size=400)  # even where they are everywhere in the corpus
    [ids] = vocabulary.encode([text])
    assert min(ids) > EOS_ID
    assert vocabulary.decode([ids]) == [text]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_same_text_gives_the_same_model(kind: Any) -> None:
    first, second = (Vocabulary.learn(FILLER, size=300, type=kind) for _ in range(2))
    assert first.hash == second.hash
    assert Vocabulary.learn(FILLER, size=299, type=kind).hash != first.hash


def test_the_number_of_threads_does_not_change_ids(vocabulary: Vocabulary) -> None:
    lines = [*FILLER, "", "  "] * 5
    assert vocabulary.encode(lines, threads=1) == vocabulary.encode(lines, threads=3)


def test_a_batch_is_encoded_as_its_sentences_are(vocabulary: Vocabulary) -> None:
    lines = [*random.sample(FILLER, 20), "", "<s>"]
    assert vocabulary.encode(lines) == [vocabulary.encode([line])[0] for line in lines]
    assert vocabulary.encode([]) == []
    assert vocabulary.decode([]) == []
    assert vocabulary.decode([[], []]) == ["", ""]


def test_special_ids_are_left_out_of_decoded_text(vocabulary: Vocabulary) -> None:
    [ids] = vocabulary.encode(["the cat sat"])
    padded = [BOS_ID, *ids[:2], PAD_ID, *ids[2:], EOS_ID, PAD_ID, PAD_ID]
    assert vocabulary.decode([padded]) == ["the cat sat"]


def test_decoded_text_is_one_line_whatever_the_ids(vocabulary: Vocabulary) -> None:
    newline = next(i for i in range(len(vocabulary)) if vocabulary.pieces([i]) == ["<0x0A>"])
    assert "\n" not in vocabulary.decode([[newline, newline]])[0]


def test_v2_byte_pieces_are_joined_to_characters() -> None:
    text = "the cat \U0001f917 sat"
    with_bytes = Vocabulary.learn(FILLER, size=400)
    [ids] = with_bytes.encode([text])
    assert with_bytes.decode([ids]) == [text]
    last_byte = with_bytes.pieces(ids).index("<0x97>")
    assert with_bytes.decode([ids[:last_byte]]) == ["the cat " + "\ufffd" * 3]
    without_bytes = Vocabulary.learn(FILLER, size=100, byte_fallback=False)
    assert without_bytes.decode(without_bytes.encode([text])) == ["the cat  \u2047  sat"]


V3_INPUT = ["\uff12\uff10\uff05 \ufb01ne", "\ufe30", "\u0149", "\u00bd", "  two  spaces ", "a\u2581b", " "]
V3_NMT_NFKC = ["20% fine", "..", "\u02bcn", "1\u20442", "two spaces", "a b", ""]


def test_v3_normalisation_is_the_documented_one(vocabulary: Vocabulary, identity_vocabulary: Vocabulary) -> None:
    ids = vocabulary.encode(V3_INPUT)
    assert vocabulary.decode(ids) == V3_NMT_NFKC
    assert ids[-1] == []
    unchanged = [*V3_INPUT[:5], "a b", " "]
    assert identity_vocabulary.decode(identity_vocabulary.encode(V3_INPUT)) == unchanged


def test_v3_the_rule_is_stored_with_the_model(identity_vocabulary: Vocabulary, tmp_path: Path) -> None:
    identity_vocabulary.save(tmp_path / "vocabulary.model")
    loaded = Vocabulary.load(tmp_path / "vocabulary.model")
    assert loaded.hash == identity_vocabulary.hash
    assert loaded.encode(V3_INPUT) == identity_vocabulary.encode(V3_INPUT)


@pytest.mark.parametrize(
    ("text", "options", "largest"),
    [
        (V4_SRC + V4_TGT, {"type": "bpe", "byte_fallback": False}, 102),
        (V4_SRC, {"type": "bpe", "byte_fallback": False}, 53),
        (V4_SRC + V4_TGT, {"type": "unigram", "byte_fallback": False}, 27),  # 28 where sentencepiece 0.2.3 learns
        (V4_SRC + V4_TGT, {"type": "bpe", "byte_fallback": True}, 358),
    ],
)
def test_v4_too_large_a_vocabulary_is_refused_with_the_possible_range(
    text: list[str], options: dict[str, Any], largest: int
) -> None:
    with pytest.raises(DataError, match=rf"size 8000 is too large .* from \d+ to {largest}\b") as refusal:
        Vocabulary.learn(text, size=8000, **options)
    found = re.search(r"from (\d+) to (\d+)", str(refusal.value))
    assert found
    for size in map(int, found.groups()):  # the range is true, at both ends
        assert len(Vocabulary.learn(text, size=size, **options)) == size
    with pytest.raises(DataError):
        Vocabulary.learn(text, size=int(found[1]) - 1, **options)
    with pytest.raises(DataError):
        Vocabulary.learn(text, size=int(found[2]) + 1, **options)


@pytest.mark.parametrize(("text", "smallest"), [(V4_SRC + V4_TGT, 23), (V4_SRC, 18)])
def test_v4_too_small_a_vocabulary_is_refused_with_the_smallest_possible(text: list[str], smallest: int) -> None:
    with pytest.raises(DataError, match=rf"size 10 is too small .* {smallest} or more"):
        Vocabulary.learn(text, size=10, byte_fallback=False)


@pytest.mark.parametrize("text", [[], [""], ["   ", "\u200b"]])
def test_blank_text_gives_no_vocabulary_and_a_message(text: list[str]) -> None:
    with pytest.raises(DataError, match="no characters to learn a vocabulary from"):
        Vocabulary.learn(text, size=300)


def test_a_failure_without_a_translation_is_a_message_too() -> None:
    with pytest.raises(DataError, match="could not learn"):
        Vocabulary.learn(FILLER, size=10**12)


def test_lines_longer_than_sentencepieces_limit_are_learnt_from() -> None:
    class OneLongLine:
        def __iter__(self) -> Iterator[str]:
            yield "räuber " * 5000 + "x" * 20_000

    assert "räuber" in "".join(Vocabulary.learn(OneLongLine(), size=280).pieces(list(range(280)))).replace("▁", "")


def test_learning_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    Vocabulary.learn(FILLER, size=300)
    with pytest.raises(DataError):
        Vocabulary.learn(FILLER, size=30_000)
    with pytest.raises(DataError):
        Vocabulary(b"junk")
    assert capfd.readouterr() == ("", "")


def test_damaged_files_are_refused_by_name(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.model"
    vocabulary.save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"\0", b"hello", *(whole[: random.randrange(len(whole))] for _ in range(50))):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"vocabulary\.model: .* preprocess\.py"):
            Vocabulary.load(path)
    with pytest.raises(DataError, match=r"missing\.model: cannot read the vocabulary"):
        Vocabulary.load(tmp_path / "missing.model")


def test_a_model_with_other_special_ids_is_refused(tmp_path: Path) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(FILLER), model_prefix=str(tmp_path / "other"), vocab_size=50, minloglevel=2
    )
    with pytest.raises(DataError, match=r"ids of pad, unk, bos, eos are -1, 0, 1, 2"):
        Vocabulary.load(tmp_path / "other.model")


def test_nasty_text_survives_as_normalised(corpora: Path, identity_vocabulary: Vocabulary) -> None:
    zoo = (corpora / "nasty" / "unicode-zoo.en").read_bytes().decode().split("\n")
    assert identity_vocabulary.decode(identity_vocabulary.encode(zoo)) == [line.replace("▁", " ") for line in zoo]


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_a_tag_is_one_piece_that_text_never_becomes_and_that_spells_nothing(byte_fallback: bool) -> None:
    tagged = Vocabulary.learn(
        FILLER, size=400 if byte_fallback else 60, byte_fallback=byte_fallback, tags=["<bt>", "<x>"]
    )
    plain = Vocabulary.learn(FILLER, size=400 if byte_fallback else 60, byte_fallback=byte_fallback)
    ids = [tagged.tag_id(tag) for tag in ("<bt>", "<x>")]
    assert ids == [EOS_ID + 1, EOS_ID + 2]
    assert [plain.tag_id("<bt>"), tagged.tag_id("<s>"), tagged.tag_id("the"), tagged.tag_id("")] == [None] * 4
    [spelled] = tagged.encode(["<bt> the cat <x>"])
    assert not set(ids) & set(spelled)
    assert tagged.decode([[EOS_ID + 1, *tagged.encode(["the cat"])[0]]]) == ["the cat"]
    assert (tagged.n_special, plain.n_special) == (6, 4)
    assert tagged.has_bytes == plain.has_bytes == byte_fallback


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_what_is_drawn_for_a_seed_is_the_same_in_another_process(
    kind: Literal["bpe", "unigram"], tmp_path: Path
) -> None:
    """A run that goes on, or that several processes share, must see the cuts of the run that was not disturbed."""
    vocabulary = Vocabulary.learn(FILLER, size=60, type=kind, byte_fallback=False)
    vocabulary.save(tmp_path / "v.model")
    script = (
        "import sys; from pathlib import Path; from data.vocabulary import Vocabulary\n"
        "v = Vocabulary.load(Path(sys.argv[1])); print(v.sample(['the cat number 7 sat on the mat'] * 20, 0.3, 7))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "v.model")]
    root = Path(__file__).resolve().parents[2]
    told = [subprocess.run(command, capture_output=True, text=True, cwd=root, check=True).stdout for _ in range(2)]
    assert told[0] == told[1] == f"{vocabulary.sample(['the cat number 7 sat on the mat'] * 20, 0.3, 7)}\n"
    assert len(set(map(str, json.loads(told[0])))) > 3
