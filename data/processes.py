"""Many jobs on all cores, each done by a process of its own, with few jobs in memory at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import Any, TypeVar

from data.errors import DataError

Job = TypeVar("Job")

_function: Callable[[Any], object]  # in a worker process: what it does


def run_jobs(function: Callable[[Job], object], jobs: Iterable[Job], workers: int) -> Iterator[None]:
    """Do `function(job)` for every job, in any order, and yield once for each that is done.

    Jobs are drawn from their iterator as processes become free. A single job, or one worker, needs no process but this
    one. `function` is sent to each process once, jobs one by one: both must be picklable, and results are not returned.

    Raises whatever `function` raises; DataError when a process was killed, which is how systems end programs that take
    too much memory.
    """
    jobs = iter(jobs)
    first = list(islice(jobs, 2))
    everything = chain(first, jobs)
    if workers == 1 or len(first) < 2:
        for job in everything:
            function(job)
            yield
        return
    # spawn: a copy of this process would inherit its threads' locks, but not its threads
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers, context, _start_worker, (function, os.getpid()))
    try:
        yield from _run_ahead(executor, everything, 2 * workers)
    except BrokenProcessPool as error:
        raise DataError(
            f"one of the {workers} worker processes was killed, as happens when memory runs out: use fewer --workers",
            about_text=False,
        ) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _run_ahead(executor: ProcessPoolExecutor, jobs: Iterator[Any], n_ahead: int) -> Iterator[None]:
    """Keep `n_ahead` jobs waiting or running."""
    running: set[Future[None]] = set()
    for job in jobs:
        running.add(executor.submit(_work, job))
        if len(running) >= n_ahead:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from _results(done)
    yield from _results(running)


def _results(futures: Iterable[Future[None]]) -> Iterator[None]:
    for future in futures:
        future.result()
        yield


def _work(job: Any) -> None:
    _function(job)


def _start_worker(function: Callable[[Any], object], parent: int) -> None:
    global _function
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends its workers
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A parent that was killed cannot end its workers, and they would wait for jobs for ever."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
