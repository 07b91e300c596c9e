"""Least privilege, over all policies of all stacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from docs.permissions import LARGEST
from stacks.assembly import assembly
from tests.stacks.registered import FUNCTION_ROLES, place_of
from trackside.contracts.action import Action
from trackside.contracts.job_choice import ACTIONS_TAG, RULES_TAG, RUN_TAG, WATCH_TAG

Statement = Mapping[str, Any]
DOCKERFILE = Path(__file__).parents[2] / "rule_containers" / "evaluator" / "Dockerfile"

# Every resource with an asterisk that a role may touch, its end, and why it cannot be narrower. An action's reason
# stands beside the grant (`accept_wildcard`), and holds only where a condition narrows it.
WILDCARDS = (
    ("xray:PutTraceSegments", "*", "knows no resources"),
    ("xray:PutTelemetryRecords", "*", "knows no resources"),
    ("ecr:GetAuthorizationToken", "*", "knows no resources"),
    ("cloudwatch:PutMetricData", "*", "metrics have no ARNs; the namespace is a condition"),
    ("sagemaker:ListTrainingJobs", "*", "knows no resources"),
    ("sagemaker:ListProcessingJobs", "*", "knows no resources"),
    ("sagemaker:DescribeTrainingJob", ":training-job/*", "reads only; who asked for us is not known before"),
    ("sagemaker:ListTags", ":training-job/*", "reads only; who asked for us is not known before"),
    ("sagemaker:DescribeProcessingJob", ":processing-job/trackside-*", "named so by start_evaluation"),
    ("sagemaker:CreateProcessingJob", ":processing-job/trackside-*", "named so by start_evaluation"),
    ("sagemaker:AddTags", ":processing-job/trackside-*", "tags them while it creates them"),
    ("s3:GetObject", "/*", "a run lies where its job's tag says"),
    ("s3:GetObject", "/*/rule-request.json", "which rules are asked for, and objects that many jobs share"),
    ("s3:GetObject", "/*/rule-output/ending.json", "whether an evaluator that has ended needs a successor"),
    ("s3:GetObject", "/*/rule-output/*/ending.json", "the same of an evaluator of one rule"),
    ("s3:GetObject", "/*/debug-output/training_job_end.ts", "whose marker lies there"),
    ("s3:PutObject", "/*/rule-request.json", "what a job chose, in its run; start_evaluation replaces nothing"),
    ("ssm:GetParameter", ":parameter/trackside/trackside/rules/*", "people put rules there, and nothing else"),
    (
        "sagemaker:AddTags",
        ":training-job/*",
        "which jobs are watched for their name is not known before; our tags only",
    ),
    ("s3:GetObject", "/*/debug-output/*", "what a rule from a file judges"),
    ("s3:GetObject", "/*/statistics/*", "what a rule from a file judges"),
    ("s3:GetObject", "/*/watermarks/*", "how far the run is that a rule from a file judges"),
    ("s3:GetObject", "/*/profiler-output/*", "the machine and the speed that a rule from a file judges"),
    ("s3:GetObject", "/*/rule-output/pictures/*.png", "what a message in Slack shows"),
    ("s3:GetObject", "/*/rule-output/report.html", "what a signed link in a message opens"),
    ("s3:GetObject", "/*/rule-output/training-job.txt", "whose run a rule from a file judges"),
    ("s3:GetObject", ":s3:::rules-bucket/approved/*", "rule files"),
    ("s3:PutObject", "/*/rule-output/*", "verdicts lie beside their run"),
    (
        "s3:PutObject",
        "/*/rule-output/*/verdicts.jsonl",
        "what a rule from a file found, put there by report_custom_rule",
    ),
    ("s3:PutObject", "/*/debug-output/training_job_end.ts", "the end marker of any run, and nothing else"),
    ("logs:CreateLogGroup", ":log-stream:*", "SageMaker names the streams of processing jobs"),
    ("logs:CreateLogStream", ":log-stream:*", "SageMaker names the streams of processing jobs"),
    ("logs:DescribeLogStreams", ":log-stream:*", "SageMaker names the streams of processing jobs"),
    ("logs:PutLogEvents", ":log-stream:*", "SageMaker names the streams of processing jobs"),
    ("s3:GetObject", "/trackside-drill/*", "each drill has a run of its own"),
    ("s3:PutObject", "/trackside-drill/*", "each drill has a run of its own"),
    ("logs:CreateLogGroup", ":log-stream:trackside-drill-*", "SageMaker names the streams of training jobs"),
    ("logs:CreateLogStream", ":log-stream:trackside-drill-*", "SageMaker names the streams of training jobs"),
    ("logs:DescribeLogStreams", ":log-stream:trackside-drill-*", "SageMaker names the streams of training jobs"),
    ("logs:PutLogEvents", ":log-stream:trackside-drill-*", "SageMaker names the streams of training jobs"),
)

# What an action accepts, as cdk-nag prints it: the end of an ARN, after region and account.
ACCEPTED = re.compile(r"AwsSolutions-IAM5\[Resource::arn:.*(?P<end>:[\w-]+/[^:]*\*)\]")

# Roles that are no Lambda's. Whoever adds one reads its policy, and names it here.
OTHER_ROLES = {
    "CustomRuleRole",
    "DrillRole",
    "EvaluatorRole",
    "Fleet/Network/Vpc/FlowLog/IAMRole",
    "Fleet/Role",
    "Fleet/Start",
    "Network/Vpc/FlowLog/IAMRole",
    "Role",  # of the dashboard
    "Start",  # of who starts it
    "Webhook/Role",
}

# The last two: workers of the fleet, and who notes what the network of the fleet refused.
SERVICES = {f"{name}.amazonaws.com" for name in ("lambda", "sagemaker", "events", "ecs-tasks", "vpc-flow-logs")}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def text(value: Any) -> str:
    """A resource as one text; what the deployment fills in stands as JSON."""
    if isinstance(value, Mapping) and "Fn::Join" in value:
        return "".join(map(text, value["Fn::Join"][1]))
    return value if isinstance(value, str) else json.dumps(value)


def statements(resources: Mapping[str, Any]) -> Iterator[tuple[str, str, Statement]]:
    """(resource, its type, statement) for every policy document wherever it stands."""

    def walk(value: Any) -> Iterator[Statement]:
        if isinstance(value, Mapping):
            if "Effect" in value and ("Action" in value or "NotAction" in value):
                yield value
            for inner in value.values():
                yield from walk(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner)

    for name, body in resources.items():
        for statement in walk(body["Properties"]):
            yield name, body["Type"], statement


@pytest.fixture(scope="session")
def allowed(resources: Mapping[str, Any]) -> list[tuple[str, str, Statement]]:
    found = [entry for entry in statements(resources) if entry[2]["Effect"] == "Allow"]
    assert len(found) > 30  # else the walk has lost its way
    return found


def test_containers_write_only_where_the_image_says(resources: Mapping[str, Any]) -> None:
    """What is mounted there has the rights of the image's folder, so one who is not root can write to it."""
    tasks = [body["Properties"] for body in resources.values() if body["Type"] == "AWS::ECS::TaskDefinition"]
    assert len(tasks) == 2, "workers of the fleet, and the dashboard"
    for task in tasks:
        (container,) = task["ContainerDefinitions"]
        assert container["ReadonlyRootFilesystem"] is True
        (mount,) = container["MountPoints"]
        assert [volume["Name"] for volume in task["Volumes"]] == [mount["SourceVolume"]]
        assert mount["ReadOnly"] is False
        assert f'VOLUME ["{mount["ContainerPath"]}"]' in DOCKERFILE.read_text().splitlines()


