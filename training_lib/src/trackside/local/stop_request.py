"""Requests to stop a run on this machine: a file in its folder, which `trackside run` looks for."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.runs.run_folder import RunState, read_record, run_state

STOP_FILE = "stop-request.json"
MOST_BYTES, MOST_REASON = 4096, 200


def request_stop(uri: str, reason: str, *, now: Callable[[], float] = time.time) -> None:
    """Have `trackside run` stop a training as for a critical issue: SIGTERM, and SIGKILL after its grace.

    Args:
        uri: The location of the run.
        reason: Clause for the owner of the run.
        now: Returns seconds since the epoch.

    Raises:
        ConfigurationError: The run is not one that `trackside run` runs on this machine now.
    """
    folder = Path(uri)
    if "://" in uri or read_record(folder) is None or run_state(folder) is not RunState.RUNNING:
        what = "is no run that `trackside run` runs on this machine now."
        raise ConfigurationError([Problem(folder.name, what, "See its state: trackside runs")], subject="The stop")
    partial = folder / f"{STOP_FILE}.{os.getpid()}.partial"
    partial.write_text(json.dumps({"reason": reason[:MOST_REASON], "requested_at": now()}), encoding="utf-8")
    partial.replace(folder / STOP_FILE)


def requested_stop(folder: Path) -> str:
    """Return the reason of a request to stop; "" without one.

    Args:
        folder: The folder of the run.
    """
    try:
        with (folder / STOP_FILE).open("rb") as file:
            document = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError):
        return ""
    reason = document.get("reason") if isinstance(document, dict) else None
    return reason[:MOST_REASON] if isinstance(reason, str) and reason else "without a reason"


def forget_stop(folder: Path) -> None:
    """Remove the request of an earlier part of a run.

    Args:
        folder: The folder of the run.
    """
    (folder / STOP_FILE).unlink(missing_ok=True)
