"""The step engine: what is collected and handed on, without any framework."""

from __future__ import annotations

import numpy as np
import pytest

from trackside.capture.ground.free_memory import KEPT_FREE_BYTES, LOOK_EVERY_BYTES
from trackside.capture.steps.loss_parts import MOST_LOSSES_A_STEP
from trackside.capture.steps.schedule import NOTHING_DUE
from trackside.capture.steps.step_engine import Position, StepEngine
from trackside.capture.steps.step_tensors import StepTensors
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


def hook_for(**intervals: int) -> tuple[StepEngine, Shelf]:
    request = CaptureRequest(tuple(CollectionRequest(name, Schedule(n)) for name, n in intervals.items()))
    engine, shelf = StepEngine(request, clock=lambda: 12.5), Shelf()
    engine.connect(shelf)
    return engine, shelf


def one(value: float = 1.0) -> np.ndarray:
    return np.array(value, np.float32)


def test_hands_on_a_step_whole() -> None:
    engine, shelf = hook_for(losses=1, weights=1)
    engine.open_step.add_loss("MSELoss", one(0.5))
    engine.open_step.add("Net_fc.weight", np.ones((2, 2), np.float32))
    engine.end_step()
    (step,) = shelf.steps
    assert (step.step, step.mode, step.mode_step, step.wall_time) == (0, "TRAIN", 0, 12.5)
    assert [name for name, _ in step.tensors] == ["MSELoss_output_0", "Net_fc.weight"]
    assert step.size_bytes == 4 + 16


def test_idle_steps_hand_on_nothing() -> None:
    engine, shelf = hook_for(weights=3)
    for _ in range(7):
        if engine.open_step.wants("Net_fc.weight"):
            engine.open_step.add("Net_fc.weight", one())
        engine.end_step()
    assert [s.step for s in shelf.steps] == [0, 3, 6]


def test_only_what_is_due_is_wanted() -> None:
    engine, _ = hook_for(losses=1, weights=2)
    assert engine.open_step.wants("Net_fc.weight")
    assert not engine.open_step.wants("gradient/Net_fc.weight")
    engine.end_step()
    assert engine.open_step.wants("CrossEntropyLoss_output_0")
    assert not engine.open_step.wants("Net_fc.weight")


def test_losses_of_one_name_are_numbered_within_the_step() -> None:
    engine, shelf = hook_for(losses=1)
    for name in ("BCELoss", "loss", "BCELoss"):
        engine.open_step.add_loss(name, one())
    engine.end_step()
    engine.open_step.add_loss("BCELoss", one())
    engine.end_step()
    assert shelf.names == [(0, ["BCELoss_output_0", "loss_output_0", "BCELoss_output_1"]), (1, ["BCELoss_output_0"])]


def test_a_late_end_gives_the_newest_losses_to_the_next_step() -> None:
    engine, shelf = hook_for(losses=1)
    engine.open_step.add_loss("A", one(1))
    engine.open_step.settle()
    engine.open_step.add_loss("A", one(2))
    engine.end_step(keep_unsettled=True)
    engine.end_step()
    assert [float(s.tensors[0][1]) for s in shelf.steps] == []  # `A_output_0` is in no collection
    engine.open_step.add_loss("ALoss", one(1))
    engine.open_step.settle()
    engine.open_step.add_loss("ALoss", one(2))
    engine.end_step(keep_unsettled=True)
    engine.end_step()
    assert [(s.step, float(s.tensors[0][1])) for s in shelf.steps] == [(2, 1.0), (3, 2.0)]


def test_a_late_end_gives_the_newest_tensors_to_the_next_step_under_its_names() -> None:
    engine, shelf = hook_for(losses=1, weights=1, scalars=1)
    engine.open_step.add("a.weight_0", one(1))
    engine.open_step.settle()
    engine.open_step.add("a.weight_1", one(2), collections=frozenset({"scalars"}))
    assert engine.open_step.has("a.weight_0")
    assert "a.weight_0" not in engine.open_step.unsettled
    assert "a.weight_1" in engine.open_step.unsettled
    assert engine.open_step.tensors().keys() == {"a.weight_0", "a.weight_1"}
    engine.end_step(keep_unsettled=True, renamed=lambda name: name.replace("_1", "_0"))
    engine.end_step()
    assert [(s.step, *((n, float(v)) for n, v in s.tensors)) for s in shelf.steps] == [
        (0, ("a.weight_0", 1.0)),
        (1, ("a.weight_0", 2.0)),
    ]
    assert shelf.steps[1].collections == {"a.weight_0": frozenset({"scalars"})}


def test_of_what_a_late_end_leaves_the_next_step_takes_what_it_saves() -> None:
    engine, shelf = hook_for(weights=2)
    engine.open_step.settle()
    engine.open_step.add("a.weight", one())
    engine.open_step.add_scalar("lr", 0.5)
    engine.end_step(keep_unsettled=True)
    engine.end_step()
    assert shelf.names == [(1, ["scalar/lr"])]


