"""Lines typed at a terminal: a prompt, lines from before with the arrow keys, and an answer to each."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HISTORY_LINES = 1000
APPLICATION = "attention-is-all-you-need"


def converse(answer: Callable[[str], object], prompt: str) -> None:
    """Ask for lines and answer each, until Ctrl-D. Ctrl-C drops the line that is typed or answered."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # bytes that are not UTF-8 must not end the conversation
    with _history():
        while True:
            try:
                answer(_ask(prompt))
            except KeyboardInterrupt:
                print(file=sys.stderr)
            except EOFError:
                print(file=sys.stderr)
                return


def history_path() -> Path | None:
    """Where typed lines are kept: in the user's folder of states (XDG Base Directory Specification)."""
    states = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not states.is_absolute():
        try:
            states = Path.home() / ".local" / "state"
        except RuntimeError:  # a user without a home
            return None
    return states / APPLICATION / "history"


def _ask(prompt: str) -> str:
    if not sys.stdout.isatty():  # the prompt is no part of the output; and without a terminal there is no editing
        print(prompt, end="", file=sys.stderr, flush=True)
        prompt = ""
    return input(prompt).encode(errors="surrogateescape").decode(errors="replace")


@contextmanager
def _history() -> Iterator[None]:
    """Lines of earlier conversations at the arrow keys, and those of this one kept for later, where possible."""
    try:
        import readline  # not in every Python
    except ImportError:
        yield
        return
    path = history_path()
    readline.set_history_length(HISTORY_LINES)
    if path:
        with suppress(OSError):  # none yet; or of another library of the same interface
            readline.read_history_file(path)
    n_before = readline.get_current_history_length()
    try:
        yield
    finally:
        if path:
            with suppress(OSError):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.touch(mode=0o600)
                readline.append_history_file(readline.get_current_history_length() - n_before, path)
