"""The table of runs, as people read it; and a veto, the one thing that they write."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from trackside.contracts.errors import (
    AccessDeniedError,
    ConfigurationError,
    LocationNotFoundError,
    Problem,
    RunNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from trackside.contracts.run_table import (
    HISTORY_PREFIX,
    JOB,
    RULE_PREFIX,
    RUNNING,
    SHELVES,
    HistoryRecord,
    JobRecord,
    RuleRecord,
    shelf_of_day,
)
from trackside.contracts.stop_record import DECISION_PREFIX, VETO, DecisionRecord, VetoRecord
from trackside.contracts.table_item import Item
from trackside.environment import CloudEnvironment

STORAGE_STACK = "TracksideStorage"
OUTPUT = "RunTableName"
SECONDS_A_DAY = 24 * 3600
VETO_DAYS = 90  # far longer than any job, and any cool-down, lasts
_DENIED = ("AccessDenied", "AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException")


@dataclass(frozen=True)
class KnownJob:
    """All that the table knows of a job. `job` is None if only its rules were heard of. Decisions and history are in
    the order of time."""

    arn: str
    job: JobRecord | None
    rules: tuple[RuleRecord, ...]
    decisions: tuple[DecisionRecord, ...]
    veto: VetoRecord | None
    history: tuple[HistoryRecord, ...] = ()


class RunTable:
    """The table of that name ("": the one of the deployment in this account and region).

    `client(service)` makes boto3's clients. Errors of all methods: `AccessDeniedError`, `LocationNotFoundError`,
    `StorageUnavailableError`, `StorageError`.
    """

    def __init__(
        self, name: str = "", *, client: Callable[[str], Any] | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._client, self._clock = cache(client or connect), clock
        self.name = name or CloudEnvironment.read().run_table or self._deployed()

    def jobs(self, *, days: int) -> Iterator[JobRecord]:
        """Jobs that run, however long they do, then those that ended and were created in the last `days` days, newest
        first."""
        now = self._clock()
        for shelf in (RUNNING, *(shelf_of_day(now - day * SECONDS_A_DAY) for day in range(days))):
            condition = {"IndexName": SHELVES, "ScanIndexForward": False}
            for item in self._query("shelf = :shelf", {":shelf": {"S": shelf}}, **condition):
                yield JobRecord.from_item(item)

    def rules(self, arn: str) -> tuple[RuleRecord, ...]:
        """The latest of each rule."""
        return tuple(RuleRecord.from_item(item) for item in self._items(arn, RULE_PREFIX))

    def known(self, job: str, *, with_history: bool = False) -> KnownJob:
        """All about the job of that name or ARN. Errors: also `RunNotFoundError`, if nothing is known of it."""
        arn = self.arn_of(job)
        items = dict(self._by_key(arn, with_history=with_history))
        if not items:
            raise RunNotFoundError(
                f"The table {self.name} knows no training job {job!r}. It knows those that are tagged `trackside:run`, "
                "and those that SageMaker Debugger's rules judge"
            )

        def below(prefix: str) -> list[Item]:
            return [item for key, item in items.items() if key.startswith(prefix)]

        decisions = [DecisionRecord.from_item(item) for item in below(DECISION_PREFIX)]
        state = items.get(JOB)
        return KnownJob(
            arn=arn,
            job=JobRecord.from_item(state) if state and "status" in state else None,
            rules=tuple(RuleRecord.from_item(item) for item in below(RULE_PREFIX)),
            decisions=tuple(sorted(decisions, key=lambda decision: decision.at)),
            veto=VetoRecord.from_item(items[VETO]) if VETO in items else None,
            history=tuple(HistoryRecord.from_item(item) for item in below(HISTORY_PREFIX)),
        )

    def veto(self, job: str, *, by: str, reason: str) -> VetoRecord:
        """Lets the job of that name or ARN go on, whatever was found until now."""
        now = self._clock()
        veto = VetoRecord(self.arn_of(job), now, by=by, reason=reason)
        item = veto.to_item(expires_at=int(now) + VETO_DAYS * SECONDS_A_DAY)
        self._ask("dynamodb", "put_item", TableName=self.name, Item=item)
        return veto

    def arn_of(self, job: str) -> str:
        """The ARN of the training job of that name in this account and region."""
        if job.startswith("arn:"):
            return job
        identity = self._ask("sts", "get_caller_identity")
        partition = identity["Arn"].split(":")[1]
        region = self._client("dynamodb").meta.region_name
        return f"arn:{partition}:sagemaker:{region}:{identity['Account']}:training-job/{job}"

    def _items(self, arn: str, prefix: str) -> Iterator[Item]:
        values = {":pk": {"S": arn}, ":prefix": {"S": prefix}}
        return self._query("pk = :pk AND begins_with(sk, :prefix)", values, ConsistentRead=True)

    def _by_key(self, arn: str, *, with_history: bool) -> Iterator[tuple[str, Item]]:
        before, after = {":h": {"S": HISTORY_PREFIX}}, {":h": {"S": f"{HISTORY_PREFIX}~"}}  # "~" comes after all digits
        ranges = [(" AND sk < :h", before), (" AND sk > :h", after)] if not with_history else [("", {})]
        for condition, limit in ranges:
            for item in self._query(f"pk = :pk{condition}", {":pk": {"S": arn}, **limit}, ConsistentRead=True):
                yield str(item["sk"]["S"]), item

    def _query(self, condition: str, values: dict[str, Any], **more: Any) -> Iterator[Item]:
        request = {"KeyConditionExpression": condition, "ExpressionAttributeValues": values, **more}
        start: dict[str, Any] = {}
        while True:
            page = self._ask("dynamodb", "query", TableName=self.name, **request, **start)
            yield from page["Items"]
            if not page.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _deployed(self) -> str:
        stacks = self._ask("cloudformation", "describe_stacks", StackName=STORAGE_STACK)["Stacks"]
        for output in stacks[0].get("Outputs", ()):
            if output["OutputKey"] == OUTPUT:
                return str(output["OutputValue"])
        raise LocationNotFoundError(
            f"The stack {STORAGE_STACK} has no output {OUTPUT}. Deploy this version of Trackside"
        )

    def _ask(self, service: str, operation: str, **request: Any) -> Any:
        return ask(self._client(service), f"{service}:{operation}", operation, **request)


def ask(client: Any, what: str, operation: str, **request: Any) -> Any:
    """One call of a boto3 client, with its errors as ours; `what` names it in them. Errors: as those of `RunTable`."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return getattr(client, operation)(**request)
    except ClientError as error:
        raise _translated(error.response.get("Error", {}), what) from error
    except BotoCoreError as error:
        raise StorageUnavailableError(f"AWS cannot be reached. {error}") from error


def _translated(error: dict[str, Any], what: str) -> StorageError:
    code, message = str(error.get("Code", "")), str(error.get("Message", ""))
    if code in _DENIED:
        return AccessDeniedError(f"AWS refused {what}. {message}")
    if code == "ResourceNotFoundException" or (code == "ValidationError" and "does not exist" in message):
        what_helps = "Deploy Trackside, set AWS_REGION to where it is deployed, or name the table (--table)"
        return LocationNotFoundError(f"There is no table of runs here. AWS says: {message} {what_helps}")
    return StorageUnavailableError(f"AWS did not answer {what}. {code}: {message}")


def connect(service: str) -> Any:
    """A boto3 client by the process's own configuration. Errors: `ConfigurationError` without boto3."""
    try:
        import boto3.session
        from botocore.config import Config
    except ModuleNotFoundError as error:
        problem = Problem("the table of runs", "needs boto3, which is not installed.", "pip install 'trackside[aws]'")
        raise ConfigurationError([problem], subject="This installation") from error
    config = Config(retries={"mode": "standard", "total_max_attempts": 5}, connect_timeout=5, read_timeout=30)
    return boto3.session.Session().client(service, config=config)
