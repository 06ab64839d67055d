"""This project, through the Translator behind translate.py: text in, text out."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.decoding_peers.task import Decoded, Peer, Task, serve
from transformer.inference.translator import Translator


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`settings` of the options are TranslateSettings; `threads` is per process."""
    torch.set_num_threads(options["threads"])
    translator = Translator.load(task.folder / "model", device="cpu", **forced(task), **options["settings"])

    def decode(part: Task, batch_size: int) -> Decoded:
        translator.max_sentences = batch_size or None
        found = list(translator.translations(part.lines))
        return Decoded([translation.text for translation in found], sum(translation.n_tokens for translation in found))

    return Peer(f"torch {torch.__version__}", decode)


def forced(task: Task) -> dict[str, Any]:
    """Settings that make every translation as long as the task demands."""
    if task.length is None:
        return {}
    return {"min_length": task.length, "max_length_ratio": 0.0, "max_extra_length": task.length}


if __name__ == "__main__":
    serve(load)
