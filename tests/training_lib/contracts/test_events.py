"""Verdicts and events: goldens of every version stay readable, non-finite evidence survives, both shapes arrive."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.action import Action
from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.event import (
    DETAIL_TYPE,
    RuleEvaluationStatus,
    TrainingJob,
    evaluation_of,
    read_rule_evaluations,
    read_training_job_state_change,
)
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict

GOLDEN = Path(__file__).parent / "golden"
JOB = TrainingJob("digits", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits")
NUMBERS = st.floats(allow_nan=False) | st.just(math.inf)
FINDINGS = st.builds(
    Finding,
    subject=st.text(max_size=20),
    step=st.integers(0, 10**9),
    since_step=st.integers(0, 10**9),
    measure=st.text(max_size=20),
    observed=NUMBERS,
    relation=st.sampled_from(["<", ">"]),
    threshold=NUMBERS,
    worker=st.text(max_size=10),
    statistics=st.dictionaries(st.text(max_size=8), NUMBERS, max_size=4),
    series=st.lists(st.tuples(st.integers(0, 10**9), NUMBERS), max_size=20).map(tuple),
)
VERDICTS = st.builds(
    Verdict,
    run=st.text(max_size=20),
    rule_id=st.text(max_size=20),
    configuration_name=st.text(max_size=20),
    outcome=st.sampled_from(list(Outcome)),
    severity=st.sampled_from(list(Severity)),
    step=st.integers(0, 10**9),
    message=st.text(max_size=2000),
    detected_at=st.floats(0, 4e9),
    findings=st.lists(FINDINGS, max_size=3).map(tuple),
    affected=st.integers(0, 100),
    what_to_do=st.lists(st.text(max_size=20), max_size=2).map(tuple),
    actions=st.lists(st.sampled_from(list(Action)), unique=True).map(tuple),
    tensor_key=st.text(max_size=20),
)


def golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def the_verdict() -> Verdict:
    finding = Finding(
        subject="gradient/Net_layers.0.weight",
        step=40,
        since_step=0,
        measure="mean |gradient|",
        observed=3.1e-12,
        relation="<",
        threshold=1e-7,
        statistics={"abs_max": 2e-11, "nonfinite_count": 0.0, "worst": math.inf},
        series=((0, 3.3e-12), (40, 3.1e-12)),
    )
    return Verdict(
        run="digits",
        rule_id="vanishing-gradient",
        configuration_name="vanishing-gradient",
        outcome=Outcome.ISSUE_FOUND,
        severity=Severity.CRITICAL,
        step=40,
        message="Gradients vanish in Net_layers.0.weight and 11 more tensors since step 0.",
        detected_at=1_763_700_000.25,
        findings=(finding,),
        affected=12,
        what_to_do=("Use ReLU.",),
        actions=(Action.STOP_TRAINING, Action.NOTIFY),
        tensor_key="debug-output/events/000000000040/000000000040_worker_0.tfevents",
        suspicions=(Suspicion(Cause.VANISHING_GRADIENTS, "1e-05 of the last layer's"), Suspicion(Cause.DEAD_UNITS)),
        group="digits/weight-update-ratio/issue-found",
    )


def test_the_verdict_is_written_as_its_golden_says() -> None:
    assert json.loads(the_verdict().to_json()) == golden("verdict_v2.json")


def test_the_event_is_written_as_its_golden_says() -> None:
    evaluation = evaluation_of(
        the_verdict(), job=JOB, run_uri="s3://bucket/digits", evaluation_job_arn="arn:aws:sagemaker:processing"
    )
    added_since = {"Sequence": 2}
    assert evaluation.to_detail() == {**golden("rule_evaluation_v1.json")["detail"], **added_since}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("verdict_v*.json")), ids=lambda p: p.stem)
def test_every_golden_verdict_stays_readable(path: Path) -> None:
    assert Verdict.from_json(path.read_text(encoding="utf-8")).rule_id == "vanishing-gradient"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("rule_evaluation_v*.json")), ids=lambda p: p.stem)
def test_every_golden_event_stays_readable(path: Path) -> None:
    (evaluation,) = read_rule_evaluations(golden(path.name))
    assert (evaluation.job, evaluation.status) == (JOB, RuleEvaluationStatus.ISSUES_FOUND)
    assert evaluation.evidence.statistics["worst"] == math.inf


@given(VERDICTS)
def test_a_verdict_survives_json(verdict: Verdict) -> None:
    assert Verdict.from_json(verdict.to_json()) == verdict


@given(VERDICTS)
def test_an_event_carries_the_verdict_and_fits_onto_the_bus(verdict: Verdict) -> None:
    evaluation = evaluation_of(verdict, job=JOB, run_uri="s3://bucket/run")
    detail = json.loads(json.dumps(evaluation.to_detail(), allow_nan=False))
    assert len(json.dumps(detail)) < 256 * 1024
    (read,) = read_rule_evaluations({"id": "1", "detail-type": DETAIL_TYPE, "detail": detail})
    assert read.details == verdict.message[:1024]
    assert (read.actions, read.severity, read.evidence) == (verdict.actions, verdict.severity, evaluation.evidence)


def test_the_official_event_brings_every_rule() -> None:
    evaluations = read_rule_evaluations(golden("official_issues_found.json"))
    assert [(e.configuration_name, e.found_issues, e.actions) for e in evaluations] == [
        ("VanishingGradient", True, None),
        ("LossNotDecreasing", False, None),
    ]
    assert evaluations[0].job == JOB


@pytest.mark.parametrize("status", ["Completed", "Failed", "Stopping", "Stopped"])
def test_an_official_event_of_a_job_that_no_longer_runs_brings_nothing(status: str) -> None:
    event = golden("official_issues_found.json")
    event["detail"]["TrainingJobStatus"] = status
    assert read_rule_evaluations(event) == ()


def test_an_official_event_without_rules_brings_nothing() -> None:
    event = golden("official_issues_found.json")
    del event["detail"]["DebugRuleEvaluationStatuses"]
    assert read_rule_evaluations(event) == ()


@pytest.mark.parametrize(
    ("event", "said"),
    [
        pytest.param({"detail-type": "Something Else"}, ["detail-type: is 'Something Else'"], id="another-event"),
        pytest.param({"detail-type": DETAIL_TYPE}, ["detail: must be an object"], id="no-detail"),
        pytest.param(
            {"detail-type": DETAIL_TYPE, "detail": {"TrainingJobName": 3, "RuleEvaluationStatus": "Issues"}},
            ["detail.TrainingJobName", "detail.TrainingJobArn: is missing", "one of InProgress, NoIssuesFound"],
            id="everything-at-once",
        ),
    ],
)
def test_an_unreadable_event_says_all_that_is_wrong(event: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_rule_evaluations({"id": "e-1", **event})
    for part in ["e-1", *said]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("status", "ended"),
    [("InProgress", False), ("Stopping", False), ("Completed", True), ("Failed", True), ("Stopped", True)],
)
def test_a_state_change_knows_whether_the_job_has_ended(status: str, ended: bool) -> None:
    event = golden("official_issues_found.json")
    event["detail"]["TrainingJobStatus"] = status
    change = read_training_job_state_change(event)
    assert (change.job, change.has_ended) == (JOB, ended)
    assert change.tags["trackside:run"] == "s3://bucket/digits"


def test_evidence_of_a_verdict_without_findings_is_empty() -> None:
    clean = Verdict(
        run="r",
        rule_id="x",
        configuration_name="x",
        outcome=Outcome.CLEAN,
        severity=Severity.INFO,
        step=9,
        message="",
        detected_at=0,
    )
    evaluation = evaluation_of(clean, job=JOB, run_uri="s3://b/r")
    assert not evaluation.found_issues
    assert (evaluation.evidence.tensor_name, evaluation.evidence.step) == ("", 9)
