"""Each role against the calls of the code that runs with it, both ways: nothing is missing, and nothing is unused.

Calls of functions are those that their own tests make, with what names the resource (tests/lambdas/calls.json). Calls
of containers are those that stand in the code that they run.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

from docs.permissions import LARGEST
from stacks.assembly import assembly
from stacks.permissions import Permission, read_permissions
from tests.lambdas import recorded_calls
from tests.stacks.registered import FUNCTION_ROLES
from tests.stacks.variants import HUB_OF_STAGING, SPOKE_OF_STAGING

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "training_lib" / "src" / "trackside"
FUNCTION_CALLS: Mapping[str, Mapping[str, list[str]]] = json.loads(recorded_calls.FILE.read_text(encoding="utf-8"))

# Operation -> the actions that it needs, where these are not the one of its name.
# https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
ACTIONS: Mapping[str, tuple[str, ...]] = {
    "s3:HeadObject": ("s3:GetObject",),
    "s3:ListObjectsV2": ("s3:ListBucket",),
    "dynamodb:TransactWriteItems": ("dynamodb:PutItem",),
    "sagemaker:CreateProcessingJob": ("sagemaker:CreateProcessingJob", "sagemaker:AddTags", "iam:PassRole"),
    "sagemaker:CreateTrainingJob": ("sagemaker:CreateTrainingJob", "sagemaker:AddTags", "iam:PassRole"),
}
# Actions that no code of a role calls, and who does it in the role's name.
BY_SERVICES: Mapping[str, str] = {
    "cloudwatch:PutMetricData": "SageMaker, about the job",
    "dynamodb:GetItem": "Powertools, which remembers what was done, where a refusal of DynamoDB does not hold the item",
    **dict.fromkeys(
        (
            "ec2:AssignPrivateIpAddresses",
            "ec2:CreateNetworkInterface",
            "ec2:CreateNetworkInterfacePermission",
            "ec2:DeleteNetworkInterface",
            "ec2:DeleteNetworkInterfacePermission",
            "ec2:DescribeDhcpOptions",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
            "ec2:UnassignPrivateIpAddresses",
        ),
        "Lambda or SageMaker, which takes functions and jobs into a VPC",
    ),
    "ecr:BatchCheckLayerAvailability": "SageMaker or ECS, which pulls the image",
    "ecr:BatchGetImage": "SageMaker or ECS, which pulls the image",
    "ecr:GetAuthorizationToken": "SageMaker or ECS, which pulls the image",
    "ecr:GetDownloadUrlForLayer": "SageMaker or ECS, which pulls the image",
    "events:InvokeApiDestination": "EventBridge, which calls the webhook",
    "events:PutEvents": "EventBridge, which forwards the events of a spoke",
    "kms:CreateGrant": "SageMaker, which encrypts the volume of a job",
    "kms:Decrypt": "S3, SNS, SQS or DynamoDB, which reads what is encrypted",
    "kms:DescribeKey": "DynamoDB, which opens an encrypted table",
    "kms:Encrypt": "DynamoDB, which opens an encrypted table",
    "kms:GenerateDataKey": "S3, SNS, SQS or DynamoDB, which encrypts",
    "kms:ReEncryptFrom": "DynamoDB, which opens an encrypted table",
    "kms:ReEncryptTo": "DynamoDB, which opens an encrypted table",
    "logs:CreateLogGroup": "SageMaker, which keeps the log of the job",
    "logs:CreateLogStream": "Lambda, SageMaker or ECS, which keeps the log",
    "logs:DescribeLogStreams": "SageMaker, which keeps the log of the job",
    "logs:PutLogEvents": "Lambda, SageMaker or ECS, which keeps the log",
    "s3:ListBucket": "S3, which says 'not found' only to those who may list, and else 'not allowed'",
    "sqs:ChangeMessageVisibility": "Lambda, which takes the messages of the function's queue",
    "sqs:DeleteMessage": "Lambda, which takes the messages of the function's queue",
    "sqs:GetQueueAttributes": "Lambda, which takes the messages of the function's queue",
    "sqs:GetQueueUrl": "Lambda, which takes the messages of the function's queue",
    "sqs:ReceiveMessage": "Lambda, which takes the messages of the function's queue",
    "xray:PutTelemetryRecords": "the runtime of Lambda",
    "xray:PutTraceSegments": "the runtime of Lambda",
}
STORE, BUS = "storage/s3.py", "containers/event_bridge.py"
# Role of a container -> files with its calls, and actions for which those stand that the role needs not.
CONTAINERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Evaluation/EvaluatorRole": ((STORE, BUS), ("s3:DeleteObject",)),  # an evaluator deletes nothing
    "Evaluation/CustomRuleRole": (
        (STORE,),
        ("s3:DeleteObject", "s3:PutObject"),
    ),  # code that is not ours writes nothing
    "Evaluation/DrillRole": ((STORE,), ("s3:DeleteObject",)),  # the drill's owner removes its run
    "Dashboard/Role": ((STORE,), ("s3:DeleteObject", "s3:PutObject")),  # who looks changes nothing
    "Evaluation/Fleet/Role": ((STORE, BUS, "cloud/fleet/leases.py", "cloud/fleet/inbox.py"), ("s3:DeleteObject",)),
}
SERVICES = ("dynamodb", "events", "s3", "sqs")
IN_SPOKES = ("sagemaker:DescribeTrainingJob", "sagemaker:StopTrainingJob")


@pytest.fixture(scope="module")
def roles() -> Mapping[str, list[Permission]]:
    """Role -> its permissions, in a deployment with all parts, in a hub and in a spoke."""
    found: dict[str, list[Permission]] = {}
    for context in (LARGEST, HUB_OF_STAGING, SPOKE_OF_STAGING):
        for each in read_permissions(assembly(context)):
            if each.is_of_role and each.effect == "Allow":
                found.setdefault(_role(each.holder), []).append(each)
    return found


def _role(holder: str) -> str:
    """The role, whatever the environment is called that its stack is of."""
    return re.sub(r"^\w*?(Action|Dashboard|Evaluation|Record|Spoke)(?=/)", r"\1", holder)


def calls_of(role: str) -> dict[str, list[str]]:
    """Action -> names of resources, of all that the code of a role calls."""
    called: dict[str, list[str]] = {}
    for operation, names in _operations(role).items():
        for action in ACTIONS.get(operation, (operation,)):
            called.setdefault(action, []).extend(names if action == operation else ())
    return called


def _operations(role: str) -> Mapping[str, list[str]]:
    if role in CONTAINERS:
        files, not_needed = CONTAINERS[role]
        return {one: [] for one in operations_in(LIBRARY / file for file in files) if one not in not_needed}
    if role == "Spoke/Stop":  # with this role the hub's function stops jobs of the spoke, and creates none
        return {one: [] for one in FUNCTION_CALLS["stop_training"] if one in IN_SPOKES}
    function = FUNCTION_ROLES[role.partition("/")[2]]
    assert function in FUNCTION_CALLS, f"test {function}, then: pytest tests/lambdas/{function} -n 0 --write-calls"
    return FUNCTION_CALLS[function]


def operations_in(files: Iterable[Path]) -> set[str]:
    """The operations of AWS (`s3:PutObject`) that some code calls by their names in boto3."""
    session = botocore.session.get_session()
    names = {
        xform_name(operation): f"{service}:{operation}"
        for service in SERVICES
        for operation in session.get_service_model(service).operation_names
    }
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    attributes = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return {names[name] for name in attributes | {text for text in texts if isinstance(text, str)} if name in names}


def _is_of_code(role: str) -> bool:
    return role in CONTAINERS or role == "Spoke/Stop" or role.partition("/")[2] in FUNCTION_ROLES


def test_the_roles_are_known(roles: Mapping[str, list[Permission]]) -> None:
    """Those without code are of services alone: their actions are all in `BY_SERVICES`."""
    of_code = {role for role in roles if _is_of_code(role)}
    assert len(of_code) == len(FUNCTION_ROLES) + len(CONTAINERS) + 1
    assert sorted(set(roles) - of_code) == [
        "Action/Webhook/Role",
        "Dashboard/Network/Vpc/FlowLog/IAMRole",
        "Dashboard/Start",
        "Evaluation/Fleet/Network/Vpc/FlowLog/IAMRole",
        "Evaluation/Fleet/Start",
        "Spoke/Forwarder",
    ]


def test_no_permission_is_missing(roles: Mapping[str, list[Permission]]) -> None:
    missing = [
        f"{role}: {action} {name}"
        for role, permissions in roles.items()
        if _is_of_code(role)
        for action, names in calls_of(role).items()
        for name in names or [""]
        if not any(action in each.actions and _holds(each, action, name) for each in permissions)
    ]
    assert missing == [], "let the function call it, and give LARGEST of docs/permissions.py the setting that needs it"


def _holds(permission: Permission, action: str, name: str) -> bool:
    """Whether a permission is for the object of that key. Of others, the name in a test is none of the deployment's."""
    if action not in {"s3:GetObject", "s3:PutObject"} or not name:
        return True
    return any(fnmatchcase(f"/{name}", _keys(resource)) for resource in permission.resources)


