"""The state of all generators of random numbers of this process: of PyTorch and its devices, NumPy, and Python."""

from __future__ import annotations

import random
import sys
from typing import Any, NamedTuple

import torch


class RandomState(NamedTuple):
    """The state of the generators.

    of_devices  CUDA's, one a device; empty unless CUDA is in use
    of_numpy    None unless NumPy is imported
    """

    of_torch: torch.Tensor
    of_devices: tuple[torch.Tensor, ...]
    of_numpy: Any
    of_python: Any

    @classmethod
    def now(cls) -> RandomState:
        """Return the present state."""
        devices = tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call] # torch's own omission
        numpy = sys.modules.get("numpy")
        return cls(torch.get_rng_state(), devices, numpy.random.get_state() if numpy else None, random.getstate())

    def restore(self) -> None:
        """Set the generators to this state."""
        torch.set_rng_state(self.of_torch)
        if self.of_devices:
            torch.cuda.set_rng_state_all(list(self.of_devices))
        if self.of_numpy is not None:
            sys.modules["numpy"].random.set_state(self.of_numpy)
        random.setstate(self.of_python)


def seed_all(seed: int) -> None:
    """Seed every generator."""
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
    random.seed(seed)