def test_what_is_dropped_is_all_since_the_last_settled_but_scalars() -> None:
    engine, shelf = hook_for(losses=1, weights=1)
    engine.open_step.add("a.weight", one())
    engine.open_step.add_loss("MSELoss", one(1))
    engine.open_step.settle()
    engine.open_step.add("b.weight", one())
    engine.open_step.add_loss("MSELoss", one(2))
    engine.open_step.add_scalar("lr", 0.5)
    engine.open_step.drop_unsettled()
    engine.end_step()
    engine.end_step()
    assert shelf.names == [(0, ["MSELoss_output_0", "a.weight", "scalar/lr"])]


def test_backward_without_steps_does_not_fill_the_memory() -> None:
    engine, shelf = hook_for(losses=1)
    for _ in range(1000):
        engine.open_step.add_loss("MSELoss", one())
    engine.end_step()
    assert len(shelf.steps[0].tensors) == MOST_LOSSES_A_STEP


@pytest.mark.parametrize(
    ("free_bytes", "reason"),
    [
        pytest.param(None, "", id="unknown"),
        pytest.param(KEPT_FREE_BYTES, "", id="enough"),
        pytest.param(
            100 << 20,
            "with its tensors 100 MiB of memory are free. Save fewer tensors, or reductions of them, or give the "
            "capture request a memory_mb",
            id="next to none",
        ),
    ],
)
def test_a_step_is_given_up_where_memory_runs_out(free_bytes: int | None, reason: str) -> None:
    engine, shelf = hook_for(weights=1)
    engine.open_step.add("Net_a.weight", one())
    engine.room.__init__(lambda: free_bytes)  # type: ignore[misc] # each open step has it already
    for _ in range(2):
        engine.open_step.add("Net_b.weight", np.zeros(LOOK_EVERY_BYTES, np.uint8))
    engine.open_step.add("Net_c.weight", one())
    engine.end_step()
    engine.open_step.add("Net_a.weight", one())
    engine.end_step()
    first, second = shelf.steps
    assert first.lost == reason
    assert [name for name, _ in first.tensors] == ([] if reason else ["Net_a.weight", "Net_b.weight", "Net_c.weight"])
    assert [name for name, _ in second.tensors] == ["Net_a.weight"]


@pytest.mark.parametrize("shape", [pytest.param((0,), id="flat"), pytest.param((3, 0), id="matrix")])
def test_tensors_without_elements_are_left_out(shape: tuple[int, ...]) -> None:
    engine, shelf = hook_for(weights=1)
    engine.open_step.add("Net_fc.weight", np.zeros(shape))
    engine.end_step()
    assert not shelf.steps


def test_nothing_asked_nothing_due() -> None:
    engine, shelf = hook_for()
    for _ in range(3):
        assert engine.due is NOTHING_DUE
        engine.end_step()
    assert engine.step == 3
    assert not shelf.steps


def by_mode(shelf: Shelf) -> list[tuple[int, str, int, list[str]]]:
    return [(s.step, s.mode, s.mode_step, [name for name, _ in s.tensors]) for s in shelf.steps]


def test_steps_are_counted_over_all_modes_when_they_end_and_within_each() -> None:
    engine, shelf = hook_for(losses=1)
    for mode in ("TRAIN", "EVAL", "EVAL", "TRAIN", "PREDICT", "GLOBAL"):
        engine.set_mode(mode)
        engine.open_step.add_loss("MSELoss", one())
        engine.end_step()
    loss = ["MSELoss_output_0"]
    assert by_mode(shelf) == [
        (0, "TRAIN", 0, loss),
        (1, "EVAL", 0, loss),
        (2, "EVAL", 1, loss),
        (3, "TRAIN", 1, loss),
        (4, "PREDICT", 0, loss),
        (5, "GLOBAL", 5, loss),
    ]
    assert (engine.step, engine.mode, engine.mode_step(), engine.mode_step("EVAL"), engine.mode_step("TRAIN")) == (
        6,
        "GLOBAL",
        6,
        2,
        2,
    )


def test_an_open_training_step_survives_an_evaluation() -> None:
    engine, shelf = hook_for(losses=1, weights=1)
    engine.open_step.add_loss("MSELoss", one(1))
    engine.open_step.add("Net_fc.weight", one(2))
    engine.set_mode("EVAL")
    assert not engine.open_step.has("Net_fc.weight")
    engine.open_step.add_loss("MSELoss", one(3))
    engine.end_step()
    engine.set_mode("TRAIN")
    assert engine.open_step.has("Net_fc.weight")
    engine.end_step()
    assert by_mode(shelf) == [
        (0, "EVAL", 0, ["MSELoss_output_0"]),
        (1, "TRAIN", 0, ["MSELoss_output_0", "Net_fc.weight"]),
    ]


