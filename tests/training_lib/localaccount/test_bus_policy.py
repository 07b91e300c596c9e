"""A bus of another account takes events of those only whom its policy names."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from trackside_localaccount.bus_policy import lets_in

OWN, SPOKE = "123456789012", "210987654321"


def bus(*principals: Any, effect: str = "Allow") -> Any:
    statements = [{"Sid": "s", "Effect": effect, "Principal": principal} for principal in principals]
    policy = json.dumps({"Statement": statements}) if statements else None
    return SimpleNamespace(arn=f"arn:aws:events:us-east-1:{OWN}:event-bus/default", policy=policy)


@pytest.mark.parametrize(
    ("the_bus", "account"),
    [
        pytest.param(bus(), OWN, id="its own account"),
        pytest.param(bus({"AWS": f"arn:aws:iam::{SPOKE}:root"}), SPOKE, id="one that is named"),
        pytest.param(
            bus({"AWS": ["arn:aws:iam::999999999999:root", f"arn:aws:iam::{SPOKE}:root"]}), SPOKE, id="of two"
        ),
        pytest.param(bus({"AWS": SPOKE}), SPOKE, id="by its number"),
    ],
)
def test_lets_in(the_bus: Any, account: str) -> None:
    assert lets_in(account, bus=the_bus)


@pytest.mark.parametrize(
    ("the_bus", "account"),
    [
        pytest.param(bus(), SPOKE, id="no policy"),
        pytest.param(bus({"AWS": "arn:aws:iam::999999999999:root"}), SPOKE, id="another is named"),
        pytest.param(bus({"AWS": f"arn:aws:iam::{SPOKE}0:root"}), SPOKE, id="one that begins alike"),
        pytest.param(bus({"AWS": f"arn:aws:iam::{SPOKE}:root"}, effect="Deny"), SPOKE, id="it is refused"),
    ],
)
def test_keeps_out(the_bus: Any, account: str) -> None:
    assert not lets_in(account, bus=the_bus)
