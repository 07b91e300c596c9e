"""The last step is held back until the next, and can be added to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trackside.capture.steps.last_step import HeldSteps, LastStep, StepPosition
from trackside.capture.steps.late_tensors import Row, RowLayout
from trackside.capture.steps.step_tensors import StepTensors


class Taken:
    def __init__(self) -> None:
        self.steps: list[StepTensors] = []

    def submit(self, step: StepTensors) -> bool:
        self.steps.append(step)
        return True


def step(number: int) -> StepTensors:
    return StepTensors(number, "TRAIN", number, 1.0, (("a", np.zeros(1)),), due=frozenset({"losses"}))


def held() -> tuple[LastStep, Taken]:
    last, taken = LastStep(clock=lambda: 5.0), Taken()
    last.destination = taken
    return last, taken


def test_hands_on_with_the_next() -> None:
    last, taken = held()
    last.submit(step(0))
    assert taken.steps == []
    last.submit(step(1))
    assert [each.step for each in taken.steps] == [0]
    last.release()
    last.release()
    assert [each.step for each in taken.steps] == [0, 1]


def test_what_is_added_belongs_to_it() -> None:
    last, taken = held()
    last.submit(step(0))
    last.amend(StepPosition(0, "TRAIN", 0), "b", np.ones(1), frozenset({"own"}))
    last.release()
    assert [name for name, _ in taken.steps[0].tensors] == ["a", "b"]
    assert taken.steps[0].collections == {"b": frozenset({"own"})}
    assert taken.steps[0].due == {"losses"}


def test_a_step_that_had_nothing_is_made() -> None:
    last, taken = held()
    last.submit(step(0))
    last.amend(StepPosition(3, "EVAL", 1), "b", np.ones(1), frozenset())
    last.release()
    assert [(each.step, each.mode, each.mode_step, each.wall_time) for each in taken.steps] == [
        (0, "TRAIN", 0, 1.0),
        (3, "EVAL", 1, 5.0),
    ]


def test_tells_which_step_it_has_seen_last() -> None:
    last, _ = held()
    assert last.latest is None
    last.submit(step(4))
    assert last.latest == 4
    last.amend(StepPosition(5, "TRAIN", 5), "mine", np.ones(1), frozenset())
    assert last.latest == 5


def test_a_step_is_held_until_the_destination_has_it() -> None:
    last, taken = held()
    seen: list[int | None] = []

    def submit(step: StepTensors) -> bool:
        seen.append(last.held_step)
        return Taken.submit(taken, step)

    taken.submit = submit
    assert last.held_step is None
    last.submit(step(0))
    assert last.held_step == 0
    last.submit(step(4))
    assert [*seen, last.held_step] == [0, 4]
    last.amend(StepPosition(6, "TRAIN", 6), "b", np.ones(1), frozenset())
    assert [*seen, last.held_step] == [0, 4, 6]
    last.release()
    assert (seen, last.held_step) == ([0, 4, 6], None)


class Late:
    """Tensors that become known when the test says so."""

    size_bytes = 100

    def __init__(self, *, is_ready: bool) -> None:
        self.ready = is_ready

    def is_ready(self) -> bool:
        return self.ready

    def row(self) -> Row | None:
        return Row(RowLayout(("late",), frozenset({"own"})), np.ones((1, 3)))


@pytest.mark.parametrize(
    ("ready", "through", "waits_from"),
    [
        pytest.param((True, True, True), [0, 1, 2], None, id="all are known"),
        pytest.param((True, False, True), [0], 1, id="one in between is not"),
        pytest.param((False, True, True), [], 0, id="the first is not"),
        pytest.param((), [], None, id="no step"),
    ],
)
def test_steps_wait_in_their_order(ready: tuple[bool, ...], through: list[int], waits_from: int | None) -> None:
    held, taken = HeldSteps(), Taken()
    held.destination = taken
    late = [Late(is_ready=each) for each in ready]
    for number, each in enumerate(late):
        held.submit(replace(step(number), late=(each,)))
    assert [each.step for each in taken.steps] == through
    assert held.first_step == waits_from
    for each in late:
        each.ready = True
    held.pass_on()
    assert [each.step for each in taken.steps] == list(range(len(ready)))
    assert held.first_step is None


def test_a_step_without_late_tensors_never_waits() -> None:
    held, taken = HeldSteps(), Taken()
    held.destination = taken
    assert held.submit(step(0))
    assert [each.step for each in taken.steps] == [0]


def test_late_tensors_are_added_on_the_thread_of_the_writer() -> None:
    whole = replace(step(0), late=(Late(is_ready=True),)).with_late()
    assert [name for row in whole.rows for name in row.layout.record_names] == ["late"]
    assert whole.late == ()
    whole = whole.without_rows()
    assert [name for name, _ in whole.tensors] == ["a", "late"]
    assert whole.collections == {"late": frozenset({"own"})}
    assert whole.rows == ()


def test_the_size_of_late_tensors_counts() -> None:
    assert replace(step(0), late=(Late(is_ready=True),)).size_bytes == step(0).size_bytes + 100
