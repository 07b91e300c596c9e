"""Which event file a step goes to: small steps that follow on one another share one, where files can grow.

smdebug gives each step a folder and a file of its own. For a step that saves a loss they cost more than all else that
capture does, and an index may point to any event file and any place in it (docs/decisions/0010).
"""

from __future__ import annotations

from trackside.capture.writer import StepTensors
from trackside.contracts.run_layout import event_key
from trackside.records.step_file import StepFiles
from trackside.storage.store import AppendableStore

MOST_STEP_BYTES = 1 << 10  # of values: what is larger pays for a file of its own easily
MOST_STEP_TENSORS = 8  # each step that shares a file has its tensors listed in the packed index
MOST_FILE_BYTES = 1 << 18
_MOST_SHARED_BYTES = 2 * MOST_FILE_BYTES  # no shared file is larger: the last step in it is small, names included


class EventFiles:
    """Tells, before a step is encoded, where it goes, and is told what came of it. One worker, one thread."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._open: tuple[str, int] | None = None

    def place(self, store: AppendableStore, step: StepTensors) -> tuple[str, int] | None:
        """The event file that the step goes behind, and its length; None for a file of the step's own.

        Errors: those of the store.
        """
        if self._open is None or not _is_small(step) or self._open[1] >= MOST_FILE_BYTES:
            return _found(store, event_key(step.step, self._worker))
        return self._open

    def stored(self, step: StepTensors, files: StepFiles) -> None:
        """Notes a step that has been stored."""
        end = files.event_start + len(files.event_bytes)
        self._open = (files.event_key, end) if files.event_bytes and _is_small(step) else None

    def failed(self) -> None:
        """Says that storing a step failed, so that nobody knows how long its event file is."""
        self._open = None


def _is_small(step: StepTensors) -> bool:
    return len(step.tensors) <= MOST_STEP_TENSORS and step.size_bytes <= MOST_STEP_BYTES


def _found(store: AppendableStore, key: str) -> tuple[str, int] | None:
    """The event file of that key, left by an earlier process that saved this step too, if others may share it: then it
    is added to. Indexes of other steps would point into nothing if it were replaced."""
    if not store.exists(key):
        return None
    size = len(store.get(key, length=_MOST_SHARED_BYTES + 1))
    return (key, size) if size <= _MOST_SHARED_BYTES else None
