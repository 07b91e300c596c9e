"""The evaluators of a training job: processing jobs in chains, or the fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lambdas.reconcile import sagemaker
from lambdas.reconcile.logic import missed_end
from lambdas.reconcile.settings import ReconcileSettings
from lambdas.reconcile.signs_of_life import signs_of_life
from lambdas.shared.clients import client
from lambdas.shared.processing_jobs import chain_of, evaluator_mark, name_of_later_job, processing_job_name
from trackside.contracts.deployment.evaluators import CONTINUED_PREFIX, FLEET, PER_RULE
from trackside.contracts.deployment.lease import LeaseRecord
from trackside.contracts.deployment.run_table import JobRecord
from trackside.contracts.event import TERMINAL_JOB_STATUSES
from trackside.contracts.run_layout import RunLocation

FLEETS_NAME = "the fleet"


@dataclass(frozen=True)
class Silence:
    """An evaluator without a sign of life, before it has done its work.

    - `what`: its name, and the time since the last sign
    - `ends`: missed events about ended processing jobs without a successor
    """

    what: str
    ends: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Link:
    """The latest processing job of a chain, as ListProcessingJobs has it."""

    name: str
    status: str
    exit_message: str

    @property
    def is_done(self) -> bool:
        """True once it has judged everything. Without a message, start_evaluation reads its note in the run."""
        has_message = bool(self.exit_message) and not self.exit_message.startswith(CONTINUED_PREFIX)
        return self.status == "Completed" and has_message


def who_judges(record: JobRecord, settings: ReconcileSettings) -> str:
    """Return the evaluator of the job that SageMaker or the fleet's table has; "" for none. Errors: `ClientError`."""
    if settings.evaluator_mode == FLEET:
        # What began before the mode was changed goes on as it began.
        if _lease(record, settings):
            return FLEETS_NAME
    elif settings.evaluator_mode == PER_RULE:
        return next((link.name for link in _links(record)), "")
    name = processing_job_name(record.job)
    names = filter(None, (name, name_of_later_job(name, record.job)))
    return next((each for each in names if sagemaker.is_processing_job_since(each, record.job.created_at)), "")


def silence_of(record: JobRecord, settings: ReconcileSettings, *, now: float) -> Silence | None:
    """Return the silence of the job's evaluator; None if it is alive or finished. Errors: `ClientError`."""
    signs = sorted(signs_of_life(RunLocation(record.run_uri)), reverse=True)
    long_ago = now - settings.silence_minutes * 60
    if signs and signs[-1] >= long_ago:
        return None
    if record.evaluator == FLEETS_NAME:
        return _silence_of_fleet(record, settings, signs, now=now)
    found = list(_links(record))
    links = [link for link in found if not link.is_done]
    if found and not links:
        return None
    alive = [link for link in links if link.status not in TERMINAL_JOB_STATUSES]
    dead = [link for link in links if link.status in TERMINAL_JOB_STATUSES]
    # As many recent signs as evaluators at work: it does not matter which evaluator gave which sign.
    speaking = sum(sign >= long_ago for sign in signs)
    if not dead and speaking >= len(alive) and links:
        return None
    named = (
        ", ".join(f"{link.name} is {link.status}" for link in (*dead, *alive)[:3]) or f"{record.evaluator} is no more"
    )
    ends = tuple(missed_end(sagemaker.describe_processing(link.name)) for link in dead)
    return Silence(f"{named}, and has given no sign of life {_since(signs, now)}", ends)


def _silence_of_fleet(
    record: JobRecord, settings: ReconcileSettings, signs: Sequence[float], *, now: float
) -> Silence | None:
    lease = _lease(record, settings)
    if lease is not None and not lease.is_open:
        return None  # it was judged; or it cannot be, which was reported
    reason = f"{lease.owner or 'no worker'} has it" if lease else "its lease is no more"
    return Silence(f"{reason}, and {FLEETS_NAME} has given no sign of life {_since(signs, now)}")


def _since(signs: Sequence[float], now: float) -> str:
    return f"for {(now - signs[-1]) / 60:.0f} minutes" if signs else "so far"


def _lease(record: JobRecord, settings: ReconcileSettings) -> LeaseRecord | None:
    key = {"pk": {"S": record.job.arn}}
    item = client("dynamodb").get_item(TableName=settings.lease_table, Key=key, ConsistentRead=True).get("Item")
    lease = LeaseRecord.from_item(item) if item else None
    return lease if lease and lease.job.is_same_as(record.job) else None


def _links(record: JobRecord) -> Iterator[Link]:
    """Return the latest link of each chain."""
    seen: set[str] = set()
    found = sagemaker.processing_jobs(evaluator_mark(record.job), since=record.job.created_at)
    for summary in found:  # newest first
        name = summary["ProcessingJobName"]
        if chain_of(name, record.job) not in seen:
            seen.add(chain_of(name, record.job))
            yield Link(name, summary["ProcessingJobStatus"], summary.get("ExitMessage", ""))
