"""Every kind of damage is found on the right line, and nothing is found in good text."""

from __future__ import annotations

import bz2
import functools
import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.corpora import FileSource, RecordsSource, read_pairs
from data.doctor.description import describe, exit_code
from data.doctor.examination import diagnose, examine
from data.doctor.findings import Finding, Tally, excerpt
from data.doctor.kinds import KINDS
from data.doctor.reading import TolerantText
from data.doctor.sides import SideChecks
from data.errors import DataError
from data.grammar.corpus import generate_pairs


@functools.cache
def text() -> tuple[tuple[str, ...], tuple[str, ...]]:
    src, tgt = zip(*generate_pairs(300, seed=11), strict=True)
    return src, tgt


def write(folder: Path, src: bytes, tgt: bytes) -> FileSource:
    (folder / "a.en").write_bytes(src)
    (folder / "a.de").write_bytes(tgt)
    return FileSource(folder / "a.en", folder / "a.de")


def joined(lines: list[str] | tuple[str, ...]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def examine_lines(folder: Path, src: dict[int, str], tgt: dict[int, str], over: int = 100) -> list[Finding]:
    """Good text with some lines (from 1) replaced."""
    sides = [list(side) for side in text()]
    for side, changes in zip(sides, (src, tgt), strict=True):
        for line, new in changes.items():
            side[line - 1] = new
    return examine("corpus", write(folder, joined(sides[0]), joined(sides[1])), "en", "de", over)


def tallies(changes: dict[int, str]) -> dict[str, Tally]:
    """What is found in one side of good text with some lines (from 1) replaced."""
    lines = [changes.get(number, line) for number, line in enumerate(text()[1], 1)]
    checks = SideChecks()
    for start in (0, 100):
        part = lines[start : start + 100] if not start else lines[start:]
        checks.add(part, np.array([len(line) for line in part]), np.arange(len(part)) + start + 1)
    checks.finish()
    return {kind: tally for kind, tally in checks.tallies.items() if tally.count}


def one(findings: list[Finding], kind: str, file: str = "") -> Finding:
    found = [finding for finding in findings if finding.kind == kind and finding.file.endswith(file)]
    assert len(found) == 1, [(finding.kind, finding.file) for finding in findings]
    return found[0]


def kinds(findings: list[Finding]) -> set[str]:
    return {finding.kind for finding in findings}


def test_good_text_has_only_its_size_to_tell(tmp_path: Path) -> None:
    findings = examine_lines(tmp_path, {}, {})
    assert [(finding.level, finding.kind, finding.count) for finding in findings] == [("note", "counts", 300)]
    assert exit_code(findings) == 0


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("nul", "The\0cat"),
        ("control", "red \x1b[31mtext\x1b[0m"),
        ("control", "\x90"),
        *(("line_separators", f"one{mark}two") for mark in "\u2028\u2029\x85\v\f\x1c\x1d\x1e\r"),
        ("empty", ""),
        ("empty", " \t"),
        ("empty", "\u200b\u00a0"),
        ("replacement", "caf\ufffd"),
        ("invisible", "so\u00adft and \u200bzero"),
        ("private_use", "bullet \uf0b7"),
        ("tabs", "one\ttwo"),
        ("mojibake", "Die TÃ¼r ist schÃ¶n."),
        ("mojibake", "donâ€™t"),
        ("mojibake", "ÐŸÑ€Ð¸Ð²ÐµÑ‚"),
        ("mojibake", "日本".encode().decode("latin-1")),
        ("special_tokens", "<s> The cat </s>"),
        ("special_tokens", "▁The ▁cat"),
        ("special_tokens", "The c@@ at"),
        ("special_tokens", "The ￭, cat"),
        ("special_tokens", "one [MASK] two <unk>"),
        ("markup", 'See <a href="x.html">this</a>.'),
        ("entities", "Fish &amp; chips &#8211;"),
        ("roff", ".TH LS 1"),
        ("roff", "Use \\fBls\\fR now"),
        ("roff", "Use B<ls> now"),
        ("accelerators", "&File"),
        ("accelerators", "Sa~ve as"),
        ("accelerators", "_Open"),
        ("long_lines", "word " * 500),
        ("long_words", "x" * 120),
    ],
)
def test_an_odd_line_is_found_where_it_is(kind: str, line: str) -> None:
    for places in ([17], [1, 300], list(range(4, 100))):
        found = tallies(dict.fromkeys(places, line))[kind]
        assert (found.count, found.lines) == (len(places), places[:20])
        assert len(found.examples) == (min(3, len(places)) if line else 0)


