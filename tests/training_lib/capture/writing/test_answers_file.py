"""The kept answers as a part of the writer thread: thinned, resumed, damaged."""

from __future__ import annotations

import pytest

from trackside.capture.steps.step_engine import Position
from trackside.capture.writing.answers_file import AnswersFile
from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.run.answers import MOST_STEPS, KeptAnswer
from trackside.contracts.run_layout import answers_key
from trackside.records.answers_file import read_answers
from trackside.storage.memory import MemoryStore

WORKER = "worker_0"


def file_in(store: MemoryStore, *, start: int = 0) -> AnswersFile:
    return AnswersFile(lambda: store, worker=WORKER, start=lambda: Position(start), monotonic=lambda: 100.0)


def answers(number: float) -> tuple[KeptAnswer, ...]:
    return (KeptAnswer("2 + 2 =", "fünf\n", number),)


def test_nothing_is_stored_without_any() -> None:
    store = MemoryStore()
    file = file_in(store)
    file.add(0, ())
    assert not file.flush_if_due()
    file.close()
    assert not list(store.list(""))


def test_they_are_read_back_and_a_later_process_adds_to_them() -> None:
    store = MemoryStore()
    for start in (0, 10):
        file = file_in(store, start=start)
        file.add(1, answers(0.5))
        file.add(2, answers(0.5))  # the same as before: a trainer that logs more often than it generates
        file.add(3, answers(1.0))
        assert file.flush_if_due()
        file.close()
    kept = read_answers(store, WORKER)
    assert [(one.step, one.answers) for one in kept] == [
        (1, answers(0.5)),
        (3, answers(1.0)),
        (11, answers(0.5)),
        (13, answers(1.0)),
    ]


def test_of_many_steps_the_newest_are_all_there() -> None:
    store = MemoryStore()
    file = file_in(store)
    for step in range(10 * MOST_STEPS):
        file.add(step, answers(step))
        if step % 7 == 0:
            file.flush()
    file.close()
    steps = [one.step for one in read_answers(store, WORKER)]
    assert len(steps) <= MOST_STEPS
    assert steps == sorted(steps)
    assert steps[0] < MOST_STEPS
    assert steps[-16:] == list(range(10 * MOST_STEPS - 16, 10 * MOST_STEPS))


def test_a_damaged_file_is_begun_anew() -> None:
    store = MemoryStore()
    store.put(answers_key(WORKER), b"{")
    file = file_in(store)
    file.add(4, answers(1.0))
    file.close()
    assert [one.step for one in read_answers(store, WORKER)] == [4]


class AddedMeanwhile(MemoryStore):
    """A store that the training adds answers beside, and that fails the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.file: AnswersFile | None = None
        self.puts = 0

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self.puts += 1
        if self.file is not None and self.puts < 3:
            self.file.add(10 * self.puts, answers(10.0 * self.puts))
        if self.puts == 1:
            raise StorageUnavailableError("the disk is full")
        super().put(key, data)


def test_what_is_added_while_others_are_stored_is_kept() -> None:
    store = AddedMeanwhile()
    store.file = file = file_in(store)
    file.add(1, answers(1.0))
    with pytest.raises(StorageUnavailableError):
        file.flush()
    file.flush()
    assert file.has_news
    file.close()
    assert [one.step for one in read_answers(store, WORKER)] == [1, 10, 20]
    assert not file.has_news
