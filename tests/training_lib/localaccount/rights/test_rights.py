"""Requests of roles and of users, and what services do for them, are refused as AWS refuses them."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.patience import wait_until
from trackside_localaccount.provision import create_inbox, create_role

ACCOUNT, AT = "123456789012", "us-east-1:123456789012"
ONCE = Config(retries={"total_max_attempts": 1}, proxies={})
TOPIC, QUEUE = f"arn:aws:sns:{AT}:topic", f"arn:aws:sqs:{AT}:queue"
PARAMETER = f"arn:aws:ssm:{AT}:parameter/a/b"


@pytest.fixture(scope="module")
def stocked(bench: Any) -> Any:
    """The bench with what the rows name, one role that may do nothing and one that may do a little."""
    client = bench.account.client
    client("s3").create_bucket(Bucket="bucket")
    client("s3").put_object(Bucket="bucket", Key="here", Body=b"1")
    client("sns").create_topic(Name="topic")
    bench.queue("queue")
    client("ssm").put_parameter(Name="/a/b", Value="1", Type="String")
    client("dynamodb").create_table(
        TableName="table",
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    bench.function("function", "def handle(event, context): return 1")
    create_role(bench.account, "nothing")
    create_role(bench.account, "reader", [allow("s3:GetObject", "arn:aws:s3:::bucket/*")])
    return bench


def allow(action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def as_role(bench: Any, name: str, service: str) -> Any:
    given = bench.account.rights.environment_of(f"arn:aws:iam::{ACCOUNT}:role/{name}", "session")
    return boto3.client(
        service,
        region_name="us-east-1",
        endpoint_url=bench.account.endpoint_url,
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=given["AWS_SESSION_TOKEN"],
        config=ONCE,
    )


URL = f"https://sqs.us-east-1.amazonaws.com/{ACCOUNT}/queue"
ITEM = {"TableName": "table", "Key": {"key": {"S": "1"}}}
JOB = f"arn:aws:sagemaker:{AT}:training-job/j"


# Codes and sentences: aws/serverless-application-model#3633 (SQS), aws-samples/serverless-patterns#2457 (S3),
# aws/aws-cdk#27067 (IAM),
# aws-ia/terraform-aws-control_tower_account_factory#151 (SNS); status: each service's API reference, "Common errors".
ROWS: Sequence[tuple[str, str, dict[str, Any], str, int, str]] = [
    (
        "s3",
        "get_object",
        {"Bucket": "bucket", "Key": "here"},
        "AccessDenied",
        403,
        's3:GetObject on resource: "arn:aws:s3:::bucket/here"',
    ),
    (
        "sqs",
        "send_message",
        {"QueueUrl": URL, "MessageBody": "m"},
        "AccessDenied",
        403,
        f"sqs:sendmessage on resource: {QUEUE}",
    ),
    (
        "sns",
        "publish",
        {"TopicArn": TOPIC, "Message": "m"},
        "AuthorizationError",
        403,
        f"SNS:Publish on resource: {TOPIC}",
    ),
    (
        "dynamodb",
        "get_item",
        ITEM,
        "AccessDeniedException",
        400,
        f"dynamodb:GetItem on resource: arn:aws:dynamodb:{AT}:table/table",
    ),
    (
        "lambda",
        "invoke",
        {"FunctionName": "function"},
        "AccessDeniedException",
        403,
        f"lambda:InvokeFunction on resource: arn:aws:lambda:{AT}:function:function",
    ),
    (
        "sagemaker",
        "stop_training_job",
        {"TrainingJobName": "j"},
        "AccessDeniedException",
        400,
        f"sagemaker:StopTrainingJob on resource: {JOB}",
    ),
    (
        "ssm",
        "get_parameter",
        {"Name": "/a/b"},
        "AccessDeniedException",
        400,
        f"ssm:GetParameter on resource: {PARAMETER}",
    ),
    (
        "events",
        "put_events",
        {"Entries": [{"Source": "s", "DetailType": "d", "Detail": "{}"}]},
        "AccessDeniedException",
        400,
        f"events:PutEvents on resource: arn:aws:events:{AT}:event-bus/default",
    ),
    (
        "cloudwatch",
        "put_metric_data",
        {"Namespace": "n", "MetricData": [{"MetricName": "m", "Value": 1}]},
        "AccessDenied",
        403,
        "cloudwatch:PutMetricData on resource: *",
    ),
    (
        "iam",
        "get_role",
        {"RoleName": "nothing"},
        "AccessDenied",
        403,
        "iam:GetRole on resource: role nothing",
    ),
    ("ecr", "get_authorization_token", {}, "AccessDeniedException", 400, "ecr:GetAuthorizationToken on resource: *"),
    (
        "sts",
        "assume_role",
        {"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/reader", "RoleSessionName": "one"},
        "AccessDenied",
        403,
        f"sts:AssumeRole on resource: arn:aws:iam::{ACCOUNT}:role/reader",
    ),
]


@pytest.mark.parametrize("row", [pytest.param(row, id=row[1]) for row in ROWS])
def test_a_role_without_rights_is_refused(stocked: Any, row: tuple[str, str, dict[str, Any], str, int, str]) -> None:
    service, operation, given, code, status, sentence = row
    with pytest.raises(ClientError) as refused:
        getattr(as_role(stocked, "nothing", service), operation)(**given)
    error = refused.value.response
    assert (error["Error"]["Code"], error["ResponseMetadata"]["HTTPStatusCode"]) == (code, status)
    begin = f"User: arn:aws:sts::{ACCOUNT}:assumed-role/nothing/session is not authorized to perform: {sentence}"
    assert error["Error"]["Message"].startswith(f"{begin} because no ")


def test_what_is_allowed_is_done(stocked: Any) -> None:
    s3 = as_role(stocked, "reader", "s3")
    assert s3.get_object(Bucket="bucket", Key="here")["Body"].read() == b"1"
    assert as_role(stocked, "nothing", "sts").get_caller_identity()["Account"] == ACCOUNT


def test_who_may_not_list_a_bucket_does_not_learn_that_an_object_is_absent(stocked: Any) -> None:
    s3 = as_role(stocked, "reader", "s3")
    with pytest.raises(ClientError, match=r"AccessDenied.*s3:ListBucket"):
        s3.get_object(Bucket="bucket", Key="absent")
    create_role(
        stocked.account,
        "lister",
        [allow("s3:*", Condition={"StringLike": {"s3:prefix": "absent/*"}}), allow("s3:Get*")],
    )
    with pytest.raises(s3.exceptions.NoSuchKey):
        as_role(stocked, "lister", "s3").get_object(Bucket="bucket", Key="absent/1")
    with pytest.raises(ClientError, match="AccessDenied"):
        as_role(stocked, "lister", "s3").get_object(Bucket="bucket", Key="absent-1")


@pytest.mark.parametrize("name", ["absent", "other/nothing"])
def test_nobody_becomes_a_role_that_does_not_exist(stocked: Any, name: str) -> None:
    sts, role = stocked.account.client("sts"), f"arn:aws:iam::{ACCOUNT}:role/{name}"
    with pytest.raises(ClientError, match=f"AccessDenied.*sts:AssumeRole on resource: {role}"):
        sts.assume_role(RoleArn=role, RoleSessionName="one")
    assert sts.assume_role(RoleArn=f"arn:aws:iam::{ACCOUNT}:role/nothing", RoleSessionName="one")["Credentials"]


def test_a_role_has_its_path_where_a_request_names_it_without(stocked: Any) -> None:
    create_role(stocked.account, "within", path="/team/")
    create_role(stocked.account, "looker", [allow("iam:GetRole", f"arn:aws:iam::{ACCOUNT}:role/team/*")])
    iam = as_role(stocked, "looker", "iam")
    assert iam.get_role(RoleName="within")["Role"]["Path"] == "/team/"
    for name in ("nothing", "absent"):
        with pytest.raises(ClientError, match=f"iam:GetRole on resource: role {name} because"):
            iam.get_role(RoleName=name)


def test_a_link_acts_as_whoever_signed_it(stocked: Any) -> None:
    def status(role: str) -> int:
        link = as_role(stocked, role, "s3").generate_presigned_url(
            "get_object", Params={"Bucket": "bucket", "Key": "here"}
        )
        try:
            with urllib.request.urlopen(link) as answer:  # noqa: S310 - of this machine
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    assert (status("reader"), status("nothing")) == (200, 403)


def test_a_gap_is_said_with_http_501(stocked: Any) -> None:
    with pytest.raises(ClientError, match="does not know the resource of athena:StartQueryExecution") as refused:
        as_role(stocked, "reader", "athena").start_query_execution(QueryString="SELECT 1")
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501


def test_a_users_groups_and_boundary_count(stocked: Any) -> None:
    iam = stocked.account.client("iam")
    iam.create_user(UserName="ada")
    iam.create_group(GroupName="readers")
    iam.add_user_to_group(GroupName="readers", UserName="ada")
    document = {"Version": "2012-10-17", "Statement": [allow("s3:GetObject", "arn:aws:s3:::bucket/*")]}
    iam.put_group_policy(GroupName="readers", PolicyName="read", PolicyDocument=json.dumps(document))
    key = iam.create_access_key(UserName="ada")["AccessKey"]
    s3 = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=stocked.account.endpoint_url,
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
        config=ONCE,
    )
    assert s3.get_object(Bucket="bucket", Key="here")["Body"].read() == b"1"
    with pytest.raises(ClientError, match="user/ada is not authorized to perform: s3:PutObject"):
        s3.put_object(Bucket="bucket", Key="new", Body=b"")


def test_a_key_must_let_in_whoever_uses_what_it_encrypts(stocked: Any) -> None:
    client = stocked.account.client
    key = client("kms").create_key()["KeyMetadata"]["Arn"]
    client("s3").create_bucket(Bucket="sealed")
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
    client("s3").put_bucket_encryption(Bucket="sealed", ServerSideEncryptionConfiguration={"Rules": [rule]})
    create_role(stocked.account, "writer", [allow(["s3:PutObject", "s3:GetObject"])])
    with pytest.raises(ClientError, match=f"kms:GenerateDataKey on resource: {key}"):
        as_role(stocked, "writer", "s3").put_object(Bucket="sealed", Key="k", Body=b"1")
    via = {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}
    create_role(stocked.account, "opener", [allow("s3:*"), allow("kms:*", key, Condition=via)])
    opener = as_role(stocked, "opener", "s3")
    opener.put_object(Bucket="sealed", Key="k", Body=b"1")
    assert opener.get_object(Bucket="sealed", Key="k")["Body"].read() == b"1"


def test_a_function_acts_by_its_role(stocked: Any) -> None:
    role = create_role(
        stocked.account, "logger", [allow(["logs:CreateLogStream", "logs:PutLogEvents"])], services=["lambda"]
    )
    source = """
        import boto3
        def handle(event, context):
            try:
                boto3.client("ssm").get_parameter(Name="/a/b")
            except Exception as error:
                return f"{error}"
    """
    stocked.function("asks", source, Role=role)
    answer = json.loads(stocked.account.client("lambda").invoke(FunctionName="asks")["Payload"].read())
    assert "assumed-role/logger/asks is not authorized to perform: ssm:GetParameter" in answer


def test_a_function_that_may_not_log_has_no_log_in_cloudwatch(stocked: Any) -> None:
    role = create_role(stocked.account, "mute", services=["lambda"])
    stocked.function("mute", "def handle(event, context): print('said')", Role=role)
    stocked.account.client("lambda").invoke(FunctionName="mute")
    # A person in front of the account reads it all the same.
    wait_until(lambda: "said" in stocked.account.function_log("mute"), "the log of the function")
    found = stocked.account.client("logs").describe_log_groups(logGroupNamePrefix="/aws/lambda/mute")["logGroups"]
    assert found == []


def test_a_function_must_be_able_to_read_its_queue(stocked: Any) -> None:
    role = create_role(stocked.account, "deaf", services=["lambda"])
    stocked.function("deaf", "def handle(event, context): pass", Role=role)
    with pytest.raises(ClientError, match="does not have permissions to call ReceiveMessage on SQS"):
        stocked.account.client("lambda").create_event_source_mapping(FunctionName="deaf", EventSourceArn=QUEUE)


@pytest.mark.parametrize("services", [("ec2",), ("lambda",)], ids=["ec2", "lambda"])
def test_a_job_needs_a_role_that_trusts_sagemaker(stocked: Any, services: tuple[str, ...]) -> None:
    role = create_role(stocked.account, f"of-{services[0]}", services=services)
    with pytest.raises(ClientError, match=f"Could not assume role {role}"):
        stocked.training_job("untrusted", "true", RoleArn=role)


def test_a_job_acts_by_its_role(stocked: Any, tmp_path: Path) -> None:
    role = create_role(stocked.account, "trainer", [allow("s3:GetObject", "arn:aws:s3:::bucket/*")])
    code = (
        "import boto3; s3 = boto3.client('s3'); print(s3.get_object(Bucket='bucket', Key='here')['Body'].read())\n"
        "try: s3.put_object(Bucket='bucket', Key='new', Body=b'')\n"
        "except Exception as error: print(error)"
    )
    script = tmp_path / "reads.py"
    script.write_text(code, encoding="utf-8")
    stocked.training_job("reads", sys.executable, str(script), RoleArn=role)
    stocked.account.hops.wait_for("job-state", job="reads", status="Completed")
    log = stocked.account.job_log("reads")
    assert "b'1'" in log
    assert "assumed-role/trainer/SageMaker is not authorized to perform: s3:PutObject" in log
    groups = stocked.account.client("logs").describe_log_groups(logGroupNamePrefix="/aws/sagemaker")["logGroups"]
    assert groups == [], "its role may not write a log"


def test_an_image_of_the_accounts_registry_is_pulled_by_the_role(stocked: Any) -> None:
    role = create_role(stocked.account, "without-image", [allow("ecr:GetAuthorizationToken")])
    image = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/evaluator:1"
    stocked.processing_job("pulls", "true", image=image, RoleArn=role)
    stocked.account.hops.wait_for("job-state", job="pulls", status="Failed")
    reason = stocked.account.client("sagemaker").describe_processing_job(ProcessingJobName="pulls")["FailureReason"]
    assert "Cannot pull algorithm container" in reason
    assert "ecr:BatchCheckLayerAvailability" in reason


def test_a_queue_that_lets_no_rule_in_gets_no_event(stocked: Any) -> None:
    stocked.account.client("sqs").create_queue(QueueName="closed")
    stocked.rule("to-closed", {"source": ["to-closed"]}, {"Arn": f"arn:aws:sqs:{AT}:closed"})
    stocked.put_event("to-closed", {})
    stocked.account.hops.wait_for("event-failed", rule="to-closed", code="NO_PERMISSIONS")


def test_an_alarm_reaches_a_topic_of_its_account_only_by_the_topics_policy(stocked: Any) -> None:
    client = stocked.account.client
    refusing = {"Effect": "Deny", "Principal": "*", "Action": "sns:Publish", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [refusing]})
    topic = client("sns").create_topic(Name="shut", Attributes={"Policy": policy})["TopicArn"]
    create_inbox(stocked.account, "behind-shut", topic)
    client("cloudwatch").put_metric_alarm(
        AlarmName="shut",
        Namespace="n",
        MetricName="m",
        Statistic="Maximum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=0,
        ComparisonOperator="GreaterThanThreshold",
        AlarmActions=[topic],
    )
    client("cloudwatch").put_metric_data(Namespace="n", MetricData=[{"MetricName": "m", "Value": 1}])
    stocked.account.hops.wait_for("alarm-action-failed", alarm="shut")
