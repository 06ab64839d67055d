"""What the data side does with real and with nasty text: forms read or refused, test sentences found, drift located.

    python benchmarks/corpora.py --data DIR

DIR holds multi30k/, tatoeba/, l10n/, wmt/ and nasty/: corpora, official test sets, and small files that broke other
readers. Each is read or refused, and what came of it is held against what is known of it. The result is printed and
written to benchmarks/results/corpora.md. Noise, word translation and speed have their own programs: noise.py,
word_translation.py, preparation.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from data.contamination import KINDS, HeldOut
from data.corpora import Columns, FileSource, RecordsSource, Source, read_pairs
from data.doctor.examination import examine
from data.errors import DataError
from data.lines import read_lines, write_lines
from data.pairs import Texts
from transformer.command_line import CommandParser, run_command

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Case:
    """A source and what is right: the number of pairs, or words of the message that refuses it."""

    form: str
    source: Source
    right: int | str


def main(argv: Sequence[str] | None = None) -> int:
    """Read, look for test sentences, look for drift, report; exit code 1 when anything is not as it should be."""
    parser = CommandParser(prog="benchmarks/corpora.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the corpora")
    args: argparse.Namespace = parser.parse_args(argv)
    data = args.data.resolve()
    lines = ["# Reading, contamination, drift", "", "    python benchmarks/corpora.py --data DIR", ""]
    forms, n_wrong = describe_forms(cases(data), data)
    lines += [*forms, "", *describe_contamination(data), "", *describe_drift(data)]
    page = "\n".join(lines) + "\n"
    print(page)
    path = ROOT / "benchmarks/results/corpora.md"
    path.write_text(page, encoding="utf-8")
    print(f"wrote {path}")
    return int(n_wrong > 0)


def cases(data: Path) -> Iterator[Case]:
    """Every form, with real files where there are some."""
    nasty, wmt = data / "nasty", data / "wmt"

    def two(stem: str, folder: Path = nasty, src: str = "en", tgt: str = "de", encoding: str | None = None) -> Source:
        return FileSource(folder / stem.format(src), folder / stem.format(tgt), encoding)

    def one(name: str, folder: Path = nasty, src: str = "en", tgt: str = "de", **options: object) -> Source:
        return RecordsSource(folder / name, src, tgt, **options)  # type: ignore[arg-type]

    yield Case("text", two("crlf.{}"), 200)
    yield Case("text, mixed line ends", two("mixed-eol.{}"), 200)
    yield Case("text, BOM", two("bom.{}"), 200)
    yield Case("text, UTF-16", two("utf16le-bom.{}"), 50)
    yield Case("text, U+2028 and its kin", two("unicode-linebreaks.{}"), 100)
    yield Case("text, no final line end", two("no-final-newline.{}"), 100)
    yield Case("text, NUL and controls", two("nul-and-control.{}"), 50)
    yield Case("text, 20,000-letter word", two("long-lines.{}"), 50)
    yield Case("text, right to left", two("rtl.{}", tgt="he-ar"), 6)
    yield Case("text, one side longer", two("count-mismatch.{}"), "200 lines")
    yield Case("text, one side longer", two("newstest2021.en-de.{}.gz", wmt / "mismatched"), "14938 lines")
    yield Case("text, empty lines at the end", two("extra-trailing-empty.{}"), "102 lines")
    yield Case("text, Latin-1", two("latin1.{}"), "not UTF-8")
    yield Case("text, Latin-1 named", FileSource(nasty / "latin1.de", nasty / "latin1.de", "iso-8859-1"), 200)
    yield Case("text, bad bytes", two("bad-utf8.{}"), "line 11")
    yield Case("text, CR only", FileSource(nasty / "old-mac-cr.en", nasty / "old-mac-cr.en"), "carriage return")
    for kind in ("gz", "bz2", "xz", "zst"):
        yield Case(f"text, {kind}", two(f"val.{{}}.{kind}"), 1014)
    yield Case("text, gzip members", FileSource(nasty / "multi-member.en.gz", nasty / "val.de.gz"), 1014)
    yield Case("text, zstd frames", FileSource(nasty / "multi-frame.en.zst", nasty / "val.de.gz"), 1014)
    yield Case(
        "text, gzip without its name", FileSource(nasty / "gzip-without-extension.en", nasty / "val.de.gz"), 1014
    )
    yield Case("text, .gz without gzip", FileSource(nasty / "wrong-extension.en.gz", nasty / "val.de.gz"), 1014)
    yield Case("text, gzip cut short", FileSource(nasty / "truncated.en.gz", nasty / "val.de.gz"), "cut short")
    yield Case("TSV", one("pairs.tsv"), 100)
    yield Case("TSV, ragged", one("quotes.tsv"), "line 10")
    yield Case("TSV, quoted, header", one("csv-quoted-header.tsv", columns=Columns(quoted=True, header=True)), 50)
    yield Case("TSV, ParaCrawl", one("paracrawl-style.tsv", columns=Columns(src=4, tgt=5, score=1)), 50)
    yield Case("CSV", one("pairs.csv"), 100)
    yield Case("JSONL", one("flat.jsonl"), 100)
    yield Case("JSONL, broken", one("hf.jsonl"), "line 61")
    yield Case("Parquet, translation", one("hf-translation.parquet"), 1014)
    yield Case("Parquet, flat", one("flat.parquet"), 1015)
    yield Case("TMX", one("multi.tmx"), 283)
    yield Case("TMX, not closed", one("multi.utf16.tmx"), "line 59")
    yield Case("TMX, cut short", one("truncated.tmx"), "line")
    yield Case("XLIFF", one("sample.xlf"), 45)
    yield Case("tar.gz of two texts", one("pair.tgz"), 1014)
    yield Case("zip, TSV inside", one("raw/deu-eng.zip", data / "tatoeba"), 169_197)
    yield Case("zip, Moses texts inside", one("moz.en-ru.txt.zip", wmt / "other", tgt="ru"), 4073)
    yield Case("WMT SGM", two("newstest2009-excerpt-{}.sgm", wmt / "sgm", "src.fr", "ref.en"), 85)
    bare = two("newstest2013-ende-UNESCAPED-{}.RECONSTRUCTED.sgm", wmt / "sgm", "src.en", "ref.de")
    yield Case("WMT SGM, bare & and <", bare, 3000)
    yield Case("WMT XML, two references", one("wmttest2022.en-zh.all.xml", wmt / "xml", tgt="zh"), 2037)
    yield Case(
        "WMT XML, a partial one", one("newstest2021.ru-en.all.xml", wmt / "xml", "ru", "en", reference="B"), 1000
    )
    for name in ("multi30k/train.{}.gz", "tatoeba/train.en-de.{}.gz", "l10n/train.en-de.{}.gz"):
        yield Case(
            "text, real",
            two(name, data),
            {"multi30k": 29_000, "tatoeba": 153_580, "l10n": 329_358}[name[: name.index("/")]],
        )


def describe_forms(all_cases: Iterator[Case], data: Path) -> tuple[list[str], int]:
    """A table, and how many cases are wrong."""
    rows, n_wrong = ["| form | file | result | |", "|---|---|---|---|"], 0
    for case in all_cases:
        try:
            found: int | str = sum(1 for _ in read_pairs(case.source))
        except DataError as error:
            found = str(error)
        is_right = (
            case.right in found if isinstance(case.right, str) and isinstance(found, str) else case.right == found
        )
        n_wrong += not is_right
        result = f"{found:,} pairs" if isinstance(found, int) else "refused: " + found
        file = case.source.file if isinstance(case.source, RecordsSource) else case.source.src  # type: ignore[union-attr]
        result = result.replace(f"{data}/", "").replace("|", "\\|").replace("\n", " ")
        rows.append(f"| {case.form} | {file.relative_to(data)} | {result} | {'✓' if is_right else f'✗ {case.right}'} |")
    return [f"## Forms: {len(rows) - 2 - n_wrong} of {len(rows) - 2} as they should be", "", *rows], n_wrong


def describe_contamination(data: Path) -> Iterator[str]:
    """How many training pairs match held-out ones, and how fast that is found out."""
    flickr = "multi30k/test_2016_flickr.{}.gz"
    compared = [
        ("nasty/leak-train.{}", flickr, "50 were planted"),
        ("multi30k/train.{}.gz", flickr, ""),
        (
            "tatoeba/train.en-de.{}.gz",
            "wmt/other/deu-eng.tatoeba-test-v2021-08-07.{}.gz",
            "share no side by construction",
        ),
        ("l10n/train.en-de.{}.gz", "l10n/dev.en-de.{}.gz", "source sides are disjoint by construction"),
    ]
    yield from ("## Contamination: training pairs that match held-out ones", "")
    yield "| training text | held out | exact | normalised | overlap | pairs/s, one core | known |"
    yield "|---|---|---|---|---|---|---|"
    for train, held_out, known in compared:
        pairs, test = texts(data, train), texts(data, held_out)
        guard = HeldOut({"test": (test.src, test.tgt)})
        begin = time.perf_counter()
        kinds: Counter[int] = Counter()
        for start in range(0, len(pairs), 20_000):
            batch = Texts(pairs.src[start : start + 20_000], pairs.tgt[start : start + 20_000])
            kinds.update(guard.match(batch).kinds.tolist())
        speed = len(pairs) / (time.perf_counter() - begin)
        counts = " | ".join(f"{kinds[KINDS.index(kind)]:,}" for kind in ("exact", "normalised", "overlap"))
        yield f"| {train.format('*')}, {len(pairs):,} | {held_out.format('*')} | {counts} | {speed:,.0f} | {known} |"


def texts(data: Path, name: str) -> Texts:
    """Both sides in memory."""
    languages = ("eng", "deu") if "tatoeba-test" in name else ("en", "de")
    src, tgt = (list(read_lines(data / name.format(language))) for language in languages)
    return Texts(src, tgt)


def describe_drift(data: Path) -> Iterator[str]:
    """Lines taken from Multi30k, and where the doctor says they are missing."""
    src, tgt = texts(data, "multi30k/train.{}.gz").src, texts(data, "multi30k/train.{}.gz").tgt
    yield from ("## Drift: one target line of Multi30k's 29,000 taken away", "")
    yield "| line taken | found | error | seconds |"
    yield "|---|---|---|---|"
    random = np.random.default_rng(1)
    for line in [2, *sorted(random.integers(100, 28_900, 6).tolist()), 28_990]:
        with tempfile.TemporaryDirectory() as name:
            paths = (Path(name) / "text.en", Path(name) / "text.de")
            write_lines(paths[0], src)
            write_lines(paths[1], tgt[: line - 1] + tgt[line:])
            begin = time.perf_counter()
            found = [f for f in examine("text", FileSource(*paths), "en", "de") if f.level == "error"]
            seconds = time.perf_counter() - begin
        places = [place for finding in found if "drift" in finding.kind for place in finding.lines]
        nearest = min(places, key=lambda place: abs(place - line), default=None)
        error = "not found" if nearest is None else f"{nearest - line:+d}"
        yield f"| {line:,} | {', '.join(f'{place:,}' for place in places)} | {error} | {seconds:.1f} |"


if __name__ == "__main__":
    sys.exit(run_command(main))
