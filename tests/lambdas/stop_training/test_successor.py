"""The job that goes on: when there may be one, and that its request is the stopped one's but for what must differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import botocore.session
import pytest

from lambdas.stop_training.logic import Known
from lambdas.stop_training.successor import (
    MOST_NAME_CHARACTERS,
    Successor,
    is_to_resume,
    reason_to_leave,
    successor_name,
    successor_of,
)
from tests.lambdas.stop_training.stopped_job import ARN, CHECKPOINT, FOUND, ROLE, SETTINGS, TAGS, described
from trackside.contracts.action import Action
from trackside.contracts.deployment.run_table import merged
from trackside.contracts.deployment.stop_record import DecisionRecord, StopOutcome
from trackside.contracts.event import Evidence, RuleEvaluation, RuleEvaluationStatus
from trackside.contracts.run.resumption import ORDER_VARIABLE, Resumption
from trackside.contracts.verdict import Severity
from trackside.environment import RescueEnvironment, ResumedJobEnvironment

MODEL = botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob")
FIELDS = frozenset(MODEL.input_shape.members)
LABELS = RuleEvaluation(
    job=FOUND.job,
    configuration_name="labels",
    rule_id="class-imbalance",
    status=RuleEvaluationStatus.ISSUES_FOUND,
    details="",
    actions=(),
    evidence=Evidence(since_step=100),
)


def known(*rules: RuleEvaluation, decisions: tuple[DecisionRecord, ...] = ()) -> Known:
    return Known(decisions, {one.configuration_name: merged(None, one) for one in rules})


def found(
    *rules: RuleEvaluation,
    said: RuleEvaluation = FOUND,
    tags: dict[str, str] | None = None,
    settings: Any = SETTINGS,
    **changes: Any,
) -> Successor | str:
    given = described(**changes)
    return successor_of(said, known(*rules), given, TAGS if tags is None else tags, settings, fields=FIELDS)


def order_of(answer: Successor | str) -> Resumption:
    assert isinstance(answer, Successor), answer
    return answer.order


def of_row(number: int, *rules: str) -> dict[str, Any]:
    """The changes of a job that went on in another's place itself."""
    order = Resumption("digits-01", number, f"{ARN}@1", 9, 20, "/opt/ml/checkpoints", rules, billed_seconds=100)
    variables = {"TRACKSIDE_RUN": f"s3://runs-bucket/digits-01/resumed-{number}", ORDER_VARIABLE: order.to_json()}
    return {"Environment": variables, "tags": TAGS | {"trackside:run": variables["TRACKSIDE_RUN"]}}


def test_the_request_is_the_same_but_for_name_run_and_order() -> None:
    answer = found()
    assert isinstance(answer, Successor)
    request, before = dict(answer.request), described()
    assert answer.name == request.pop("TrainingJobName") == "digits-01-resumed-1"
    variables, tags = request.pop("Environment"), {tag["Key"]: tag["Value"] for tag in request.pop("Tags")}
    same = FIELDS & before.keys() - {"TrainingJobName", "Environment", "DebugRuleConfigurations"}  # the latter is empty
    assert request == {name: before[name] for name in same}
    assert {"VpcConfig", "EnableManagedSpotTraining", "ResourceConfig", "CheckpointConfig"} < same
    run = "s3://runs-bucket/digits-01/resumed-1"
    assert tags == TAGS | {"trackside:run": run, "trackside:resumed-from": FOUND.job.identity}
    assert (variables["TRACKSIDE_RUN"], variables["SEED"]) == (run, "7")
    seen = ResumedJobEnvironment.read(variables | {"TRAINING_JOB_NAME": answer.name})
    assert (seen.earlier_run, seen.checkpoint) == ("s3://runs-bucket/digits-01", CHECKPOINT)
    assert Resumption.from_json(seen.order) == answer.order
    assert answer.order.undone_steps == 141
    assert RescueEnvironment.read(variables).restarts


@pytest.mark.parametrize(
    ("run", "place"),
    [
        pytest.param("s3://b/jobs/@job", "s3://b/jobs/@job", id="each job has a run of its own"),
        pytest.param("s3://b/digits", "s3://b/digits/resumed-1", id="below the first, where its role may write"),
        pytest.param("s3://b/digits/", "s3://b/digits/resumed-1", id="a slash at the end"),
        pytest.param("s3://b/resumed-1", "s3://b/resumed-1/resumed-1", id="a name like ours, of a person"),
    ],
)
def test_its_run_lies_where_its_role_may_write(run: str, place: str) -> None:
    answer = found(tags=TAGS | {"trackside:run": run})
    assert isinstance(answer, Successor)
    assert answer.request["Environment"]["TRACKSIDE_RUN"] == place
    assert {"Key": "trackside:run", "Value": place} in answer.request["Tags"]


