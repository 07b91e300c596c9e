"""Runs that end before their training does: a rehearsal makes a few steps, and rules must not take these for all."""

from __future__ import annotations

from trackside.contracts.errors import ConfigurationError, StorageError
from trackside.contracts.run.check import ProcessReport
from trackside.contracts.run_layout import CHECK
from trackside.storage.store import Store


def is_cut(run: Store) -> bool:
    """Return True if `trackside check` has ended the script of this run."""
    try:
        return any(ProcessReport.from_json(run.get(key)).is_cut for key in run.list(f"{CHECK}/"))
    except (ConfigurationError, StorageError):
        return False
