"""The report of a process at its end that `trackside run` started, and that captured nothing."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from trackside.contracts.run.uncaptured import UncapturedProcess
from trackside.contracts.run_layout import uncaptured_key
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared import in_charge
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store

STARTED_BY = "trackside-run"  # only it reads the report


def report(frameworks: tuple[str, ...]) -> None:
    """Store the report in the run, unless something was captured. Errors: those of the store.

    Args:
        frameworks: Names of the known frameworks that the process has imported.
    """
    environment = CaptureEnvironment.read()
    adapter = in_charge.attached()
    if environment.ended_by != STARTED_BY or not environment.run_uri or (adapter is None and "torch" in frameworks):
        return
    if adapter is not None and adapter.has_begun:
        return
    store = open_store(environment.run_uri)
    if not isinstance(store, LocalStore):
        return
    signs = adapter.signs() if adapter is not None else UncapturedProcess()
    error = getattr(sys, "last_type", None)  # as Python leaves it after a traceback
    found = replace(
        signs,
        program=sys.argv[0] if sys.argv else "",
        frameworks=frameworks,
        error=error.__name__ if error is not None else "",
    )
    store.put(uncaptured_key(os.getpid()), found.to_json().encode())
