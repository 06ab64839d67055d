"""What other processes take is seen, and what the measured one does is not counted."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.others import Others, busy_ticks, process_ticks

ON_LINUX = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="there is no /proc")


@ON_LINUX
def test_another_process_that_computes_is_noticed() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        others = Others(os.getpid())
        time.sleep(1)
        cores = others.cores()
        other.kill()
    assert cores > 0.2  # of a busy machine, its share


@ON_LINUX
def test_the_work_of_the_process_itself_is_counted_as_the_system_does() -> None:
    stat = Path(f"/proc/{os.getpid()}/stat")
    before, spent = process_ticks(stat.read_text()), time.process_time()
    while time.process_time() < spent + 0.5:
        pass
    ticks = process_ticks(stat.read_text()) - before
    assert ticks / os.sysconf("SC_CLK_TCK") == pytest.approx(0.5, abs=0.1)


def test_idle_time_and_waiting_for_disks_is_not_busy_but_stolen_time_is() -> None:
    assert busy_ticks("cpu  1 20 300 4000 50000 600000 7000000 80000000 0 0\ncpu0 1 2 3\n") == 87600321


def test_a_name_with_blanks_and_brackets_does_not_shift_the_fields() -> None:
    assert process_ticks("12 (a ) b) R 1 1 1 0 -1 4 124 0 0 0 70 8 0 0 20 0") == 78
