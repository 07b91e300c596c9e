"""How far a run is, read from the watermarks of its workers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.training_lib.marked_run import Content, Place, Process
from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.contracts.errors import RecordError, StorageUnavailableError
from trackside.contracts.run_layout import watermark_key, worker_name
from trackside.records.watermark import MOST_BYTES, NOTHING_YET, Watermark, encode_watermark
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Version, get_if_changed
from trackside.testing.fake_trial import end_run, write_collections, write_tensors, write_watermark
from trackside.trial.steps.watermarks import GONE_SECONDS, QUIET_SECONDS, Watermarks
from trackside.trial.trial import Trial

LOSS = "Loss_output_0"
STARTED_MS = 1_700_000_000_000


class Remote(MemoryStore):
    """As a store to which each question is a request, which are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.before: Callable[[str, str], None] = lambda _operation, _key: None

    @property
    def uri(self) -> str:
        return "s3://runs/a"

    def get_if_changed(self, key: str, *, tag: str, length: int | None = None) -> Version | None:
        self._note("get", key)
        inner = MemoryStore()
        inner.put(key, super().get(key, length=length))
        return get_if_changed(inner, key, tag=tag)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self._note("get", key)
        return super().get(key, start=start, length=length)

    def exists(self, key: str) -> bool:
        self._note("exists", key)
        return super().exists(key)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        self._note("list", prefix)
        return super().list(prefix, start_after=start_after)

    def taken(self) -> Sequence[str]:
        asked, self.asked = self.asked, []
        return asked

    def _note(self, operation: str, key: str) -> None:
        self.before(operation, key)
        self.asked.append(f"{operation} {key}".rstrip())


class World:
    """Watermarks of a few workers, a reader of them, and a clock that only we move."""

    def __init__(self, workers: int = 1) -> None:
        self.store, self.now, self.workers = Remote(), 0.0, workers
        self._numbers = itertools.count()
        self.damage: list[RecordError] = []
        self.reader = Watermarks(self.store, report=self.damage.append, clock=lambda: self.now)

    def mark(self, number: int, through: int, *, is_final: bool = False) -> None:
        mark = Watermark(worker_name(number), self.workers, 1, next(self._numbers), through, is_final=is_final)
        write_watermark(self.store, mark)

    def look(self, *, after: float = 0.0) -> int:
        self.now += after
        self.reader.refresh()
        return self.reader.through


def test_before_the_first_watermark_there_is_nothing() -> None:
    world = World()
    assert world.look() == NOTHING_YET
    assert not world.reader.were_found
    assert world.store.taken() == ["get worker_0.json"]
    assert not world.reader.find()


def test_a_look_with_nothing_new_is_one_conditional_get_however_many_workers_there_are() -> None:
    world = World(8)
    for number in range(8):
        world.mark(number, 5)
    assert world.look() == 5
    world.store.taken()
    for _ in range(3):
        assert world.look() == 5
        assert len(world.store.taken()) == 1


def test_the_worker_that_holds_the_others_back_is_asked_for_first() -> None:
    world = World(3)
    for number, through in enumerate((9, 4, 7)):
        world.mark(number, through)
    assert world.look() == 4
    world.store.taken()
    world.mark(0, 20)
    assert world.look() == 4
    assert world.store.taken() == ["get worker_1.json"]
    world.mark(1, 30)
    assert world.look() == 7
    assert world.store.taken() == ["get worker_1.json", "get worker_2.json"]
    world.mark(2, 12)
    assert world.look() == 12
    assert world.store.taken() == ["get worker_2.json", "get worker_0.json"]


def test_a_worker_that_was_never_seen_is_waited_for() -> None:
    world = World(2)
    world.mark(0, 9)
    assert world.look() == NOTHING_YET
    world.mark(1, 3)
    assert world.look() == 3


