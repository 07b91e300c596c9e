"""A rule that flickers: told at once, then once for all that came meanwhile, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambdas.notify_owner.handler import handle
from lambdas.notify_owner.quiet import Quiet, SendNow, WasCovered, weigh
from lambdas.notify_owner.settings import NotifyOwnerSettings
from tests.lambda_settings import made

HOUR = 3600.0


@pytest.mark.parametrize(
    ("known", "finding", "now", "answer"),
    [
        pytest.param(Quiet(), "a@1", 0, SendNow(), id="the first"),
        pytest.param(Quiet("a@1", HOUR), "a@2", 10, None, id="the next within the hour"),
        pytest.param(Quiet("a@1", HOUR), "a@1", 10, SendNow(), id="the first again, after a death"),
        pytest.param(Quiet("a@1", HOUR), "a@2", HOUR, SendNow(), id="after the hour"),
        pytest.param(Quiet("a@1", HOUR, ("a@2", "a@3")), "a@2", HOUR, SendNow(("a@3",)), id="with those that waited"),
        pytest.param(Quiet("a@2", 2 * HOUR, (), ("a@3",)), "a@3", HOUR, WasCovered("a@2"), id="one that went along"),
    ],
)
def test_who_is_told(known: Quiet, finding: str, now: float, answer: object) -> None:
    assert weigh(finding, known, quiet_seconds=HOUR, now=now)[0] == answer


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 10 * HOUR)), min_size=1, max_size=60))
def test_every_finding_is_told_or_goes_along_exactly_once(arrivals: Sequence[tuple[int, float]]) -> None:
    """Each waits in its queue until it was told: by itself, or by the message of another."""
    known, covered = Quiet(), list[str]()
    waiting = sorted({f"a@{step}": at for step, at in arrivals}.items(), key=lambda one: one[1])
    while waiting:
        (finding, at), *waiting = waiting
        answer, known = weigh(finding, known, quiet_seconds=HOUR, now=at)
        if isinstance(answer, SendNow):
            covered += [finding, *answer.others]
        elif answer is None:
            waiting = sorted([*waiting, (finding, max(known.until, at))], key=lambda one: one[1])
        else:
            assert finding in covered
    assert sorted(covered) == sorted({f"a@{step}" for step, _ in arrivals})


def test_a_flickering_rule_sends_two_messages_for_four_findings(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sqs = boto3.client("sqs")
    own = sqs.create_queue(QueueName="notify")["QueueUrl"]
    settings = made(
        NotifyOwnerSettings, topic_arn=account.topic, idempotency_table="done", queue_url=own, quiet_minutes=60
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    now = [1_795_226_674.0]
    monkeypatch.setattr("lambdas.notify_owner.handler.time.time", lambda: now[0])

    def found(step: int) -> Any:
        event = golden("ours_issues_found")
        event["detail"]["Evidence"]["SinceStep"] = step
        return event

    assert deliver(handle, found(1), found(1), found(2), found(3), found(4)) == []
    assert deliver(handle, found(3)) == []
    (first,) = account.messages()
    assert json.loads(first["Message"])["also_found"] == []
    url = f"https://queue.amazonaws.com/123456789012/{own.rpartition('/')[2]}"
    delayed = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessagesDelayed"])
    assert int(delayed["Attributes"]["ApproximateNumberOfMessagesDelayed"]) == 4

    now[0] += 3600
    assert deliver(handle, found(3), found(2), found(4), found(3)) == []
    (second,) = account.messages()
    message = json.loads(second["Message"])
    assert message["id"].endswith("#vanishing-gradient@3")
    assert sorted(message["also_found"]) == ["vanishing-gradient@2", "vanishing-gradient@4"]
    assert "came back 2 more times" in message["message"]


def test_a_rule_may_ask_for_each_message_at_once(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = made(
        NotifyOwnerSettings, topic_arn=account.topic, idempotency_table="done", queue_url="none", quiet_minutes=60
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    for step in (1, 2):
        event = golden("ours_issues_found", ActionTerms={"Notify": {"quiet_minutes": 0}})
        event["detail"]["Evidence"]["SinceStep"] = step
        assert deliver(handle, event) == []
    assert len(account.messages()) == 2
