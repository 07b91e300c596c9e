"""The switch that forbids stops: what is remembered of it over deployments."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from lambdas.shared.run_table import RunTable
from lambdas.shared.switch import forbids_stops

SWITCH = "/trackside/trackside/dry-run"


def deploy(value: str) -> None:
    """A deployment makes the parameter."""
    boto3.client("ssm").put_parameter(Name=SWITCH, Value=value, Type="String")


def turn(value: str) -> None:
    """A person, or a deployment with another setting, changes it."""
    boto3.client("ssm").put_parameter(Name=SWITCH, Value=value, Overwrite=True)


def destroy() -> None:
    boto3.client("ssm").delete_parameter(Name=SWITCH)


def looked() -> bool:
    return forbids_stops(SWITCH, RunTable("runs", retention_days=1))


@pytest.mark.parametrize(
    ("steps", "forbids"),
    [
        pytest.param([(deploy, "false")], False, id="nobody forbade anything"),
        pytest.param([(deploy, "true")], True, id="the setting forbids"),
        pytest.param([(deploy, "false"), (turn, "true")], True, id="a person forbids"),
        pytest.param([(deploy, "false"), (turn, "flase")], True, id="mistyped"),
        pytest.param([(deploy, "false"), (turn, "true"), (turn, "false")], False, id="a person allows again"),
        pytest.param([(deploy, "false"), (turn, "true"), (destroy,), (deploy, "false")], True, id="deployed anew"),
        pytest.param([(deploy, "true"), (destroy,), (deploy, "false")], True, id="deployed anew, as set at first"),
        pytest.param(
            [(deploy, "false"), (turn, "true"), (destroy,), (deploy, "false"), (turn, "false")],
            False,
            id="deployed anew, and a person allows",
        ),
        pytest.param(
            [(deploy, "false"), (turn, "true"), (turn, "false"), (destroy,), (deploy, "false")],
            False,
            id="allowed before it was deployed anew",
        ),
        pytest.param([(deploy, "true"), (turn, "false")], False, id="another setting"),
    ],
)
def test_it_stays_where_it_was_put(account: Any, steps: list[Any], *, forbids: bool) -> None:
    for step, *value in steps:
        step(*value)
        if step is not destroy:
            looked()

    assert looked() is forbids
    assert looked() is forbids, "a look changes nothing"
