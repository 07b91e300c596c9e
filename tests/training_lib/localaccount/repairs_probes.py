"""What moto must do for the local account, one probe for each repair; it fails on stock moto, and passes once repaired.

Run as a script, in a process of its own, with the argument `stock` or `repaired`, it prints as JSON: probe -> what went
wrong, or null.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import boto3
from moto import mock_aws

ROLE = "arn:aws:iam::123456789012:role/probe"
Client = Callable[[str], Any]


def policy(principal: Any, action: str) -> str:
    allow = {"Effect": "Allow", "Action": action} | ({"Principal": principal} if principal else {"Resource": "*"})
    return json.dumps({"Version": "2012-10-17", "Statement": [allow]})


def open_to_services(action: str) -> str:
    """A policy by which EventBridge and SNS may do that."""
    return policy({"Service": ["events.amazonaws.com", "sns.amazonaws.com"]}, action)


def make_role(client: Client) -> None:
    with contextlib.suppress(client("iam").exceptions.EntityAlreadyExistsException):
        trust = {"Service": ["lambda.amazonaws.com", "sagemaker.amazonaws.com"]}
        client("iam").create_role(RoleName="probe", AssumeRolePolicyDocument=policy(trust, "sts:AssumeRole"))
        client("iam").put_role_policy(RoleName="probe", PolicyName="all", PolicyDocument=policy(None, "*"))


def queue(client: Client, name: str, **attributes: str) -> tuple[str, str]:
    own = attributes if "Policy" in attributes else {"Policy": open_to_services("sqs:SendMessage"), **attributes}
    url = client("sqs").create_queue(QueueName=name, Attributes=own)["QueueUrl"]
    return url, f"arn:aws:sqs:us-east-1:123456789012:{name}"


def function(client: Client, source: str, **more: Any) -> str:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("code_.py", source)
    make_role(client)
    arn: str = client("lambda").create_function(
        FunctionName="f",
        Runtime="python3.12",
        Role=ROLE,
        Handler="code_.handle",
        Timeout=20,
        Code={"ZipFile": packed.getvalue()},
        **more,
    )["FunctionArn"]
    return arn


def patience_seconds() -> float:
    """Stock moto does all it does before it answers."""
    return 10.0 if is_repaired() else 0.2


def bodies(client: Client, url: str) -> list[str]:
    """What a queue holds, once it holds anything."""
    until = time.monotonic() + patience_seconds()
    while time.monotonic() < until:
        found = client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        if found:
            return [message["Body"] for message in found]
        time.sleep(0.02)
    return []


def rule(client: Client, pattern: Any, target: str, **more: Any) -> None:
    events, state = client("events"), more.pop("State", "ENABLED")
    events.put_rule(Name="r", EventPattern=json.dumps(pattern), State=state)
    events.put_targets(Rule="r", Targets=[{"Id": "1", "Arn": target, **more}])


def put(client: Client, detail: Any) -> None:
    entry = {"Source": "me", "DetailType": "d", "Detail": json.dumps(detail)}
    client("events").put_events(Entries=[entry])


def event_patterns(client: Client) -> None:
    url, arn = queue(client, "q")
    rule(client, {"detail": {"list": {"a": ["x"]}}}, arn)
    put(client, {"list": [{"a": "w"}, {"a": "x"}]})
    assert bodies(client, url), "the pattern does not look into a list of objects"


def event_pattern_check(client: Client) -> None:
    events = client("events")
    assert events.test_event_pattern(EventPattern='{"a": ["x"]}', Event='{"a": "x"}')["Result"]
    try:
        events.put_rule(Name="r", EventPattern='{"a": [{"prefx": "x"}]}')
    except events.exceptions.InvalidEventPatternException:
        return
    raise AssertionError("an unknown operator is accepted")


def event_delivery(client: Client) -> None:
    url, arn = queue(client, "q")
    rule(client, {"source": ["me"]}, arn, Input='"constant"')
    put(client, {"a": 1})
    assert bodies(client, url) == ['"constant"'], "Input is ignored"
    sns = client("sns")
    topic = sns.create_topic(Name="t", Attributes={"Policy": open_to_services("sns:Publish")})["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    rule(client, {"source": ["me"]}, topic)
    put(client, {"a": 1})
    assert bodies(client, url), "SNS received nothing"


def table_races(client: Client) -> None:
    """A put by another thread while a transaction, which then fails, is at work."""
    from moto.dynamodb import models

    dynamodb = client("dynamodb")
    dynamodb.create_table(
        TableName="t",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    stock_get = models.DynamoDBBackend.get_item
    put = threading.Thread(target=dynamodb.put_item, kwargs={"TableName": "t", "Item": {"id": {"S": "other"}}})

    def get_item(backend: Any, *args: Any, **more: Any) -> Any:
        if put.ident is None:
            put.start()
            put.join(0.5)
        return stock_get(backend, *args, **more)

    setattr(models.DynamoDBBackend, "get_item", get_item)  # noqa: B010  another signature than Moto's
    check = {"TableName": "t", "Key": {"id": {"S": "none"}}, "ConditionExpression": "attribute_exists(id)"}
    try:
        with contextlib.suppress(dynamodb.exceptions.TransactionCanceledException):
            dynamodb.transact_write_items(TransactItems=[{"ConditionCheck": check}])
        put.join()
    finally:
        models.DynamoDBBackend.get_item = stock_get
    assert dynamodb.scan(TableName="t")["Count"] == 1, "the put is undone"


def queue_attributes(client: Client) -> None:
    url, _ = queue(client, "q")
    client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "60"})
    found = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert json.loads(found["Policy"]) == json.loads(open_to_services("sqs:SendMessage")), "the policy is gone"
    client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
    assert "Policy" not in client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]


def queue_redrive(client: Client) -> None:
    dead_url, dead = queue(client, "dead")
    url, arn = queue(client, "q")
    client("sqs").send_message(QueueUrl=dead_url, MessageBody="letter")
    client("sqs").start_message_move_task(SourceArn=dead, DestinationArn=arn)
    assert bodies(client, url) == ["letter"], "the letter was not moved"


def queue_races(client: Client) -> None:
    """A message that another thread sends between the two halves of DeleteMessage, as in moto's server."""
    from moto.sqs.models import Queue, sqs_backends

    url, _ = queue(client, "q")
    sqs = client("sqs")
    sqs.send_message(QueueUrl=url, MessageBody="first")
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    backend = sqs_backends["123456789012"]["us-east-1"]
    held: Queue = backend.queues["q"]
    sending = threading.Event()

    class Watched(list[Any]):
        """Tells when it was walked first, and gives another thread the time to send meanwhile."""

        def __iter__(self) -> Iterator[Any]:
            yield from super().__iter__()
            if not sending.is_set():
                sending.set()
                time.sleep(0.2)

    held._messages = Watched(held._messages)
    sender = threading.Thread(target=lambda: (sending.wait(), backend.send_message("q", "second")))
    sender.start()
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    sender.join()
    held._messages = list(held._messages)
    assert bodies(client, url) == ["second"], "a message that was sent during DeleteMessage is gone"


