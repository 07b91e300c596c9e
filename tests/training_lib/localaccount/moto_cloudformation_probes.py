"""What CloudFormation must do, one probe for each repair; a probe fails on stock moto and passes once it is repaired.

Run as a script, in a process of its own, with the argument `stock` or `repaired`, it prints as JSON: probe -> what went
wrong, or null.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import warnings
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import boto3
from moto import mock_aws
from moto.awslambda.models import lambda_backends

REGION = "us-east-1"
TAGS = [{"Key": "project", "Value": "trackside"}]


@cache
def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)


def create(resources: Mapping[str, Any], name: str = "probe", **more: Any) -> dict[str, str]:
    """Creates a stack and returns the Ref of each resource."""
    outputs = {logical: {"Value": {"Ref": logical}} for logical in resources}
    template = {"Resources": resources, "Outputs": outputs, **more}
    client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(template))
    assert status(name) == "CREATE_COMPLETE", status(name)
    described = client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    return {output["OutputKey"]: output["OutputValue"] for output in described["Outputs"]}


def status(name: str = "probe") -> str:
    return str(client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])


def change(template: Mapping[str, Any], name: str = "probe", kind: str = "CREATE") -> None:
    """What `cdk deploy` does: a change set, carried out."""
    cloudformation = client("cloudformation")
    cloudformation.create_change_set(
        StackName=name, ChangeSetName="change", ChangeSetType=kind, TemplateBody=json.dumps(template)
    )
    cloudformation.execute_change_set(StackName=name, ChangeSetName="change")
    cloudformation.delete_change_set(StackName=name, ChangeSetName="change")


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def bucket_with(content: bytes) -> dict[str, str]:
    client("s3").create_bucket(Bucket="assets")
    client("s3").put_object(Bucket="assets", Key="asset.zip", Body=content)
    return {"S3Bucket": "assets", "S3Key": "asset.zip"}


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("handler.py", "def handle(event, context): ...")
    return packed.getvalue()


def role() -> dict[str, Any]:
    return resource("IAM::Role", AssumeRolePolicyDocument={"Version": "2012-10-17", "Statement": []})


def kms_key() -> None:
    key = create({"Key": resource("KMS::Key", KeyPolicy={"Statement": []}, Tags=TAGS)})["Key"]
    assert client("kms").list_resource_tags(KeyId=key)["Tags"] == [{"TagKey": "project", "TagValue": "trackside"}]
    policy = client("kms").get_key_policy(KeyId=key, PolicyName="default")["Policy"]
    assert json.loads(policy) == {"Statement": []}


def event_bus() -> None:
    assert create({"Bus": resource("Events::EventBus", Name="bus", Tags=TAGS)}) == {"Bus": "bus"}
    arn = client("events").describe_event_bus(Name="bus")["Arn"]
    assert client("events").list_tags_for_resource(ResourceARN=arn)["Tags"] == TAGS


def archive() -> None:
    arn = f"arn:aws:events:{REGION}:123456789012:event-bus/default"
    made = create({"Archive": resource("Events::Archive", SourceArn=arn, EventPattern={"source": ["x"]})})
    described = client("events").describe_archive(ArchiveName=made["Archive"])
    assert json.loads(described["EventPattern"]) == {"source": ["x"]}


def role_with_policies() -> None:
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    arn = client("iam").create_policy(PolicyName="own", PolicyDocument=json.dumps(document))["Policy"]["Arn"]
    create({"Role": resource("IAM::Role", RoleName="r", AssumeRolePolicyDocument={}, ManagedPolicyArns=[arn])})
    attached = client("iam").list_attached_role_policies(RoleName="r")["AttachedPolicies"]
    assert [each["PolicyName"] for each in attached] == ["own"]


def log_group() -> None:
    arn = {"Value": {"Fn::GetAtt": ["Group", "Arn"]}}
    template = {"Resources": {"Group": resource("Logs::LogGroup", LogGroupName="group")}, "Outputs": {"Arn": arn}}
    client("cloudformation").create_stack(StackName="probe", TemplateBody=json.dumps(template))
    described = client("cloudformation").describe_stacks(StackName="probe")["Stacks"][0]
    assert described["Outputs"][0]["OutputValue"] == f"arn:aws:logs:{REGION}:123456789012:log-group:group:*"


def layer_version_update() -> None:
    place = bucket_with(zipped())
    first = create({"Layer": resource("Lambda::LayerVersion", Content=place, Description="one")})["Layer"]
    second = resource("Lambda::LayerVersion", Content=place, Description="two")
    outputs = {"Layer": {"Value": {"Ref": "Layer"}}}
    body = json.dumps({"Resources": {"Layer": second}, "Outputs": outputs})
    client("cloudformation").update_stack(StackName="probe", TemplateBody=body)
    assert status() == "UPDATE_COMPLETE", status()
    (output,) = client("cloudformation").describe_stacks(StackName="probe")["Stacks"][0]["Outputs"]
    assert output["OutputValue"] != first
    name, version = output["OutputValue"].split(":")[-2:]
    assert client("lambda").get_layer_version(LayerName=name, VersionNumber=int(version))["Description"] == "two"


def archive_update() -> None:
    arn = client("events").create_event_bus(Name="own")["EventBusArn"]
    made = create({"Archive": resource("Events::Archive", SourceArn=arn, EventPattern='{"source": ["x"]}')})
    changed = resource("Events::Archive", SourceArn=arn, EventPattern={"source": ["y"]}, RetentionDays=5)
    cloudformation = client("cloudformation")
    cloudformation.update_stack(StackName="probe", TemplateBody=json.dumps({"Resources": {"Archive": changed}}))
    (archive,) = client("events").list_archives()["Archives"]
    assert archive["ArchiveName"] == made["Archive"]
    assert archive["RetentionDays"] == 5
    described = client("events").describe_archive(ArchiveName=made["Archive"])
    assert json.loads(described["EventPattern"])["source"] == ["y"]


def rule_update() -> None:
    queue = client("sqs").create_queue(QueueName="q")["QueueUrl"].rpartition("/")[2]
    arn = f"arn:aws:sqs:us-east-1:123456789012:{queue}"
    made = create({"Rule": resource("Events::Rule", EventPattern={"source": ["x"]}, Targets=[{"Id": "a", "Arn": arn}])})
    events = client("events")
    events.put_targets(Rule=made["Rule"], Targets=[{"Id": "of somebody", "Arn": arn}])
    events.disable_rule(Name=made["Rule"])
    changed = resource("Events::Rule", EventPattern={"source": ["y"]}, Targets=[{"Id": "b", "Arn": arn}])
    client("cloudformation").update_stack(StackName="probe", TemplateBody=json.dumps({"Resources": {"Rule": changed}}))
    (rule,) = events.list_rules()["Rules"]
    assert (rule["Name"], rule["State"]) == (made["Rule"], "DISABLED")
    assert json.loads(rule["EventPattern"])["source"] == ["y"]
    targets = events.list_targets_by_rule(Rule=made["Rule"])["Targets"]
    assert sorted(target["Id"] for target in targets) == ["b", "of somebody"]


def generated_names() -> None:
    logical = "Long" * 20
    made = create({logical: resource("Events::Rule", EventPattern={"source": ["x"]})})
    assert len(made[logical]) <= 64, made
    client("events").describe_rule(Name=made[logical])


def layer_version() -> None:
    layer = resource("Lambda::LayerVersion", Content=bucket_with(zipped()), CompatibleArchitectures=["arm64"])
    arn = create({"Layer": layer})["Layer"]
    assert arn.endswith(":1")
    name = arn.split(":")[-2]
    found = client("lambda").get_layer_version(LayerName=name, VersionNumber=1)
    assert found["CompatibleArchitectures"] == ["arm64"]
    client("cloudformation").delete_stack(StackName="probe")
    assert client("lambda").list_layer_versions(LayerName=name)["LayerVersions"] == []


def function() -> None:
    code = bucket_with(zipped())
    layer = client("lambda").publish_layer_version(LayerName="layer", Content={"ZipFile": zipped()})["LayerVersionArn"]
    made = create(
        {
            "Role": role(),
            "Function": resource(
                "Lambda::Function",
                Code=code,
                Handler="handler.handle",
                Runtime="python3.12",
                Role={"Fn::GetAtt": ["Role", "Arn"]},
                Layers=[layer],
                Architectures=["arm64"],
                TracingConfig={"Mode": "Active"},
                LoggingConfig={"LogGroup": "mine"},
                Tags=TAGS,
            ),
        }
    )
    found = client("lambda").get_function(FunctionName=made["Function"])
    configuration = found["Configuration"]
    assert [each["Arn"] for each in configuration["Layers"]] == [layer]
    assert configuration["Architectures"] == ["arm64"]
    assert configuration["TracingConfig"] == {"Mode": "Active"}
    backend = lambda_backends["123456789012"][REGION]
    assert backend.get_function(made["Function"]).logs_group_name == "mine"  # the API does not tell
    assert found["Tags"] == {"project": "trackside"}


def event_source_mapping() -> None:
    code = bucket_with(zipped())
    made = create(
        {
            "Role": role(),
            "Queue": resource("SQS::Queue"),
            "Function": resource(
                "Lambda::Function", Code=code, Handler="h.h", Runtime="python3.12", Role={"Fn::GetAtt": ["Role", "Arn"]}
            ),
            "Mapping": resource(
                "Lambda::EventSourceMapping",
                EventSourceArn={"Fn::GetAtt": ["Queue", "Arn"]},
                FunctionName={"Ref": "Function"},
                Tags=TAGS,
            ),
        }
    )
    arn = client("lambda").get_event_source_mapping(UUID=made["Mapping"])["EventSourceMappingArn"]
    assert client("lambda").list_tags(Resource=arn)["Tags"] == {"project": "trackside"}


def bucket() -> None:
    made = create(
        {
            "Logs": resource("S3::Bucket"),
            "Bucket": resource(
                "S3::Bucket",
                BucketEncryption={
                    "ServerSideEncryptionConfiguration": [
                        {"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}
                    ]
                },
                PublicAccessBlockConfiguration={"BlockPublicAcls": True, "BlockPublicPolicy": False},
                OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
                LifecycleConfiguration={"Rules": [{"Id": "end", "Status": "Enabled", "ExpirationInDays": 9}]},
                LoggingConfiguration={"DestinationBucketName": {"Ref": "Logs"}, "LogFilePrefix": "in/"},
            ),
        }
    )
    s3, name = client("s3"), made["Bucket"]
    encryption = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert encryption["BucketKeyEnabled"] is True
    block = s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
    assert (block["BlockPublicAcls"], block["BlockPublicPolicy"]) == (True, False)
    rules = s3.get_bucket_ownership_controls(Bucket=name)["OwnershipControls"]["Rules"]
    assert rules == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    assert s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"][0]["Expiration"] == {"Days": 9}
    assert s3.get_bucket_logging(Bucket=name)["LoggingEnabled"]["TargetPrefix"] == "in/"


def bucket_deletion() -> None:
    name = create({"Bucket": resource("S3::Bucket")})["Bucket"]
    client("s3").put_object(Bucket=name, Key="key", Body=b"")
    delete()
    assert status() == "DELETE_FAILED"
    client("s3").delete_object(Bucket=name, Key="key")
    delete()
    assert client("s3").list_buckets()["Buckets"] == []


def delete() -> None:
    client("cloudformation").delete_stack(StackName="probe")


def bucket_policy_enforcement() -> None:
    client("s3").create_bucket(Bucket="tls-only")
    everything = {"Effect": "Deny", "Principal": {"AWS": "*"}, "Action": "s3:*", "Resource": "arn:aws:s3:::tls-only/*"}
    tls_only = {**everything, "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
    client("s3").put_bucket_policy(Bucket="tls-only", Policy=json.dumps({"Statement": [tls_only]}))
    client("s3").put_object(Bucket="tls-only", Key="key", Body=b"")
    no_puts = {**everything, "Action": "s3:PutObject"}
    client("s3").put_bucket_policy(Bucket="tls-only", Policy=json.dumps({"Statement": [tls_only, no_puts]}))
    try:
        client("s3").put_object(Bucket="tls-only", Key="key", Body=b"")
    except client("s3").exceptions.ClientError:
        return
    raise AssertionError("a denial without a condition must still deny")


def topic() -> None:
    arn = create({"Topic": resource("SNS::Topic", Tags=TAGS)})["Topic"]
    assert client("sns").list_tags_for_resource(ResourceArn=arn)["Tags"] == TAGS


def topic_update() -> None:
    def arns() -> list[str]:
        return [topic["TopicArn"] for topic in client("sns").list_topics()["Topics"]]

    def shown(arn: str) -> dict[str, str]:
        attributes: dict[str, str] = client("sns").get_topic_attributes(TopicArn=arn)["Attributes"]
        return {name: attributes[name] for name in ("DisplayName", "KmsMasterKeyId")}

    change({"Resources": {"Topic": resource("SNS::Topic", DisplayName="one")}})
    (arn,) = arns()
    changed = resource("SNS::Topic", DisplayName="two", KmsMasterKeyId="alias/x", Tags=TAGS)
    change({"Resources": {"Topic": changed}}, kind="UPDATE")
    assert arns() == [arn], arns()
    assert shown(arn) == {"DisplayName": "two", "KmsMasterKeyId": "alias/x"}
    assert client("sns").list_tags_for_resource(ResourceArn=arn)["Tags"] == TAGS
    change({"Resources": {"Topic": resource("SNS::Topic", TopicName="named")}}, kind="UPDATE")
    assert [each.rpartition(":")[2] for each in arns()] == ["named"]


def table() -> None:
    name = create(
        {
            "Table": resource(
                "DynamoDB::Table",
                AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
                KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                BillingMode="PAY_PER_REQUEST",
                TimeToLiveSpecification={"AttributeName": "end", "Enabled": True},
            )
        }
    )["Table"]
    described = client("dynamodb").describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert described == {"TimeToLiveStatus": "ENABLED", "AttributeName": "end"}


def parameter() -> None:
    properties = {"Name": "/a/switch", "Type": "String", "Value": "false", "Tags": {"project": "trackside"}}
    name = create({"Parameter": resource("SSM::Parameter", **properties)})["Parameter"]
    assert client("ssm").get_parameter(Name=name)["Parameter"]["Value"] == "false"
    tags = client("ssm").list_tags_for_resource(ResourceType="Parameter", ResourceId=name)["TagList"]
    assert tags == [{"Key": "project", "Value": "trackside"}]


def repository() -> None:
    text = json.dumps(
        {
            "rules": [
                {
                    "rulePriority": 1,
                    "selection": {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": 2},
                    "action": {"type": "expire"},
                }
            ]
        }
    )
    name = create(
        {
            "Repository": resource(
                "ECR::Repository",
                ImageScanningConfiguration={"ScanOnPush": True},
                LifecyclePolicy={"LifecyclePolicyText": text},
            )
        }
    )["Repository"]
    assert name == name.lower()
    described = client("ecr").describe_repositories(repositoryNames=[name])["repositories"][0]
    assert described["imageScanningConfiguration"] == {"scanOnPush": True}
    assert client("ecr").get_lifecycle_policy(repositoryName=name)["lifecyclePolicyText"] == text


def skipped_types() -> None:
    policy = {"Version": "2012-10-17", "Statement": [{"Sid": "Mine", "Effect": "Allow", "Action": "x:y"}]}
    made = create(
        {
            "Bucket": resource("S3::Bucket"),
            "BucketPolicy": resource("S3::BucketPolicy", Bucket={"Ref": "Bucket"}, PolicyDocument=policy),
            "Queue": resource("SQS::Queue"),
            "QueuePolicy": resource("SQS::QueuePolicy", Queues=[{"Ref": "Queue"}], PolicyDocument=policy),
            "Topic": resource("SNS::Topic"),
            "TopicPolicy": resource("SNS::TopicPolicy", Topics=[{"Ref": "Topic"}], PolicyDocument=policy),
            "Subscription": resource(
                "SNS::Subscription",
                TopicArn={"Ref": "Topic"},
                Protocol="sqs",
                Endpoint={"Fn::GetAtt": ["Queue", "Arn"]},
                FilterPolicy={"severity": ["critical"]},
            ),
            "Alarm": resource(
                "CloudWatch::Alarm",
                Namespace="AWS/SQS",
                MetricName="ApproximateNumberOfMessagesVisible",
                Dimensions=[{"Name": "QueueName", "Value": {"Fn::GetAtt": ["Queue", "QueueName"]}}],
                ComparisonOperator="GreaterThanOrEqualToThreshold",
                EvaluationPeriods=1,
                Period=60,
                Statistic="Maximum",
                Threshold=1,
                TreatMissingData="notBreaching",
                AlarmActions=[{"Ref": "Topic"}],
            ),
        }
    )
    assert "Mine" in client("s3").get_bucket_policy(Bucket=made["Bucket"])["Policy"]
    attributes = client("sqs").get_queue_attributes(QueueUrl=made["Queue"], AttributeNames=["Policy"])["Attributes"]
    assert "Mine" in attributes["Policy"]
    assert "Mine" in client("sns").get_topic_attributes(TopicArn=made["Topic"])["Attributes"]["Policy"]
    subscription = client("sns").get_subscription_attributes(SubscriptionArn=made["Subscription"])["Attributes"]
    assert json.loads(subscription["FilterPolicy"]) == {"severity": ["critical"]}
    (alarm,) = client("cloudwatch").describe_alarms(AlarmNames=[made["Alarm"]])["MetricAlarms"]
    assert alarm["AlarmActions"] == [made["Topic"]]
    assert alarm["Dimensions"][0]["Name"] == "QueueName"
    delete()
    assert client("cloudwatch").describe_alarms()["MetricAlarms"] == []
    assert client("sns").list_subscriptions()["Subscriptions"] == []


def template_url() -> None:
    client("s3").create_bucket(Bucket="templates")
    template = json.dumps({"Resources": {"Queue": resource("SQS::Queue")}})
    client("s3").put_object(Bucket="templates", Key="a/b.json", Body=template.encode())
    url = "http://127.0.0.1:4566/templates/a/b.json"
    client("cloudformation").create_stack(StackName="probe", TemplateURL=url)
    assert status() == "CREATE_COMPLETE"


def exporting(value: str) -> dict[str, Any]:
    return {
        "Resources": {"Queue": resource("SQS::Queue", QueueName=value)},
        "Outputs": {"Name": {"Value": value, "Export": {"Name": "shared"}}},
    }


def change_set_imports() -> None:
    client("cloudformation").create_stack(StackName="first", TemplateBody=json.dumps(exporting("one")))
    imported = {"Fn::Join": ["-", [{"Fn::ImportValue": "shared"}, "topic"]]}
    change({"Resources": {"Topic": resource("SNS::Topic", TopicName=imported)}})
    assert status() == "CREATE_COMPLETE"
    assert client("sns").list_topics()["Topics"][0]["TopicArn"].endswith(":one-topic")


def change_set_execution() -> None:
    def outputs() -> list[str]:
        described = client("cloudformation").describe_stacks(StackName="probe")["Stacks"][0].get("Outputs", [])
        return [output["OutputValue"] for output in described]

    def exports() -> dict[str, str]:
        return {export["Name"]: export["Value"] for export in client("cloudformation").list_exports()["Exports"]}

    change(exporting("one"))
    assert (outputs(), exports()) == (["one"], {"shared": "one"})
    other = exporting("one")
    other["Outputs"]["Name"] = {"Value": "two", "Export": {"Name": "renamed"}}
    change(other, kind="UPDATE")
    assert (outputs(), exports()) == (["two"], {"renamed": "two"})


def importing(name: str) -> dict[str, Any]:
    return {"Resources": {"Topic": resource("SNS::Topic", DisplayName={"Fn::ImportValue": name})}}


def exports_in_use() -> None:
    cloudformation = client("cloudformation")
    change(exporting("one"), name="first")
    change(importing("shared"), name="second")
    for other, verb in ((exporting("two"), "updated"), ({"Resources": exporting("one")["Resources"]}, "deleted")):
        change(other, name="first", kind="UPDATE")
        described = cloudformation.describe_stacks(StackName="first")["Stacks"][0]
        assert described["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE", described
        assert described["StackStatusReason"] == f"Export shared cannot be {verb} as it is in use by second"
    cloudformation.delete_stack(StackName="first")
    assert status("first") == "UPDATE_ROLLBACK_COMPLETE", "it stays as it was"
    events = cloudformation.describe_stack_events(StackName="first")["StackEvents"]
    assert any("cannot be deleted as it is in use by second" in e.get("ResourceStatusReason", "") for e in events)
    more = exporting("one")
    more["Outputs"]["Unused"] = {"Value": "1", "Export": {"Name": "unused"}}
    change(more, name="first", kind="UPDATE")
    change(exporting("one"), name="first", kind="UPDATE")
    assert status("first") == "UPDATE_COMPLETE", "an export that nobody imports may go"
    cloudformation.delete_stack(StackName="second")
    cloudformation.delete_stack(StackName="first")
    assert cloudformation.list_exports()["Exports"] == []


def stack_outputs() -> None:
    def reading(output: str) -> dict[str, Any]:
        value = {"Fn::GetStackOutput": {"StackName": "first", "OutputName": output}}
        return {"Resources": {"Topic": resource("SNS::Topic", TopicName={"Fn::Join": ["-", [value, "topic"]]})}}

    first = exporting("one")
    first["Outputs"] = {"Name": {"Value": {"Fn::GetAtt": ["Queue", "QueueName"]}}}
    change(first, name="first")
    change(reading("Name"))
    assert status() == "CREATE_COMPLETE"
    assert client("sns").list_topics()["Topics"][0]["TopicArn"].endswith(":one-topic")
    change({"Resources": first["Resources"]}, name="first", kind="UPDATE")
    assert status("first") == "UPDATE_COMPLETE", "a reader keeps no output"
    change(reading("Name"), name="late")
    assert status("late") == "ROLLBACK_COMPLETE", "an output that is not there"


BROKEN = {
    "Good": resource("SNS::Topic", TopicName="good"),
    "Bad": resource("SNS::Topic", TopicName="no spaces allowed"),
}


def failed_execution() -> None:
    change({"Resources": BROKEN})
    assert status() == "ROLLBACK_COMPLETE"
    events = client("cloudformation").describe_stack_events(StackName="probe")["StackEvents"]
    assert any("opic" in event.get("ResourceStatusReason", "") for event in events)
    assert client("sns").list_topics()["Topics"] == []


def failed_creation() -> None:
    client("cloudformation").create_stack(StackName="probe", TemplateBody=json.dumps({"Resources": BROKEN}))
    assert status() == "ROLLBACK_COMPLETE"
    assert client("sns").list_topics()["Topics"] == []


def names_in_use() -> None:
    """Of each kind that the account has; what there was stays, and the stack's other resource goes."""
    make = {
        "SQS::Queue": ("QueueName", lambda: client("sqs").create_queue(QueueName="taken")),
        "S3::Bucket": ("BucketName", lambda: client("s3").create_bucket(Bucket="taken")),
        "SNS::Topic": ("TopicName", lambda: client("sns").create_topic(Name="taken")),
        "Logs::LogGroup": ("LogGroupName", lambda: client("logs").create_log_group(logGroupName="taken")),
        "SSM::Parameter": ("Name", lambda: client("ssm").put_parameter(Name="taken", Value="1", Type="String")),
        "Events::EventBus": ("Name", lambda: client("events").create_event_bus(Name="taken")),
        "Events::Rule": ("Name", lambda: client("events").put_rule(Name="taken", EventPattern='{"source": ["x"]}')),
    }
    needed: dict[str, dict[str, Any]] = {
        "SSM::Parameter": {"Type": "String", "Value": "2"},
        "Events::Rule": {"EventPattern": {"source": ["y"]}},
    }
    for number, (kind, (name, create_it)) in enumerate(make.items()):
        create_it()
        one = resource(kind, **{name: "taken"}, **needed.get(kind, {}))
        stack = f"probe-{number}"
        client("cloudformation").create_stack(StackName=stack, TemplateBody=json.dumps({"Resources": {"One": one}}))
        described = client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
        assert described["StackStatus"] == "ROLLBACK_COMPLETE", f"{kind} is taken again"
        assert f"AWS::{kind}' with identifier 'taken' already exists" in described["StackStatusReason"]
    assert client("sqs").get_queue_url(QueueName="taken")
    assert client("ssm").get_parameter(Name="taken")["Parameter"]["Value"] == "1"