def test_no_action_has_a_wildcard(allowed: list[tuple[str, str, Statement]]) -> None:
    wild = [
        (name, action)
        for name, kind, statement in allowed
        for action in as_list(statement.get("Action", "*"))
        if "*" in action and not _gives_the_key_to_its_account(kind, statement)
    ]
    assert wild == []


def _gives_the_key_to_its_account(kind: str, statement: Statement) -> bool:
    """A key's policy must let its own account manage it, else nobody ever can; IAM policies then decide who does.
    https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html"""
    return kind == "AWS::KMS::Key" and text(statement["Principal"].get("AWS", "")).endswith(":root")


def test_nothing_is_allowed_by_exclusion(allowed: list[tuple[str, str, Statement]]) -> None:
    assert [entry for entry in allowed if {"NotAction", "NotResource", "NotPrincipal"} & set(entry[2])] == []


@pytest.fixture(scope="session")
def accepted(synthesized: Path) -> dict[str, dict[str, str]]:
    """Role of an action -> each resource with an asterisk that its stack file accepts -> the reason."""
    roles = {f"/TracksideAction/{action.value}/FunctionRole" for action in Action}
    found: dict[str, dict[str, str]] = {}
    for construct, entries in json.loads((synthesized / "TracksideAction.metadata.json").read_text()).items():
        for entry in entries:
            if construct in roles and entry["type"] == "aws:cdk:acknowledged-rules":
                reasons = {ACCEPTED.fullmatch(rule): why for rule, why in entry["data"].items()}
                of_role = found.setdefault(construct.removeprefix("/"), {})
                of_role.update({rule["end"]: why for rule, why in reasons.items() if rule and why})
    assert any(found.values())  # else the walk has lost its way
    return found


