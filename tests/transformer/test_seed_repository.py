"""Networks of jadore801120/attention-is-all-you-need-pytorch, mapped as docs/seed_repository.md says, give its logits.

Its layout is stated afresh below, as a function of a dictionary of weights with its names.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import yaml
from torch import Tensor
from torch.testing import assert_close

from transformer.config import ModelSettings
from transformer.model import Transformer

PAGE = (Path(__file__).parents[2] / "docs" / "seed_repository.md").read_text(encoding="utf-8")
PAD_THERE = 1  # torchtext has <unk> at 0 and padding at 1; here padding is 0 and <unk> is 1
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Options:
    """Its constructor's arguments, under its names; d_k and d_v do not follow from d_model and n_head."""

    trg_emb_prj_weight_sharing: bool
    emb_src_trg_weight_sharing: bool
    scale_emb_or_prj: str
    n_src_vocab: int = 13
    n_trg_vocab: int = 13
    d_model: int = 16
    d_inner: int = 24
    n_layers: int = 2
    n_head: int = 4
    d_k: int = 6
    d_v: int = 5

    @property
    def scaled(self) -> str:
        return self.scale_emb_or_prj if self.trg_emb_prj_weight_sharing else "none"


# --- its network, stated afresh ---


def random_weights(options: Options) -> Weights:
    d, heads = options.d_model, options.n_head
    attention = {
        "w_qs.weight": (heads * options.d_k, d),
        "w_ks.weight": (heads * options.d_k, d),
        "w_vs.weight": (heads * options.d_v, d),
        "fc.weight": (d, heads * options.d_v),
        "layer_norm.weight": (d,),
        "layer_norm.bias": (d,),
    }
    feed_forward = {
        "w_1.weight": (options.d_inner, d),
        "w_1.bias": (options.d_inner,),
        "w_2.weight": (d, options.d_inner),
        "w_2.bias": (d,),
        "layer_norm.weight": (d,),
        "layer_norm.bias": (d,),
    }
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.src_word_emb.weight": (options.n_src_vocab, d),
        "decoder.trg_word_emb.weight": (options.n_trg_vocab, d),
        "trg_word_prj.weight": (options.n_trg_vocab, d),
    }
    sublayers = {"encoder": ("slf_attn", "pos_ffn"), "decoder": ("slf_attn", "enc_attn", "pos_ffn")}
    for side, names in sublayers.items():
        shapes |= {f"{side}.layer_norm.weight": (d,), f"{side}.layer_norm.bias": (d,)}
        for layer, name in itertools.product(range(options.n_layers), names):
            parts = feed_forward if name == "pos_ffn" else attention
            shapes |= {f"{side}.layer_stack.{layer}.{name}.{part}": shape for part, shape in parts.items()}
    weights = {name: 0.5 * torch.randn(shape, dtype=torch.float64) for name, shape in shapes.items()}
    for name in weights:
        if name.endswith("layer_norm.weight"):
            weights[name] += 1
    if options.trg_emb_prj_weight_sharing:
        weights["trg_word_prj.weight"] = weights["decoder.trg_word_emb.weight"]
    if options.emb_src_trg_weight_sharing:
        weights["encoder.src_word_emb.weight"] = weights["decoder.trg_word_emb.weight"]
    return weights


def logits_there(w: Weights, options: Options, src: Tensor, trg: Tensor) -> Tensor:
    """Evaluation mode: (B, T) → (B, T, V)."""

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, (options.d_model,), w[f"{name}.weight"], w[f"{name}.bias"], eps=1e-6)

    def embed(name: str, ids: Tensor) -> Tensor:
        x = w[f"{name}.weight"][ids] * (options.d_model**0.5 if options.scaled == "emb" else 1.0)
        return x + sinusoid_table(ids.size(1), options.d_model)

    def attend(name: str, q: Tensor, kv: Tensor, mask: Tensor) -> Tensor:
        heads = []
        rows = ((options.d_k, "w_qs", q), (options.d_k, "w_ks", kv), (options.d_v, "w_vs", kv))
        for h in range(options.n_head):
            query, key, value = (x @ w[f"{name}.{part}.weight"][h * n : (h + 1) * n].T for n, part, x in rows)
            products = (query @ key.mT / options.d_k**0.5).masked_fill(~mask, -1e9)
            heads.append(products.softmax(-1) @ value)
        return norm(f"{name}.layer_norm", q + torch.cat(heads, -1) @ w[f"{name}.fc.weight"].T)

    def feed_forward(name: str, x: Tensor) -> Tensor:
        inner = F.relu(x @ w[f"{name}.w_1.weight"].T + w[f"{name}.w_1.bias"])
        return norm(f"{name}.layer_norm", x + inner @ w[f"{name}.w_2.weight"].T + w[f"{name}.w_2.bias"])

    src_mask = (src != PAD_THERE)[:, None, :]
    trg_mask = (trg != PAD_THERE)[:, None, :] & torch.ones(trg.size(1), trg.size(1), dtype=torch.bool).tril()
    memory = norm("encoder.layer_norm", embed("encoder.src_word_emb", src))
    for i in range(options.n_layers):
        memory = attend(f"encoder.layer_stack.{i}.slf_attn", memory, memory, src_mask)
        memory = feed_forward(f"encoder.layer_stack.{i}.pos_ffn", memory)
    x = norm("decoder.layer_norm", embed("decoder.trg_word_emb", trg))
    for i in range(options.n_layers):
        x = attend(f"decoder.layer_stack.{i}.slf_attn", x, x, trg_mask)
        x = attend(f"decoder.layer_stack.{i}.enc_attn", x, memory, src_mask)
        x = feed_forward(f"decoder.layer_stack.{i}.pos_ffn", x)
    return x @ w["trg_word_prj.weight"].T * (options.d_model**-0.5 if options.scaled == "prj" else 1.0)


