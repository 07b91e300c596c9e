"""The address of each training of this process: what is made again, as by a notebook's cell, is a new run."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar

from trackside.capture.ground.guard import Guard
from trackside.capture.session import absolute
from trackside.environment import CaptureEnvironment


class Capture(Protocol):
    """A capture that the script has made."""

    @property
    def has_begun(self) -> bool:
        """True from the first data on."""

    @property
    def is_over(self) -> bool:
        """True once it has ended."""

    def abandon(self) -> None:
        """End it before it has begun: nothing was written."""

    def close(self) -> None:
        """End its run."""


C = TypeVar("C", bound=Capture)
_Earlier = weakref.ref[Capture]  # no more than that: it may hold the model


class _Trainings:
    by_address: dict[str, tuple[int, _Earlier]] = {}  # noqa: RUF012 - of the process: their number, and the newest


def new_training(run: str, make: Callable[[str], C]) -> C:
    """Return a capture of the script, with a run of its own, and end the training that is open at its address.

    The first training lies where the script names it, the second in `<run>-2`, and so on. Where the environment names
    the run, or says that somebody else ends it, whoever set it decides.

    Args:
        run: The address that the script names.
        make: Returns the capture that writes to an address.
    """
    environment = CaptureEnvironment.read()
    if not run or environment.run_uri or environment.ended_by:
        return make(run)
    before, earlier = _Trainings.by_address.get(absolute(run), (0, None))
    open_capture = earlier() if earlier is not None else None
    if open_capture is not None and not open_capture.has_begun and not open_capture.is_over:
        open_capture.abandon()  # made twice before any training
        before -= 1
    elif open_capture is not None:
        open_capture.close()
    address = f"{run}-{before + 1}" if before else run
    capture = make(address)
    if before:
        message = "%s holds an earlier training of this process; this one lies in %s."
        Guard().warn_once("another training", message, run, address)
    _Trainings.by_address[absolute(run)] = before + 1, weakref.ref(capture)
    return capture