def _is_accepted(holder: str, resource: str, statement: Statement, accepted: Mapping[str, dict[str, str]]) -> bool:
    role = holder.removesuffix("/DefaultPolicy/Resource")
    ends = [end for end in accepted.get(role, {}) if resource.endswith(end)]
    return bool(ends) and bool(statement.get("Condition"))


def test_every_wildcard_resource_has_its_reason(
    allowed: list[tuple[str, str, Statement]], resources: Mapping[str, Any], accepted: Mapping[str, dict[str, str]]
) -> None:
    used = set()
    unexplained = []
    for name, kind, statement in allowed:
        if kind != "AWS::IAM::Policy":
            continue
        for action in as_list(statement["Action"]):
            for resource in map(text, as_list(statement["Resource"])):
                if "*" not in resource:
                    continue
                reasons = [known for known in WILDCARDS if known[0] == action and _ends(resource, known[1])]
                used.update(reasons)
                holder = resources[name]["Metadata"]["aws:cdk:path"]
                if not reasons and not _is_accepted(holder, resource, statement, accepted):
                    unexplained.append((name, action, resource))
    assert unexplained == []
    assert used == set(WILDCARDS), "a reason that nothing needs any more"


def _ends(resource: str, end: str) -> bool:
    return resource == end if end == "*" else resource.endswith(end)


def test_every_role_is_of_a_lambda_or_named_here(resources: Mapping[str, Any]) -> None:
    roles = {name: place_of(body) for name, body in resources.items() if body["Type"] == "AWS::IAM::Role"}
    assert sorted(roles.values()) == sorted(OTHER_ROLES | set(FUNCTION_ROLES))


def test_every_lambda_runs_with_the_role_of_its_own_name(resources: Mapping[str, Any]) -> None:
    found = {}
    for name, body in resources.items():
        if body["Type"] == "AWS::Lambda::Function":
            role = resources[f"{name.split('/')[0]}/{body['Properties']['Role']['Fn::GetAtt'][0]}"]
            found[place_of(role)] = body["Properties"]["Handler"].split(".")[1]
    assert found == FUNCTION_ROLES


def test_every_role_is_for_one_service_and_has_no_managed_policy(resources: Mapping[str, Any]) -> None:
    roles = {name: body["Properties"] for name, body in resources.items() if body["Type"] == "AWS::IAM::Role"}
    assert roles
    for name, role in roles.items():
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"]["Service"] in SERVICES, name
        assert "ManagedPolicyArns" not in role, name


def test_only_the_launcher_passes_roles_and_only_those_of_rule_containers(
    allowed: list[tuple[str, str, Statement]],
) -> None:
    """Whoever could pass the role of custom rules could make up what such a rule found, in any job's name."""
    passing = {name: s for name, _, s in allowed if "iam:PassRole" in as_list(s["Action"])}
    (statement,) = (s for name, s in passing.items() if "StartEvaluation" in name)
    (of_owner,) = (s for name, s in passing.items() if "StopTraining" in name)  # in the place of a stopped job
    assert len(passing) == 2
    assert of_owner["Resource"] == LARGEST["trackside:resume_roles"]
    custom_rule, evaluator = sorted(map(text, statement["Resource"]))
    assert "EvaluatorRole" in evaluator
    assert "CustomRuleRole" in custom_rule
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}


def test_events_may_be_put_on_our_bus_only_and_in_our_name_only(allowed: list[tuple[str, str, Statement]]) -> None:
    reporting = {name: s for name, _, s in allowed if "events:PutEvents" in as_list(s["Action"])}
    assert len(reporting) == 5
    for name, statement in reporting.items():
        assert any(
            who in name
            for who in ("EvaluatorRole", "ReportCustomRule", "StartEvaluation", "NotifyFunctionRole", "FleetRole")
        )
        assert "Bus" in text(statement["Resource"])
        assert statement["Condition"] == {"StringEquals": {"events:source": "trackside"}}


