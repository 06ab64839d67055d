"""Multi30k (Elliott et al. 2016) as published: which files it is, and how to tell the scripts of them.

A folder of it holds train, val, test_2016_flickr, test_2017_flickr and test_2017_mscoco as NAME.LANGUAGE.gz, which are
the files of data/task1/raw in github.com/multi30k/dataset.
"""

from __future__ import annotations

import json
from pathlib import Path

from transformer.errors import ConfigError

TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")


def data_overrides(data: Path, src: str, tgt: str) -> list[str]:
    """The settings that name the corpus; JSON is YAML."""
    missing = [
        path.name
        for split in ("train", "val", TESTS[0])
        for path in (data / f"{split}.{language}.gz" for language in (src, tgt))
        if not path.is_file()
    ]
    if missing:
        raise ConfigError(f"{data}: {', '.join(missing)} not there; --data takes data/task1/raw of multi30k/dataset")

    def files(split: str) -> dict[str, str]:
        return {"src": str(data / f"{split}.{src}.gz"), "tgt": str(data / f"{split}.{tgt}.gz")}

    values = {
        "src_lang": src,
        "tgt_lang": tgt,
        "train": [files("train")],
        "valid": [files("val")],
        "test": {test: files(test) for test in tests_in(data, src, tgt)},
    }
    return [f"data.{key}={json.dumps(value).replace('$', '$$')}" for key, value in values.items()]


def tests_in(data: Path, src: str, tgt: str) -> list[str]:
    """The test sets that there are in both languages; not all are in all."""
    return [test for test in TESTS if all((data / f"{test}.{language}.gz").is_file() for language in (src, tgt))]
