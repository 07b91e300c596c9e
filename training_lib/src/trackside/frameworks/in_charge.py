"""The capture in charge of this process: one that needs no change of the script, or one that the script makes.

A process writes one run. An adapter that attaches itself registers here, and leaves once the script begins a capture of
its own. None attaches itself while that lasts.
"""

from __future__ import annotations

from typing import Protocol

from trackside.contracts.uncaptured import UncapturedProcess


class Automatic(Protocol):
    """An adapter that needs no change of the script."""

    @property
    def has_begun(self) -> bool:
        """True once its run has begun."""

    def uninstall(self) -> None:
        """Leave the framework as it was."""

    def signs(self) -> UncapturedProcess:
        """Return the signs of training before the first step."""


class _InCharge:
    adapter: Automatic | None = None
    is_script = False


def attached() -> Automatic | None:
    """Return the adapter that has attached itself; None if the script is in charge, or no adapter is."""
    return _InCharge.adapter


def is_free() -> bool:
    """Return True if an adapter may attach itself."""
    return _InCharge.adapter is None and not _InCharge.is_script


def attach(adapter: Automatic) -> None:
    """Register an adapter that has attached itself."""
    _InCharge.adapter = adapter


def put_script_in_charge() -> bool:
    """Put the script in charge, and remove the attached adapter. Return False if that one has begun, and stays."""
    adapter = _InCharge.adapter
    if adapter is not None:
        if adapter.has_begun:
            return False
        adapter.uninstall()
    _InCharge.adapter, _InCharge.is_script = None, True
    return True


def leave() -> None:
    """End the charge of the script or of the adapter."""
    _InCharge.adapter, _InCharge.is_script = None, False
