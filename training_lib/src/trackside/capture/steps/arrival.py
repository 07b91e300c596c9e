"""Values that are still on their way from a device when their step is handed on."""

from __future__ import annotations

from typing import Protocol


class Arrival(Protocol):
    """The moment at which the arrays of some tensors hold their values."""

    def is_here(self) -> bool:
        """Return True if they hold their values now. Never waits."""

    def wait(self) -> None:
        """Wait until they hold their values, without holding the interpreter lock.

        Raises:
            RuntimeError: The device has failed.
        """
