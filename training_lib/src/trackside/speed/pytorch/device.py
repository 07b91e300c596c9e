"""The device that a training computes on."""

from __future__ import annotations

import sys

import torch


def device_of_training() -> str:
    """Return "cpu", "cuda", "rocm" for AMD's GPUs, or "xla" for Trainium and TPU, as far as it is known by now."""
    if "torch_xla" in sys.modules:
        return "xla"
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call] # torch's own omission
        return "rocm" if torch.version.hip else "cuda"
    return "cpu"
