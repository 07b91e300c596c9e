"""The table of leases, as a worker uses it: every write holds only for whoever still has the lease."""

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
_CONDITION_FAILED = "ConditionalCheckFailedException"
_NAMES = {"#owner": "owner", "#token": "token", "#state": "state"}  # words that DynamoDB keeps for itself
_logger = logging.getLogger(__name__)
_STILL_OURS = "shelf = :open AND #owner = :owner AND #token = :token"


@dataclass(frozen=True)
class LeaseTerms:
    """`seconds`: how long a lease holds without renewal. Its owner leaves off `margin_seconds` before its end, which
    must cover a slow request and the difference between two machines' clocks."""

    seconds: float = 60.0
    margin_seconds: float = 15.0

    @property
    def renew_seconds(self) -> float:
        """How often an owner renews: one attempt may fail."""
        return self.seconds / 3


class Leases:
    """The leases of one worker. `client`: boto3's, of DynamoDB. `retention_days`: how long what was judged is kept."""

    def __init__(self, client: Any, table: str, *, owner: str, terms: LeaseTerms, retention_days: int = 30) -> None:
        self._client, self._table, self._owner, self.terms = client, table, owner, terms
        self._retention_seconds = retention_days * 24 * 3600
        self._complaints: set[str] = set()

    def free(self, *, now: float, most: int) -> list[LeaseRecord]:
        """Runs that nobody judges, whoever waited longest first. What changed within the last second may be missing."""
        answer = self._client.query(
            TableName=self._table,
            IndexName=OPEN_INDEX,
            KeyConditionExpression="shelf = :open AND free_at <= :now",
            ExpressionAttributeValues=write_item({":open": OPEN_SHELF, ":now": now}),
            Limit=most,
        )
        return [lease for item in answer["Items"] if (lease := self._read(item))]

    def look_up(self, arn: str) -> LeaseRecord | None:
        """The lease of a training job, whoever has it."""
        item = self._client.get_item(TableName=self._table, Key=_key(arn), ConsistentRead=True).get("Item")
        return self._read(item) if item else None

    def take(self, seen: LeaseRecord, *, now: float) -> LeaseRecord | None:
        """The run is ours until the record's `free_at`; None if somebody was quicker, or it need not be judged."""
        return self._update(
            seen,
            "SET #owner = :owner, #token = :next, crashes = :crashes, free_at = :until",
            condition="shelf = :open AND #token = :token AND free_at <= :now",
            owner=self._owner,
            next=seen.token + 1,
            # Whoever had it neither finished nor gave it back.
            crashes=seen.crashes + bool(seen.owner),
            until=now + self.terms.seconds,
            now=now,
        )

    def renew(self, lease: LeaseRecord, *, now: float, ran_well: bool = False) -> LeaseRecord | None:
        """Ours for as long again; None if it is no longer ours. `ran_well`: earlier crashes count no more."""
        return self._update(
            lease,
            "SET free_at = :until" + (", crashes = :none" if ran_well else ""),
            condition=_STILL_OURS,
            owner=self._owner,
            until=now + self.terms.seconds,
            **({"none": 0} if ran_well else {}),
        )

    def give_back(self, lease: LeaseRecord, *, free_at: float, crashed: bool = False) -> bool:
        """Others may take it from `free_at` on. False if it was no longer ours."""
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
        """The run was judged to its end, or never can be. False if it was no longer ours to say so."""
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
            expires_at=int(now) + self._retention_seconds,
        )
        return finished is not None

    def news(self, leases: Sequence[LeaseRecord]) -> dict[str, float]:
        """Location of a run -> when it was last written to, as S3 tells. What is not answered now is asked again."""
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
        """None for an item of another version, or one that is damaged: it must not hinder the others."""
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