def queue_delivery(client: Client) -> None:
    url, arn = queue(client, "q", VisibilityTimeout="30")
    function(client, "import json\ndef handle(e, c): print('BATCH', len(e['Records']))")
    sqs = client("sqs")
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": "m"} for n in range(3)])
    client("lambda").create_event_source_mapping(FunctionName="f", EventSourceArn=arn, BatchSize=10)
    until = time.monotonic() + patience_seconds()
    while time.monotonic() < until:
        found = (
            client("logs").describe_log_groups()["logGroups"]
            and client("logs").filter_log_events(logGroupName="/aws/lambda/f")["events"]
        )
        if any(event["message"].startswith("BATCH 3") for event in found or ()):
            return
        time.sleep(0.02)
    raise AssertionError("what lay in the queue before the mapping was not delivered as one batch")


def lambda_invocation(client: Client) -> None:
    function(client, "def handle(e, c): return {'sum': sum(e)}")
    answer = client("lambda").invoke(FunctionName="f", Payload=b"[1, 2, 3]")
    assert json.loads(answer["Payload"].read()) == {"sum": 6}, "the code did not run"


def lambda_failures(client: Client) -> None:
    url, arn = queue(client, "q")
    function(client, "def handle(e, c): raise ValueError", DeadLetterConfig={"TargetArn": arn})
    client("lambda").invoke(FunctionName="f", InvocationType="Event", Payload=b"{}")
    assert bodies(client, url), "the event is not in the dead-letter queue"


def start_training(sagemaker: Any, name: str) -> None:
    sagemaker.create_training_job(
        TrainingJobName=name,
        AlgorithmSpecification={
            "TrainingInputMode": "File",
            "TrainingImage": "i",
            "ContainerEntrypoint": ["sleep", "60"],
        },
        RoleArn=ROLE,
        OutputDataConfig={"S3OutputPath": "s3://b"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 60},
    )


def sagemaker_jobs(client: Client) -> None:
    make_role(client)
    sagemaker = client("sagemaker")
    start_training(sagemaker, "j")
    assert sagemaker.describe_training_job(TrainingJobName="j")["TrainingJobStatus"] == "InProgress", (
        "Completed at once"
    )
    sagemaker.stop_training_job(TrainingJobName="j")


def sagemaker_updates(client: Client) -> None:
    make_role(client)
    sagemaker = client("sagemaker")
    start_training(sagemaker, "u")
    sagemaker.update_training_job(TrainingJobName="u", ProfilerConfig={"DisableProfiler": True})
    assert sagemaker.describe_training_job(TrainingJobName="u")["ProfilerConfig"] == {"DisableProfiler": True}
    sagemaker.stop_training_job(TrainingJobName="u")