def test_the_third_job_of_a_row_stands_beside_the_second() -> None:
    answer = found(**of_row(1, "tensor-variance"))
    assert isinstance(answer, Successor)
    assert answer.name == "digits-01-resumed-2"
    assert answer.request["Environment"]["TRACKSIDE_RUN"] == "s3://runs-bucket/digits-01/resumed-2"
    assert answer.order == Resumption(
        "digits-01",
        2,
        FOUND.job.identity,
        checkpoint_step=499,
        at_step=640,
        folder="/opt/ml/checkpoints",
        rules=("tensor-variance", "loss-spike"),
        billed_seconds=7300,
    )


def test_what_its_owner_chose_for_a_rescue_stays() -> None:
    answer = found(Environment={"TRACKSIDE_RESCUE": "0"})
    assert isinstance(answer, Successor)
    assert answer.request["Environment"]["TRACKSIDE_RESCUE"] == "0"
    assert "TRACKSIDE_RESCUE_MODE" not in answer.request["Environment"]


def test_tags_of_aws_itself_are_not_taken_over() -> None:
    answer = found(tags=TAGS | {"aws:cloudformation:stack-name": "x"})
    assert isinstance(answer, Successor)
    assert not [tag for tag in answer.request["Tags"] if tag["Key"].startswith("aws:")]


LATER, EARLIER = (
    replace(
        FOUND,
        configuration_name="gradients",
        rule_id="exploding-gradient",
        evidence=Evidence(step=640, since_step=since, checkpoint=f"/opt/ml/checkpoints/c{step}", checkpoint_step=step),
    )
    for since, step in ((630, 599), (300, 199))
)


@pytest.mark.parametrize(
    ("others", "step"),
    [
        pytest.param((), 499, id="alone"),
        pytest.param((LATER,), 499, id="another began later"),
        pytest.param((EARLIER,), 199, id="another began before: its checkpoint is sound"),
        pytest.param((replace(EARLIER, severity=Severity.WARNING),), 499, id="a warning breaks nothing"),
        pytest.param((replace(EARLIER, status=RuleEvaluationStatus.NO_ISSUES_FOUND),), 499, id="it has recovered"),
        pytest.param((replace(LABELS, evidence=Evidence(since_step=625)),), 499, id="an incurable one that came after"),
    ],
)
def test_it_goes_back_before_all_that_broke(others: tuple[RuleEvaluation, ...], step: int) -> None:
    assert order_of(found(*others)).checkpoint_step == step


@pytest.mark.parametrize(
    ("why", "case"),
    [
        pytest.param("made the job", {"TuningJobArn": "arn:tuning"}, id="of a tuning job"),
        pytest.param("made the job", {"AutoMLJobArn": "arn:automl"}, id="of an AutoML job"),
        pytest.param("labeling job made", {"LabelingJobArn": "arn:labeling"}, id="of a labeling job"),
        pytest.param("pipeline", {"tags": TAGS | {"sagemaker:pipeline-execution-arn": "a"}}, id="of a pipeline"),
        pytest.param("serverless", {"ServerlessJobConfig": {"JobType": "FineTuning"}}, id="serverless"),
        pytest.param("resume_roles", {"RoleArn": f"{ROLE}-other"}, id="another role, with a name that begins alike"),
        pytest.param("no tag trackside:run", {"tags": {"team": "vision"}}, id="not watched"),
        pytest.param("CheckpointConfig", {"CheckpointConfig": None}, id="no checkpoints in S3"),
        pytest.param("lies outside", {"CheckpointConfig": {"S3Uri": "s3://a", "LocalPath": "/data"}}, id="elsewhere"),
        pytest.param(
            "lies outside", {"CheckpointConfig": {"S3Uri": "s3://a", "LocalPath": "/opt/ml/check"}}, id="alike"
        ),
        pytest.param(
            "lies outside",
            {"said": replace(FOUND, evidence=replace(FOUND.evidence, checkpoint="/opt/ml/checkpoints/../input/x"))},
            id="dots that lead out",
        ),
        pytest.param("was deleted", {"said": replace(FOUND, job=replace(FOUND.job, created_at=1))}, id="another job"),
        pytest.param("does not cure", {"said": replace(FOUND, rule_id="class-imbalance")}, id="not curable"),
        pytest.param("no checkpoint", {"said": replace(FOUND, evidence=Evidence(since_step=3))}, id="no checkpoint"),
        pytest.param("cures it not", of_row(1, "loss-spike"), id="the same rule found the same before"),
        pytest.param("went on 2 times", of_row(2, "tensor-variance"), id="often enough"),
        pytest.param("is not ours", {"Environment": {ORDER_VARIABLE: "{}"}}, id="a variable that somebody wrote"),
        pytest.param("512 characters", {"said": replace(FOUND, job=replace(FOUND.job, arn="a" * 500))}, id="long"),
        pytest.param("100 variables", {"Environment": {f"V{n}": "" for n in range(99)}}, id="many variables"),
        pytest.param("50 tags", {"tags": TAGS | {f"t{n}": "" for n in range(48)}}, id="many tags"),
        pytest.param("256 characters", {"tags": TAGS | {"trackside:run": "s3://b/" + "x" * 245}}, id="long address"),
    ],
)
def test_no_job_goes_on(why: str, case: dict[str, Any]) -> None:
    answer = found(**case)
    assert isinstance(answer, str)
    assert why in answer


