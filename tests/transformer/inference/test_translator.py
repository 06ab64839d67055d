"""Lines in, lines out: one for each, in order, whatever surrounds them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Vocabulary
from transformer.config import ModelSettings, TranslateSettings
from transformer.errors import ConfigError, RunError
from transformer.inference.batch_search import BatchSearch
from transformer.inference.scoring import target_scores
from transformer.inference.search.length_penalty import wu
from transformer.inference.search.search_state import Hypothesis
from transformer.inference.sentence import Sentence
from transformer.inference.translator import Translation, Translator
from transformer.model import Transformer
from transformer.model_directory import Model, save_model

TINY = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=48, n_heads=4)
SHORT = TranslateSettings(max_length_ratio=0.5, max_extra_length=4)

# Case X7: 875 = 109 · 8 + 3 lines of 1 to 23 words.
X7 = [" ".join([f"w{i}"] * (i * 7 % 23 + 1)) for i in range(1, 876)]


def make_network(src_size: int, tgt_size: int | None = None, settings: ModelSettings = TINY) -> Transformer:
    """An untrained network; its parameters are enlarged, so that its outputs depend strongly on its input."""
    torch.manual_seed(0)
    network = Transformer(settings, src_size, tgt_size or src_size).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            matrix = parameter.dim() == 2 and "table" not in name
            parameter *= (4 * math.sqrt(2) if "in_projection" in name else 4) if matrix else 2
    return network


def make_translator(
    vocabulary: Vocabulary, settings: TranslateSettings = SHORT, max_sentences: int | None = None
) -> Translator:
    return Translator(make_network(len(vocabulary)), vocabulary, vocabulary, settings, "cpu", max_sentences)


@pytest.fixture(scope="module")
def x7_translations(vocabulary: Vocabulary) -> list[Translation]:
    return list(make_translator(vocabulary, max_sentences=64).translations(X7))


def test_x7_is_the_file_of_the_report() -> None:
    content = "".join(line + "\n" for line in X7).encode()
    assert hashlib.sha256(content).hexdigest().startswith("a7a8acbd12eb0e67")


@pytest.mark.parametrize(("max_sentences", "n_lines"), [(1, 60), (7, 200), (None, 300)])
def test_any_batch_size_gives_the_same_text(
    vocabulary: Vocabulary, x7_translations: list[Translation], max_sentences: int | None, n_lines: int
) -> None:
    """Case X6, over lines of case X7."""
    found = list(make_translator(vocabulary, max_sentences=max_sentences).translations(X7[:n_lines]))
    assert [t.text for t in found] == [t.text for t in x7_translations[:n_lines]]
    assert [t.score for t in found] == pytest.approx([t.score for t in x7_translations[:n_lines]], abs=1e-4)


def test_reversed_lines_give_the_reversed_text(vocabulary: Vocabulary, x7_translations: list[Translation]) -> None:
    """Case X6."""
    found = make_translator(vocabulary, max_sentences=7).translate(X7[199::-1])
    assert found[::-1] == [t.text for t in x7_translations[:200]]


def test_no_line_is_lost_or_moved(vocabulary: Vocabulary, x7_translations: list[Translation]) -> None:
    """Case X7: 875 lines are no multiple of 64, nor of 8; each is the translation of its own line."""
    translator = make_translator(vocabulary)
    found = [t.text for t in x7_translations]
    assert len(found) == 875
    assert len(set(found)) > 700  # untrained, but the lines can be told apart
    for i in (1, 2, 436, 873, 874, 875):
        assert found[i - 1] == translator.translate([X7[i - 1]])[0]


def test_blank_lines_stay_blank_and_disturb_nobody(vocabulary: Vocabulary) -> None:
    """Case X1."""
    translator = make_translator(vocabulary)
    first, last = translator.translate(["the cat sat", "the dog sat"])
    assert first
    assert last
    assert translator.translate(["the cat sat", "", "   ", "the dog sat"]) == [first, "", "", last]
    assert translator.translate([]) == []
    assert translator.translate([""]) == [""]


def test_blank_lines_never_reach_the_network(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = make_translator(vocabulary)
    monkeypatch.setattr(translator.network, "encode", lambda *_: pytest.fail("the network was asked"))
    assert translator.translate(["", " ", "\t \u00a0"]) == ["", "", ""]


def test_a_line_of_spaces_is_blank_even_where_spaces_are_pieces() -> None:
    lines = ["a b", "b a a"] * 20
    vocabulary = Vocabulary.learn(lines, size=265, normalization="identity")
    assert vocabulary.encode(["   "]) != [[]]
    assert make_translator(vocabulary).translate(["   "]) == [""]


@pytest.mark.parametrize("max_sentences", [1, 4])
def test_a_beam_of_20_over_7_pieces_translates_without_specials(max_sentences: int) -> None:
    """Case X2: a vocabulary of 4 specials and 3 pieces."""
    vocabulary = Vocabulary.learn(["a b", "b a"] * 20, size=7, byte_fallback=False)
    settings = TranslateSettings(beam_size=20, max_extra_length=5)
    lines = ["a b", "b", "a a b", "b b a"]
    found = list(make_translator(vocabulary, settings, max_sentences).translations(lines))
    together = list(make_translator(vocabulary, settings).translations(lines))
    assert [t.text for t in found] == [t.text for t in together]
    assert [t.score for t in found] == pytest.approx([t.score for t in together], abs=1e-4)
    assert all(torch.tensor(t.score).isfinite() for t in found)
    assert all(set(t.text) <= set("ab ") for t in found)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_where_eos_is_out_of_reach_translations_are_cut_and_say_so(vocabulary: Vocabulary, beam_size: int) -> None:
    """Case X3: an output bias of -1e4 for eos, at most 10 pieces."""
    settings = TranslateSettings(beam_size=beam_size, max_length_ratio=0, max_extra_length=10)
    translator = make_translator(vocabulary, settings)
    project = translator.network.project
    bias = torch.zeros(len(vocabulary))
    bias[EOS_ID] = -1e4
    translator.network.project = lambda hidden: project(hidden) + bias
    found = list(translator.translations(["the cat", "sat", "on the mat"]))
    assert [(t.n_tokens, t.finished) for t in found] == [(10, False)] * 3
    assert all(torch.tensor(t.score).isfinite() for t in found)


def test_no_output_holds_padding_bos_unk_or_a_second_eos(vocabulary: Vocabulary) -> None:
    """Case X8, over 100 lines."""
    translator = make_translator(vocabulary)
    decoded: list[list[int]] = []

    class Listening:
        def encode(self, lines: list[str]) -> list[list[int]]:
            return vocabulary.encode(lines)

        def decode(self, ids: list[list[int]]) -> list[str]:
            decoded.extend(ids)
            return vocabulary.decode(ids)

    translator.tgt_vocabulary = Listening()
    translator.translate(X7[:100])
    assert len(decoded) == 100
    for ids in decoded:
        assert not {PAD_ID, BOS_ID, UNK_ID} & set(ids)
        assert EOS_ID not in ids[:-1]


def test_each_sentence_has_its_own_length_limit(vocabulary: Vocabulary) -> None:
    """Case X6: floor(ratio · S) + extra, S counting the pieces of that sentence, not of the longest in its batch."""
    settings = TranslateSettings(max_length_ratio=0.5, max_extra_length=3)
    lines = ["w1", "the cat sat on the mat", "w1 " * 30]
    translator = make_translator(vocabulary, settings)
    found = list(translator.translations(lines))
    for translation, source in zip(found, vocabulary.encode(lines), strict=True):
        limit = len(source) // 2 + 3
        assert translation.n_tokens <= limit
        assert translation.finished or translation.n_tokens == limit
    assert [t.finished for t in found] == [False] * 3  # else this test could not fail


def test_the_score_is_that_of_forced_decoding(vocabulary: Vocabulary) -> None:
    translator = make_translator(vocabulary, TranslateSettings(alpha=0.9, max_extra_length=30))
    decoded: list[list[int]] = []

    def decode(ids: list[list[int]]) -> list[str]:
        decoded.extend(ids)
        return [""] * len(ids)

    translator.tgt_vocabulary = type("Listening", (), {"decode": staticmethod(decode)})()
    lines = ["w2", "the cat sat on the mat w3", "w5 w6 w7"]
    for line in lines:
        [translation] = translator.translations([line])
        src = torch.tensor([[*vocabulary.encode([line])[0], EOS_ID]])
        tgt = torch.tensor([decoded.pop()])
        assert translation.n_tokens == tgt.shape[1]
        with torch.inference_mode():
            score = target_scores(translator.network, src, tgt, wu(0.9))
        assert translation.score == pytest.approx(score.item(), abs=1e-4)


@pytest.mark.parametrize("max_sentences", [None, 3])
def test_batches_keep_to_the_budget_and_hold_every_sentence_once(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch, max_sentences: int | None
) -> None:
    settings = SHORT.model_copy(update={"max_tokens": 300})
    translator = make_translator(vocabulary, settings, max_sentences)
    shapes: list[tuple[int, int]] = []
    search = BatchSearch.__call__

    def noted(self: BatchSearch, batch: list[Sentence]) -> list[list[Hypothesis]]:
        shapes.append((len(batch), max(len(sentence.src) for sentence in batch) + 1))
        return search(self, batch)

    monkeypatch.setattr(BatchSearch, "__call__", noted)
    lines = [*X7[:60], "w1 " * 100]
    counted: list[int] = []
    assert len(list(translator.translations(lines, progress=counted.append))) == 61
    assert sum(n for n, _ in shapes) == sum(counted) == 61
    assert all(n == 1 or n * 4 * longest <= 300 for n, longest in shapes)
    assert max(shapes, key=lambda shape: shape[1])[0] == 1  # over the budget alone, translated all the same
    assert max(n for n, _ in shapes) == 3 if max_sentences else max(n for n, _ in shapes) > 4


def test_a_stream_is_answered_window_by_window(vocabulary: Vocabulary) -> None:
    """Memory is bounded: of an endless input only one window is read before its translations appear."""
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield f"w{read}"

    translator = make_translator(vocabulary)
    stream = translator.translations(endless(), window=10)
    first = [next(stream).text for _ in range(10)]
    assert read == 10
    assert first == translator.translate([f"w{i}" for i in range(1, 11)])
    next(stream)
    assert read == 20


def test_every_line_stays_one_line_even_if_the_network_writes_line_breaks(vocabulary: Vocabulary) -> None:
    line_break = next(i for i in range(len(vocabulary)) if vocabulary.pieces([i]) == ["<0x0A>"])
    translator = make_translator(vocabulary)
    translator.network.project = lambda hidden: torch.eye(len(vocabulary))[line_break].repeat(*hidden.shape[:-1], 1)
    assert all("\n" not in text for text in translator.translate(["w1", "w2"]))


def test_a_network_without_numbers_is_an_error_that_names_the_line(vocabulary: Vocabulary) -> None:
    translator = make_translator(vocabulary)
    with torch.no_grad():
        next(translator.network.decoder.parameters()).fill_(torch.nan)
    with pytest.raises(RunError, match=r"^line 2: .*not a number"):
        translator.translate(["", "w1"])


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_translating_leaves_a_network_in_training_as_it_was(vocabulary: Vocabulary, positions: str) -> None:
    """Validation translates with the network that is being trained; dropout is off meanwhile."""
    settings = TINY.model_copy(update={"positions": positions, "dropout": 0.5})
    network = make_network(len(vocabulary), settings=settings)
    translator = Translator(network, vocabulary, vocabulary, SHORT, "cpu")
    evaluated = translator.translate(X7[:5])
    network.train()
    assert translator.translate(X7[:5]) == evaluated
    assert network.training
    ids = torch.tensor([[5, 6, 7, EOS_ID]])
    network(ids, ids).sum().backward()  # nothing that inference has touched is needed by the backward pass
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_source_and_target_may_have_vocabularies_of_their_own(vocabulary: Vocabulary) -> None:
    letters = Vocabulary.learn(["a b", "b a"] * 20, size=7, byte_fallback=False)
    translator = Translator(
        make_network(len(vocabulary), len(letters), TINY.model_copy(update={"tie_embeddings": "none"})),
        vocabulary,
        letters,
        SHORT,
        "cpu",
    )
    assert all(set(text) <= set("ab ") for text in translator.translate(X7[:5]))


def test_a_loaded_model_translates_like_the_one_that_was_saved(vocabulary: Vocabulary, tmp_path: Path) -> None:
    network = make_network(len(vocabulary))
    (tmp_path / "run" / "model").mkdir(parents=True)
    save_model(tmp_path / "run" / "model", Model(network, TINY, SHORT, vocabulary, vocabulary, "en", "de"))
    expected = Translator(network, vocabulary, vocabulary, SHORT, "cpu").translate(X7[:9])
    assert Translator.load(tmp_path / "run", "cpu").translate(X7[:9]) == expected
    greedy = SHORT.model_copy(update={"beam_size": 1})
    expected = Translator(network, vocabulary, vocabulary, greedy, "cpu").translate(X7[:9])
    assert Translator.load(str(tmp_path / "run"), "cpu", beam_size=1).translate(X7[:9]) == expected
    with pytest.raises(ConfigError, match="beam_size"):
        Translator.load(tmp_path / "run", "cpu", beam_size=0)
    with pytest.raises(ConfigError, match="beam"):
        Translator.load(tmp_path / "run", "cpu", beam=3)
    with pytest.raises(RunError, match="nowhere"):
        Translator.load(tmp_path / "nowhere", "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
def test_a_device_that_is_not_there_is_refused(vocabulary: Vocabulary) -> None:
    with pytest.raises(ConfigError, match=r"cuda.*cpu"):
        Translator(make_network(len(vocabulary)), vocabulary, vocabulary, SHORT, "cuda")


@pytest.mark.gpu
def test_a_gpu_translates_like_the_cpu(vocabulary: Vocabulary, x7_translations: list[Translation]) -> None:
    found = list(Translator(make_network(len(vocabulary)), vocabulary, vocabulary, SHORT, "cuda").translations(X7))
    same = sum(a.text == b.text for a, b in zip(found, x7_translations, strict=True))
    assert same >= 0.99 * len(X7)  # sums are rounded differently there, so near-ties may fall the other way


def test_a_tag_is_the_first_piece_the_encoder_sees_and_never_lengthens_the_output() -> None:
    vocabulary = Vocabulary.learn([f"w{i} the cat sat" for i in range(1, 876)], size=400, tags=["<bt>"])
    lines = X7[:20]
    tagged = make_translator(vocabulary, SHORT.model_copy(update={"tag": "<bt>"}))
    plain = make_translator(vocabulary)
    assert [t.text for t in tagged.translations(lines)] != [t.text for t in plain.translations(lines)]
    tag_id = vocabulary.tag_id("<bt>")
    sources = [[tag_id, *ids] for ids in vocabulary.encode(lines)]
    longer = SHORT.model_copy(update={"max_length_ratio": 0.0, "max_extra_length": 6})
    fixed = longer.model_copy(update={"tag": "<bt>"})
    search = make_translator(vocabulary, longer).search
    by_hand = [best[0].tokens for best in search([Sentence(i, ids) for i, ids in enumerate(sources)])]
    assert [t.text for t in make_translator(vocabulary, fixed).translations(lines)] == vocabulary.decode(by_hand)
    with pytest.raises(ConfigError, match=r"translate\.tag: <no>"):
        make_translator(vocabulary, SHORT.model_copy(update={"tag": "<no>"}))