def test_code_that_is_not_ours_can_write_nothing_and_say_nothing(allowed: list[tuple[str, str, Statement]]) -> None:
    """Every action of the role of custom rules: a new one must be put down here, and thought about."""
    actions = {action for name, _, s in allowed if "CustomRuleRole" in name for action in as_list(s["Action"])}
    assert actions == {
        "sts:AssumeRole",  # by SageMaker
        "s3:ListBucket",
        "s3:GetObject",
        "kms:Decrypt",
        "ecr:GetAuthorizationToken",
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetDownloadUrlForLayer",
        "logs:CreateLogGroup",
        "logs:CreateLogStream",
        "logs:DescribeLogStreams",
        "logs:PutLogEvents",
        "cloudwatch:PutMetricData",  # in the namespace of SageMaker's containers only
    }


def test_code_that_is_not_ours_reads_no_verdicts(allowed: list[tuple[str, str, Statement]]) -> None:
    readable = {
        resource.rpartition("}")[2] or resource
        for name, _, s in allowed
        if "CustomRuleRole" in name and "s3:GetObject" in as_list(s["Action"])
        for resource in map(text, as_list(s["Resource"]))
    }
    assert readable == {
        "/*/debug-output/*",
        "/*/statistics/*",
        "/*/watermarks/*",
        "/*/profiler-output/*",
        "/*/rule-request.json",
        "/*/rule-output/training-job.txt",
        ":s3:::rules-bucket/approved/*",
    }


def test_only_metrics_of_containers_may_be_put(allowed: list[tuple[str, str, Statement]]) -> None:
    """Roles of processing jobs put those of SageMaker's containers: the memory of an evaluator that ran out of it."""
    putting = {name: s["Condition"] for name, _, s in allowed if "cloudwatch:PutMetricData" in as_list(s["Action"])}
    of_containers = {"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/ProcessingJobs"}}
    assert len(putting) == 2
    for name, condition in putting.items():
        assert any(role in name for role in ("EvaluatorRole", "CustomRuleRole")), name
        assert condition == of_containers, name


def test_only_tagged_jobs_may_be_stopped(allowed: list[tuple[str, str, Statement]]) -> None:
    may = [s["Condition"] for _, _, s in allowed if "sagemaker:StopTrainingJob" in as_list(s["Action"])]
    assert may == [
        {"Null": {"aws:ResourceTag/trackside:run": "false"}},
        {"StringLike": {"aws:ResourceTag/trackside:actions": ["*StopTraining*", "*ResumeTraining*"]}},
    ]


def test_training_jobs_get_our_tags_and_no_others(allowed: list[tuple[str, str, Statement]]) -> None:
    """Who starts evaluators marks the jobs that are watched. Nobody else may write a tag that asks for something."""
    tagging = {
        name: s["Condition"]
        for name, _, s in allowed
        if "sagemaker:AddTags" in as_list(s["Action"]) and "training-job" in text(s["Resource"])
    }
    (going_on,) = [name for name in tagging if "StopTraining" in name]  # jobs that it creates, with tags of the owner's
    assert tagging.pop(going_on)["StringEquals"] == {"sagemaker:TaggingAction": "CreateTrainingJob"}
    written = {}
    for name, condition in tagging.items():
        written[name] = condition["ForAllValues:StringEquals"]["aws:TagKeys"]
        # For without it a request that names no key would pass.
        assert condition["Null"]["aws:TagKeys"] == "false", name
        assert all(key.startswith("trackside:") for key in written[name]), name
    (watching,) = [name for name in written if "StartEvaluation" in name]
    assert written.pop(watching) == ["trackside:run", "trackside:watch"]
    asking = {RUN_TAG, RULES_TAG, ACTIONS_TAG, WATCH_TAG}
    assert {name: keys for name, keys in written.items() if asking & set(keys)} == {}


def test_by_default_no_job_is_tagged_or_asked_about_by_who_starts_evaluators() -> None:
    resources = json.loads((assembly() / "TracksideEvaluation.template.json").read_text())["Resources"]
    assert ":training-job/" not in json.dumps([body for name, body in resources.items() if "StartEvaluation" in name])
    assert not [name for name in resources if "Untagged" in name]


