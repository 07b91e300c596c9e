"""The table of runs for people: they read it, and write one thing, a veto."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

from trackside.cloud.calls import Calls
from trackside.cloud.deployment import outputs_of, stack_name
from trackside.contracts.deployment.run_table import (
    HISTORY_PREFIX,
    JOB,
    RULE_PREFIX,
    RUNNING,
    SHELVES,
    HistoryRecord,
    JobRecord,
    RuleRecord,
    is_about,
    shelf_of_day,
)
from trackside.contracts.deployment.stop_record import DECISION_PREFIX, VETO, DecisionRecord, StopOutcome, VetoRecord
from trackside.contracts.deployment.table_item import Item
from trackside.contracts.errors import LocationNotFoundError, RunNotFoundError
from trackside.contracts.event import TrainingJob, job_of_identity
from trackside.environment import CloudEnvironment

OUTPUT = "RunTableName"
SECONDS_A_DAY = 24 * 3600
VETO_DAYS = 90  # far longer than any job, and any cool-down, lasts
MOST_JOBS_IN_ROW = 20  # a deployment lets ten jobs follow one, at most


@dataclass(frozen=True)
class KnownJob:
    """The content of the table about one job.

    arn        the training job
    job        its state; None if the table has only statuses of rules
    rules      latest status of each rule
    decisions  decisions about stopping, in the order of time
    veto       the veto; None without one
    history    statuses of rules, in the order of time; () unless requested
    """

    arn: str
    job: JobRecord | None
    rules: tuple[RuleRecord, ...]
    decisions: tuple[DecisionRecord, ...]
    veto: VetoRecord | None
    history: tuple[HistoryRecord, ...] = ()

    @property
    def name(self) -> str:
        """The job's name."""
        return self.arn.rpartition("/")[2]

    @property
    def follow_up(self) -> DecisionRecord | None:
        """The decision about a job that goes on in its place, or about why none does; None without one."""
        outcomes = (StopOutcome.RESUMED, StopOutcome.NOT_RESUMED)
        return next((one for one in self.decisions if one.outcome in outcomes), None)

    @property
    def before(self) -> str:
        """The ARN of the job that it continues; "" for none."""
        return job_of_identity(self.job.job.continues).arn if self.job else ""

    @property
    def after(self) -> str:
        """The ARN of the job that goes on in its place; "" for none."""
        successor = self.follow_up.successor if self.follow_up else ""
        return f"{self.arn.rpartition('/')[0]}/{successor}" if successor else ""


