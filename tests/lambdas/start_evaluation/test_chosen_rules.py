"""What a job chose lies in its run; a wrong choice is told, and judged by the deployment's default."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from lambdas.start_evaluation.chosen_rules import chosen_rules
from lambdas.start_evaluation.handler import handle
from lambdas.start_evaluation.settings import StartEvaluationSettings
from tests.lambda_settings import made
from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.event import read_rule_evaluations
from trackside.contracts.job_choice import CHOICE_NAME, JobChoice
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest

STOP = Action.STOP_TRAINING
USUAL = list(built_in_catalogue().usual)
STRICT = RuleRequest((RuleConfiguration("exploding-tensor", name="strict", actions=(STOP,)),)).to_json()
DOCUMENTS = {"s3://runs-bucket/rule-request.json": STRICT.encode(), "ssm:/a/b": b"\xff", "ssm:/a/huge": b"[" * 100_000}


def read_document(address: str) -> bytes:
    if address not in DOCUMENTS:
        raise ConfigurationError([Problem(address, "cannot be read: NoSuchKey.")], subject="The choice")
    return DOCUMENTS[address]


def chosen(choice: JobChoice, default: str = "") -> Any:
    return chosen_rules(choice, default=default, read_document=read_document)


@pytest.mark.parametrize(
    ("choice", "default", "rules", "actions"),
    [
        pytest.param(JobChoice(rules="overfit"), "", ["overfit"], DEFAULT_ACTIONS, id="words"),
        pytest.param(
            JobChoice(rules="overfit"), "dead-relu", ["overfit"], DEFAULT_ACTIONS, id="words before the default"
        ),
        pytest.param(JobChoice(actions="StopTraining"), "", USUAL, (STOP,), id="actions alone: the usual rules"),
        pytest.param(JobChoice(actions="none"), "dead-relu", ["dead-relu"], (), id="actions alone: the default rules"),
        pytest.param(JobChoice(), "dead-relu", ["dead-relu"], DEFAULT_ACTIONS, id="the deployment's default"),
        pytest.param(
            JobChoice(rules="s3://runs-bucket/rule-request.json"),
            "",
            ["strict"],
            (STOP,),
            id="an object, with its actions",
        ),
        pytest.param(JobChoice(), "s3://runs-bucket/rule-request.json", ["strict"], (STOP,), id="an object by default"),
    ],
)
def test_chosen(choice: JobChoice, default: str, rules: list[str], actions: tuple[Action, ...]) -> None:
    found = chosen(choice, default)
    assert [rule.name for rule in found.request.rules] == rules
    assert {rule.actions for rule in found.request.rules} == {actions}
    assert found.complaint == ""


def test_where_nobody_chose_there_is_no_request() -> None:
    assert chosen(JobChoice(run="s3://runs-bucket/x")) is None


@pytest.mark.parametrize(
    ("choice", "default", "rules", "complaint"),
    [
        pytest.param(JobChoice(rules="overfitt"), "", USUAL, "Did you mean 'overfit'?", id="misspelled"),
        pytest.param(JobChoice(rules="overfitt"), "dead-relu", ["dead-relu"], "'overfit'", id="the default judges"),
        pytest.param(JobChoice(rules="overfit", actions="Stop"), "", USUAL, "'Stop' is no action", id="actions"),
        pytest.param(
            JobChoice(rules="s3://runs-bucket/x/rule-request.json"),
            "",
            USUAL,
            "NoSuchKey",
            id="an object that is absent",
        ),
        pytest.param(JobChoice(rules="ssm:/a/b"), "", USUAL, "is not JSON", id="no UTF-8"),
        pytest.param(JobChoice(rules="ssm:/a/huge"), "", USUAL, "nested too deeply", id="deep"),
        pytest.param(JobChoice(), "ssm:/a/b", USUAL, "is not JSON", id="the default itself is wrong"),
        pytest.param(JobChoice(rules="overfitt"), "ssm:/a/b", USUAL, "is not JSON", id="both are wrong"),
    ],
)
def test_a_wrong_choice_is_judged_all_the_same(
    choice: JobChoice, default: str, rules: list[str], complaint: str
) -> None:
    found = chosen(choice, default)
    assert [rule.name for rule in found.request.rules] == rules
    assert complaint in found.complaint
    assert not any(STOP in rule.actions for rule in found.request.rules), "nothing is stopped that nobody asked for"


# The whole function.


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def write(**more: Any) -> None:
        chosen = made(
            StartEvaluationSettings,
            image_uri="evaluator:0.1.0",
            role_arn="arn:aws:iam::123456789012:role/evaluator",
            run_bucket="runs-bucket",
            event_bus="default",
            **more,
        )
        for name, value in chosen.to_environment().items():
            monkeypatch.setenv(name, value)

    write()
    return write


@pytest.fixture
def bus(account: Any) -> Callable[[], list[Mapping[str, Any]]]:
    """`bus()`: what was said on it since the last look."""
    sqs, events = boto3.client("sqs"), boto3.client("events")
    url = sqs.create_queue(QueueName="said")["QueueUrl"]
    events.put_rule(Name="all", EventPattern=json.dumps({"source": ["trackside"]}))
    events.put_targets(Rule="all", Targets=[{"Id": "said", "Arn": "arn:aws:sqs:us-east-1:123456789012:said"}])

    def read() -> list[Mapping[str, Any]]:
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
        return [json.loads(message["Body"]) for message in messages]

    return read


def put(key: str, body: str | bytes, bucket: str = "runs-bucket") -> None:
    boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=body)


def request_in_run(run: str = "digits-01") -> list[tuple[str, tuple[Action, ...]]] | None:
    found = boto3.client("s3").list_objects_v2(Bucket="runs-bucket", Prefix=f"{run}/rule-request.json")
    if not found["KeyCount"]:
        return None
    body = boto3.client("s3").get_object(Bucket="runs-bucket", Key=f"{run}/rule-request.json")["Body"].read()
    return [(rule.name, rule.actions) for rule in RuleRequest.from_json(body).rules]


def evaluators() -> int:
    return len(boto3.client("sagemaker").list_processing_jobs()["ProcessingJobSummaries"])


def tagged(**tags: str) -> dict[str, str]:
    return {"trackside:run": "s3://runs-bucket/digits-01", **{f"trackside:{k}": v for k, v in tags.items()}}


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("tags", "default", "request_"),
    [
        pytest.param({}, "", None, id="nobody chose"),
        pytest.param({"rules": "overfit", "actions": "StopTraining"}, "", [("overfit", (STOP,))], id="by tags"),
        pytest.param({}, "overfit", [("overfit", DEFAULT_ACTIONS)], id="the deployment's default"),
        pytest.param(
            {"rules": "s3://runs-bucket/shared/rule-request.json"}, "", [("strict", (STOP,))], id="by an object"
        ),
        pytest.param(
            {"rules": "ssm:/trackside/trackside/rules/strict"}, "", [("strict", (STOP,))], id="by a parameter"
        ),
    ],
)
def test_what_was_chosen_lies_in_the_run(
    *,
    golden: Callable[..., Any],
    deliver: Callable[..., Any],
    bus: Callable[[], Any],
    settings: Callable[..., None],
    tags: dict[str, str],
    default: str,
    request_: Any,
) -> None:
    settings(default_rules=default)
    put("shared/rule-request.json", STRICT)
    boto3.client("ssm").put_parameter(Name="/trackside/trackside/rules/strict", Value=STRICT, Type="String")
    event = golden("training_started", Tags=tagged(**tags))
    assert deliver(handle, event, event) == []
    assert request_in_run() == request_
    assert evaluators() == 1
    assert bus() == []


@pytest.mark.usefixtures("settings")
def test_what_lies_in_the_run_is_never_replaced(
    golden: Callable[..., Any], deliver: Callable[..., Any], bus: Callable[[], Any]
) -> None:
    put("digits-01/rule-request.json", STRICT)
    assert deliver(handle, golden("training_started", Tags=tagged(rules="overfit"))) == []
    assert request_in_run() == [("strict", (STOP,))]
    assert bus() == []


BEFORE = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-00@1795220000"
CONTINUES = {"trackside:resumed-from": BEFORE}


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("earlier", "tags", "rules"),
    [
        pytest.param("team/digits", {}, ["strict"], id="chosen by environment, or by hand"),
        pytest.param("team/digits", {"trackside:rules": "overfit"}, ["strict"], id="and not by tags again"),
        pytest.param("", {"trackside:rules": "overfit"}, ["overfit"], id="none before: by tags"),
        pytest.param("", {}, None, id="none before, and no tags"),
        pytest.param("team/other", {}, None, id="of another run"),
    ],
)
def test_a_job_that_continues_another_is_judged_by_its_rules(
    *,
    golden: Callable[..., Any],
    deliver: Callable[..., Any],
    bus: Callable[[], Any],
    settings: Callable[..., None],
    earlier: str,
    tags: dict[str, str],
    rules: list[str] | None,
) -> None:
    settings()
    if earlier:
        put(f"{earlier}/rule-request.json", STRICT)
    run = {"trackside:run": "s3://runs-bucket/team/digits/resumed-1"}
    event = golden("training_started", Tags=run | CONTINUES | tags)
    assert deliver(handle, event, event) == []
    found = request_in_run("team/digits/resumed-1")
    assert (None if found is None else [name for name, _ in found]) == rules
    assert evaluators() == 1
    assert bus() == []


@pytest.mark.parametrize(
    ("run", "tags", "taken"),
    [
        pytest.param("jobs/@job", CONTINUES, True, id="the run of the job before, beside its own"),
        pytest.param("jobs/@job", {}, False, id="a job that continues none"),
        pytest.param("jobs/digits-00", {}, False, id="a run below another, by itself"),
    ],
)
@pytest.mark.usefixtures("account", "settings")
def test_only_a_job_that_continues_another_reads_its_rules(
    golden: Callable[..., Any], deliver: Callable[..., Any], run: str, tags: dict[str, str], *, taken: bool
) -> None:
    put("jobs/digits-00/rule-request.json", STRICT)
    place = run.replace("@job", "digits-01").replace("digits-00", "digits-00/resumed-1")
    run = run.replace("digits-00", "digits-00/resumed-1")
    event = golden("training_started", Tags={"trackside:run": f"s3://runs-bucket/{run}"} | tags)
    assert deliver(handle, event) == []
    assert (request_in_run(place) is not None) is taken


@pytest.mark.usefixtures("account")
def test_what_lies_in_the_run_that_continues_is_not_replaced(
    golden: Callable[..., Any], deliver: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings()
    put("team/digits/rule-request.json", STRICT)
    put("team/digits/resumed-1/rule-request.json", RuleRequest((RuleConfiguration("overfit"),)).to_json())
    run = {"trackside:run": "s3://runs-bucket/team/digits/resumed-1"}
    assert deliver(handle, golden("training_started", Tags=run | CONTINUES)) == []
    assert request_in_run("team/digits/resumed-1") == [("overfit", ())]


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        pytest.param({"rules": "overfitt"}, "Did you mean 'overfit'?", id="misspelled"),
        pytest.param({"rules": "s3://other/rule-request.json"}, "no object that this deployment reads", id="bucket"),
        pytest.param({"rules": "s3://runs-bucket/rule-request.json"}, "NoSuchKey", id="an object that is absent"),
        pytest.param(
            {"rules": "ssm:/trackside/trackside/dry-run"}, "no parameter that this deployment", id="the switch"
        ),
        pytest.param(
            {"rules": "ssm:/trackside/trackside/rules/x"}, "ParameterNotFound", id="a parameter that is absent"
        ),
        pytest.param({"rules": "ssm:/trackside/trackside/rules" + "/x" * 20}, "no parameter that this", id="too deep"),
        pytest.param(
            {"rules": "s3://runs-bucket/huge/rule-request.json"},
            "has more than 1,048,576 bytes",
            id="an object of 2 MB",
        ),
        pytest.param({"rules": "s3://runs-bucket/many/rule-request.json"}, "at most 200", id="201 rules"),
        pytest.param(
            {"rules": "s3://runs-bucket/team/run/rule-request.json"},
            "in a folder that is not read",
            id="another team's",
        ),
        pytest.param({"rules": "s3://runs-bucket/bytes/rule-request.json"}, "is not JSON", id="no UTF-8"),
        pytest.param({"rules": "overfit", "actions": "\u2028Sing"}, "is no action", id="a strange sign"),
    ],
)
def test_a_wrong_choice_is_told_once_and_the_job_is_judged(
    *,
    golden: Callable[..., Any],
    deliver: Callable[..., Any],
    bus: Callable[[], Any],
    settings: Callable[..., None],
    tags: dict[str, str],
    said: str,
) -> None:
    put("huge/rule-request.json", '{"rules": ["' + "x" * 2_000_000 + '"]}')
    put("bytes/rule-request.json", b"\xff\xfe")
    put("team/run/rule-request.json", STRICT)
    put(
        "many/rule-request.json",
        '{"rules": [' + ",".join(f'{{"rule": "overfit", "name": "r{n}"}}' for n in range(201)) + "]}",
    )
    event = golden("training_started", Tags=tagged(**tags))
    assert deliver(handle, event, event) == []
    (told,) = bus()
    (evaluation,) = read_rule_evaluations(told)
    assert (evaluation.configuration_name, evaluation.status.value) == (CHOICE_NAME, "Error")
    assert evaluation.actions == (Action.NOTIFY,)
    assert said in evaluation.details
    assert evaluation.run_uri == "s3://runs-bucket/digits-01"
    assert [name for name, _ in request_in_run() or ()] == USUAL
    assert evaluators() == 1


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        pytest.param({"trackside:run": "s3://other/x"}, "s3://runs-bucket only", id="another bucket"),
        pytest.param({"trackside:run": "s3://runs-bucket/" + "x" * 250}, "shorter place", id="too long a place"),
    ],
)
@pytest.mark.usefixtures("settings")
def test_a_job_whose_place_is_wrong_is_not_watched_and_its_owner_told(
    golden: Callable[..., Any], deliver: Callable[..., Any], bus: Callable[[], Any], tags: dict[str, str], said: str
) -> None:
    assert deliver(handle, golden("training_started", Tags=tags)) == []
    (told,) = bus()
    assert said in told["detail"]["StatusDetails"]
    assert evaluators() == 0


@pytest.mark.usefixtures("settings")
def test_a_wrong_request_in_the_run_is_told(
    golden: Callable[..., Any], deliver: Callable[..., Any], bus: Callable[[], Any]
) -> None:
    put("digits-01/rule-request.json", RuleRequest((RuleConfiguration("overfitt"),)).to_json())
    assert deliver(handle, golden("training_started", Tags=tagged())) == []
    (told,) = bus()
    assert "Did you mean 'overfit'?" in told["detail"]["StatusDetails"]
    assert evaluators() == 1


@pytest.mark.usefixtures("settings", "account")
def test_a_request_that_cannot_be_written_returns_to_the_queue(
    golden: Callable[..., Any], deliver: Callable[..., Any]
) -> None:
    boto3.client("s3").delete_bucket(Bucket="runs-bucket")
    assert deliver(handle, golden("training_started", Tags=tagged(rules="overfit"))) == ["message-0"]
    assert evaluators() == 0


@pytest.mark.usefixtures("account")
def test_a_job_that_is_watched_for_its_environment_gets_the_tag(
    sagemaker: Stubber, golden: Callable[..., Any], deliver: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(watch_by_environment=True)
    event = golden("training_started", Tags={"team": "vision"})
    arn, run = event["detail"]["TrainingJobArn"], "s3://runs-bucket/digits-01"
    description = {
        "TrainingJobName": "digits-01",
        "TrainingJobArn": arn,
        "ModelArtifacts": {"S3ModelArtifacts": "s3://x"},
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Starting",
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        "CreationTime": 0,
        "Environment": {"TRACKSIDE_RUN": "s3://runs-bucket/@job", "TRACKSIDE_RULES": "overfit"},
    }
    sagemaker.add_response("describe_training_job", description, {"TrainingJobName": "digits-01"})
    tags = {"ResourceArn": arn, "Tags": [{"Key": "trackside:run", "Value": run}]}
    sagemaker.add_response("add_tags", {"Tags": []}, tags)
    sagemaker.add_response(
        "create_processing_job",
        {"ProcessingJobArn": "arn:x:processing-job/y"},
        dict.fromkeys(
            (
                "ProcessingJobName",
                "AppSpecification",
                "RoleArn",
                "Environment",
                "ProcessingResources",
                "StoppingCondition",
                "Tags",
            ),
            ANY,
        ),
    )
    assert deliver(handle, event) == []
    assert request_in_run() == [("overfit", DEFAULT_ACTIONS)]


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("code", "message", "failed"),
    [
        pytest.param("ValidationException", "Requested resource not found.", [], id="a job that is no more"),
        pytest.param("ThrottlingException", "Rate exceeded", ["message-0"], id="throttled: later"),
        pytest.param("ValidationException", "Something else", ["message-0"], id="another refusal: later"),
    ],
)
def test_a_job_whose_environment_cannot_be_asked_for(
    *,
    sagemaker: Stubber,
    golden: Callable[..., Any],
    deliver: Callable[..., Any],
    settings: Callable[..., None],
    code: str,
    message: str,
    failed: list[str],
) -> None:
    settings(watch_by_environment=True)
    sagemaker.add_client_error("describe_training_job", code, message)
    assert deliver(handle, golden("training_started", Tags={})) == failed


@pytest.mark.usefixtures("account")
def test_a_job_that_wants_its_states_recorded_only_gets_no_evaluator(
    golden: Callable[..., Any], deliver: Callable[..., Any], settings: Callable[..., None], bus: Callable[[], Any]
) -> None:
    assert deliver(handle, golden("training_started", Tags=tagged(watch="status"))) == []
    assert evaluators() == 0
    assert bus() == []
