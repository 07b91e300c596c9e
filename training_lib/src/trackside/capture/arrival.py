"""Values that are still on their way from a device when their step is handed on."""

from __future__ import annotations

from typing import Protocol


class Arrival(Protocol):
    """Says when the arrays of some tensors hold their values."""

    def is_here(self) -> bool:
        """True if they do. Never waits."""

    def wait(self) -> None:
        """Waits until they do, without holding the interpreter. Errors: `RuntimeError` where the device has failed."""
