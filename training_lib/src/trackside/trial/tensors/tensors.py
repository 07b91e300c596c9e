"""Statistics of saved tensors as columns over steps. Each tensor is fetched and decoded once, and its numbers are kept.

Steps are read in blocks, for all followed tensors at once: records of a block that are alike are decoded and summarised
together.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.storage.store import Store
from trackside.trial.parallel import in_parallel, is_remote
from trackside.trial.steps.record_reader import Array, Found, RecordReader, missing
from trackside.trial.steps.saved_step import Layout, SavedStep
from trackside.trial.steps.selection import Selection
from trackside.trial.steps.step_index import StepIndex
from trackside.trial.tensors.statistics import STATISTICS, Values, summarise, summarise_many
from trackside.trial.tensors.table import Table
from trackside.trial.window import Column

FIRST_STEPS_AT_ONCE = 64  # the first answer should not wait for many steps
STEPS_AT_ONCE = 256
ALIKE_STEPS = 8  # from here on the price of NumPy's calls is worth it
MERGE_GAP_BYTES = 16 << 10  # a second request costs more than these bytes
MOST_BYTES_AT_ONCE = 8 << 20  # in one request
MOST_BLOCK_BYTES = 16 << 20
SMALL_RECORD_BYTES = 64 << 10  # a record up to this size is fetched with its neighbours, before a rule asks for it
SELECTIONS_KEPT = 4

PLACES = {name: place for place, name in enumerate(STATISTICS)}

Sources = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Tensors that are likely to be requested one after another, with their sources."""

    members: tuple[tuple[str, Sources], ...]


Neighbours = Callable[[str, str], Iterable[Neighbourhood]]
Chunk = tuple[str, str, NDArray[np.int64], Values]  # mode, worker, steps, result of `summarise_many`


