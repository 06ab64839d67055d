"""Processes that train together agree: sums, messages, gradients; where one ends, the others are told."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

from transformer.training.group import ALONE, training_group

ROOT = Path(__file__).resolve().parents[3]


def launch(tmp_path: Path, size: int, body: str) -> subprocess.CompletedProcess[str]:
    """Run `body` in so many processes of torchrun; `group`, `torch` and `nn` are there."""
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "import os, torch\nfrom torch import nn\nfrom transformer.errors import RunError\n"
        "from transformer.training.group import training_group\n"
        "with training_group('cpu') as group:\n" + textwrap.indent(textwrap.dedent(body), "    ")
    )
    # The launcher ends the others once it sees that one has failed; before, they are to say what they have to.
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--monitor-interval=3"]
    command = [*launcher, f"--nproc-per-node={size}", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


def test_one_process_is_a_group_of_itself() -> None:
    assert ALONE.is_first
    assert ALONE.gather({"a": 1}) == [{"a": 1}]
    assert ALONE.share("x") == "x"
    assert ALONE.sum(torch.tensor([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_a_parameter_that_took_no_part_gets_the_gradient_zero_and_a_frozen_one_none() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    network[2].requires_grad_(False)
    network[0](torch.ones(1, 2)).sum().backward()
    before = network[0].weight.grad.clone()
    ALONE.sum_gradients(network)
    assert torch.equal(network[0].weight.grad, before)
    assert network[1].weight.grad.eq(0).all()
    assert network[2].weight.grad is None


def test_variables_that_are_not_torchruns_make_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some schedulers set WORLD_SIZE for programs of their own."""
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.delenv("RANK", raising=False)
    with training_group("cpu") as group:
        assert group is ALONE


def test_three_processes_agree(tmp_path: Path) -> None:
    done = launch(
        tmp_path,
        3,
        """
        r = group.rank
        assert (group.size, group.is_first) == (3, r == 0)
        assert group.sum(torch.tensor([r, 1])).tolist() == [3, 3]
        values = ["", {"ä": [1.5, None]}, "x" * 1000]
        assert group.gather(values[r]) == values
        assert group.share({"from": r}) == {"from": 0}
        network = nn.Sequential(nn.Linear(300, 70, bias=False), nn.Linear(70, 3), nn.Linear(3, 3))
        network[2].requires_grad_(False)
        for parameter in network[:2].parameters():
            parameter.grad = torch.full_like(parameter, float(r + 1))
        network[1].bias.grad = None if r == 1 else torch.ones(3)
        group.sum_gradients(network)
        assert network[0].weight.grad.eq(6).all() and network[1].weight.grad.eq(6).all()
        assert network[1].bias.grad.tolist() == [2.0, 2.0, 2.0]
        assert network[2].weight.grad is None
        os.write(1, f"agreed {r} ".encode())  # in one piece: the others write into the same pipe
        """,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted(["agreed", "0", "agreed", "1", "agreed", "2"])


def test_who_waits_for_one_that_has_ended_is_told(tmp_path: Path) -> None:
    done = launch(
        tmp_path,
        2,
        """
        group.share(None)
        if group.rank == 1:
            os._exit(7)
        try:
            group.sum(torch.ones(1))
        except RunError as error:
            print("told:", error, flush=True)
            sys.exit(1)
        """,
    )
    assert done.returncode != 0
    assert "told: another process of this run has ended" in done.stdout


def test_a_process_that_cannot_join_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from transformer.training.group import training_group\n"
        "from transformer.errors import RunError\n"
        "try:\n    with training_group('cpu'): pass\nexcept RunError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "not a port"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert "process 0 of 2 cannot join the others at 127.0.0.1:not a port" in done.stdout, done.stderr