def failed_deletion() -> None:
    template = {
        "Resources": {"Bucket": resource("S3::Bucket", BucketName="full"), "Key": role()},
        "Outputs": {"Name": {"Value": "full", "Export": {"Name": "shared"}}},
    }
    client("cloudformation").create_stack(StackName="probe", TemplateBody=json.dumps(template))
    client("s3").delete_bucket(Bucket="full")  # behind CloudFormation's back: deleting it again fails
    try:
        delete()
    except client("cloudformation").exceptions.ClientError as error:
        raise AssertionError("DeleteStack itself refuses") from error
    assert status() == "DELETE_FAILED"
    assert [export["Name"] for export in client("cloudformation").list_exports()["Exports"]] == ["shared"]


def deleted_stack() -> None:
    template = {
        "Resources": {"Bus": resource("Events::EventBus", Name="bus")},
        "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["Bus", "Arn"]}, "Export": {"Name": "bus-arn"}}},
    }
    stack_id = client("cloudformation").create_stack(StackName="probe", TemplateBody=json.dumps(template))["StackId"]
    delete()
    described = client("cloudformation").describe_stacks(StackName=stack_id)["Stacks"][0]
    assert described["StackStatus"] == "DELETE_COMPLETE"
    assert [bus["Name"] for bus in client("events").list_event_buses()["EventBuses"]] == ["default"]


