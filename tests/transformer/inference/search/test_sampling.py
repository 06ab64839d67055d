"""Sampling against the distribution by its definition, against greedy search, and against itself in other batches."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transformer.inference.search.beam_search import SearchRules, beam_search
from transformer.inference.search.length_penalty import none, wu
from transformer.inference.search.sampling import Sampling, draw, mixed, nucleus, random_numbers
from transformer.inference.search.search_state import BeamState, Continuations, Hypothesis, Restriction

LAST = 2**32 - 1  # of the noise


class MarkovStep:
    """Logits that depend on the sentence and on the last piece, out of a table (B, V, V)."""

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self.sentences: Tensor | None = None

    def __call__(self, tokens: Tensor, origin: Tensor) -> Tensor:
        self.sentences = origin if self.sentences is None else self.sentences[origin]
        return self.table[self.sentences, tokens].clone()


def random_table(n: int, vocab_size: int, seed: int = 0, spread: float = 1.0) -> Tensor:
    return torch.randn(n, vocab_size, vocab_size, generator=torch.Generator().manual_seed(seed)) * spread


def sample(
    table: Tensor,
    lines: Sequence[int],
    n_samples: int,
    max_length: int = 8,
    restrictions: Sequence[Restriction] = (),
    seed: int = 1,
    **options: float,
) -> list[list[Hypothesis]]:
    """All samples of each of these lines; line i has the distribution table[i]."""
    choose = Sampling(torch.tensor(lines), n_samples, seed, **options)  # type: ignore[arg-type]
    rules = SearchRules(n_samples, none(), n_best=n_samples)
    max_lengths = torch.full((len(lines),), max_length)
    return beam_search(MarkovStep(table[list(lines)]), max_lengths, rules, restrictions, choose)


def assert_drawn_from(probabilities: Sequence[float], counts: Sequence[int]) -> None:
    """Pearson's χ² with a chance of about 10⁻⁴ to fail (Wilson & Hilferty's quantile); what has P = 0 never occurs."""
    n = sum(counts)
    assert all(count == 0 for count, p in zip(counts, probabilities, strict=True) if p == 0)
    pairs = sorted((p * n, count) for p, count in zip(probabilities, counts, strict=True) if p > 0)
    rare = [pair for pair in pairs if pair[0] < 5]  # too rare for the approximation: counted as one outcome
    cells = [pair for pair in pairs if pair[0] >= 5]
    if rare:
        cells.append((sum(e for e, _ in rare), sum(c for _, c in rare)))
    degrees = max(len(cells) - 1, 1)
    quantile = degrees * (1 - 2 / (9 * degrees) + 3.72 * math.sqrt(2 / (9 * degrees))) ** 3
    assert sum((count - expected) ** 2 / expected for expected, count in cells) < quantile


def allowed(logits: Sequence[float]) -> list[float]:
    """The distribution that samples come from: <unk> is no outcome of a search either."""
    weights = [0.0 if i in (PAD_ID, BOS_ID, UNK_ID) else math.exp(x) for i, x in enumerate(logits)]
    return [weight / sum(weights) for weight in weights]


def every_output(table: list[list[float]], prefix: tuple[int, ...], max_length: int) -> Iterator[tuple[object, float]]:
    for token, p in enumerate(allowed(table[prefix[-1]])):
        if p == 0:
            continue
        if token == EOS_ID or len(prefix) == max_length:
            yield (*prefix[1:], token), p
        else:
            for output, rest in every_output(table, (*prefix, token), max_length):
                yield output, p * rest


# --- noise ---


def splitmix64(state: int, n: int) -> int:
    """The n-th output, in Python's whole numbers, as the paper's figure prints it."""
    z = (state + n * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_the_hash_is_splitmix64() -> None:
    assert splitmix64(1234567, 1) == 6457827717110365317  # published test vector
    source = random.Random(0)
    states = [0, 1, 1234567, 2**63 - 1, *(source.randrange(2**63) for _ in range(500))]
    states += [-state for state in states]
    assert [x % 2**64 for x in mixed(torch.tensor(states)).tolist()] == [splitmix64(s, 1) for s in states]


def test_noise_is_uniform_in_every_direction_of_its_keys() -> None:
    lines, rows, positions = torch.arange(40)[:, None, None], torch.arange(40)[:, None], torch.arange(40)
    noise = random_numbers(7, lines, rows, positions)
    assert noise.shape == (40, 40, 40)
    assert 0 <= noise.min() <= noise.max() <= LAST
    for shift in (24, 12, 0):  # the first bits, some in the middle, the last
        assert_drawn_from([1 / 256] * 256, (noise >> shift & 255).flatten().bincount(minlength=256).tolist())
    for dim in range(3):  # pairs of neighbours fall anywhere in the square
        pairs = (noise >> 28) * 16 + (noise.roll(1, dim) >> 28)
        assert_drawn_from([1 / 256] * 256, pairs.flatten().bincount(minlength=256).tolist())
    other = random_numbers(8, lines, rows, positions)
    assert not (noise == other).all(0).any()
    assert abs(torch.corrcoef(torch.stack([noise.flatten(), other.flatten()]).double())[0, 1]) < 4 / math.sqrt(40**3)


def test_no_number_of_the_noise_depends_on_the_others() -> None:
    lines, rows = torch.tensor([3, 2**40, 0, 9]), torch.arange(5)
    noise = random_numbers(1, lines[:, None], rows, 6)
    for i, line in enumerate(lines.tolist()):
        for row in range(5):
            assert random_numbers(1, torch.tensor(line), row, 6) == noise[i, row]
    assert len(set(noise.flatten().tolist())) == 20


@pytest.mark.gpu
def test_noise_and_draws_are_the_same_on_the_gpu() -> None:
    lines, rows = torch.arange(500)[:, None], torch.arange(8)
    noise = random_numbers(3, lines, rows, 5)
    assert torch.equal(random_numbers(3, lines.cuda(), rows.cuda(), 5).cpu(), noise)
    logits = torch.randn(500, 8, 3000, generator=torch.Generator().manual_seed(0))
    for options in ({}, {"temperature": 0.7, "top_k": 20}, {"top_p": 0.9}):
        here = draw(logits, noise[:, :, None], **options)  # type: ignore[arg-type]
        there = draw(logits.cuda(), noise[:, :, None].cuda(), **options).cpu()  # type: ignore[arg-type]
        assert (here == there).float().mean() > 0.999  # a softmax may differ in its last bits


# --- one draw ---


def reduced(logits: Sequence[float], temperature: float, top_k: int | None, top_p: float) -> list[float]:
    """The distribution after temperature, top-k and nucleus, by their definitions."""
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:top_k]
    weights = {i: math.exp(logits[i] / temperature) for i in order}
    total, before = sum(weights.values()), 0.0
    nucleus = []
    for i in order:
        if before < top_p:
            nucleus.append(i)
        before += weights[i] / total
    mass = sum(weights[i] for i in nucleus)
    return [weights[i] / mass if i in nucleus else 0.0 for i in range(len(logits))]


@pytest.mark.parametrize("vocab_size", [11, 1500], ids=["few", "in blocks"])
@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, None, 1.0), (0.5, None, 1.0), (2.0, None, 1.0), (1.0, 4, 1.0), (1.0, None, 0.7), (0.8, 5, 0.9), (3, 99, 1)],
)
def test_pieces_are_drawn_as_often_as_their_probability_says(
    vocab_size: int, temperature: float, top_k: int | None, top_p: float
) -> None:
    n = 20_000
    row = torch.randn(vocab_size, generator=torch.Generator().manual_seed(vocab_size)) * 1.5
    row[[0, 5]] = -torch.inf
    noise = random_numbers(1, torch.arange(n), 0, 0).view(1, 2, -1)
    drawn = draw(row.expand(1, 2, -1), noise, temperature, top_k, top_p)
    assert drawn.shape == noise.shape
    expected = reduced(row.tolist(), temperature, top_k, top_p)
    assert_drawn_from(expected, drawn.flatten().bincount(minlength=vocab_size).tolist())


def test_the_nucleus_is_the_fewest_pieces_that_hold_p() -> None:
    logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log().view(1, 1, 4)
    spread = torch.linspace(0, LAST, 500, dtype=torch.float64).long().view(1, 1, -1)
    for top_p, pieces in [
        (0.1, {1}),
        (0.39, {1}),
        (0.41, {1, 3}),
        (0.69, {1, 3}),
        (0.71, {1, 2, 3}),
        (0.95, {0, 1, 2, 3}),
    ]:
        assert set(draw(logits, spread, top_p=top_p).flatten().tolist()) == pieces
    # of the two most probable, 0.4 is 4 / 7 of what is left
    assert set(draw(logits, spread, top_k=2, top_p=0.55).flatten().tolist()) == {1}
    assert set(draw(logits, spread, top_k=2, top_p=0.6).flatten().tolist()) == {1, 3}


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_p": 0.9}, {"temperature": 0.01}])
def test_what_is_impossible_is_not_drawn_at_either_end_of_the_noise(options: dict[str, float]) -> None:
    logits = torch.full((1, 1, 2000), -torch.inf)
    logits[0, 0, [700, 900]] = torch.tensor([1.0, 2.0])
    noise = torch.tensor([0, 1, LAST // 2, LAST]).view(1, 1, -1)
    drawn = draw(logits, noise, **options)  # type: ignore[arg-type]
    assert set(drawn.flatten().tolist()) <= {700, 900}


def test_the_nucleus_is_found_as_by_sorting() -> None:
    """Also where weights are equal, nothing, or one of them everything."""
    source = random.Random(0)
    whole = 2**29
    for n in (1, 2, 7, 300):
        for largest in (1, 3, 2000, whole // n):
            weights = [source.randint(0, largest) for _ in range(n)]
            for row in (weights, [w // 2 * 2 for w in weights], [0] * (n - 1) + [whole]):
                order = sorted(range(n), key=lambda i: (-row[i], i))
                for top_p in (1e-30, 0.1, 0.5, 0.9, 0.99):
                    goal = math.ceil(torch.tensor(sum(row)) * top_p)  # in fp32, as there
                    held, expected = 0, [0] * n
                    for i in order:
                        if held < max(goal, 1):
                            held, expected[i] = held + row[i], row[i]
                    assert nucleus(torch.tensor([row], dtype=torch.int32), top_p).tolist() == [expected]


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-300}, {"temperature": 1e-300}])
def test_the_narrowest_draw_is_the_most_probable_piece(options: dict[str, float]) -> None:
    logits = torch.randn(30, 4, 300, generator=torch.Generator().manual_seed(0)) * 10
    noise = random_numbers(0, torch.arange(30)[:, None, None], torch.arange(4)[:, None], torch.arange(7))
    drawn = draw(logits, noise, **options)  # type: ignore[arg-type]
    assert torch.equal(drawn, logits.argmax(2, keepdim=True).expand(-1, -1, 7))


# --- whole samples ---


@pytest.mark.parametrize("options", [{}, {"temperature": 0.6}, {"top_k": 2}])
def test_whole_outputs_are_as_frequent_as_their_probability_says(options: dict[str, float]) -> None:
    """400 lines of one distribution, 25 samples each: rows that move up when others end must not bias what is drawn."""
    table = random_table(1, 7)
    found = sample(table.expand(400, -1, -1), range(400), 25, max_length=4, **options)
    counts = Counter(tuple(h.tokens) for hypotheses in found for h in hypotheses)
    assert counts.total() == 400 * 25
    rows = (table[0] / options.get("temperature", 1.0)).tolist()
    if "top_k" in options:
        rows = [[x if x >= sorted(row[EOS_ID:])[-2] else -math.inf for x in row] for row in rows]
    outputs = dict(every_output(rows, (BOS_ID,), 4))
    assert counts.keys() <= outputs.keys()
    assert sum(outputs.values()) == pytest.approx(1)
    assert_drawn_from(list(outputs.values()), [counts[output] for output in outputs])  # type: ignore[index]


def test_scores_are_the_models_own_log_probabilities() -> None:
    table = random_table(6, 9, spread=2.0)
    impossible = [PAD_ID, BOS_ID]
    for hypotheses, rows in zip(sample(table, range(6), 5, temperature=0.5, top_k=3), table, strict=True):
        log_probs = rows.double().index_fill(1, torch.tensor(impossible), -torch.inf).log_softmax(1)
        for h in hypotheses:
            before = [BOS_ID, *h.tokens[:-1]]
            assert h.score == pytest.approx(
                sum(log_probs[a, b].item() for a, b in zip(before, h.tokens, strict=True)), abs=1e-4
            )
            assert not {PAD_ID, BOS_ID, UNK_ID} & set(h.tokens)
            assert h.complete or len(h.tokens) == 8


@pytest.mark.parametrize("options", [{}, {"temperature": 1.5, "top_k": 4}, {"top_p": 0.8}])
def test_samples_depend_on_neither_batch_size_nor_order_nor_neighbours(options: dict[str, float]) -> None:
    table = random_table(20, 9)
    together = sample(table, range(20), 6, **options)
    backwards = sample(table, range(19, -1, -1), 6, **options)
    assert backwards[::-1] == together
    sevens = [list(range(20))[i : i + 7] for i in range(0, 20, 7)]
    assert [h for lines in sevens for h in sample(table, lines, 6, **options)] == together
    assert [sample(table, [line], 6, **options)[0] for line in range(20)] == together


def test_the_first_samples_are_the_same_however_many_are_drawn() -> None:
    table = random_table(30, 7)
    few, many = sample(table, range(30), 4), sample(table, range(30), 11)
    for fewer, more in zip(few, many, strict=True):
        assert len(fewer) == 4
        assert len(more) == 11
        assert not Counter(tuple(h.tokens) for h in fewer) - Counter(tuple(h.tokens) for h in more)


def test_the_seed_decides_and_lines_with_the_same_text_differ() -> None:
    table = random_table(1, 30).expand(8, -1, -1)
    first = sample(table, range(8), 3)
    assert sample(table, range(8), 3) == first
    assert all(a != b for a, b in zip(sample(table, range(8), 3, seed=2), first, strict=True))
    assert len({tuple(h.tokens) for hypotheses in first for h in hypotheses}) == 24


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-300}, {"temperature": 1e-300}])
def test_the_narrowest_samples_are_greedy_search(options: dict[str, float]) -> None:
    table = random_table(10, 12, spread=3.0)
    greedy = beam_search(MarkovStep(table), torch.full((10,), 8), SearchRules(1, none()))
    assert sample(table, range(10), 1, **options) == greedy
    assert sample(table, range(10), 4, **options) == [hypotheses * 4 for hypotheses in greedy]


def test_the_best_of_several_samples_is_the_first_of_all_of_them() -> None:
    """The search may stop early, once no sample that lives can overtake; that changes nothing."""
    table = random_table(12, 9)
    max_lengths = torch.full((12,), 15)
    for n_best in (1, 3):
        choose = Sampling(torch.arange(12), 6, 1)
        best = beam_search(MarkovStep(table), max_lengths, SearchRules(6, wu(0.6), n_best), choose=choose)
        every = beam_search(MarkovStep(table), max_lengths, SearchRules(6, wu(0.6), 6), choose=choose)
        assert best == [hypotheses[:n_best] for hypotheses in every]


def test_a_row_without_a_possible_piece_dies_and_the_others_live_on() -> None:
    """Whoever has produced a 5 cannot go on: those samples are lost, and no other changes."""
    table = random_table(40, 8, spread=0.5)

    def nothing_after_5(continuations: Continuations, state: BeamState) -> None:
        if state.tokens.size(2):
            continuations.logits.masked_fill_((state.tokens[:, :, -1] == 5)[:, :, None], -torch.inf)

    free = sample(table, range(40), 1)
    bound = sample(table, range(40), 1, restrictions=[nothing_after_5])
    assert bound == [[h for h in hypotheses if 5 not in h.tokens[:-1]] for hypotheses in free]
    several = sample(table, range(40), 6, restrictions=[nothing_after_5])
    assert all(math.isfinite(h.score) and 5 not in h.tokens[:-1] for hypotheses in several for h in hypotheses)
    assert {len(hypotheses) for hypotheses in several} > {1, 2, 3}

    def nothing(continuations: Continuations, state: BeamState) -> None:
        continuations.logits.fill_(-torch.inf)

    for options in ({}, {"top_k": 3}, {"top_p": 0.5}):
        assert sample(table, [0, 1], 3, restrictions=[nothing], **options) == [[], []]


def test_an_output_that_is_not_a_number_stays_one() -> None:
    [hypotheses] = sample(torch.full((1, 9, 9), torch.nan), [0], 2, max_length=2)
    assert all(math.isnan(h.score) for h in hypotheses)
