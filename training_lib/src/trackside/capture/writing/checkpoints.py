"""The list of checkpoints that the script wrote, as a part of the writer thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from trackside.capture.steps.step_engine import Position
from trackside.capture.writing.retried_part import RetriedPart
from trackside.contracts.errors import RecordError
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run_layout import checkpoints_key
from trackside.records.checkpoints_file import MOST_CHECKPOINTS, encode_checkpoints, read_checkpoints
from trackside.storage.store import Store


class CheckpointsFile(RetriedPart):
    """Collects checkpoints and stores their list. Files that are gone again are left out.

    Args:
        open_store: Opens the store of the run's tensors.
        worker: Name of this worker.
        start: Returns the position to add to the numbers of steps.
        monotonic: Returns seconds.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        worker: str,
        start: Callable[[], Position],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(monotonic)
        self._open_store, self._worker, self._start = open_store, worker, start
        self._known: dict[str, Checkpoint] | None = None  # None: not read yet what an earlier process stored
        self._added: list[Checkpoint] = []

    def add(self, checkpoint: Checkpoint) -> None:
        """Add a checkpoint that was written. Called on the training thread."""
        self._added.append(checkpoint)

    @property
    def has_news(self) -> bool:
        """True if any checkpoints are to be stored; see `RetriedPart`."""
        return bool(self._added)

    def flush(self) -> None:
        """Store new checkpoints; see `BackgroundPart`."""
        if not self._added:
            return
        store, start = self._open_store(), self._start().step
        if self._known is None:
            self._known = self._stored(store)
        added, known = self._added[:], dict(self._known)
        for one in added:
            known.pop(one.path, None)  # written again, it is the newest
            known[one.path] = Checkpoint(one.step + start, one.path, one.has_model)
        present = [one for one in known.values() if "://" in one.path or os.path.exists(one.path)][-MOST_CHECKPOINTS:]
        store.put(checkpoints_key(self._worker), encode_checkpoints(present))
        self._known = {one.path: one for one in present}
        del self._added[: len(added)]

    def _stored(self, store: Store) -> dict[str, Checkpoint]:
        try:
            return {one.path: one for one in read_checkpoints(store, self._worker)}
        except RecordError:  # it was damaged before: its content is lost already
            return {}
