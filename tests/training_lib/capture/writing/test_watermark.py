"""What a watermark covers is stored before it, whatever fails in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training_lib.capture.object_store import GrowingStore, ObjectStore
from tests.training_lib.marked_run import MINE, Clock, Content, Place, Process
from trackside.capture.ground.guard import Guard
from trackside.capture.steps.step_engine import Position
from trackside.capture.writing.watermark import (
    FIRST_RETRY_SECONDS,
    LAST_RETRY_SECONDS,
    SIGN_OF_LIFE_SECONDS,
    YOUNG_SECONDS,
    MarkedParts,
    ModeSteps,
    Progress,
    WatermarkFile,
)
from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.run_layout import parse_watermark_key, watermark_key
from trackside.records.watermark import NOTHING_YET, Watermark, decode_watermark
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.testing.fake_trial import write_watermark
from trackside.trial.trial import Trial

ROW, VALUE = "row", "value"


@dataclass
class Promised:
    """What the training has handed on, by worker and step, and is not lost."""

    rows: dict[tuple[str, int], float] = field(default_factory=dict)
    tensors: dict[tuple[str, int], float] = field(default_factory=dict)

    def forget_beyond(self, worker: str, through: int) -> None:
        """The worker was killed: nobody has promised what lies beyond its watermark."""
        for promised in (self.rows, self.tensors):
            for key in [key for key in promised if key[0] == worker and key[1] > through]:
                del promised[key]


def read_marks(store: MemoryStore) -> dict[str, Watermark]:
    found = ((key, worker) for key in store.list() if (worker := parse_watermark_key(key)))
    return {worker: decode_watermark(store.get(key), key=key, worker=worker) for key, worker in found}


def check(place: Place, promised: Promised) -> None:
    """A reader that comes now finds everything at and below the watermarks."""
    marks = read_marks(place.marks)
    trial = Trial(place.tensors, place.statistics, place.marks)
    trial.refresh()
    assert trial.damaged == ()
    columns = trial.columns(ROW, VALUE, last_step=2**62, mode=None) if (ROW in trial.names) else ()
    rows = {(c.worker, int(s)): float(v) for c in columns for s, v in zip(c.steps, c.values, strict=True)}
    mine = set(trial.tensor_names(collection=MINE))
    for (worker, step), value in promised.rows.items():
        if worker in marks and step <= marks[worker].through:
            assert rows.get((worker, step)) == value, f"row of {worker}, step {step}"
    for (worker, step), value in promised.tensors.items():
        if worker in marks and step <= marks[worker].through:
            name = f"mine/{step}"
            assert name in mine, f"{name} of {worker} is in no collection"
            assert trial.value(name, step=step, worker=worker).tolist() == [value]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["train", "train", "train", "hold", "arrive", "store", "store", "flush", "flush", "kill", "fail"]
        ),
        st.integers(0, 1),  # worker
        st.integers(0, 3),  # of a step: whether it has a row, and tensors; of failures: how many
        st.sampled_from(["", "index/", "events/", "collections/", ".tss", "worker_", "state/", ".json"]),
    ),
    max_size=40,
)


class Scenario:
    """Workers of a run whose store fails on order; after each request, a reader looks at what is there."""

    def __init__(self, workers: int, store_type: type[ObjectStore], *, arrives: bool) -> None:
        self._store_type, self._arrives = store_type, arrives
        self._failing: list[str] = []
        self._value = 0.0
        self.place, self.promised = Place(workers), Promised()
        place = self.place
        places = (place.tensors, place.statistics, place.marks)
        place.to_tensors, place.to_statistics, place.to_marks = map(self._wrapped, places)
        self.processes = [start_again(place, rank) for rank in range(workers)]

    def train(self, process: Process, what: int, _pattern: str, *, holds_row: bool = False) -> None:
        self._value += 1.0
        worker, step = f"worker_{process.rank}", process.step
        row = {(ROW, VALUE): self._value} if what & 1 else {}
        tensors = {f"mine/{step}": np.array([self._value])} if what & 2 else {}
        process.train(Content(row=row, tensors=tensors), holds_row=holds_row)
        self.promised.rows.update({(worker, step): self._value} if row else {})
        self.promised.tensors.update({(worker, step): self._value} if tensors else {})

    def hold(self, process: Process, what: int, pattern: str) -> None:
        self.train(process, what, pattern, holds_row=True)

    def arrive(self, process: Process, _what: int, _pattern: str) -> None:
        process.arrive()

    def store(self, process: Process, _what: int, _pattern: str) -> None:
        if not process.queue:
            return
        step = process.queue[0].step
        key = f"worker_{process.rank}", step
        value = self.promised.tensors.pop(key)  # it may be lost from the moment at which a request fails
        process.store()
        if step not in process.lost:
            self.promised.tensors[key] = value

    def flush(self, process: Process, _what: int, _pattern: str) -> None:
        process.flush()

    def fail(self, _process: Process, what: int, pattern: str) -> None:
        self._failing.extend([pattern] * what)

    def kill(self, _process: Process, _what: int, _pattern: str) -> None:
        """One takes the others with it."""
        self._failing.clear()
        for process in self.processes:
            self.promised.forget_beyond(f"worker_{process.rank}", self.place.through(process.rank))
        self.processes = [start_again(self.place, process.rank) for process in self.processes]

    def end(self) -> None:
        self._failing.clear()
        for process in reversed(self.processes):
            process.end()

    def check(self) -> None:
        check(self.place, self.promised)

    def _wrapped(self, inner: MemoryStore) -> Store:
        store = self._store_type(inner)
        store.fails, store.arrives = self._fails, self._arrives
        store.before = lambda _operation, _key: self.check()
        return store

    def _fails(self, operation: str, key: str) -> bool:
        if self._failing and operation in {"put", "append", "delete"} and self._failing[0] in key:
            self._failing.pop(0)
            return True
        return False


@pytest.mark.parametrize("store_type", [ObjectStore, GrowingStore])
@pytest.mark.parametrize("arrives", [False, True], ids=["fails", "fails-and-arrives"])
@settings(max_examples=40, deadline=None)
@given(operations=OPERATIONS, workers=st.integers(1, 2))
def test_everything_below_a_watermark_can_be_read_at_every_moment(
    store_type: type[ObjectStore], arrives: bool, operations: list[tuple[str, int, int, str]], workers: int
) -> None:
    scenario = Scenario(workers, store_type, arrives=arrives)
    for operation, number, what, pattern in operations:
        getattr(scenario, operation)(scenario.processes[number % workers], what, pattern)
        scenario.check()
    scenario.end()
    scenario.check()
    for process in scenario.processes:
        assert scenario.place.through(process.rank) == process.step - 1


def start_again(place: Place, rank: int) -> Process:
    process = Process(place, rank)
    assert process.step > place.through(rank)
    return process


class Part:
    """A part of the writer that says what it does, and fails as it is told."""

    def __init__(self, says: Callable[[str], object], error: Exception | None = None) -> None:
        self._says, self.error, self.due_in_seconds = says, error, 0.0

    def flush_if_due(self) -> bool:
        return True

    def flush(self) -> None:
        self._says("flush")
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self._says("close")
        if self.error is not None:
            raise self.error


class World:
    """A watermark over two parts, with the training and the clock in our hands."""

    def __init__(self, *, store: ObjectStore | None = None, **pace: Any) -> None:
        self._pace = pace
        self.store, self.clock, self.guard = store or ObjectStore(), Clock(0.0), Guard()
        self.said: list[str] = []
        self.store.before = lambda operation, key: self.said.append(operation) if operation == "put" else None
        self.parts = Part(self.said.append), Part(self.said.append)
        self.step, self.unstored, self.start = 0, [None], Position()
        self.marked = self.begin()

    def begin(self, started_ms: int = 1) -> MarkedParts:
        return MarkedParts(
            WatermarkFile(lambda: self.store, worker="worker_0", workers=1, started_ms=started_ms),
            self.parts,
            progress=Progress(self._handed_on, lambda: self.unstored[0], lambda: self.start),
            mode_steps=ModeSteps(),
            guard=self.guard,
            monotonic=self.clock,
            clock=self.clock,
            **self._pace,
        )

    @property
    def mark(self) -> Watermark:
        return read_marks(self.store.inner)["worker_0"]

    def _handed_on(self) -> int:
        self.said.append("look")
        return self.step - 1


def test_the_order_of_a_flush() -> None:
    world = World()
    world.step = 5
    world.marked.flush()
    assert world.said == ["put", "look", "flush", "flush", "put"]  # the first one announces
    world.step = 6
    world.marked.close()
    assert world.said[5:] == ["look", "close", "close", "put"]
    assert (world.mark.through, world.mark.sequence, world.mark.is_final) == (5, 3, True)


def test_a_step_that_is_not_stored_holds_it_back() -> None:
    world = World()
    world.step, world.unstored = 10, [7]  # type: ignore[list-item]
    world.marked.flush()
    assert world.mark.through == 6
    world.unstored = [None]
    world.marked.flush()
    assert world.mark.through == 9


def test_it_never_goes_back() -> None:
    world = World()
    world.step = 10
    world.marked.flush()
    world.unstored = [3]  # type: ignore[list-item]
    world.marked.flush()
    assert world.mark.through == 9


def test_without_news_there_is_a_sign_of_life_now_and_then() -> None:
    world = World()
    world.step = 3
    world.marked.flush()
    first = world.mark
    for _ in range(int(SIGN_OF_LIFE_SECONDS) - 1):
        world.clock.now += 1.0
        assert world.marked.flush_if_due()
    assert world.mark == first
    world.clock.now += 1.0
    world.marked.flush_if_due()
    second = world.mark
    assert (second.through, second.sequence, second.stored_at) == (2, first.sequence + 1, SIGN_OF_LIFE_SECONDS)


def test_a_process_that_has_run_for_ten_minutes_flushes_less_often() -> None:
    world = World(flush_seconds=1.5, settled_flush_seconds=5.0)
    pauses = set()
    for moment in range(0, int(YOUNG_SECONDS) + 60, 15):
        world.clock.now = float(moment)
        world.marked.flush()
        pauses.add((moment < YOUNG_SECONDS, world.marked.due_in_seconds))
    assert pauses == {(True, 1.5), (False, 5.0)}


@pytest.mark.parametrize("place", [0, 1])
def test_an_outage_of_a_part_holds_it_back_and_the_other_part_is_flushed(place: int) -> None:
    world = World()
    world.step = 4
    world.parts[place].error = StorageUnavailableError("The store is away.")
    with pytest.raises(StorageUnavailableError):
        world.marked.flush()
    assert world.said == ["put", "look", "flush", "flush"]
    assert world.mark.through == NOTHING_YET
    waits = []
    for _ in range(9):
        waits.append(world.marked.due_in_seconds)
        world.clock.now += world.marked.due_in_seconds
        with pytest.raises(StorageUnavailableError):
            world.marked.flush_if_due()
    assert (waits[0], waits[1], waits[-1]) == (FIRST_RETRY_SECONDS, 2 * FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS)
    world.parts[place].error = None
    world.marked.flush()
    assert world.mark.through == 3


@pytest.mark.parametrize("place", [0, 1])
def test_a_part_that_is_broken_is_given_up_and_the_watermark_goes_on(
    place: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.step = 4
    world.parts[place].error = ZeroDivisionError("ours")
    world.marked.flush()
    assert world.mark.through == 3
    assert "Part is switched off" in caplog.text
    world.said.clear()
    world.step = 5
    world.marked.flush()
    assert world.said == ["look", "flush", "put"]


@pytest.mark.parametrize("fails_at", [1, 2])
@pytest.mark.parametrize("arrives", [True, False])
def test_a_watermark_that_could_not_be_stored_is_stored_with_the_next_flush(fails_at: int, arrives: bool) -> None:
    world = World()
    world.step = 4
    puts = []

    def fails(operation: str, key: str) -> bool:
        puts.append(operation)
        return operation == "put" and puts.count("put") == fails_at

    world.store.fails, world.store.arrives = fails, arrives
    with pytest.raises(StorageUnavailableError):
        world.marked.flush()
    world.marked.flush()
    assert world.mark.through == 3
    numbers = world.mark.sequence
    world.step = 5
    world.marked.flush()
    assert (world.mark.through, world.mark.sequence) == (4, numbers + 1)


def test_a_capture_that_was_switched_off_says_that_nothing_more_comes(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.step = 4
    world.marked.flush()
    assert not world.mark.is_final
    world.guard.switch_off("reading a loss", ValueError("ours"))
    world.step = 7
    world.marked.flush()
    assert (world.mark.through, world.mark.is_final) == (6, True)


def test_a_later_process_goes_on_behind_it() -> None:
    world = World()
    write_watermark(
        world.store.inner,
        Watermark("worker_0", 1, 5, sequence=7, through=41, mode_steps={"TRAIN": 40}, is_final=True, saved_steps=3),
    )
    world.marked.flush()
    mark = world.mark
    assert (mark.through, mark.mode_steps, mark.is_final, mark.started_ms) == (41, {"TRAIN": 40}, False, 1)
    assert mark.sequence == 9  # announced, and flushed
    world.start = Position(42, {"TRAIN": 41})
    world.step = 3
    world.marked.flush()
    assert world.mark.through == 44


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 100])
def test_a_damaged_one_of_an_earlier_process_is_replaced(content: bytes) -> None:
    world = World()
    world.store.inner.put(watermark_key("worker_0"), content)
    world.marked.flush()
    assert world.mark.through == NOTHING_YET


def test_the_last_step_of_each_mode_is_that_of_the_steps_it_covers() -> None:
    steps = ModeSteps()
    steps.note([(0, "TRAIN", 0), (1, "TRAIN", 1), (2, "EVAL", 0), (3, "TRAIN", 2)])
    assert steps.through(-1) == {}
    assert steps.through(1) == {"TRAIN": 1}
    assert steps.through(2) == {"TRAIN": 1, "EVAL": 0}
    steps.note([(3, "TRAIN", 2), (4, "EVAL", 1)])
    assert steps.through(9) == {"TRAIN": 2, "EVAL": 1}


def test_nothing_is_published_by_a_process_that_may_not_write() -> None:
    """A run that has ended is not written any more."""
    place = Place()
    first = Process(place)
    first.train(Content(row={(ROW, VALUE): 1.0}, tensors={"mine/0": np.array([1.0])}))
    first.end()
    before = place.marks.get(watermark_key("worker_0"))
    with pytest.raises(Exception, match="ended"):
        Process(place)
    assert place.marks.get(watermark_key("worker_0")) == before


def test_it_is_announced_before_anything_else_is_stored() -> None:
    order: list[str] = []

    def wrapped(inner: MemoryStore) -> Store:
        store = GrowingStore(inner)
        store.before = lambda operation, key: order.append(key) if operation in {"put", "append"} else None
        return store

    process = Process(Place(wrapped=wrapped))
    process.train(Content(row={(ROW, VALUE): 1.0}, tensors={"mine/0": np.array([1.0])}))
    process.store()
    process.flush()
    assert order[0] == watermark_key("worker_0")
    assert order[-1] == watermark_key("worker_0")
    assert len(order) > 3


def test_a_collections_file_that_could_not_be_stored_holds_it_back() -> None:
    """The step is stored, not lost; a reader who sees it later must see the same of it."""
    is_away = True

    def wrapped(inner: MemoryStore) -> Store:
        store = GrowingStore(inner)
        store.fails = lambda operation, key: is_away and operation == "put" and key.startswith("collections/")
        return store

    place = Place(wrapped=wrapped)
    process = Process(place)
    process.train(Content(tensors={"mine/0": np.array([1.0])}))
    process.store()
    assert process.lost == set()
    process.flush()
    assert place.through(0) == NOTHING_YET
    is_away = False
    process.flush()
    assert place.through(0) == 0
    mark = read_marks(place.marks)["worker_0"]
    assert (mark.saved_steps, mark.collections) == (1, 1)


def test_steps_are_handed_on_by_another_thread_meanwhile() -> None:
    """However the training thread is interleaved, what it hands on after the look is not covered."""
    place = Place()
    process = Process(place)
    promised = Promised()
    recorded = threading.Event()

    def train() -> None:
        for step in range(300):
            value = float(step)
            promised.rows["worker_0", step] = value
            process.train(Content(row={(ROW, VALUE): value}))
        recorded.set()

    thread = threading.Thread(target=train)
    thread.start()
    while not recorded.is_set():
        process.flush()
        marked = place.through(0)
        trial = Trial(place.tensors, place.statistics, place.marks)
        trial.refresh()
        columns = trial.columns(ROW, VALUE, last_step=marked, mode=None) if marked >= 0 else ()
        assert [int(s) for c in columns for s in c.steps] == [*range(marked + 1)]
    thread.join()
    process.flush()
    assert place.through(0) == 299
    check(place, promised)
