"""`translate.py` as a user runs it: files, pipes, a terminal; all it can write; and one message for every mistake."""

from __future__ import annotations

import fcntl
import io
import json
import math
import os
import pty
import re
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Any, NamedTuple
from xml.etree import ElementTree

import pytest
import torch

import translate
from data.vocabulary import Vocabulary
from transformer import model_directory
from transformer.command_line import run_command
from transformer.config import ModelSettings, TranslateSettings
from transformer.evaluation.metrics import score
from transformer.inference.translator import WINDOW, Translator
from transformer.model import Transformer
from transformer.model_directory import Model, save_model

SCRIPT = Path(translate.__file__)
LINES = ["the cat sat", "", "   ", "w7 w7 on the mat", "a line with\u2028a separator", "w9"]
TEXT = "".join(line + "\n" for line in LINES).encode()


class Result(NamedTuple):
    code: int
    out: bytes
    err: str


Command = Callable[..., Result]


@pytest.fixture
def command(
    untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Command:
    """Run translate.py in this process, in `tmp_path`."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path, stdin: bytes = b"", models: Sequence[Path] = (untrained,)) -> Result:
        argv: Sequence[str] = ["--model", *map(str, models), "--device", "cpu", *map(str, arguments)]
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = run_command(lambda: translate.main(argv))
        except SystemExit as exit_:  # usage
            code = int(exit_.code or 0)
        captured = capsysbinary.readouterr()
        assert b"Traceback" not in captured.err
        return Result(code, captured.out, captured.err.decode())

    return call


@pytest.fixture
def start(untrained: Path, tmp_path: Path) -> Iterator[Callable[..., Popen[bytes]]]:
    """Start translate.py in a process of its own, with pipes."""
    processes: list[Popen[bytes]] = []

    def begin(*arguments: str, **environment: str) -> Popen[bytes]:
        command = [sys.executable, SCRIPT, "--model", untrained, "--device", "cpu", "--threads", "1", *arguments]
        processes.append(Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=environment or None))
        return processes[-1]

    yield begin
    for process in processes:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream
            with suppress(BrokenPipeError):
                stream.close()


def expected(run: Path, lines: Sequence[str] = LINES, **settings: object) -> bytes:
    return "".join(line + "\n" for line in Translator.load(run, "cpu", **settings).translate(lines)).encode()


def lines_of(text: bytes) -> list[str]:
    assert text.endswith(b"\n") or not text
    return text.decode().split("\n")[:-1]


def records_of(text: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines_of(text)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- lines in, lines out ---


def test_one_line_comes_out_for_each_line_that_goes_in(untrained: Path, command: Command) -> None:
    """Cases X1 and D1: blank lines stay blank, and only the byte 0x0A ends a line."""
    result = command(stdin=TEXT)
    assert result[:2] == (0, expected(untrained))
    out = result.out.split(b"\n")
    assert len(out) == 7
    assert out[1] == out[2] == b""
    assert out[0]
    assert command(stdin=b"")[:2] == (0, b"")
    assert command(stdin=b"\n")[:2] == (0, b"\n")
    assert command(stdin=TEXT.removesuffix(b"\n")).out == result.out


def test_case_x7_no_line_is_lost_or_moved_in_a_batch_size_that_does_not_divide_them(command: Command) -> None:
    lines = [" ".join([f"w{i}"] * (i * 7 % 23 + 1)) for i in range(1, 876)]
    result = command("--batch-size", "8", stdin="".join(line + "\n" for line in lines).encode())
    out = lines_of(result.out)
    assert len(out) == 875
    for i in (1, 2, 436, 873, 874, 875):
        assert lines_of(command(stdin=f"{lines[i - 1]}\n".encode()).out) == [out[i - 1]]


@pytest.mark.parametrize("n", [1, 7, 64])
def test_case_x6_the_batch_size_and_the_order_do_not_change_the_text(command: Command, n: int) -> None:
    lines = [" ".join([f"w{i}"] * (i * 7 % 23 + 1)) for i in range(1, 101)]
    whole = lines_of(command(stdin="".join(line + "\n" for line in lines).encode()).out)
    found = command("--batch-size", str(n), stdin="".join(line + "\n" for line in lines[::-1]).encode())
    assert lines_of(found.out)[::-1] == whole


def test_pipes_are_utf8_whatever_the_locale(untrained: Path, start: Callable[..., Popen[bytes]]) -> None:
    process = start(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    out, err = process.communicate(TEXT)
    assert (process.returncode, out) == (0, expected(untrained))
    assert err.startswith(b"translated: 6 lines")


def test_files_give_what_pipes_give_and_appear_whole(untrained: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(TEXT)
    assert command("--input", "in", "--output", "out")[:2] == (0, b"")
    assert (tmp_path / "out").read_bytes() == expected(untrained)
    assert command("--output", "piped", stdin=TEXT)[:2] == (0, b"")
    assert (tmp_path / "piped").read_bytes() == expected(untrained)
    assert names(tmp_path) == ["in", "out", "piped"]


def test_an_input_that_can_be_read_only_once_is_read_once(untrained: Path, command: Command, tmp_path: Path) -> None:
    """As in `--input <(zcat in.gz)`."""
    os.mkfifo(tmp_path / "in")
    for arguments in ([], ["--output", "out"]):
        writer = threading.Thread(target=(tmp_path / "in").write_bytes, args=(TEXT,), daemon=True)
        writer.start()
        result = command("--input", "in", *arguments)
        assert result.code == 0
        assert (result.out or (tmp_path / "out").read_bytes()) == expected(untrained)


def test_an_output_that_is_no_file_is_written_to(untrained: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(TEXT)
    assert command("--input", "in", "--output", "/dev/null").code == 0
    assert names(tmp_path) == ["in"]


def test_settings_of_the_search_can_be_overridden_before_or_after_the_model(untrained: Path, command: Command) -> None:
    overrides = ["translate.beam_size=1", "translate.max_length_ratio=0", "translate.max_extra_length=3"]
    greedy = expected(untrained, beam_size=1, max_length_ratio=0.0, max_extra_length=3)
    assert greedy != expected(untrained)
    assert command(*overrides, stdin=TEXT)[:2] == (0, greedy)
    assert command("--model", untrained, *overrides, stdin=TEXT)[:2] == (0, greedy)


def test_several_models_translate_together(untrained: Path, command: Command) -> None:
    assert command(models=[untrained, untrained], stdin=TEXT)[:2] == (0, expected(untrained))


# --- as it goes, and when it is stopped ---


class Feeder(threading.Thread):
    """Writes lines into a pipe for as long as somebody reads there."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        super().__init__(daemon=True)
        assert pipe
        self.pipe = pipe
        self.n_lines = 0
        self.start()

    def run(self) -> None:
        with suppress(BrokenPipeError, ValueError):
            while True:
                self.pipe.write(b"w%d\n" % (self.n_lines % 200))
                self.pipe.flush()
                self.n_lines += 1


def test_lines_come_out_as_they_are_done_while_the_input_goes_on(start: Callable[..., Popen[bytes]]) -> None:
    """What is read ahead does not grow with what has been read: memory does not depend on the length of the input."""
    process = start("translate.beam_size=1", "translate.max_length_ratio=0", "translate.max_extra_length=2")
    assert process.stdout
    feeder = Feeder(process.stdin)
    in_pipes = 2 * 65536 // 4
    for n_read in range(1, 3 * WINDOW + 1):
        assert process.stdout.readline().endswith(b"\n")
        assert feeder.n_lines < n_read + 2 * WINDOW + in_pipes


@pytest.mark.parametrize("n_read", [0, 1])
def test_a_reader_that_leaves_early_ends_the_program_without_a_word(
    start: Callable[..., Popen[bytes]], n_read: int
) -> None:
    process = start()
    assert process.stdout
    assert process.stderr
    Feeder(process.stdin)
    for _ in range(n_read):
        process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141


def test_ctrl_c_is_one_line_and_130(start: Callable[..., Popen[bytes]]) -> None:
    process = start()
    assert process.stdout
    assert process.stderr
    Feeder(process.stdin)
    assert process.stdout.readline()  # it is at work
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    assert process.stderr.read() == b"interrupted\n"
    assert process.wait() == 130


# --- at a terminal ---


class Terminal:
    """Somebody who types at translate.py."""

    def __init__(self, command: Sequence[str | Path], folder: Path) -> None:
        self._own, theirs = pty.openpty()
        environment = os.environ | {"XDG_STATE_HOME": str(folder / "state"), "TERM": "dumb"}

        def take_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C finds it

        streams: dict[str, Any] = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "preexec_fn": take_terminal}
        self.process = Popen(command, env=environment, cwd=folder, **streams)
        os.close(theirs)
        self._seen = b""

    def type(self, keys: str | bytes) -> None:
        os.write(self._own, keys.encode() if isinstance(keys, str) else keys)

    def read_until(self, text: str) -> str:
        """What has appeared since the last time."""
        while text.encode() not in self._seen:
            block = b""
            if select.select([self._own], [], [], 30)[0]:
                with suppress(OSError):  # on Linux, when the other end is closed
                    block = os.read(self._own, 4096)
            assert block, f"{text!r} did not come, but: {self._seen!r}"
            self._seen += block
        before, found, self._seen = self._seen.partition(text.encode())
        return (before + found).decode(errors="replace")

    def close(self) -> int:
        """Its exit code."""
        os.close(self._own)
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()


