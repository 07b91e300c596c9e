"""A worker's view of the table of leases. Every write succeeds only for the present owner of the lease."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from trackside.contracts.deployment.lease import OPEN_INDEX, OPEN_SHELF, LeaseRecord, LeaseState, NewsRecord, news_key
from trackside.contracts.deployment.table_item import Item, write_item
from trackside.contracts.errors import ConfigurationError

MOST_KEYS = 100  # API_BatchGetItem
MOST_REASON = 1000
RETENTION_SECONDS = 30 * 24 * 3600  # for which finished leases are kept
_CONDITION_FAILED = "ConditionalCheckFailedException"
_NAMES = {"#owner": "owner", "#token": "token", "#state": "state"}  # words that DynamoDB keeps for itself
_logger = logging.getLogger(__name__)
_STILL_OURS = "shelf = :open AND #owner = :owner AND #token = :token"


@dataclass(frozen=True)
class LeaseTerms:
    """The terms of a lease.

    seconds         time for which a lease holds without renewal
    margin_seconds  time before its end at which the owner stops judging: covers a slow request and the difference
                    between two machines' clocks
    """

    seconds: float = 60.0
    margin_seconds: float = 15.0

    @property
    def renew_seconds(self) -> float:
        """The time between renewals: one attempt may fail."""
        return self.seconds / 3


class Leases:
    """The leases of one worker.

    client          boto3's client of DynamoDB
    table           name of the table
    owner           name of the worker
    terms           terms of its leases
    """

    def __init__(self, client: Any, table: str, *, owner: str, terms: LeaseTerms) -> None:
        self._client, self._table, self._owner, self.terms = client, table, owner, terms
        self._complaints: set[str] = set()

    def free(self, *, now: float, most: int) -> list[LeaseRecord]:
        """Return runs without an owner, the longest waiting first. Changes of the last second may be missing.

        Args:
            now: Seconds since the epoch.
            most: Largest number of runs.
        """
        answer = self._client.query(
            TableName=self._table,
            IndexName=OPEN_INDEX,
            KeyConditionExpression="shelf = :open AND free_at <= :now",
            ExpressionAttributeValues=write_item({":open": OPEN_SHELF, ":now": now}),
            Limit=most,
        )
        return [lease for item in answer["Items"] if (lease := self._read(item))]

    def look_up(self, arn: str) -> LeaseRecord | None:
        """Return the lease of a training job, of any owner; None if it has none."""
        item = self._client.get_item(TableName=self._table, Key=_key(arn), ConsistentRead=True).get("Item")
        return self._read(item) if item else None

    def take(self, seen: LeaseRecord, *, now: float) -> LeaseRecord | None:
        """Take the lease until the returned record's `free_at`.

        Return None if another worker was quicker, or the run need not be judged.
        """
        return self._update(
            seen,
            "SET #owner = :owner, #token = :next, crashes = :crashes, free_at = :until",
            condition="shelf = :open AND #token = :token AND free_at <= :now",
            owner=self._owner,
            next=seen.token + 1,
            # A former owner neither finished the run nor gave it back.
            crashes=seen.crashes + bool(seen.owner),
            until=now + self.terms.seconds,
            now=now,
        )

    def renew(self, lease: LeaseRecord, *, now: float, ran_well: bool = False) -> LeaseRecord | None:
        """Renew the lease for its full time, or return None if it has another owner.

        Args:
            lease: The lease.
            now: Seconds since the epoch.
            ran_well: True: forget earlier crashes.
        """
        return self._update(
            lease,
            "SET free_at = :until" + (", crashes = :none" if ran_well else ""),
            condition=_STILL_OURS,
            owner=self._owner,
            until=now + self.terms.seconds,
            **({"none": 0} if ran_well else {}),
        )

    def give_back(self, lease: LeaseRecord, *, free_at: float, crashed: bool = False) -> bool:
        """Let other workers take the lease from `free_at` on. Return False if it had another owner."""
        given = self._update(
            lease,
            "SET #owner = :nobody, free_at = :free_at, crashes = :crashes",
            condition=_STILL_OURS,
            owner=self._owner,
            nobody="",
            free_at=free_at,
            crashes=lease.crashes + crashed,
        )
        return given is not None

    def finish(self, lease: LeaseRecord, state: LeaseState, *, reason: str, now: float) -> bool:
        """Close the lease: the run was judged to its end, or never can be. Return False if it had another owner."""
        finished = self._update(
            lease,
            "SET #owner = :nobody, #state = :state, reason = :reason, free_at = :now, expires_at = :expires_at "
            "REMOVE shelf",
            condition=_STILL_OURS,
            owner=self._owner,
            nobody="",
            state=state.value,
            reason=reason[:MOST_REASON],
            now=now,
            expires_at=int(now) + RETENTION_SECONDS,
        )
        return finished is not None

    def news(self, leases: Sequence[LeaseRecord]) -> dict[str, float]:
        """Return the location of each run -> the moment of its last write, as S3 reported it.

        Keys that DynamoDB leaves unanswered are read again next time.
        """
        found: dict[str, float] = {}
        for first in range(0, len(leases), MOST_KEYS):
            keys = [_key(news_key(lease.run_uri)) for lease in leases[first : first + MOST_KEYS]]
            answer = self._client.batch_get_item(RequestItems={self._table: {"Keys": keys}})
            for item in answer["Responses"].get(self._table, ()):
                with contextlib.suppress(ConfigurationError):  # without news it is looked at all the same
                    record = NewsRecord.from_item(item)
                    found[record.run_uri] = record.at
        return found

    def _read(self, item: Item) -> LeaseRecord | None:
        """Return the lease, or None for a damaged item or one of another version: the others are still judged."""
        try:
            return LeaseRecord.from_item(item)
        except ConfigurationError as error:
            if str(item.get("pk")) not in self._complaints:
                self._complaints.add(str(item.get("pk")))
                _logger.error("%s is not judged, for its lease cannot be read: %s", item.get("pk"), error)
            return None

    def _update(
        self, lease: LeaseRecord, change: str, *, condition: str, **values: str | int | float
    ) -> LeaseRecord | None:
        given = {"open": OPEN_SHELF, "token": lease.token, **values}
        text = f"{change} {condition}"
        try:
            answer = self._client.update_item(
                TableName=self._table,
                Key=_key(lease.job.arn),
                UpdateExpression=change,
                ConditionExpression=condition,
                ExpressionAttributeNames={name: word for name, word in _NAMES.items() if name in text},
                # DynamoDB refuses a value that no expression uses.
                ExpressionAttributeValues=write_item({f":{name}": value for name, value in given.items()}),
                ReturnValues="ALL_NEW",
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != _CONDITION_FAILED:
                raise
            return None
        return LeaseRecord.from_item(answer["Attributes"])


def _key(arn: str) -> dict[str, dict[str, str]]:
    return {"pk": {"S": arn}}
