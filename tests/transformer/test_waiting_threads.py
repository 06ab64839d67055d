"""How long PyTorch's threads wait awake is settled before PyTorch is loaded, when nothing could change it any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"))
            sys.meta_path.remove(self)

sys.meta_path.insert(0, Watch())
import {module}
"""


@pytest.mark.parametrize("module", ["train", "evaluate", "transformer.__main__", "transformer.inference.translator"])
@pytest.mark.parametrize("given", [None, "77"])
def test_waiting_is_short_unless_the_user_has_chosen(module: str, given: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    environment |= {} if given is None else {"GOMP_SPINCOUNT": given}
    command = [sys.executable, "-c", PROGRAM.format(module=module)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == f"{given or 1000}\n"
