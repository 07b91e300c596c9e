"""The step engine: what is collected and handed on, without any framework."""

from __future__ import annotations

import numpy as np
import pytest

from trackside.capture.hook import MOST_LOSSES_A_STEP, Hook
from trackside.capture.schedule import NOTHING
from trackside.capture.writer import StepTensors
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule


class Shelf:
    """Keeps what it is handed."""

    def __init__(self) -> None:
        self.steps: list[StepTensors] = []

    def submit(self, step: StepTensors) -> bool:
        self.steps.append(step)
        return True

    @property
    def names(self) -> list[tuple[int, list[str]]]:
        return [(s.step, [name for name, _ in s.tensors]) for s in self.steps]


def hook_for(**intervals: int) -> tuple[Hook, Shelf]:
    request = CaptureRequest(tuple(CollectionRequest(name, Schedule(n)) for name, n in intervals.items()))
    hook, shelf = Hook(request, clock=lambda: 12.5), Shelf()
    hook.connect(shelf)
    return hook, shelf


def one(value: float = 1.0) -> np.ndarray:
    return np.array(value, np.float32)


def test_hands_on_a_step_whole() -> None:
    hook, shelf = hook_for(losses=1, weights=1)
    hook.add_loss("MSELoss", one(0.5))
    hook.add("Net_fc.weight", np.ones((2, 2), np.float32))
    hook.end_step()
    (step,) = shelf.steps
    assert (step.step, step.mode, step.mode_step, step.wall_time) == (0, "TRAIN", 0, 12.5)
    assert [name for name, _ in step.tensors] == ["MSELoss_output_0", "Net_fc.weight"]
    assert step.size_bytes == 4 + 16


def test_idle_steps_hand_on_nothing() -> None:
    hook, shelf = hook_for(weights=3)
    for _ in range(7):
        if hook.wants("Net_fc.weight"):
            hook.add("Net_fc.weight", one())
        hook.end_step()
    assert [s.step for s in shelf.steps] == [0, 3, 6]


def test_only_what_is_due_is_wanted() -> None:
    hook, _ = hook_for(losses=1, weights=2)
    assert hook.wants("Net_fc.weight")
    assert not hook.wants("gradient/Net_fc.weight")
    hook.end_step()
    assert hook.wants("CrossEntropyLoss_output_0")
    assert not hook.wants("Net_fc.weight")


def test_losses_of_one_name_are_numbered_within_the_step() -> None:
    hook, shelf = hook_for(losses=1)
    for name in ("BCELoss", "loss", "BCELoss"):
        hook.add_loss(name, one())
    hook.end_step()
    hook.add_loss("BCELoss", one())
    hook.end_step()
    assert shelf.names == [(0, ["BCELoss_output_0", "loss_output_0", "BCELoss_output_1"]), (1, ["BCELoss_output_0"])]


def test_a_late_end_gives_the_newest_losses_to_the_next_step() -> None:
    hook, shelf = hook_for(losses=1)
    hook.add_loss("A", one(1))
    hook.settle()
    hook.add_loss("A", one(2))
    hook.end_step(keep_unsettled=True)
    hook.end_step()
    assert [float(s.tensors[0][1]) for s in shelf.steps] == []  # `A_output_0` is in no collection
    hook.add_loss("ALoss", one(1))
    hook.settle()
    hook.add_loss("ALoss", one(2))
    hook.end_step(keep_unsettled=True)
    hook.end_step()
    assert [(s.step, float(s.tensors[0][1])) for s in shelf.steps] == [(2, 1.0), (3, 2.0)]


def test_backward_without_steps_does_not_fill_the_memory() -> None:
    hook, shelf = hook_for(losses=1)
    for _ in range(1000):
        hook.add_loss("MSELoss", one())
    hook.end_step()
    assert len(shelf.steps[0].tensors) == MOST_LOSSES_A_STEP


@pytest.mark.parametrize("shape", [pytest.param((0,), id="flat"), pytest.param((3, 0), id="matrix")])
def test_tensors_without_elements_are_left_out(shape: tuple[int, ...]) -> None:
    hook, shelf = hook_for(weights=1)
    hook.add("Net_fc.weight", np.zeros(shape))
    hook.end_step()
    assert not shelf.steps


def test_nothing_asked_nothing_due() -> None:
    hook, shelf = hook_for()
    for _ in range(3):
        assert hook.due is NOTHING
        hook.end_step()
    assert hook.step == 3
    assert not shelf.steps
