"""What follows the end of an evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambdas.shared.decisions import Nothing
from lambdas.shared.processing_jobs import evaluator_name
from lambdas.start_evaluation.chain import FINAL_EXIT_CODES, EvaluatorEnd, GiveUp, NotifyOwner, decide_next, read_end
from lambdas.start_evaluation.logic import StartEvaluation
from tests.lambdas.start_evaluation.test_logic import ARN, SETTINGS, STARTED
from trackside.contracts.deployment.evaluator_ending import EndKind, EvaluatorEnding, read_ending
from trackside.contracts.deployment.evaluators import CONTINUED_PREFIX, MOST_LINKS, hand_over_seconds
from trackside.contracts.errors import ConfigurationError
from trackside.evaluation import exit_codes

ENVIRONMENT = {
    "TRACKSIDE_RUN": "s3://runs-bucket/team/digits-01",
    "TRACKSIDE_EVENT_BUS": "trackside",
    "TRAINING_JOB_NAME": "digits-01",
    "TRAINING_JOB_ARN": ARN,
    "TRACKSIDE_MAX_RUNTIME_SECONDS": "1000",
}
CONTINUED = EvaluatorEnd(
    name=evaluator_name(STARTED.job),
    status="Completed",
    role_arn=SETTINGS.role_arn,
    environment=ENVIRONMENT,
    exit_message=f"{CONTINUED_PREFIX}judged up to step 7.",
    started_at=5000.0,
    ended_at=5800.0,
    max_runtime_seconds=1000,
)
CRASHED = replace(CONTINUED, status="Failed", exit_message="", failure_reason="AlgorithmError: , exit code: 137")


SILENT = replace(CONTINUED, exit_message="")  # its container could not write to /opt/ml/output


def decide(end: EvaluatorEnd, *notes: EvaluatorEnding) -> Any:
    """The decision; `notes` lie in the run."""
    return decide_next(end, SETTINGS, read_note=lambda run, key: next(iter(notes), None))


def note(kind: EndKind, *, link: int = 1, job: str = ARN) -> EvaluatorEnding:
    return EvaluatorEnding(job, link, kind, "Judged up to step 7.")


def with_variables(end: EvaluatorEnd, **more: str) -> EvaluatorEnd:
    return replace(end, environment={**ENVIRONMENT, **more})


@pytest.mark.parametrize(
    ("end", "link", "restarts"),
    [
        pytest.param(CONTINUED, 2, None, id="handed over"),
        pytest.param(with_variables(CONTINUED, TRACKSIDE_LINK="41"), 42, None, id="a later link"),
        pytest.param(replace(CRASHED, status="Stopped", ended_at=5995.0), 2, None, id="ended by SageMaker: Stopped"),
        pytest.param(replace(CRASHED, ended_at=6001.0), 2, None, id="ended by SageMaker: Failed"),
        pytest.param(CRASHED, 2, "1", id="killed"),
        pytest.param(replace(CRASHED, failure_reason=""), 2, "1", id="ended without a word"),
        pytest.param(
            replace(CRASHED, failure_reason="AlgorithmError: , exit code: 3"), 2, "1", id="the run was unreadable"
        ),
        pytest.param(
            replace(CRASHED, failure_reason="InternalServerError", started_at=0, ended_at=0), 2, "1", id="never began"
        ),
        pytest.param(
            with_variables(CONTINUED, TRACKSIDE_LINK="2", TRACKSIDE_RESTARTS="1"),
            3,
            None,
            id="handed over after a restart",
        ),
    ],
)
def test_another_goes_on(end: EvaluatorEnd, link: int, restarts: str | None) -> None:
    start = decide(end)
    assert isinstance(start, StartEvaluation)
    assert start.name == start.request["ProcessingJobName"] == evaluator_name(STARTED.job, link=link)
    environment = start.request["Environment"]
    assert (environment["TRACKSIDE_LINK"], environment.get("TRACKSIDE_RESTARTS")) == (str(link), restarts)
    assert environment["TRACKSIDE_MAX_RUNTIME_SECONDS"] == str(SETTINGS.max_runtime_seconds)
    assert {name: environment[name] for name in ENVIRONMENT if name != "TRACKSIDE_MAX_RUNTIME_SECONDS"} == {
        name: value for name, value in ENVIRONMENT.items() if name != "TRACKSIDE_MAX_RUNTIME_SECONDS"
    }
    assert start.request["RoleArn"] == SETTINGS.role_arn
    assert {"Key": "trackside:training-job", "Value": ARN} in start.request["Tags"]
    assert start.reason


def test_a_link_for_one_rule_has_a_successor_for_that_rule() -> None:
    start = decide(with_variables(CONTINUED, TRACKSIDE_RULE_CONFIGURATION="overfit"))
    assert isinstance(start, StartEvaluation)
    assert start.name == evaluator_name(STARTED.job, configuration="overfit", link=2)
    assert start.request["Environment"]["TRACKSIDE_RULE_CONFIGURATION"] == "overfit"


@pytest.mark.parametrize(
    "end",
    [
        *[
            pytest.param(
                replace(CRASHED, failure_reason=f"AlgorithmError: , exit code: {code}"), id=f"exit code {code}"
            )
            for code in sorted(FINAL_EXIT_CODES)
        ],
        pytest.param(with_variables(CRASHED, TRACKSIDE_LINK="2", TRACKSIDE_RESTARTS="1"), id="crashed twice in a row"),
        pytest.param(with_variables(CONTINUED, TRACKSIDE_LINK=str(MOST_LINKS)), id="a chain without an end"),
    ],
)
def test_what_will_repeat_is_told_and_not_tried_again(end: EvaluatorEnd) -> None:
    decision = decide(end)
    assert isinstance(decision, GiveUp)
    assert "digits-01 is no longer watched" in decision.reason
    again = decide(replace(end, is_repeated=True))
    assert isinstance(again, Nothing), "a sweep that finds it again does not raise the alarm again"


@pytest.mark.parametrize(
    ("end", "surprising"),
    [
        pytest.param(replace(CONTINUED, exit_message="No issue found by 3 of 3 rules."), False, id="done"),
        pytest.param(
            replace(CONTINUED, exit_message="No issue found.", ended_at=6000.0), False, id="done at the limit"
        ),
        pytest.param(replace(CRASHED, status="InProgress", ended_at=0.0), False, id="still runs"),
        pytest.param(replace(CRASHED, status="Stopping"), False, id="is being stopped"),
        pytest.param(replace(CRASHED, status="Stopped"), True, id="stopped by a person"),
        pytest.param(replace(CONTINUED, role_arn="arn:aws:iam::123456789012:role/other"), True, id="another's role"),
        pytest.param(replace(CONTINUED, role_arn=""), True, id="no role"),
        pytest.param(replace(CONTINUED, environment={}), True, id="no run"),
        pytest.param(with_variables(CONTINUED, TRAINING_JOB_ARN=""), True, id="no training job"),
    ],
)
def test_nothing_follows(end: EvaluatorEnd, surprising: bool) -> None:
    decision = decide(end)
    assert isinstance(decision, Nothing)
    assert decision.surprising is surprising


@pytest.mark.parametrize(
    ("notes", "decision", "restarts"),
    [
        pytest.param([note(EndKind.CONTINUED)], StartEvaluation, None, id="handed over"),
        pytest.param([note(EndKind.JUDGED)], Nothing, None, id="done"),
        pytest.param([note(EndKind.NOTHING_JUDGED)], NotifyOwner, None, id="no rule could judge"),
        pytest.param([], StartEvaluation, "1", id="no note: there may be something left"),
        pytest.param([note(EndKind.JUDGED, link=2)], StartEvaluation, "1", id="another link's note"),
        pytest.param([note(EndKind.JUDGED, job=f"{ARN}-2")], StartEvaluation, "1", id="another job's note"),
    ],
)
def test_nothing_depends_on_the_exit_message(
    notes: list[EvaluatorEnding], decision: type[Any], restarts: str | None
) -> None:
    found = decide(SILENT, *notes)
    assert isinstance(found, decision)
    if isinstance(found, StartEvaluation):
        assert found.request["Environment"].get("TRACKSIDE_RESTARTS") == restarts


def test_an_end_without_any_word_is_tried_again_once_and_then_told_of() -> None:
    assert isinstance(decide(with_variables(SILENT, TRACKSIDE_LINK="2", TRACKSIDE_RESTARTS="1")), GiveUp)


@pytest.mark.parametrize("text", [None, b"", b"{", b"[]", b'{"job": 1}', b'{"job": "a", "link": 1, "kind": "?"}'])
def test_a_note_that_cannot_be_read_is_none(text: bytes | None) -> None:
    assert read_ending(text) is None
    whole = note(EndKind.CONTINUED)
    assert read_ending(whole.to_json().encode()) == whole
    assert len(replace(whole, message="é" * 10_000).to_json()) < 60_000


def test_exit_codes_are_those_of_the_evaluator() -> None:
    assert {exit_codes.BAD_CONFIGURATION, exit_codes.RULE_CRASHED} == FINAL_EXIT_CODES


def event(**detail: Any) -> dict[str, Any]:
    """As SageMaker sends it; it writes "" for what is absent."""
    with_variables = {
        "ProcessingJobName": CONTINUED.name,
        "ProcessingJobStatus": "Completed",
        "RoleArn": SETTINGS.role_arn,
        "Environment": ENVIRONMENT,
        "ExitMessage": CONTINUED.exit_message,
        "FailureReason": "",
        "StoppingCondition": {"MaxRuntimeInSeconds": 1000},
        "ProcessingStartTime": 5_000_000,
        "ProcessingEndTime": 5_800_000,
        "CreationTime": 4_900_000,
        "NetworkConfig": "",
    }
    kind = "SageMaker Processing Job State Change"
    return {"id": "1", "source": "aws.sagemaker", "detail-type": kind, "detail": {**with_variables, **detail}}


def test_reads_what_sagemaker_sends() -> None:
    assert read_end(event()) == CONTINUED
    assert read_end({**event(), "source": "trackside.reconcile"}).is_repeated


@pytest.mark.parametrize("name", ["Environment", "StoppingCondition", "ProcessingStartTime", "ProcessingEndTime"])
def test_an_empty_text_stands_for_what_is_absent(name: str) -> None:
    end = read_end(event(**{name: ""}))
    assert isinstance(decide(end), StartEvaluation | Nothing)


def test_an_event_of_another_shape_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        read_end(event(ProcessingJobName=7))


values = st.none() | st.booleans() | st.integers() | st.text() | st.dictionaries(st.text(), st.text(), max_size=2)


@given(
    st.dictionaries(st.sampled_from(sorted(event()["detail"])), values),
    st.dictionaries(st.sampled_from(sorted(ENVIRONMENT)), st.text()),
)
def test_whatever_comes_is_decided_or_refused(detail: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    try:
        end = read_end(event(**{"Environment": {**ENVIRONMENT, **environment}, **detail}))
    except ConfigurationError:
        return
    decision = decide(end)
    if isinstance(decision, StartEvaluation):
        assert decision.request["RoleArn"] == SETTINGS.role_arn


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [pytest.param(10.0, 8.0, id="seconds"), pytest.param(432_000.0, 431_100.0, id="days")],
)
def test_what_is_left_for_handing_over(limit: float, seconds: float) -> None:
    assert hand_over_seconds(limit) == seconds
