from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside_localaccount.target_input import render

EVENT: dict[str, Any] = {
    "id": "1",
    "source": "me",
    "time": "2026-11-21T00:00:00Z",
    "detail": {"name": 'say "hi"', "step": 3, "list": [{"a": 1}], "odd name": "x"},
}


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        pytest.param({}, json.dumps(EVENT), id="all of it"),
        pytest.param({"Input": '{"constant": 1}'}, '{"constant": 1}', id="a constant"),
        pytest.param({"InputPath": "$.detail.list"}, '[{"a": 1}]', id="a part"),
        pytest.param({"InputPath": "$.detail.list[0].a"}, "1", id="inside a list"),
        pytest.param({"InputPath": "$.detail['odd name']"}, '"x"', id="a quoted name"),
        pytest.param({"InputPath": "$.nothing"}, "null", id="a part that is not there"),
    ],
)
def test_what_the_target_receives(target: dict[str, Any], sent: str) -> None:
    assert render(target, EVENT) == sent


@pytest.mark.parametrize(
    ("template", "sent"),
    [
        pytest.param('{"n": <name>, "s": <step>}', '{"n": "say \\"hi\\"", "s": 3}', id="JSON values"),
        pytest.param('{"t": "<name> at <step>"}', '{"t": "say \\"hi\\" at 3"}', id="inside text"),
        pytest.param('"<name>!"', '"say \\"hi\\"!"', id="one text"),
        pytest.param('{"l": <list>}', '{"l": [{"a": 1}]}', id="a list"),
        pytest.param('{"x": "<none>"}', '{"x": ""}', id="a path that leads nowhere"),
        pytest.param('{"r": "<aws.events.rule-name>"}', '{"r": "rule"}', id="a reserved name"),
        pytest.param("<step> is a step", "3 is a step", id="no JSON at all"),
    ],
)
def test_transformer(template: str, sent: str) -> None:
    paths = {"name": "$.detail.name", "step": "$.detail.step", "list": "$.detail.list", "none": "$.detail.none"}
    target = {"InputTransformer": {"InputTemplate": template, "InputPathsMap": paths}}

    assert render(target, EVENT, rule_name="rule", rule_arn="arn") == sent


def test_the_whole_event_in_a_template() -> None:
    target = {"InputTransformer": {"InputTemplate": '{"all": <aws.events.event.json>}'}}

    assert json.loads(render(target, EVENT)) == {"all": EVENT}


@given(name=st.text(max_size=20))
def test_any_text_in_a_json_template_stays_json(name: str) -> None:
    template = {"InputTemplate": '{"quoted": "is <name>", "bare": <name>}', "InputPathsMap": {"name": "$.name"}}

    assert json.loads(render({"InputTransformer": template}, {"name": name})) == {"quoted": f"is {name}", "bare": name}
