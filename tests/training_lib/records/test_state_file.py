"""The file of states that lets a training on spot capacity go on where it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.records.modes import MODE_NUMBERS
from trackside.records.state_file import MOST_BYTES, TrainingState, decode_states, encode_states

GOLDEN = Path(__file__).parent / "golden" / "metadata.json"

STEPS = st.integers(0, 2**63 - 1)
STATES = st.builds(
    TrainingState,
    training_run=STEPS,
    last_seen_step=STEPS,
    last_saved_step=st.none() | STEPS,
    mode_steps=st.dictionaries(st.sampled_from(sorted(MODE_NUMBERS)), STEPS),
)
ONE = {
    "training-run": 2,
    "latest-global-step-saved": None,
    "latest-global-step-seen": 5,
    "latest-mode-step": {"TRAIN": 4, "EVAL": 0},
}


def test_what_the_original_wrote_is_read_and_written_the_same() -> None:
    states = decode_states(GOLDEN.read_bytes(), key="metadata.json")
    assert states == (
        TrainingState(0, 9, None, {"GLOBAL": 9, "TRAIN": 7, "EVAL": 1}),
        TrainingState(1, 12, 10, {"GLOBAL": 12, "TRAIN": 10, "EVAL": 1}),
    )
    assert encode_states(states) == GOLDEN.read_bytes()


@given(st.lists(STATES))
def test_what_is_written_is_read_in_the_order_of_steps(states: list[TrainingState]) -> None:
    read = decode_states(encode_states(states), key="metadata.json")
    assert list(read) == sorted(states, key=lambda state: state.last_seen_step)


def test_the_bytes_are_those_of_the_original() -> None:
    state = TrainingState(2, 5, None, {"TRAIN": 4, "EVAL": 0})
    assert encode_states([state]) == json.dumps([ONE]).encode()


def test_fields_that_are_not_known_are_passed_over() -> None:
    (state,) = decode_states(json.dumps([{**ONE, "loss": 3}]).encode(), key="k")
    assert state == TrainingState(2, 5, None, {"TRAIN": 4, "EVAL": 0})


@pytest.mark.parametrize(
    ("content", "offset", "what"),
    [
        pytest.param(b"", 0, "empty", id="empty"),
        pytest.param(b'[{"training-run": 1, ', 21, "not whole JSON", id="cut off"),
        pytest.param(b"[\xff]", 1, "UTF-8", id="no text"),
        pytest.param(b"{}", 0, "not a list", id="an object"),
        pytest.param(b"[3]", 0, "not an object", id="a number"),
        pytest.param(b"[" * 100_000, 0, "not JSON that can be read", id="nesting"),
        pytest.param(b" " * (MOST_BYTES + 1), MOST_BYTES, "larger", id="huge"),
        pytest.param(json.dumps([{**ONE, "training-run": -1}]).encode(), 0, "training-run", id="negative"),
        pytest.param(json.dumps([{**ONE, "latest-mode-step": {"FIT": 1}}]).encode(), 0, "FIT", id="unknown mode"),
        pytest.param(
            json.dumps([{**ONE, "latest-mode-step": {"EVAL": "1"}}]).encode(), 0, "EVAL", id="text for a step"
        ),
        pytest.param(b'[{"training-run": 1}]', 0, "latest-mode-step", id="a field is missing"),
    ],
)
def test_damage_is_told(content: bytes, offset: int, what: str) -> None:
    with pytest.raises(RecordError, match=what) as caught:
        decode_states(content, key="metadata.json")
    assert (caught.value.key, caught.value.offset) == ("metadata.json", offset)


@given(
    st.binary(max_size=300)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_whatever_lies_there_it_is_read_or_told(content: bytes) -> None:
    try:
        states = decode_states(content, key="metadata.json")
    except RecordError:
        return
    assert decode_states(encode_states(states), key="metadata.json") == states


def test_an_unknown_mode_is_not_written() -> None:
    with pytest.raises(ValueError, match="FIT"):
        encode_states([TrainingState(1, 1, mode_steps={"FIT": 1})])
