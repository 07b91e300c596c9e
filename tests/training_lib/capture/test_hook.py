"""The step engine: what is collected and handed on, without any framework."""

from __future__ import annotations

import numpy as np
import pytest

from trackside.capture.hook import MOST_LOSSES_A_STEP, Hook, Position
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


def test_a_late_end_gives_the_newest_tensors_to_the_next_step_under_its_names() -> None:
    hook, shelf = hook_for(losses=1, weights=1, scalars=1)
    hook.add("a.weight_0", one(1))
    hook.settle()
    hook.add("a.weight_1", one(2), collections=frozenset({"scalars"}))
    assert hook.has("a.weight_0")
    assert not hook.has_unsettled("a.weight_0")
    assert hook.has_unsettled("a.weight_1")
    assert hook.open_tensors().keys() == {"a.weight_0", "a.weight_1"}
    hook.end_step(keep_unsettled=True, renamed=lambda name: name.replace("_1", "_0"))
    hook.end_step()
    assert [(s.step, *((n, float(v)) for n, v in s.tensors)) for s in shelf.steps] == [
        (0, ("a.weight_0", 1.0)),
        (1, ("a.weight_0", 2.0)),
    ]
    assert shelf.steps[1].collections == {"a.weight_0": frozenset({"scalars"})}


def test_of_what_a_late_end_leaves_the_next_step_takes_what_it_saves() -> None:
    hook, shelf = hook_for(weights=2)
    hook.settle()
    hook.add("a.weight", one())
    hook.add_scalar("lr", 0.5)
    hook.end_step(keep_unsettled=True)
    hook.end_step()
    assert shelf.names == [(1, ["scalar/lr"])]


def test_what_is_dropped_is_all_since_the_last_settled_but_scalars() -> None:
    hook, shelf = hook_for(losses=1, weights=1)
    hook.add("a.weight", one())
    hook.add_loss("MSELoss", one(1))
    hook.settle()
    hook.add("b.weight", one())
    hook.add_loss("MSELoss", one(2))
    hook.add_scalar("lr", 0.5)
    hook.drop_unsettled()
    hook.end_step()
    hook.end_step()
    assert shelf.names == [(0, ["MSELoss_output_0", "a.weight", "scalar/lr"])]


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


def by_mode(shelf: Shelf) -> list[tuple[int, str, int, list[str]]]:
    return [(s.step, s.mode, s.mode_step, [name for name, _ in s.tensors]) for s in shelf.steps]


def test_steps_are_counted_over_all_modes_when_they_end_and_within_each() -> None:
    hook, shelf = hook_for(losses=1)
    for mode in ("TRAIN", "EVAL", "EVAL", "TRAIN", "PREDICT", "GLOBAL"):
        hook.set_mode(mode)
        hook.add_loss("MSELoss", one())
        hook.end_step()
    loss = ["MSELoss_output_0"]
    assert by_mode(shelf) == [
        (0, "TRAIN", 0, loss),
        (1, "EVAL", 0, loss),
        (2, "EVAL", 1, loss),
        (3, "TRAIN", 1, loss),
        (4, "PREDICT", 0, loss),
        (5, "GLOBAL", 5, loss),
    ]
    assert (hook.step, hook.mode, hook.mode_step(), hook.mode_step("EVAL"), hook.mode_step("TRAIN")) == (
        6,
        "GLOBAL",
        6,
        2,
        2,
    )


def test_an_open_training_step_survives_an_evaluation() -> None:
    hook, shelf = hook_for(losses=1, weights=1)
    hook.add_loss("MSELoss", one(1))
    hook.add("Net_fc.weight", one(2))
    hook.set_mode("EVAL")
    assert not hook.has("Net_fc.weight")
    hook.add_loss("MSELoss", one(3))
    hook.end_step()
    hook.set_mode("TRAIN")
    assert hook.has("Net_fc.weight")
    hook.end_step()
    assert by_mode(shelf) == [
        (0, "EVAL", 0, ["MSELoss_output_0"]),
        (1, "TRAIN", 0, ["MSELoss_output_0", "Net_fc.weight"]),
    ]


