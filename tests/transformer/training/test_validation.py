"""Validation: the perplexity of the unsmoothed loss, the scores users would measure, and which is really better."""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from data.errors import DataError
from data.prepared import IdSequences, ParallelIds, Prepared
from data.vocabulary import BOS_ID, EOS_ID
from transformer.config import Settings
from transformer.errors import RunError
from transformer.evaluation.metrics import score
from transformer.inference.translator import Translator
from transformer.model import Transformer
from transformer.model_directory import Model
from transformer.training.choices import Choices
from transformer.training.group import ALONE
from transformer.training.state import TrainingState
from transformer.training.validation import (
    Evidence,
    Validation,
    is_better,
    perplexity,
    sentence_nll,
    validate,
)

MakeSettings = Callable[..., Settings]
ON_CPU = Choices("cpu", "fp32", "explicit", {})


@pytest.fixture
def network(make_settings: MakeSettings, make_state: Callable[[Settings], tuple[TrainingState, Model]]) -> Transformer:
    return make_state(make_settings())[0].network


def make_it_rave(network: Transformer) -> None:
    """An untrained network says less than four words, unless its weights are larger."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2 if parameter.dim() == 2 else 1)


def nll_one_by_one(network: Transformer, valid: ParallelIds) -> float:
    """Nats per target token, sentence by sentence, without padding, by PyTorch's cross-entropy."""
    network.eval()
    total, n_tokens = 0.0, 0
    for i in range(len(valid)):
        src = torch.tensor([[*valid.src[i].tolist(), EOS_ID]])
        tgt = valid.tgt[i].tolist()
        logits = network(src, torch.tensor([[BOS_ID, *tgt]]))[0]
        total += F.cross_entropy(logits, torch.tensor([*tgt, EOS_ID]), reduction="sum").item()
        n_tokens += len(tgt) + 1
    network.train()
    return total / n_tokens


def nll_per_token(network: Transformer, valid: ParallelIds, max_tokens: int, choices: Choices = ON_CPU) -> float:
    nll = sentence_nll(network.eval(), valid, max_tokens, choices, ALONE)
    assert nll.shape == (len(valid),)
    return float(nll.sum()) / int((valid.tgt_lengths + 1).sum())


def first(side: IdSequences, n: int) -> IdSequences:
    return IdSequences(side.ids[: side.offsets[n]], side.offsets[: n + 1])


def first_pairs(prepared: Prepared, n: int) -> Prepared:
    """The same with only n pairs to validate on."""
    valid = ParallelIds(first(prepared.valid.src, n), first(prepared.valid.tgt, n))
    return replace(prepared, valid=valid, valid_text=(prepared.valid_text[0][:n], prepared.valid_text[1][:n]))


@pytest.mark.parametrize("max_tokens", [3, 20, 1000])
def test_every_pair_counts_whatever_the_budget_of_training(
    max_tokens: int, network: Transformer, prepared: Prepared
) -> None:
    """With 3, most pairs are longer than training's budget: left out there, counted here."""
    assert (prepared.valid.tgt_lengths + 1 > 3).sum() > 1
    found = nll_per_token(network, prepared.valid, max_tokens)
    assert found == pytest.approx(nll_one_by_one(network, prepared.valid), rel=1e-5)


@pytest.mark.parametrize("n", [1, 2])
def test_one_sentence_is_enough(n: int, network: Transformer, prepared: Prepared, make_settings: MakeSettings) -> None:
    few = first_pairs(prepared, n)
    found, evidence = validate(network, few, make_settings(), ON_CPU, 7, ALONE)
    assert found.step == 7
    assert len(evidence.hypotheses) == n
    assert found.nll_per_token == pytest.approx(nll_one_by_one(network, few.valid), rel=1e-5)
    assert 0 <= found.bleu <= 100


