"""Which parts of our network and search the time goes to.

    python -m benchmarks.decoding_peers.own_profile FOLDER        FOLDER: a task, see benchmarks.decoding_peers.task

One process, one thread. Up to a thousand times a second the functions that the program is in are looked at, so
that nothing in the library has to be changed for it; only how the library calls its parts is known here. A second pass
through torch.profiler tells how much of the time is spent outside of PyTorch's operations. Prints a line of JSON.
"""

from __future__ import annotations

import json
import linecache
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import torch

from benchmarks.decoding_peers.ours import forced
from benchmarks.decoding_peers.task import Task
from transformer.inference.translator import Translator

INTERVAL = 0.001  # seconds
LIBRARY = str(Path(__file__).resolve().parents[2])
# A place is "file: function: line of text"; of the places in our library that a program is in, from the innermost to
# the outermost, the first that a pattern is found in decides.
PARTS = {
    "cache": r"^cache\.py",
    "top-k": r"^best\.py",
    "log-sum-exp, masks": r"^beam_search\.py: expand",
    "norms, residuals": r": Residual\.",
    "embedding": r"^embeddings\.py",
    "self-attention": r"^decoder\.py: .*\bself_attention\(",
    "cross-attention": r"^decoder\.py: .*\bcross_attention\b",
    "feed-forward": r"^decoder\.py: .*\bfeed_forward\(",
    "projection": r": Transformer\.project:",
    "search": r"^(beam_search|batch_search|search_state|restrictions|length_penalty|cached_step)\.py",
    "text": r"^vocabulary\.py",
}
PATTERNS = {part: re.compile(pattern) for part, pattern in PARTS.items()}
Place = tuple[str, str, int]  # file, function, line


class Sampler:
    """Seconds that the main thread spends in places of our library, while it is entered.

    A look can only be taken between two operations of Python, so a long product is looked at once, when it is over: the
    time since the look before counts for it.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[Place, ...], float] = defaultdict(float)

    def __enter__(self) -> Sampler:
        signal.signal(signal.SIGALRM, self._look)
        self.last = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, INTERVAL)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)

    def _look(self, _: int, frame: FrameType | None) -> None:
        places = []
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(LIBRARY) and frame.f_lineno:
                places.append((code.co_filename, code.co_qualname, frame.f_lineno))
            frame = frame.f_back
        now = time.perf_counter()
        self.found[tuple(places)] += now - self.last
        self.last = now
        signal.setitimer(signal.ITIMER_REAL, INTERVAL)  # only now, so that no look interrupts another

    def shares(self) -> dict[str, float]:
        """Of the time, by parts, the greatest first."""
        parts: dict[str, float] = defaultdict(float)
        for places, seconds in self.found.items():
            parts[part_of(places)] += seconds / sum(self.found.values())
        return dict(sorted(parts.items(), key=lambda part: -part[1]))


def part_of(places: Sequence[Place]) -> str:
    """The part that a program is in which is in these places."""
    texts = [f"{Path(file).name}: {function}: {linecache.getline(file, n).strip()}" for file, function, n in places]
    if any(text.startswith("encoder.py") for text in texts):  # of whose parts the names are those of the decoder's
        return "encoder"
    return next((part for text in texts for part, pattern in PATTERNS.items() if pattern.search(text)), "other")


def main() -> None:
    """Warm up, sample, profile."""
    torch.set_num_threads(1)
    task = Task.load(Path(sys.argv[1]))
    translator = Translator.load(task.folder / "model", device="cpu", workers=1, **forced(task))

    def translate(step: int) -> float:
        begin = time.perf_counter()
        list(translator.translations(task.lines[::step]))
        return time.perf_counter() - begin

    translate(8)
    with Sampler() as sampler:
        seconds = translate(1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        profiled_seconds = translate(8)
    in_operations: float = sum(event.self_cpu_time_total for event in profile.key_averages()) / 1e6
    outside = 1 - in_operations / profiled_seconds
    print(json.dumps({"seconds": seconds, "shares": sampler.shares(), "outside_operations": outside}))


if __name__ == "__main__":
    main()
