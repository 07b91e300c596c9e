"""One sweep: checks every doubt, and sends the missed events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from functools import partial
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from lambdas.reconcile import sagemaker
from lambdas.reconcile.evaluators import silence_of, who_judges
from lambdas.reconcile.logic import Listed, doubts, missed_event
from lambdas.reconcile.settings import ReconcileSettings
from lambdas.shared.clients import client
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.each import each_of
from lambdas.shared.observability import metrics
from lambdas.shared.run_table import SECONDS_A_DAY, RunTable
from lambdas.shared.runs import account_of, is_in
from trackside.contracts.deployment.reaction_metrics import SILENT_EVALUATORS, SWEEPS, WATCHED_JOBS
from trackside.contracts.deployment.run_table import JobRecord
from trackside.contracts.event import TERMINAL_JOB_STATUSES
from trackside.contracts.job_choice import RUN_TAG


class Sweep:
    """One sweep. Everything sent may be sent twice: each receiver acts once."""

    def __init__(self, table: RunTable, settings: ReconcileSettings, *, account: str) -> None:
        self._table, self._settings, self._account = table, settings, account

    def run(self, *, now: float) -> Iterator[Done | Nothing]:
        """Yield the findings and actions, one by one.

        Errors: `ClientError` and others; the first error about one job, once all were checked. The next sweep begins
        anew.
        """
        # Jobs of a spoke are not in this account's list: only their events are known.
        held = [record for record in self._table.running() if account_of(record.job.arn) == self._account]
        listed, is_whole = sagemaker.running_jobs(self._settings, now=now)
        known = {record.job.identity for record in held}
        unwatched = self._table.unwatched([job.job for job in listed if not {job.job.identity, job.arn} & known])
        found = doubts(held, listed, is_whole=is_whole, unwatched=unwatched, settings=self._settings, now=now)
        failed: list[Exception] = []
        looks = (
            # The few that nothing watches come first: a sweep may die, and a short job is seen by one or two.
            *(partial(self._look_who_it_is, job, now) for job in found.unknown),
            *(partial(self._look_whether_ended, record, now) for record in found.may_have_ended),
            *(partial(self._look_whether_judged, record) for record in found.unjudged),
            *(partial(self._look_at_statuses, record) for record in found.judged_by_debugger),
        )
        yield from each_of(looks, lambda look: [look()], failed)
        silences = list(each_of(found.judged_by_us, partial(self._look_for_signs, now=now), failed))
        yield from silences
        for left in found.left:
            yield Nothing(f"left for later: {left}.", surprising=True)
        yield Nothing(f"{len(listed)} jobs run; the table holds {len(held)} of those that are watched.")
        _count(SWEEPS, 1)
        _count(WATCHED_JOBS, len(held))
        _count(SILENT_EVALUATORS, len(silences))
        if failed:
            raise failed[0]

    def _look_whether_ended(self, record: JobRecord, now: float) -> Done | Nothing:
        name = record.job.name
        description = sagemaker.describe(name)
        is_another = description is not None and not _is_of(record, description)
        if description is None or is_another:
            if not is_another and record.created_at > now - SECONDS_A_DAY:
                return Nothing(f"{name} runs, as the table has it, but is not found.", surprising=True)
            # Only an ended job can be deleted; its last status is not known any more.
            description = {
                "TrainingJobName": name,
                "TrainingJobArn": record.job.arn,
                "TrainingJobStatus": "Stopped",
                "CreationTime": datetime.fromtimestamp(record.created_at, tz=timezone.utc),
            }
        status = description["TrainingJobStatus"]
        if status == record.status:
            return Nothing(f"{name} is {status}, as the table has it.")
        event = missed_event(description, tags={RUN_TAG: record.run_uri} if record.run_uri else {})
        if record.run_uri and status in TERMINAL_JOB_STATUSES:
            self._send(event, self._settings.start_queue_url)
        # Last, for once it is recorded no sweep asks about the job again: a death in between must not lose its end.
        self._send(event, self._settings.record_queue_url)
        return Done(f"{name} is {status}, and no event had reported it.")

    def _look_who_it_is(self, job: Listed, now: float) -> Done | Nothing:
        tags = sagemaker.tags_of(job.arn)
        run_uri = tags.get(RUN_TAG, "")
        if not (is_in(self._settings.run_bucket, run_uri) if run_uri else self._settings.sends_untagged):
            self._table.mark_unwatched(job.job)
            return Nothing(f"{job.name} is not tagged for this deployment of Trackside.")
        description = sagemaker.describe(job.name)
        if description is None or description["TrainingJobStatus"] != "InProgress":
            return Nothing(f"{job.name} ended meanwhile.")
        event = missed_event(description, tags=tags)
        self._send(event, self._settings.start_queue_url)
        if RUN_TAG not in tags:  # start_evaluation decides, and tags it: then the next sweep knows it
            if job.created_at < now - self._settings.untagged_seconds:
                self._table.mark_unwatched(job.job)
            return Done(f"{job.name} runs without a tag: its start is sent; start_evaluation decides about it.")
        self._send(event, self._settings.record_queue_url)
        return Done(f"{job.name} runs, and no event had reported it.")

    def _look_whether_judged(self, record: JobRecord) -> Done | Nothing:
        name = who_judges(record, self._settings)
        if name:
            self._table.mark_judged(record, by=name)
            return Nothing(f"{record.job.name} is judged by {name}.")
        description = sagemaker.describe(record.job.name)
        if description is None or description["TrainingJobStatus"] != "InProgress":
            return Nothing(f"{record.job.name} ended meanwhile.")
        tags = {RUN_TAG: record.run_uri, **sagemaker.tags_of(record.job.arn)}
        self._send(missed_event(description, tags=tags), self._settings.start_queue_url)
        return Done(f"Nothing judges {record.job.name}: its start is sent again.")

    def _look_at_statuses(self, record: JobRecord) -> Done | Nothing:
        description = sagemaker.describe(record.job.name)
        if description is None or not description.get("DebugRuleEvaluationStatuses"):
            return Nothing(f"SageMaker has no statuses of rules for {record.job.name}.")
        self._send(missed_event(description, tags={}), self._settings.record_queue_url)
        return Nothing(f"The statuses of {record.job.name} are sent as SageMaker has them; known ones are ignored.")

    def _look_for_signs(self, record: JobRecord, now: float) -> Iterator[Nothing]:
        """Yield a line about an evaluator that neither gives signs of life nor has done its work.

        If it has ended without an event, the event is sent now.
        """
        if not is_in(self._settings.run_bucket, record.run_uri):
            return
        silence = silence_of(record, self._settings, now=now)
        if silence is None:
            return
        for end in silence.ends:
            self._send(end, self._settings.start_queue_url)
        yield Nothing(f"{record.job.name} may not be watched: {silence.what}.", surprising=True)

    def _send(self, event: Mapping[str, Any], queue_url: str) -> None:
        client("sqs").send_message(QueueUrl=queue_url, MessageBody=json.dumps(event))


def _is_of(record: JobRecord, description: Mapping[str, Any]) -> bool:
    """Return False if the description is of a later job with the name of the recorded one."""
    return not record.job.created_at or int(description["CreationTime"].timestamp()) <= record.job.created_at


def _count(name: str, value: int) -> None:
    metrics.add_metric(name=name, unit=MetricUnit.Count, value=value)