class Follower:
    """One followed tensor: its read position, and its tables by mode and worker.

    sources   the records that can answer, best first: a saved reduction before the whole tensor
    is_known  returns True for steps with an answer from elsewhere; these are not read
    """

    def __init__(self, tensor: str, sources: Sources, *, is_known: Callable[[SavedStep], bool] | None = None) -> None:
        self.tensor, self.sources, self.is_known = tensor, sources, is_known
        self.cursor = 0
        self.is_requested = False  # else it is read only as another one's neighbour
        self.rows = 0
        self.tables: dict[str, dict[str, Table]] = {}

    def source_in(self, layout: Layout) -> str | None:
        """Return the record that answers at steps of this layout; None without one."""
        return next((name for name in self.sources if name in layout.records), None)

    def append(self, saved: SavedStep, summary: float | Values | None) -> None:
        """Add a step. A summary of None, which is no number, is left out."""
        if summary is not None:
            self._table(saved.mode, saved.worker).append(saved.step, summary)
            self.rows += 1

    def extend(self, mode: str, worker: str, steps: NDArray[np.int64], numbers: Values) -> None:
        """Add ascending steps."""
        self._table(mode, worker).extend(steps, numbers)
        self.rows += len(steps)

    def columns(self, place: int, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """Return the statistic at `place` of `STATISTICS`, per worker, over the steps read."""
        if mode is None:
            tables = [table for workers in self.tables.values() for table in workers.values()]
            columns = [c for table in tables if (c := table.column(place, last_step)) is not None]
            return tuple(columns if len(self.tables) < 2 else _over_all_modes(columns))
        workers = self.tables.get(mode)
        if workers is None:
            return ()
        if len(workers) == 1:
            (only,) = workers.values()
            column = only.column(place, last_step)
            return () if column is None else (column,)
        return tuple([c for table in workers.values() if (c := table.column(place, last_step)) is not None])

    def _table(self, mode: str, worker: str) -> Table:
        workers = self.tables.setdefault(mode, {})
        if worker not in workers:
            workers[worker] = Table(self.tensor, worker)
            self.tables[mode] = workers = dict(sorted(workers.items()))
        return workers[worker]


@dataclass(frozen=True, eq=False)
class _Member:
    """A record within a range of bytes, and the followers that need it."""

    name: str
    start: int
    end: int
    followers: tuple[Follower, ...]


@dataclass(frozen=True, eq=False)
class _Range:
    """Bytes of an event file that are fetched in one request."""

    start: int
    length: int
    members: tuple[_Member, ...]


@dataclass(frozen=True, eq=False)
class _Plan:
    """The byte ranges to fetch of a step.

    too_large  followers without a request of their own, with a record too large to fetch ahead
    """

    ranges: tuple[_Range, ...]
    size: int
    too_large: frozenset[Follower]


class _Company:
    """Followers at the same read position, which are read together.

    Plans are kept by layout and by left-out followers.
    """

    def __init__(self, followers: list[Follower]) -> None:
        self.followers = followers
        self._choosy = [(follower, follower.is_known) for follower in followers if follower.is_known is not None]
        self._plans: dict[tuple[Layout, tuple[Follower, ...]], _Plan] = {}

    def plan(self, saved: SavedStep) -> _Plan:
        left_out = (
            # A step without the tensor needs no look at its recorded numbers, which are a column over the whole run.
            tuple(f for f, is_known in self._choosy if f.source_in(saved.layout) is not None and is_known(saved))
            if self._choosy
            else ()
        )
        plan = self._plans.get((saved.layout, left_out))
        if plan is None:
            wanted = [follower for follower in self.followers if follower not in left_out]
            plan = self._plans[saved.layout, left_out] = _plan(saved.layout, wanted)
        return plan


Block = list[tuple[SavedStep, _Plan]]


class Reading:
    """Followers over the same part of a run. The bytes read are not kept.

    neighbours  (tensor, statistic) -> the neighbourhoods of the tensor, so that small adjacent records come in one
                request, in a folder from the second tensor on; each neighbourhood is brought once
    covers      returns True for steps of this part; None: all steps
    """

    def __init__(
        self,
        store: Store,
        index: StepIndex,
        reader: RecordReader,
        *,
        neighbours: Neighbours,
        covers: Callable[[SavedStep], bool] | None = None,
    ) -> None:
        self._store, self._index, self._reader = store, index, reader
        self._neighbours, self._covers = neighbours, covers
        self._followers: dict[tuple[Sources, str], Follower] = {}
        self._requested: dict[int, dict[Follower, None]] = {}  # requested followers by read position: few positions
        self._brought: set[Neighbourhood] = set()
        self._company = _Company([])
        self._led_by: Follower | None = None  # the first tensor that was read

    def follower(
        self,
        tensor: str,
        statistic: str,
        sources: Sources,
        *,
        is_known: Callable[[SavedStep], bool] | None = None,
    ) -> Follower:
        """Return the follower of the tensor. One with `is_known` answers for that statistic alone."""
        key = (sources, statistic if is_known else "")
        follower = self._followers.get(key)
        if follower is None:
            follower = self._followers[key] = Follower(tensor, sources, is_known=is_known)
        return follower

    def request(self, follower: Follower) -> None:
        """Read the follower from now on with others at its position, whichever of them is asked for."""
        if not follower.is_requested:
            follower.is_requested = True
            if self._is_saved(follower):
                self._wait(follower)

    def lags(self, follower: Follower, last_step: int) -> bool:
        """Return True if an unread step up to `last_step` may exist."""
        arrivals, cursor = self._index.arrivals, follower.cursor
        if cursor >= len(arrivals):
            return False
        return cursor < self._index.late_until or arrivals[cursor].step <= last_step

    def catch_up(self, follower: Follower, statistic: str, last_step: int) -> None:
        """Read the steps up to `last_step`, and up to a block beyond. A tensor that no step saved has none to read.

        Errors: those of the store. The next call continues from the point of failure.
        """
        if not self._is_saved(follower):
            follower.cursor = len(self._index.arrivals)
            return
        self._wait(follower)
        unbrought = self._unbrought(follower, statistic) if follower.cursor == 0 else ()
        beside = self._followers_of(unbrought)
        self._led_by = self._led_by or follower
        while self.lags(follower, last_step):
            self._read_block(follower, beside)
        self._brought.update(unbrought)

    def _unbrought(self, follower: Follower, statistic: str) -> Sequence[Neighbourhood]:
        """Return the neighbourhoods to read with the tensor.

        None for the first tensor in a folder: who asks for one column alone should not pay for a hundred. A request to
        a remote store costs more than what comes with it. None that came with another tensor: the rest of it is large.
        """
        if self._led_by in {None, follower} and not is_remote(self._store):
            return ()
        return [one for one in self._neighbours(follower.tensor, statistic) if one not in self._brought]

    def _followers_of(self, neighbourhoods: Iterable[Neighbourhood]) -> dict[Follower, None]:
        near: dict[Follower, None] = {}
        for tensor, sources in (member for one in neighbourhoods for member in one.members):
            key = (sources, "")
            if key not in self._followers:
                self._followers[key] = Follower(tensor, sources)
            near[self._followers[key]] = None
        return near

    def _read_block(self, lead: Follower, beside: Iterable[Follower]) -> None:
        at = lead.cursor
        joined = [*dict.fromkeys((*self._requested.get(at, ()), *(f for f in beside if f.cursor == at)))]
        if joined != self._company.followers:
            self._company = _Company(joined)
        block, end, too_large = self._next_block(at)
        while too_large:  # one after another: others may become large at a later step of the block
            self._company = _Company([f for f in self._company.followers if f not in too_large])
            block, end, too_large = self._next_block(at)
        self._read(block)
        self._move(self._company.followers, end)

    def _is_saved(self, follower: Follower) -> bool:
        return any(name in self._index.names for name in follower.sources)

    def _wait(self, follower: Follower) -> None:
        self._requested.setdefault(follower.cursor, {})[follower] = None

    def _move(self, followers: Iterable[Follower], end: int) -> None:
        for follower in followers:
            if follower.is_requested:
                self._requested[follower.cursor].pop(follower)
                if not self._requested[follower.cursor]:
                    del self._requested[follower.cursor]
            follower.cursor = end
            if follower.is_requested:
                self._wait(follower)

    def _next_block(self, at: int) -> tuple[Block, int, set[Follower]]:
        """Return the steps to read from `at` on, the end of the block, and the followers to leave out as too large."""
        arrivals, covers, company = self._index.arrivals, self._covers, self._company
        # Not beyond followers that are ahead: from their position on all are read together.
        ahead = (cursor for cursor in self._requested if cursor > at)
        limit = min(ahead, default=len(arrivals))
        most = FIRST_STEPS_AT_ONCE if at == 0 else STEPS_AT_ONCE
        block: Block = []
        size, place = 0, at
        while place < limit and len(block) < most:
            saved = arrivals[place]
            if covers is None or covers(saved):
                plan = company.plan(saved)
                if plan.too_large:
                    return [], at, {f for f in company.followers if f in plan.too_large}
                size += plan.size
                if block and size > MOST_BLOCK_BYTES:
                    break
                if plan.ranges:
                    block.append((saved, plan))
            place += 1
        return block, place, set()

    def _read(self, block: Block) -> None:
        if len(block) >= ALIKE_STEPS:
            self._read_alike(block)
            return
        summaries = []
        for some in _batches((saved, part) for saved, plan in block for part in plan.ranges):
            for (saved, part), data in zip(some, in_parallel(self._store, self._fetch, some), strict=True):
                for member in part.members:
                    found = self._found(saved, member, part, data)
                    if found is not None:
                        summaries.append((member.followers, found.saved, summarise(found.value)))
        for followers, saved, summary in summaries:  # all requests have been answered: from here on nothing fails
            for follower in followers:
                follower.append(saved, summary)

    def _read_alike(self, block: Block) -> None:
        """Read many steps at once, decoding records that are alike together."""
        collected: dict[Follower, list[Chunk]] = {}
        wanted = [(saved, part) for saved, plan in block for part in plan.ranges]
        groups: dict[_Range, tuple[list[SavedStep], list[bytes | None]]] = {}
        for (saved, part), data in zip(wanted, in_parallel(self._store, self._fetch, wanted), strict=True):
            saved_steps, contents = groups.setdefault(part, ([], []))
            saved_steps.append(saved)
            contents.append(data)
        for part, (saved_steps, contents) in groups.items():
            for member, chunk in self._chunks(part, saved_steps, contents):
                for follower in member.followers:
                    collected.setdefault(follower, []).append(chunk)
        for follower, chunks in collected.items():
            for mode, worker, steps, numbers in _joined(chunks):
                follower.extend(mode, worker, steps, numbers)

    def _fetch(self, wanted: tuple[SavedStep, _Range]) -> bytes | None:
        saved, part = wanted
        try:
            return self._reader.fetch(saved, start=part.start, length=part.length)
        except KeyNotFoundError:
            return None

    def _found(self, saved: SavedStep, member: _Member, part: _Range, data: bytes | None) -> Found | None:
        """Return one tensor, decoded in full; None if it cannot be read, which is reported."""
        try:
            if data is None:
                return self._reader.again(saved, member.name, missing(saved))
            is_all = len(part.members) == 1
            content = data if is_all else data[member.start : member.end]
            try:
                return Found(saved, self._reader.decode(saved, member.name, content))
            except RecordError as damage:
                return self._reader.again(saved, member.name, damage)
        except RecordError:
            return None

    def _chunks(
        self, part: _Range, saved_steps: Sequence[SavedStep], contents: Sequence[bytes | None]
    ) -> Iterator[tuple[_Member, Chunk]]:
        """Yield the numbers of each member at the steps with the same range."""
        whole = [place for place, data in enumerate(contents) if data is not None and len(data) == part.length]
        alike = _Alike.of(part, [saved_steps[p] for p in whole], [contents[p] or b"" for p in whole])
        for member in part.members:
            done: NDArray[np.bool_] | None = None
            if alike is not None:
                first = alike.saved_steps[0]
                template = self._reader.template(first, member.name, alike.content(0, member))
                if template is not None and template.size == member.end - member.start:
                    values, done = template.decode_many(
                        alike.rows[:, member.start : member.end], steps=alike.steps, mode_steps=alike.mode_steps
                    )
                    yield from ((member, chunk) for chunk in alike.chunks(values, done))
            fits = set() if done is None else {whole[place] for place in np.flatnonzero(done).tolist()}
            for place in range(len(contents)) if len(fits) < len(contents) else ():
                if place not in fits:
                    found = self._found(saved_steps[place], member, part, contents[place])
                    yield from ((member, chunk) for chunk in _chunk_of_one(found))


@dataclass(frozen=True, eq=False)
class _Alike:
    """Contents of the same byte range of many steps, as rows of bytes."""

    saved_steps: Sequence[SavedStep]
    rows: NDArray[np.uint8]
    steps: NDArray[np.int64]
    mode_steps: NDArray[np.int64]
    places: Mapping[tuple[str, str], NDArray[np.bool_] | None]  # by mode and worker; None: all of them

    @classmethod
    def of(cls, part: _Range, saved_steps: Sequence[SavedStep], contents: Sequence[bytes]) -> _Alike | None:
        count = len(saved_steps)
        if count < ALIKE_STEPS:
            return None
        rows = np.frombuffer(b"".join(contents), np.uint8).reshape(count, part.length)
        origins = [(saved.mode, saved.worker) for saved in saved_steps]
        kinds = dict.fromkeys(origins)
        places = {
            kind: np.fromiter((origin == kind for origin in origins), bool, count) if len(kinds) > 1 else None
            for kind in kinds
        }
        steps = np.fromiter((saved.step for saved in saved_steps), np.int64, count)
        mode_steps = np.fromiter((saved.mode_step for saved in saved_steps), np.int64, count)
        return cls(saved_steps, rows, steps, mode_steps, places)

    def content(self, place: int, member: _Member) -> bytes:
        return self.rows[place, member.start : member.end].tobytes()

    def chunks(self, values: Array, fits: NDArray[np.bool_]) -> Iterator[Chunk]:
        """Yield the summaries of the values that fit. Yield nothing for values that are no numbers."""
        if values.dtype.kind not in "biuf" or not values.size:
            return
        flat = values.reshape(len(values), -1)
        all_fit = bool(fits.all())
        for (mode, worker), chosen in self.places.items():
            mask = fits if chosen is None else fits & chosen
            if all_fit and chosen is None:
                yield mode, worker, self.steps, summarise_many(flat)
            elif mask.any():
                yield mode, worker, self.steps[mask], summarise_many(flat[mask])


class TensorStatistics:
    """The columns of a trial: over all steps, and over the most recently requested selections."""

    def __init__(self, store: Store, index: StepIndex, reader: RecordReader, *, neighbours: Neighbours) -> None:
        self._store, self._index, self._reader, self._neighbours = store, index, reader, neighbours
        self.everything = Reading(store, index, reader, neighbours=neighbours)
        self._selected: OrderedDict[Selection, Reading] = OrderedDict()

    def selected(self, selection: Selection) -> Reading:
        """Return the reading of only the selected steps."""
        reading = self._selected.pop(selection, None)
        if reading is None:
            reading = Reading(
                self._store, self._index, self._reader, neighbours=self._neighbours, covers=selection.covers
            )
        self._selected[selection] = reading
        if len(self._selected) > SELECTIONS_KEPT:
            self._selected.popitem(last=False)
        return reading


def merged_ranges(records: Mapping[str, tuple[int, int]]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield (start, end, names) of the byte ranges to fetch. Records that lie close together share one."""
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


def _plan(layout: Layout, followers: Iterable[Follower]) -> _Plan:
    wanted: dict[str, list[Follower]] = {}
    too_large = []
    for follower in followers:
        name = follower.source_in(layout)
        if name is None:
            continue
        if not follower.is_requested and layout.records[name][1] > SMALL_RECORD_BYTES:
            too_large.append(follower)
        wanted.setdefault(name, []).append(follower)
    ranges = []
    for start, end, names in merged_ranges({name: layout.records[name] for name in wanted}):
        places = ((name, layout.records[name][0] - start, layout.records[name][1]) for name in names)
        members = tuple(_Member(name, first, first + size, tuple(wanted[name])) for name, first, size in places)
        ranges.append(_Range(start, end - start, members))
    return _Plan(tuple(ranges), sum(part.length for part in ranges), frozenset(too_large))


def _batches(wanted: Iterable[tuple[SavedStep, _Range]]) -> Iterator[list[tuple[SavedStep, _Range]]]:
    """Yield the requests in batches of at most `MOST_BLOCK_BYTES`."""
    batch: list[tuple[SavedStep, _Range]] = []
    size = 0
    for saved, part in wanted:
        if batch and size + part.length > MOST_BLOCK_BYTES:
            yield batch
            batch, size = [], 0
        batch.append((saved, part))
        size += part.length
    if batch:
        yield batch


def _chunk_of_one(found: Found | None) -> Iterator[Chunk]:
    summary = summarise(found.value) if found is not None else None
    if found is None or summary is None:
        return
    saved = found.saved
    yield saved.mode, saved.worker, np.array([saved.step]), np.array(summary, np.float64).reshape(-1, 1)


def _joined(chunks: Sequence[Chunk]) -> Iterator[Chunk]:
    """Yield one chunk for each mode and worker, ascending by step."""
    by_origin: dict[tuple[str, str], list[Chunk]] = {}
    for chunk in chunks:
        by_origin.setdefault(chunk[:2], []).append(chunk)
    for (mode, worker), parts in by_origin.items():
        # Parts of single values and of whole summaries do not join; the table knows how to.
        for _, alike in itertools.groupby(sorted(parts, key=lambda part: len(part[3])), key=lambda part: len(part[3])):
            some = list(alike)
            steps = some[0][2] if len(some) == 1 else np.concatenate([part[2] for part in some])
            numbers = some[0][3] if len(some) == 1 else np.concatenate([part[3] for part in some], axis=1)
            if len(steps) > 1 and (np.diff(steps) < 0).any():
                order = np.argsort(steps, kind="stable")
                steps, numbers = steps[order], numbers[:, order]
            yield mode, worker, steps, numbers


def _over_all_modes(columns: Iterable[Column]) -> Iterator[Column]:
    """Yield the columns of one worker in several modes as one, ascending by step."""
    ordered = sorted(columns, key=lambda column: column.worker)
    for worker, group in itertools.groupby(ordered, key=lambda column: column.worker):
        parts = list(group)
        steps = np.concatenate([part.steps for part in parts])
        order = np.argsort(steps, kind="stable")
        yield Column(parts[0].tensor, worker, steps[order], np.concatenate([part.values for part in parts])[order])
