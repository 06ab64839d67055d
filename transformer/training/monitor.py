"""What a run shows: the progress bar, a JSON line per log interval, and TensorBoard if it is installed."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import asdict
from typing import Any

import torch
from tqdm import tqdm

from transformer.training.group import ALONE, Group
from transformer.training.memory import peak_memory
from transformer.training.progress import Progress
from transformer.training.run_directory import RunDirectory
from transformer.training.update import UpdateResult
from transformer.training.validation import Validation, perplexity


class DivergenceError(Exception):
    """The loss or the gradient of an update was no finite number."""

    def __init__(self, step: int, result: UpdateResult, what: str) -> None:
        super().__init__(f"step {step} ({what})")
        self.step, self.part, self.update, self.what = step, result.part, result.update, what


class Monitor:
    """Collects updates and reports their averages every `log_every` steps; only the first process writes."""

    def __init__(
        self, run: RunDirectory, progress: Progress, max_steps: int, part: str = "epoch", group: Group = ALONE
    ) -> None:
        self.run, self.group = run, group
        self.part = part  # what progress.epoch counts: epochs, or stages of data.mixing
        self.live = sys.stderr.isatty()  # in a file, a bar every tenth of a second would be all there is to read
        self.bar = tqdm(
            total=max_steps,
            initial=progress.step,
            unit="step",
            dynamic_ncols=True,
            smoothing=0,  # the average of all, so that the time left counts validations and saving, too
            mininterval=0.1 if self.live else 30,
            disable=not group.is_first,
        )
        self.bar.set_description(f"{part} {progress.epoch + 1}")
        self.board = _open_tensorboard(run, progress.step) if group.is_first else None
        self.device = torch.device("cpu")  # that of the updates, once there are any
        self.n_timed, self.seconds = 0, 0.0  # tokens and time of updates that `read` has noted since the last line
        self._restart()

    def add(self, result: UpdateResult) -> None:
        """Count one update; does not wait for the device."""
        self.results.append(result)
        self.bar.update()

    def read(self, progress: Progress, *, scaled: bool = False) -> None:
        """Wait for the device, and note what the updates since the last call have found, for `log` to report.

        Every process must call this. `scaled`: the loss is scaled for fp16, where a gradient that is too large now and
        then is no fault.

        Raises:
            DivergenceError: a loss or gradient is not a finite number.
        """
        results, begin = self.results, self.begin
        tensors = torch.stack([torch.stack([r.nll, r.smoothed, r.grad_norm]) for r in results])
        self.device = tensors.device
        rows = tensors.to("cpu", torch.float64)
        self.seconds += time.perf_counter() - begin  # only now has the device done all of it
        self.n_timed += sum(r.n_tokens for r in results)
        positions = torch.tensor([[r.n_real, r.n_padded] for r in results], dtype=torch.float64)
        sums = self.group.sum(torch.cat([rows[:, :2], positions], dim=1)).tolist()  # of all processes
        self._restart()
        for number, (result, (nll, smoothed, n_real, n_padded), norm) in enumerate(
            zip(results, sums, rows[:, 2].tolist(), strict=True), 1
        ):
            if not math.isfinite(nll + smoothed) or not (scaled or math.isfinite(norm)):
                step = progress.step - len(results) + number
                raise DivergenceError(step, result, f"loss {smoothed}, gradient norm {norm}")
            progress.unlogged.append([nll, smoothed, norm, result.n_tokens, n_real, n_padded])

    def log(self, progress: Progress, lr: float, *, scaled: bool = False) -> None:
        """Report the updates since the last line; as `read`, which it does first."""
        self.read(progress, scaled=scaled)
        nll, smoothed, norm, n_tokens, n_real, n_padded = zip(*progress.unlogged, strict=True)
        nll_per_token, smoothed_per_token = sum(nll) / sum(n_tokens), sum(smoothed) / sum(n_tokens)
        speed = self.n_timed / self.seconds
        self._write(
            {
                "step": progress.step,
                self.part: progress.epoch,
                "lr": lr,
                "nll_per_token": nll_per_token,
                "perplexity": perplexity(nll_per_token),
                "smoothed_loss_per_token": smoothed_per_token,
                "grad_norm": sum(norm) / len(norm),
                "n_tokens": progress.n_tokens,
                "tokens_per_second": speed,
                "padding_share": 1 - sum(n_real) / sum(n_padded),
                "memory_gib": peak_memory(self.device) / 2**30,  # of this process
                "seconds": progress.seconds,
            }
        )
        self.bar.set_description(f"{self.part} {progress.epoch + 1}", refresh=False)
        self.bar.set_postfix_str(
            f"loss {smoothed_per_token:.3f}, ppl {perplexity(nll_per_token):.2f}, lr {lr:.2e}, {speed:,.0f} tok/s",
            refresh=self.live,
        )
        progress.unlogged.clear()
        self.n_timed, self.seconds = 0, 0.0

    def rewind(self, progress: Progress) -> None:
        """Forget the updates after a checkpoint that the run has gone back to."""
        if self.group.is_first:
            self.run.forget_metrics_after(progress.step)
            self.bar.n = progress.step
            self.bar.refresh()
        self._restart()

    def log_validation(self, validation: Validation, best: bool) -> None:
        """Report a validation."""
        values = asdict(validation)
        self._write(
            {"step": values.pop("step")}
            | {f"valid_{name}": value for name, value in values.items() if value is not None}
            | {"valid_perplexity": validation.perplexity}
        )
        self.say(
            f"step {validation.step}: validation perplexity {validation.perplexity:.3f}, "
            f"BLEU {validation.bleu:.2f}, chrF {validation.chrf:.2f}{' (best so far)' if best else ''}"
        )

    def restart_clock(self) -> None:
        """Speed is that of training: call this after validation and saving, to leave their time out."""
        self.begin = time.perf_counter()

    def say(self, message: str) -> None:
        """Print a line above the bar."""
        if self.group.is_first:
            self.bar.write(message, file=self.bar.fp)

    def close(self) -> None:
        """Finish bar and files."""
        self.bar.close()
        if self.board is not None:
            self.board.close()

    def _write(self, values: dict[str, Any]) -> None:
        if self.group.is_first:
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
