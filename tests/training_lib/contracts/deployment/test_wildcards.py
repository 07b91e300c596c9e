"""The complexity of wildcards, against the answers of AWS's event-ruler (commit 337e8d9, run by hand)."""

from __future__ import annotations

import pytest

from trackside.contracts.deployment.wildcards import LEAST_REFUSED, MOST_COMPLEX, wildcard_complexity

MARKERS = ("*/watermarks/*", "*/debug-output/training_job_end.ts")


@pytest.mark.parametrize(
    ("patterns", "by_event_ruler"),
    [
        pytest.param([], 0, id="no wildcard"),
        pytest.param(["a*"], 2, id="an end"),
        pytest.param(["*a"], 2, id="a beginning"),
        pytest.param(["*ab"], 2, id="a longer beginning"),
        pytest.param(["*aa"], 3, id="a character twice"),
        pytest.param(["*aaaa"], 5, id="a character four times"),
        pytest.param(["*a*"], 3, id="both"),
        pytest.param(["*a*b*"], 4, id="three asterisks"),
        pytest.param(["a*b*c*d*e*f*g*"], 8, id="many"),
        pytest.param(["a*", "b*"], 2, id="two that never go together"),
        pytest.param(["team-a*", "team-b*", "team-c*"], 3, id="three with one beginning"),
        pytest.param(["*-a-*", "*-b-*"], 7, id="two that go together"),
        pytest.param(MARKERS, 6, id="writes to a run"),
    ],
)
def test_is_the_measure_of_event_ruler(patterns: list[str], by_event_ruler: int) -> None:
    assert wildcard_complexity(patterns) == by_event_ruler


@pytest.mark.parametrize(
    ("patterns", "by_event_ruler"),
    [
        pytest.param(["*:*:*:*:*:event-bus/*"], 11, id="as the service was recorded to refuse"),
        pytest.param([f"*-tea{letter}-*" for letter in "mnop"], 13, id="four of two asterisks"),
        pytest.param(["*/index/*", "*/packed/*", "*/stat/*", "*/y/end"], 12, id="one rule for all writes, before"),
        pytest.param([f"*{'ab' * number}*" for number in range(1, 30)], 100, id="more states than are searched"),
    ],
)
def test_stops_at_what_is_refused(patterns: list[str], by_event_ruler: int) -> None:
    assert MOST_COMPLEX < LEAST_REFUSED <= by_event_ruler
    assert wildcard_complexity(patterns) == LEAST_REFUSED


def test_an_escaped_asterisk_is_a_character() -> None:
    assert wildcard_complexity([r"a\*b"]) == wildcard_complexity(["axb"]) == 1
