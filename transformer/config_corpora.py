"""The forms in which `data.train`, `data.valid` and `data.test` take parallel text."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from transformer.config_section import Name, Section, Text

PATH_KEYS = ("src", "tgt", "file", "hub")  # hub: where it is a folder
Column = Annotated[int, Field(ge=1, le=10_000)] | Text


class CorpusSection(Section):
    """What every corpus can have."""

    name: Name | None = Field(None, description="What mixing and reports call it; null: corpus-1, corpus-2 …")
    tag: Annotated[str, Field(pattern=r"^<[A-Za-z0-9][\w.+-]*>$")] | None = Field(
        None, description="Such as <bt>: a piece put before every source sentence in training; never found in text."
    )


class FileCorpus(CorpusSection):
    """Two files, text or WMT SGM, plain or gz, bz2, xz, zst; line N of one translates line N of the other."""

    src: Text = Field(description="Source file; relative to the config file.")
    tgt: Text = Field(description="Target file, with exactly as many lines.")
    encoding: Text | None = Field(None, description="Of both, such as iso-8859-1; null: UTF-8, or UTF-16 with a BOM.")


class RecordsCorpus(CorpusSection):
    """One file with both sides: TSV, CSV, JSONL, Parquet, TMX, XLIFF, PO, MO, WMT XML; zip or tar of one or two."""

    file: Text = Field(description="The file, plain or compressed; relative to the config file.")
    form: Literal["tsv", "csv", "jsonl", "parquet", "tmx", "xliff", "po", "mo", "wmt_xml", "zip", "tar"] | None = Field(
        None, description="null: found from the content."
    )
    encoding: Text | None = Field(None, description="As of two files; XML says its own.")
    src_column: Column | None = Field(None, description="Number, from 1, or name of the source column.")
    tgt_column: Column | None = Field(None, description="Number or name of the target column.")
    score_column: Column | None = Field(None, description="Number or name of the column that the filter score reads.")
    header: bool | None = Field(None, description="Whether the first line names the columns; null: if it seems to.")
    quoted: bool | None = Field(None, description="Whether quotes enclose cells, as in CSV; null: in CSV, not in TSV.")
    reference: Text | None = Field(None, description="WMT XML: the translator; null: the first that is complete.")
    system: Text | None = Field(None, description="WMT XML: the output of this system in place of a reference.")
    members: Text | None = Field(None, description="Archives: which files inside count, such as '*/devtest/*'.")
    inline_tags: Literal["drop", "keep"] = Field("drop", description="TMX and XLIFF: codes inside text.")

    @model_validator(mode="after")
    def _both_columns(self) -> RecordsCorpus:
        if (self.src_column is None) != (self.tgt_column is None):
            raise ValueError("src_column and tgt_column are given together or not at all")
        return self


class HubCorpus(CorpusSection):
    """A dataset of the `datasets` library, in WMT's schema (`translation: {de: …, en: …}`) or with flat columns."""

    hub: Text = Field(description="A local folder of parquet files if there is one, else a dataset's name on the hub.")
    config: Text | None = Field(None, description="The dataset's configuration, such as de-en.")
    split: Text = Field("train", description="The dataset's split.")
    src_column: Text | None = Field(None, description="Flat source column; null: translation[data.src_lang].")
    tgt_column: Text | None = Field(None, description="Flat target column; null: translation[data.tgt_lang].")
    revision: Text | None = Field(
        None, description="A commit, tag or branch of the dataset on the hub; null: the newest (changes go unseen)."
    )
    streaming: bool = Field(True, description="Read over the network as it is used; false: download it first.")

    @model_validator(mode="after")
    def _both_columns(self) -> HubCorpus:
        if (self.src_column is None) != (self.tgt_column is None):
            raise ValueError("src_column and tgt_column are given together or not at all")
        return self


class TestSetCorpus(CorpusSection):
    """A test set that sacrebleu knows and fetches."""

    __test__ = False  # nothing for pytest

    testset: Text = Field(description="Its name there, such as wmt14/full; `sacrebleu --list` lists them.")


def _kind(value: Any) -> str:
    keys = value if isinstance(value, dict) else vars(value) if isinstance(value, Section) else {}
    return next((kind for kind in ("hub", "testset", "file") if kind in keys), "files")


Corpus = Annotated[
    Annotated[FileCorpus, Tag("files")]
    | Annotated[RecordsCorpus, Tag("file")]
    | Annotated[HubCorpus, Tag("hub")]
    | Annotated[TestSetCorpus, Tag("testset")],
    Discriminator(_kind),
]
"""One entry; which kind it is, is told by its keys."""

CORPUS_KINDS = (FileCorpus, RecordsCorpus, HubCorpus, TestSetCorpus)