def test_the_first_worker_to_come_may_be_any() -> None:
    world = World(2)
    world.mark(1, 3)
    assert world.look() == NOTHING_YET
    assert world.reader.find()
    assert world.reader.through == NOTHING_YET
    world.mark(0, 5)
    assert world.look() == 3


@pytest.mark.parametrize("has_begun", [True, False], ids=["fell-silent", "never-came"])
def test_a_worker_that_gives_no_sign_of_life_is_gone(has_begun: bool) -> None:
    world = World(2)
    world.mark(0, 9)
    if has_begun:
        world.mark(1, 3)
    expected = 3 if has_begun else NOTHING_YET
    assert world.look() == expected
    assert world.look(after=GONE_SECONDS - 1) == expected
    assert not world.reader.gone
    world.mark(0, 12)
    assert world.look(after=1) == 12
    assert world.reader.gone == {"worker_1"}
    world.mark(1, 11)  # here it is after all, and waited for again
    world.mark(0, 15)
    assert world.look() == 12
    assert not world.reader.gone
    world.mark(1, 14)
    assert world.look() == 14


def test_a_silent_worker_that_was_not_looked_at_is_gone_at_once() -> None:
    """Its watermark is at least as old as our copy of it."""
    world = World(2)
    world.mark(0, 1)
    world.mark(1, 9)
    assert world.look() == 1
    world.mark(0, 20)
    assert world.look(after=GONE_SECONDS) == 20
    assert world.reader.gone == {"worker_1"}


def test_one_that_lives_is_not_gone_though_nobody_looked() -> None:
    world = World(2)
    world.mark(0, 1)
    world.mark(1, 9)
    assert world.look() == 1
    world.mark(0, 20)
    world.mark(1, 10)
    assert world.look(after=10 * GONE_SECONDS) == 10
    assert not world.reader.gone


def test_nobody_is_gone_where_nothing_happens() -> None:
    world = World()
    world.mark(0, 4)
    assert world.look() == 4
    assert world.look(after=10 * GONE_SECONDS) == 4
    world.mark(0, 5)
    assert world.look() == 5
    assert not world.reader.gone


def test_a_worker_that_stores_nothing_more_is_not_waited_for() -> None:
    world = World(2)
    world.mark(0, 9)
    world.mark(1, 3, is_final=True)
    assert world.look() == 9
    world.mark(0, 12, is_final=True)
    assert world.look() == 12


def test_a_later_process_of_a_worker_is_waited_for_again() -> None:
    world = World(2)
    world.mark(0, 9)
    world.mark(1, 3, is_final=True)
    assert world.look() == 9
    world.mark(1, 9)
    world.mark(0, 20)
    assert world.look() == 9  # with news of others it is asked for too
    world.mark(0, 30)
    assert world.look() == 9
    world.mark(1, 25)
    assert world.look() == 25


def test_it_never_goes_back() -> None:
    world = World()
    world.mark(0, 9)
    assert world.look() == 9
    world.mark(0, 3)
    assert world.look() == 9


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b" " * (MOST_BYTES + 1)])
def test_a_damaged_watermark_is_told_of_and_the_next_one_read(data: bytes) -> None:
    world = World(2)
    world.mark(0, 9)
    world.mark(1, 3)
    world.look()
    world.store.put(watermark_key("worker_1"), data)
    assert world.look() == 3
    assert [error.key for error in world.damage] == ["worker_1.json"]
    world.mark(1, 5)
    assert world.look() == 5


def test_a_foreign_key_is_passed_over() -> None:
    world = World()
    for key in ("worker_0.txt", "a/worker_0.json", ".json"):
        world.store.put(key, b"?")
    assert not world.reader.find()
    assert not world.damage


