"""A run for smdebug's analysis: its old names and methods over Trackside's reader."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from smdebug import not_offered
from smdebug.analysis.utils import logger, refresh
from smdebug.core.collection import Collection, CollectionKeys
from smdebug.core.collection_manager import CollectionManager
from smdebug.core.index_reader import IndexReader, LocalIndexReader
from smdebug.core.modes import ModeKeys
from smdebug.core.reductions import REDUCTIONS_PREFIX, reverse_reduction_tensor_name
from smdebug.core.singleton_utils import hooks_of
from smdebug.core.steps import Steps
from smdebug.core.tensor import StepState, Tensor
from smdebug.exceptions import (
    MissingCollectionFiles,
    NoMoreData,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from trackside.contracts.cached_property import cached_property
from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.contracts.name_pattern import name_pattern
from trackside.contracts.run_layout import (
    COLLECTIONS_PREFIX,
    END_MARKER_KEY,
    EVENTS_PREFIX,
    index_key,
    parse_collections_key,
    parse_event_key,
)
from trackside.environment import OldReaderEnvironment
from trackside.records.collections_file import decode_collections
from trackside.records.step_file import fetch_record
from trackside.records.untrusted_json import MOST_JSON_BYTES
from trackside.storage.open_store import open_store
from trackside.trial.steps.record_reader import RecordReader
from trackside.trial.steps.saved_step import Layout, SavedStep
from trackside.trial.steps.step_index import StepIndex

GLOBAL = ModeKeys.GLOBAL
POLL_SECONDS = 2.0
RangeSteps: TypeAlias = "tuple[int | None, int | None] | None"


@dataclass
class Content:
    """The content of one step for one tensor, beside its value: (name, True for absolute values) -> record."""

    reductions: dict[tuple[str, bool], str] = field(default_factory=dict)


class Trial:
    """A growing or finished run. The constructor waits until every worker has stored its collections.

    Steps outside `range_steps` = (begin, end) are never read. `cache` keeps every value that was fetched. `parallel`,
    `check` and `index_mode` change nothing, as in the original. Most methods look for news first, unless
    `dynamic_refresh` is False.
    """

    def __init__(
        self,
        name: str,
        path: str,
        *,
        range_steps: RangeSteps = None,
        parallel: bool = True,
        check: bool = False,
        index_mode: bool = True,
        cache: bool = False,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        first_step, end_step = _checked_range(range_steps)
        self.name, self.path = name, path
        self.range_steps, self.parallel, self.check = range_steps, parallel, check
        self.index_mode, self.cache = index_mode, cache
        self.logger = logger
        self.dynamic_refresh = True
        self._sleep = sleep
        self._settings = OldReaderEnvironment.read()
        self._store = open_store(path)
        self._index = StepIndex(
            self._store,
            report=self._report,
            first_step=first_step,
            end_step=end_step,
            window=self._settings.incomplete_step_window,
        )
        self._tensors: dict[str, Tensor] = {}
        self._contents: dict[Layout, dict[str, Content]] = {}
        self._global_to_mode: dict[int, tuple[ModeKeys, int]] = {}
        self._mode_to_global: dict[ModeKeys, dict[int, int]] = {}
        self._steps: dict[ModeKeys, Steps] = {}  # the steps of each mode
        self._layouts_in_mode: dict[ModeKeys, set[Layout]] = {}
        self._sorted_names: list[str] = []
        self._reader = RecordReader(self._store, self._index, report=self._report)
        self._written_again: dict[tuple[int, str], SavedStep] = {}
        self._absorbed = 0
        self._was_read = False
        self.collection_manager, self.worker_set = self._wait_for_collections()
        self.num_workers = self.collection_manager.get_num_workers()
        self._index.expect_workers(self.num_workers)
        self.refresh_data()

    # Contents

    def tensor_names(
        self,
        show_prefixed_tensors: bool = False,
        *,
        step: int | None = None,
        mode: ModeKeys = GLOBAL,
        regex: str | re.Pattern[str] | list[Any] | None = None,
        collection: str | Collection | None = None,
    ) -> list[str]:
        """Return the names of the tensors saved so far, sorted.

        Args:
            show_prefixed_tensors: Changes nothing.
            step: Only tensors saved at this step.
            mode: Only tensors saved in this mode; GLOBAL: in any.
            regex: Only names in which one of the regexes is found.
            collection: Only tensors of this collection.

        Raises:
            ValueError: A regex and a collection are both given.
            TypeError: The collection is none.
        """
        if regex is not None and collection is not None:
            raise ValueError("Only one of `regex` or `collection` can be passed to this method")
        self.maybe_refresh()
        if step is None and mode is GLOBAL and regex is None and collection is None:
            return self._all_names()
        names = self._names(step, mode)
        if regex is not None:
            names = {name for name in names if _matches(name, _flat(regex))}
            missing = f"No tensors matching the regex pattern:{regex} given were saved"
        elif collection is not None:
            wanted = self._collection_called(collection)
            names = {n for n in names if n in wanted.tensor_names or _matches(n, _flat(wanted.include_regex))}
            missing = f"No tensors from the collection {wanted.name} were saved"
        else:
            return sorted(names)
        if not names:
            self.logger.warning(missing)
        return sorted(names)

    def tensor(self, tname: str) -> Tensor:
        """Return the tensor of that name.

        Raises:
            TensorUnavailable: No step so far holds it.
        """
        if not self.has_tensor(tname):
            raise TensorUnavailable(tname)
        return self._tensors[tname]

    def has_tensor(self, tname: str) -> bool:
        if tname not in self._tensors:
            self.maybe_refresh(tname)
        return tname in self._tensors

    def steps(self, mode: ModeKeys = GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Return the steps saved so far, ascending; only complete ones unless all are requested.

        In mode GLOBAL, the steps of every mode.
        """
        self.maybe_refresh()
        steps = self._steps.get(mode)
        if steps is None:
            return []
        return steps.all() if show_incomplete_steps else steps.complete(lambda step: self._is_complete_in(mode, step))

    def modes(self) -> Iterable[ModeKeys]:
        """Return the modes seen, without GLOBAL."""
        return self._mode_to_global.keys()

    def workers(self) -> list[str]:
        """Return the names of the run's workers, sorted."""
        return sorted(self.worker_set)

    def collections(self) -> dict[str, Collection]:
        return self.collection_manager.collections

    def collection(self, coll_name: str) -> Collection:
        """Return the collection of that name. A missing one is made, empty, to be filled for the analysis."""
        return self.collection_manager.get(coll_name)

    # Steps of one mode and the run's own

    def global_step(self, mode: ModeKeys, mode_step: int) -> int | None:
        """Return the run's step for a step of the mode; None if none was saved so far."""
        found = self.known_global_step(mode, mode_step)
        if found is None:
            self.maybe_refresh()
            found = self.known_global_step(mode, mode_step)
        return found

    def mode_modestep(self, global_step: int) -> tuple[ModeKeys, int] | tuple[None, None]:
        """Return the mode of a step of the run, and the step within that mode; (None, None) if it was not saved."""
        if global_step not in self._global_to_mode:
            self.maybe_refresh()
        return self._global_to_mode.get(global_step, (None, None))

    def mode(self, global_step: int) -> ModeKeys | None:
        return self.mode_modestep(global_step)[0]

    def mode_step(self, global_step: int) -> int | None:
        return self.mode_modestep(global_step)[1]

    # Waiting

    def has_passed_step(self, step: int, mode: ModeKeys = GLOBAL) -> StepState:
        """Return the state of a step: available, unavailable for good, or still possible."""
        state = self._state_of(step, mode)
        if state is StepState.NOT_YET_AVAILABLE and not self.loaded_all_steps:
            self.maybe_refresh()
            state = self._state_of(step, mode)
        return state

    def wait_for_steps(self, required_steps: Iterable[int], mode: ModeKeys = GLOBAL) -> None:
        """Wait until all steps are available.

        Raises:
            StepUnavailable: The run passed a step without saving it.
            NoMoreData: A step lies after the end of the run.
        """
        with refresh(self):
            for step in required_steps:
                while (state := self.has_passed_step(step, mode)) is StepState.NOT_YET_AVAILABLE:
                    self._sleep(POLL_SECONDS)
                if state is StepState.UNAVAILABLE:
                    last = self.last_step(mode)
                    if self.loaded_all_steps and step >= last:
                        raise NoMoreData(step, mode, last)
                    raise StepUnavailable(step, mode)

    # Tensors by what they are for (TensorFlow)

    def inputs(self, step: int, mode: ModeKeys = GLOBAL) -> list[Any]:
        """Return the values of the inputs, in the order of their numbers."""
        return self._values(self.tensor_names(step=step, mode=mode, collection=CollectionKeys.INPUTS), step, mode)

    def labels(self, step: int, mode: ModeKeys = GLOBAL) -> list[Any]:
        """Return the values of the labels, in the order of their numbers."""
        return self._values(self.tensor_names(step=step, mode=mode, regex="labels*"), step, mode)

    def predictions(self, step: int, mode: ModeKeys = GLOBAL) -> list[Any]:
        """Return the values of the predictions, in the order of their numbers."""
        return self._values(self.tensor_names(step=step, mode=mode, regex="predictions*"), step, mode)

    # Reading on

    def maybe_refresh(self, name: str | None = None) -> None:
        """Look for news, unless that is switched off or the run has ended."""
        if not self.dynamic_refresh or self.loaded_all_steps:
            return
        if not self._index.has_ended:
            self.refresh_data()
        self._was_read = True

    def refresh_tensor(self, tname: str, steps: object = None) -> None:
        self.refresh_data()

    def refresh_data(self) -> None:
        """Look for news. Steps that a hook of this process has ended are stored before."""
        for hook in hooks_of(self.path):
            hook.flush()
        self._index.refresh()
        arrivals = self._index.arrivals
        if len(arrivals) > self._absorbed:
            for saved in arrivals[self._absorbed :]:
                self._absorb(saved)
            self._absorbed = len(arrivals)

    @property
    def loaded_all_steps(self) -> bool:
        """True once the run will never write again and everything was read.

        False for a trial without earlier calls: loops that go on until it is True then run once, as in the original.
        """
        return self._was_read and self._index.has_ended

    @property
    def last_complete_step(self) -> int:
        """The newest complete step; -1 if none is.

        A step is complete when every worker has saved it, or when missing workers are no longer waited for.
        """
        return -1 if self._index.last_complete is None else self._index.last_complete

    @property
    def last_index_token(self) -> str | None:
        """The path of the last index file that need not be read again."""
        if self.last_complete_step < 0:
            return None
        return f"{self._token_root()}{index_key(self.last_complete_step, _on_disk(max(self.worker_set)))}"

    @property
    def workers_for_global_step(self) -> dict[int, set[str]]:
        """The workers that have saved each step."""
        return {step: {_as_named(worker) for worker in self._index.workers_at(step)} for step in self._index.steps}

    @property
    def global_step_to_tensors_map(self) -> dict[int, set[str]]:
        """The names of the tensors saved at each step."""
        return {step: self._names(step, GLOBAL) for step in self._global_to_mode}

    @property
    def mode_to_tensors_map(self) -> dict[ModeKeys, set[str]]:
        """The names of the tensors saved in each mode, without GLOBAL."""
        return {mode: self._names(None, mode) for mode in self._mode_to_global}

    @property
    def last_event_token(self) -> None:
        """None: event files are never listed, for the index has their places."""

    @cached_property
    def index_reader(self) -> IndexReader:
        """The reader of the index files, for scripts that go below the trial."""
        return self._make_index_reader()

    # For Tensor

    @property
    def arrivals(self) -> Sequence[SavedStep]:
        """The saved steps of all workers, in the order found."""
        return self._index.arrivals

    def contents(self, saved: SavedStep) -> Mapping[str, Content]:
        """Return the content of a worker's step, by tensor: values, reductions and shapes alike."""
        found = self._contents.get(saved.layout)
        if found is None:
            found = self._contents[saved.layout] = _content_of(saved.layout)
            for name in found:
                if name not in self._tensors:
                    self._tensors[name] = Tensor(name, trial=self, cache=self.cache)
        return found

    def worker_name(self, saved: SavedStep) -> str:
        return _as_named(saved.worker)

    def is_complete(self, step: int) -> bool:
        """Return True for a step that every worker has saved, or for which missing workers are no longer waited for."""
        return step <= self.last_complete_step or len(self._index.workers_at(step)) == self.num_workers

    def places_of(self, step: int) -> Iterable[tuple[ModeKeys, int]]:
        """Return (mode, step) for a step of the run: in GLOBAL, and in its own mode."""
        mode, mode_step = self._global_to_mode[step]
        return ((GLOBAL, step),) if mode is GLOBAL else ((GLOBAL, step), (mode, mode_step))

    def known_global_step(self, mode: ModeKeys, step: int) -> int | None:
        """Return the same as `global_step`, without looking for news."""
        return step if mode is GLOBAL else self._mode_to_global.get(mode, {}).get(step)

    def last_step(self, mode: ModeKeys) -> int:
        """Return the last step seen; -1 for none."""
        return self._steps[mode].last() if mode in self._steps else -1

    def fetch(self, saved: SavedStep, record: str, *, step_num: int, mode: ModeKeys) -> Any:
        """Return a record's value. Wait for an event file that comes after its index, as is possible on S3.

        Raises:
            TensorUnavailableForStep: The record is missing or damaged.
        """
        saved = self._written_again.get((saved.step, saved.worker), saved)
        if record not in saved.layout.records:
            raise TensorUnavailableForStep(record, step_num, mode)
        start, length = saved.layout.records[record]
        tries = 0
        while True:
            try:
                return self._decoded(
                    saved, record, fetch_record(self._store, saved.event_key, start=start, length=length)
                )
            except KeyNotFoundError as error:
                tries += 1
                if tries > self._settings.missing_file_tries or self._is_lost(saved):
                    raise TensorUnavailableForStep(record, step_num, mode) from error
                self._sleep(POLL_SECONDS)
            except RecordError as error:
                raise TensorUnavailableForStep(record, step_num, mode) from error

    # Within

    def _wait_for_collections(self) -> tuple[CollectionManager, set[str]]:
        is_first = True
        for hook in hooks_of(self.path):
            hook.flush()
        while True:
            has_ended = self._store.exists(END_MARKER_KEY)
            keys = [key for key in self._store.list(COLLECTIONS_PREFIX) if parse_collections_key(key)]
            manager = self._read_collections(keys)
            if manager is not None and len(keys) >= manager.get_num_workers():
                return manager, {_as_named(parse_collections_key(key) or "") for key in keys}
            if has_ended:
                raise MissingCollectionFiles
            if is_first:
                self.logger.warning(
                    f"Waiting for the collections files of {self.path}. If no training is running, look whether this "
                    "is the folder that holds 'collections', 'index' and 'events'."
                )
            is_first = False
            self._sleep(POLL_SECONDS)

    def _read_collections(self, keys: list[str]) -> CollectionManager | None:
        """Return the collections of the first worker, with the tensors that others name."""
        found: CollectionManager | None = None
        for key in keys:
            content = self._store.get(key, length=MOST_JSON_BYTES + 1)
            decode_collections(content, key=key)  # an error that names the file, where it is none
            manager = CollectionManager.load_from_string(content.decode("utf-8"))
            if found is None:
                found = manager
            for name, collection in manager.collections.items():
                if name in found.collections:
                    found.collections[name].tensor_names |= collection.tensor_names
        return found

    def _absorb(self, saved: SavedStep) -> None:
        mode = ModeKeys[saved.mode]
        self.contents(saved)
        if saved.step not in self._global_to_mode:
            self._global_to_mode[saved.step] = (mode, saved.mode_step)
            self._steps.setdefault(GLOBAL, Steps()).add(saved.step)
        if mode is GLOBAL:
            return
        steps = self._mode_to_global.setdefault(mode, {})
        if saved.mode_step not in steps:
            steps[saved.mode_step] = saved.step
            self._steps.setdefault(mode, Steps()).add(saved.mode_step)
        self._layouts_in_mode.setdefault(mode, set()).add(saved.layout)

    def _decoded(self, saved: SavedStep, record: str, data: bytes) -> Any:
        """Return the record's value. If it is damaged, read it again at the place in the step's present index."""
        try:
            return self._reader.decode(saved, record, data)
        except RecordError as damage:
            found = self._reader.again(saved, record, damage)
            self._written_again[saved.step, saved.worker] = found.saved
            return found.value

    def _all_names(self) -> list[str]:
        if len(self._sorted_names) != len(self._tensors):
            self._sorted_names = sorted(self._tensors)
        return self._sorted_names.copy()

    def _names(self, step: int | None, mode: ModeKeys) -> set[str]:
        if step is None:
            if mode is GLOBAL:
                return set(self._tensors)
            return set[str]().union(*(self._contents[layout] for layout in self._layouts_in_mode.get(mode, ())))
        at = self.known_global_step(mode, step)
        saved = () if at is None else self._index.saved(at).values()
        return set[str]().union(*(self.contents(each) for each in saved))

    def _collection_called(self, collection: str | Collection) -> Collection:
        if not isinstance(collection, (str, Collection)):
            raise TypeError(f"Invalid argument type for collection {type(collection)}")
        name = collection if isinstance(collection, str) else collection.name
        return self.collection_manager.collections.get(name) or Collection(name)

    def _is_complete_in(self, mode: ModeKeys, step: int) -> bool:
        at = self.known_global_step(mode, step)
        return at is not None and self.is_complete(at)

    def _state_of(self, step: int, mode: ModeKeys) -> StepState:
        steps = self._steps.get(mode)
        later = None if steps is None else steps.from_on(step)
        if later is None:
            return StepState.UNAVAILABLE if self.loaded_all_steps else StepState.NOT_YET_AVAILABLE
        if later == step:
            return StepState.AVAILABLE if self._is_complete_in(mode, step) else StepState.NOT_YET_AVAILABLE
        at = self.known_global_step(mode, later)
        is_past = at is not None and self.last_complete_step >= at
        return StepState.UNAVAILABLE if is_past else StepState.NOT_YET_AVAILABLE

    def _values(self, names: list[str], step: int, mode: ModeKeys) -> list[Any]:
        return [self.tensor(name).value(step, mode=mode) for name in sorted(names, key=_number)]

    def _is_lost(self, saved: SavedStep) -> bool:
        """Return True if the event file will never come: the run has ended, or its worker has written a later one."""
        if self._store.exists(END_MARKER_KEY):
            return True
        later = map(parse_event_key, self._store.list(EVENTS_PREFIX, start_after=saved.event_key))
        return any(found is not None and found[1] == saved.worker for found in later)

    def _report(self, error: RecordError) -> None:
        self.logger.warning(f"Left out, as it cannot be read: {error}")

    def _make_index_reader(self) -> IndexReader:
        return LocalIndexReader(self.path)

    def _token_root(self) -> str:
        return f"{self.path.rstrip('/')}/"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes this trial again: a copy opens the run anew."""
        return _opened_again, (type(self), self._arguments(), self.dynamic_refresh, self.collection_manager)

    def _arguments(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dirname": self.path,
            "range_steps": self.range_steps,
            "parallel": self.parallel,
            "check": self.check,
            "index_mode": self.index_mode,
            "cache": self.cache,
        }

    def __hash__(self) -> int:
        return hash((self.name, self.path))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trial):
            return NotImplemented
        return (self.name, self.path) == (other.name, other.path)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__module__}.{type(self).__name__} object at {hex(id(self))}>:(\n"
            f"    name={self.name},\n"
            f"    path={self.path},\n"
            f"    steps={self.steps()},\n"
            f"    collections={list(self.collections())},\n"
            f"    tensor_names={self.tensor_names()},\n"
            ")"
        )


def _opened_again(
    kind: Callable[..., Trial], arguments: Mapping[str, Any], dynamic_refresh: bool, collections: CollectionManager
) -> Trial:
    trial = kind(**arguments)
    trial.dynamic_refresh, trial.collection_manager = dynamic_refresh, collections
    return trial


def _checked_range(range_steps: RangeSteps) -> tuple[int, int | None]:
    if range_steps is None:
        return 0, None
    begin, end = range_steps
    for bound in (begin, end):
        if not (bound is None or (isinstance(bound, int) and bound >= 0)):
            raise AssertionError(f"range_steps={range_steps}: {bound!r} must be None or a whole number from 0.")
    if begin is not None and end is not None and end <= begin:
        raise AssertionError(f"range_steps={range_steps} must be (begin, end) where begin is less than end")
    return begin or 0, end


def _content_of(layout: Layout) -> dict[str, Content]:
    found: dict[str, Content] = {}
    for record in (*layout.records, *layout.shapes):
        if REDUCTIONS_PREFIX in record and record in layout.records:
            base, name, is_abs = reverse_reduction_tensor_name(record)
            found.setdefault(base, Content()).reductions[name, is_abs] = record
        else:
            found.setdefault(record, Content())
    return found


def _flat(regex: str | re.Pattern[str] | list[Any]) -> list[str | re.Pattern[str]]:
    """Return the regexes in a regex or in nested lists."""
    flat: list[str | re.Pattern[str]] = []
    waiting = deque([regex])
    while waiting:
        each = waiting.popleft()
        if isinstance(each, (str, re.Pattern)):
            flat.append(each)
        else:
            waiting.extend(each)
    return flat


def _matches(name: str, regexes: Iterable[str | re.Pattern[str]]) -> bool:
    return any((name_pattern(regex) if isinstance(regex, str) else regex).search(name) for regex in regexes)


def _number(name: str) -> int:
    """Return the number at the end of `inputs_3`; 0 for a name without."""
    match = re.search(r"_(\d+)$", name)
    return int(match[1]) if match else 0


def _as_named(worker: str) -> str:
    """Return TensorFlow's device for its spelling in file names: `_job-worker_task-1` -> `/job:worker/task:1`."""
    return worker.replace("_", "/").replace("-", ":") if worker.startswith("_") else worker


def _on_disk(worker: str) -> str:
    return worker.replace("/", "_").replace(":", "-") if worker.startswith("/") else worker


__getattr__ = not_offered.attribute_of(__name__)
