"""The address of each training of this process: a hook that is made again, as by a notebook's cell, is a new run."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from trackside.capture.guard import Guard
from trackside.capture.session import absolute
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.script.capture import ScriptedCapture

_Earlier = weakref.ref[ScriptedCapture]  # no more than that: it holds the model


class _Trainings:
    by_address: dict[str, tuple[int, _Earlier]] = {}  # noqa: RUF012 - of the process: their number, and the newest


def new_training(run: str, make: Callable[[str], ScriptedCapture]) -> ScriptedCapture:
    """Return the capture of a hook, with a run of its own, and end the training that is open at its address.

    The first training lies where the hook names it, the second in `<run>-2`, and so on. Where the environment names
    the run, whoever set it decides.

    Args:
        run: The address that the hook names.
        make: Returns the capture that writes to an address.
    """
    if not run or CaptureEnvironment.read().run_uri:
        return make(run)
    before, earlier = _Trainings.by_address.get(absolute(run), (0, None))
    open_capture = earlier() if earlier is not None else None
    if open_capture is not None and open_capture.control is None and not open_capture.is_over:
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