def test_schedules_look_at_the_step_of_the_mode() -> None:
    hook, shelf = hook_for(losses=2)
    for mode in ("TRAIN", "EVAL", "TRAIN", "EVAL", "TRAIN", "EVAL"):
        hook.set_mode(mode)
        if hook.due.losses:
            hook.add_loss("MSELoss", one())
        hook.end_step()
    assert [(s.step, s.mode, s.mode_step) for s in shelf.steps] == [
        (0, "TRAIN", 0),
        (1, "EVAL", 0),
        (4, "TRAIN", 2),
        (5, "EVAL", 2),
    ]


def test_global_steps_are_due_by_the_step_over_all_modes() -> None:
    hook, _ = hook_for(weights=2)
    hook.set_mode("GLOBAL")
    assert hook.due.parameters
    hook.set_mode("TRAIN")
    hook.end_step()
    hook.set_mode("GLOBAL")
    assert hook.due is NOTHING
    hook.end_step()
    assert hook.due.parameters


def test_gradients_are_never_due_in_evaluation() -> None:
    hook, _ = hook_for(gradients=1, losses=1)
    hook.set_mode("EVAL")
    assert hook.due.collections == {"losses"}
    assert not hook.wants("gradient/Net_fc.weight")
    assert hook.wants("MSELoss_output_0")


def test_no_mode_is_refused() -> None:
    hook, _ = hook_for()
    with pytest.raises(ValueError, match="'TRAINING' is not a mode"):
        hook.set_mode("TRAINING")
    assert hook.mode == "TRAIN"


def test_an_adapter_knows_members_that_no_regex_finds() -> None:
    hook, shelf = hook_for(outputs=1)
    outputs = frozenset({"outputs"})
    assert hook.due.kinds == {"outputs"}
    assert not hook.wants("fc_output_0")
    assert hook.wants("fc_output_0", collections=outputs)
    assert not hook.wants("fc_input_0", collections=frozenset({"inputs"}))
    hook.add("fc_output_0", one(), collections=outputs)
    hook.add("Net_fc.weight", one())
    hook.end_step()
    assert shelf.steps[0].collections == {"fc_output_0": outputs}
    assert shelf.steps[0].due == outputs


def test_a_scalar_is_saved_on_the_open_step_whatever_is_due() -> None:
    hook, shelf = hook_for(losses=10)
    for step in range(4):
        if step in {0, 2}:
            hook.add_scalar("temperature", 0.5 * step)
        hook.end_step()
    assert shelf.names == [(0, ["scalar/temperature"]), (2, ["scalar/temperature"])]
    assert shelf.steps[1].collections == {"scalar/temperature": frozenset({"scalars"})}
    value = shelf.steps[1].tensors[0][1]
    assert (value.shape, str(value.dtype), value.tolist()) == ((1,), "float64", [1.0])


def test_seconds_are_asked_of_the_clock_given() -> None:
    seconds = [0.0]
    request = CaptureRequest((CollectionRequest("losses", Schedule.by_seconds(10)),))
    hook, shelf = Hook(request, clock=lambda: 12.5, monotonic=lambda: seconds[0]), Shelf()
    hook.connect(shelf)
    for _ in range(12):
        if hook.due.losses:
            hook.add_loss("MSELoss", one())
        seconds[0] += 3.0
        hook.end_step()
    assert [s.step for s in shelf.steps] == [0, 4, 8]


def test_it_goes_on_where_an_earlier_process_stopped() -> None:
    hook, shelf = hook_for(losses=5)
    hook.add_loss("MSELoss", one())
    hook.resume(Position(17, {"TRAIN": 12, "EVAL": 5}))
    hook.end_step()  # what was gathered of the first step is saved, though the step is none that is due
    for _ in range(4):
        if hook.due.losses:
            hook.add_loss("MSELoss", one())
        hook.end_step()
    assert [(s.step, s.mode_step) for s in shelf.steps] == [(17, 12), (20, 15)]
    assert hook.mode_step("EVAL") == 5
    hook.set_mode("EVAL")
    assert hook.due.losses
    assert hook.position() == Position(22, {"TRAIN": 17, "EVAL": 5})


def test_a_worker_that_saves_nothing_still_counts() -> None:
    hook, shelf = hook_for(losses=1)
    hook.add_loss("MSELoss", one())
    hook.save_nothing()
    for _ in range(3):
        assert hook.due is NOTHING
        hook.add_scalar("temperature", 1.0)
        hook.end_step()
    hook.set_mode("EVAL")
    assert hook.due is NOTHING
    assert hook.step == 3
    assert not shelf.steps