def sagemaker_tags(client: Client) -> None:
    arn = "arn:aws:sagemaker:us-east-1:123456789012:training-job/none"
    answer = ""
    try:
        client("sagemaker").list_tags(ResourceArn=arn)
    except client("sagemaker").exceptions.ClientError as error:
        answer = str(error)
    assert "Requested resource not found" in answer, answer


def managed_policies(client: Client) -> None:
    arn = "arn:aws:iam::aws:policy/AWSCloudFormationReadOnlyAccess"
    make_role(client)
    client("iam").attach_role_policy(RoleName="probe", PolicyArn=arn)


def policy_simulation(client: Client) -> None:
    iam = client("iam")
    iam.create_role(RoleName="r", AssumeRolePolicyDocument="{}")
    iam.put_role_policy(RoleName="r", PolicyName="one", PolicyDocument=policy(None, "s3:GetObject"))
    asked = ["s3:GetObject", "sagemaker:CreateTrainingJob"]
    arn = iam.get_role(RoleName="r")["Role"]["Arn"]
    found = iam.simulate_principal_policy(PolicySourceArn=arn, ActionNames=asked)["EvaluationResults"]
    assert [each["EvalDecision"] for each in found] == ["allowed", "implicitDeny"]


def lambda_roles(client: Client) -> None:
    """A role that Lambda may not assume."""
    client("iam").create_role(
        RoleName="probe", AssumeRolePolicyDocument=policy({"Service": "ec2.amazonaws.com"}, "sts:AssumeRole")
    )
    try:
        function(client, "")
    except client("lambda").exceptions.InvalidParameterValueException:
        return
    raise AssertionError("a role that Lambda may not assume is taken")


def topic_subscriptions(client: Client) -> None:
    closed = policy({"Service": "events.amazonaws.com"}, "sqs:SendMessage")
    url, arn = queue(client, "q", Policy=closed)
    topic = client("sns").create_topic(Name="t")["TopicArn"]
    client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    client("sns").publish(TopicArn=topic, Message="m")
    found = client("sqs").receive_message(QueueUrl=url).get("Messages", [])
    assert not found, "the topic sends to a queue that lets no topic in"


def alarm_first_state(client: Client) -> None:
    cloudwatch = client("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName="a",
        Namespace="n",
        MetricName="m",
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods=1,
        Period=60,
        Threshold=1,
        Statistic="Sum",
    )
    (alarm,) = cloudwatch.describe_alarms()["MetricAlarms"]
    assert alarm["StateValue"] == "INSUFFICIENT_DATA", alarm["StateValue"]


def requests(client: Client) -> None:
    try:
        client("cloudwatch").put_metric_data(
            Namespace="n", MetricData=[{"MetricName": "m", "Value": 1, "Unit": "Stones"}]
        )
    except client("cloudwatch").exceptions.ClientError:
        return
    raise AssertionError("an unknown unit is taken")


def reserved_sources(client: Client) -> None:
    entry = {"Source": "aws.sagemaker", "DetailType": "test", "Detail": "{}"}
    answer = client("events").put_events(Entries=[entry, {**entry, "Source": "own"}])
    assert answer["FailedEntryCount"] == 1, answer


PROBES: dict[str, Callable[[Client], None]] = {
    "requests": requests,
    "reserved-sources": reserved_sources,
    "event-patterns": event_patterns,
    "event-pattern-check": event_pattern_check,
    "event-delivery": event_delivery,
    "queue-races": queue_races,
    "queue-delivery": queue_delivery,
    "table-races": table_races,
    "queue-attributes": queue_attributes,
    "queue-redrive": queue_redrive,
    "lambda-invocation": lambda_invocation,
    "lambda-failures": lambda_failures,
    "lambda-roles": lambda_roles,
    "topic-subscriptions": topic_subscriptions,
    "sagemaker-jobs": sagemaker_jobs,
    "sagemaker-updates": sagemaker_updates,
    "sagemaker-tags": sagemaker_tags,
    "managed-policies": managed_policies,
    "policy-simulation": policy_simulation,
    "alarm-first-state": alarm_first_state,
}


def is_repaired() -> bool:
    return sys.argv[1] == "repaired"


@contextlib.contextmanager
def clients() -> Iterator[Client]:
    if is_repaired():
        from trackside_localaccount import LocalAccount

        with LocalAccount(stop_grace_seconds=0.2) as account:
            yield account.client
    else:
        with mock_aws(config={"lambda": {"use_docker": False}}):
            yield lambda service: boto3.client(service, region_name="us-east-1")


def run(probe: Callable[[Client], None]) -> str | None:
    """What went wrong, or None."""
    try:
        with clients() as client:
            probe(client)
    except BaseException as error:  # noqa: BLE001  whatever stock moto throws is the answer
        return f"{type(error).__name__}: {error}"[:300]
    return None


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.update(AWS_ACCESS_KEY_ID="testing", AWS_SECRET_ACCESS_KEY="testing")  # noqa: TID251  a process of its own
    print(json.dumps({name: run(probe) for name, probe in PROBES.items()}))