@pytest.mark.parametrize(
    "line",
    [
        "AT&T and R&D, 5 < 6 and 7 > 4, a_b",
        "Voilà « né » … à « côté » : « déjà » — très « naïf »",
        "São Paulo, AÇÃO, Ângela, CÃES",
        "👩‍👩‍👧 und فارسی‌ها",
        "Ðað er gott. ÐAÐ",
        "C:\\Programme\\Datei kostet 5 € & mehr",
    ],
)
def test_what_only_looks_odd_is_left_alone(line: str) -> None:
    assert not tallies({5: line})


def test_one_odd_line_in_many_batches_is_found_once(tmp_path: Path) -> None:
    src, tgt = (list(side) * 40 for side in text())  # more than are looked at together
    src[11_000] += " <b>x</b>"
    findings = examine("corpus", write(tmp_path, joined(src), joined(tgt)), "en", "de")
    assert (one(findings, "markup").count, one(findings, "markup").lines) == (1, [11_001])
    assert one(findings, "markup").file.endswith("a.en")
    assert one(findings, "counts").count == 12_000


def test_text_with_blanks_before_full_stops_or_without_capitals_is_called_so(tmp_path: Path) -> None:
    src, tgt = text()
    spaced = [re.sub(r"([.,])", r" \1", line) for line in src]
    lower = [line.lower() for line in tgt]
    findings = examine("corpus", write(tmp_path, joined(spaced), joined(lower)), "en", "de")
    assert one(findings, "tokenised").file.endswith("a.en")
    assert one(findings, "lower_cased").file.endswith("a.de")


# --- files ---


def test_all_bad_bytes_are_counted_and_placed(tmp_path: Path) -> None:
    src, tgt = text()
    lines = [line.encode() for line in tgt]
    for number in (3, 50, 299):
        lines[number - 1] = b"caf\xe9 " + lines[number - 1]
    source = write(tmp_path, joined(src), b"\n".join(lines) + b"\n")
    finding = one(examine("corpus", source, "en", "de"), "encoding")
    assert (finding.level, finding.count, finding.lines) == ("error", 3, [3, 50, 299])
    assert finding.file.endswith("a.de")
    assert finding.examples[0].startswith("0xE9 at byte 4: caf\\xe9 ")
    with pytest.raises(DataError, match=r"line 3: .*byte 4"):  # the strict reader says the same of the first
        list(read_pairs(source))


def test_different_counts_are_an_error_with_the_place(tmp_path: Path) -> None:
    src, tgt = text()
    source = write(tmp_path, joined(src), joined(tgt[:149] + tgt[150:]))
    findings = examine("corpus", source, "en", "de")
    assert one(findings, "line_counts").count == 1
    assert "300" in one(findings, "line_counts").message and "299" in one(findings, "line_counts").message
    drift = one(findings, "drift")
    assert drift.level == "error" and abs(drift.lines[0] - 150) <= 20
    assert f"line {drift.lines[0]}" in drift.message
    assert exit_code(findings) == 1


def test_what_follows_the_end_of_the_shorter_side_is_named(tmp_path: Path) -> None:
    src, tgt = text()
    findings = examine("corpus", write(tmp_path, joined(src), joined(tgt[:290])), "en", "de")
    assert one(findings, "drift").lines == [291]
    assert "a.en has 10 more" in one(findings, "drift").message


def test_equal_counts_do_not_hide_a_line_out_and_another_in(tmp_path: Path) -> None:
    src, tgt = text()
    source = write(tmp_path, joined(src), joined([*tgt[:99], *tgt[100:200], "Das hat niemand gesagt.", *tgt[200:]]))
    findings = examine("corpus", source, "en", "de")
    drift = one(findings, "drift")
    assert abs(drift.lines[0] - 100) <= 20
    assert abs(drift.count - 100) <= 20  # lines out of step
    assert "line_counts" not in kinds(findings)


