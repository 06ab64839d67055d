"""In which type products are computed."""

from __future__ import annotations

import torch
from torch import Tensor


def product_type(x: Tensor) -> torch.dtype:
    """The type in which a product of x is computed: that of autocast where it is on."""
    return torch.get_autocast_dtype(x.device.type) if is_autocasting(x) else x.dtype


def is_autocasting(x: Tensor) -> bool:
    """Whether autocast is on for the device of x."""
    device = x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
