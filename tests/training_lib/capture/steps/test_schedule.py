"""What is due when, against the contract's own `is_due` step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.capture.steps.schedule import NOTHING_DUE, ModeSchedule, due_at, next_due_step
from trackside.contracts.capture_request import (
    BUILT_IN_COLLECTIONS,
    NEVER,
    CaptureRequest,
    CollectionRequest,
    Schedule,
)

schedules = st.builds(
    Schedule,
    save_interval=st.integers(1, 12),
    start_step=st.integers(0, 30),
    end_step=st.none() | st.integers(0, 40),
    save_steps=st.lists(st.integers(0, 40), max_size=3).map(tuple),
)
requests = st.lists(
    st.builds(CollectionRequest, st.sampled_from(["losses", "weights", "gradients"]), schedules), max_size=3
).map(lambda collections: CaptureRequest(tuple(collections)))


@given(requests, st.integers(0, 45))
def test_next_due_step_is_the_first_that_is_due(request_: CaptureRequest, start: int) -> None:
    by_hand = (s for s in range(start, 120) if any(c.schedule.is_due(s) for c in request_.collections))
    assert next_due_step(request_, start) == next(by_hand, None)


@given(requests, st.integers(0, 60))
def test_due_names_the_collections(request_: CaptureRequest, step: int) -> None:
    expected = {c.name for c in request_.collections if c.schedule.is_due(step)}
    due = due_at(request_, step)
    assert due.collections == expected
    assert due.losses == ("losses" in expected)
    assert due.parameters == bool(expected - {"losses"})
    assert (due is NOTHING_DUE) == (not expected)


@pytest.mark.parametrize(
    ("name", "regex", "losses", "parameters"),
    [
        pytest.param("losses", (), True, False, id="losses-touch-no-parameters"),
        pytest.param("weights", (), False, True, id="weights-touch-no-losses"),
        pytest.param("losses", ("fc1",), True, True, id="losses-extended"),
        pytest.param("mine", ("fc1",), True, True, id="own-collection-may-be-anything"),
    ],
)
def test_what_a_collection_may_need(name: str, regex: tuple[str, ...], losses: bool, parameters: bool) -> None:
    due = due_at(CaptureRequest((CollectionRequest(name, Schedule(1), regex),)), 0)
    assert (due.losses, due.parameters) == (losses, parameters)


EVERYTHING = set(BUILT_IN_COLLECTIONS) - {"raw_gradients", "activation_gradients", "average_shap", "full_shap"}
TRAINING_ONLY = {"gradients", "optimizer_variables", "raw_gradients", "activation_gradients"}


@pytest.mark.parametrize(
    ("collection", "kinds"),
    [
        pytest.param(CollectionRequest("outputs"), {"outputs"}, id="a-kind"),
        pytest.param(CollectionRequest("raw_gradients"), {"raw_gradients"}, id="a-kind-on-request"),
        pytest.param(CollectionRequest("mine", include_regex=("relu",)), EVERYTHING, id="regex"),
        pytest.param(CollectionRequest("all"), EVERYTHING, id="all"),
        pytest.param(CollectionRequest("default"), set(), id="default-holds-what-the-user-gives"),
        pytest.param(CollectionRequest("default", include_regex=("relu",)), EVERYTHING, id="default-with-a-regex"),
        pytest.param(
            CollectionRequest("raw_gradients", include_regex=("relu",)),
            EVERYTHING | {"raw_gradients"},
            id="regex-and-kind",
        ),
        pytest.param(
            CollectionRequest("mine", tensor_names=("Net_fc.weight", "gradient/Net_fc.weight")),
            {"weights", "biases", "gradients"},
            id="names-of-parameters",
        ),
        pytest.param(CollectionRequest("mine", tensor_names=("fc_output_0",)), {"losses", "outputs"}, id="output"),
        pytest.param(
            CollectionRequest("mine", tensor_names=("fc_input_0",)), {"inputs", "labels", "predictions"}, id="input"
        ),
        pytest.param(
            CollectionRequest("mine", tensor_names=("raw_gradient/a", "buffer/b", "optimizer/c/step")),
            {"raw_gradients", "buffers", "optimizer_variables"},
            id="prefixes",
        ),
    ],
)
def test_what_an_adapter_must_gather(collection: CollectionRequest, kinds: set[str]) -> None:
    request = CaptureRequest((collection,))
    assert due_at(request, 0).kinds == kinds
    in_evaluation = set() if collection.name in TRAINING_ONLY else kinds - TRAINING_ONLY
    assert due_at(request, 0, "EVAL").kinds == in_evaluation


@pytest.mark.parametrize("name", sorted(TRAINING_ONLY))
@pytest.mark.parametrize(("mode", "is_due"), [("TRAIN", True), ("GLOBAL", True), ("EVAL", False), ("PREDICT", False)])
def test_what_is_saved_in_training_only(name: str, mode: str, is_due: bool) -> None:
    request = CaptureRequest((CollectionRequest(name, Schedule(1)),))
    assert (due_at(request, 0, mode) is not NOTHING_DUE) == is_due
    assert next_due_step(request, 5, mode) == (5 if is_due else None)


def test_a_mode_has_a_schedule_of_its_own() -> None:
    request = CaptureRequest((CollectionRequest("losses", Schedule(5), mode_schedules=(("EVAL", Schedule(2)),)),))
    assert [step for step in range(9) if due_at(request, step, "TRAIN").losses] == [0, 5]
    assert [step for step in range(9) if due_at(request, step, "EVAL").losses] == [0, 2, 4, 6, 8]


class Clock:
    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def saved_steps(request_: CaptureRequest, *, steps: int, seconds_a_step: float) -> list[int]:
    """As the hook walks over steps, each of which takes so long."""
    clock = Clock()
    schedule = ModeSchedule(request_, "TRAIN", monotonic=clock)
    due, found = schedule.due_at(0), []
    for step in range(steps):
        clock.seconds += seconds_a_step
        if due is not NOTHING_DUE:
            found.append(step)
        if due is not NOTHING_DUE or not schedule.is_idle(step + 1):
            schedule.has_saved(due)
            due = schedule.due_at(step + 1)
    return found


@pytest.mark.parametrize(
    ("schedule", "seconds_a_step", "expected"),
    [
        pytest.param(Schedule.by_seconds(10), 2.0, [0, 5, 10, 15], id="as-seconds-pass"),
        pytest.param(Schedule.by_seconds(1), 2.0, [*range(20)], id="slower-steps-are-all-saved"),
        pytest.param(Schedule.by_seconds(1000), 2.0, [0], id="the-first-is-saved-at-once"),
        pytest.param(Schedule.by_seconds(4, start_step=3, end_step=9), 2.0, [3, 5, 7], id="within-its-steps"),
        pytest.param(Schedule(NEVER, 1, None, (7,), 10), 2.0, [1, 6, 7, 12, 17], id="other-saves-count"),
        pytest.param(Schedule(4, save_seconds=1000), 2.0, [0, 4, 8, 12, 16], id="beside-an-interval"),
    ],
)
def test_schedules_by_seconds(schedule: Schedule, seconds_a_step: float, expected: list[int]) -> None:
    request_ = CaptureRequest((CollectionRequest("losses", schedule),))
    assert saved_steps(request_, steps=20, seconds_a_step=seconds_a_step) == expected


def test_seconds_count_for_each_collection() -> None:
    collections = (CollectionRequest("losses", Schedule.by_seconds(4)), CollectionRequest("weights", Schedule(5)))
    assert saved_steps(CaptureRequest(collections), steps=12, seconds_a_step=2.0) == [0, 2, 4, 5, 6, 8, 10]


@given(requests)
def test_a_mode_schedule_without_seconds_is_due_at(request_: CaptureRequest) -> None:
    expected = [step for step in range(50) if due_at(request_, step) is not NOTHING_DUE]
    assert saved_steps(request_, steps=50, seconds_a_step=1.0) == expected
