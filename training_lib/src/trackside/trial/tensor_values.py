"""Whole tensors of a run, and their shapes and types, fetched from the event files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import KeyNotFoundError, RecordError, TensorNotSavedError
from trackside.records.step_file import fetch_record
from trackside.storage.store import Store
from trackside.trial.completeness import Completeness
from trackside.trial.parallel import in_parallel
from trackside.trial.steps.membership import Membership
from trackside.trial.steps.record_reader import RecordReader, missing
from trackside.trial.steps.saved_step import SavedStep
from trackside.trial.steps.step_index import StepIndex
from trackside.trial.tensors.shards import Shards, joined
from trackside.trial.tensors.tensor_head import HEAD_BYTES, TensorHead, read_head
from trackside.trial.tensors.tensor_names import TensorNames
from trackside.trial.tensors.tensors import merged_ranges


class TensorValues:
    """The values of saved tensors. Each call fetches anew."""

    def __init__(
        self,
        store: Store,
        *,
        index: StepIndex,
        reader: RecordReader,
        names: TensorNames,
        membership: Membership,
        completeness: Completeness,
        report: Callable[[RecordError], None],
    ) -> None:
        self._store, self._index, self._reader, self._names = store, index, reader, names
        self._membership, self._completeness, self._report = membership, completeness, report
        self._shards = Shards(store, report=report)

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """Return the whole tensor.

        Raises:
            TensorNotSavedError: It was not saved at this step by this worker.
            RecordError: Its file cannot be read.
        """
        saved = self._index.saved_by(step, worker)
        if saved is None or tensor not in saved.layout.records:
            raise TensorNotSavedError(self._names.reason_not_saved(tensor, step=step, worker=worker))
        return self._reader.value(saved, tensor)

    def values(self, tensor: str, *, steps: Sequence[int], worker: str) -> list[NDArray[np.generic]]:
        """Return `value` at each of the steps; from S3 several at a time. The first error is raised."""
        return in_parallel(self._store, lambda step: self.value(tensor, step=step, worker=worker), steps)

    def is_sharded(self, tensor: str, *, workers: Sequence[str]) -> bool:
        """Return True if these workers saved parts of one tensor (FSDP), and not a tensor each."""
        if (self._membership.worker_count or 1) <= 1 or not workers:
            return False
        version = self._completeness.version
        return all(self._shards.of(tensor, worker=worker, version=version) is not None for worker in workers)

    def whole_value(self, tensor: str, *, step: int, workers: Sequence[str]) -> NDArray[np.generic]:
        """Return a sharded tensor, put together of its parts.

        Raises:
            ConfigurationError: A part is missing, or parts cannot be put together (partial sums).
            TensorNotSavedError: As `value`.
            RecordError: As `value`.
        """
        saved = self._index.saved(step)
        holders = [w for w in workers if w in saved and tensor in saved[w].layout.records] or workers[:1]
        version = self._completeness.version
        shards = [self._shards.of(tensor, worker=worker, version=version) for worker in holders]
        values = in_parallel(self._store, lambda worker: self.value(tensor, step=step, worker=worker), holders)
        return joined(tensor, [(s, v) for s, v in zip(shards, values, strict=True) if s is not None])

    def heads(self, wanted: Mapping[SavedStep, Sequence[str]]) -> dict[str, TensorHead]:
        """Return shape and type of each tensor in these steps, from the first bytes of its record.

        Those that cannot be read are left out. Records that lie close together cost one request.
        """
        pieces = [
            (saved, *piece) for saved, names in wanted.items() for piece in merged_ranges(_heads_of(saved, names))
        ]
        found = in_parallel(self._store, self._heads_in, pieces)
        return {name: head for heads in found for name, head in heads.items()}

    def _heads_in(self, piece: tuple[SavedStep, int, int, list[str]]) -> dict[str, TensorHead]:
        saved, start, end, names = piece
        try:
            data = self._store.get(saved.event_key, start=start, length=end - start)
        except KeyNotFoundError as error:
            self._report(missing(saved, error))
            return {}
        places = ((name, saved.layout.records[name][0] - start) for name in names)
        parts = ((name, data[place : place + HEAD_BYTES]) for name, place in places)
        heads = ((name, self._head(saved, name, part)) for name, part in parts)
        return {name: head for name, head in heads if head is not None}

    def _head(self, saved: SavedStep, name: str, data: bytes) -> TensorHead | None:
        key, (offset, length) = saved.event_key, saved.layout.records[name]
        try:
            head = read_head(data[:length], name=name, key=key, offset=offset)
            if head is None and length > len(data):  # a very long name
                data = fetch_record(self._store, key, start=offset, length=length)
                head = read_head(data, name=name, key=key, offset=offset)
            if head is None:
                raise RecordError(key, offset, f"the record of {name!r} ends before its shape.")
        except KeyNotFoundError as error:
            self._report(missing(saved, error))
            return None
        except RecordError as damage:
            self._report(damage)
            return None
        return head


def _heads_of(saved: SavedStep, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    records = saved.layout.records
    return {name: (records[name][0], min(records[name][1], HEAD_BYTES)) for name in names}
