"""The capture in charge of this process: one that needs no change of the script, or one that the script makes.

A process writes one run. Adapters that attach themselves register here, one for each framework that the script imports,
and the first one that begins a run keeps it. All of them leave once the script begins a capture of its own. None
attaches itself while that lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from trackside.contracts.run.uncaptured import UncapturedProcess
from trackside.environment import CaptureEnvironment


class Automatic(Protocol):
    """An adapter that needs no change of the script."""

    @property
    def has_begun(self) -> bool:
        """True once its run has begun."""

    def install(self) -> None:
        """Listen to the framework."""

    def uninstall(self) -> None:
        """Leave the framework as it was."""

    def signs(self) -> UncapturedProcess:
        """Return the signs of training before the first step."""


class _InCharge:
    adapters: tuple[Automatic, ...] = ()
    is_script = False


def attached() -> Automatic | None:
    """Return the adapter that has begun, else one with signs of training, else the first one; None without any.

    A script may import several frameworks and train with the last one.
    """
    nothing = UncapturedProcess()
    return max(_InCharge.adapters, key=lambda each: (each.has_begun, each.signs() != nothing), default=None)


def is_scripts() -> bool:
    """Return True if the script makes a capture of its own."""
    return _InCharge.is_script


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


def attach_new(make: Callable[[CaptureEnvironment], Automatic]) -> None:
    """Make, install and register an adapter, if the environment names a run and it is free."""
    environment = CaptureEnvironment.read()
    if environment.run_uri and is_free():
        adapter = make(environment)
        adapter.install()
        attach(adapter)


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