def test_marks_encodings_and_compression_are_read_through(tmp_path: Path) -> None:
    src, tgt = (joined(side).decode() for side in text())
    for one_file, other, marked in (
        (src.encode("utf-16"), tgt.encode("utf-8-sig"), 2),
        (gzip.compress(src.encode()), bz2.compress(tgt.encode()), 0),
        (src.replace("\n", "\r\n").encode(), tgt.rstrip("\n").encode(), 0),
    ):
        findings = examine("corpus", write(tmp_path, one_file, other), "en", "de")
        assert one(findings, "counts").count == 300
        assert sum(finding.kind == "byte_order_mark" for finding in findings) == marked == len(findings) - 1


def test_a_named_encoding_is_used(tmp_path: Path) -> None:
    src, tgt = (joined(side).decode().encode("latin-1") for side in text())
    source = write(tmp_path, src, tgt)
    assert "encoding" in kinds(examine("corpus", source, "en", "de"))
    assert kinds(examine("corpus", FileSource(source.src, source.tgt, "latin-1"), "en", "de")) == {"counts"}


def test_old_mac_line_ends_are_an_error(tmp_path: Path) -> None:
    src, tgt = text()
    source = write(tmp_path, joined(src).replace(b"\n", b"\r"), joined(tgt))
    assert one(examine("corpus", source, "en", "de"), "old_mac").level == "error"


def test_what_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    src, tgt = (joined(side) for side in text())
    cut = gzip.compress(src)[:-100]
    assert "cut short" in one(examine("corpus", write(tmp_path, cut, tgt), "en", "de"), "unreadable").message
    missing = FileSource(tmp_path / "none", tmp_path / "a.de")
    assert "cannot be read" in one(examine("corpus", missing, "en", "de"), "unreadable").message
    assert one(examine("corpus", write(tmp_path, b"", b""), "en", "de"), "no_lines").level == "error"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    src=st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\xff", b"\xc3\xa4", b"\xe2\x80\xa8", b"\0", b" "])),
    tgt=st.binary(max_size=60),
)
def test_any_bytes_are_examined_and_lines_are_those_of_the_strict_reader(
    tmp_path: Path, src: list[bytes], tgt: bytes
) -> None:
    source = write(tmp_path, b"".join(src), tgt)
    found = diagnose("corpus", source, "en", "de")
    assert describe(found.findings)
    try:
        pairs = list(read_pairs(source))
    except DataError:
        assert exit_code(found.findings) == 1
    else:
        assert found.n_lines == (len(pairs), len(pairs))
        for path, side in ((source.src, 0), (source.tgt, 1)):
            assert list(TolerantText(path).lines()) == [pair[side] for pair in pairs]


# --- pairs ---


def test_pairs_that_occur_again_are_counted_as_brute_force_counts(tmp_path: Path) -> None:
    src, tgt = (list(side[:40]) for side in text())
    src, tgt = src + src[:15] + src[:5], tgt + tgt[:10] + tgt[20:25] + tgt[:5]
    findings = examine("corpus", write(tmp_path, joined(src), joined(tgt)), "en", "de")
    pairs = list(zip(src, tgt, strict=True))
    for kind, items in (("duplicates", pairs), ("repeated_src", src), ("repeated_tgt", tgt)):
        again = [number + 1 for number, item in enumerate(items) if item in items[:number]]
        assert (one(findings, kind).count, one(findings, kind).lines) == (len(again), again[:20])


def test_boilerplate_is_what_is_repeated_more_often_than_allowed(tmp_path: Path) -> None:
    lines = dict.fromkeys(range(10, 20), "All rights reserved.")
    finding = one(examine_lines(tmp_path, lines, {}, over=9), "boilerplate")
    assert (finding.count, finding.lines, finding.examples) == (1, [10], ["10 times: All rights reserved."])
    assert "boilerplate" not in kinds(examine_lines(tmp_path, lines, {}, over=10))


def test_identical_sides_and_unequal_lengths_are_found(tmp_path: Path) -> None:
    findings = examine_lines(tmp_path, {7: "Windows 95", 90: "Yes. " * 30}, {7: "Windows 95", 90: "Ja."})
    assert one(findings, "identical").lines == [7]
    assert one(findings, "length_ratio").lines == [90]


def test_swapped_and_foreign_pairs_are_found(tmp_path: Path) -> None:
    english, german = "The children were playing in the garden.", "Die Kinder spielten gestern im Garten."
    french = "Les enfants jouaient hier dans le jardin avec leur mère."
    findings = examine_lines(tmp_path, {20: german, 30: english}, {20: english, 30: french})
    assert one(findings, "swapped").lines == [20]
    assert one(findings, "wrong_language").lines == [30]
    assert one(findings, "wrong_language").examples[0].startswith("fr: ")