def test_an_incurable_issue_that_stood_before_is_no_matter_of_going_back() -> None:
    answer = found(LABELS)
    assert answer == "class-imbalance stands since step 100, which an earlier moment does not cure"


@pytest.mark.parametrize(
    ("said", "settings", "why"),
    [
        pytest.param(FOUND, SETTINGS, "", id="it may"),
        pytest.param(FOUND, replace(SETTINGS, resume_roles=()), "resume_roles is empty", id="no leave"),
        pytest.param(replace(FOUND, rule_id="overfit"), SETTINGS, "does not cure", id="not curable"),
        pytest.param(replace(FOUND, rule_id=""), SETTINGS, "does not cure", id="a rule of SageMaker Debugger"),
    ],
)
def test_what_needs_no_look_at_the_job(said: RuleEvaluation, settings: Any, why: str) -> None:
    reason = reason_to_leave(said, known(), settings)
    assert why in reason
    assert bool(reason) is bool(why)


@pytest.mark.parametrize(
    ("outcomes", "actions", "is_due"),
    [
        pytest.param((), (Action.RESUME_TRAINING,), False, id="not stopped yet"),
        pytest.param(("Stopping",), (Action.RESUME_TRAINING,), False, id="the request of a stop had no answer"),
        pytest.param(("Stopping", "Stopped"), (Action.RESUME_TRAINING,), True, id="stopped"),
        pytest.param(("Stopped",), (Action.STOP_TRAINING,), False, id="a stop alone was asked for"),
        pytest.param(("Stopped", "Resumed"), (Action.RESUME_TRAINING,), False, id="goes on already"),
        pytest.param(("Stopped", "NotResumed"), (Action.RESUME_TRAINING,), False, id="was left"),
        pytest.param(("AlreadyEnded",), (Action.RESUME_TRAINING,), False, id="somebody else stopped it"),
    ],
)
def test_it_follows_a_stop_of_this_finding_once(
    outcomes: tuple[str, ...], actions: tuple[Action, ...], *, is_due: bool
) -> None:
    said = replace(FOUND, actions=actions)
    decisions = tuple(DecisionRecord(said, StopOutcome(one), 1.0, "") for one in outcomes)
    assert is_to_resume(said, known(decisions=decisions), SETTINGS) is is_due


def test_a_stop_for_another_finding_is_not_its_own() -> None:
    other = replace(FOUND, evidence=Evidence(since_step=5))
    assert not is_to_resume(FOUND, known(decisions=(DecisionRecord(other, StopOutcome.STOPPED, 1.0, ""),)), SETTINGS)


@pytest.mark.parametrize("length", [1, 52, 53, 54, 63])
def test_names_fit_and_no_two_rows_share_one(length: int) -> None:
    names = {successor_name(f"{'x' * (length - 1)}{end}", number) for end in "ab" for number in (1, 2, 10)}
    assert len(names) == 6
    assert max(map(len, names)) <= MOST_NAME_CHARACTERS
    assert all(name.rpartition("-resumed-")[2].isdigit() and "--" not in name for name in names)
