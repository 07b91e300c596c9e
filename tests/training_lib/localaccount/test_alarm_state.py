from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside_localaccount.alarm_state import (
    ALARM,
    INSUFFICIENT_DATA,
    OK,
    AlarmQuestion,
    evaluate,
    statistic,
)

NOW = 10_000.0


def question(**change: Any) -> AlarmQuestion:
    defaults: dict[str, Any] = {
        "statistic": "Maximum",
        "period_seconds": 60,
        "evaluation_periods": 1,
        "datapoints_to_alarm": 1,
        "comparison": "GreaterThanThreshold",
        "threshold": 0.0,
    }
    return AlarmQuestion(**(defaults | change))


def samples(*values_by_age: float | None) -> list[tuple[float, float]]:
    """One sample in each period of 60 s, the newest first; None: no sample in that period."""
    return [(NOW - 60 * age - 1, value) for age, value in enumerate(values_by_age) if value is not None]


THREE = {"evaluation_periods": 3, "datapoints_to_alarm": 3}


@pytest.mark.parametrize(
    ("asked", "values", "state"),
    [
        pytest.param({}, (1,), ALARM, id="above"),
        pytest.param({}, (0,), OK, id="at the threshold is not above"),
        pytest.param({"comparison": "GreaterThanOrEqualToThreshold"}, (0,), ALARM, id="at or above"),
        pytest.param({"comparison": "LessThanThreshold", "threshold": 5}, (4,), ALARM, id="below"),
        pytest.param({"comparison": "LessThanThreshold", "threshold": 5}, (5,), OK, id="not below"),
        pytest.param({"comparison": "LessThanOrEqualToThreshold", "threshold": 5}, (5,), ALARM, id="at or below"),
        pytest.param({}, (0, 9), OK, id="an old period does not count"),
        pytest.param(THREE, (1, 1, 1), ALARM, id="three of three"),
        pytest.param(THREE, (1, 0, 1), OK, id="two of three are not three"),
        pytest.param(THREE | {"datapoints_to_alarm": 2}, (1, 0, 1), ALARM, id="two of three suffice"),
        pytest.param(THREE | {"datapoints_to_alarm": 2}, (0, 0, 1), OK, id="one of three does not suffice"),
        pytest.param({}, (), INSUFFICIENT_DATA, id="nothing"),
        pytest.param({"treat_missing_data": "notBreaching"}, (), OK, id="nothing is fine"),
        pytest.param({"treat_missing_data": "breaching"}, (), ALARM, id="nothing is bad"),
        pytest.param({"treat_missing_data": "ignore"}, (), "as before", id="nothing changes nothing"),
        pytest.param(THREE | {"treat_missing_data": "breaching"}, (1, None, 1), ALARM, id="a gap is bad"),
        pytest.param(THREE | {"treat_missing_data": "notBreaching"}, (1, None, 1), OK, id="a gap is fine"),
    ],
)
def test_state(asked: dict[str, Any], values: tuple[float | None, ...], state: str) -> None:
    answer = evaluate(question(**asked), samples(*values), now=NOW, state="as before")

    assert answer.state == state
    assert answer.reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("Sum", 10, id="sum"),
        pytest.param("Average", 2.5, id="average"),
        pytest.param("Minimum", 1, id="minimum"),
        pytest.param("Maximum", 4, id="maximum"),
        pytest.param("SampleCount", 4, id="count"),
        pytest.param("p50", 2, id="median"),
        pytest.param("p99.9", 4, id="percentile"),
        pytest.param("p0", 1, id="lowest"),
    ],
)
def test_statistic(name: str, value: float) -> None:
    assert statistic(name, [4, 1, 3, 2]) == value


def test_an_unknown_statistic_is_said_with_what_would_work() -> None:
    with pytest.raises(ValueError, match=r"'Mean' is not known here.*Average"):
        statistic("Mean", [1])


@given(
    values=st.lists(st.one_of(st.none(), st.floats(-5, 5)), max_size=6),
    periods=st.integers(1, 5),
    needed=st.integers(1, 5),
    missing=st.sampled_from(["missing", "breaching", "notBreaching", "ignore"]),
)
def test_needing_more_datapoints_never_turns_an_alarm_on(
    values: list[float | None], periods: int, needed: int, missing: str
) -> None:
    def state(needed: int) -> str:
        asked = question(evaluation_periods=periods, datapoints_to_alarm=needed, treat_missing_data=missing)
        return evaluate(asked, samples(*values), now=NOW, state=OK).state

    assert not (state(needed) == OK and state(needed + 1) == ALARM)
