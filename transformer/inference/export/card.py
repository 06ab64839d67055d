"""README.md of an exported folder: what it is, how to translate with it, and how it was compared."""

from __future__ import annotations

from transformer.inference.export.description import ExportDescription
from transformer.inference.export.gate import Gate, Parity
from transformer.inference.export.obstacles import LIMITS
from transformer.inference.export.target import Target
from transformer.model_card import Licence, front_matter
from transformer.model_directory import Model

N_EXAMPLES, LONGEST_EXAMPLE = 3, 200  # characters


def export_card(
    model: Model, target: Target, description: ExportDescription, gate: Gate, parity: Parity, licence: Licence
) -> str:
    """The text, in Markdown with the hub's metadata before it."""
    settings, title = model.settings, LIMITS[target.name].title
    kind = f", {description.quantization}" if description.quantization else ""
    examples = [
        f"    {src}\n    → {tgt}"
        for src, tgt in zip(gate.given.lines, gate.beam, strict=True)
        if src.strip() and len(src) <= LONGEST_EXAMPLE
    ]
    shown = "\n\n".join(examples[:N_EXAMPLES])
    metadata = front_matter(model.src_lang, model.tgt_lang, licence, target.library)
    return f"""{metadata}

# {model.src_lang} → {model.tgt_lang} translation model for {title}{kind}

A Transformer (Vaswani et al. 2017): {settings.n_encoder_layers} + {settings.n_decoder_layers} layers, \
d_model {settings.d_model}, {settings.n_heads} heads; {len(model.src_vocabulary):,} source and \
{len(model.tgt_vocabulary):,} target pieces.

{shown}

## How to translate

{target.usage(model, description)}
## Compared with its origin

{parity.describe()[0].upper()}{parity.describe()[1:]}.

`export.json` holds the same in numbers, the settings of the search and the checksums of all files.
"""
