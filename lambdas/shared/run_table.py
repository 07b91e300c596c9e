"""The table of runs, as functions read and write it: no later state is ever replaced by an earlier one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.observability import logger
from lambdas.shared.plain import plain
from trackside.contracts.deployment.run_table import (
    FORESEEN_STATUSES,
    HISTORY_PREFIX,
    JOB,
    RUNNING,
    SHELVES,
    HistoryRecord,
    JobRecord,
    RuleRecord,
    rule_key,
)
from trackside.contracts.deployment.table_item import Item
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.event import TrainingJob

SECONDS_A_DAY = 24 * 3600
REFUSED = "ConditionalCheckFailed"
CONDITION_FAILED = "ConditionalCheckFailedException"
BUDGET = "budget"  # the partition that counts the stops of each hour
BUDGET_DAYS = 7
UNWATCHED = "unwatched"  # the sort key of the mark that a job asked for nothing
STOPPER = "stopper"  # the sort key of the finding that stopped a job
SWITCH = "switch"  # the partition, and the sort key, of the last state of the switch that forbids stops
MOST_KEYS = 100  # API_BatchGetItem
OF_ONE_LIFE = ("evaluator", "continues")  # attributes that are left out of later states, and not of a later job


class RunTable:
    """The table of runs. An item is kept `retention_days` after its last change; 0: forever."""

    def __init__(self, name: str, *, retention_days: int, clock: Callable[[], float] = time.time) -> None:
        self.name = name
        self._retention_days = retention_days
        self._clock = clock

    @property
    def expires_at(self) -> int | None:
        """Time at which an item written now may be deleted, in seconds since the epoch; None: never."""
        return int(self._clock()) + self._retention_days * SECONDS_A_DAY if self._retention_days else None

    def job(self, arn: str) -> JobRecord | None:
        """Return the record of the job; None without one."""
        item = self._get(arn, JOB)
        # What was first heard of a job may be a mark that is no state of it.
        return JobRecord.from_item(item) if item and "status" in item else None

    def rule(self, arn: str, configuration_name: str) -> RuleRecord | None:
        """Return the latest record of this rule for the job; None without one."""
        item = self._get(arn, rule_key(configuration_name))
        return RuleRecord.from_item(item) if item else None

    def about(self, arn: str) -> tuple[Item, ...]:
        """Return all items of the job, without the history of its rules."""
        return (
            *self._query(arn, "sk < :history", history=HISTORY_PREFIX),
            *self._query(arn, "sk > :history", history=f"{HISTORY_PREFIX}~"),
        )

    def put_once(self, item: Item) -> bool:
        """Write the item. Return False if an item of that key exists."""
        return self._put_if("attribute_not_exists(pk)", item)

    def put(self, item: Item) -> None:
        """Write the item, in place of one of that key."""
        client("dynamodb").put_item(TableName=self.name, Item=item)

    def claim_stop(self, job: TrainingJob, *, finding: str) -> bool:
        """Return True for the first finding that claims the job's stop, on every call: a job is stopped once."""
        key = f"{STOPPER}#{job.created_at}" if job.created_at else STOPPER
        item: dict[str, Any] = {"pk": {"S": job.arn}, "sk": {"S": key}, "finding": {"S": finding}}
        if self.expires_at is not None:
            item["expires_at"] = {"N": str(self.expires_at)}
        ours = {":finding": item["finding"]}
        return self._put_if("attribute_not_exists(pk) OR finding = :finding", item, ExpressionAttributeValues=ours)

    def take_turn(self, job: TrainingJob, *, hour: str, most: int) -> bool:
        """Count the job among at most `most` of that hour. Return False if they are full. A job counts once."""
        try:
            client("dynamodb").update_item(
                TableName=self.name,
                Key={"pk": {"S": BUDGET}, "sk": {"S": hour}},
                UpdateExpression="ADD jobs :job SET expires_at = :expires_at",
                ConditionExpression="attribute_not_exists(jobs) OR contains(jobs, :arn) OR size(jobs) < :most",
                ExpressionAttributeValues={
                    ":job": {"SS": [job.identity]},
                    ":arn": {"S": job.identity},
                    ":most": {"N": str(most)},
                    ":expires_at": {"N": str(int(self._clock()) + BUDGET_DAYS * SECONDS_A_DAY)},
                },
            )
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:
                raise
            return False
        return True

    def is_first_to_report(self, *, hour: str) -> bool:
        """Return True for one caller in an hour with a spent budget (see `take_turn`).

        A thousand jobs that must wait are thus one message, not a thousand.
        """
        try:
            client("dynamodb").update_item(
                TableName=self.name,
                Key={"pk": {"S": BUDGET}, "sk": {"S": hour}},
                UpdateExpression="SET told = :told",
                ConditionExpression="attribute_not_exists(told)",
                ExpressionAttributeValues={":told": {"BOOL": True}},
            )
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:
                raise
            return False
        return True

    def forbade_stops(self) -> bool:
        """Return True if the switch forbade stops when it was last noted."""
        items = self._query(SWITCH, "sk >= :history", history=SWITCH)
        return any(bool(item["forbids"]["BOOL"]) for item in items)

    def note_switch(self, *, forbids: bool) -> None:
        """Note the state of the switch that forbids stops, for as long as the table is kept."""
        self.put({"pk": {"S": SWITCH}, "sk": {"S": SWITCH}, "forbids": {"BOOL": forbids}})

    def running(self) -> list[JobRecord]:
        """Return every job that has not ended, as far as is recorded; a change of the last second may be missing.

        An item that cannot be read is left out and logged.
        """
        found: list[JobRecord] = []
        pages = client("dynamodb").get_paginator("query")
        for page in pages.paginate(
            TableName=self.name,
            IndexName=SHELVES,
            KeyConditionExpression="shelf = :running",
            ExpressionAttributeValues={":running": {"S": RUNNING}},
        ):
            for item in page["Items"]:
                try:
                    found.append(JobRecord.from_item(item))
                except ConfigurationError:
                    logger.exception("An item of the table of runs cannot be read: %s", plain(str(item.get("pk"))))
        return found

    def unwatched(self, jobs: Sequence[TrainingJob]) -> set[str]:
        """Return the identities of the jobs that are known to have requested nothing."""
        found: set[str] = set()
        for first in range(0, len(jobs), MOST_KEYS):
            keys = [_unwatched_key(job) for job in jobs[first : first + MOST_KEYS]]
            wanted = {self.name: {"Keys": keys}}
            while wanted:
                answer = client("dynamodb").batch_get_item(RequestItems=wanted)
                found.update(_identity_of_key(item) for item in answer["Responses"].get(self.name, ()))
                wanted = answer.get("UnprocessedKeys") or {}
        return found

    def mark_unwatched(self, job: TrainingJob) -> None:
        """Note that the job requested nothing, so that its tags are not read again today."""
        expires_at = int(self._clock()) + SECONDS_A_DAY
        item = {**_unwatched_key(job), "expires_at": {"N": str(expires_at)}}
        client("dynamodb").put_item(TableName=self.name, Item=item)

    def mark_judged(self, record: JobRecord, *, by: str) -> None:
        """Note the evaluator of the job, so that its processing job is not looked up again."""
        try:
            client("dynamodb").update_item(
                TableName=self.name,
                Key={"pk": {"S": record.job.arn}, "sk": {"S": JOB}},
                UpdateExpression="SET evaluator = :by",
                ConditionExpression="created_at = :created_at",
                ExpressionAttributeValues={":by": {"S": by}, ":created_at": {"N": repr(record.created_at)}},
            )
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:  # the item is a later job's by now, or has expired
                raise

    def put_job(self, record: JobRecord) -> bool:
        """Write the record. Return False if the same or a later state of the job, or a later job, is recorded."""
        item = record.to_item(expires_at=self.expires_at)
        later, foreseen = "#order < :order", {}
        if record.has_ended:
            # A former release recorded an unforeseen state of an ended job as later than its end.
            foreseen = {f":status{number}": {"S": status} for number, status in enumerate(FORESEEN_STATUSES)}
            later = f"({later} OR NOT #status IN ({', '.join(foreseen)}))"
        condition = f"attribute_not_exists(#order) OR (#created_at = :created_at AND {later})"
        if self._update_job(item, condition, more=foreseen):
            return True
        # Of a later job of that name.
        return self._update_job(item, "#created_at < :created_at", without=OF_ONE_LIFE)

    def _update_job(
        self, item: Item, condition: str, *, more: Mapping[str, Any] | None = None, without: Sequence[str] = ()
    ) -> bool:
        values = {name: value for name, value in item.items() if name not in ("pk", "sk")}
        change = "SET " + ", ".join(f"#{name} = :{name}" for name in values)
        if gone := [name for name in without if name not in values]:
            change += f" REMOVE {', '.join(gone)}"
        try:
            client("dynamodb").update_item(
                TableName=self.name,
                Key={"pk": item["pk"], "sk": item["sk"]},
                UpdateExpression=change,
                ConditionExpression=condition,
                ExpressionAttributeNames={f"#{name}": name for name in values},
                ExpressionAttributeValues={**{f":{name}": value for name, value in values.items()}, **(more or {})},
            )
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:
                raise
            return False
        return True

    def put_evaluation(self, history: HistoryRecord, rule: RuleRecord, *, known: RuleRecord | None) -> str:
        """Write both items or neither.

        Returns "" if they are written, `REFUSED` if the history holds the item, else the reason to read and try again.

        Errors: `ClientError` for anything that a second attempt cannot change.
        """
        expires_at = self.expires_at
        unchanged: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(pk)"}
        if known is not None:
            revision = {":revision": {"N": str(known.revision)}}
            unchanged = {"ConditionExpression": "revision = :revision", "ExpressionAttributeValues": revision}
        puts: list[Mapping[str, Any]] = [
            {"Item": history.to_item(expires_at=expires_at), "ConditionExpression": "attribute_not_exists(pk)"},
            {"Item": rule.to_item(expires_at=expires_at), **unchanged},
        ]
        try:
            client("dynamodb").transact_write_items(
                TransactItems=[{"Put": {"TableName": self.name, **put}} for put in puts]
            )
        except ClientError as error:
            if code_of(error) != "TransactionCanceledException":
                raise
            codes = [reason.get("Code") or "None" for reason in error.response.get("CancellationReasons", ())]
            if REFUSED in codes[:1]:
                return REFUSED
            if not set(codes) & {REFUSED, "TransactionConflict"}:
                raise  # throttled, or too large: the queue tries again, and keeps it
            return ", ".join(codes)
        return ""

    def _put_if(self, condition: str, item: Item, **values: Any) -> bool:
        try:
            client("dynamodb").put_item(TableName=self.name, Item=item, ConditionExpression=condition, **values)
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:
                raise
            return False
        return True

    def _query(self, arn: str, condition: str, *, history: str) -> Iterator[Item]:
        pages = client("dynamodb").get_paginator("query")
        for page in pages.paginate(
            TableName=self.name,
            KeyConditionExpression=f"pk = :pk AND {condition}",
            ExpressionAttributeValues={":pk": {"S": arn}, ":history": {"S": history}},
            ConsistentRead=True,
        ):
            yield from page["Items"]

    def _get(self, arn: str, sort_key: str) -> Mapping[str, Any] | None:
        item: Mapping[str, Any] | None = (
            client("dynamodb")
            .get_item(TableName=self.name, Key={"pk": {"S": arn}, "sk": {"S": sort_key}}, ConsistentRead=True)
            .get("Item")
        )
        return item


def _unwatched_key(job: TrainingJob) -> Item:
    return {"pk": {"S": job.arn}, "sk": {"S": f"{UNWATCHED}#{job.created_at}"}}


def _identity_of_key(item: Item) -> str:
    created_at = str(item["sk"]["S"]).rpartition("#")[2]
    return TrainingJob("", str(item["pk"]["S"]), int(created_at)).identity