def test_a_corpus_the_other_way_round_or_in_another_language_is_an_error(tmp_path: Path) -> None:
    src, tgt = text()
    swapped = examine("corpus", write(tmp_path, joined(tgt), joined(src)), "en", "de")
    assert one(swapped, "swapped_corpus").level == "error"
    wrong = examine("corpus", write(tmp_path, joined(src), joined(tgt)), "en", "fr")
    assert one(wrong, "wrong_corpus_language", "a.de").level == "error"


def test_languages_nobody_knows_are_said_to_be_unchecked(tmp_path: Path) -> None:
    src, tgt = text()
    findings = examine("corpus", write(tmp_path, joined(src), joined(tgt)), "en", "tlh")
    assert kinds(findings) == {"counts", "languages_unchecked"}


def test_other_forms_are_checked_alike(tmp_path: Path) -> None:
    src, tgt = text()
    table = tmp_path / "pairs.tsv"
    lines = [f"{one}\t{other}" for one, other in zip(src, (*tgt[:99], *tgt[100:], "Ende."), strict=True)]
    lines[4] = "The <b>cat</b>.\tDie Katze."
    table.write_bytes(joined(lines))
    findings = examine("corpus", RecordsSource(table, "en", "de"), "en", "de")
    assert one(findings, "markup").lines == [5]
    first, last = (finding for finding in findings if finding.kind == "drift")
    assert abs(first.lines[0] - 100) <= 20
    assert last.lines == [300]  # the target's last line has no source
    table.write_bytes(table.read_bytes() + b"one field\n")
    assert one(examine("corpus", RecordsSource(table, "en", "de"), "en", "de"), "unreadable").level == "error"


# --- telling ---


def test_the_worst_comes_first_with_file_lines_examples_and_remedy(tmp_path: Path) -> None:
    src, tgt = text()
    source = write(
        tmp_path, joined(["\ttab", *src[1:]]), joined(("<b>fett</b>", *tgt[1:])).replace(b"Haus", b"H\xe4us")
    )
    findings = examine("my corpus", source, "en", "de")
    shown = describe(findings)
    levels = [line.split()[0] for line in shown.splitlines() if line[:1].isupper()]
    assert levels == sorted(levels, key=["ERROR", "WARNING", "NOTE"].index)
    assert {"ERROR", "WARNING", "NOTE"} == set(levels)
    for part in ("my corpus: ", "a.de", "line 1", "<b>fett</b>", KINDS["markup"].remedy.split(";")[0], "iconv"):
        assert part in shown
    assert re.match(r"\d+ errors?, \d+ warnings?, \d+ notes?\.", shown.splitlines()[-1])


def test_nothing_shown_can_act_on_the_terminal(tmp_path: Path) -> None:
    shown = describe(examine_lines(tmp_path, {3: "a\x1b[2Jb\u202ec\u2028d\0e\x9bf"}, {}))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029]", shown)
    assert "‹ESC›" in shown


@given(st.text(max_size=400), st.integers(0, 400), st.integers(1, 120))
def test_an_excerpt_is_short_and_holds_the_place(line: str, at: int, width: int) -> None:
    shown = re.sub("‹[^‹›]*›", "x", excerpt(line.replace("‹", "").replace("›", ""), at, width))
    assert len(shown) <= width + 2
    short = "word " * 100
    assert "HERE" in excerpt(short[: at // 5 * 5] + "HERE " + short, at // 5 * 5)


def test_every_kind_has_a_remedy() -> None:
    for name, kind in KINDS.items():
        assert kind.remedy or name == "counts"
        assert kind.level in ("error", "warning", "note")


def test_damaged_captions_give_an_error_in_seconds(corpora: Path, tmp_path: Path) -> None:
    src, tgt = (gzip.decompress((corpora / f"multi30k/train.{name}.gz").read_bytes()) for name in ("en", "de"))
    lines = tgt.split(b"\n")
    source = write(tmp_path, src, b"\n".join(lines[:12_344] + lines[12_345:]))
    findings = examine("captions", source, "en", "de")
    assert exit_code(findings) == 1
    assert abs(one(findings, "drift").lines[0] - 12_345) <= 20
