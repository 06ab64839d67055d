"""Where and with what a measurement was made."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIBRARIES = ("torch", "sentencepiece", "sacrebleu", "sacremoses")


def machine_facts() -> dict[str, Any]:
    """Date, processor, system and the versions that figures depend on."""
    cpu_info = Path("/proc/cpuinfo")
    models = [line for line in cpu_info.read_text().splitlines() if "model name" in line] if cpu_info.exists() else []
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": models[0].partition(": ")[2] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "libraries": {library: version(library) for library in LIBRARIES},
    }
