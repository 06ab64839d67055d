"""From pieces to words, whatever sentencepiece made of the text; and from words to links and copies."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from data.errors import DataError
from data.vocabulary import EOS_ID, UNK_ID, Vocabulary
from transformer.inference.alignment import (
    NO_WORD,
    SentencePieces,
    best_links,
    copy_unknown,
    word_attention,
)
from transformer.inference.links import parse_pharaoh, pharaoh

FILLER = [f"the cat number {i} sat on the mat, und die (katze) ½-saß dä." for i in range(200)]
OPTIONS = [
    {"type": kind, "byte_fallback": byte_fallback, "normalization": normalization}
    for kind in ("bpe", "unigram")
    for byte_fallback in (True, False)
    for normalization in ("nmt_nfkc", "identity")
]


class Pieces:
    """Sentences in the pieces of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def of_text(self, text: str) -> SentencePieces:
        return SentencePieces(text, *self.vocabulary.encode_with_spans(text))

    def of_ids(self, ids: list[int]) -> SentencePieces:
        return SentencePieces(*self.vocabulary.decode_with_spans(ids))


def make_pieces(options: dict[str, object]) -> Pieces:
    size = 60 + 256 * bool(options["byte_fallback"])
    return Pieces(Vocabulary.learn(FILLER, size=size, **options))  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def pieces(request: pytest.FixtureRequest) -> Pieces:
    return make_pieces(request.param)


@pytest.fixture(scope="module")
def without_bytes() -> Pieces:
    return make_pieces({"byte_fallback": False, "normalization": "identity"})


words = st.text(st.sampled_from("abcdehintu,½ßмир中🤗"), min_size=1, max_size=6)


# --- which word a piece belongs to ---


@given(st.lists(words))
def test_pieces_belong_to_words_as_words_are_cut_alone(pieces: Pieces, words: list[str]) -> None:
    n_pieces = [len(ids) for ids in pieces.vocabulary.encode(words)]
    expected = [word for word, n in enumerate(n_pieces) for _ in range(n)]
    assert pieces.of_text(" ".join(words)).word_of_piece == expected


@given(st.text(st.characters(codec="utf-8", exclude_characters="\n") | st.sampled_from(" \u200c\u00ad\x01\x1c½▁")))
def test_any_text_has_its_words_in_order(pieces: Pieces, text: str) -> None:
    sentence = pieces.of_text(text)
    check_words(sentence)
    assert list(sentence.ids) == pieces.vocabulary.encode([text])[0]


@given(st.data())
def test_any_ids_have_their_words_in_order(pieces: Pieces, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(pieces.vocabulary) - 1)))
    sentence = pieces.of_ids(ids)
    check_words(sentence)
    assert sentence.text == pieces.vocabulary.decode([ids])[0]
    assert "".join(sentence.text[begin:end] for begin, end in sentence.spans) == sentence.text


def check_words(sentence: SentencePieces) -> None:
    assert [sentence.text[begin:end] for begin, end in sentence.words] == sentence.text.split()
    found = [word for word in sentence.word_of_piece if word != NO_WORD]
    assert found == sorted(found)
    for (begin, end), word in zip(sentence.spans, sentence.word_of_piece, strict=True):
        if sentence.text[begin:end].strip():
            first, last = sentence.words[word]
            assert max(begin, first) < min(end, last)


@pytest.mark.parametrize("text", ["می\u200cخواهم آن را", "a\u00adb c ½ ﬁn d", "a \u200b b", "a´b c"])
def test_spaces_that_normalisation_makes_begin_no_word(pieces: Pieces, text: str) -> None:
    sentence = pieces.of_text(text)
    spelled = dict.fromkeys(range(len(sentence.words)), "")
    for (begin, end), word in zip(sentence.spans, sentence.word_of_piece, strict=True):
        spelled[word] += sentence.text[begin:end].strip()
    assert {word: text for word, text in spelled.items() if text.strip("\u200b")} == {
        word: text for word, text in enumerate(text.split()) if text.strip("\u200b")
    }


