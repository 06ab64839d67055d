"""The whole network: laws that hold under every pair of settings, tying, initialisation, and attention weights."""

from __future__ import annotations

import copy
import itertools
import math
import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from transformer.attention import Form, MultiHeadAttention
from transformer.config import ModelSettings
from transformer.masks import padding_mask
from transformer.model import PAD_ID, Transformer

VOCAB = 11
SRC = torch.tensor([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0], [7, 3, 0, 0, 0]])
TGT_IN = torch.tensor([[2, 8, 9, 4], [2, 7, 0, 0], [2, 5, 6, 0]])
TGT_OUT = torch.tensor([[8, 9, 4, 3], [7, 3, 0, 0], [5, 6, 3, 0]])

OPTIONS: dict[str, list[Any]] = {
    "norm_position": ["post", "pre"],
    "norm": ["layer_norm", "rms_norm"],
    "activation": ["relu", "gelu", "silu", "swiglu"],
    "positions": ["sinusoidal", "rotary"],
    "attention_bias": [False, True],
    "projection_bias": [False, True],
    "embedding_norm": [False, True],
    "scaling": ["embedding", "projection", "none"],
    "tie_embeddings": ["three_way", "target", "source_target", "none"],
    ("n_encoder_layers", "n_decoder_layers"): [(1, 1), (3, 1), (1, 2)],
    ("d_head", "d_value"): [(None, None), (6, 3), (2, 10)],
}


