"""How a problem began: signals that leave their own line, in order, and none that follow it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.local.verdicts import finding, issue
from tests.training_lib.views.report.charts.test_markup import seen
from trackside.contracts.issue_group import IssueGroup, issue_groups
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run_layout import RunLocation, checkpoints_key
from trackside.records.checkpoints_file import encode_checkpoints
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors
from trackside.trial.trial import open_trial
from trackside.views.report.incident import Incident, departure, incidents
from trackside.views.report.incident_section import batches_to_skip, incident_section, sentence_of, way_back

STEPS = np.arange(400)
NOISE = np.exp(0.1 * np.random.default_rng(0).normal(size=len(STEPS)))
SINCE = 300


def jump(at: int, factor: float = 10.0) -> np.ndarray:
    return np.asarray(np.where(at <= STEPS, factor, 1.0))


@pytest.mark.parametrize(
    ("values", "left"),
    [
        pytest.param(NOISE * jump(300), 300, id="jumps"),
        pytest.param(NOISE * jump(290), 290, id="jumps-before-the-finding"),
        pytest.param(NOISE * jump(300, 1e-3), 300, id="collapses"),
        pytest.param(np.where(STEPS >= 310, np.nan, NOISE), 310, id="breaks"),
        pytest.param(np.where(STEPS >= 310, 0.0, NOISE), 310, id="is-zero"),
        pytest.param(np.where(STEPS >= 305, 5.0, 0.0), 305, id="was-zero"),
        pytest.param(-NOISE * jump(300), 300, id="below-zero"),
        pytest.param(np.full(len(STEPS), 0.01) * jump(300, 100), 300, id="a-setting"),
        pytest.param(NOISE, None, id="noise"),
        pytest.param(np.exp(-STEPS / 200) * NOISE, None, id="falls-as-before"),
        pytest.param(1 - np.exp(-(STEPS + 20) / 80), None, id="levels-off"),
        pytest.param(NOISE * np.where(STEPS == 280, 1e3, 1.0), None, id="one-spike-long-gone"),
        pytest.param(np.zeros(len(STEPS)), None, id="always-zero"),
        pytest.param(NOISE * jump(20), None, id="jumped-at-the-beginning"),
    ],
)
def test_only_what_leaves_its_line_for_good_has_left(values: np.ndarray, left: int | None) -> None:
    assert departure(STEPS, values, SINCE) == left


@pytest.mark.parametrize(
    "values",
    [pytest.param(NOISE, id="few-numbers"), pytest.param(np.full(len(STEPS), np.nan), id="no-finite-number")],
)
def test_too_few_numbers_before_are_no_baseline(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="too few"):
        departure(STEPS[:30] if values is NOISE else STEPS, values[:30] if values is NOISE else values, 12)


def test_numbers_that_grow_seldom_are_not_judged_by_the_beginning() -> None:
    """As the size of updates: at each of the first twenty steps, then ever more seldom; it falls as trainings do."""
    steps = np.array([*range(20), 30, 40, 80, 160, 240, 301, 302, 303])
    values = np.exp(-steps / 60) * np.where(steps > 300, 1e6, 1.0)
    with pytest.raises(ValueError, match="too few"):
        departure(steps, values, 301)
    seldom = np.array([*range(20), *range(30, 301, 15), 301, 302, 303])  # and enough of them
    values = np.exp(-seldom / 200) * np.where(seldom > 300, 1e6, 1.0)
    found = departure(seldom, values, 301)
    assert found is not None
    assert seldom[found] == 301


@given(st.lists(st.floats(width=32), min_size=1, max_size=60), st.integers(0, 70))
def test_any_numbers_have_an_answer(values: list[float], since: int) -> None:
    steps = np.arange(len(values))
    try:
        found = departure(steps, np.array(values), since)
    except ValueError:
        return
    assert found is None or 0 <= found < len(values)


def group(*, since: int, step: int, subject: str) -> IssueGroup:
    one = replace(issue(findings=(finding(subject),)), step=step)
    found = replace(one, findings=tuple(replace(each, step=step, since_step=since) for each in one.findings))
    (only,) = issue_groups([found])
    return only


def write(folder: Path, numbers: Mapping[str, tuple[str, np.ndarray]]) -> str:
    run = RunLocation(str(folder))
    tensors = LocalStore(run.tensors)
    write_collections(tensors)
    write_tensors(tensors, 0, {"CrossEntropyLoss_output_0": 2.0})
    rows = {name: {stat: dict(enumerate(values.tolist()))} for name, (stat, values) in numbers.items()}
    write_statistics(LocalStore(run.statistics), rows)
    end_run(tensors)
    return run.uri


HOSTILE = "gradient/</title><script>alert(1)</script>"


def test_signals_stand_in_the_order_in_which_they_left(tmp_path: Path) -> None:
    uri = write(
        tmp_path / "run",
        {
            "CrossEntropyLoss_output_0": ("mean", NOISE * jump(309)),
            "gradient/Net_b.weight": ("l2", np.where(STEPS >= 304, np.nan, NOISE)),
            HOSTILE: ("l2", NOISE * jump(301)),
            "gradient/Net_quiet.weight": ("l2", NOISE),
            "hyperparameters/SGD/group_0/lr": ("mean", np.full(len(STEPS), 0.1) * jump(301)),
            "trackside/batch": ("mean", STEPS * 7.0),
            "trackside/epoch": ("mean", STEPS // 100 * 1.0),
        },
    )
    (found,) = incidents(open_trial(uri), [group(since=305, step=310, subject=HOSTILE)])
    assert [(signal.name, signal.left) for signal in found.signals] == [
        ("hyperparameters/SGD/group_0/lr", (301, 301)),
        (HOSTILE, (301, 301)),
        ("gradient/Net_b.weight", (304, 304)),
        ("CrossEntropyLoss_output_0", (309, 309)),
    ]
    assert math.isnan(found.signals[2].after)
    assert found.stayed == 1
    assert (301, 3, None, 2107) in found.batches
    assert "hyperparameters/SGD/group_0/lr, at step 301, and 1 more with it" in sentence_of(found)
    assert way_back(found).startswith("Go back to a checkpoint of step 300 or before.")
    listed = [Checkpoint(step, f"/out/<b>{step}.pt") for step in (199, 299, 304)]
    LocalStore(RunLocation(uri).tensors).put(checkpoints_key("worker_0"), encode_checkpoints(listed))
    (found,) = incidents(open_trial(uri), [group(since=305, step=310, subject=HOSTILE)])
    assert way_back(found).startswith("Go back to the checkpoint of step 299: /out/<b>299.pt.")  # not that of 304
    page = seen(str(incident_section([found])))
    assert not [name for name, _ in page.elements if name == "script"]
    assert "300" in page.text


def test_a_fault_of_the_first_steps_has_no_order(tmp_path: Path) -> None:
    uri = write(tmp_path / "run", {"gradient/Net_a.weight": ("l2", NOISE * 1e-9)})
    (found,) = incidents(open_trial(uri), [group(since=3, step=8, subject="gradient/Net_a.weight")])
    assert found.young
    assert "from the start" in sentence_of(found)
    assert "start anew" in way_back(found)


def test_a_problem_without_a_signal_says_so(tmp_path: Path) -> None:
    uri = write(tmp_path / "run", {"gradient/Net_a.weight": ("l2", NOISE)})
    (found,) = incidents(open_trial(uri), [group(since=300, step=310, subject="gradient/Net_a.weight")])
    assert not found.signals
    assert "No recorded signal left" in sentence_of(found)


def test_a_problem_that_has_gone_has_no_incident(tmp_path: Path) -> None:
    uri = write(tmp_path / "run", {"gradient/Net_a.weight": ("l2", NOISE)})
    gone = replace(group(since=300, step=310, subject="x"))
    gone = replace(gone, recovered={gone.lead.configuration_name: gone.lead})
    assert incidents(open_trial(uri), [gone]) == ()


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        pytest.param([], "", id="none"),
        pytest.param([(59, 66)], "batches 59 to 66", id="some"),
        pytest.param([(7, 7)], "batch 7", id="one"),
        pytest.param([(7, 7), (7, 7)], "batches 7", id="two-issues-name-the-same"),
        pytest.param([(1, 2), (9, 9)], "batches 1 to 2, 9", id="of-two-issues"),
        pytest.param([(0, 5000)], "", id="too-many-to-be-to-blame"),
    ],
)
def test_the_batches_to_leave_out_are_named(spans: list[tuple[int, int]], words: str) -> None:
    issues = [
        issue(f"rule-{place}", findings=(replace(finding(), statistics={"first_batch": first, "last_batch": last}),))
        for place, (first, last) in enumerate(spans)
    ] or [issue()]
    incident = Incident(IssueGroup(tuple(issues), {}), (0, 100), 50, (), 0, False, (), None)
    assert batches_to_skip(incident) == words
    text = seen(str(incident_section([incident]))).text
    assert ("skip_batches.json" in text) is bool(words)
