from __future__ import annotations

import json
from pathlib import Path

import pytest

from transformer import config_reference
from transformer.command_line import run_command
from transformer.config_corpora import CORPUS_KINDS
from transformer.config_filters import FILTERS
from transformer.config_schema import SECTIONS


def test_the_documents_say_what_the_settings_say() -> None:
    assert config_reference.main(["--check"]) == 0, "run python -m transformer.config_reference"


def test_a_document_that_is_out_of_date_is_noticed_and_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(config_reference, "DOCS", tmp_path)
    check = lambda: run_command(lambda: config_reference.main(["--check"]))  # noqa: E731
    assert check() == 1
    assert config_reference.main([]) == 0
    assert check() == 0
    for file in sorted(tmp_path.iterdir()):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("label_smoothing", "smoothing"), encoding="utf-8")
        capsys.readouterr()
        assert check() == 1
        assert f"{file.name} is out of date" in capsys.readouterr().err
        file.write_text(text, encoding="utf-8")


def test_the_reference_has_a_row_for_every_setting() -> None:
    rows = [line for line in config_reference.reference().splitlines() if line.startswith("| `")]
    for section, keys in SECTIONS.items():
        for key in keys:
            assert sum(row.startswith(f"| `{section}.{key}` |") for row in rows) == 1
    for row in rows:  # four cells, none empty
        cells = row.replace("\\|", "").strip("|").split("|")
        assert len(cells) == 4
        assert all(cell.strip() for cell in cells)


def test_the_schema_refuses_unknown_keys_everywhere() -> None:
    schema = json.loads(config_reference.json_schema())
    kinds = [schema, *schema["$defs"].values()]
    n_inside = len(CORPUS_KINDS) + len(FILTERS) + 6  # of mixing, augmentation and translating, two each
    # Sections, the whole, what lists in them hold.
    assert len(kinds) == len(SECTIONS) + 1 + n_inside
    assert all(kind["additionalProperties"] is False for kind in kinds)
