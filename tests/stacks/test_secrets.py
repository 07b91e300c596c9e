"""No secret stands in a template, a variable or an output: whoever may describe a stack or a function reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

SECRET_VALUE = re.compile(
    r"AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|-----BEGIN|xox[baprs]-|gh[pousr]_\w{20}|hooks\.slack\.com/services/\w|"
    r"https?://[^/\s:@]+:[^/\s:@]+@"
)


@pytest.mark.parametrize(
    ("text", "is_secret"),
    [
        pytest.param("AKIA" + "A" * 16, True, id="an access key"),
        pytest.param("https://user:pass@example.com", True, id="a password in an address"),
        pytest.param("https://hooks.slack.com/services/T0/B0/x", True, id="Slack's address, which is one"),
        pytest.param("https://sqs.us-east-1.amazonaws.com/123456789012/q", False, id="a queue"),
        pytest.param("arn:aws:secretsmanager:us-east-1:123456789012:secret:x", False, id="where a secret lies"),
    ],
)
def test_knows_a_secret(text: str, is_secret: bool) -> None:
    assert bool(SECRET_VALUE.search(text)) is is_secret


def test_no_template_holds_a_secret(templates: Mapping[str, Mapping[str, Any]]) -> None:
    found = [
        (stack, name, text)
        for stack, bodies in templates.items()
        for name, body in bodies.items()
        for text in _texts(body)
        if SECRET_VALUE.search(text)
    ]
    assert found == []


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value
