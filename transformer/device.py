"""Where the network runs."""

from __future__ import annotations

import torch

from transformer.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """The device of a `device` setting: cuda, mps or cpu; auto takes the first of these that is there.

    Raises:
        ConfigError: the device named is not there.
    """
    available = [
        *(["cuda"] if torch.cuda.is_available() else []),
        *(["mps"] if torch.backends.mps.is_available() else []),
        "cpu",
    ]
    if name == "auto":
        return torch.device(available[0])
    if name not in available:
        build = f"PyTorch {torch.__version__}"
        raise ConfigError(
            f"device: {name} is demanded, but {build} sees only {' and '.join(available)} here; "
            "use auto, or install a PyTorch build for your device"
        )
    return torch.device(name)