@pytest.fixture
def terminal(untrained: Path, tmp_path: Path) -> Callable[..., Terminal]:
    command = [sys.executable, SCRIPT, "--model", untrained, "--device", "cpu", "--threads", "1"]
    return lambda *arguments: Terminal([*command, *arguments], tmp_path)


def test_at_a_terminal_each_line_is_answered_and_lines_can_be_fetched_back(
    untrained: Path, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    first, second = (line.decode() for line in expected(untrained, ["the cat sat", "w9"]).splitlines())
    user = terminal()
    user.read_until("en> ")
    user.type("the cat sat\n")
    assert user.read_until("en> ").count(first) == 1
    user.type("dropped")
    user.read_until("dropped")
    time.sleep(0.2)  # for readline to wait again: Ctrl-C in the last moment before counts only with the next key
    user.type("\x03")
    user.read_until("en> ")
    user.type("w9\n")
    assert second in user.read_until("en> ")
    user.type("\x04")
    user.process.wait(20)
    assert user.close() == 0
    assert "dropped" not in (history := next((tmp_path / "state").rglob("history"))).read_text()
    assert history.stat().st_mode & 0o077 == 0

    user = terminal()
    user.read_until("en> ")
    user.type("\x10\x10\n")  # Ctrl-P, as arrow up
    assert first in user.read_until("en> ")
    user.type("\x04")
    user.process.wait(20)
    assert user.close() == 0


def test_at_a_terminal_what_there_is_to_note_stands_beside_the_answer(terminal: Callable[..., Terminal]) -> None:
    user = terminal("translate.max_length_ratio=0", "translate.max_extra_length=1")
    user.read_until("en> ")
    user.type("the cat sat\n")
    assert "unfinished" in user.read_until("en> ")
    user.type(b"w9 \xff\n")  # is no reason to end
    assert "unfinished" in user.read_until("en> ")
    user.type("\x04")
    assert user.process.wait(20) == 0
    user.close()


# --- what is written ---


def test_a_report_says_what_was_done_and_which_lines_to_look_at(command: Command, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(TEXT)
    short = ["translate.max_length_ratio=0", "translate.max_extra_length=1"]
    err = command("--input", "in", "--output", "out", *short).err
    assert re.match(r"wrote out: 6 lines, in \d+\.\d s \([\d,.]+ lines/s\)\n", err)
    assert "4 lines ran into the length limit, and ended there unfinished: lines 1, 4, 5, 6\n" in err
    assert err.endswith("to score it: python evaluate.py --hypothesis out --reference FILE\n")


def test_the_report_shows_only_the_first_numbers(command: Command) -> None:
    err = command("translate.max_length_ratio=0", "translate.max_extra_length=1", stdin=b"w7\n" * 30).err
    assert "30 lines ran" in err
    assert "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …\n" in err


def test_json_lines_hold_all_that_is_known(untrained: Path, command: Command) -> None:
    result = command("--format", "jsonl", "--n-best", "3", "--alignments", "aligned", stdin=TEXT)
    records = records_of(result.out)
    assert [record["source"] for record in records] == LINES
    assert [record["text"] for record in records] == lines_of(expected(untrained))
    for record in records:
        scores = [record["score"], *(other["score"] for other in record.get("alternatives", []))]
        assert scores == sorted(scores, reverse=True)
        assert len(record["pieces"]) == len(record["token_log_probs"]) == record["n_tokens"]
        assert {"unfinished", "truncated", "constraint_unmet", "n_parts"} <= record.keys()
        outputs = [record["pieces"], *(other["pieces"] for other in record.get("alternatives", []))]
        assert len(set(map(tuple, outputs))) == (3 if record["source"].strip() else 1)
    assert Path("aligned").read_text().split("\n")[:-1] == [record["alignment"] for record in records]
    n_words = [(len(record["source"].split()), len(record["text"].split())) for record in records]
    for (n_src, n_tgt), record in zip(n_words, records, strict=True):
        links = [tuple(map(int, link.split("-"))) for link in record["alignment"].split()]
        assert all(src < n_src and tgt < n_tgt for src, tgt in links)


def test_case_x3_n_best_as_tsv_has_n_lines_for_each_line(untrained: Path, command: Command) -> None:
    """No hypothesis ends within 10 pieces; the best is what one-best gives, whatever the others are."""
    lines = ["the cat", "sat", "on the mat"]
    limits = ("translate.max_length_ratio=0", "translate.max_extra_length=10", "translate.min_length=10")
    text = "".join(line + "\n" for line in lines).encode()
    result = command("--format", "tsv", "--n-best", "4", "translate.beam_size=4", *limits, stdin=text)
    rows = [line.split("\t") for line in lines_of(result.out)]
    assert [(row[0], row[1]) for row in rows] == [(str(i), str(rank)) for i in (1, 2, 3) for rank in (1, 2, 3, 4)]
    assert all(math.isfinite(float(row[2])) for row in rows)
    assert "3 lines ran into the length limit" in result.err
    best = command("translate.beam_size=4", *limits, stdin=text)
    assert [row[3] for row in rows if row[1] == "1"] == lines_of(best.out)


def test_tsv_has_both_sides_and_a_submission_is_xml(untrained: Path, command: Command, tmp_path: Path) -> None:
    translations = lines_of(expected(untrained))
    rows = [line.split("\t") for line in lines_of(command("--format", "tsv", stdin=TEXT).out)]
    assert rows == [[src, tgt] for src, tgt in zip(LINES, translations, strict=True)]
    (tmp_path / "in").write_bytes(TEXT)
    assert command("--input", "in", "--output", "out.xml", "--format", "xml", "--system", "ours").code == 0
    tree = ElementTree.parse(tmp_path / "out.xml")
    assert [segment.text or "" for segment in tree.iterfind(".//hyp[@system='ours']//seg")] == translations


def test_pictures_are_drawn_of_the_first_lines_that_have_words(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translate, "PICTURES", 4)
    result = command("--attention-dir", "pictures", stdin=TEXT)
    assert result.code == 0
    assert names(tmp_path / "pictures") == ["000001.png", "000004.png"]
    assert (tmp_path / "pictures/000001.png").read_bytes().startswith(b"\x89PNG")


def test_a_reference_prints_bleu_and_chrf_with_signatures_beside_the_translations(
    untrained: Path, command: Command, tmp_path: Path
) -> None:
    translations = lines_of(expected(untrained))
    references = [line or "x" for line in translations]
    (tmp_path / "reference").write_text("".join(line + "\n" for line in references), newline="\n")
    result = command("--reference", "reference", stdin=TEXT)
    assert (result.code, result.out) == (0, expected(untrained))
    assert result.err.endswith(score(translations, references).formatted() + "\n")
    assert "tok:13a" in result.err


# --- scores ---


def test_what_the_search_wrote_gets_the_score_that_it_gave(command: Command, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(TEXT)
    found = records_of(command("--format", "jsonl", stdin=TEXT).out)
    (tmp_path / "out").write_text("".join(record["text"] + "\n" for record in found), newline="\n")
    result = command("--input", "in", "--score", "out", "--format", "jsonl")
    again = records_of(result.out)
    finished = [i for i, record in enumerate(found) if not record["unfinished"]]
    assert finished
    for i in finished:
        if again[i]["pieces"] == found[i]["pieces"]:  # the text may be cut into other pieces than the search chose
            assert again[i]["score"] == pytest.approx(found[i]["score"], abs=1e-4)
            assert again[i]["token_log_probs"] == pytest.approx(found[i]["token_log_probs"], abs=1e-4)
    nats = -sum(sum(record["token_log_probs"]) for record in again) / sum(record["n_tokens"] for record in again)
    perplexity = re.search(r"^perplexity ([\d.]+) \(([\d.]+) nats", result.err, re.MULTILINE)
    assert perplexity
    assert float(perplexity[1]) == pytest.approx(math.exp(nats), rel=1e-3)
    assert float(perplexity[2]) == pytest.approx(nats, abs=1e-3)

    scores = [record["score"] for record in again]
    as_text = lines_of(command("--input", "in", "--score", "out").out)
    assert [float(line) for line in as_text] == pytest.approx(scores, abs=1e-5)
    rows = [line.split("\t") for line in lines_of(command("--input", "in", "--score", "out", "--format", "tsv").out)]
    assert [row[:2] for row in rows] == [[record["source"], record["text"]] for record in found]
    assert [row[2] for row in rows] == as_text


# --- what is wanted of translations ---


def test_prefixes_begin_the_translations_of_their_lines(command: Command, tmp_path: Path) -> None:
    (tmp_path / "prefix").write_text("w9 the\n\n\n\nw8\n\n")
    out = lines_of(command("--prefix", "prefix", stdin=TEXT).out)
    assert out[0].startswith("w9 the")
    assert out[4].startswith("w8")
    assert [out[3], out[5]] == [line for i, line in enumerate(lines_of(command(stdin=TEXT).out)) if i in (3, 5)]


@pytest.mark.parametrize("n", ["1", "4"])
def test_phrases_are_in_the_translations_of_their_lines_or_not(command: Command, tmp_path: Path, n: str) -> None:
    (tmp_path / "require").write_text("cat sat\tw5\n\n\nmat\n\n\n")
    result = command("--require", "require", "--batch-size", n, "translate.max_extra_length=30", stdin=TEXT)
    out = lines_of(result.out)
    assert "cat sat" in out[0]
    assert "w5" in out[0]
    assert "mat" in out[3]
    assert "lacked" not in result.err
    word = lines_of(command(stdin=TEXT).out)[5].split()[0]
    (tmp_path / "avoid").write_text(f"\n\n\n\n\n{word}\n")
    for arguments in (["--avoid", "avoid"], ["--avoid-everywhere", word]):
        record = records_of(command(*arguments, "--format", "jsonl", stdin=TEXT).out)[5]
        # An untrained model may spell it with other pieces, and that is said.
        assert record["constraint_unmet"] == (word in record["text"].split())


def test_a_glossary_and_json_lines_say_what_is_required(command: Command, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("cat\tw11\nmat\tw12\n")
    long = "translate.max_extra_length=30"
    out = lines_of(command("--glossary", "terms.tsv", long, stdin=TEXT).out)
    assert "w11" in out[0]
    assert "w12" in out[3]
    asked = [{"text": LINES[0], "required": ["w11"]}, {"text": LINES[3], "prefix": "w8"}, {"text": LINES[5]}]
    requests = "".join(json.dumps(request) + "\n" for request in asked).encode()
    (tmp_path / "in.jsonl").write_bytes(requests)
    piped = command("--input-format", "jsonl", "--format", "jsonl", long, stdin=requests)
    records = records_of(piped.out)
    assert [record["source"] for record in records] == [LINES[0], LINES[3], LINES[5]]
    assert "w11" in records[0]["text"]
    assert records[1]["text"].startswith("w8")
    assert command("--input", "in.jsonl", "--format", "jsonl", long).out == piped.out


# --- bad input ---


def test_another_number_of_reference_lines_is_refused_before_anything_is_translated(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_bytes(TEXT)
    (tmp_path / "reference").write_text("one\ntwo\n")
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "load", lambda *_, **__: pytest.fail("the model was loaded"))
        for argument in ("--reference", "--score", "--prefix", "--require", "--avoid"):
            result = command("--input", "in", "--output", "out", argument, "reference")
            assert (result.code, result.out) == (1, b"")
            for part in ("in has 6 lines", "reference has 2"):
                assert part in result.err
    assert not (tmp_path / "out").exists()
    for argument in ("--reference", "--prefix"):
        piped = command(argument, "reference", stdin=TEXT)  # known only at the end of the pipe
        assert piped.code == 1
        assert "6" in piped.err
        assert "2" in piped.err


def test_text_that_is_not_utf8_is_refused_with_its_line(command: Command, tmp_path: Path) -> None:
    """Case D4."""
    latin = b"good line\ncaf\xe9 noir\nlast line\n"
    piped = command(stdin=latin)
    assert (piped.code, piped.out) == (1, b"")
    assert "standard input, line 2" in piped.err
    (tmp_path / "in").write_bytes(latin)
    result = command("--input", "in", "--output", "out")
    assert result.code == 1
    assert "in, line 2" in result.err
    assert names(tmp_path) == ["in"]


def test_or_it_is_replaced_and_reported(untrained: Path, command: Command, tmp_path: Path) -> None:
    latin = b"good line\ncaf\xe9 noir\nlast\xff\xfe line\n"
    mended = ["good line", "caf\ufffd noir", "last\ufffd\ufffd line"]
    (tmp_path / "in").write_bytes(latin)
    for result in (
        command("--invalid-utf8", "replace", stdin=latin),
        command("--invalid-utf8", "replace", "--input", "in"),
        command("--invalid-utf8", "replace", "--input", "in", "--output", "out"),
    ):
        assert result.code == 0
        assert (result.out or (tmp_path / "out").read_bytes()) == expected(untrained, mended)
        assert "2 lines held bytes that are not UTF-8, and got U+FFFD for them: lines 2, 3\n" in result.err
    zipped = command("--invalid-utf8", "replace", stdin=b"\x1f\x8b\x08\x00\n\xff\n")
    assert (zipped.code, zipped.out) == (1, b"")
    assert "gzip" in zipped.err


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (["translate.beam_size=0"], 2, ["translate.beam_size", "1"]),
        (["translate.beam=5"], 2, ["translate.beam", "translate.beam_size"]),
        (["train.lr=1", "translate.alpha=-1"], 2, ["train.lr", "translate.alpha"]),
        (["--batch-size", "0"], 2, ["--batch-size", "0"]),
        (["--batch", "3"], 2, ["--batch"]),  # no abbreviations
        (["--beam", "3"], 2, ["--beam"]),
        (["--input", "nowhere.txt"], 1, ["nowhere.txt"]),
        (["--reference", "nowhere.txt"], 1, ["nowhere.txt"]),
        (["--score", "nowhere.txt"], 1, ["nowhere.txt"]),
        (["--glossary", "nowhere.txt"], 1, ["nowhere.txt"]),
        (["--output", "nowhere/out"], 1, ["nowhere/out", "mkdir"]),
        (["--output", ".", "--alignments", "nowhere/links"], 1, [".: is a folder", "nowhere/links", "mkdir"]),
        (["--n-best", "2"], 2, ["--format text", "2 translations", "tsv or jsonl"]),
        (["--n-best", "2", "translate.n_best=3", "--format", "tsv"], 2, ["--n-best 2", "translate.n_best=3"]),
        (["--output", "both", "--alignments", "both"], 2, ["--output", "--alignments", "both"]),
        (["--input", "same", "--output", "same"], 2, ["same", "overwritten"]),
        (
            ["--score", "x", "--prefix", "y", "--reference", "z", "--format", "xml", "translate.alpha=-1"],
            2,
            ["leave out --prefix", "leave out --reference", "--format xml", "translate.alpha"],
        ),
        pytest.param(
            ["--device", "cuda"],
            2,
            ["cuda", "cpu"],
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU"),
        ),
    ],
)
def test_a_mistake_is_one_message_and_an_exit_code(
    command: Command, arguments: list[str], code: int, parts: list[str]
) -> None:
    result = command(*arguments, stdin=TEXT)
    assert (result.code, result.out) == (code, b"")
    for part in parts:
        assert part in result.err


def test_case_x2_more_best_than_beams_are_refused_before_the_model_is_loaded(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_directory, "load_tensors", lambda *_: pytest.fail("the model was loaded"))
    for beams in (["translate.beam_size=5"], []):  # without: the model's own, of 4
        result = command("--n-best", "10", *beams, "--format", "tsv", stdin=TEXT)
        assert (result.code, result.out) == (2, b"")
        assert "10" in result.err
        assert ("5" if beams else "4") in result.err


@pytest.mark.parametrize("n", ["1", "4"])
def test_case_x2_more_beams_than_pieces_translate(command: Command, tmp_path: Path, n: str) -> None:
    vocabulary = Vocabulary.learn(["a b", "b a"] * 20, size=7, byte_fallback=False)
    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=48, n_heads=4)
    model = Model(
        Transformer(settings, 7, 7), settings, TranslateSettings(max_extra_length=5), *[vocabulary] * 2, "", ""
    )
    (tmp_path / "seven").mkdir()
    save_model(tmp_path / "seven", model)
    arguments = ("translate.beam_size=20", "--format", "jsonl", "--batch-size")
    result = command(*arguments, n, stdin=b"a b\nb\na a b\nb b a\n", models=[tmp_path / "seven"])
    records = records_of(result.out)
    assert len(records) == 4
    assert all(math.isfinite(record["score"]) and set(record["text"]) <= set("ab ") for record in records)
    other = command(*arguments, "2", stdin=b"a b\nb\na a b\nb b a\n", models=[tmp_path / "seven"])
    assert [record["text"] for record in records_of(other.out)] == [record["text"] for record in records]


def test_a_model_that_is_missing_or_truncated_is_named(untrained: Path, command: Command, tmp_path: Path) -> None:
    missing = command(stdin=TEXT, models=[tmp_path / "nowhere"])
    assert (missing.code, missing.out) == (1, b"")
    assert str(tmp_path / "nowhere") in missing.err
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for file in (untrained / "model").iterdir():
        content = file.read_bytes()
        (damaged / file.name).write_bytes(content[: len(content) // 2] if file.suffix == ".safetensors" else content)
    for models in ([damaged], [untrained, damaged]):
        result = command(stdin=TEXT, models=models)
        assert (result.code, result.out) == (1, b"")
        assert str(damaged / "model.safetensors") in result.err


def test_lines_of_any_kind_come_out_as_one_line_each(command: Command) -> None:
    strange = [
        "w7 " * 1000,
        "\x00\x01\x7f\x1b[31m",
        "שלום עולם",
        "مرحبا \u202eabc",
        "\ufeff",
        "🤷🏽‍♀️" * 50,
        "a\tb",
        "\x85\x0c",
    ]
    result = command(stdin="".join(line + "\n" for line in strange).encode())
    assert result.code == 0
    assert len(lines_of(result.out)) == len(strange)


def test_the_help_shows_examples_and_what_belongs_together(command: Command) -> None:
    help_ = command("--help")
    assert help_.code == 0
    for words in ("what is translated", "what is written", "what is wanted", "examples:", "torchrun", "--glossary"):
        assert words in help_.out.decode()
