"""The scripts of the repository, run as users run them, in a folder of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformer.errors import RunError

ROOT = Path(__file__).resolve().parent.parent


class Work:
    """The folder where the scripts run, and what they took for a recipe, remembered from one start to the next."""

    def __init__(self, path: Path, recipe: str) -> None:
        self.path = path
        self.notes = path / f"peak_memory-{recipe}.json"
        path.mkdir(parents=True, exist_ok=True)

    def run(self, script: str, arguments: Sequence[str]) -> float:
        """Run a script of the repository as a user would; returns seconds.

        Raises:
            RunError: it failed; its own message is on the screen.
        """
        begin = time.perf_counter()
        process = subprocess.Popen([sys.executable, str(ROOT / f"{script}.py"), *arguments], cwd=self.path)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except KeyboardInterrupt:  # the script got it too, and may be saving
            process.wait()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RunError(f"{script}.py ended with exit code {process.returncode}; run this again to go on from there")
        unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
        memory = self._peak_memory()
        # A finished run that is started again does little: its peak is that of the start that did the work.
        memory[script] = max(memory.get(script, 0), usage.ru_maxrss * unit / 2**30)
        self.notes.write_text(json.dumps(memory))
        return time.perf_counter() - begin

    def facts(self) -> dict[str, Any]:
        """Peak memory of each script, in GiB."""
        return {f"{script}_peak_memory_gib": round(gib, 2) for script, gib in self._peak_memory().items()}

    def _peak_memory(self) -> dict[str, float]:
        return dict(json.loads(self.notes.read_text())) if self.notes.exists() else {}
