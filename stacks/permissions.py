"""Permissions with resource, condition and reason, read from a synthesized deployment.

A statement that this repository wrote has its reason beside it (`stacks.constructs.allow`). Those that CDK's constructs
write are the same in everything made with them: their reasons stand here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacks.constructs.allow import WHY

IDENTITY_POLICY = "AWS::IAM::Policy"

# (type of the resource that holds the statement, effect, an action of it) -> why.
BY_CONSTRUCT: Mapping[tuple[str, str, str], str] = {
    (IDENTITY_POLICY, "Allow", "logs:PutLogEvents"): "Writes its own log.",
    (IDENTITY_POLICY, "Allow", "xray:PutTraceSegments"): "Sends traces. X-Ray's calls know no resources.",
    (IDENTITY_POLICY, "Allow", "sqs:ReceiveMessage"): "Takes messages of its own queue, which Lambda does in its name.",
    ("AWS::IAM::Role", "Allow", "sts:AssumeRole"): "The service runs the code with this role.",
    ("AWS::Events::EventBusPolicy", "Deny", "events:PutEvents"): "Verdicts come from roles of this deployment only.",
    ("AWS::S3::BucketPolicy", "Deny", "s3:*"): "Plain HTTP is refused.",
    ("AWS::S3::BucketPolicy", "Allow", "s3:PutObject"): "S3 logs each access to the bucket of runs.",
    ("AWS::SNS::TopicPolicy", "Deny", "sns:Publish"): "Plain HTTP is refused.",
    ("AWS::SNS::TopicPolicy", "Allow", "sns:Publish"): "Alarms of this account notify subscribers.",
    ("AWS::SQS::QueuePolicy", "Deny", "sqs:*"): "Plain HTTP is refused.",
    ("AWS::SQS::QueuePolicy", "Allow", "sqs:SendMessage"): "What one rule of EventBridge matches, or cannot deliver.",
    ("AWS::KMS::Key", "Allow", "kms:*"): "The account manages its key; IAM policies give others access to it.",
    ("AWS::KMS::Key", "Allow", "kms:GenerateDataKey"): "Alarms of this account reach topics encrypted with it.",
}


@dataclass(frozen=True)
class Permission:
    """One statement of one policy.

    - `holder`: the role, or the resource that the policy guards
    - `who`: the principal of a resource's policy (or a role's trust); "" for a role's own permissions
    - `why`: the reason; "" for none
    """

    holder: str
    kind: str
    name: str
    effect: str
    who: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition: str
    why: str

    @property
    def is_of_role(self) -> bool:
        """True for a permission of a role, False for one on a resource."""
        return self.kind == IDENTITY_POLICY


def read_permissions(assembly: Path) -> list[Permission]:
    """Return every statement of every policy in a cloud assembly, by holder."""
    templates = {path.name.split(".")[0]: json.loads(path.read_text()) for path in assembly.glob("*.template.json")}
    reasons: dict[str, dict[str, str]] = {}
    for path in assembly.glob("*.metadata.json"):
        for construct, entries in json.loads(path.read_text()).items():
            for entry in entries:
                if entry["type"] == WHY:
                    reasons.setdefault(construct.lstrip("/"), {}).update(entry["data"])
    manifest = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    stacks = {one["properties"].get("stackName", name): name for name, one in manifest.items() if name in templates}
    names = _Names(templates, stacks)
    found = [
        _permission(stack, body, statement, names=names, reasons=reasons)
        for stack, template in templates.items()
        for body in template["Resources"].values()
        for statement in _statements(body["Properties"])
    ]
    return sorted(found, key=lambda each: (not each.is_of_role, each.holder, each.who, each.name, each.actions))


def _statements(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if "Effect" in value and ("Action" in value or "NotAction" in value):
            yield value
        for inner in value.values():
            yield from _statements(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _statements(inner)


def _permission(
    stack: str,
    body: Mapping[str, Any],
    statement: Mapping[str, Any],
    *,
    names: _Names,
    reasons: Mapping[str, Mapping[str, str]],
) -> Permission:
    kind, path = body["Type"], body["Metadata"]["aws:cdk:path"]
    construct = re.sub(r"(/DefaultPolicy|/Policy)?/Resource$", "", path)
    sid = statement.get("Sid", "")
    actions = tuple(_as_list(statement["Action"]))
    by_construct = [
        BY_CONSTRUCT[kind, statement["Effect"], a] for a in actions if (kind, statement["Effect"], a) in BY_CONSTRUCT
    ]
    why = reasons.get(construct, {}).get(sid, "") or next(iter(by_construct), "")
    return Permission(
        holder=construct.removeprefix("Trackside"),
        kind=kind,
        name=sid,
        effect=statement["Effect"],
        who=_principal(statement.get("Principal"), stack, names),
        actions=actions,
        resources=tuple(names.text(each, stack) for each in _as_list(statement.get("Resource", []))),
        condition=_condition(statement.get("Condition", {}), stack, names),
        why=why,
    )


class _Names:
    """Readable names of resources: the path of their construct, not the template's ids and exports.

    - `stacks`: name of a stack in AWS -> its name among `templates`
    """

    def __init__(self, templates: Mapping[str, Mapping[str, Any]], stacks: Mapping[str, str]) -> None:
        self._stacks = stacks
        self._paths = {
            (stack, logical_id): re.sub(r"/Resource$", "", body["Metadata"]["aws:cdk:path"]).removeprefix("Trackside")
            for stack, template in templates.items()
            for logical_id, body in template["Resources"].items()
            if "Metadata" in body
        }
        self._outputs = {
            (stack, name): output["Value"]
            for stack, template in templates.items()
            for name, output in template.get("Outputs", {}).items()
        }

    def text(self, value: Any, stack: str) -> str:
        """Return a value of a template of that stack as text."""
        if isinstance(value, str):
            return value
        ((function, inside),) = value.items()
        if function == "Fn::GetStackOutput":
            of = self._stacks[inside["StackName"]]
            return self.text(self._outputs[of, inside["OutputName"]], of)
        if function == "Fn::Join":
            return _short("".join(self.text(each, stack) for each in inside[1]))
        target = inside[0] if function == "Fn::GetAtt" else inside
        return self._paths.get((stack, target), f"<{target.removeprefix('AWS::')}>")


def _short(arn: str) -> str:
    """Return the ARN without its common parts: partition, region, account."""
    return re.sub(r"arn:<Partition>:|(?<=:)<Region>:<AccountId>:", "", arn).replace("ssm:parameter", "ssm:parameter ")


def _principal(principal: Any, stack: str, names: _Names) -> str:
    if principal is None:
        return ""
    if isinstance(principal, str):
        return principal
    return ", ".join(names.text(each, stack) for value in principal.values() for each in _as_list(value))


def _condition(condition: Mapping[str, Any], stack: str, names: _Names) -> str:
    return "; ".join(
        f"{key} {operator} {' or '.join(names.text(each, stack) for each in _as_list(value))}"
        for operator, pairs in condition.items()
        for key, value in pairs.items()
    )


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
