"""The reader of a run: a growing one, a finished one, or one of the original smdebug."""

from __future__ import annotations

import bisect
import difflib
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trackside.contracts import run_layout
from trackside.contracts.errors import (
    ConfigurationError,
    KeyNotFoundError,
    Problem,
    RecordError,
    RunNotFoundError,
    TensorNotSavedError,
    did_you_mean,
)
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.run_layout import (
    COLLECTIONS_PREFIX,
    END_MARKER_KEY,
    INDEX_PREFIX,
    RULE_REQUEST_KEY,
    TENSORS,
    WATERMARKS,
    RunLocation,
)
from trackside.records.capture_report import CaptureReport, read_report, reporting_workers
from trackside.records.step_file import fetch_record
from trackside.records.watermark import Watermark
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.storage.subfolder import Subfolder
from trackside.trial.membership import Membership
from trackside.trial.model_facts import ModelFactsReader
from trackside.trial.notebook import html_table
from trackside.trial.parallel import in_parallel
from trackside.trial.question import Question, RecordedQuestion, SavedQuestion
from trackside.trial.record_reader import RecordReader, missing
from trackside.trial.recorded import Recorded
from trackside.trial.recorded_statistics import RecordedStatistics
from trackside.trial.saved_tensors import REDUCTION_MARK, SavedTensors, base_name
from trackside.trial.selection import Selection, StepRange, parse_mode, parse_regex
from trackside.trial.series import MOST_HTML_ROWS, TensorSeries
from trackside.trial.shards import Shards, joined
from trackside.trial.statistics import RECORDED_ONLY, REDUCTIONS, STATISTICS
from trackside.trial.step_index import Layout, SavedStep, StepIndex
from trackside.trial.step_values import StepTables
from trackside.trial.tensor_head import HEAD_BYTES, TensorHead, read_head
from trackside.trial.tensors import PLACES, Reading, Sources, TensorStatistics, merged_ranges
from trackside.trial.watermarks import Watermarks
from trackside.trial.window import MOST_IN_PANEL, Column, Panel, StepValues, Window, newest_values

__all__ = ["REDUCTION_MARK", "Trial", "open_trial"]

MOST_SETS_AT_HAND = 1024  # of tensors that were saved or recorded together
_LAST_STEP = 2**63 - 1


def open_trial(run: str | Store) -> Trial:
    """The trial of a run: its folder or `s3://` prefix, its `debug-output`, or a folder of the original.

    Reads what is there so far; `Trial.refresh` reads on. Errors: `RunNotFoundError` where nothing lies that looks like
    a run, and those of the store.
    """
    store = open_store(run) if isinstance(run, str) else run
    if any(next(iter(store.list(prefix)), None) for prefix in (INDEX_PREFIX, COLLECTIONS_PREFIX, END_MARKER_KEY)):
        trial = Trial(store, _beside(run, run_layout.STATISTICS), _beside(run, WATERMARKS))
    elif store.exists(RULE_REQUEST_KEY) or any(
        next(iter(store.list(f"{folder}/")), None) for folder in (TENSORS, run_layout.STATISTICS, WATERMARKS)
    ):
        trial = Trial(_below(run, TENSORS), _below(run, run_layout.STATISTICS), _below(run, WATERMARKS))
    else:
        raise RunNotFoundError(
            f"Nothing that looks like a run lies at {store.uri}. Give the folder or s3:// prefix that holds "
            f"'{TENSORS}', or the folder that holds 'index' and 'events' (a run of smdebug). "
            "A run that has only just started appears with its first saved step."
        )
    trial.refresh()
    return trial


def trial_of(run: RunLocation, stores: Callable[[str], Store] = open_store, *, will_grow: bool = True) -> Trial:
    """The trial of a run that may not have begun yet. Nothing is read before the first `refresh`."""
    return Trial(stores(run.tensors), stores(run.statistics), stores(run.watermarks), will_grow=will_grow)


def _below(run: str | Store, folder: str) -> Store:
    return open_store(f"{run.rstrip('/')}/{folder}") if isinstance(run, str) else Subfolder(run, folder)


