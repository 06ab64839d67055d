"""Publishing: what would be uploaded, what is, and what is refused before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transformer.__main__ import main
from transformer.command_line import run_command
from transformer.config import Settings
from transformer.config_file import save_settings
from transformer.errors import ConfigError, RunError
from transformer.inference.export import command
from transformer.inference.export.hub import licence_reminder, plan_upload, publish
from transformer.model_directory import CARD, Model, save_model, write_card

pytest.importorskip("huggingface_hub")
FILES = ["README.md", "model.json", "model.safetensors", "vocabulary.model"]


@pytest.fixture
def run(tmp_path: Path, make_model: Callable[..., Model]) -> Path:
    directory = tmp_path / "runs" / "a run"
    (directory / "model").mkdir(parents=True)
    save_model(directory / "model", make_model())
    save_settings(Settings(name="a-run"), directory / "settings.yaml")
    return directory


class StandIn:
    """Of huggingface_hub.HfApi: notes what it is told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def create_repo(self, repo_id: str, **arguments: Any) -> None:
        if self.error:
            raise self.error
        self.calls.append((repo_id, arguments))

    def upload_folder(self, **arguments: Any) -> None:
        self.calls.append(("upload", arguments))


def test_a_dry_run_lists_all_files_and_sends_none(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "publish", None)
    (run / "model" / ".hidden").write_text("secret")
    (run / "model" / "training.safetensors").write_text("large")
    arguments = ["export", str(run), "--to", "hub", "--repo", "me/a-model", "--dry-run"]
    assert run_command(lambda: main(arguments)) == 0
    out, err = capsys.readouterr()
    assert [line.split("bytes  ")[1] for line in out.splitlines() if "bytes" in line] == FILES
    assert "https://huggingface.co/me/a-model" in out
    assert "licence is unknown" in err


def test_an_upload_makes_a_private_repository_of_these_files(run: Path) -> None:
    upload = plan_upload(run, "me/a-model")
    stand_in = StandIn()
    assert publish(upload, lambda: stand_in) == "https://huggingface.co/me/a-model"
    (repo, made), (_, sent) = stand_in.calls
    assert (repo, made) == ("me/a-model", {"private": True, "exist_ok": True})
    assert (sent["repo_id"], sent["folder_path"], sent["allow_patterns"]) == ("me/a-model", run / "model", FILES)


def test_the_stand_in_takes_what_the_library_takes(run: Path) -> None:
    """Its signatures, so that the test above is about the library."""
    import inspect

    from huggingface_hub import HfApi

    stand_in = StandIn()
    publish(plan_upload(run, "me/a-model"), lambda: stand_in)
    (repo, made), (_, sent) = stand_in.calls
    inspect.signature(HfApi.create_repo).bind(None, repo, **made)
    inspect.signature(HfApi.upload_folder).bind(None, **sent)


@pytest.mark.parametrize("error", [OSError("no route to host"), ConnectionError()])
def test_a_hub_that_refuses_is_told_in_a_sentence(run: Path, error: Exception) -> None:
    with pytest.raises(RunError, match="hf auth login"):
        publish(plan_upload(run, "me/a-model"), lambda: StandIn(error))


def test_a_licence_written_by_hand_stays_and_ends_the_reminder(run: Path) -> None:
    card = run / "model" / CARD
    assert licence_reminder(plan_upload(run, "me/x"))
    card.write_text(card.read_text(encoding="utf-8").replace("license: unknown", "license: mit"), encoding="utf-8")
    assert licence_reminder(plan_upload(run, "me/x")) == ""
    write_card(run / "model", run)
    assert "license: mit" in card.read_text(encoding="utf-8")
    assert licence_reminder(plan_upload(run / "model", "me/x")) == ""


@pytest.mark.parametrize("arguments", [["--dry-run"], []])
def test_what_was_written_by_hand_is_uploaded_as_it_is(
    run: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.HfApi", StandIn)
    with (run / "model" / CARD).open("a", encoding="utf-8") as card:
        card.write("\n## Thanks\n\nto all.\n")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (run / "model").iterdir()}
    assert main(["export", str(run), "--to", "hub", "--repo", "me/x", *arguments]) == 0
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (run / "model").iterdir()} == before


@pytest.mark.parametrize("repo", ["", "a/b/c", "with space", "-x", "../../etc", "multi30k"])
def test_names_that_the_hub_does_not_know_are_refused(run: Path, repo: str) -> None:
    with pytest.raises(ConfigError, match="not a name that the hub knows"):
        plan_upload(run, repo)


def test_a_damaged_model_is_not_published(run: Path) -> None:
    with (run / "model" / "model.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(RunError, match="truncated or altered"):
        plan_upload(run, "me/a-model")


def test_what_is_no_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no model"):
        plan_upload(tmp_path, "me/a-model")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--to", "hub"],
        *(["--to", "hub", "--repo", "me/x", option, "x"] for option in ("--output", "--input", "--reference")),
        ["--to", "hub", "--repo", "me/x", "--overwrite"],
        ["--to", "hub", "--repo", "me/x", "--quantization", "int8"],
        ["--to", "huggingface"],
        ["--to", "huggingface", "--output", "folder", "--repo", "me/x"],
    ],
    ids=" ".join,
)
def test_arguments_of_the_two_kinds_do_not_mix(arguments: list[str], run: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["export", str(run), *arguments])
