"""What the settings allow, in words, read from their JSON schema: for messages and for docs/configuration.md."""

from __future__ import annotations

import difflib
import json
from typing import Any

from transformer.config import Settings
from transformer.yaml12 import Key

SCHEMA: dict[str, Any] = Settings.model_json_schema()

_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
}
_BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}

# What other toolkits call our settings: for the suggestion only, never accepted.
_ELSEWHERE = {
    "accum_count": "train.batch_tokens",
    "batch_size": "train.batch_tokens",
    "beam": "translate.beam_size",
    "clip_grad_norm": "train.clip_norm",
    "decoder_layers": "model.n_decoder_layers",
    "early_stopping_patience": "train.patience",
    "embedding_dim": "model.d_model",
    "encoder_layers": "model.n_encoder_layers",
    "epochs": "train.max_steps",
    "ffn_dim": "model.d_ff",
    "gradient_clipping": "train.clip_norm",
    "hidden_size": "model.d_model",
    "learning_rate": "train.lr",
    "lenpen": "translate.alpha",
    "max_updates": "train.max_steps",
    "num_heads": "model.n_heads",
    "num_layers": "model.n_encoder_layers",
    "share_embeddings": "model.tie_embeddings",
    "source_lang": "data.src_lang",
    "target_lang": "data.tgt_lang",
    "train_steps": "train.max_steps",
    "vocab_size": "vocabulary.size",
}


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    """Follow a schema's reference into `$defs`, if it is one."""
    if "$ref" in schema:
        definition: dict[str, Any] = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
        return definition
    return schema


SECTIONS: dict[str, dict[str, Any]] = {
    name: resolve(schema)["properties"] for name, schema in SCHEMA["properties"].items() if "$ref" in schema
}
"""Per section, the schema of each of its keys."""

SETTINGS = {name: name for name in SCHEMA["properties"] if name not in SECTIONS} | {
    f"{section}.{key}": key for section, keys in SECTIONS.items() for key in keys
}
"""Every setting: dotted name → its last word."""


def schema_at(path: Key) -> dict[str, Any] | None:
    """Return the schema of the value at a path such as ("data", "train", 0, "src"), None where nothing may stand."""
    candidates = [SCHEMA]  # several where a list item is one of two kinds of corpus
    for part in path:
        kinds = [resolve(kind) for schema in candidates for kind in schema.get("anyOf", [schema])]  # X, or null
        candidates = [inner for schema in kinds if (inner := _inner(schema, part))]
        candidates = [resolve(kind) for inner in candidates for kind in inner.get("oneOf", [inner])]
    return {"oneOf": candidates} if len(candidates) > 1 else candidates[0] if candidates else None


def _inner(schema: dict[str, Any], part: str | int) -> dict[str, Any] | None:
    if isinstance(part, int):
        return schema.get("items")
    return schema.get("properties", {}).get(part) or next(iter(schema.get("patternProperties", {}).values()), None)


def rule(schema: dict[str, Any]) -> str:
    """Say what a value must be: type and bounds, such as "a number > 0, <= 10, or null"."""
    schema = resolve(schema)
    if "anyOf" in schema or "oneOf" in schema:
        if schema.get("discriminator", {}).get("propertyName") == "filter":
            return "a filter, such as {filter: length}"
        kinds = list(dict.fromkeys(rule(kind) for kind in schema.get("anyOf") or schema["oneOf"]))
        return (", or " if any("," in kind for kind in kinds) else " or ").join(kinds)
    if "enum" in schema:
        *others, last = schema["enum"]
        return f"{', '.join(others)} or {last}"
    if "const" in schema:
        return str(schema["const"])
    if schema["type"] == "array":
        return "a list, each item " + rule(schema["items"])
    if schema["type"] == "object":
        if "required" in schema:
            return "{" + ", ".join(f"{key}: …" for key in schema["required"]) + "}"
        if "properties" in schema:
            return "a mapping of settings"
        return "a mapping of names to " + rule(*schema["patternProperties"].values())
    if schema.get("pattern", "").startswith("^<"):
        return "a word in angle brackets, such as <bt>"
    if "pattern" in schema:
        return "text of letters, digits and _ . + -, beginning with a letter or digit"
    words = _WORDS[schema["type"]]
    if "minLength" in schema:
        return words + ", not empty"
    if "minimum" in schema and "maximum" in schema:
        return f"{words} from {_number(schema['minimum'])} to {_number(schema['maximum'])}"
    bounds = [f"{sign} {_number(schema[bound])}" for bound, sign in _BOUNDS.items() if bound in schema]
    return f"{words} {', '.join(bounds)}".strip()


def _number(value: float) -> str:
    return "10^9" if value == 10**9 else "2^32" if value == 2**32 else json.dumps(value)


def meant(section: str, key: str) -> list[str]:
    """Return the dotted settings that an unknown `key` of a section ("" for the top) was probably meant to be.

    First the same key in other sections, then the nearest spelling in this one, then the nearest anywhere.
    """
    word = key.lower().replace("-", "_")
    same = [dotted for dotted, last in SETTINGS.items() if word in (last, dotted)]
    if same:
        return same
    near_here = difflib.get_close_matches(word, SECTIONS.get(section, SCHEMA["properties"]), 1)
    if near_here:
        return [f"{section}.{near_here[0]}" if section else near_here[0]]
    names = {last: dotted for dotted, last in SETTINGS.items()} | _ELSEWHERE | {dotted: dotted for dotted in SETTINGS}
    return [names[name] for name in difflib.get_close_matches(word, names, 1, cutoff=0.7)]
