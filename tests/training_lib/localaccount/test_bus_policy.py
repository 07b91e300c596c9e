"""A bus of another account takes events of those only whom its policy names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from trackside_localaccount.rights.accesses import Access

OWN, SPOKE = "123456789012", "210987654321"
BUS = f"arn:aws:events:us-east-1:{OWN}:event-bus/default"


def statement(principal: Any, effect: str = "Allow") -> dict[str, Any]:
    return {"Sid": effect, "Effect": effect, "Principal": principal, "Action": "events:PutEvents", "Resource": BUS}


@pytest.mark.parametrize(
    ("statements", "account", "lets_in"),
    [
        pytest.param([], OWN, True, id="its own account"),
        pytest.param([statement({"AWS": f"arn:aws:iam::{SPOKE}:root"})], SPOKE, True, id="one that is named"),
        pytest.param([statement({"AWS": SPOKE})], SPOKE, True, id="by its number"),
        pytest.param(
            [statement({"AWS": ["arn:aws:iam::999999999999:root", f"arn:aws:iam::{SPOKE}:root"]})],
            SPOKE,
            True,
            id="of two",
        ),
        pytest.param([], SPOKE, False, id="no policy"),
        pytest.param([statement({"AWS": "arn:aws:iam::999999999999:root"})], SPOKE, False, id="another is named"),
        pytest.param([statement({"AWS": f"arn:aws:iam::{SPOKE}0:root"})], SPOKE, False, id="one that begins alike"),
        pytest.param([statement({"AWS": SPOKE}), statement("*", "Deny")], SPOKE, False, id="it is refused"),
    ],
)
def test_lets_in(
    account_with: Callable[..., Any], statements: list[dict[str, Any]], account: str, lets_in: bool
) -> None:
    bench = account_with()
    if statements:
        policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
        bench.account.client("events").put_permission(EventBusName="default", Policy=policy)
    refusal = bench.account.rights.account_refusal(account, Access("events:PutEvents", BUS))
    assert (refusal == "") is lets_in, refusal