def missing_change_set() -> None:
    create({"Queue": resource("SQS::Queue")})
    client("cloudformation").delete_change_set(StackName="probe", ChangeSetName="none")
    try:
        client("cloudformation").describe_change_set(StackName="probe", ChangeSetName="none")
    except client("cloudformation").exceptions.ClientError as error:
        assert error.response["Error"]["Code"].startswith("ChangeSetNotFound")  # noqa: PT017  no pytest in this process
    else:
        raise AssertionError("there is none")


def stack_in_review() -> None:
    cloudformation = client("cloudformation")
    template = json.dumps({"Resources": {"Queue": resource("SQS::Queue")}})
    for name in ("refused", "agreed"):
        cloudformation.create_change_set(
            StackName="probe", ChangeSetName=name, ChangeSetType="CREATE", TemplateBody=template
        )
        cloudformation.update_termination_protection(StackName="probe", EnableTerminationProtection=True)
    cloudformation.execute_change_set(StackName="probe", ChangeSetName="agreed")
    stacks = cloudformation.describe_stacks()["Stacks"]
    assert [stack["StackStatus"] for stack in stacks] == ["CREATE_COMPLETE"]
    assert stacks[0]["EnableTerminationProtection"]


def termination_protection() -> None:
    create({"Queue": resource("SQS::Queue")})
    cloudformation = client("cloudformation")
    cloudformation.update_termination_protection(StackName="probe", EnableTerminationProtection=True)
    try:
        cloudformation.delete_stack(StackName="probe")
    except cloudformation.exceptions.ClientError as error:
        assert "TerminationProtection" in str(error)  # noqa: PT017  no pytest in this process
    else:
        raise AssertionError("a protected stack was deleted")
    cloudformation.update_termination_protection(StackName="probe", EnableTerminationProtection=False)
    cloudformation.delete_stack(StackName="probe")


