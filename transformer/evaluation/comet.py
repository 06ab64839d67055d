"""COMET (Rei et al. 2020, 2022): a neural model's judgement of translations, through unbabel-comet, an extra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Score, Signature

from transformer.errors import ConfigError, RunError
from transformer.evaluation.sentence_statistics import Statistics

DEFAULT_MODEL = "Unbabel/wmt22-comet-da"


class Comet:
    """A model that scores translations, given their sources and references; higher is better, × 100."""

    def __init__(self, name: str, on_gpu: bool) -> None:
        """Download the model, unless that was done before, and load it.

        Args:
            name: of a model on the hub, or a checkpoint file (.ckpt).

        Raises:
            ConfigError: unbabel-comet is not installed.
            RunError: there is no such model, or it cannot be downloaded.
        """
        try:
            import comet
        except ImportError as error:
            raise ConfigError("--comet needs COMET: run `pip install unbabel-comet`.") from error
        self.name, self._on_gpu = name, on_gpu
        self._version = str(getattr(comet, "__version__", "unknown"))
        try:
            path = name if name.endswith(".ckpt") else comet.download_model(name)
            self._model: Any = comet.load_from_checkpoint(path)
        except Exception as error:  # network, licence, disk: anything
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            raise RunError(
                f"--comet {name}: cannot be loaded: {reason}. Check the name and the network; some models ask for a "
                "login on the hub first; a file goes as --comet FILE.ckpt"
            ) from error

    def judge(self, src: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """The model's score of each sentence; of several references the mean, as the model reads one at a time."""
        scores = np.mean([self._scores(src, hypotheses, side) for side in references], axis=0)
        counts = np.stack([100 * scores, np.ones(len(scores))], axis=1)  # (N, 2)
        return Statistics(_Mean(self.name, self._version, len(references)), counts)

    def _scores(self, src: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
        lines = zip(src, hypotheses, references, strict=True)
        rows = [{"src": source, "mt": hypothesis, "ref": reference} for source, hypothesis, reference in lines]
        where = {"gpus": int(self._on_gpu), "accelerator": "gpu" if self._on_gpu else "cpu"}
        return list(map(float, self._model.predict(rows, batch_size=16, **where).scores))


class _Mean:
    """The metric behind COMET's statistics: sum of scores, number of sentences."""

    def __init__(self, model: str, version: str, n_references: int) -> None:
        self._model, self._version, self._n_references = model, version, n_references

    def _compute_score_from_stats(self, sums: Any) -> Score:
        return Score("COMET", float(sums[0] / sums[1]))

    def get_signature(self) -> Signature:
        signature = Signature({"num_refs": self._n_references})
        signature.update("model", self._model)
        signature.update("version", f"comet-{self._version}")
        return signature
