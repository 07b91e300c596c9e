"""What `trackside check` prints of its probes."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from tests.training_lib.cli.terminal.views.test_run_view import result
from trackside.cli.terminal.views.check_view import answer_lines, summary
from trackside.contracts.run.check import ALL_PROBES, Answer, Outcome
from trackside.rehearsal.check import CheckResult

WHY = "the loss takes a tensor that no call has returned"
OK = [Answer(f"probe-{number}", Outcome.OK, "fine") for number in range(3)]
KEPT = [Answer(name, Outcome.NOT_TRIED, WHY) for name in ("order-matters", "evaluation-repeats", "batch-is-learnable")]
NOTHING = [Answer(f"kind-{number}", Outcome.DOES_NOT_APPLY, f"no {number}") for number in range(3)]
FAULT = Answer("script-runs", Outcome.FAULT, "it ended with code 3", what="The script ended.")


def lines(answers: Sequence[Answer]) -> list[str]:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    return [line.plain for line in answer_lines(console, answers)]


def test_probes_that_one_reason_kept_from_trying_share_a_line() -> None:
    found = lines([OK[0], KEPT[0], OK[1], KEPT[1], Answer("ranks-agree", Outcome.NOT_TRIED, "one lacks"), KEPT[2]])
    assert [line.split("  ")[0] for line in found if line[0] != " "] == [
        "✔ ok",
        "◌ could not try",
        "✔ ok",
        "◌ could not try",
    ]
    text = " ".join(" ".join(found).split())
    assert text.count(WHY) == 1
    assert "3 probes" in text
    assert all(each.probe in text for each in KEPT)
    assert "ranks-agree one lacks" in text


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param(NOTHING[:1], "kind-0 no 0", id="one-has-its-reason"),
        pytest.param(
            NOTHING,
            "3 probes nothing here is of their kind; the reasons are in --json: kind-0, kind-1, kind-2",
            id="several-share-a-line",
        ),
        pytest.param(
            [Answer(each.probe, each.outcome, "one process trains") for each in NOTHING[:2]],
            "2 probes one process trains: kind-0, kind-1",
            id="one-reason-is-shown",
        ),
    ],
)
def test_probes_that_do_not_apply_share_a_line(answers: Sequence[Answer], expected: str) -> None:
    found = lines([*answers[:1], OK[0], *answers[1:]])
    assert len([line for line in found if line[0] == "–"]) == 1
    assert expected in " ".join(" ".join(line for line in found if "fine" not in line).split())
    assert all(len(line) <= 80 for line in found)


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        pytest.param(OK, "Passed.", id="all-tried"),
        pytest.param([*OK, *KEPT[:2]], "Passed.", id="most-tried"),
        pytest.param([*OK, *KEPT], "Passed, but hardly checked: few probes could be tried.", id="half-tried"),
        pytest.param([*OK, *NOTHING], "Passed.", id="most-apply"),
        pytest.param(
            [*OK, Answer(ALL_PROBES, Outcome.NOT_TRIED, WHY)],
            "Passed, but hardly checked: few probes could be tried.",
            id="judged-by-rules-alone",
        ),
        pytest.param(
            KEPT[:1], "Not judged: no probe could be tried, and too little for any rule was seen.", id="none-tried"
        ),
        pytest.param([FAULT, *KEPT], "Failed: 1 fault.", id="a-fault"),
    ],
)
def test_a_rehearsal_with_few_answers_does_not_merely_pass(answers: Sequence[Answer], verdict: str) -> None:
    text = summary(CheckResult(result(), 50, tuple(answers), ()), fail_on="warning")
    assert f". {verdict} Run: " in text
