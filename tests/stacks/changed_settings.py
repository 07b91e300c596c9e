"""Changes of a deployed setting: the values to change to, and the refusals of CloudFormation on the way.

    python -m tests.stacks.changed_settings

synthesizes every deployment that differs from the default one in one setting (minutes), and prints the refusals of each
change, in both directions.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from app import compose
from stacks.deployment_settings import PREFIX, DeploymentSettings
from stacks.settings.setting import DeclaredSetting, declared_settings
from tests.stacks.variants import ACCOUNT, ALARM_TOPIC, BOUNDARY, GROUPS, KEY, ORGANIZATION, RUN_BUCKET, SUBNETS
from trackside.contracts.action import Action
from trackside.contracts.deployment.evaluators import EVALUATOR_MODES
from trackside.contracts.errors import ConfigurationError

Templates = Mapping[str, Mapping[str, Any]]  # by stack, in the order of deployment
Context = Mapping[str, str]

# Tried one after the other on each setting of text, after its own name, with its own check. A setting that takes none
# needs one here.
CERTIFICATE = "arn:aws:acm:eu-central-1:123456789012:certificate/12345678-1234-1234-1234-123456789012"
TEXTS = (
    "overfit",
    *EVALUATOR_MODES,
    ACCOUNT,
    ALARM_TOPIC,
    BOUNDARY,
    KEY,
    ORGANIZATION,
    ",".join(GROUPS),
    ",".join(SUBNETS),
    "arn:aws:iam::123456789012:role/training",
    "+14155550100",
    "C0123456789",
    "https://hooks.example.com/trackside",
    "ml.m5.large",
    "ml.m5.large=0.12",
    "owner@example.com",
    "s3://rules-bucket/approved",
    "team=vision",
    "trackside.example.com",
    CERTIFICATE,
    "10.0.0.0/8",
    "vpc-0123456789abcdef0",
    RUN_BUCKET,
)
NUMBERS = (0, 1, 2, 5, 7, 14, 512, 2048)
COMPANIONS: Mapping[str, tuple[str, ...]] = {  # that a setting needs beside it
    "functions_in_vpc": ("vpc_subnets", "vpc_security_groups"),
    "run_bucket": ("key_arn",),
    "slack_channel": ("slack_secret",),
    "team_dashboard_certificate_arn": ("team_dashboard_host",),
    "team_dashboard_host": ("team_dashboard_certificate_arn",),
    "team_dashboard_vpc": ("vpc_subnets", "vpc_security_groups"),
    "vpc_security_groups": ("vpc_subnets",),
    "vpc_subnets": ("vpc_security_groups",),
    "webhook_url": ("webhook_secret",),
}
# Given at one time with what they need.
TOGETHER = (
    *("vpc_subnets", "vpc_security_groups", "slack_channel", "webhook_url"),
    *("team_dashboard_host", "team_dashboard_certificate_arn"),
)
# The others make another deployment, beside this one: no stack in common is changed.
ELSEWHERE = ("environment", "hub_account")


def other_values(setting: DeclaredSetting) -> list[str]:
    """Return other values of a setting than its default, as `-c` gives them."""
    default = setting.value_in(DeploymentSettings())
    if setting.kind is bool:
        return [str(not default).lower()]
    if setting.kind == tuple[Action, ...]:
        return ["", *(action.value for action in Action), ",".join(action.value for action in Action)]
    numbers = (default + 1, default - 1, *NUMBERS) if setting.kind is int else ()
    candidates = map(str, numbers) if numbers else (setting.key.replace("_", "-"), *TEXTS)
    taken = [each for each in candidates if _is_other(setting, each, default)]
    if not taken:
        raise LookupError(f"No other value of {setting.key!r} is known: add one to {Path(__file__).name}.")
    return taken if setting.key.endswith("_mode") else taken[:1]


def _is_other(setting: DeclaredSetting, given: str, default: Any) -> bool:
    try:
        value = setting.read(given)
        setting.check(value)
    except (ValueError, ConfigurationError):
        return False
    return bool(value != default) and (setting.key in COMPANIONS or _is_valid({PREFIX + setting.key: given}))


def changes() -> Iterator[tuple[str, Context, Context]]:
    """Yield name, context before and context after of each change of one setting, away from its default."""
    declared = {one.key: one for one in declared_settings(DeploymentSettings)}
    for key, setting in declared.items():
        for value in other_values(setting):
            beside = {PREFIX + each: other_values(declared[each])[0] for each in COMPANIONS.get(key, ())}
            without = {} if key in TOGETHER else beside
            yield f"{key}={value or 'none'}", without, {**beside, PREFIX + key: value}


def together(known: Iterable[tuple[str, Context, Context]]) -> list[Context]:
    """Return contexts that hold all these changes, several in each: as few as go together."""
    contexts: list[dict[str, str]] = []
    for _, _, after in known:
        for context in contexts:
            agrees = all(context.get(key, value) == value for key, value in after.items())
            if agrees and _is_valid({**context, **after}):
                context.update(after)
                break
        else:
            contexts.append(dict(after))
    return list(contexts)


def _is_valid(context: Context) -> bool:
    try:
        DeploymentSettings.from_context(context)
    except ConfigurationError:
        return False
    return True


def synthesize(context: Context) -> Templates:
    """Return the templates of a deployment, in this process: cheaper than a command for each."""
    given = {**json.loads(Path("cdk.json").read_text())["context"], **context}
    with tempfile.TemporaryDirectory() as folder:
        app = cdk.App(context=given, outdir=folder)
        compose(app, DeploymentSettings.from_context(given))
        stacks = app.synth().stacks  # each after those it needs
        return {stack.stack_name: stack.template for stack in stacks}


def refusals(before: Templates, after: Templates) -> list[str]:
    """Return what CloudFormation would refuse while the stacks are updated one after the other, or leave as it was."""
    standing, found = dict(before), []
    for stack, template in after.items():
        found += _exports_in_use(stack, template, standing)
        found += _replaced_names(stack, standing.get(stack, {}), template)
        standing[stack] = template
        for producer, output in _reads(template):
            if output not in standing[producer]["Outputs"]:
                found.append(f"{stack} reads {output}, which {producer} has not")
            elif template == before.get(stack) and _is_replaced(output, before[producer], after[producer]):
                found.append(f"{stack} stays as it was, with the old {output} of {producer}")
    return found


def _exports_in_use(stack: str, template: Mapping[str, Any], standing: Templates) -> list[str]:
    now = _exports(template)
    gone = {name for name, value in _exports(standing.get(stack, {})).items() if now.get(name) != value}
    users = {
        name: [other for other in standing if other != stack and name in _imports(standing[other])] for name in gone
    }
    return [
        f"Export {name} cannot be deleted or updated as it is in use by {users[name]}" for name in gone if users[name]
    ]


def _exports(template: Mapping[str, Any]) -> dict[str, Any]:
    return {o["Export"]["Name"]: o["Value"] for o in template.get("Outputs", {}).values() if "Export" in o}


def _imports(template: Any) -> set[str]:
    return {str(name) for name in _arguments("Fn::ImportValue", template)}


def _reads(template: Any) -> set[tuple[str, str]]:
    return {(one["StackName"], one["OutputName"]) for one in _arguments("Fn::GetStackOutput", template)}


def _arguments(function: str, value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        if function in value:
            yield value[function]
        for inner in value.values():
            yield from _arguments(function, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _arguments(function, inner)


def _replaced_names(stack: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the replaced resources that keep a name of ours: the new one would find it taken."""
    found = []
    for name, body in before.get("Resources", {}).items():
        identity = {each: body.get("Properties", {}).get(each) for each in _schema(body["Type"], "primaryIdentifier")}
        now = after["Resources"].get(name, {}).get("Properties", {})
        is_taken = all(isinstance(value, str) and now.get(each) == value for each, value in identity.items())
        if is_taken and _is_other_resource(name, before, after):
            found.append(f"{stack} cannot replace {name}, which has a name of its own: {identity}")
    return found


