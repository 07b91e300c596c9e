"""A bus of another account takes events of those only whom its policy names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from trackside_localaccount.provision import create_role
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


@pytest.mark.parametrize("role", ["", f"arn:aws:iam::{SPOKE}:role/forwarder"], ids=["account", "role"])
def test_a_bus_of_another_account_takes_what_its_policy_names_and_no_more(
    account_with: Callable[..., Any], role: str
) -> None:
    bench = account_with()
    own, spoke = bench.account, bench.account.other(SPOKE)
    organization = own.client("organizations").create_organization(FeatureSet="ALL")["Organization"]["Id"]
    condition = {"events:source": "wanted", "events:detail-type": "test", "aws:PrincipalOrgID": organization}
    statement = {"Sid": "spoke", "Effect": "Allow", "Principal": {"AWS": spoke.account_id}, "Resource": BUS}
    statement |= {"Action": "events:PutEvents", "Condition": {"StringEquals": condition}}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    own.client("events").put_permission(EventBusName="default", Policy=policy)
    create_role(
        spoke,
        "forwarder",
        [{"Effect": "Allow", "Action": "events:PutEvents", "Resource": BUS}],
        services=["events"],
    )
    url, queue = bench.queue("hub")
    bench.rule("on-hub", {"detail-type": ["test"]}, {"Arn": queue})
    events = spoke.client("events")
    events.put_rule(Name="to-hub", EventPattern=json.dumps({"detail-type": ["test"]}))
    events.put_targets(Rule="to-hub", Targets=[{"Id": "1", "Arn": BUS, **({"RoleArn": role} if role else {})}])

    for source in ("unwanted", "wanted"):
        events.put_events(Entries=[{"Source": source, "DetailType": "test", "Detail": "{}"}])

    assert json.loads(bench.receive(url)[0]["Body"])["source"] == "wanted"
    own.hops.wait_for("event-failed", rule="to-hub", code="NO_PERMISSIONS")
    assert bench.attribute(url, "ApproximateNumberOfMessages") == 0
