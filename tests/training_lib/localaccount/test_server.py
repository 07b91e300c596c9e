"""The account as a whole: one chain through all its parts, nothing left behind, and as a standing server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from trackside_localaccount import Chaos, LocalAccount
from trackside_localaccount.__main__ import main
from trackside_localaccount.provision import create_role
from trackside_localaccount.start_time import MOST_STARTS, limit_seconds, seconds_to_start

SLEEP = ("python", "-c", "import time; print('running', flush=True); time.sleep(600)")
REACTION = """
    import boto3, json
    def handle(event, context):
        failures = []
        for record in event["Records"]:
            detail = json.loads(record["body"])["detail"]
            if detail["TrainingJobName"] == "unknown":
                failures.append({"itemIdentifier": record["messageId"]})
            else:
                boto3.client("sagemaker").stop_training_job(TrainingJobName=detail["TrainingJobName"])
        return {"batchItemFailures": failures}
"""


def _children() -> set[int]:
    """Processes whose parent is this one, zombies included."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it ended while we looked
            if int(fields[1]) == os.getpid():
                found.add(int(entry.name))
    return found


ALLOW_ALL = {"Effect": "Allow", "Action": "*", "Resource": "*"}


class Elsewhere:
    """An account that another process serves, by the variables that it prints."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            region_name=self._variables["AWS_REGION"],
            endpoint_url=self._variables["AWS_ENDPOINT_URL"],
            aws_access_key_id=self._variables["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self._variables["AWS_SECRET_ACCESS_KEY"],
        )


def test_from_an_event_to_a_stopped_job_and_a_lost_message_to_an_alarm(account_with: Callable[..., Any]) -> None:
    bench = account_with()
    account, cloudwatch, sns = bench.account, bench.account.client("cloudwatch"), bench.account.client("sns")
    dead_url, dead_arn = bench.queue("dead-letters")
    policy = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 3})
    _, queue_arn = bench.queue("stop", VisibilityTimeout="60", RedrivePolicy=policy)
    inbox_url, inbox_arn = bench.queue("inbox")
    topic = sns.create_topic(Name="owner")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=inbox_arn)
    cloudwatch.put_metric_alarm(
        AlarmName="lost",
        Namespace="AWS/SQS",
        MetricName="ApproximateNumberOfMessagesVisible",
        Dimensions=[{"Name": "QueueName", "Value": "dead-letters"}],
        Statistic="Maximum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=0,
        ComparisonOperator="GreaterThanThreshold",
        AlarmActions=[topic],
    )
    bench.function("stop", REACTION)
    account.client("lambda").create_event_source_mapping(
        FunctionName="stop", EventSourceArn=queue_arn, FunctionResponseTypes=["ReportBatchItemFailures"]
    )
    account.client("events").create_event_bus(Name="trackside")
    bench.rule("issues", {"source": ["trackside"]}, {"Arn": queue_arn}, EventBusName="trackside")
    bench.training_job("faulty", *SLEEP)
    bench.eventually(lambda: "running" in account.job_log("faulty"))
    pid = account.job_pid("faulty")

    bench.put_event("trackside", {"TrainingJobName": "faulty"}, EventBusName="trackside")
    bench.put_event("trackside", {"TrainingJobName": "unknown"}, EventBusName="trackside")

    account.hops.wait_for("job-state", job="faulty", status="Stopped")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    told = json.loads(bench.receive(inbox_url)[0]["Body"])
    assert told["Subject"].startswith('ALARM: "lost"')
    assert json.loads(bench.receive(dead_url)[0]["Body"])["detail"] == {"TrainingJobName": "unknown"}
    assert 3 <= len(account.hops.find("lambda", function="stop")) <= 4  # 3 tries; the two may share a batch


def test_nothing_is_left_behind() -> None:
    children, threads = _children(), set(threading.enumerate())
    account = LocalAccount(stop_grace_seconds=60)
    port = int(account.endpoint_url.rpartition(":")[2])
    _put_to_work(account)
    assert _children() > children
    folder = account.folder

    account.close()
    account.close()  # twice is once

    assert _children() == children
    assert [thread for thread in threading.enumerate() if thread not in threads and thread.is_alive()] == []
    assert not folder.exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def _put_to_work(account: LocalAccount) -> None:
    """A job that ignores SIGTERM and has a child, a warm function, and one that is busy."""
    stubborn = "trap '' TERM; sleep 600 & echo running; wait; sleep 600"
    account.client("sagemaker").create_training_job(
        TrainingJobName="stubborn",
        AlgorithmSpecification={
            "TrainingImage": "i",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["sh", "-c", stubborn],
        },
        RoleArn=create_role(account, "training"),
        OutputDataConfig={"S3OutputPath": "s3://b"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 600},
    )
    import io
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("m.py", "import time\ndef h(e, c): print('busy', flush=True) or time.sleep(e)")
    lambdas = account.client("lambda")
    lambdas.create_function(
        FunctionName="f",
        Runtime="python3.12",
        Role=create_role(account, "function", services=["lambda"]),
        Handler="m.h",
        Timeout=600,
        Code={"ZipFile": packed.getvalue()},
    )
    lambdas.invoke(FunctionName="f", Payload=b"0")
    account.hops.wait_for("job-process", job="stubborn")
    lambdas.invoke(FunctionName="f", Payload=b"600", InvocationType="Event")


def test_an_account_starts_empty_and_can_be_opened_again() -> None:
    with LocalAccount() as account:
        account.client("s3").create_bucket(Bucket="first")
    with LocalAccount() as account:
        assert account.client("s3").list_buckets()["Buckets"] == []


def test_chaos_doubles_and_reorders_but_loses_nothing(account_with: Callable[..., Any]) -> None:
    bench = account_with(chaos=Chaos(seed=1, duplicate=0.5, delay_seconds=0.2))
    url, queue = bench.queue("chaotic")
    bench.rule("chaotic", {"source": ["chaotic"]}, {"Arn": queue})

    for first in (0, 10):  # ten at once, so that the delays decide their order, however slow the calls are
        bench.put_events("chaotic", [{"n": first + number} for number in range(10)])

    numbers: list[int] = []
    while set(numbers) != set(range(20)) or len(numbers) == 20:
        numbers += [json.loads(message["Body"])["detail"]["n"] for message in bench.receive(url)]
    assert len(numbers) > 20
    firsts = list(dict.fromkeys(numbers))
    assert firsts != sorted(firsts)


def test_a_port_that_is_taken_is_said_at_once_and_nothing_stays_open() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(OSError, match=f"127.0.0.1:{port} is taken. Choose another port"):
            LocalAccount(port=port)

    with LocalAccount(port=port) as account:
        assert account.endpoint_url == f"http://127.0.0.1:{port}"


def test_the_given_folder_is_kept(tmp_path: Path) -> None:
    with LocalAccount(folder=tmp_path / "account") as account:
        _put_to_work(account)
        account.hops.wait_for("lambda", function="f")

    assert (tmp_path / "account" / "lambda" / "logs" / "f.log").is_file()


def test_a_child_process_finds_the_account_by_its_environment_alone(account_with: Callable[..., Any]) -> None:
    account = account_with().account
    code = "import boto3; print(boto3.client('sts').get_caller_identity()['Account'])"

    outcome = subprocess.run(
        [sys.executable, "-c", code], env=account.environment(), capture_output=True, text=True, check=True, timeout=60
    )

    assert outcome.stdout.strip() == "123456789012"
    assert account.endpoint_url.startswith("http://127.0.0.1:")


def test_a_role_is_who_one_is(account_with: Callable[..., Any]) -> None:
    """What an SDK asks to know which role a notebook runs under."""
    account = account_with().account
    given = account.role_environment("data-scientist", path="/service-role/")
    assert given != account.role_environment("data-scientist", path="/service-role/")  # made once, assumed twice
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    session = boto3.Session(*(given[key] for key in keys), region_name=given["AWS_REGION"])

    def client(service: str) -> Any:
        return session.client(service, endpoint_url=given["AWS_ENDPOINT_URL"])

    who = client("sts").get_caller_identity()["Arn"]
    assert who == "arn:aws:sts::123456789012:assumed-role/data-scientist/SageMaker"
    with pytest.raises(ClientError, match="AccessDenied"):  # AmazonSageMakerFullAccess has no such right
        client("iam").get_role(RoleName="data-scientist")
    role_arn = "arn:aws:iam::123456789012:role/service-role/data-scientist"
    may_look = {"Effect": "Allow", "Action": "iam:GetRole", "Resource": role_arn}
    document = json.dumps({"Version": "2012-10-17", "Statement": [may_look]})
    account.client("iam").put_role_policy(RoleName="data-scientist", PolicyName="look", PolicyDocument=document)
    role = client("iam").get_role(RoleName="data-scientist")["Role"]
    assert role["Arn"] == role_arn
    assert role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {"Service": ["sagemaker.amazonaws.com"]}


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [
        pytest.param({}, True, id="as-it-is"),
        pytest.param({"enforces_rights": True}, True, id="on"),
        pytest.param({"enforces_rights": False}, False, id="off"),
    ],
)
def test_rights_count_unless_told_otherwise(
    account_with: Callable[..., Any], settings: dict[str, bool], is_refused: bool
) -> None:
    account = account_with(**settings).account
    create_role(account, "nothing")
    given = account.role_environment("nothing")
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    s3 = boto3.Session(*(given[key] for key in keys)).client("s3", endpoint_url=given["AWS_ENDPOINT_URL"])
    if is_refused:
        with pytest.raises(ClientError, match="AccessDenied"):
            s3.create_bucket(Bucket="theirs")
    else:
        s3.create_bucket(Bucket="theirs")
    assert len(account.client("s3").list_buckets()["Buckets"]) == (0 if is_refused else 1)


@pytest.mark.parametrize(
    ("number", "words", "role_services"),
    [
        pytest.param(signal.SIGTERM, [], ["sagemaker"], id="SIGTERM"),
        pytest.param(signal.SIGINT, ["--no-iam"], ["lambda"], id="SIGINT-for-a-role-that-trusts-others"),
    ],
)
def test_the_standing_server_prints_where_it_is_and_ends_on_a_signal(
    number: signal.Signals, words: list[str], role_services: list[str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "trackside_localaccount", "--folder", str(tmp_path), *words]
    with subprocess.Popen([*command, "--image", "evaluator=echo judged"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        lines = []
        for line in server.stdout:
            lines.append(line.strip())
            if line.startswith("unset"):
                break
        variables = dict(line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export"))
        server_account = Elsewhere(variables)
        server_account.client("sagemaker").create_processing_job(
            ProcessingJobName="judges",
            AppSpecification={"ImageUri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/evaluator:1"},
            ProcessingResources={
                "ClusterConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1}
            },
            RoleArn=create_role(server_account, "judge", [ALLOW_ALL], services=role_services),
        )
        server.send_signal(number)
        try:
            assert server.wait(limit_seconds(MOST_STARTS, start_seconds=seconds_to_start())) == 0
        finally:
            server.kill()  # or leaving the block would wait for it without end

    assert variables["AWS_ENDPOINT_URL_S3_FOR_CLOUDFORMATION"].startswith("http://localhost:")
    assert lines[-1] == "unset AWS_CA_BUNDLE"
    assert (tmp_path / "jobs" / "processing-job-judges").is_dir()


def test_the_journal_has_messages_metrics_and_the_objects_that_are_watched(account_with: Callable[..., Any]) -> None:
    bench = account_with()
    account, s3 = bench.account, bench.account.client("s3")
    s3.create_bucket(Bucket="runs")
    account.watch_objects("runs/digits/")
    for key in ("digits/rule-output/verdicts.jsonl", "digits-2/rule-output/verdicts.jsonl"):
        s3.put_object(Bucket="runs", Key=key, Body=b"x")
    url, _ = bench.queue("inbox")
    account.client("sqs").send_message(QueueUrl=url, MessageBody="m")
    metric = {
        "_aws": {"CloudWatchMetrics": [{"Namespace": "N", "Dimensions": [[]], "Metrics": [{"Name": "m"}]}]},
        "m": 1,
    }
    bench.function("measures", f"def handle(e, c): print({json.dumps(json.dumps(metric))})")
    account.client("lambda").invoke(FunctionName="measures", Payload=b"{}")

    (stored,) = account.hops.find("object")
    assert stored.names == {"bucket": "runs", "key": "digits/rule-output/verdicts.jsonl"}
    assert len(account.hops.find("message", queue="inbox")) == 1
    account.hops.wait_for("metric", namespace="N")


def test_a_request_does_not_search_all_services_for_its_own_again(
    account_with: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = account_with().account.client("s3")
    s3.list_buckets()
    monkeypatch.setattr("moto.backends.list_of_moto_modules", lambda: pytest.fail("searched again"))
    assert "Buckets" in s3.list_buckets()


@pytest.mark.parametrize("image", ["evaluator", "=echo", "evaluator="])
def test_the_standing_server_refuses_a_bad_image(image: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--image", image])

    assert ended.value.code == 2
    assert "is not NAME=COMMAND" in capsys.readouterr().err
