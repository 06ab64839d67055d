"""Texts in zip and tar archives: which members to read, and how. Nothing is ever unpacked to disk."""

from __future__ import annotations

import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal, cast

from data.errors import DataError
from data.forms.compression import Advance, blocks_of, decompressed, open_decompressed, stream_of

Kind = Literal["zip", "tar"]

_ABOUT = re.compile(r"_?(?:readme|licen[cs]e|copying|about|changelog|manifest)\b.*", re.IGNORECASE)
_EXTENSION = re.compile(r"\.(?:txt|sgm|gz|bz2|xz|zst)$", re.IGNORECASE)
# What zipfile, tarfile and zlib raise for damage; NotImplementedError is zipfile's word for a method it does not know.
_DAMAGES = (OSError, EOFError, RuntimeError, NotImplementedError, ValueError, zlib.error)


def choose_members(
    path: Path, kind: Kind, src_lang: str, tgt_lang: str, pattern: str | None = None
) -> tuple[str, str] | tuple[str]:
    """The members that hold source and target, or the one that holds both.

    A member is of a language whose name ends with its code (`corpus.de-en.de`), begins with it (`de.txt`), or has it
    in between and not the other's (`news.de.clean`). What describes an archive or a file system (README, LICENSE,
    `__MACOSX`, `._name`), and alignments in XML beside texts, are left out, and so is what does not match `pattern`.

    Raises DataError, with the candidates: no member or several for a language; and when the archive cannot be read.
    """
    names = [name for name in _list(path, kind) if not _describes(name)]
    if pattern is not None:
        names = [name for name in names if fnmatchcase(name, pattern)]
    texts = [name for name in names if not name.lower().endswith(".xml")] or names
    for matches in (_ends_with, _begins_with, _has):
        src, tgt = ([name for name in texts if matches(name, *sides)] for sides in _sides(src_lang, tgt_lang))
        if len(src) == 1 and len(tgt) == 1 and src != tgt:
            return src[0], tgt[0]
        if src and tgt and src != tgt:
            raise _ambiguous(path, sorted({*src, *tgt}), f"several members for {src_lang} and {tgt_lang}")
    if len(texts) == 1:
        return (texts[0],)
    raise _ambiguous(path, texts, f"no members for {src_lang} and {tgt_lang}, nor a single one for both")


def _sides(src_lang: str, tgt_lang: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (_code(src_lang), _code(tgt_lang)), (_code(tgt_lang), _code(src_lang))


def _code(language: str) -> str:
    return language.lower().replace("_", "-")


def _ambiguous(path: Path, names: list[str], what: str) -> DataError:
    there = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return DataError(
        f"{path}: {what}; there: {there or 'nothing'}. Set members to a pattern that only the right ones match, "
        "such as members: '*/train.*', or src_lang and tgt_lang to the codes in the names"
    )


def _describes(name: str) -> bool:
    *folders, base = PurePosixPath(name).parts or ("",)
    return "__MACOSX" in folders or base.startswith(".") or _ABOUT.fullmatch(base) is not None


def _stem(name: str) -> str:
    base = PurePosixPath(name).name.lower().replace("_", "-")
    while (shorter := _EXTENSION.sub("", base)) not in (base, ""):
        base = shorter
    return base


def _ends_with(name: str, language: str, _: str) -> bool:
    return _stem(name).endswith(f".{language}")


def _begins_with(name: str, language: str, _: str) -> bool:
    return _stem(name) == language or _stem(name).startswith(f"{language}.")


def _has(name: str, language: str, other: str) -> bool:
    has = [re.search(rf"(?<![a-z]){re.escape(code)}(?![a-z])", _stem(name)) for code in (language, other)]
    return has[0] is not None and has[1] is None


def _list(path: Path, kind: Kind) -> list[str]:
    """The names of all regular files. A compressed tar archive is read through for that."""
    with _explaining(path):
        if kind == "zip":
            with zipfile.ZipFile(path) as archive:
                return [info.filename for info in archive.infolist() if not info.is_dir()]
        with open_decompressed(path) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            return [member.name for member in tar if member.isreg()]


@contextmanager
def open_member(path: Path, kind: Kind, name: str, advance: Advance | None = None) -> Iterator[BinaryIO]:
    """What a member holds, decompressed. `advance` is told how much of the archive has been read for it.

    Raises DataError when the archive is damaged, cut short or locked with a password, at the latest by reading.
    """
    opened = _open_in_zip(path, name, advance) if kind == "zip" else _open_in_tar(path, name, advance)
    with opened as stream:
        yield decompressed(stream_of(_explained(stream, path)), f"{path}: {name}")


@contextmanager
def _open_in_zip(path: Path, name: str, advance: Advance | None) -> Iterator[BinaryIO]:
    with _explaining(path):
        archive = zipfile.ZipFile(path)
    with archive:
        with _explaining(path):
            info = archive.getinfo(name)
            member = archive.open(info)
        with member:
            packed_share = info.compress_size / max(1, info.file_size)
            yield stream_of(_counted(cast(BinaryIO, member), packed_share, advance))


def _counted(stream: BinaryIO, share: float, advance: Advance | None) -> Iterator[bytes]:
    for block in blocks_of(stream):
        yield block
        if advance:
            advance(int(len(block) * share))


@contextmanager
def _open_in_tar(path: Path, name: str, advance: Advance | None) -> Iterator[BinaryIO]:
    with open_decompressed(path, advance) as stream:
        with _explaining(path):
            archive = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115 (the lines below)
        with archive:
            with _explaining(path):
                member = next(member for member in archive if member.name == name and member.isreg())
                content = archive.extractfile(member)
            yield cast(BinaryIO, content)


def _explained(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    with _explaining(path):
        yield from blocks_of(stream)


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, tarfile.TarError, *_DAMAGES) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise DataError(f"{path}: cannot be read: {error.strerror}") from error
        raise DataError(f"{path}: the archive cannot be read: {error}. Get or make it again") from error
