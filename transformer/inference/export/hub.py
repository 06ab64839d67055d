"""`python -m transformer export MODEL --to hub --repo USER/NAME`: a model, or an export of it, on the hub.

What is there on disk is uploaded, file by file as it is; the repository is private until its owner says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from transformer.errors import ConfigError, RunError
from transformer.inference.export.description import check_files, is_export, read_description
from transformer.model_card import UNKNOWN_LICENCE, stated_licence
from transformer.model_directory import CARD, check_model_directory, find_model

INSTALL = "pip install huggingface_hub"
OF_TRAINING = {"training.safetensors", "training.json"}  # of a checkpoint, and of no use to others


class Hub(Protocol):
    """The two of huggingface_hub.HfApi's methods that are needed."""

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> Any:
        """Make it, unless it is there."""
        ...

    def upload_folder(self, *, repo_id: str, folder_path: Path, allow_patterns: list[str], commit_message: str) -> Any:
        """All in one commit."""
        ...


@dataclass(frozen=True)
class Upload:
    """What goes where."""

    repo: str
    folder: Path
    names: list[str]

    def describe(self) -> str:
        """A line for each file."""
        lines = [f"{(self.folder / name).stat().st_size:>15,} bytes  {name}" for name in self.names]
        return "\n".join([f"{self.folder} → https://huggingface.co/{self.repo}", *lines])


def plan_upload(path: Path, repo: str) -> Upload:
    """See that a model or an export is whole; nothing is written.

    Raises:
        ConfigError: huggingface_hub is not installed, or the name is none.
        RunError: there is no model, or it is damaged.
    """
    try:
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
    except ImportError as error:
        raise ConfigError(f"--to hub needs huggingface_hub: {INSTALL}") from error
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise ConfigError(f"--repo {repo}: not a name that the hub knows, such as USER/NAME ({error})") from error
    if "/" not in repo:
        raise ConfigError(f"--repo {repo}: not a name that the hub knows: it needs a user, such as USER/{repo}")
    if is_export(path):
        check_files(path, read_description(path))
        folder = path
    else:
        folder = find_model(path)
        check_model_directory(folder)
    files = [file for file in folder.iterdir() if file.is_file() and not file.is_symlink()]
    names = sorted(file.name for file in files if not file.name.startswith(".") and file.name not in OF_TRAINING)
    return Upload(repo, folder, names)


def licence_reminder(upload: Upload) -> str:
    """What is to be said about an unknown licence; empty where there is one."""
    if stated_licence(upload.folder / CARD)["license"] != UNKNOWN_LICENCE["license"]:
        return ""
    return (
        f"{upload.folder / CARD}: its licence is unknown, so nobody else may use the model: put one in the line "
        "`license:` at its top, such as cc-by-4.0"
    )


def publish(upload: Upload, make_hub: Callable[[], Hub] | None = None) -> str:
    """Upload; returns the address.

    Args:
        make_hub: what stands in for `huggingface_hub.HfApi` in tests.

    Raises:
        RunError: the hub cannot be reached or refuses.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError, LocalTokenNotFoundError  # type: ignore[attr-defined]

    hub = (make_hub or HfApi)()
    try:
        hub.create_repo(upload.repo, private=True, exist_ok=True)
        hub.upload_folder(
            repo_id=upload.repo,
            folder_path=upload.folder,
            allow_patterns=upload.names,
            commit_message=f"{upload.folder.name}, by python -m transformer export",
        )
    except (HTTPError, LocalTokenNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RunError(
            f"{upload.repo}: the hub does not take it ({reason}). Are you logged in (hf auth login), may you write "
            "there, and is the network up? Run the same again: what is there already is not sent twice"
        ) from error
    return f"https://huggingface.co/{upload.repo}"