def test_the_end_is_asked_for_when_all_say_so_or_nothing_is_new_for_a_while() -> None:
    world = World(2)
    for number in range(2):
        world.mark(number, 4)
    world.look()
    assert not world.reader.is_end_marker_due()
    for _ in range(3):
        world.look(after=QUIET_SECONDS - 1)
        assert not world.reader.is_end_marker_due()
        world.look(after=1)
        assert world.reader.is_end_marker_due()
    world.mark(0, 5)
    world.mark(1, 5, is_final=True)
    world.look()
    assert not world.reader.is_end_marker_due()
    world.mark(0, 6, is_final=True)
    world.look()
    for _ in range(3):
        assert world.reader.is_end_marker_due()


# What a trial makes of them.


class Run:
    """A run that grows, at a store that notes what it is asked."""

    def __init__(self) -> None:
        self.tensors, self.statistics, self.marks = Remote(), Remote(), Remote()
        write_collections(self.tensors)
        self.log = StatisticsLog(self.statistics, worker="worker_0", started_ms=STARTED_MS)
        self.log.flush()
        self.mark_now = Watermark("worker_0", started_ms=STARTED_MS)
        self.mark(-1)
        self.trial = Trial(self.tensors, self.statistics, self.marks, clock=lambda: 0.0)

    def mark(self, through: int, **changes: object) -> None:
        segments = tuple(self.log.newest_segments)
        sequence = self.mark_now.sequence + 1
        self.mark_now = replace(self.mark_now, through=through, sequence=sequence, segments=segments, **changes)  # type: ignore[arg-type]  # a table of fields
        self.marks.put(watermark_key("worker_0"), encode_watermark(self.mark_now))

    def save(self, step: int) -> None:
        write_tensors(self.tensors, step, {LOSS: float(step)})

    def record(self, *steps: int) -> None:
        for step in steps:
            self.log.record({(LOSS, "max"): float(step)}, step=step, mode="TRAIN", mode_step=step, wall_time=1.7e9)
        self.log.flush()

    def steps(self) -> list[int]:
        self.trial.refresh()
        return [*self.trial.new_complete_steps(-1)]


def test_what_is_not_covered_is_not_complete() -> None:
    run = Run()
    run.save(0)
    run.record(0, 1, 2)
    assert run.steps() == []
    run.mark(1, saved_steps=1)
    assert run.steps() == [0, 1]
    run.mark(2)
    assert run.steps() == [0, 1, 2]


@pytest.mark.parametrize("is_announced", [True, False], ids=["announced-before", "announced-while-one-looks"])
def test_steps_that_no_watermark_has_passed_are_not_complete_at_the_first_look(is_announced: bool) -> None:
    run = Run()
    if not is_announced:
        run.marks.delete(watermark_key("worker_0"))

    def announce(operation: str, _key: str) -> None:
        if operation == "list":
            run.mark(-1)

    run.tensors.before = announce if not is_announced else run.tensors.before
    for step in range(4):
        run.save(step)
    assert run.steps() == []
    assert run.trial.steps() == ()
    run.mark(1, saved_steps=4)
    assert run.steps() == [0, 1]


def test_the_rows_of_the_last_flush_are_read_though_the_end_comes_while_one_looks() -> None:
    run = Run()
    run.save(0)
    run.record(0)
    run.mark(0, saved_steps=1)
    assert run.steps() == [0]

    def end(operation: str, _key: str) -> None:
        if operation == "list":
            run.tensors.before = lambda _operation, _key: None
            run.record(2, 3)
            run.mark(3, is_final=True)
            end_run(run.tensors)

    run.save(1)
    run.mark(1, saved_steps=2)
    run.tensors.before = end
    assert run.steps() == [0, 1, 2, 3]
    assert run.trial.has_ended