def test_an_empty_sentence_is_one_token_eos(network: Transformer, prepared: Prepared) -> None:
    """Validation data are never filtered."""
    side = IdSequences(prepared.valid.src.ids[:3], prepared.valid.src.offsets[:1].repeat(2))
    found = nll_per_token(network, ParallelIds(side, side), 10)
    logits = network(torch.tensor([[EOS_ID]]), torch.tensor([[BOS_ID]]))[0]
    assert found == pytest.approx(F.cross_entropy(logits, torch.tensor([EOS_ID])).item(), rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_perplexity_knows_no_smoothing(
    smoothing: float, network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    found, _ = validate(network, prepared, make_settings(train={"label_smoothing": smoothing}), ON_CPU, 1, ALONE)
    assert found.perplexity == pytest.approx(math.exp(nll_one_by_one(network, prepared.valid)), rel=1e-4)


def test_case_l2_half_the_probability_on_every_target_is_perplexity_2() -> None:
    assert f"{perplexity(-math.log(0.5)):.4f}" == "2.0000"
    assert perplexity(1e6) == math.inf  # not an OverflowError


@pytest.mark.parametrize("beam_size", [1, 3])
def test_scores_are_those_of_the_translator_users_get(
    beam_size: int, network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    """On detokenised text against raw references; the beam is that of validation, the rest as users translate."""
    settings = make_settings(train={"validate_beam_size": beam_size}, translate={"beam_size": 2, "max_extra_length": 9})
    make_it_rave(network)

    def translations(beam_size: int) -> list[str]:
        wanted = settings.translate.model_copy(update={"beam_size": beam_size})
        vocabularies = (prepared.src_vocabulary, prepared.tgt_vocabulary)
        return Translator(network, *vocabularies, wanted, "cpu").translate(prepared.valid_text[0])

    references = [line + "." for line in translations(beam_size)]  # almost right, so that BLEU is neither 0 nor 100
    data = replace(prepared, valid_text=(prepared.valid_text[0], references))
    found, evidence = validate(network, data, settings, ON_CPU, 1, ALONE)
    assert evidence.hypotheses == translations(beam_size)
    scores = score(translations(beam_size), references)
    assert (found.bleu, found.chrf) == (scores.bleu, scores.chrf)
    assert 1 < found.bleu < 100
    assert found.bleu != score(translations(2), references).bleu


def test_bleu_has_the_words_of_the_target_language(
    network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    """As evaluate.py: characters of Chinese are words of their own."""
    make_it_rave(network)
    settings = make_settings(translate={"max_extra_length": 9})
    _, evidence = validate(network, prepared, settings, ON_CPU, 1, ALONE)
    references = [f"{line}好" for line in evidence.hypotheses]
    for language, tokenizer in (("zh", "zh"), ("de", "13a")):
        manifest = prepared.manifest | {"tgt_lang": language}
        data = replace(prepared, valid_text=(prepared.valid_text[0], references), manifest=manifest)
        found, _ = validate(network, data, settings, ON_CPU, 1, ALONE)
        assert found.bleu == score(evidence.hypotheses, references, tokenizer).bleu
    assert abs(score(evidence.hypotheses, references, "zh").bleu - found.bleu) > 1


def test_case_b1_unequal_line_counts_are_refused_here_too(
    network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    src, tgt = prepared.valid_text
    with pytest.raises(DataError, match=r"5.*4|4.*5"):
        validate(network, replace(prepared, valid_text=(src, tgt[:-1])), make_settings(), ON_CPU, 1, ALONE)


@pytest.mark.parametrize("training", [True, False])
def test_validation_draws_no_random_numbers_and_leaves_the_network_as_it_was(
    training: bool, network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    network.train(training)
    before = torch.get_rng_state()
    results = [validate(network, prepared, make_settings(), ON_CPU, 1, ALONE) for _ in range(2)]
    assert results[0] == results[1]  # dropout is off
    assert torch.equal(torch.get_rng_state(), before)
    assert all(module.training is training for module in network.modules())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_the_network_trains_on_after_a_validation_that_failed(
    network: Transformer, prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("transformer.training.validation.sentence_nll", fail)
    with pytest.raises(RuntimeError):
        validate(network, prepared, make_settings(), ON_CPU, 1, ALONE)
    assert network.training


def test_in_bf16_the_perplexity_is_close(network: Transformer, prepared: Prepared) -> None:
    expected = nll_per_token(network, prepared.valid, 100)
    found = nll_per_token(network, prepared.valid, 100, replace(ON_CPU, precision="bf16"))
    assert found == pytest.approx(expected, rel=1e-2)
    assert found != expected


def test_the_budget_of_a_batch_is_the_one_chosen_at_the_start(
    network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    """With train.max_tokens: auto the settings do not say it."""
    auto, plain = make_settings(train={"max_tokens": "auto"}), make_settings(train={"max_tokens": 20})
    chosen = replace(ON_CPU, max_tokens=20)
    expected = validate(network, prepared, plain, ON_CPU, 1, ALONE)
    assert validate(network, prepared, auto, chosen, 1, ALONE) == expected


# --- several processes ---


class Together:
    """A group whose processes are threads; what they tell each other goes through JSON, as between processes."""

    def __init__(self, rank: int, told: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.size, self.told, self.barrier = rank, len(told), told, barrier

    def gather(self, value: Any) -> list[Any]:
        self.told[self.rank] = json.dumps(value)
        self.barrier.wait(timeout=60)
        values = [json.loads(text) for text in self.told]
        self.barrier.wait(timeout=60)
        return values

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        assert values.device.type == "cpu"
        return torch.tensor(self.gather(values.tolist()), dtype=values.dtype).sum(dim=0)


def validate_together(size: int, network: Transformer, *args: Any) -> list[tuple[Validation, Evidence]]:
    """What each of `size` processes finds."""
    told: list[Any] = [None] * size
    barrier = threading.Barrier(size)
    with ThreadPoolExecutor(size) as processes:
        found = [
            processes.submit(validate, copy.deepcopy(network), *args, 1, Together(rank, told, barrier))
            for rank in range(size)
        ]
        return [each.result() for each in found]


@pytest.mark.parametrize("n_sentences", [1, 5])
@pytest.mark.parametrize("size", [2, 3, 7])
def test_any_number_of_processes_finds_the_same(
    size: int, n_sentences: int, network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    """Also where there are more processes than sentences, or than batches."""
    make_it_rave(network)
    settings = make_settings(train={"max_tokens": 20, "validate_beam_size": 2}, translate={"max_extra_length": 9})
    data = first_pairs(prepared, n_sentences)
    expected = validate_together(1, network, data, settings, ON_CPU)
    assert expected[0][1].hypotheses == validate(network, data, settings, ON_CPU, 1, ALONE)[1].hypotheses
    assert len(set(expected[0][1].hypotheses)) == n_sentences  # else their order would not show
    assert validate_together(size, network, data, settings, ON_CPU) == expected * size


# --- what a validation leaves for later ones ---


def test_evidence_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    hypotheses = ["plain", "", " a\tb\t", "c\r", "d\u2028e\x85f\x0cg", "\ufeff \U0001f917", "\x00"]
    nll = [0.1 + 0.2, 1e-300, 0.0, 1 / 3, 7.0, 1e30, math.pi]
    evidence = Evidence(hypotheses, nll)
    evidence.save(tmp_path / "evidence")
    assert Evidence.load(tmp_path / "evidence") == evidence
    assert (tmp_path / "evidence").read_bytes().count(b"\n") == 7


@pytest.mark.parametrize("content", [None, b"1.5", b"x\ttext\n", b"\n", b"1.5\t\xff\n"])
def test_damaged_evidence_is_named_with_the_remedy(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "evidence").write_bytes(content)
    with pytest.raises(RunError, match=r"evidence: missing or damaged.*patience_significance=false"):
        Evidence.load(tmp_path / "evidence")


def test_evidence_adds_up_to_the_validation(
    network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    validation, evidence = validate(network, prepared, make_settings(), ON_CPU, 1, ALONE)
    n_tokens = prepared.valid.tgt_lengths + 1
    assert sum(evidence.nll) / n_tokens.sum() == pytest.approx(validation.nll_per_token, rel=1e-12)
    sides = (prepared.valid.src, prepared.valid.tgt)
    for i in range(len(prepared.valid)):
        alone = ParallelIds(*(IdSequences(side[i], np.array([0, len(side[i])])) for side in sides))
        assert evidence.nll[i] / n_tokens[i] == pytest.approx(nll_one_by_one(network, alone), rel=1e-5)


# --- which of two is the better ---


def of_nll(nll: Any) -> Evidence:
    return Evidence([""] * len(nll), nll.tolist())


def garbled(references: list[str], rate: float, seed: int) -> Evidence:
    """The references with some of their words replaced."""
    draw = random.Random(seed)
    lines = [" ".join("xyz" if draw.random() < rate else word for word in line.split()) for line in references]
    return Evidence(lines, [0.0] * len(lines))


@pytest.fixture
def references() -> list[str]:
    draw = random.Random(3)
    words = ["red", "green", "blue", "cat", "dog", "bird", "sees", "hears", "and", "or"]
    return [" ".join(draw.choices(words, k=draw.randint(5, 12))) for _ in range(60)]


def test_nll_is_compared_as_by_all_sets_that_could_be_drawn() -> None:
    """Of 4 sentences there are 4⁴ sets; p is the share of them on which the new nll per token is not the lower."""
    draw, n_both = np.random.default_rng(0), [0, 0]
    for seed in range(40):
        n_tokens = draw.integers(1, 9, size=4)
        old = draw.gamma(2.0, size=4) * n_tokens
        new = old + draw.normal(-0.6, 1, size=4)
        sets = np.array(list(itertools.product(range(4), repeat=4)))
        better = new[sets].sum(axis=1) / n_tokens[sets].sum(axis=1) < old[sets].sum(axis=1) / n_tokens[sets].sum(axis=1)
        p = 1 - better.mean()
        if abs(p - 0.05) > 0.03:  # four times the spread of 1000 draws
            found = is_better(of_nll(new), of_nll(old), [""] * 4, "nll", seed)
            assert found == (p < 0.05)
            n_both[found] += 1
    assert min(n_both) > 5


@pytest.mark.parametrize(("best_by", "metric"), [("bleu", BLEU()), ("chrf", CHRF())])
@pytest.mark.parametrize(("old_rate", "new_rate", "expected"), [(0.5, 0.2, True), (0.3, 0.3, False)])
def test_scores_are_compared_as_by_sacrebleu(
    best_by: str, metric: Any, old_rate: float, new_rate: float, expected: bool, references: list[str]
) -> None:
    """Whose test is two-sided, and centred as in Moses; where the case is clear all agree."""
    old, new = garbled(references, old_rate, 1), garbled(references, new_rate, 2)
    systems = [("old", old.hypotheses), ("new", new.hypotheses)]
    _, results = PairedTest(systems, {best_by: metric}, [references], test_type="bs")()
    (result,) = [column[1] for name, column in results.items() if name != "System"]
    assert (result.p_value < 0.05) == expected
    assert is_better(new, old, references, best_by, seed=1) == expected
    assert not is_better(old, new, references, best_by, seed=1)


@pytest.mark.parametrize("best_by", ["bleu", "chrf", "nll"])
def test_nothing_is_better_than_itself(best_by: str, references: list[str]) -> None:
    evidence = replace(garbled(references, 0.3, 1), nll=[0.1 * i for i in range(60)])
    assert not is_better(evidence, evidence, references, best_by, seed=1)


@pytest.mark.parametrize("best_by", ["bleu", "chrf", "nll"])
def test_of_one_sentence_only_its_own_figure_can_count(best_by: str) -> None:
    """Every set that can be drawn is the sentence itself; the figure compared is the one that is reported."""
    reference = "the cat sat on the mat and saw a dog"
    lines = ["the cat sat on the mat", "the cat sat on the mat and saw", "a dog sat on the mat", reference]
    values = {line: getattr(score([line], [reference]), best_by, float(len(line))) for line in lines}
    for pair in itertools.permutations(lines, 2):
        new, old = (Evidence([line], [-values[line]]) for line in pair)
        assert is_better(new, old, [reference], best_by, seed=1) == (values[pair[0]] > values[pair[1]])


def test_chance_is_taken_for_progress_once_in_twenty_times() -> None:
    """Two systems that are equally good, on 50 sentences; of 200 such pairs 5 % are 10 ± 3."""
    draw = np.random.default_rng(1)
    n_better = sum(
        is_better(of_nll(draw.normal(5, 1, 50)), of_nll(draw.normal(5, 1, 50)), [""] * 50, "nll", seed)
        for seed in range(200)
    )
    assert 1 <= n_better <= 22


def test_the_comparison_depends_on_its_seed_alone(references: list[str]) -> None:
    pairs = [(garbled(references, 0.3, 2 * i), garbled(references, 0.33, 2 * i + 1)) for i in range(12)]
    before = torch.get_rng_state(), random.getstate(), str(np.random.get_state())
    found = [[is_better(*pair, references, "bleu", seed=5) for pair in pairs] for _ in range(2)]
    assert found[0] == found[1]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), str(np.random.get_state())) == before[1:]


def test_case_b1_other_sentences_are_not_compared(references: list[str]) -> None:
    new, shorter = garbled(references, 0.3, 1), garbled(references[:-1], 0.3, 1)
    for pair in ((new, shorter), (shorter, new)):
        with pytest.raises(RunError, match=r"validation data have changed.*patience_significance=false"):
            is_better(*pair, references, "bleu", seed=1)
    with pytest.raises(RunError, match="there are 59 references"):
        is_better(new, new, references[:-1], "bleu", seed=1)


# --- what validations are compared by ---


def test_a_higher_key_is_a_better_validation() -> None:
    worse, better = Validation(1, 2.0, 10.0, 30.0), Validation(2, 1.0, 20.0, 40.0)
    for best_by in ("bleu", "chrf", "nll"):
        assert better.key(best_by) > worse.key(best_by)


def test_a_figure_that_is_missing_or_no_number_is_the_worst() -> None:
    """chrF, in a run that an older version began."""
    assert Validation(1, 2.0, 10.0).key("chrf") == -math.inf
    assert Validation(1, math.nan, 10.0).key("nll") == -math.inf
