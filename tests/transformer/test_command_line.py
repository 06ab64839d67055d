from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from data.errors import DataError
from transformer.command_line import CommandParser, add_config_arguments, check_folders, load_settings, run_command
from transformer.errors import ConfigError, RunError

REPOSITORY = Path(__file__).resolve().parents[2]


def _parser() -> CommandParser:
    parser = CommandParser(prog="train.py")
    add_config_arguments(parser)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--beam-size", type=int)
    return parser


def _usage_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        _parser().parse_args(arguments)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("train.py: error: ")
    return err


def _raising(error: BaseException) -> Callable[[], int]:
    def main() -> int:
        raise error

    return main


def test_the_config_is_base_unless_another_is_given() -> None:
    assert load_settings(_parser().parse_args([])).name == "base"
    assert load_settings(_parser().parse_args(["--config", "demo"])).name == "demo"


def test_options_and_overrides_come_in_any_order() -> None:
    for arguments in (
        ["--config", "demo", "name=x", "--resume", "seed=5"],
        ["name=x", "seed=5", "--resume", "--config", "demo"],
        ["name=x", "--config=demo", "seed=5", "--resume"],
    ):
        args = _parser().parse_args(arguments)
        assert args.resume
        settings = load_settings(args)
        assert (settings.name, settings.seed, settings.data.train) == (
            "x",
            5,
            load_settings(_parser().parse_args(["--config", "demo"])).data.train,
        )


@pytest.mark.parametrize(
    ("argument", "suggestion"),
    [
        ("--confg", "did you mean --config?"),
        ("--resum", "did you mean --resume?"),  # abbreviations are not taken either
        ("--beam_size=4", "did you mean --beam-size?"),
        ("--max-steps=4", "did you mean train.max_steps=4 (without dashes)?"),
        ("--train.lr=4", "did you mean train.lr=4 (without dashes)?"),
        ("--zzzzzz", "unknown argument --zzzzzz\n"),
    ],
)
def test_an_unknown_argument_exits_2_with_the_nearest_known_one(
    capsys: pytest.CaptureFixture[str], argument: str, suggestion: str
) -> None:
    message = _usage_error(capsys, "name=x", argument)
    assert argument in message
    assert suggestion in message


def test_all_unknown_arguments_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    message = _usage_error(capsys, "--confg", "--resum")
    assert "--config" in message
    assert "--resume" in message


def test_a_bad_value_of_an_option_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--beam-size" in _usage_error(capsys, "--beam-size", "four")


def test_a_parser_with_subcommands_takes_overrides_too() -> None:
    parser = CommandParser(prog="x")
    add_config_arguments(parser.add_subparsers().add_parser("describe"))
    args = parser.parse_args(["describe", "--config", "demo", "name=x"])
    assert load_settings(args).name == "x"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConfigError("seed is -1"), 2, "error: seed is -1"),
        (RunError("no checkpoint"), 1, "error: no checkpoint"),
        (DataError("line 3"), 1, "error: line 3"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(errno.ENOSPC, "No space left on device", "runs/x"), 1, "runs/x: No space left on device; free some"),
        (
            PermissionError(errno.EACCES, "Permission denied", "a", None, "b"),
            1,
            "a and b: Permission denied; check the",
        ),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "x.en"), 1, "x.en: No such file or directory;"),
        (OSError("the hub cannot be reached"), 1, "error: the hub cannot be reached"),
    ],
)
def test_what_a_user_can_cause_is_one_message_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, words: str
) -> None:
    assert run_command(_raising(error)) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_exit_code_of_main_is_kept(code: int) -> None:
    assert run_command(lambda: code) == code


def test_a_mistake_of_the_program_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run_command(lambda: 1 // 0)


_PROGRAM = """
import sys, time
from transformer.command_line import run_command
def main():
    for _ in range({lines}):
        print("a line of output")
    {then}
    return 0
sys.exit(run_command(main))
"""


def _start(lines: int, then: str = "pass", **streams: int) -> subprocess.Popen[bytes]:
    program = _PROGRAM.format(lines=lines, then=then)
    return subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stderr=subprocess.PIPE, **streams)


@pytest.mark.parametrize("lines", [1, 100_000])  # fewer and more than a buffer
def test_a_closed_pipe_ends_the_program_quietly(lines: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = _start(lines, stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")  # noqa: PTH110
def test_a_full_disk_behind_stdout_is_one_message() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    process = _start(1, stdout=full)
    os.close(full)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.startswith(b"error: No space left on device; free some space")
    assert err.count(b"\n") == 1


def test_control_c_exits_130_with_one_word() -> None:
    process = _start(1, "sys.stdout.flush(); time.sleep(60)", stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"interrupted\n")


def test_names_of_files_that_are_not_utf_8_can_be_printed() -> None:
    process = _start(0, r"print('caf\udce9')", stdout=subprocess.PIPE)
    assert process.communicate(timeout=60) == (b"caf\\udce9\n", b"")


def test_files_that_could_not_be_written_are_named_all_at_once(tmp_path: Path) -> None:
    check_folders(None, tmp_path / "new", Path("/dev/null"))
    with pytest.raises(DataError) as caught:
        check_folders(tmp_path / "no" / "new", tmp_path, tmp_path / "new")
    first, second = str(caught.value).split("\n")
    assert first == f"{tmp_path / 'no' / 'new'}: no such folder; make it first: mkdir -p {tmp_path / 'no'}"
    assert second.startswith(f"{tmp_path}: is a folder")