def test_a_look_that_fails_between_two_stores_is_made_up_for() -> None:
    run = Run()
    run.save(0)
    run.record(0)
    run.mark(0, saved_steps=1)
    assert run.steps() == [0]
    run.save(1)
    run.record(1)
    run.mark(1, saved_steps=2)

    def fail(_operation: str, _key: str) -> None:
        raise StorageUnavailableError("The store is away.")

    run.statistics.before = fail
    with pytest.raises(StorageUnavailableError):
        run.trial.refresh()
    assert [*run.trial.new_complete_steps(-1)] == [0]
    run.statistics.before = lambda _operation, _key: None
    assert run.steps() == [0, 1]
    assert run.trial.columns(LOSS, "max", last_step=9, mode="TRAIN")[0].steps.tolist() == [0, 1]


def test_more_flushes_than_a_watermark_names_are_found() -> None:
    run = Run()
    for step in range(30):
        run.record(step)
    run.mark(29)
    assert run.steps() == [*range(30)]
    for step in range(30, 60):
        run.record(step)
    run.mark(59)
    assert run.steps() == [*range(60)]


def test_a_process_of_which_no_watermark_was_seen_is_found() -> None:
    """It recorded and saved as much as the one before it, and was gone before anybody looked."""
    run = Run()
    run.save(0)
    run.record(0)
    run.mark(0, saved_steps=1)
    assert run.steps() == [0]
    run.log = StatisticsLog(run.statistics, worker="worker_0", started_ms=STARTED_MS + 1)
    run.save(2)
    run.record(1, 2)
    run.log = StatisticsLog(run.statistics, worker="worker_0", started_ms=STARTED_MS + 2)
    run.mark(2, saved_steps=1, started_ms=STARTED_MS + 2)
    assert run.steps() == [0, 1, 2]
    assert run.trial.steps() == (0, 2)


def test_names_are_those_of_the_steps_until_then() -> None:
    run = Run()
    run.save(0)
    write_tensors(run.tensors, 4, {"gradient/Net_1.weight": 1.0})
    run.log.record({("gradient/Net_0.weight", "l2"): 1.0}, step=2, mode="TRAIN", mode_step=2, wall_time=1.7e9)
    run.record(0, 1, 2, 3, 4)
    run.mark(4, saved_steps=2)
    assert run.steps() == [0, 1, 2, 3, 4]
    assert [run.trial.window(step, now=0.0).tensors("gradients") for step in (1, 2, 4)] == [
        (),
        ("gradient/Net_0.weight",),
        ("gradient/Net_0.weight", "gradient/Net_1.weight"),
    ]
    assert run.trial.tensor_names(collection="gradients") == ("gradient/Net_0.weight", "gradient/Net_1.weight")


@pytest.mark.parametrize("has_marks", [True, False])
def test_a_run_that_is_not_watched_is_taken_as_it_lies_there(has_marks: bool) -> None:
    run = Run()
    run.save(0)
    run.record(0, 1, 2)
    trial = Trial(run.tensors, run.statistics, run.marks if has_marks else None, will_grow=False)
    trial.refresh()
    assert [*trial.new_complete_steps(-1)] == [0, 1, 2]
    assert not trial.has_ended


@pytest.mark.parametrize("seed", range(20))
def test_a_second_living_process_of_a_worker_takes_back_nothing_that_was_complete(seed: int) -> None:
    """On S3 nobody can refuse it: both replace the same watermark."""
    chance = random.Random(seed)
    place = Place()
    processes = [Process(place), Process(place)]
    trial = Trial(place.tensors, place.statistics, place.marks, clock=place.clock)
    complete: list[int] = []
    for _ in range(40):
        process = chance.choice(processes)
        if chance.random() < 0.6:
            process.train(Content(row={(LOSS, "max"): 1.0}, tensors={"mine/0": np.ones(1, np.float32)}))
            process.store()
        else:
            place.clock.now += 1.0
            process.flush()
        trial.refresh()
        now_complete = trial.new_complete_steps(-1)
        assert list(now_complete[: len(complete)]) == complete
        complete = list(now_complete)
    for process in processes:
        process.end()
    trial.refresh()
    assert list(trial.new_complete_steps(-1))[: len(complete)] == complete
    assert complete