PROBES: Mapping[str, Callable[[], None]] = {
    "kms-key": kms_key,
    "event-bus": event_bus,
    "log-group": log_group,
    "role": role_with_policies,
    "archive": archive,
    "archive-update": archive_update,
    "rule-update": rule_update,
    "generated-names": generated_names,
    "layer-version": layer_version,
    "layer-version-update": layer_version_update,
    "function": function,
    "event-source-mapping": event_source_mapping,
    "bucket": bucket,
    "bucket-deletion": bucket_deletion,
    "bucket-policy-enforcement": bucket_policy_enforcement,
    "topic": topic,
    "topic-update": topic_update,
    "table": table,
    "parameter": parameter,
    "repository": repository,
    "skipped-types": skipped_types,
    "template-url": template_url,
    "change-set-imports": change_set_imports,
    "stack-in-review": stack_in_review,
    "change-set-execution": change_set_execution,
    "missing-change-set": missing_change_set,
    "failed-execution": failed_execution,
    "failed-creation": failed_creation,
    "failed-deletion": failed_deletion,
    "termination-protection": termination_protection,
    "deleted-stack": deleted_stack,
    "stack-outputs": stack_outputs,
    "names-in-use": names_in_use,
    "exports-in-use": exports_in_use,
}


def run(probe: Callable[[], None]) -> str | None:
    """What went wrong, or None."""
    try:
        with mock_aws():
            probe()
    except BaseException as error:  # noqa: BLE001  whatever stock moto throws is the answer
        return f"{type(error).__name__}: {error}"[:300]
    return None


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.update(AWS_ACCESS_KEY_ID="testing", AWS_SECRET_ACCESS_KEY="testing")  # noqa: TID251  a process of its own
    if sys.argv[1] == "repaired":
        from trackside_localaccount import moto_cloudformation

        moto_cloudformation.apply()
        moto_cloudformation.apply()  # twice is once
    print(json.dumps({name: run(probe) for name, probe in PROBES.items()}))
