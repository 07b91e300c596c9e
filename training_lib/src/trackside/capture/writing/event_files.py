"""The event file of each step: consecutive small steps share one, in stores with files can grow.

smdebug gives each step a folder and a file of its own. For a step that saves a loss they cost more than the rest of
capture. An index may point to any event file and any place in it, and the original reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from trackside.capture.steps.step_tensors import StepTensors
from trackside.contracts.run_layout import EVENTS_PREFIX, event_key
from trackside.records.step_file import StepFiles
from trackside.storage.store import AppendableStore

MOST_STEP_BYTES = 1 << 10  # of values: what is larger pays for a file of its own easily
MOST_STEP_TENSORS = 8  # each step that shares a file has its tensors listed in the packed index
MOST_FILE_BYTES = 1 << 18
_MOST_SHARED_BYTES = 2 * MOST_FILE_BYTES  # no shared file is larger: the last step in it is small, names included


class EventFiles:
    """The choice of event files for one worker. It learns from `stored` and `failed`. For one thread."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._open: tuple[str, int] | None = None
        self._is_first: bool | None = None  # not known yet
        self._last_step = -1

    def place(self, store: AppendableStore, step: StepTensors) -> tuple[str, int] | None:
        """Return the event file to append the step to, and its length; None for a file of the step's own.

        Raises the errors of the store.
        """
        open_file = self.joint_place((step,))
        return open_file or self._left_by_others(store, step)

    def joint_place(self, steps: Sequence[StepTensors]) -> tuple[str, int] | None:
        """Return the file, and its length, to append all these steps to at once; None if they cannot share it.

        Append them in their order, as long as `has_room` is True.
        """
        open_file = self._open
        return open_file if open_file and self.has_room(open_file[1]) and all(map(_is_small, steps)) else None

    def has_own_file(self, store: AppendableStore, step: StepTensors) -> bool:
        """Return True if the step has an event file of its own. Raises the errors of the store."""
        return not _is_small(step) and self.place(store, step) is None

    def has_room(self, size: int) -> bool:
        """Return True if a small step may follow in a shared file of that length."""
        return size < MOST_FILE_BYTES

    def stored(self, step: StepTensors, files: StepFiles) -> None:
        """Note a step that has been stored."""
        end = files.event_start + files.event_size
        self._open = (files.event_key, end) if files.event_size and _is_small(step) else None

    def _left_by_others(self, store: AppendableStore, step: StepTensors) -> tuple[str, int] | None:
        if self._is_first is None:
            self._is_first = next(iter(store.list(EVENTS_PREFIX)), None) is None
        is_new = self._is_first and step.step > self._last_step
        self._last_step = max(self._last_step, step.step)
        return None if is_new else _found(store, event_key(step.step, self._worker))

    def failed(self) -> None:
        """Forget the open event file: storing a step failed, so its length is unknown."""
        self._open = None


def _is_small(step: StepTensors) -> bool:
    is_row = step.reduced or step.rows
    return not is_row and len(step.tensors) <= MOST_STEP_TENSORS and step.size_bytes <= MOST_STEP_BYTES


def _found(store: AppendableStore, key: str) -> tuple[str, int] | None:
    """Return the event file of that key and its length, if an earlier process left it and others may share it.

    The step is then appended: indexes of other steps point into the file, so it must not be replaced.
    """
    if not store.exists(key):
        return None
    size = len(store.get(key, length=_MOST_SHARED_BYTES + 1))
    return (key, size) if size <= _MOST_SHARED_BYTES else None
