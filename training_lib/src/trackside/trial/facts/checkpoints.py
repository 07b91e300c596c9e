"""The reader of the list of checkpoints that a run's script wrote: see `records.checkpoints_file`."""

from __future__ import annotations

from collections.abc import Callable

from trackside.contracts.errors import RecordError
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.records.checkpoints_file import checkpoint_workers, read_checkpoints
from trackside.storage.store import Store


class CheckpointsReader:
    """The checkpoints of a run, of all workers. Each request costs one LIST, and one GET for a worker that has any."""

    def __init__(self, store: Store, *, report: Callable[[RecordError], None]) -> None:
        self._store, self._report = store, report

    def all(self) -> tuple[Checkpoint, ...]:
        """Return all checkpoints that are known now.

        Raises:
            StorageError: The store failed.
        """
        found: list[Checkpoint] = []
        for worker in checkpoint_workers(self._store):
            try:
                found.extend(read_checkpoints(self._store, worker))
            except RecordError as error:
                self._report(error)
        return tuple(found)
