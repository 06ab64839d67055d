"""export.json: what an exported folder says about itself, and how this program knows one when it sees it.

Read without PyTorch, which needs longer to start than CTranslate2 to translate.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from transformer.config_translate import TranslateSettings
from transformer.errors import RunError
from transformer.files import sha256_of

FORMAT = 1  # raised whenever an older program could misread what a newer one writes
DESCRIPTION = "export.json"


@dataclass(frozen=True)
class ExportDescription:
    """What an exported folder says about itself.

    Attributes:
        target: a key of `LIMITS`.
        quantization: of the weights; None: fp32.
        translate: how it searches unless told otherwise.
        sha256: of each file, by name.
        parity: what was found when it was compared with its origin.
    """

    target: str
    quantization: str | None
    src_lang: str
    tgt_lang: str
    translate: TranslateSettings
    sha256: dict[str, str]
    parity: dict[str, Any]


def is_export(directory: Path) -> bool:
    """Whether `python -m transformer export` has written this folder."""
    return (directory / DESCRIPTION).is_file()


def write_description(directory: Path, description: ExportDescription) -> None:
    """Write export.json."""
    record = {"format": FORMAT, **asdict(description), "translate": description.translate.model_dump()}
    text = json.dumps(record, indent=2, ensure_ascii=False)
    (directory / DESCRIPTION).write_text(text + "\n", encoding="utf-8", newline="\n")


def read_description(directory: Path) -> ExportDescription:
    """Read export.json.

    Raises:
        RunError: it is missing, damaged, or of a newer format.
    """
    path = directory / DESCRIPTION
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record.pop("format") > FORMAT:
            raise RunError(f"{path}: written by a newer version of this program: update it, or export the model again")
        return TypeAdapter(ExportDescription).validate_python(record)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        found = error.errors()[0] if isinstance(error, ValidationError) else None
        reason = f"{'.'.join(map(str, found['loc']))}: {found['msg']}" if found else repr(error)
        raise RunError(f"{path}: not the description of an export ({reason}): export the model again") from error


def checksums(directory: Path) -> dict[str, str]:
    """SHA-256 of every file of a folder but export.json, in hexadecimal."""
    files = sorted(path for path in directory.iterdir() if path.name != DESCRIPTION)
    return {path.name: sha256_of(path) for path in files}


def check_files(directory: Path, description: ExportDescription) -> None:
    """Compare every file with the checksum noted when it was written.

    Raises:
        RunError: one is missing, truncated or altered, or none was noted.
    """
    if not description.sha256:
        raise RunError(f"{directory / DESCRIPTION}: has no checksums (sha256): export the model again")
    for name, expected in description.sha256.items():
        path = directory / Path(name).name  # a name is never a way out of the folder
        if not path.is_file() or sha256_of(path) != expected:
            raise RunError(f"{path}: missing, truncated or altered since it was exported: export the model again")
