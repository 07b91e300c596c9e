"""The capture in charge of this process: one that needs no change of the script, or one that the script makes.

A process writes one run. Adapters that attach themselves register here, one for each framework that the script imports,
and the first one that begins a run keeps it. All of them leave once the script begins a capture of its own. None
attaches itself while that lasts.
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
    adapters: tuple[Automatic, ...] = ()
    is_script = False


def attached() -> Automatic | None:
    """Return the adapter that has begun, or else the first one that has attached itself; None without any."""
    return next((each for each in _InCharge.adapters if each.has_begun), next(iter(_InCharge.adapters), None))


def is_free() -> bool:
    """Return True if an adapter may attach itself, or begin: neither the script nor another adapter has a run."""
    return not _InCharge.is_script and not any(each.has_begun for each in _InCharge.adapters)


def is_others(adapter: object) -> bool:
    """Return True if another adapter than this one has the run of this process."""
    begun = next((each for each in _InCharge.adapters if each.has_begun), None)
    return begun is not None and begun is not adapter


def attach(adapter: Automatic) -> None:
    """Register an adapter that has attached itself."""
    _InCharge.adapters = (*_InCharge.adapters, adapter)


def put_script_in_charge() -> bool:
    """Put the script in charge, and remove attached adapters. Return False if one of them has begun, and stays."""
    if any(each.has_begun for each in _InCharge.adapters):
        return False
    for adapter in _InCharge.adapters:
        adapter.uninstall()
    _InCharge.adapters, _InCharge.is_script = (), True
    return True


def leave() -> None:
    """End the charge of the script or of the adapters."""
    _InCharge.adapters, _InCharge.is_script = (), False
