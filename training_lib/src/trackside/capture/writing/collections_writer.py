"""Write the collections file of one worker: which tensors each collection has, and how they are saved."""

from __future__ import annotations

from collections.abc import Mapping

from trackside.capture.steps.collection import NON_REDUCTION, Membership
from trackside.capture.steps.step_tensors import StepTensors
from trackside.contracts import run_layout
from trackside.contracts.capture_request import MODES, CollectionRequest
from trackside.records.collections_file import CollectionRecord, ReductionRecord, encode_collections
from trackside.records.shards import Shard
from trackside.storage.store import Store

_NO_COLLECTIONS: frozenset[str] = frozenset()


class CollectionsWriter:
    """The members of all collections so far, and the file that lists them.

    Attributes:
        has_news: A stored step brought a name that the file lacks.
        times_stored: The number of times that the file was stored.
    """

    def __init__(self, worker: str, membership: Membership, *, num_workers: int, shards: Mapping[str, Shard]) -> None:
        self._worker, self._membership, self._num_workers, self._shards = worker, membership, num_workers, shards
        self._members: dict[str, frozenset[str]] = {}
        self.has_news = False
        self.times_stored = 0

    def note(self, step: StepTensors, *, others: Mapping[str, frozenset[str]]) -> None:
        """Add new names of a stored step, and the collections that only an adapter knows them to be in.

        Args:
            step: The step.
            others: Names of its reductions and of tensors in rows, with the collections that an adapter knows.
        """
        for name, _ in step.tensors:
            collections = step.collections.get(name, _NO_COLLECTIONS)
            known = self._members.get(name)
            if known is None or not collections <= known:
                self._members[name] = (known or self._membership.of(name)) | collections
                self.has_news = True
        for name, collections in others.items():
            if name not in self._members:
                self._members[name] = self._membership.of(name) | collections
                self.has_news = True

    def store(self, store: Store) -> None:
        """Store the file if it is missing or lacks a name. It raises the `OSError` of the store."""
        if self.has_news or not self.times_stored:
            store.put(run_layout.collections_key(self._worker), self._encoded())
            self.has_news = False
            self.times_stored += 1

    def _encoded(self) -> bytes:
        names_of: dict[str, list[str]] = {name: [] for name in self._membership.regexes}
        for tensor_name, collections in self._members.items():
            for collection in collections:
                names_of.setdefault(collection, []).append(tensor_name)
        records = [self._record(name, tuple(tensor_names)) for name, tensor_names in names_of.items()]
        shards = {name: shard for name, shard in tuple(self._shards.items()) if name in self._members}
        return encode_collections(records, num_workers=self._num_workers, shards=shards)

    def _record(self, name: str, tensor_names: tuple[str, ...]) -> CollectionRecord:
        request = self._membership.requested.get(name)
        is_reduced = name not in NON_REDUCTION
        return CollectionRecord(
            name=name,
            include_regex=self._membership.regexes.get(name, ()),
            tensor_names=tensor_names,
            schedules={mode: request.schedule_for(mode) for mode in MODES} if request else None,
            reduction=_reduction_record(request, is_reduced=is_reduced) if request else None,
            save_histogram=is_reduced and (request is None or request.save_histogram),
        )


def _reduction_record(request: CollectionRequest, *, is_reduced: bool) -> ReductionRecord:
    if not is_reduced:
        return ReductionRecord(save_raw_tensor=True)
    return ReductionRecord(request.saves_raw_tensor, request.reductions, request.save_shape)
