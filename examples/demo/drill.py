"""`make drill`: the real CDK command line deploys Trackside into a local account, twice, and destroys it. In between,
`trackside drill` plants a fault in a training job there: the verdict, the message, the alarm and the stop must come.

Every step is checked at the far end, through the account's own API. It exits 0 only if all of them happened.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from trackside.cloud.drill_stage import register_evaluator
from trackside.environment import inherited
from trackside_localaccount import LocalAccount
from trackside_localaccount.start_time import limit_seconds, seconds_to_start

ROOT = Path(__file__).resolve().parent.parent.parent
ACCOUNT, REGION = "123456789012", "us-east-1"
# So that `destroy` leaves nothing behind; a real deployment keeps its runs.
KEEP_NOTHING = ("-c", "trackside:keep_data=false", "-c", "trackside:drills=true")


class DrillError(Exception):
    """A step did not do what it should; the message says what is missing."""


def main() -> int:
    began = time.monotonic()
    print("The real CDK command line against a local account: nothing leaves this machine.\n")
    try:
        with tempfile.TemporaryDirectory(prefix="trackside-drill-") as folder, start_account() as account:
            assembly = Path(folder) / "cdk.out"
            synthesize(account, assembly)
            deploy_and_destroy(account, assembly)
    except DrillError as error:
        print(f"\n\nThe drill failed: {error}", file=sys.stderr)
        return 1
    print(f"\nAll of it happened, in {time.monotonic() - began:.0f} s. Into a real account: docs/deploy.md")
    return 0


@contextmanager
def start_account() -> Iterator[LocalAccount]:
    with step("account") as report, LocalAccount() as account:
        report(f"up at {account.endpoint_url}")
        yield account


def synthesize(account: LocalAccount, assembly: Path) -> None:
    """Synthesizes into the folder `assembly`."""
    with step("synth") as report:
        CommandLine(account).run("synth", "--quiet", "--output", str(assembly), *KEEP_NOTHING)
        templates = read_templates(assembly)
        report(f"{len(templates)} stacks, {sum(map(len, templates.values()))} resources; cdk-nag is content")


def deploy_and_destroy(account: LocalAccount, assembly: Path) -> None:
    """Bootstraps, deploys, deploys again, destroys, and looks at the far end each time. Errors: `DrillError`."""
    cdk = CommandLine(account)
    templates = read_templates(assembly)
    with step("bootstrap") as report:
        cdk.run("bootstrap", f"aws://{ACCOUNT}/{REGION}", "--app", str(assembly))
        report(f"version {bootstrap_version(account)}")
    before = inventory(account)
    with step("deploy") as report:
        cdk.run("deploy", "--all", "--app", str(assembly), "--require-approval", "never")
        deployed = find_resources(account, templates)
        missing = [str(resource) for resource in deployed if not exists(account, resource)]
        require(not missing, f"deployed, but not in the account: {', '.join(missing)}")
        report(f"{len(deployed)} resources, each found in the account")
    with step("again") as report:
        printed = cdk.run("deploy", "--all", "--app", str(assembly), "--require-approval", "never")
        changed = [stack for stack in templates if f"{stack} (no changes)" not in printed]
        require(not changed, f"a second deployment changes {', '.join(changed)}")
        require(find_resources(account, templates) == deployed, "a second deployment made other resources")
        report("no changes, in all stacks")
    with step("drill") as report:
        report(plant_a_fault(account))
    with step("destroy") as report:
        empty_buckets(account, deployed)
        cdk.run("destroy", "--all", "--force", "--app", str(assembly))
        left = [str(resource) for resource in deployed if exists(account, resource)]
        require(not left, f"destroyed, but still in the account: {', '.join(left)}")
        extra = sorted(inventory(account) ^ before)
        require(not extra, f"destroyed, but the account is not as it was before: {', '.join(extra)}")
        report("the account is as it was before")


def plant_a_fault(account: LocalAccount) -> str:
    """Runs `trackside drill` against the account; returns the times. Errors: `DrillError` with what did not happen."""
    register_evaluator(account, ROOT)
    environment = {**inherited(), **account.environment()}
    minutes = limit_seconds(DRILL_STARTS, start_seconds=seconds_to_start()) / 60
    command = [sys.executable, "-m", "trackside", "drill", "--yes", "--json", "--timeout-minutes", f"{minutes:.1f}"]
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    report = json.loads(outcome.stdout) if outcome.stdout.strip() else {"missing": [{"hop": outcome.stderr[-1500:]}]}
    missing = [each["hop"] for each in report["missing"]]
    require(outcome.returncode == 0, f"trackside drill: did not happen: {', '.join(missing)}")
    after = {each["hop"]: each["seconds_since_fault"] for each in report["hops"]}
    words = {"verdict": "a rule finds it", "message": "owners are notified", "stop": "training is stopped"}
    return "fault found: " + ", ".join(f"{word} {max(after[effect], 0.0):.1f} s" for word, effect in words.items())


def require(holds: bool, what: str) -> None:
    if not holds:
        raise DrillError(what)


@contextmanager
def step(name: str) -> Iterator[Callable[[str], None]]:
    """Prints what is being done at once, and how it ended when it has."""
    began = time.monotonic()
    in_terminal = sys.stdout.isatty()  # a line cannot be written over in a log

    def report(result: str) -> None:
        start = "\r" if in_terminal else ""
        print(f"{start}  {name:<10} {result:<56} {time.monotonic() - began:5.1f} s", flush=True)

    if in_terminal:
        print(f"  {name:<10} ...", end="", flush=True)
    yield report


# Time limits, in starts of a program that imports boto3: both fail at once where they can, and these end the rest.
DRILL_STARTS = 800
COMMAND_STARTS = 1500  # a command that waits for a stack that never gets there


@dataclass(frozen=True)
class CommandLine:
    """The pinned CDK command line, speaking to the local account."""

    account: LocalAccount

    def run(self, *words: str) -> str:
        """Runs one command and returns what it printed. Errors: `DrillError` with the end of it."""
        environment = {**inherited(), **self.account.environment()}
        environment |= {"CDK_DEFAULT_ACCOUNT": ACCOUNT, "CDK_DEFAULT_REGION": REGION, "AWS_REGION": REGION}
        environment.pop("AWS_CA_BUNDLE", None)  # it would be asked about a plain-HTTP endpoint
        outcome = subprocess.run(
            [str(ROOT / ".ci" / "cdk"), *words],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=limit_seconds(COMMAND_STARTS, start_seconds=seconds_to_start()),
        )
        if outcome.returncode != 0:
            raise DrillError(f"cdk {words[0]} ended with {outcome.returncode}:\n{outcome.stdout[-3000:]}")
        return outcome.stdout


@dataclass(frozen=True)
class Resource:
    """One resource of a template, as it came to be."""

    stack: str
    logical_id: str
    type: str
    physical_id: str

    def __str__(self) -> str:
        return f"{self.type} {self.logical_id} of {self.stack}"


def read_templates(assembly: Path) -> dict[str, Mapping[str, Any]]:
    """Stack -> its resources, as the templates say."""
    names = [path.name.removesuffix(".template.json") for path in sorted(assembly.glob("*.template.json"))]
    return {name: json.loads((assembly / f"{name}.template.json").read_text())["Resources"] for name in names}


def bootstrap_version(account: LocalAccount) -> str:
    parameter = account.client("ssm").get_parameter(Name="/cdk-bootstrap/hnb659fds/version")
    account.client("s3").head_bucket(Bucket=f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}")
    return str(parameter["Parameter"]["Value"])


def inventory(account: LocalAccount) -> set[str]:
    """Everything the account holds, of the kinds that a deployment makes: `service: name`."""
    held = set()
    for service, operation, answer, name in INVENTORY:
        for entry in getattr(account.client(service), operation)().get(answer, ()):
            found = entry[name] if name else entry
            if not found.startswith(LOGS_OF_SAGEMAKER):
                held.add(f"{service}: {found}")
    keys = account.client("kms").list_keys()["Keys"]
    return held | {f"kms: {key['KeyId']}" for key in keys if _key_lives(account.client, key["KeyId"])}


def find_resources(account: LocalAccount, templates: Mapping[str, Mapping[str, Any]]) -> list[Resource]:
    """Every resource of the templates with its physical id. Errors: `DrillError` if one has none."""
    found = []
    for stack, resources in templates.items():
        pages = account.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
        summaries = [summary for page in pages for summary in page["StackResourceSummaries"]]
        physical = {summary["LogicalResourceId"]: summary["PhysicalResourceId"] for summary in summaries}
        missing = sorted(set(resources) - set(physical))
        require(not missing, f"not made: {', '.join(missing)} of {stack}")
        for name, resource in resources.items():
            # An inline policy is known by the name in the template; its physical id is CloudFormation's own.
            known_as = resource["Properties"].get("PolicyName", physical[name])
            found.append(Resource(stack, name, resource["Type"], known_as))
    return found


def exists(account: LocalAccount, resource: Resource) -> bool:
    """Asks the service itself. An error that says "no such thing" is a no; any other is an error."""
    try:
        return bool(QUESTIONS[resource.type](account.client, resource.physical_id))
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if any(word in code for word in ("NotFound", "NoSuch", "NonExistent", "404")):
            return False
        raise DrillError(f"cannot ask for {resource}: {error}") from error


def _policy_exists(client: Callable[[str], Any], name: str) -> bool:
    iam = client("iam")
    roles = [role["RoleName"] for role in iam.list_roles()["Roles"]]
    return any(name in iam.list_role_policies(RoleName=role)["PolicyNames"] for role in roles)


def _rule_exists(client: Callable[[str], Any], name: str) -> bool:
    events = client("events")
    buses = [bus["Name"] for bus in events.list_event_buses()["EventBuses"]]
    return any(name == rule["Name"] for bus in buses for rule in events.list_rules(EventBusName=bus)["Rules"])


def _layer_exists(client: Callable[[str], Any], arn: str) -> Any:
    layer, _, version = arn.rpartition(":")
    return client("lambda").get_layer_version(LayerName=layer.rpartition(":")[2], VersionNumber=int(version))


def _log_group_exists(client: Callable[[str], Any], name: str) -> bool:
    return bool(client("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"])


def _queue_policies(client: Callable[[str], Any], stack_part: str) -> bool:
    """Every queue of the stack carries a policy (a queue policy has no name of its own to ask for)."""
    sqs = client("sqs")
    urls = sqs.list_queues(QueueNamePrefix=stack_part.partition("-")[0]).get("QueueUrls", [])
    policies = [sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"]).get("Attributes") for url in urls]
    return bool(policies) and all(policies)


def _topic_policies(client: Callable[[str], Any], stack_part: str) -> bool:
    """Every topic of the stack refuses plain HTTP (a topic policy has no name of its own either)."""
    sns = client("sns")
    arns = [topic["TopicArn"] for topic in sns.list_topics()["Topics"]]
    ours = [arn for arn in arns if arn.rsplit(":", 1)[1].startswith(stack_part.partition("-")[0])]
    policies = [sns.get_topic_attributes(TopicArn=arn)["Attributes"]["Policy"] for arn in ours]
    return bool(policies) and all("aws:SecureTransport" in policy for policy in policies)


def _key_lives(client: Callable[[str], Any], key_id: str) -> bool:
    return bool(client("kms").describe_key(KeyId=key_id)["KeyMetadata"]["KeyState"] == "Enabled")


LOGS_OF_SAGEMAKER = "/aws/sagemaker/"  # its own log groups: they stay when jobs are gone, and when we are

# service, operation, where its answer lies, and what names an entry there (nothing: the entry itself is the name)
INVENTORY = (
    ("cloudformation", "describe_stacks", "Stacks", "StackName"),
    ("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
    ("cloudwatch", "list_dashboards", "DashboardEntries", "DashboardName"),
    ("dynamodb", "list_tables", "TableNames", ""),
    ("ecr", "describe_repositories", "repositories", "repositoryName"),
    ("events", "list_archives", "Archives", "ArchiveName"),
    ("events", "list_event_buses", "EventBuses", "Name"),
    ("events", "list_rules", "Rules", "Name"),
    ("iam", "list_roles", "Roles", "RoleName"),
    ("lambda", "list_event_source_mappings", "EventSourceMappings", "UUID"),
    ("lambda", "list_functions", "Functions", "FunctionName"),
    ("lambda", "list_layers", "Layers", "LayerName"),
    ("logs", "describe_log_groups", "logGroups", "logGroupName"),
    ("s3", "list_buckets", "Buckets", "Name"),
    ("sns", "list_topics", "Topics", "TopicArn"),
    ("sqs", "list_queues", "QueueUrls", ""),
)


def _bus_policy_exists(client: Callable[[str], Any], name: str) -> bool:
    bus, _, statement = name.rpartition("|")
    policy = client("events").describe_event_bus(Name=bus or "default").get("Policy") or "{}"
    return any(each.get("Sid") == statement for each in json.loads(policy).get("Statement", []))


# How to ask each service whether a resource of that type is there: the answer is true, false or "not found".
QUESTIONS: Mapping[str, Callable[[Callable[[str], Any], str], Any]] = {
    "AWS::CloudWatch::Alarm": lambda c, name: c("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"],
    "AWS::CloudWatch::Dashboard": lambda c, name: c("cloudwatch").get_dashboard(DashboardName=name),
    "AWS::DynamoDB::Table": lambda c, name: c("dynamodb").describe_table(TableName=name),
    "AWS::ECR::Repository": lambda c, name: c("ecr").describe_repositories(repositoryNames=[name])["repositories"],
    "AWS::Events::Archive": lambda c, name: c("events").describe_archive(ArchiveName=name),
    "AWS::Events::EventBus": lambda c, name: c("events").describe_event_bus(Name=name),
    "AWS::Events::EventBusPolicy": _bus_policy_exists,
    "AWS::Events::Rule": _rule_exists,
    "AWS::IAM::Policy": _policy_exists,
    "AWS::IAM::Role": lambda c, name: c("iam").get_role(RoleName=name),
    "AWS::KMS::Key": _key_lives,
    "AWS::Lambda::EventSourceMapping": lambda c, uuid: c("lambda").get_event_source_mapping(UUID=uuid),
    "AWS::Lambda::Function": lambda c, name: c("lambda").get_function(FunctionName=name),
    "AWS::Lambda::LayerVersion": _layer_exists,
    "AWS::Logs::LogGroup": _log_group_exists,
    "AWS::S3::Bucket": lambda c, name: c("s3").head_bucket(Bucket=name),
    "AWS::S3::BucketPolicy": lambda c, bucket: c("s3").get_bucket_policy(Bucket=bucket),
    "AWS::SNS::Topic": lambda c, arn: c("sns").get_topic_attributes(TopicArn=arn),
    "AWS::SNS::TopicPolicy": _topic_policies,
    "AWS::SQS::Queue": lambda c, url: c("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"]),
    "AWS::SQS::QueuePolicy": _queue_policies,
    "AWS::SSM::Parameter": lambda c, name: c("ssm").get_parameter(Name=name),
}


def empty_buckets(account: LocalAccount, resources: Sequence[Resource]) -> None:
    """As docs/deploy.md tells: CloudFormation deletes empty buckets only, and looking around left access logs."""
    s3 = account.client("s3")
    buckets = [resource.physical_id for resource in resources if resource.type == "AWS::S3::Bucket"]
    for bucket in buckets:
        s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})
    for bucket in buckets:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for entry in page.get("Contents", ()):
                s3.delete_object(Bucket=bucket, Key=entry["Key"])


if __name__ == "__main__":
    sys.exit(main())
