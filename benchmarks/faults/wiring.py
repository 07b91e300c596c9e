"""The deployment as its synthesized templates wire it: which event reaches which function, with which settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What a deployment fills in, by the variable's name; any other reference becomes a text that names it.
FILLED_IN = {
    "TRACKSIDE_RUN_TABLE": "runs",
    "TRACKSIDE_IDEMPOTENCY_TABLE": "done",
    "TRACKSIDE_RUN_BUCKET": "runs-bucket",
    "TRACKSIDE_START_QUEUE_URL": "start_evaluation",
    "TRACKSIDE_RECORD_QUEUE_URL": "record_verdict",
}


@dataclass(frozen=True)
class Rule:
    """`bus` is "default" or "trackside"; `functions` are those behind the rule's queues; others keep what they get."""

    bus: str
    pattern: Mapping[str, Any]
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Function:
    """A reaction: its variables, and how often its queue hands out a message before it gives it up."""

    name: str
    variables: Mapping[str, str]
    attempts: int
    visibility_seconds: float


@dataclass(frozen=True)
class Wiring:
    """`every_seconds`: function -> how often a schedule sends it a message."""

    functions: Mapping[str, Function]
    rules: tuple[Rule, ...]
    every_seconds: Mapping[str, float]


def read_wiring(assembly: Path) -> Wiring:
    """Of a cloud assembly's templates."""
    functions: dict[str, Function] = {}
    rules: list[Rule] = []
    schedules: dict[str, float] = {}
    for file in sorted(assembly.glob("*.template.json")):
        resources = json.loads(file.read_text(encoding="utf-8"))["Resources"]
        behind = _functions_behind(resources)
        for queue, name in behind.items():
            functions[name] = _function(name, resources, queue)
        for body in _of(resources, "AWS::Events::Rule").values():
            queues = [_target(target["Arn"]) for target in body["Targets"]]
            reached = tuple(behind[queue] for queue in queues if queue in behind)
            if "ScheduleExpression" in body:
                minutes = float(body["ScheduleExpression"].removeprefix("rate(").split()[0])
                schedules |= dict.fromkeys(reached, minutes * 60)
            else:
                bus = "trackside" if "EventBusName" in body else "default"
                rules.append(Rule(bus, body["EventPattern"], reached))
    return Wiring(functions, tuple(rules), schedules)


def _of(resources: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {name: body["Properties"] for name, body in resources.items() if body["Type"] == kind}


def _functions_behind(resources: Mapping[str, Any]) -> dict[str, str]:
    """Queue -> name of the reaction, by logical id."""
    code = {name: body["Handler"].split(".")[1] for name, body in _of(resources, "AWS::Lambda::Function").items()}
    mappings = _of(resources, "AWS::Lambda::EventSourceMapping").values()
    return {_target(body["EventSourceArn"]): code[body["FunctionName"]["Ref"]] for body in mappings}


def _function(name: str, resources: Mapping[str, Any], queue: str) -> Function:
    (body,) = [
        body for body in _of(resources, "AWS::Lambda::Function").values() if body["Handler"].split(".")[1] == name
    ]
    variables = body["Environment"]["Variables"]
    filled = {key: value if isinstance(value, str) else _filled(key, name) for key, value in variables.items()}
    properties = resources[queue]["Properties"]
    return Function(
        name, filled, int(properties["RedrivePolicy"]["maxReceiveCount"]), float(properties["VisibilityTimeout"])
    )


def _filled(variable: str, function: str) -> str:
    return function if variable == "TRACKSIDE_QUEUE_URL" else FILLED_IN.get(variable, f"filled-in-{variable.lower()}")


def _target(arn: Any) -> str:
    return str(arn["Fn::GetAtt"][0]) if isinstance(arn, Mapping) and "Fn::GetAtt" in arn else ""
