"""What a run shows: the progress bar, a JSON line per log interval, and TensorBoard if it is installed."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from transformer.errors import RunError
from transformer.training.checkpoint import Progress
from transformer.training.run_directory import RunDirectory
from transformer.training.validation import Validation, perplexity


@dataclass
class UpdateResult:
    """What one update did; tensors, so that the device is waited for only when they are read."""

    smoothed: Tensor  # summed over the tokens, nats
    nll: Tensor  # summed over the tokens, nats
    grad_norm: Tensor  # before clipping
    n_tokens: int  # real target tokens
    n_real: int  # real tokens, both sides
    n_padded: int  # tokens with padding, both sides


class Monitor:
    """Collects updates and reports their averages every `log_every` steps."""

    def __init__(self, run: RunDirectory, progress: Progress, max_steps: int, part: str = "epoch") -> None:
        self.run = run
        self.part = part  # what progress.epoch counts: epochs, or stages of data.mixing
        self.live = sys.stderr.isatty()  # in a file, a bar every tenth of a second would be all there is to read
        self.bar = tqdm(
            total=max_steps,
            initial=progress.step,
            unit="step",
            dynamic_ncols=True,
            smoothing=0.05,
            mininterval=0.1 if self.live else 30,
        )
        self.bar.set_description(f"{part} {progress.epoch + 1}")
        self.board = _open_tensorboard(run, progress.step)
        self._restart()

    def add(self, result: UpdateResult) -> None:
        """Count one update; does not wait for the device."""
        self.results.append(result)
        self.bar.update()

    def log(self, progress: Progress, lr: float) -> None:
        """Report the updates since the last call.

        Raises:
            RunError: the loss is not a finite number.
        """
        n_tokens = sum(r.n_tokens for r in self.results)
        nll = float(torch.stack([r.nll for r in self.results]).sum(dtype=torch.float64)) / n_tokens
        smoothed = float(torch.stack([r.smoothed for r in self.results]).sum(dtype=torch.float64)) / n_tokens
        grad_norm = float(torch.stack([r.grad_norm for r in self.results]).mean())
        seconds = time.perf_counter() - self.begin  # only now has the device done all of it
        if not torch.isfinite(torch.tensor([nll, smoothed, grad_norm])).all():
            raise RunError(
                f"step {progress.step}: loss {nll} or gradient {grad_norm} is not a finite number. "
                "Train again under another name (name=…), with a lower train.lr, more train.warmup_steps, or "
                f"train.clip_norm set; the checkpoints in {self.run.checkpoints} are from before."
            )
        self._write(
            {
                "step": progress.step,
                self.part: progress.epoch,
                "lr": lr,
                "nll_per_token": nll,
                "perplexity": perplexity(nll),
                "smoothed_loss_per_token": smoothed,
                "grad_norm": grad_norm,
                "n_tokens": progress.n_tokens,
                "tokens_per_second": n_tokens / seconds,
                "padding_share": 1 - sum(r.n_real for r in self.results) / sum(r.n_padded for r in self.results),
                "seconds": progress.seconds,
            }
        )
        self.bar.set_description(f"{self.part} {progress.epoch + 1}", refresh=False)
        self.bar.set_postfix_str(
            f"loss {smoothed:.3f}, ppl {perplexity(nll):.2f}, lr {lr:.2e}, {n_tokens / seconds:,.0f} tok/s",
            refresh=self.live,
        )
        self._restart()

    def log_validation(self, validation: Validation, best: bool) -> None:
        """Report a validation."""
        values = asdict(validation)
        self._write(
            {"step": values.pop("step")}
            | {f"valid_{name}": value for name, value in values.items()}
            | {"valid_perplexity": validation.perplexity}
        )
        self.say(
            f"step {validation.step}: validation perplexity {validation.perplexity:.3f}, "
            f"BLEU {validation.bleu:.2f}{' (best so far)' if best else ''}"
        )

    def restart_clock(self) -> None:
        """Speed is that of training: call this after validation and saving, to leave their time out."""
        self.begin = time.perf_counter()

    def say(self, message: str) -> None:
        """Print a line above the bar."""
        self.bar.write(message, file=self.bar.fp)

    def close(self) -> None:
        """Finish bar and files."""
        self.bar.close()
        if self.board is not None:
            self.board.close()

    def _write(self, values: dict[str, Any]) -> None:
        self.run.log(values)
        if self.board is not None:
            for name, value in values.items():
                if name != "step":
                    self.board.add_scalar(name, value, values["step"])

    def _restart(self) -> None:
        self.results: list[UpdateResult] = []
        self.restart_clock()


def _open_tensorboard(run: RunDirectory, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(run.tensorboard), purge_step=step + 1)
