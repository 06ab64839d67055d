"""Translations as JSON Lines: one object a line, for other programs, and for the parts of a large translation.

    {"source": "The cat sat.", "text": "Die Katze saß.", "score": -0.413204, "n_tokens": 5, "unfinished": false,
     "truncated": false, "constraint_unmet": false, "n_parts": 1, "pieces": ["▁Die", "▁Katze", "▁saß", ".", "</s>"],
     "token_log_probs": [-0.110482, …], "alignment": "0-0 1-1 2-2", "alternatives": [{"text": …}, …]}

What a translation does not have – pieces where it was not annotated, alternatives where there are none – is left out.
Numbers are rounded to `DIGITS`, where fp32 ends; what is read here gives the same line again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from data.errors import DataError
from transformer.inference.links import parse_pharaoh, pharaoh
from transformer.inference.translation import Translation

DIGITS = 6
"""Behind the point, of scores and log-probabilities in nats."""


def translation_line(translation: Translation, source: str | None = None) -> str:
    """A translation as one line, without its end; `source` is put first, if it is given."""
    described = {} if source is None else {"source": source}
    return json.dumps(described | translation_record(translation), ensure_ascii=False)


def translation_record(translation: Translation) -> dict[str, Any]:
    """What JSON says of a translation; all but its attention, which is as large as both sentences multiplied."""
    record: dict[str, Any] = {
        "text": translation.text,
        "score": round(translation.score, DIGITS),
        "n_tokens": translation.n_tokens,
        "unfinished": not translation.finished,
        "truncated": translation.truncated,
        "constraint_unmet": translation.constraint_unmet,
        "n_parts": translation.n_parts,
    }
    if translation.pieces is not None:
        record["pieces"] = list(translation.pieces)
    if translation.token_log_probs is not None:
        record["token_log_probs"] = [round(log_prob, DIGITS) for log_prob in translation.token_log_probs]
    if translation.alignment is not None:
        record["alignment"] = pharaoh(translation.alignment)
    if translation.alternatives:
        record["alternatives"] = [translation_record(alternative) for alternative in translation.alternatives]
    return record


def read_translation_line(line: str) -> Translation:
    """The translation of a line that `translation_line` wrote. Raises ValueError for any other line."""
    try:
        return _translation(json.loads(line))
    except (DataError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not the record of a translation ({error!r})") from error


def _translation(record: Mapping[str, Any]) -> Translation:
    pieces, log_probs, alignment = (record.get(key) for key in ("pieces", "token_log_probs", "alignment"))
    return Translation(
        text=record["text"],
        score=float(record["score"]),
        n_tokens=int(record["n_tokens"]),
        finished=not record["unfinished"],
        truncated=bool(record["truncated"]),
        n_parts=int(record["n_parts"]),
        constraint_unmet=bool(record["constraint_unmet"]),
        pieces=None if pieces is None else tuple(map(str, pieces)),
        token_log_probs=None if log_probs is None else tuple(map(float, log_probs)),
        alignment=None if alignment is None else parse_pharaoh(alignment, "alignment"),
        alternatives=tuple(map(_translation, record.get("alternatives", ()))),
    )