def test_the_key_serves_the_tables_through_dynamodb_only(allowed: list[tuple[str, str, Statement]]) -> None:
    through = [s["Condition"] for _, _, s in allowed if "kms:Encrypt" in as_list(s["Action"])]
    assert len(through) == 7
    for condition in through:
        assert text(condition["StringEquals"]["kms:ViaService"]).startswith("dynamodb.")


def test_only_three_functions_touch_the_table_of_runs(allowed: list[tuple[str, str, Statement]]) -> None:
    """A person vetoes with rights of their own; nothing else writes what is known of a job."""
    may = {
        name.split("/")[1]: {action.removeprefix("dynamodb:") for action in as_list(s["Action"])}
        for name, _, s in allowed
        if any(action.startswith("dynamodb:") for action in as_list(s["Action"])) and "RunTable" in str(s["Resource"])
    }
    assert sorted(map(sorted, may.values())) == [
        ["BatchGetItem", "PutItem", "Query", "UpdateItem"],
        ["GetItem", "PutItem", "UpdateItem"],
        ["PutItem", "Query", "UpdateItem"],
    ]


def test_no_one_from_outside_the_account_is_let_in(allowed: list[tuple[str, str, Statement]]) -> None:
    services = {"events.amazonaws.com", "cloudwatch.amazonaws.com", "logging.s3.amazonaws.com"}
    for name, kind, statement in allowed:
        if "Principal" not in statement or kind == "AWS::IAM::Role":
            continue
        principal = statement["Principal"]
        service = principal.get("Service") if isinstance(principal, Mapping) else None
        if service is None:
            assert _gives_the_key_to_its_account(kind, statement), name
        else:
            assert service in services, name
            assert statement.get("Condition"), f"{name}: any account's {service} could come"


@pytest.mark.parametrize(
    ("resource", "policy"),
    [
        pytest.param("AWS::S3::Bucket", "AWS::S3::BucketPolicy", id="buckets"),
        pytest.param("AWS::SQS::Queue", "AWS::SQS::QueuePolicy", id="queues"),
        pytest.param("AWS::SNS::Topic", "AWS::SNS::TopicPolicy", id="topics"),
    ],
)
def test_plain_http_is_refused_everywhere(
    templates: Mapping[str, Mapping[str, Any]], resource: str, policy: str
) -> None:
    for stack, found in templates.items():
        wanted = {name for name, body in found.items() if body["Type"] == resource}
        refusing = {
            reference["Ref"]
            for body in found.values()
            if body["Type"] == policy
            for statement in body["Properties"]["PolicyDocument"]["Statement"]
            if statement["Effect"] == "Deny" and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
            for key in ("Bucket", "Queues", "Topics")
            for reference in as_list(body["Properties"].get(key, []))
        }
        assert refusing == wanted, stack


def test_the_first_worker_of_the_fleet_starts_after_its_permissions_and_endpoints(resources: Mapping[str, Any]) -> None:
    """Else it pulls no image or judges nothing, and the circuit breaker ends the first deployment."""
    stack = "TracksideEvaluation"
    (service,) = (body for name, body in resources.items() if name.startswith(stack) and is_service(body))
    needed = {
        name.split("/")[1]
        for name, body in resources.items()
        if name.startswith(f"{stack}/Fleet")
        and (
            body["Type"] in ("AWS::EC2::VPCEndpoint", "AWS::EC2::SecurityGroupIngress")
            or (body["Type"] == "AWS::IAM::Policy" and "FlowLog" not in name)
        )
    }
    assert len(needed) >= 9
    assert needed <= set(service["DependsOn"])


def is_service(body: Mapping[str, Any]) -> bool:
    return bool(body["Type"] == "AWS::ECS::Service")


def test_the_bus_takes_events_of_every_role_that_puts_them_and_of_no_other(resources: Mapping[str, Any]) -> None:
    (guard,) = [body["Properties"] for body in resources.values() if body["Type"] == "AWS::Events::EventBusPolicy"]
    statement = guard["Statement"]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "events:PutEvents")
    assert statement["Condition"]["Bool"] == {"aws:PrincipalIsAWSService": "false"}, "a replay is EventBridge's own"
    let_in = json.dumps(statement["Condition"]["ArnNotEquals"]["aws:PrincipalArn"])
    putting = [
        role["Ref"]
        for body in resources.values()
        if body["Type"] == "AWS::IAM::Policy" and "events:PutEvents" in json.dumps(body["Properties"]["PolicyDocument"])
        for role in body["Properties"]["Roles"]
    ]
    assert len(putting) >= 5
    assert [role for role in putting if role not in let_in] == []
