"""What other processes take of the machine while something is measured on it."""

from __future__ import annotations

import os
import time
from pathlib import Path

_PROC = Path("/proc")
_LOOK_SECONDS = 0.5


class Others:
    """The processor time of everything but one process, counted from here on. Where there is no /proc it is nothing."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.begin, self.spent = time.perf_counter(), self._seconds()

    def cores(self) -> float:
        """How many cores they have kept busy on the mean."""
        return max(0.0, self._seconds() - self.spent) / (time.perf_counter() - self.begin)

    def _seconds(self) -> float:
        try:
            machine = (_PROC / "stat").read_text(encoding="utf-8")
            process = (_PROC / str(self.pid) / "stat").read_text(encoding="utf-8")
        except OSError:
            return 0.0
        return (busy_ticks(machine) - process_ticks(process)) / os.sysconf("SC_CLK_TCK")


def busy_ticks(text: str) -> int:
    """Of /proc/stat: all but idle and waiting for disks, with what other virtual machines took."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, text.split("\n")[0].split()[1:9])
    return user + nice + system + irq + softirq + steal


def process_ticks(text: str) -> int:
    """Of /proc/PID/stat: all its threads, user and system. Its name, in brackets, may hold blanks."""
    fields = text.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def wait_until_quiet(pid: int, cores: float, patience_seconds: float) -> None:
    """Until others keep fewer than `cores` busy, or patience is at an end."""
    end = time.perf_counter() + patience_seconds
    while True:
        others = Others(pid)
        time.sleep(_LOOK_SECONDS)
        if others.cores() < cores or time.perf_counter() > end:
            return