def test_schedules_look_at_the_step_of_the_mode() -> None:
    engine, shelf = hook_for(losses=2)
    for mode in ("TRAIN", "EVAL", "TRAIN", "EVAL", "TRAIN", "EVAL"):
        engine.set_mode(mode)
        if engine.due.losses:
            engine.open_step.add_loss("MSELoss", one())
        engine.end_step()
    assert [(s.step, s.mode, s.mode_step) for s in shelf.steps] == [
        (0, "TRAIN", 0),
        (1, "EVAL", 0),
        (4, "TRAIN", 2),
        (5, "EVAL", 2),
    ]


def test_global_steps_are_due_by_the_step_over_all_modes() -> None:
    engine, _ = hook_for(weights=2)
    engine.set_mode("GLOBAL")
    assert engine.due.parameters
    engine.set_mode("TRAIN")
    engine.end_step()
    engine.set_mode("GLOBAL")
    assert engine.due is NOTHING_DUE
    engine.end_step()
    assert engine.due.parameters


def test_gradients_are_never_due_in_evaluation() -> None:
    engine, _ = hook_for(gradients=1, losses=1)
    engine.set_mode("EVAL")
    assert engine.due.collections == {"losses"}
    assert not engine.open_step.wants("gradient/Net_fc.weight")
    assert engine.open_step.wants("MSELoss_output_0")


def test_no_mode_is_refused() -> None:
    engine, _ = hook_for()
    with pytest.raises(ValueError, match="'TRAINING' is not a mode"):
        engine.set_mode("TRAINING")
    assert engine.mode == "TRAIN"


def test_an_adapter_knows_members_that_no_regex_finds() -> None:
    engine, shelf = hook_for(outputs=1)
    outputs = frozenset({"outputs"})
    assert engine.due.kinds == {"outputs"}
    assert not engine.open_step.wants("fc_output_0")
    assert engine.open_step.wants("fc_output_0", collections=outputs)
    assert not engine.open_step.wants("fc_input_0", collections=frozenset({"inputs"}))
    engine.open_step.add("fc_output_0", one(), collections=outputs)
    engine.open_step.add("Net_fc.weight", one())
    engine.end_step()
    assert shelf.steps[0].collections == {"fc_output_0": outputs}
    assert shelf.steps[0].due == outputs


def test_a_scalar_is_saved_on_the_open_step_whatever_is_due() -> None:
    engine, shelf = hook_for(losses=10)
    for step in range(4):
        if step in {0, 2}:
            engine.open_step.add_scalar("temperature", 0.5 * step)
        engine.end_step()
    assert shelf.names == [(0, ["scalar/temperature"]), (2, ["scalar/temperature"])]
    assert shelf.steps[1].collections == {"scalar/temperature": frozenset({"scalars"})}
    value = shelf.steps[1].tensors[0][1]
    assert (value.shape, str(value.dtype), value.tolist()) == ((1,), "float64", [1.0])


def test_seconds_are_asked_of_the_clock_given() -> None:
    seconds = [0.0]
    request = CaptureRequest((CollectionRequest("losses", Schedule.by_seconds(10)),))
    engine, shelf = StepEngine(request, clock=lambda: 12.5, monotonic=lambda: seconds[0]), Shelf()
    engine.connect(shelf)
    for _ in range(12):
        if engine.due.losses:
            engine.open_step.add_loss("MSELoss", one())
        seconds[0] += 3.0
        engine.end_step()
    assert [s.step for s in shelf.steps] == [0, 4, 8]


def test_it_goes_on_where_an_earlier_process_stopped() -> None:
    engine, shelf = hook_for(losses=5)
    engine.open_step.add_loss("MSELoss", one())
    engine.resume(Position(17, {"TRAIN": 12, "EVAL": 5}))
    engine.end_step()  # what was gathered of the first step is saved, though the step is none that is due
    for _ in range(4):
        if engine.due.losses:
            engine.open_step.add_loss("MSELoss", one())
        engine.end_step()
    assert [(s.step, s.mode_step) for s in shelf.steps] == [(17, 12), (20, 15)]
    assert engine.mode_step("EVAL") == 5
    engine.set_mode("EVAL")
    assert engine.due.losses
    assert engine.position() == Position(22, {"TRAIN": 17, "EVAL": 5})


def test_a_worker_that_saves_nothing_still_counts() -> None:
    engine, shelf = hook_for(losses=1)
    engine.open_step.add_loss("MSELoss", one())
    engine.save_nothing()
    for _ in range(3):
        assert engine.due is NOTHING_DUE
        engine.open_step.add_scalar("temperature", 1.0)
        engine.end_step()
    engine.set_mode("EVAL")
    assert engine.due is NOTHING_DUE
    assert engine.step == 3
    assert not shelf.steps
