"""The XML files of WMT test sets since 2021: source, references and the translations of systems, by document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from data.errors import DataError
from data.forms.xml import find_child, language_distance, read_elements, text_of
from data.pairs import Pair

_REFERENCE, _SYSTEM = "reference", "system"


class _Version(NamedTuple):
    """A translation of a document."""

    kind: str  # _REFERENCE or _SYSTEM
    name: str  # of the translator or the system
    language: str
    texts: Mapping[str, str]  # by id of the segment


@dataclass(frozen=True)
class _Document:
    meta: Mapping[str, str]
    language: str
    texts: Mapping[str, str]  # of the source, by id of the segment
    paragraphs: Mapping[str, str]  # "p 2", by id of the segment
    versions: list[_Version]

    @property
    def doc(self) -> str:
        return self.meta["doc"]

    def candidates(self, kind: str, tgt_lang: str) -> list[_Version]:
        """Systems are not held to a language, whose codes they state at their will."""
        return [
            version
            for version in self.versions
            if version.kind == kind
            and (kind == _SYSTEM or not version.language or language_distance(version.language, tgt_lang) is not None)
        ]


def read_wmt_xml(
    stream: BinaryIO, name: str, src_lang: str, tgt_lang: str, reference: str | None = None, system: str | None = None
) -> Iterator[Pair]:
    """Each segment of the source with one reference (the translator's name, such as A), or with what a system wrote.

    Without a name it is the first reference that has all segments. A reference that lacks documents is read only by
    name, and then gives the segments that it has; one that lacks segments of a document is an error.
    place: number of the segment in the source; meta: set, doc, segment, and where the file has them collection,
    paragraph ("p 2"), origlang, domain, testsuite; references: the names of all in this language that have the segment,
    blank between; "reference A" …: the text of each. The whole test set is in memory.

    Raises DataError: not well-formed, not of this form, other languages, no such reference or system, segments missing
    or too many (with document and segment).
    """
    if reference is not None and system is not None:
        raise DataError(f"{name}: reference {reference} and system {system}: give one of them, the target is one text")
    kind, wanted = (_SYSTEM, system) if system is not None else (_REFERENCE, reference)
    documents = list(_read_documents(stream, name, src_lang))
    chosen = _choose(documents, name, kind, wanted, tgt_lang)
    place = 0
    for document in documents:
        version = next((found for found in document.candidates(kind, tgt_lang) if found.name == chosen), None)
        if version is not None:
            _check_segments(document, version, name)
        references = document.candidates(_REFERENCE, tgt_lang)
        for segment, src in document.texts.items():
            place += 1
            if version is not None:
                meta = {**_segment_meta(document, segment), **_references(references, segment)}
                yield Pair(src, version.texts[segment], place, meta)


def read_wmt_xml_source(stream: BinaryIO, name: str, src_lang: str | None = None) -> Iterator[Pair]:
    """Each segment of the source as a pair without target, with all that a submission must repeat; meta as above.

    Raises DataError as `read_wmt_xml`.
    """
    place = 0
    for document in _read_documents(stream, name, src_lang):
        for segment, src in document.texts.items():
            place += 1
            yield Pair(src, "", place, _segment_meta(document, segment))


def _read_documents(stream: BinaryIO, name: str, src_lang: str | None) -> Iterator[_Document]:
    n_documents = 0
    for n_documents, element in enumerate(read_elements(stream, name, "dataset", "doc"), 1):
        meta = _document_meta(element, n_documents)
        where = f"{name}, document {meta['doc']}"
        source = find_child(element, "src")
        if source is None:
            raise DataError(f"{where}: no <src>. Get the file with the source in it")
        language = source.get("lang") or ""
        if src_lang and language and language_distance(language, src_lang) is None:
            raise DataError(f"{where}: the source is {language}, not {src_lang}. Set the languages to the file's")
        texts = _texts(source, f"{where}, source", n_documents)
        paragraphs = {
            segment.get("id"): f"p {number}"
            for number, paragraph in enumerate(source.iterchildren("{*}p"), 1)
            for segment in paragraph.iter("{*}seg")
        }
        yield _Document(meta, language, texts, paragraphs, list(_read_versions(element, where, n_documents)))
    if not n_documents:
        raise DataError(f"{name}: holds no <doc>: not a WMT test set. State the form that the file has")


def _document_meta(element: Any, number: int) -> dict[str, str]:
    collection = next(element.iterancestors("{*}collection"), None)
    found = {
        "set": element.getroottree().getroot().get("id"),
        "collection": None if collection is None else collection.get("id"),
        "origlang": element.get("origlang"),
        "domain": element.get("domain"),
        "testsuite": element.get("testsuite"),
    }
    return {"doc": element.get("id") or str(number), **{key: value for key, value in found.items() if value}}


def _read_versions(element: Any, where: str, place: int) -> Iterator[_Version]:
    for kind, tag, attribute in ((_REFERENCE, "ref", "translator"), (_SYSTEM, "hyp", "system")):
        for number, version in enumerate(element.iterchildren(f"{{*}}{tag}"), 1):
            version_name = version.get(attribute) or str(number)
            texts = _texts(version, f"{where}, {kind} {version_name}", place)
            language = version.get("lang") or version.get("language") or ""  # the latter from wmt-format-tools
            yield _Version(kind, version_name, language, texts)


def _texts(element: Any, where: str, place: int) -> dict[str, str]:
    texts: dict[str, str] = {}
    for segment in element.iter("{*}seg"):
        key = segment.get("id")
        if key is None or key in texts:
            problem = "a segment without an id" if key is None else f"segment {key} comes twice"
            raise DataError(f"{where}: {problem}; segments are paired by id. Mend the file")
        texts[key] = text_of(segment, where, place, "keep")
    return texts


def _choose(documents: list[_Document], name: str, kind: str, wanted: str | None, tgt_lang: str) -> str:
    """The name of the version to read."""
    counts: dict[str, int] = {}
    for document in documents:
        for version in document.candidates(kind, tgt_lang):
            counts[version.name] = counts.get(version.name, 0) + len(version.texts)
    n_segments = sum(len(document.texts) for document in documents)
    if wanted is None:
        complete = next((version for version, count in counts.items() if count == n_segments), None)
        if complete is None:
            raise DataError(_explain_no_reference(documents, name, tgt_lang, _list_counts(counts, n_segments)))
        return complete
    near = [version for version in counts if _plain_name(version) == _plain_name(wanted)]
    if wanted not in counts and not near:
        there = _list_counts(counts, n_segments) or "none"
        raise DataError(f"{name}: no {kind} {wanted} in {tgt_lang}; there: {there}. Name one that the file has")
    found = wanted if wanted in counts else near[0]
    if kind == _SYSTEM:
        _check_all_documents(documents, name, found)
    return found


def _list_counts(counts: Mapping[str, int], n_segments: int) -> str:
    """Names, and the number of segments where it is not all."""
    return ", ".join(
        version if count == n_segments else f"{version} ({count:,} of {n_segments:,} segments)"
        for version, count in counts.items()
    )


def _explain_no_reference(documents: list[_Document], name: str, tgt_lang: str, there: str) -> str:
    if there:
        return f"{name}: no reference has all segments: {there}. Name one as reference to read only what it has"
    versions = {version.name: version for document in documents for version in document.versions}.values()
    others = ", ".join(f"{version.kind} {version.name} in {version.language or 'no language'}" for version in versions)
    there = others or "only the source"
    return f"{name}: no reference in {tgt_lang}; there: {there}. Set the language, or name a system"


def _plain_name(version: str) -> str:
    """A for refA: one year's files say the one, another's the other."""
    return version.lower().removeprefix("ref")


def _check_all_documents(documents: list[_Document], name: str, system: str) -> None:
    for document in documents:
        if document.texts and (_SYSTEM, system) not in {(version.kind, version.name) for version in document.versions}:
            first = next(iter(document.texts))
            where = f"{name}, document {document.doc}"
            raise DataError(f"{where}: system {system} lacks all of it, from segment {first} on. Get the file again")


def _check_segments(document: _Document, version: _Version, name: str) -> None:
    missing = document.texts.keys() - version.texts.keys()
    surplus = version.texts.keys() - document.texts.keys()
    if missing or surplus:
        first = next(key for key in (*document.texts, *version.texts) if key in (missing or surplus))
        what = "lacks" if missing else "has a"
        more = f" (and {len(missing or surplus) - 1} more)" if len(missing or surplus) > 1 else ""
        raise DataError(
            f"{name}, document {document.doc}: {version.kind} {version.name} {what} segment {first}{more}"
            f"{'' if missing else ' that the source lacks'}. Get the file again, or leave the document out"
        )


def _segment_meta(document: _Document, segment: str) -> dict[str, str]:
    paragraph = document.paragraphs.get(segment)
    meta = {**document.meta, "segment": segment}
    return {**meta, "paragraph": paragraph} if paragraph else meta


def _references(versions: list[_Version], segment: str) -> dict[str, str]:
    having = [version for version in versions if segment in version.texts]
    if not having:
        return {}
    texts = {f"reference {version.name}": version.texts[segment] for version in having}
    return {"references": " ".join(version.name for version in having), **texts}
