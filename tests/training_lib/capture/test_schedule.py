"""What is due when, against the contract's own `is_due` step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.capture.schedule import NOTHING, due_at, next_due_step
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule

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
    assert (due is NOTHING) == (not expected)


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