def _is_replaced(output: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    values = [str(value) for value in _arguments("Ref", before["Outputs"].get(output, {}))]
    values += [value[0] for value in _arguments("Fn::GetAtt", before["Outputs"].get(output, {}))]
    return any(_is_other_resource(name, before, after) for name in values)


def _is_other_resource(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    old, new = before["Resources"].get(name), after["Resources"].get(name)
    if old is None or new is None:
        return False
    fixed = _schema(old["Type"], "createOnlyProperties")
    return any(old.get("Properties", {}).get(each) != new.get("Properties", {}).get(each) for each in fixed)


def _schema(kind: str, what: str) -> list[str]:
    """Return the top-level properties that AWS's own schema of a resource type lists under `what`."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    return [path.removeprefix("/properties/").split("/")[0] for path in schema.get(what, ())]


def main() -> None:
    made: dict[str, Templates] = {}

    def get(context: Context) -> Templates:
        return made.setdefault(json.dumps(context, sort_keys=True), synthesize(context))

    for name, before, after in changes():
        for direction, first, second in (("on", before, after), ("off", after, before)):
            found = refusals(get(first), get(second))
            sys.stdout.write(f"{name:<60} {direction:<4} {'; '.join(found) or 'ok'}\n")


if __name__ == "__main__":
    main()