def _beside(tensors: str | Store, wanted: str) -> Store | None:
    """Another folder of the run that these tensors are of; None where they are no part of a run of ours."""
    if not isinstance(tensors, str):
        return None
    run, _, folder = tensors.rstrip("/").rpartition("/")
    if folder != TENSORS:
        return None
    return open_store(f"{run}/{wanted}" if run or tensors.startswith("/") else wanted)


class Trial:
    """A run as it has been seen so far. Nothing is read before the first `refresh`.

    `store` holds the tensors; `statistics`, where there is such a place, what the run records at every step. That is
    looked at once somebody asks for names or statistics. `watermarks` say how far the run is; without them (the
    original's runs, older ones of ours) that is concluded from the index and the rows. Where the run `will_grow` no
    more, all that is there counts, though nobody has marked its end. `clock` counts seconds.

    Steps are optimizer steps (smdebug: global steps). What is damaged is left out, reported once in `damaged`, and the
    rest stays readable. Not to be shared between threads.
    """

    def __init__(
        self,
        store: Store,
        statistics: Store | None = None,
        watermarks: Store | None = None,
        *,
        will_grow: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._will_grow = store, will_grow
        self._damaged: dict[str, RecordError] = {}
        self._membership = Membership(store, report=self._report)
        self._index = StepIndex(store, report=self._report, membership=self._membership)
        self._reader = RecordReader(store, self._index, report=self._report)
        source = RecordedStatistics(statistics, report=self._report) if statistics is not None else None
        self._recorded = Recorded(source)
        self._watermarks = Watermarks(watermarks, report=self._report, clock=clock) if watermarks is not None else None
        self._marks: Mapping[str, Watermark] = {}  # what they cover has been read
        self._gone: frozenset[str] = frozenset()
        self._through = -1  # that step; all of it has been read
        self._is_read_to_its_end = False
        self._newest_before = -1  # of a run without watermarks: the newest step at the last look
        self.version: tuple[int, int | None] = (0, None)  # changes whenever a refresh brought a step, or completed one
        self._statistics = TensorStatistics(store, self._index, self._reader, neighbours=self._neighbours)
        self._saved_tensors = SavedTensors(self._index)
        self._shards = Shards(store, report=self._report)
        self._facts = ModelFactsReader(store, report=self._report)
        self._names: frozenset[str] = frozenset()
        self._all_names: tuple[str, ...] = ()
        self._reductions: frozenset[str] = frozenset()
        self._seen_names = (-1, -1)
        self._steps: tuple[tuple[int, int | None], tuple[int, ...]] = ((0, None), ())
        self._members: dict[tuple[str, int], tuple[str, ...]] = {}  # by collection, and how many names there were
        self._first_steps: list[int] = []  # of each tensor, ascending
        self._by_first_step: tuple[str, ...] = ()  # the tensors, in that order
        self._first_steps_version = (-1, -1)
        self._questions: dict[tuple[str, str, str | None], Question] = {}
        self._step_values = StepTables(self._columns_beyond, last_step=self._last_step)
        self._collections_in: dict[Layout, frozenset[str]] = {}
        self._collections_of_tensors: dict[frozenset[str], frozenset[str]] = {}

    @property
    def uri(self) -> str:
        """Where the tensors lie."""
        return self._store.uri

    def refresh(self) -> None:
        """Looks for what is new: one conditional GET when nothing is, of a run without watermarks one LIST.

        Errors: those of the store; what was read before stays.
        """
        if self._is_read_to_its_end:
            self._facts.refresh()
            return
        watermarks = self._watermarks
        if watermarks is not None:
            watermarks.refresh()
        if watermarks is not None and watermarks.are_there:
            self._read_what_is_marked(watermarks)
        else:
            self._search()
        self._is_read_to_its_end = self._index.has_ended
        version = len(self._index.arrivals), self._index.last_complete
        if version != self.version:
            self.version = version
        if (len(self._index.names), self._recorded.names_version) != self._seen_names:
            self._questions.clear()  # other records may answer them now

    def _read_what_is_marked(self, watermarks: Watermarks) -> None:
        """Reads what the watermarks say is new, and all that is there once the run has ended."""
        marks, known = watermarks.marks, self._marks
        has_ended = watermarks.should_ask_for_the_end() and self._store.exists(END_MARKER_KEY)
        # Who is gone may have stored more than its watermark covers; so may a process that another one has followed.
        is_search = has_ended or watermarks.gone != self._gone or _differ(marks, known, lambda mark: mark.started_ms)
        if marks == known and not is_search:
            return
        self._index.complete_through(self._through)  # until all of what is new has been read
        if is_search or _differ(marks, known, lambda mark: mark.saved_steps):
            self._index.refresh()
        is_search |= self._index.has_ended  # since it was asked for
        replaced = [
            worker for worker in marks if _differ({worker: marks[worker]}, known, lambda mark: mark.collections)
        ]
        for worker in replaced:
            self._membership.read_again(worker)
        if replaced or is_search:
            self._read_collections()
        self._recorded.refresh(newest=None if is_search else watermarks.segments)
        if is_search or _differ(marks, known, lambda mark: (mark.model_facts, mark.segments[-1:])):
            self._facts.refresh()
        self._through = watermarks.through if self._will_grow else _LAST_STEP
        self._index.complete_through(self._through)
        self._marks, self._gone = marks, watermarks.gone

    def _search(self) -> None:
        """Looks for all that may be new; and, with the first of it, for watermarks, which come before anything else."""
        if self._recorded.has_any:
            self._newest_before = self._newest_step()
        if self._watermarks is not None:
            self._index.complete_through(self._through)  # it is not known yet whether there are watermarks
        has_news = self._index.refresh()
        if (has_news and not self._membership.is_whole) or self._membership.worker_count is None:
            self._read_collections()
        if self._membership.worker_count is not None:
            self._index.expect_workers(self._membership.worker_count)
        self._recorded.refresh()
        self._facts.refresh()
        if self._watermarks is None or not (has_news or self._index.steps or self._recorded.has_any):
            return
        if self._watermarks.find():
            self._read_what_is_marked(self._watermarks)
        else:
            self._watermarks = None
            self._index.complete_through(None)

    @property
    def has_ended(self) -> bool:
        """True once the run will never write again and all it wrote has been seen."""
        return self._index.has_ended

    @property
    def damaged(self) -> tuple[RecordError, ...]:
        """Files that could not be read, each once, in the order they were met."""
        return tuple(self._damaged.values())

    def lost_steps(self) -> dict[str, CaptureReport]:
        """What capture could not save, by worker: how many steps, which, and why. Empty if nothing was lost.

        Asks the store each time. A report that cannot be read stands in `damaged`. Errors: those of the store.
        """
        reports = {}
        for worker in reporting_workers(self._store):
            try:
                reports[worker] = read_report(self._store, worker)
            except RecordError as error:
                self._report(error)
        return reports

    @property
    def model_facts(self) -> ModelFacts | None:
        """What the training program is made of, as it was last told; None for a run that does not tell.

        Of several workers it is the first one's. Errors: those of the store.
        """
        return self._facts.newest()

    def model_facts_of(self, worker: str) -> tuple[ModelFacts, ...]:
        """All that one worker has told, oldest first; () if nothing. Errors: those of the store."""
        return self._facts.revisions(worker)

    @property
    def recorded_through(self) -> int:
        """The last step that has come: of which every worker that records statistics has recorded some; -1 for none."""
        return self._last_step()

    def facts_at(self, step: int) -> ModelFacts | None:
        """`model_facts` as they were at that step."""
        return self._facts.at(step)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors seen, sorted; one that was saved as reductions only goes by its own name."""
        return self._sorted_names()

    def tensor_names(self, *, collection: str, last_step: int | None = None) -> tuple[str, ...]:
        """Names of the tensors in that collection, sorted; () for a collection that nobody knows.

        Those seen so far, or those of which anything was saved or recorded at `last_step` or before.
        """
        names = self._sorted_names()
        if last_step is not None:
            self._sort_by_first_step()
        count = len(names) if last_step is None else bisect.bisect_right(self._first_steps, last_step)
        members = self._members.get((collection, count))
        if members is None:
            among = names if count == len(names) else self._by_first_step[:count]
            members = self._members[collection, count] = self._membership.members(collection, among)
        return members

    @property
    def collections(self) -> Mapping[str, tuple[str, ...]]:
        """The tensors of each collection that holds any, by the collection's name."""
        found = {name: self.tensor_names(collection=name) for name in sorted(self._membership.known())}
        return {name: tensors for name, tensors in found.items() if tensors}

    def tensor(
        self,
        name: str,
        *,
        steps: StepRange | slice | range | int | str | None = None,
        mode: str | None = None,
        worker: str | None = None,
    ) -> TensorSeries:
        """One tensor over its steps; `steps` as Python's slice or range, or as text: "10:200:10".

        Errors: `TensorNotSavedError` for a name that the run does not hold; `ConfigurationError` for a mode or worker
        that there is not, or steps that make no sense.
        """
        if not self._holds(name):
            raise TensorNotSavedError(f"No tensor {name!r} in {self.uri}. {_names_that_work(name, self._names)}")
        return TensorSeries(self, name, self._select(steps, mode, worker))

    def tensors(
        self,
        *,
        regex: str | None = None,
        collection: str | None = None,
        steps: StepRange | slice | range | int | str | None = None,
        mode: str | None = None,
        worker: str | None = None,
    ) -> tuple[TensorSeries, ...]:
        """The tensors whose name the regex finds, that belong to the collection and were saved there; by name.

        Errors: `ConfigurationError` for a regex, collection, mode, worker or steps that there cannot be.
        """
        selection = self._select(steps, mode, worker)
        pattern = parse_regex(regex) if regex is not None else None
        if collection is not None and collection not in self._membership.known():
            problem = Problem("collection", f"Unknown collection {collection!r}.", self._collections_hint(collection))
            raise ConfigurationError([problem], subject="The selection")
        names = self.names if collection is None else self.tensor_names(collection=collection)
        there = self._saved_tensors.names(selection).union(self._recorded_names(selection))
        return tuple(
            TensorSeries(self, name, selection)
            for name in names
            if name in there and (pattern is None or pattern.search(name))
        )

    def follow(
        self,
        *,
        poll_seconds: float = 1.0,
        after: int = -1,
        until: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], object] = time.sleep,
    ) -> Iterator[int]:
        """Complete steps above `after`, ascending, those to come included, until the run has ended or `until` is true.

        `until` is asked before each step and each pause of `poll_seconds`. Errors: `ConfigurationError` for a pause of
        nothing; those of the store, after which `follow(after=last)` goes on.
        """
        if not (math.isfinite(poll_seconds) and poll_seconds > 0):
            problem = Problem("poll_seconds", f"{poll_seconds!r} is no pause.", "Give seconds above 0, such as 1.")
            raise ConfigurationError([problem], subject="Following a run")
        return self._follow(poll_seconds, after, until, sleep)

    def saved_steps(self, tensor: str, selection: Selection | None = None) -> tuple[SavedStep, ...]:
        """What each worker saved of this tensor, or of its reductions, at complete steps; in the order found."""
        return self._saved_tensors.saved(tensor, selection or Selection())

    def saving_workers(self, tensor: str, selection: Selection) -> tuple[str, ...]:
        """The workers that saved it, or its reductions, at complete steps; sorted."""
        return self._saved_tensors.workers(tensor, selection)

    def selected_columns(self, tensor: str, statistic: str, selection: Selection) -> tuple[Column, ...]:
        """`columns` over the selected complete steps, of which alone anything is read; workers without a number are
        left out.

        Errors: `ConfigurationError` for a statistic that there is not.
        """
        last, end = self._last_step(), selection.steps.end
        last_step = last if end is None else min(last, end - 1)
        everything = self._question(tensor, statistic, selection.mode)
        is_all = selection.steps == StepRange() and selection.worker is None
        question = everything if is_all or everything.is_read(last_step) else self._narrow(tensor, statistic, selection)
        columns = question.columns(last_step)
        wanted = (column for column in columns if selection.worker in {None, column.worker})
        return tuple(c for column in wanted if (c := _within(column, selection.steps)) is not None)

    def heads(self, series: Iterable[TensorSeries]) -> dict[str, TensorHead]:
        """Shape and type of each tensor as it was last saved, from the first bytes of its record.

        Those of which only reductions were saved, and those that cannot be read, are left out. Records that lie close
        together cost one request, whole steps of a small model one for all. Errors: those of the store.
        """
        wanted: dict[SavedStep, list[str]] = {}
        for one in series:
            saved = self._saved_tensors.newest(one.name, one.selection)
            if saved is not None:
                wanted.setdefault(saved, []).append(one.name)
        pieces = [
            (saved, *piece) for saved, names in wanted.items() for piece in merged_ranges(_heads_of(saved, names))
        ]
        found = in_parallel(self._store, self._heads_in, pieces)
        return {name: head for heads in found for name, head in heads.items()}

    def __repr__(self) -> str:
        count, steps = len(self.names), self._index.complete_steps()
        span = f"steps {steps[0]} to {steps[-1]} ({len(steps)} saved)" if steps else "no step saved yet"
        state = "ended" if self.has_ended else "running"
        return f"<Trial {self.uri!r}: {state}, {span}, {count} tensors, {len(self._index.workers)} worker(s)>"

    def _repr_html_(self) -> str:
        members = {collection: frozenset(names) for collection, names in self.collections.items()}
        shown = self.names[:MOST_HTML_ROWS]
        rows = [[name, ", ".join(c for c, names in members.items() if name in names)] for name in shown]
        count = len(self.names)
        left_out = f"The first {MOST_HTML_ROWS} of {count} tensors." if count > MOST_HTML_ROWS else ""
        return html_table(repr(self), ["tensor", "collections"], rows, note=left_out)

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers seen, sorted."""
        return tuple(sorted({*self._index.workers, *self._recorded.workers}))

    def has_several_workers(self, last_step: int) -> bool:
        """True if more than one worker saved or recorded anything at `last_step` or before."""
        recorded = self._recorded.steps
        firsts = [self._index.first_by_worker, recorded.first_by_worker if recorded is not None else {}]
        return len({worker for first in firsts for worker, step in first.items() if step <= last_step}) > 1

    def steps(self, mode: str | None = None) -> tuple[int, ...]:
        """Complete steps (saved by every worker, or as complete as they will ever be), ascending."""
        version, steps = self._steps
        if version != self.version:
            steps = tuple(self._index.complete_steps())
            self._steps = self.version, steps
        return steps if mode is None else tuple(step for step in steps if self.mode_of(step) == mode)

    def new_saved_steps(self, after: int) -> Sequence[int]:
        """`steps` above `after`, ascending; -1 for all."""
        return self._index.complete_steps(after=after)

    def new_complete_steps(self, after: int) -> Sequence[int]:
        """The steps above `after` that a rule may judge, ascending: those saved, and those recorded in statistics only.

        Complete means that nothing comes any more at or below them: the watermarks of all workers have passed them. In
        a run without watermarks, it means that they were there at the look before. -1 for all. What is recorded is
        looked at with the first question.
        """
        saved = self.new_saved_steps(after)
        recorded = self._recorded.steps
        if recorded is None:
            return saved
        through = self._settled_step()
        more = recorded.between(after, through)
        if not more:
            return saved if not saved or saved[-1] <= through else [step for step in saved if step <= through]
        return sorted({*more, *(step for step in saved if step <= through)})

    def mode_of(self, step: int) -> str:
        """The mode of a step: of the first worker that says so, "GLOBAL" if none does."""
        saved = self._index.saved(step)
        if saved:
            return saved[min(saved)].mode
        recorded = self._recorded.steps
        return (recorded.mode_of(step) if recorded is not None else None) or "GLOBAL"

    def collections_at(self, step: int) -> frozenset[str]:
        """Names of the collections of which at least one tensor was saved, or had a statistic recorded, at this step.

        Which statistic it was does not matter here.
        """
        recorded = self._recorded.steps
        tensors = recorded.tensors_at(step) if recorded is not None else frozenset[str]()
        saved = self.saved_collections_at(step)
        return saved | self._collections_among(tensors) if tensors else saved

    def saved_collections_at(self, step: int) -> frozenset[str]:
        """`collections_at` of what was saved alone."""
        found = [self._collections_of(saved.layout) for saved in self._index.saved(step).values()]
        return found[0] if len(found) == 1 else frozenset[str]().union(*found)

    def is_saved(self, step: int) -> bool:
        """True if a worker saved tensors at this step: else there are statistics of it at most."""
        return bool(self._index.workers_at(step))

    def is_damaged(self, step: int) -> bool:
        """True if a file of this step has turned out to be unreadable."""
        if not self._damaged:
            return False
        keys = {saved.event_key for saved in self._index.saved(step).values()}
        return not keys.isdisjoint(self._damaged) or self._index.has_unreadable_index(step)

    def event_key(self, step: int, worker: str) -> str:
        """Key of the event file of one step and worker, or "" if it saved none."""
        saved = self._index.saved_by(step, worker)
        return saved.event_key if saved else ""

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """One column per worker over every saved step <= `last_step`: see `Window.statistic`.

        Errors: `ConfigurationError` for a statistic that is neither in `STATISTICS` nor recorded by this run.
        """
        return self._question(tensor, statistic, mode).columns(last_step)

    def at_step(self, tensors: Sequence[str], statistic: str, *, step: int, mode: str | None) -> StepValues:
        """What `columns` of each of the tensors holds at `step`: see `Window.at_step`. Errors: as `columns`."""
        moment = self.version, self._recorded.version
        return self._step_values.at(tuple(tensors), statistic, mode, step=step, moment=moment)

    def newest(
        self, tensors: Sequence[str], statistic: str, *, last: int, last_step: int, mode: str | None
    ) -> tuple[Panel, ...]:
        """The newest values of these tensors up to `last_step`: see `Window.newest`. Errors: as `columns`."""
        if last > MOST_IN_PANEL:
            columns_of = partial(self.columns, statistic=statistic, last_step=last_step, mode=mode)
            return newest_values(tensors, columns_of, last=last)
        moment = self.version, self._recorded.version
        return self._step_values.newest(tuple(tensors), statistic, mode, last=last, last_step=last_step, moment=moment)

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """The whole tensor, fetched anew on each call.

        Errors: `TensorNotSavedError`; `RecordError` where its file cannot be read.
        """
        saved = self._index.saved_by(step, worker)
        if saved is None or tensor not in saved.layout.records:
            raise TensorNotSavedError(self._why_not_saved(tensor, step=step, worker=worker))
        return self._reader.value(saved, tensor)

    def values(self, tensor: str, *, steps: Sequence[int], worker: str) -> list[NDArray[np.generic]]:
        """`value` at each of the steps; from S3 several at a time. Errors: as `value`, for the first that has one."""
        return in_parallel(self._store, lambda step: self.value(tensor, step=step, worker=worker), steps)

    def is_sharded(self, tensor: str, *, workers: Sequence[str]) -> bool:
        """True if these workers saved parts of one tensor (FSDP), and not a tensor each. Errors: those of the store."""
        if (self._membership.worker_count or 1) <= 1 or not workers:
            return False
        return all(self._shards.of(tensor, worker=worker, version=self.version) is not None for worker in workers)

    def whole_value(self, tensor: str, *, step: int, workers: Sequence[str]) -> NDArray[np.generic]:
        """A sharded tensor of its parts, fetched anew on each call.

        Errors: as `value`; `ConfigurationError` where a part is missing, or where parts cannot be put together
        (partial sums).
        """
        saved = self._index.saved(step)
        holders = [w for w in workers if w in saved and tensor in saved[w].layout.records] or workers[:1]
        shards = [self._shards.of(tensor, worker=worker, version=self.version) for worker in holders]
        values = in_parallel(self._store, lambda worker: self.value(tensor, step=step, worker=worker), holders)
        return joined(tensor, [(s, v) for s, v in zip(shards, values, strict=True) if s is not None])

    def window(self, step: int, *, now: float, newest_step_at: float | None = None) -> Window:
        """What a rule may see at `step`; times in seconds since the epoch."""
        seen_at = now if newest_step_at is None else newest_step_at
        return Window(source=self, step=step, mode=self.mode_of(step), now=now, newest_step_at=seen_at)

    def _follow(
        self, poll_seconds: float, after: int, until: Callable[[], bool], sleep: Callable[[float], object]
    ) -> Iterator[int]:
        from trackside.trial.waiting import wait_for_steps  # it waits for a trial

        while steps := wait_for_steps(self, after=after, poll_seconds=poll_seconds, sleep=sleep, should_stop=until):
            for step in tuple(steps):
                if until():
                    return
                after = step
                yield step

    def _select(
        self, steps: StepRange | slice | range | int | str | None, mode: str | None, worker: str | None
    ) -> Selection:
        if worker is not None and worker not in self._index.workers and worker not in self.workers:
            problem = Problem("worker", f"No worker {worker!r}.", did_you_mean(worker, self.workers))
            raise ConfigurationError([problem], subject="The selection")
        return Selection(StepRange.of(steps), parse_mode(mode), worker)

    def _collections_hint(self, collection: str) -> str:
        return did_you_mean(collection, self._membership.known())

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

    def _report(self, error: RecordError) -> None:
        self._damaged.setdefault(error.key, error)

    def _read_collections(self) -> None:
        if not self._membership.refresh():
            return
        self._members.clear()
        self._collections_in.clear()
        self._collections_of_tensors.clear()

    def _sorted_names(self) -> tuple[str, ...]:
        """Names of all tensors; whatever was looked up by name is forgotten when there are others."""
        recorded = self._recorded.tensors
        version = len(self._index.names), self._recorded.names_version
        if version != self._seen_names:
            self._seen_names = version
            self._reductions = frozenset(name for name in self._index.names if REDUCTION_MARK in name)
            self._names = frozenset({*map(base_name, self._index.names), *recorded})
            self._all_names = tuple(sorted(self._names))
            self._members.clear()
            self._questions.clear()
        return self._all_names

    def _sort_by_first_step(self) -> None:
        recorded = self._recorded.steps
        version = self._index.first_steps_version, recorded.first_steps_version if recorded is not None else 0
        if version == self._first_steps_version:
            return
        self._first_steps_version = version
        first_steps: dict[str, int] = dict(recorded.first_steps) if recorded is not None else {}
        for name, step in self._index.first_steps.items():
            tensor = base_name(name)
            first_steps[tensor] = min(step, first_steps.get(tensor, step))
        self._by_first_step = tuple(sorted(first_steps, key=lambda tensor: (first_steps[tensor], tensor)))
        self._first_steps = [first_steps[tensor] for tensor in self._by_first_step]
        self._members.clear()

    def _holds(self, name: str) -> bool:
        self._sorted_names()
        return name in self._names

    def _collections_of(self, layout: Layout) -> frozenset[str]:
        found = self._collections_in.get(layout)
        if found is None:
            found = self._collections_in[layout] = self._collections_among(self._saved_tensors.names_in(layout))
        return found

    def _collections_among(self, tensors: frozenset[str]) -> frozenset[str]:
        """The collections that any of the tensors belongs to."""
        found = self._collections_of_tensors.get(tensors)
        if found is None:
            if len(self._collections_of_tensors) >= MOST_SETS_AT_HAND:
                self._collections_of_tensors.clear()
            known = self._membership.known()
            found = frozenset(name for name in known if self._membership.members(name, tensors))
            self._collections_of_tensors[tensors] = found
        return found

    def _last_step(self) -> int:
        """The last complete step, saved or recorded; -1 for none."""
        last = self._index.last_complete
        return max(-1 if last is None else last, self._settled_step() if self._recorded.steps is not None else -1)

    def _settled_step(self) -> int:
        """The last step at and below which nothing comes any more."""
        if not self._is_growing:
            return self._newest_step()
        return self._through if self._marks else min(self._newest_step(), self._newest_before)

    def _newest_step(self) -> int:
        """The newest step that all workers seen have come to; of a run that grows no more, that any has come to."""
        recorded = self._recorded.steps
        rows = recorded.last_by_worker.values() if recorded is not None else ()
        last = self._index.last_complete
        newest = (min if self._is_growing else max)(rows, default=-1)
        return max(-1 if last is None else last, newest)

    @property
    def _is_growing(self) -> bool:
        return self._will_grow and not self.has_ended

    def _neighbours(self, tensor: str, statistic: str) -> Iterable[tuple[str, Sources]]:
        """The tensors of the same collections, with what would answer for them."""
        groups = (self.tensor_names(collection=name) for name in sorted(self._membership.known()))
        near = dict.fromkeys(name for group in groups if tensor in group for name in group if name != tensor)
        return [(name, self._sources(name, statistic)) for name in near if name not in self._recorded.tensors]

    def _recorded_names(self, selection: Selection) -> Iterable[str]:
        """The tensors of which statistics are recorded at the selected steps."""
        for tensor, statistics in self._recorded.tensors.items():
            columns = (self._recorded.columns(tensor, name, selection.mode).values() for name in sorted(statistics))
            if any(
                _within(c, selection.steps) for some in columns for c in some if selection.worker in {None, c.worker}
            ):
                yield tensor

    def _question(self, tensor: str, statistic: str, mode: str | None) -> Question:
        """The question over all steps, always the same one."""
        question = self._questions.get((tensor, statistic, mode))
        if question is not None:
            return question
        self._sorted_names()
        question = self._questions.get((tensor, statistic, mode))
        if question is None:
            question = self._asked_of(self._statistics.everything, tensor, statistic, mode)
            self._questions[tensor, statistic, mode] = question
        return question

    def _columns_beyond(self, tensor: str, statistic: str, mode: str | None, last_step: int) -> tuple[Column, ...]:
        return self._question(tensor, statistic, mode).columns_beyond(last_step)

    def _narrow(self, tensor: str, statistic: str, selection: Selection) -> Question:
        return self._asked_of(self._statistics.selected(selection), tensor, statistic, selection.mode)

    def _asked_of(self, reading: Reading, tensor: str, statistic: str, mode: str | None) -> Question:
        recorded = self._recorded.tensors
        is_recorded = statistic in recorded.get(tensor, ())
        is_known_word = statistic in STATISTICS or statistic in RECORDED_ONLY
        if not is_known_word and not any(statistic in names for names in recorded.values()):
            known = {*STATISTICS, *RECORDED_ONLY, *(name for names in recorded.values() for name in names)}
            problem = Problem("statistic", f"Unknown statistic {statistic!r}.", did_you_mean(statistic, known))
            raise ConfigurationError([problem], subject="A question to a window")
        saved: SavedQuestion | None = None
        if statistic in STATISTICS:
            is_known = partial(self._recorded.holds, tensor, statistic) if is_recorded else None
            follower = reading.follower(tensor, statistic, self._sources(tensor, statistic), is_known=is_known)
            saved = SavedQuestion(reading, follower, statistic, PLACES[statistic], mode)
            if not is_recorded:
                return saved
        return RecordedQuestion(self._recorded, saved, tensor=tensor, statistic=statistic, mode=mode)

    def _sources(self, tensor: str, statistic: str) -> Sources:
        if not self._reductions:
            return (tensor,)
        # Old frameworks' hooks strip ":0" from the tensor's name when they save its reductions.
        bases = dict.fromkeys((tensor, re.sub(r":\d+", "", tensor)))
        spelled = (f"{REDUCTION_MARK}{word}/{base}" for word in REDUCTIONS.get(statistic, ()) for base in bases)
        return (*(name for name in spelled if name in self._reductions), tensor)

    def _why_not_saved(self, tensor: str, *, step: int, worker: str) -> str:
        what = f"{tensor!r} was not saved at step {step} by {worker}."
        if not self._holds(tensor):
            return f"{what} {did_you_mean(tensor, self._names)}"
        if any(base_name(name) == tensor for name in self._reductions) and tensor not in self._index.names:
            return f"{what} The run holds its reductions only: ask for a statistic instead."
        return f"{what} It was saved at other steps, or by other workers."


def _differ(
    marks: Mapping[str, Watermark], known: Mapping[str, Watermark], part: Callable[[Watermark], object]
) -> bool:
    return any(worker not in known or part(mark) != part(known[worker]) for worker, mark in marks.items())


def _heads_of(saved: SavedStep, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    records = saved.layout.records
    return {name: (records[name][0], min(records[name][1], HEAD_BYTES)) for name in names}


def _names_that_work(wrong: str, names: Iterable[str]) -> str:
    """The nearest names, else a few: a run may hold thousands."""
    known = sorted(names)
    near = difflib.get_close_matches(wrong, known, n=3)
    if near:
        return f"Did you mean {' or '.join(map(repr, near))}?"
    if not known:
        return "It holds no tensor yet."
    rest = f" and {len(known) - 5} more: `trackside tensors` lists them" if len(known) > 5 else ""
    return f"It holds {', '.join(map(repr, known[:5]))}{rest}."


def _within(column: Column, steps: StepRange) -> Column | None:
    """The part of the column that lies in the steps; None if there is none."""
    if steps == StepRange():
        return column
    inside = (column.steps >= steps.first) & ((column.steps - steps.first) % steps.stride == 0)
    if steps.end is not None:
        inside &= column.steps < steps.end
    if not inside.any():
        return None
    return Column(column.tensor, column.worker, column.steps[inside], column.values[inside])