def every_pair(options: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Few combinations in which any two values of any two options meet; all together would be 13,824."""
    chooser = random.Random(1)
    missing = {
        frozenset([(a, x), (b, y)])
        for a, b in itertools.combinations(options, 2)
        for x in options[a]
        for y in options[b]
    }
    rows = []
    while missing:
        candidates = [{name: chooser.choice(values) for name, values in options.items()} for _ in range(300)]
        best = max(candidates, key=lambda row: len(missing & pairs_in(row)))
        missing -= pairs_in(best)
        rows.append(best)
    return rows


def pairs_in(row: dict[str, Any]) -> set[frozenset[tuple[str, Any]]]:
    return {frozenset(pair) for pair in itertools.combinations(row.items(), 2)}


def spread(row: dict[Any, Any]) -> dict[str, Any]:
    """Options that stand together become single settings."""
    single: dict[str, Any] = {}
    for name, value in row.items():
        single |= dict(zip(name, value, strict=True)) if isinstance(name, tuple) else {name: value}
    return single


ROWS = [spread(row) for row in every_pair(OPTIONS)]
EVERY_PAIR = pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(str(value) for value in row.values()))
FORMS = pytest.mark.parametrize("form", ["explicit", "fused"])


def settings(**changes: Any) -> ModelSettings:
    small = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 20, "n_heads": 2, "dropout": 0.0}
    return ModelSettings(**(small | changes))


def make(**changes: Any) -> Transformer:
    network = Transformer(settings(**changes), VOCAB, VOCAB)
    for name, parameter in network.named_parameters():  # nothing at the 0 or 1 it starts from
        if name.endswith("bias") or ".norm." in name:
            torch.nn.init.normal_(parameter, mean=0.5, std=0.3)
    return network


def loss_of(network: Transformer, src: Tensor = SRC, tgt_in: Tensor = TGT_IN, tgt_out: Tensor = TGT_OUT) -> Tensor:
    return F.cross_entropy(network(src, tgt_in).flatten(0, 1), tgt_out.flatten(), ignore_index=0, reduction="sum")


def gradients(loss: Tensor, network: Transformer) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, list(network.parameters()))


# --- under every pair of settings ---


def test_every_two_settings_meet_in_some_row() -> None:
    assert len(ROWS) < 40
    for a, b in itertools.combinations(spread({name: values[0] for name, values in OPTIONS.items()}), 2):
        assert len({(row[a], row[b]) for row in ROWS}) >= len({row[a] for row in ROWS})


@EVERY_PAIR
def test_training_lowers_the_loss(row: dict[str, Any]) -> None:
    network = make(**row, dropout=0.1, attention_dropout=0.1, feed_forward_dropout=0.1)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    before = loss_of(network.eval())
    network.train()
    for _ in range(12):
        optimizer.zero_grad()
        loss_of(network).backward()
        optimizer.step()
    assert all(parameter.grad is not None for parameter in network.parameters())
    assert loss_of(network.eval()) < 0.9 * before


@EVERY_PAIR
def test_cached_decoding_equals_full_decoding(row: dict[str, Any]) -> None:
    network, src_mask = make(**row).eval(), padding_mask(SRC, PAD_ID)
    width = 2
    tgt = torch.randint(1, VOCAB, (3 * width, 6))
    memory = network.encode(SRC, src_mask)
    whole = network.decode(tgt, memory.repeat_interleave(width, 0), src_mask.repeat_interleave(width, 0))
    assert_close(network.project(whole), network(SRC.repeat_interleave(width, 0), tgt))
    cache, parts = network.start_cache(memory, src_mask), []
    for place in range(6):
        if place:
            cache.follow(None, torch.arange(width).expand(3, -1))
        parts.append(network.decode_step(tgt[:, place].view(3, width), cache).flatten(0, 1))
    assert_close(torch.stack(parts, 1), whole, atol=1e-5, rtol=1e-5)


@EVERY_PAIR
def test_padding_changes_neither_logits_nor_gradients(row: dict[str, Any]) -> None:
    """A padded batch is its sentences, each alone: logits at real places, and the sum of the gradients."""
    network = make(**row).double()
    together = gradients(loss_of(network), network)
    alone = [torch.zeros_like(parameter) for parameter in network.parameters()]
    logits = network(SRC, TGT_IN)
    for i in range(3):
        src, tgt_in, tgt_out = (x[i : i + 1, x[i] != 0] for x in (SRC, TGT_IN, TGT_OUT))
        assert_close(network(src, tgt_in), logits[i : i + 1, : tgt_in.size(1)], atol=1e-5, rtol=1e-5)
        alone = [a + b for a, b in zip(alone, gradients(loss_of(network, src, tgt_in, tgt_out), network), strict=True)]
    assert_close(together, tuple(alone), atol=1e-5, rtol=1e-5)


@EVERY_PAIR
def test_a_target_token_changes_no_logits_before_itself(row: dict[str, Any]) -> None:
    network = make(**row)
    before = network(SRC, TGT_IN)
    for place in range(TGT_IN.size(1)):
        changed = TGT_IN.clone()
        changed[:, place] = 10
        assert_close(network(SRC, changed)[:, :place], before[:, :place], atol=1e-6, rtol=0)


@EVERY_PAIR
def test_both_forms_of_attention_train_alike(row: dict[str, Any]) -> None:
    network = make(**row).double()
    results = []
    for form in ("explicit", "fused"):
        network.use_attention(form)
        results.append((network(SRC, TGT_IN), gradients(loss_of(network), network)))
    assert_close(*results)


@EVERY_PAIR
def test_parameters_are_counted_by_formula(row: dict[str, Any]) -> None:
    chosen = settings(**row)
    d, norm = chosen.d_model, chosen.d_model * (2 if chosen.norm == "layer_norm" else 1)
    columns = chosen.n_heads * (2 * chosen.key_width + chosen.value_width)
    attention = d * columns + chosen.n_heads * chosen.value_width * d
    if chosen.attention_bias:
        attention += columns + d
    inner = chosen.d_ff * (2 if chosen.activation == "swiglu" else 1)
    feed_forward = (d + 1) * inner + (chosen.d_ff + 1) * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    matrices = {"three_way": 1, "target": 2, "source_target": 2, "none": 3}[chosen.tie_embeddings]
    other_norms = 2 * (chosen.norm_position == "pre") + 2 * chosen.embedding_norm
    expected = (
        chosen.n_encoder_layers * encoder_layer
        + chosen.n_decoder_layers * decoder_layer
        + other_norms * norm
        + matrices * VOCAB * d
        + VOCAB * chosen.projection_bias
    )
    assert sum(parameter.numel() for parameter in make(**row).parameters()) == expected


# --- sizes of the paper ---

TABLE_3 = [  # what differs from base, and millions of parameters
    ({"n_heads": 1}, 65),  # (A): d_k = d_v = 512 / h
    ({"n_heads": 32}, 65),
    ({"d_head": 16, "d_value": 64}, 58),  # (B)
    ({"d_head": 32, "d_value": 64}, 60),
    ({"n_encoder_layers": 2, "n_decoder_layers": 2}, 36),  # (C)
    ({"n_encoder_layers": 4, "n_decoder_layers": 4}, 50),
    ({"n_encoder_layers": 8, "n_decoder_layers": 8}, 80),
    ({"d_model": 256}, 28),
    ({"d_model": 1024}, 168),
    ({"d_ff": 1024}, 53),
    ({"d_ff": 4096}, 90),
]


@pytest.mark.parametrize(("changes", "millions"), TABLE_3, ids=[str(changes) for changes, _ in TABLE_3])
def test_variations_have_the_sizes_of_table_3(changes: dict[str, Any], millions: int) -> None:
    """The paper does not state the vocabulary of its tables exactly; we take the one that gives base its 65 million."""
    with torch.device("meta"):
        vocab_size = (65_000_000 - n_parameters(Transformer(ModelSettings(), 1, 1))) // 512
        network = Transformer(ModelSettings(**changes), vocab_size, vocab_size)
    assert abs(n_parameters(network) / 1e6 - millions) < 1.1


def n_parameters(network: Transformer) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


# --- blank sources ---


@FORMS
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_a_blank_source_does_not_poison_its_batch(training: bool, form: Form) -> None:
    """Case M1: a source row without a real token, forward, loss and backward."""
    src, tgt = torch.tensor([[5, 6, 7, 3], [0, 0, 0, 0]]), torch.tensor([[2, 8, 9], [2, 8, 9]])
    network = make().train(training)
    network.use_attention(form)
    logits = network(src, tgt)
    assert logits.isfinite().all()
    assert_close(logits[:1], network(src[:1], tgt[:1]), atol=1e-5, rtol=0)
    loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten())
    assert all(gradient.isfinite().all() for gradient in gradients(loss, network))


@FORMS
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16", "bf16 autocast"])
def test_a_blank_source_stays_finite_in_every_precision_and_with_dropout(precision: str, form: Form) -> None:
    src = torch.tensor([[5, 6, 7, 3], [0, 0, 0, 0]])
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    network = make(dropout=0.3, attention_dropout=0.3).to(dtype)
    network.use_attention(form)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16 autocast"):
        logits = network(src, TGT_IN[:2])
    loss = F.cross_entropy(logits.float().flatten(0, 1), TGT_OUT[:2].flatten(), ignore_index=0)
    assert logits.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(loss, network))


@FORMS
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_low_precision_is_near_full_precision(positions: str, form: Form) -> None:
    network = make(positions=positions)
    network.use_attention(form)
    exact = network(SRC, TGT_IN)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = network(SRC, TGT_IN)
    low = network.to(torch.bfloat16)(SRC, TGT_IN)
    assert mixed.dtype == low.dtype == torch.bfloat16
    assert_close(mixed.float(), exact, atol=0.1, rtol=0.1)
    assert_close(low.float(), exact, atol=0.2, rtol=0.1)


# --- weight tying and scaling, §3.4 ---


@pytest.mark.parametrize(
    ("tie", "shared"),
    [("three_way", "src tgt projection"), ("target", "tgt projection"), ("source_target", "src tgt"), ("none", "")],
)
def test_tied_matrices_are_one_in_memory_even_in_a_copy(tie: str, shared: str) -> None:
    for network in (
        make(tie_embeddings=tie),
        copy.deepcopy(make(tie_embeddings=tie)),
        make(tie_embeddings=tie).double(),
    ):
        matrices = {
            "src": network.encoder.embedding.table.weight,
            "tgt": network.decoder.embedding.table.weight,
            "projection": network.projection.weight,
        }
        assert len({matrices[name].data_ptr() for name in matrices}) == 3 - max(0, len(shared.split()) - 1)
        assert len({matrices[name].data_ptr() for name in shared.split()}) <= 1


def test_vocabularies_of_two_sizes_are_possible_where_their_tables_are_two() -> None:
    for tie in ("target", "none"):
        assert Transformer(settings(tie_embeddings=tie), 11, 13)(SRC, TGT_IN).shape == (3, 4, 13)
    for tie in ("three_way", "source_target"):
        with pytest.raises(AssertionError, match="one vocabulary"):
            Transformer(settings(tie_embeddings=tie), 11, 13)


@pytest.mark.parametrize(("scaling", "factor"), [("embedding", 1.0), ("projection", 0.25), ("none", 1.0)])
def test_logits_are_products_with_the_projection_scaled_if_so_set(scaling: str, factor: float) -> None:
    network, hidden = make(scaling=scaling), torch.randn(2, 3, 16)  # 1 / √16 = 0.25
    assert_close(network.project(hidden), factor * hidden @ network.projection.weight.T)


# --- initialisation ---


def assert_xavier(matrix: Tensor, gain: float) -> None:
    """Uniform within ± gain · √(6 / (inputs + outputs)), Glorot & Bengio 2010, equation 16."""
    bound = gain * math.sqrt(6 / sum(matrix.shape))
    assert matrix.abs().max() <= bound
    assert matrix.abs().max() > 0.97 * bound
    assert abs(matrix.std().item() / (bound / math.sqrt(3)) - 1) < 0.1


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
@pytest.mark.parametrize(("norm_position", "gain"), [("post", 0.5), ("pre", 1.0)])
def test_each_matrix_starts_within_its_own_xavier_bounds(activation: str, norm_position: str, gain: float) -> None:
    widths = {"d_model": 64, "d_ff": 96, "n_heads": 4, "d_head": 20, "d_value": 10}
    chosen = settings(**widths, activation=activation, norm_position=norm_position)
    network = Transformer(chosen.model_copy(update={"tie_embeddings": "none", "attention_bias": True}), 200, 200)
    linears = [module for module in network.modules() if isinstance(module, nn.Linear)]
    assert len(linears) > 8
    for linear in linears:
        assert_xavier(linear.weight, gain)
        assert linear.bias is None or not linear.bias.any()


def test_embeddings_start_with_variance_one_after_scaling_and_logits_too() -> None:
    network = Transformer(settings(d_model=256), 1000, 1000)
    scaled = network.encoder.embedding.table.weight * network.encoder.embedding.scale
    assert abs(scaled.var().item() - 1) < 0.02
    assert abs(scaled.mean().item()) < 0.01
    hidden = F.layer_norm(torch.randn(50, 256), (256,))
    assert abs(network.project(hidden).var().item() - 1) < 0.1


# --- attention weights, and which form runs ---


def test_attention_weights_of_every_layer_and_head_are_what_the_layers_computed() -> None:
    network = make(n_encoder_layers=2, n_decoder_layers=3, d_head=6, d_value=3, norm_position="pre").eval()
    seen: dict[MultiHeadAttention, Tensor] = {}

    def recompute(module: MultiHeadAttention, inputs: tuple[Any, ...], named: dict[str, Any], _: object) -> None:
        """softmax(Q Kᵀ / √d_k) from what the module was given."""
        mask = inputs[1] if len(inputs) > 1 else None
        query_rows, key_rows, _rows = module.in_projection.weight.split(module.widths)
        queries = (inputs[0] @ query_rows.T).unflatten(-1, (2, 6))
        memory = named.get("memory")
        keys = (inputs[0] @ key_rows.T).unflatten(-1, (2, 6)).transpose(1, 2) if memory is None else memory.keys
        products = torch.einsum("bthk,bhsk->bhts", queries, keys) / math.sqrt(6)
        seen[module] = (products if mask is None else products + mask).softmax(-1)

    attentions = [module for module in network.modules() if isinstance(module, MultiHeadAttention)]
    hooks = [module.register_forward_hook(recompute, with_kwargs=True) for module in attentions]
    network(SRC, TGT_IN)
    for hook in hooks:
        hook.remove()

    weights = network.attention_weights(SRC, TGT_IN)
    assert [w.shape for w in weights.encoder] == [(3, 2, 5, 5)] * 2
    assert [w.shape for w in weights.decoder] == [(3, 2, 4, 4)] * 3
    assert [w.shape for w in weights.cross] == [(3, 2, 4, 5)] * 3
    decoder_layers = network.decoder.layers
    assert_close(weights.encoder, [seen[layer.self_attention] for layer in network.encoder.layers])
    assert_close(weights.decoder, [seen[layer.self_attention] for layer in decoder_layers])
    assert_close(weights.cross, [seen[layer.cross_attention] for layer in decoder_layers])
    for w in (*weights.encoder, *weights.decoder, *weights.cross):
        assert_close(w.sum(-1), torch.ones(w.shape[:-1]))
    assert all((w[:, :, :, 1:][:, :, 0] == 0).all() for w in weights.decoder)  # the first position sees itself only
    assert all((w[1, :, :, 3:] == 0).all() for w in (*weights.encoder, *weights.cross))  # padding


def test_asking_for_attention_weights_leaves_the_network_as_it_was() -> None:
    network = make()
    network.use_attention("fused")
    network.encoder.layers[0].self_attention.form = None
    before = network(SRC, TGT_IN)
    attentions = [module for module in network.modules() if isinstance(module, MultiHeadAttention)]
    for ids in (SRC, SRC + 100):  # ids outside the vocabulary: the network fails in between
        try:
            assert not network.attention_weights(ids, TGT_IN).encoder[0].requires_grad
        except IndexError:
            assert ids is not SRC
        assert [module.form for module in attentions] == [None, "fused", "fused"]
        assert not any(module._forward_hooks for module in attentions)
    assert torch.equal(network(SRC, TGT_IN), before)


def test_use_attention_chooses_the_form_everywhere() -> None:
    network = make(n_decoder_layers=2)
    attentions = [module for module in network.modules() if isinstance(module, MultiHeadAttention)]
    assert len(attentions) == 5
    for form in ("fused", "explicit", None):
        network.use_attention(form)
        assert {module.form for module in attentions} == {form}
