"""The input of a rule's target: all of it, a part (`InputPath`), a constant (`Input`), or a template.

https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_PLACEHOLDER = re.compile(r"<([A-Za-z0-9_.\-]+)>")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']+)'\]")
_ABSENT = object()


def render(target: Mapping[str, Any], event: Mapping[str, Any], *, rule_arn: str = "", rule_name: str = "") -> str:
    """The text that is sent to the target."""
    if "Input" in target:
        return str(target["Input"])
    if "InputPath" in target:
        found = look_up(event, target["InputPath"])
        return json.dumps(None if found is _ABSENT else found)
    transformer = target.get("InputTransformer")
    if transformer:
        known = _reserved(event, rule_arn=rule_arn, rule_name=rule_name)
        known |= {name: look_up(event, path) for name, path in transformer.get("InputPathsMap", {}).items()}
        return _fill_in(transformer["InputTemplate"], known)
    return json.dumps(event)


def look_up(event: Any, path: str) -> Any:
    """The value at a JSON path of names and numbers such as `$.detail.list[0].name`."""
    value = event
    for name, index, quoted in _STEP.findall(path.removeprefix("$")):
        if index and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        elif not index and isinstance(value, Mapping) and (name or quoted) in value:
            value = value[name or quoted]
        else:
            return _ABSENT
    return value


def _reserved(event: Mapping[str, Any], *, rule_arn: str, rule_name: str) -> dict[str, Any]:
    without_detail = {name: value for name, value in event.items() if name != "detail"}
    return {
        "aws.events.rule-arn": rule_arn,
        "aws.events.rule-name": rule_name,
        "aws.events.event.ingestion-time": event.get("time", ""),
        "aws.events.event": without_detail,
        "aws.events.event.json": event,
    }


def _fill_in(template: str, known: Mapping[str, Any]) -> str:
    """Inside a JSON string a value is text; outside it is JSON. A path that leads nowhere gives nothing."""
    is_json = template.lstrip().startswith("{")

    def value_of(match: re.Match[str]) -> str:
        value = known.get(match[1], _ABSENT)
        if value is _ABSENT:
            return ""
        is_quoted = template[: match.start()].replace('\\"', "").count('"') % 2 == 1
        if is_quoted or (isinstance(value, str) and not is_json):
            text = value if isinstance(value, str) else json.dumps(value)
            return json.dumps(text)[1:-1] if is_quoted else text
        return json.dumps(value)

    return _PLACEHOLDER.sub(value_of, template)