def sinusoid_table(n: int, d: int) -> Tensor:
    columns = torch.arange(d, dtype=torch.float64)
    angles = torch.arange(n, dtype=torch.float64)[:, None] / 10_000 ** (2 * (columns // 2) / d)
    return torch.where(columns % 2 == 0, angles.sin(), angles.cos())


# --- the page, applied ---


def our_settings(options: Options) -> ModelSettings:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    tying = {(True, True): "three_way", (True, False): "target", (False, True): "source_target", (False, False): "none"}
    return ModelSettings(
        **yaml.safe_load(block)["model"],
        d_model=options.d_model,
        d_ff=options.d_inner,
        n_encoder_layers=options.n_layers,
        n_decoder_layers=options.n_layers,
        n_heads=options.n_head,
        d_head=options.d_k,
        d_value=options.d_v,
        dropout=0.1,
        tie_embeddings=tying[options.trg_emb_prj_weight_sharing, options.emb_src_trg_weight_sharing],
        scaling={"emb": "embedding", "prj": "projection", "none": "none"}[options.scaled],
    )


def our_weights(weights: Weights) -> Weights:
    """Rename as the page's table says, stack what shares a place, and give padding the id 0."""
    found: dict[str, list[Tensor]] = {}
    used = []
    for there, here in re.findall(r"^\| `(\S+)` \| `(\S+)` \|$", PAGE, flags=re.MULTILINE):
        pattern = re.escape(there).replace(r"\*", "(?P<kind>weight|bias)").replace("N", r"(?P<layer>\d+)")
        place = here.replace("*", r"\g<kind>").replace("N", r"\g<layer>")
        names = [name for name in weights if re.fullmatch(pattern, name)]
        for name in names:
            found.setdefault(re.sub(pattern, place, name), []).append(weights[name])
        used += names
    assert sorted(used) == sorted(weights), "each weight has one row in the table"
    ours = {name: torch.cat(tensors) for name, tensors in found.items()}
    for table in ("encoder.embedding.table.weight", "decoder.embedding.table.weight", "projection.weight"):
        ours[table] = ours[table][renumbered(torch.arange(len(ours[table])))]
    return ours


def renumbered(ids: Tensor) -> Tensor:
    """Exchange 0 and 1, in either direction."""
    return torch.where(ids < 2, 1 - ids, ids)


COMBINATIONS = [Options(*values) for values in itertools.product([True, False], [True, False], ["emb", "prj", "none"])]


@pytest.mark.parametrize(
    "options", COMBINATIONS, ids=lambda options: "-".join(map(str, list(vars(options).values())[:3]))
)
def test_a_mapped_network_gives_the_same_logits(options: Options) -> None:
    weights = random_weights(options)
    network = Transformer(our_settings(options), options.n_src_vocab, options.n_trg_vocab).double().eval()
    network.load_state_dict(our_weights(weights))  # strict: every weight of ours is filled
    src, trg = (torch.randint(2, 13, (3, n)) for n in (7, 5))
    src[1, 4:] = src[2, 2:] = trg[1, 3:] = PAD_THERE
    theirs = logits_there(weights, options, src, trg)
    ours = network(renumbered(src), renumbered(trg))[..., renumbered(torch.arange(13))]
    assert_close(ours[trg != PAD_THERE], theirs[trg != PAD_THERE], atol=1e-5, rtol=0)


def test_vocabularies_of_two_sizes_are_mapped_too() -> None:
    options = Options(True, False, "prj", n_src_vocab=9, n_trg_vocab=15)
    weights = random_weights(options)
    network = Transformer(our_settings(options), 9, 15).double().eval()
    network.load_state_dict(our_weights(weights))
    src, trg = torch.randint(2, 9, (3, 7)), torch.randint(2, 15, (3, 5))
    ours = network(src, trg)[..., renumbered(torch.arange(15))]
    assert_close(ours, logits_there(weights, options, src, trg), atol=1e-5, rtol=0)


def test_the_restated_layout_reacts_to_every_weight_and_option() -> None:
    """So that equal logits mean something: no weight is left unread, and no two options give the same network."""
    options = Options(False, False, "none")
    weights = random_weights(options)
    src, trg = torch.randint(2, 13, (2, 6)), torch.randint(2, 13, (2, 5))
    before = logits_there(weights, options, src, trg)
    for name, tensor in weights.items():
        after = logits_there(weights | {name: 1.5 * tensor + 0.1}, options, src, trg)
        assert not torch.allclose(after, before, atol=1e-3, rtol=0), name
    scaled = [logits_there(weights, Options(True, False, scale), src, trg) for scale in ("emb", "prj", "none")]
    assert all(not torch.allclose(a, b, atol=1e-3) for a, b in itertools.combinations(scaled, 2))


def test_its_label_smoothing_is_ours_with_a_slightly_larger_rate() -> None:
    """There: 1 − ε for the right piece and ε / (V − 1) for each other; PyTorch's ε, over all V, is ε V / (V − 1)."""
    logits, gold = torch.randn(6, 13, dtype=torch.float64), torch.randint(0, 13, (6,))
    right = F.one_hot(gold, 13).double()
    targets = right * 0.9 + (1 - right) * 0.1 / 12
    expected = -(targets * logits.log_softmax(-1)).sum(-1).mean()
    assert_close(F.cross_entropy(logits, gold, label_smoothing=0.1 * 13 / 12), expected)