# --- attention between words ---


def slow_word_attention(attention: Tensor, src: SentencePieces, tgt: SentencePieces, n_tags: int) -> Tensor:
    result = torch.zeros(len(tgt.words), len(src.words))
    for row in range(len(tgt.words)):
        pieces = [place for place, word in enumerate(tgt.word_of_piece) if word == row]
        for column in range(len(src.words)):
            for place, word in enumerate(src.word_of_piece):
                if word == column:
                    result[row, column] += sum(attention[piece, n_tags + place] / len(pieces) for piece in pieces)
        if result[row].sum() > 0:
            result[row] /= result[row].sum()
    return result


@pytest.mark.parametrize("n_tags", [0, 1])
def test_word_attention_is_that_of_brute_force_whatever_the_neighbours(pieces: Pieces, n_tags: int) -> None:
    torch.manual_seed(0)
    src = [pieces.of_text(text) for text in ("the cat sat", "x", "die katze saß auf 12345 мир", " ")]
    tgt = [pieces.of_text(text) for text in ("katze", "the mat number 7", "on", "sat")]
    n_src = n_tags + max(len(sentence.ids) for sentence in src) + 3
    n_tgt = max(len(sentence.ids) for sentence in tgt) + 2
    attention = torch.rand(4, n_tgt, n_src).softmax(-1)
    found = word_attention(attention, src, tgt, n_tags)
    for row in range(4):
        torch.testing.assert_close(found[row], slow_word_attention(attention[row], src[row], tgt[row], n_tags))
        alone = word_attention(attention[row : row + 1], src[row : row + 1], tgt[row : row + 1], n_tags)
        torch.testing.assert_close(found[row], alone[0])
        assert found[row].sum(1).tolist() == pytest.approx([1.0] * len(tgt[row].words) if src[row].words else [0.0])


def test_half_precision_and_attention_to_the_end_alone_give_numbers(pieces: Pieces) -> None:
    sentence = pieces.of_text("the cat sat")
    n = len(sentence.ids)
    attention = torch.zeros(1, n + 1, n + 1, dtype=torch.bfloat16)
    attention[:, :, -1] = 1  # </s>
    [found] = word_attention(attention, [sentence], [sentence])
    assert found.dtype == torch.float32
    assert found.tolist() == [[0.0] * 3] * 3
    assert best_links(found) == ()


@given(st.lists(words, min_size=1))
def test_a_sentence_that_attends_to_itself_is_aligned_with_itself(pieces: Pieces, words: list[str]) -> None:
    sentence = pieces.of_text(" ".join(words))
    [found] = word_attention(torch.eye(len(sentence.ids)).unsqueeze(0), [sentence], [sentence])
    assert best_links(found) == tuple((word, word) for word in range(len(words)))