class RunTable:
    """The table of runs of one deployment in this account and region.

    All methods raise `AccessDeniedError`, `LocationNotFoundError`, `StorageUnavailableError` and `StorageError`.

    name         name of the table; "": the deployment's
    environment  the deployment; "": the one without
    client       `client(service)` makes boto3's clients
    clock        returns seconds since the epoch
    """

    def __init__(
        self,
        name: str = "",
        *,
        environment: str = "",
        client: Callable[[str], Any] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._calls, self._clock = Calls(client), clock
        known = "" if environment else CloudEnvironment.read().run_table
        self.name = name or known or self._deployed(environment)

    def jobs(self, *, days: int) -> Iterator[JobRecord]:
        """Yield running jobs of any age, then ended ones that were created in the last `days` days, newest first."""
        now, seen = self._clock(), set[str]()
        for shelf in (RUNNING, *(shelf_of_day(now - day * SECONDS_A_DAY) for day in range(days))):
            condition = {"IndexName": SHELVES, "ScanIndexForward": False}
            for item in self._query("shelf = :shelf", {":shelf": {"S": shelf}}, **condition):
                record = JobRecord.from_item(item)
                if record.job.arn not in seen:  # it may have ended since the first shelf was read
                    seen.add(record.job.arn)
                    yield record

    def rules(self, arn: str, *, job: TrainingJob | None = None) -> tuple[RuleRecord, ...]:
        """Return the latest status of each rule.

        Args:
            arn: The training job.
            job: The same, as the table has it; None: it is read.
        """
        if job is None:
            states = (JobRecord.from_item(item).job for item in self._items(arn, JOB) if "status" in item)
            job = next(states, TrainingJob("", arn))
        return _rules_of(job, self._items(arn, RULE_PREFIX))

    def known(self, job: str, *, with_history: bool = False) -> KnownJob:
        """Return the content of the table about the job of that name or ARN.

        Raises:
            RunNotFoundError: The table has nothing about it.
        """
        arn = self.arn_of(job)
        items = dict(self._by_key(arn, with_history=with_history))
        if not items:
            raise RunNotFoundError(
                f"The table {self.name} knows no training job {job!r}. It knows those that are tagged `trackside:run`, "
                "and those that SageMaker Debugger's rules judge",
                advice="trackside aws status --days 30   (lists the jobs that it knows)",
            )

        def below(prefix: str) -> list[Item]:
            return [item for key, item in items.items() if key.startswith(prefix)]

        state = items.get(JOB)
        job_record = JobRecord.from_item(state) if state and "status" in state else None
        training_job = job_record.job if job_record else TrainingJob("", arn)
        decisions = [DecisionRecord.from_item(item) for item in below(DECISION_PREFIX)]
        decisions = [one for one in decisions if is_about(training_job, one.evaluation, at=one.at)]
        veto = VetoRecord.from_item(items[VETO]) if VETO in items else None
        return KnownJob(
            arn=arn,
            job=job_record,
            rules=_rules_of(training_job, below(RULE_PREFIX)),
            decisions=tuple(sorted(decisions, key=lambda decision: decision.at)),
            veto=veto if veto and veto.at >= training_job.created_at else None,
            history=tuple(HistoryRecord.from_item(item) for item in below(HISTORY_PREFIX)),
        )

    def row(self, known: KnownJob) -> tuple[KnownJob, ...]:
        """Return the jobs that are one run with this one, first to last: each continues the one before.

        A job that the table has forgotten, or does not have yet, ends the row.
        """
        found = [known]
        while len(found) < MOST_JOBS_IN_ROW and (job := self._known_or_none(found[0].before)):
            found.insert(0, job)
        while len(found) < MOST_JOBS_IN_ROW and (job := self._known_or_none(found[-1].after)):
            found.append(job)
        return tuple(found)

    def _known_or_none(self, arn: str) -> KnownJob | None:
        try:
            return self.known(arn) if arn else None
        except RunNotFoundError:
            return None

    def veto(self, job: str, *, by: str, reason: str) -> KnownJob:
        """Let the job of that name or ARN go on, whatever was found so far, by the clock of DynamoDB.

        Raises:
            RunNotFoundError: The table has nothing about it. A mistyped name must not look like a job that is safe.
        """
        known = self.known(job)
        now = self._time_of_server(known.arn)
        veto = VetoRecord(known.arn, now, by=by, reason=reason)
        item = veto.to_item(expires_at=int(now) + VETO_DAYS * SECONDS_A_DAY)
        self._call("put_item", Item=item)
        return replace(known, veto=veto)

    def arn_of(self, job: str) -> str:
        """Return the ARN of the training job of that name in this account and region; an ARN is returned unchanged."""
        if job.startswith("arn:"):
            return job
        identity = self._calls.call("sts", "get_caller_identity")
        partition = identity["Arn"].split(":")[1]
        region = self._calls.client("dynamodb").meta.region_name
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
            page = self._call("query", **request, **start)
            yield from page["Items"]
            if not page.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _time_of_server(self, arn: str) -> float:
        """Return the end of the present second, as DynamoDB has it; the clock of this machine without an answer."""
        values = {":pk": {"S": arn}}
        answer = self._call("query", KeyConditionExpression="pk = :pk", ExpressionAttributeValues=values, Limit=1)
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
        try:
            return parsedate_to_datetime(date).timestamp() + 1
        except (TypeError, ValueError):
            return self._clock()

    def _deployed(self, environment: str) -> str:
        outputs = outputs_of(self._calls, "Storage", environment)
        if OUTPUT not in outputs:
            raise LocationNotFoundError(
                f"The stack {stack_name('Storage', environment)} has no output {OUTPUT}",
                advice="deploy this version of Trackside",
            )
        return outputs[OUTPUT]

    def _call(self, operation: str, **request: Any) -> Any:
        try:
            return self._calls.call("dynamodb", operation, TableName=self.name, **request)
        except LocationNotFoundError as error:
            raise LocationNotFoundError(
                f"There is no table {self.name} in {self._calls.region}",
                advice="set AWS_REGION to where Trackside is deployed, or name another table (--table)",
            ) from error


def _rules_of(job: TrainingJob, items: Iterable[Item]) -> tuple[RuleRecord, ...]:
    """Return the records about this job; those of an earlier job of that name are its history."""
    rules = (RuleRecord.from_item(item) for item in items)
    return tuple(one for one in rules if is_about(job, one.evaluation, at=one.evaluation.modified_at))
