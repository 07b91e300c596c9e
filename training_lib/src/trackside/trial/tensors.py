"""Statistics of saved tensors as columns over steps: each tensor is fetched and decoded once, its numbers are kept."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.records.tfevents import decode_record
from trackside.storage.store import Store
from trackside.trial.statistics import STATISTICS, summarise
from trackside.trial.step_index import SavedStep, StepIndex, in_parallel
from trackside.trial.window import Column

READ_AHEAD_STEPS = 64
MERGE_GAP_BYTES = 16 << 10  # a second request costs more than these bytes
MOST_BYTES_AT_ONCE = 8 << 20
SMALL_RECORD_BYTES = 64 << 10  # a record up to this size is fetched with its neighbours, before a rule asks for it
MOST_SUMMARIES_AHEAD = 100_000

_POSITION = {name: position for position, name in enumerate(STATISTICS)}

Summary = tuple[float, ...]
Wanted = tuple[SavedStep, list[str]]


def read_value(store: Store, saved: SavedStep, tensor: str) -> NDArray[np.generic]:
    """The whole tensor, fetched anew. The step must hold it.

    Errors: `KeyNotFoundError` where the index came before its event file; `RecordError` for a damaged one.
    """
    start, length = saved.layout.records[tensor]
    data = store.get(saved.event_key, start=start, length=length)
    return decode_record(data, key=saved.event_key, offset=start).value


class Table:
    """All statistics of one tensor of one worker in one mode: a row for each step, ascending.

    Columns are views that later rows do not change.
    """

    def __init__(self, tensor: str, worker: str) -> None:
        self.tensor, self.worker = tensor, worker
        self._order: list[int] = []  # the same as `_steps`: bisect on a list is faster than on an array
        self._steps = np.empty(16, np.int64)
        self._rows = np.empty((16, len(STATISTICS)))

    def add(self, step: int, summary: Summary) -> None:
        """Adds a row: at the end, or, when a late worker brings an older step, in its place."""
        if self._order and step < self._order[-1]:
            self._insert(step, summary)
            return
        count = len(self._order)
        if count == len(self._steps):
            self._steps = np.concatenate((self._steps, np.empty_like(self._steps)))
            self._rows = np.concatenate((self._rows, np.empty_like(self._rows)))
        self._steps[count] = step
        self._rows[count] = summary
        self._order.append(step)

    def column(self, position: int, *, last_step: int) -> Column | None:
        """The statistic at `position` over the steps up to `last_step`, or None where there are none."""
        count = bisect.bisect_right(self._order, last_step)
        if not count:
            return None
        steps, values = self._steps[:count], self._rows[:count, position]
        steps.flags.writeable = values.flags.writeable = False
        return Column(self.tensor, self.worker, steps, values)

    def _insert(self, step: int, summary: Summary) -> None:
        place, count = bisect.bisect_left(self._order, step), len(self._order)
        self._steps = np.insert(self._steps[:count], place, step)
        self._rows = np.insert(self._rows[:count], place, summary, axis=0)
        self._order.insert(place, step)


class _Follower:
    """One tensor being followed: how far it has been read, and its tables by mode and worker.

    `sources` are the records that can answer, best first: a saved reduction before the whole tensor.
    """

    def __init__(self, tensor: str, sources: tuple[str, ...], *, cursor: int = 0) -> None:
        self.tensor, self.sources, self.cursor = tensor, sources, cursor
        self.tables: dict[str, dict[str, Table]] = {}

    def source_in(self, saved: SavedStep) -> str | None:
        """The record of this step that answers, if there is one."""
        records = saved.layout.records
        return next((name for name in self.sources if name in records), None)

    def add(self, saved: SavedStep, summary: Summary) -> None:
        workers = self.tables.setdefault(saved.mode, {})
        if saved.worker not in workers:
            workers[saved.worker] = Table(self.tensor, saved.worker)
            self.tables[saved.mode] = workers = dict(sorted(workers.items()))
        workers[saved.worker].add(saved.step, summary)


class TensorStatistics:
    """Follows the tensors that rules ask for. Their bytes are not kept.

    `neighbours(name)` names tensors that are likely to be asked for next (those of the same collections), so that small
    records that lie side by side come in one request.
    """

    def __init__(
        self,
        store: Store,
        index: StepIndex,
        *,
        neighbours: Callable[[str], Iterable[str]],
        report: Callable[[RecordError], None],
    ) -> None:
        self._store, self._index = store, index
        self._neighbours, self._report = neighbours, report
        self._followers: dict[tuple[str, ...], _Follower] = {}
        self._ahead: dict[tuple[str, str], Summary | None] = {}  # (event key, record) read before it was asked for

    def columns(
        self, tensor: str, statistic: str, sources: tuple[str, ...], *, last_step: int, mode: str | None
    ) -> tuple[Column, ...]:
        """One column per worker, by name of the worker; `mode` None means every mode."""
        follower = self._followers.get(sources)
        if follower is None:
            follower = self._followers[sources] = _Follower(tensor, sources)
        if self._has_news(follower, last_step):
            self._catch_up(follower, last_step)
        position = _POSITION[statistic]
        tables = follower.tables if mode is None else {mode: follower.tables.get(mode, {})}
        found = [
            column
            for table in itertools.chain.from_iterable(workers.values() for workers in tables.values())
            if (column := table.column(position, last_step=last_step)) is not None
        ]
        return tuple(found) if len(tables) < 2 else tuple(_over_all_modes(found))

    def _has_news(self, follower: _Follower, last_step: int) -> bool:
        arrivals, cursor = self._index.arrivals, follower.cursor
        if cursor >= len(arrivals):
            return False
        return cursor < self._index.late_until or arrivals[cursor].step <= last_step

    def _catch_up(self, follower: _Follower, last_step: int) -> None:
        is_new = follower.cursor == 0
        nearby = [name for name in self._neighbours(follower.tensor) if name not in follower.sources] if is_new else []
        while self._has_news(follower, last_step):
            block = self._index.arrivals[follower.cursor : follower.cursor + READ_AHEAD_STEPS]
            chosen = [(saved, follower.source_in(saved)) for saved in block]
            self._read_ahead([pair for pair in chosen if pair[1]], nearby, at=follower.cursor)
            for saved, source in chosen:
                summary = self._ahead.pop((saved.event_key, source), None) if source else None
                if summary is not None:
                    follower.add(saved, summary)
                follower.cursor += 1

    def _read_ahead(self, chosen: Iterable[tuple[SavedStep, str | None]], nearby: Sequence[str], *, at: int) -> None:
        """Reads the chosen records that are not here yet, and with them what other followers will want."""
        if len(self._ahead) > MOST_SUMMARIES_AHEAD:
            nearby = ()  # to forget what was read ahead would mean to read it again, for every tensor that is asked for
        if len(self._ahead) > 2 * MOST_SUMMARIES_AHEAD:  # nobody comes for it
            self._ahead.clear()
        missing = [(saved, name) for saved, name in chosen if name and (saved.event_key, name) not in self._ahead]
        if not missing:
            return
        others = [follower for follower in self._followers.values() if follower.cursor <= at]
        wanted = [(saved, self._with_neighbours(saved, name, nearby, others)) for saved, name in missing]
        for (saved, _), summaries in zip(wanted, in_parallel(self._store, self._summaries, wanted), strict=True):
            for name, summary in summaries.items():
                self._ahead[saved.event_key, name] = summary

    def _with_neighbours(
        self, saved: SavedStep, name: str, nearby: Iterable[str], others: Iterable[_Follower]
    ) -> list[str]:
        records = saved.layout.records
        small = {near for near in nearby if near in records and records[near][1] <= SMALL_RECORD_BYTES}
        followed = {source for other in others if (source := other.source_in(saved))}
        names = {name, *small, *followed}
        return [near for near in names if near == name or (saved.event_key, near) not in self._ahead]

    def _summaries(self, wanted: Wanted) -> dict[str, Summary | None]:
        saved, names = wanted
        return {
            name: None if value is None else summarise(value)
            for name, value in read_tensors(self._store, saved, names, report=self._report)
        }


def read_tensors(
    store: Store, saved: SavedStep, names: Iterable[str], *, report: Callable[[RecordError], None]
) -> Iterator[tuple[str, NDArray[np.generic] | None]]:
    """Each named tensor of a step, neighbours in one request; None for one that cannot be read: `report` hears why."""
    records = saved.layout.records
    for start, end, members in merged_ranges({name: records[name] for name in names}):
        try:
            data = store.get(saved.event_key, start=start, length=end - start)
        except KeyNotFoundError:
            report(RecordError(saved.event_key, 0, "the index names this event file, but it is not there."))
            data = None
        for name in members:
            yield name, None if data is None else _decode(saved, name, data, start, report)


def _decode(
    saved: SavedStep, name: str, data: bytes, start: int, report: Callable[[RecordError], None]
) -> NDArray[np.generic] | None:
    offset, length = saved.layout.records[name]
    try:
        record = decode_record(data[offset - start : offset - start + length], key=saved.event_key, offset=offset)
        if record.name != name:
            raise RecordError(saved.event_key, offset, f"holds {record.name!r} where the index says {name!r}.")
    except RecordError as error:
        report(error)
        return None
    return record.value


def merged_ranges(records: Mapping[str, tuple[int, int]]) -> Iterator[tuple[int, int, list[str]]]:
    """(start, end, names) of the byte ranges to ask for: records that lie close together share one."""
    start = end = -1
    members: list[str] = []
    for name in sorted(records, key=lambda name: records[name]):
        first, length = records[name]
        close = first - end <= MERGE_GAP_BYTES and first + length - start <= MOST_BYTES_AT_ONCE
        if members and not close:
            yield start, end, members
            members = []
        if not members:
            start, end = first, first + length
        members.append(name)
        end = max(end, first + length)
    if members:
        yield start, end, members


def _over_all_modes(columns: Iterable[Column]) -> Iterator[Column]:
    """The columns of one worker in several modes as one, ascending by step."""
    ordered = sorted(columns, key=lambda column: column.worker)
    for worker, group in itertools.groupby(ordered, key=lambda column: column.worker):
        parts = list(group)
        steps = np.concatenate([part.steps for part in parts])
        order = np.argsort(steps, kind="stable")
        yield Column(parts[0].tensor, worker, steps[order], np.concatenate([part.values for part in parts])[order])
