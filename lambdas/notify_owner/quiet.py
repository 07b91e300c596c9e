"""Quiet time of a rule that flickers: one message at once, then one for all findings within the quiet time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from trackside.contracts.event import RuleEvaluation
from trackside.contracts.fields import parse_json, to_json

MOST_TRIES = 5  # while other deliveries change the same item; then the message waits in its queue
MOST_KEPT = 200  # findings that one item remembers
REMEMBER_SECONDS = 14 * 24 * 3600  # as long as `once` remembers actions


@dataclass(frozen=True)
class Quiet:
    """The state of one rule of one job.

    - `by`: finding of the last message
    - `until`: end of the quiet time, in seconds since the epoch
    - `waiting`: findings within that time, without a message yet
    - `covered`: findings that went along with the message of another
    """

    by: str = ""
    until: float = 0.0
    waiting: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()
    revision: int = 0


@dataclass(frozen=True)
class SendNow:
    """The decision to send a message now, with the `others` that waited."""

    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class WasCovered:
    """The decision that the message of `by` has covered the finding."""

    by: str


class NotYet(Exception):
    """The rule is in its quiet time: decide again in `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"The rule is quiet for another {seconds:.0f} s.")


def weigh(finding: str, known: Quiet, *, quiet_seconds: float, now: float) -> tuple[SendNow | WasCovered | None, Quiet]:
    """Return the decision about the finding (None: wait), and the state after it."""
    if finding in known.covered:
        return WasCovered(known.by), known
    if finding == known.by:  # an earlier attempt of its own
        return SendNow(known.covered), known
    if now < known.until:
        waiting = tuple(dict.fromkeys([*known.waiting, finding]))[:MOST_KEPT]
        return None, replace(known, waiting=waiting)
    others = tuple(one for one in known.waiting if one != finding)
    return SendNow(others), Quiet(finding, now + quiet_seconds, (), others, known.revision)


def claim(evaluation: RuleEvaluation, *, table: str, quiet_seconds: float, now: float) -> SendNow | WasCovered:
    """Return the decision about the finding, and store the state of its rule.

    Errors: `NotYet`; `TimeoutError` if others kept changing the state; `ClientError`.
    """
    key = {"id": {"S": f"quiet#{evaluation.job.identity}#{evaluation.configuration_name}"}}
    for _ in range(MOST_TRIES):
        item = client("dynamodb").get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
        known = _read(item)
        answer, after = weigh(evaluation.finding_id, known, quiet_seconds=quiet_seconds, now=now)
        if after == known or _put(table, key, after, known):
            if answer is None:
                raise NotYet(known.until - now)
            return answer
    raise TimeoutError(f"The quiet time of {evaluation.configuration_name} of {evaluation.job.name} kept changing.")


def _read(item: Mapping[str, Any] | None) -> Quiet:
    if item is None:
        return Quiet()
    known = parse_json(item["data"]["S"], subject="The item of a quiet rule")
    waiting, covered = tuple(known["waiting"]), tuple(known["told"])
    return Quiet(known["by"], known["until"], waiting, covered, revision=int(item["revision"]["N"]))


def _put(table: str, key: Mapping[str, Any], after: Quiet, before: Quiet) -> bool:
    data = {"by": after.by, "until": after.until, "waiting": list(after.waiting), "told": list(after.covered)}
    item = {
        **key,
        "data": {"S": to_json(data)},
        "revision": {"N": str(before.revision + 1)},
        "expiration": {"N": str(int(after.until) + REMEMBER_SECONDS)},
    }
    same = {"ConditionExpression": "attribute_not_exists(id)"}
    if before.revision:
        same = {"ConditionExpression": "revision = :revision"}
    values = {"ExpressionAttributeValues": {":revision": {"N": str(before.revision)}}} if before.revision else {}
    try:
        client("dynamodb").put_item(TableName=table, Item=item, **same, **values)
    except ClientError as error:
        if code_of(error) != "ConditionalCheckFailedException":
            raise
        return False
    return True