def test_each_target_word_has_one_link_to_where_it_attends_most() -> None:
    weights = torch.tensor([[0.1, 0.9, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    assert best_links(weights) == ((0, 1), (1, 0), (2, 3))
    assert best_links(torch.zeros(2, 0)) == best_links(torch.zeros(0, 2)) == ()


# --- links as text ---


@given(st.sets(st.tuples(st.integers(0, 300), st.integers(0, 300))).map(sorted).map(tuple))
def test_links_survive_being_written(links: tuple[tuple[int, int], ...]) -> None:
    assert parse_pharaoh(pharaoh(links), "x") == links


@given(st.text(st.sampled_from("01-2 ٣x")) | st.text())
def test_any_line_is_links_or_refused_with_its_place(line: str) -> None:
    try:
        links = parse_pharaoh(line, "out.align, line 3")
    except DataError as error:
        assert str(error).startswith("out.align, line 3: ")
    else:
        assert set(pharaoh(links).split()) <= {f"{int(a)}-{int(b)}" for a, b in (x.split("-") for x in line.split())}


# --- unknown words ---

unknown_texts = st.text(st.sampled_from("abt n,мир中🤗é()"))


@given(unknown_texts)
def test_a_sentence_that_attends_to_itself_is_copied_whole(without_bytes: Pieces, text: str) -> None:
    src = without_bytes.of_text(text)
    tgt = without_bytes.of_ids(list(src.ids))
    copied = copy_unknown(tgt, src, torch.eye(len(src.ids)))
    # The space in front that sentencepiece adds is taken off again, together with one that was there.
    assert copied.text in (text, text.removeprefix(" "))
    assert [copied.text[begin:end] for begin, end in copied.spans] == [
        text[begin:end] if piece == UNK_ID else tgt.text[first:last]
        for piece, (begin, end), (first, last) in zip(tgt.ids, src.spans, tgt.spans, strict=True)
    ]
    check_words(copied)


def attend(src: SentencePieces, tgt: SentencePieces, word: int) -> Tensor:
    """Every target piece attends to all pieces of one source word, and to nothing else."""
    row = torch.tensor([float(of == word) for of in src.word_of_piece])
    return (row / row.sum().clamp(min=1)).expand(len(tgt.ids), -1)


def test_a_word_without_unknown_characters_is_copied_without_its_signs(without_bytes: Pieces) -> None:
    """As where the source has a vocabulary of its own."""
    src = without_bytes.of_text("die (katze), saß")
    dummy, sat = without_bytes.vocabulary.encode(["🤗"])[0], without_bytes.vocabulary.encode(["sat."])[0]
    assert dummy[-1] == UNK_ID
    tgt = without_bytes.of_ids([*dummy, *sat, EOS_ID])
    copied = copy_unknown(tgt, src, attend(src, tgt, 1))
    assert copied.text == "katze sat."
    assert copied.word_of_piece[: len(dummy)] == [0] * len(dummy)
    assert len(copied.words) == 2


def test_of_a_word_with_unknown_characters_only_these_are_copied(without_bytes: Pieces) -> None:
    src = without_bytes.of_text("die мат-katze saß")
    tgt = without_bytes.of_ids(without_bytes.vocabulary.encode(["the 🤗s"])[0])
    assert copy_unknown(tgt, src, attend(src, tgt, 1)).text == "the матs"


def test_of_several_unknown_runs_the_most_attended_is_copied(without_bytes: Pieces) -> None:
    src = without_bytes.of_text("the 🤗cat中 sat")
    tgt = without_bytes.of_ids(without_bytes.vocabulary.encode(["a 🤗"])[0])
    attention = attend(src, tgt, 1).clone()
    attention[:, [place for place, piece in enumerate(src.ids) if piece == UNK_ID][1]] += 0.1
    assert copy_unknown(tgt, src, attention).text == "a 中"


def test_of_a_script_without_spaces_a_piece_is_copied_and_not_the_line(without_bytes: Pieces) -> None:
    chinese = Pieces(Vocabulary.learn(["我们爱机器翻译"] * 20, size=13, byte_fallback=False))
    src = chinese.of_text("我们爱机器翻译")
    assert UNK_ID not in src.ids
    tgt = without_bytes.of_ids(without_bytes.vocabulary.encode(["a 🤗"])[0])
    attention = torch.zeros(len(tgt.ids), len(src.ids))
    attention[:, 0] = 0.4  # "▁" alone, or with a character
    attention[:, -1] = 0.3
    copied = copy_unknown(tgt, src, attention).text.removeprefix("a ")
    assert 0 < len(copied) < len(src.text)
    assert copied in src.text


def test_nothing_changes_where_nothing_is_unknown(pieces: Pieces) -> None:
    src = pieces.of_text("the cat")
    tgt = pieces.of_ids(pieces.vocabulary.encode(["die katze"])[0])
    assert copy_unknown(tgt, src, attend(src, tgt, 0)) is tgt
    unknown = pieces.of_ids([UNK_ID])
    assert copy_unknown(unknown, pieces.of_text(""), torch.zeros(1, 0)) is unknown
