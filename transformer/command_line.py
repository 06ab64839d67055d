"""What the scripts share: their arguments for settings, and how an error becomes one message and an exit code."""

from __future__ import annotations

import argparse
import difflib
import errno
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from data.errors import DataError
from transformer.config import Settings
from transformer.config_file import load_config
from transformer.config_schema import meant
from transformer.errors import ConfigError, RunError

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE

_OVERRIDE = re.compile(r"[a-z_]+(\.[a-z_]+)+=")
_REMEDIES = {
    errno.ENOSPC: "free some space or write to another disk; what was complete before is still there",
    errno.EDQUOT: "your quota is used up: free some space; what was complete before is still there",
    errno.EACCES: "check the permissions of the file and of its folder",
    errno.EPERM: "check the owner and permissions of the file and of its folder",
    errno.EROFS: "write to another folder: this one can only be read",
    errno.EEXIST: "something else has this name: give another, or move it away",
    errno.ENOENT: "check the spelling of the path",
    errno.ENOTDIR: "a part of the path is a file where a folder is needed",
    errno.EISDIR: "this is a folder where a file is needed",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENOMEM: "memory is used up: close other programs or lower the max_tokens in use",
}


class CommandParser(argparse.ArgumentParser):
    """An argument parser that takes no abbreviations, lets options follow overrides and suggests the nearest one."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(allow_abbrev=False, **arguments)

    def parse_args(self, args: Sequence[str] | None = None) -> argparse.Namespace:  # type: ignore[override]
        """Parse all arguments; overrides and options may come in any order. Exits with 2 on a wrong one."""
        parse = self.parse_known_args if self._subparsers else self.parse_known_intermixed_args  # argparse has not both
        known, unknown = parse(args)
        if unknown:
            self.error("; ".join(f"unknown argument {argument}{self._nearest(argument)}" for argument in unknown))
        if hasattr(known, "overrides"):
            self._release_overrides(known)
        return known

    def _release_overrides(self, known: argparse.Namespace) -> None:
        """Give back the overrides that options took for their own, as they take as many words as follow them."""
        for action in self._actions:
            if action.nargs in ("+", "?") and action.option_strings:
                found = getattr(known, action.dest)
                words = found if isinstance(found, list) else [found]
                taken = [word for word in map(str, words) if _OVERRIDE.match(word)]
                known.overrides += taken
                if taken and action.nargs == "+":
                    setattr(known, action.dest, [w for w in words if str(w) not in taken] or action.default)
                elif taken:
                    setattr(known, action.dest, action.const)

    def error(self, message: str) -> NoReturn:
        """Print one message on stderr and exit with 2."""
        self.exit(EXIT_USAGE, f"{self.prog}: error: {message}\n{self.prog} --help shows what there is\n")

    def _nearest(self, argument: str) -> str:
        name, equals, value = argument.partition("=")
        section, _, key = name.lstrip("-").rpartition(".")
        settings = meant(section, key) if key else []
        options = [option for action in self._actions for option in action.option_strings]
        near = difflib.get_close_matches(name, options, 1)
        is_setting = bool(settings) and settings[0].endswith(f".{key.replace('-', '_')}")  # and not only like one
        if near and (near[0] == name.replace("_", "-") or not is_setting):
            return f", did you mean {near[0]}?"
        return f", did you mean {settings[0]}={value if equals else '…'} (without dashes)?" if settings else ""


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--config FILE` and any number of `section.key=value`."""
    parser.add_argument(
        "--config", default="base.yaml", metavar="FILE", help="a path, or a name in configs/ (default: base.yaml)"
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="section.key=value",
        help="settings that replace those of the config, with YAML values; docs/configuration.md lists them",
    )


def load_settings(args: argparse.Namespace) -> Settings:
    """Return the settings that the arguments of `add_config_arguments` ask for.

    Raises:
        ConfigError: every problem there is, in one message.
    """
    return load_config(args.config, args.overrides)


def check_folders(*outputs: Path | None) -> None:
    """Raises DataError where files are to be written that cannot be: the folder is not there, or it is one itself."""
    problems = []
    for path in filter(None, outputs):
        if not path.parent.is_dir():
            problems.append(f"{path}: no such folder; make it first: mkdir -p {path.parent}")
        elif path.is_dir():
            problems.append(f"{path}: is a folder; name a file in it")
    if problems:
        raise DataError("\n".join(problems))


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def run_command(main: Callable[[], int]) -> int:
    """Run a script's main and return its exit code; what a user can cause becomes one message on stderr.

    2 settings or usage, 1 data, runs and the operating system, 130 Ctrl-C, 141 nobody reads the output any more. Every
    other exception is a mistake of the program's and keeps its traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files need not be UTF-8
    try:
        code = main()
        sys.stdout.flush()  # here, where a full disk or closed pipe still gets its message
        return code
    except (ConfigError, RunError, DataError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _give_up_stdout()
        return EXIT_BROKEN_PIPE
    except OSError as error:
        print(f"error: {_explained(error)}", file=sys.stderr)
        _give_up_stdout()
        return 1


def _explained(error: OSError) -> str:
    where = " and ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    remedy = _REMEDIES.get(error.errno or 0, "")
    return ": ".join(part for part in (where, error.strerror or str(error)) if part) + (remedy and f"; {remedy}")


def _give_up_stdout() -> None:
    """Flush what can be, and let Python's own flush at exit go nowhere instead of failing once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