def _keys(resource: str) -> str:
    """The pattern of keys in a resource of S3, whatever the bucket of runs."""
    return re.sub(r"^(Storage/Runs|s3:::[^/]*)", "", resource)


def test_no_permission_is_unused(roles: Mapping[str, list[Permission]]) -> None:
    used, unused = set(), []
    for role, permissions in roles.items():
        called = calls_of(role) if _is_of_code(role) else {}
        for action in {action for each in permissions for action in each.actions}:
            if action in called:
                continue
            used.add(action)
            if action not in BY_SERVICES:
                unused.append(f"{role}: {action}")
    assert unused == [], "no test makes the call: take the permission away, or test it, with --write-calls"
    assert used == set(BY_SERVICES), "a reason that nothing needs any more"


def test_no_pattern_of_keys_is_unused(roles: Mapping[str, list[Permission]]) -> None:
    """Of functions: what they may read and write in the bucket of runs is what they read and write there."""
    unused = [
        f"{role}: {action} {resource}"
        for role, permissions in roles.items()
        if role.partition("/")[2] in FUNCTION_ROLES
        for each in permissions
        for action in {"s3:GetObject", "s3:PutObject"} & set(each.actions)
        for resource in each.resources
        if not any(fnmatchcase(f"/{name}", _keys(resource)) for name in calls_of(role).get(action, ()))
    ]
    assert unused == []


@pytest.mark.parametrize(
    ("code", "operations"),
    [
        pytest.param("self._client.put_object(Key=1)", {"s3:PutObject"}, id="a call"),
        pytest.param("client.get_paginator('list_objects_v2')", {"s3:ListObjectsV2"}, id="a paginator"),
        pytest.param("retry(client.update_item)", {"dynamodb:UpdateItem"}, id="a method that is handed on"),
        pytest.param("put_object = 1", set(), id="a name of our own"),
    ],
)
def test_calls_are_found_in_code(tmp_path: Path, code: str, operations: set[str]) -> None:
    file = tmp_path / "code.py"
    file.write_text(code, encoding="utf-8")
    assert operations_in([file]) == operations
