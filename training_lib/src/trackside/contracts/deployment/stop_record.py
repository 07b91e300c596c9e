"""Decisions about stopping a training job, with their evidence, and a person's veto."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from trackside.contracts.deployment.run_table import EVALUATION, item_key
from trackside.contracts.deployment.table_item import TableRecord, write_item
from trackside.contracts.event import RuleEvaluation
from trackside.contracts.stored_fields import (
    FINITE,
    INTEGER,
    TEXT,
    choice,
    document_of,
    flat_record,
    stored,
)

DECISION_PREFIX = "decision#"
VETO = "veto"


class StopOutcome(str, Enum):
    """The progress of a finding towards a stop. The value is the word in the table."""

    UNCONFIRMED = "Unconfirmed"
    ANNOUNCED = "Announced"
    OVER_BUDGET = "OverBudget"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    WOULD_STOP = "WouldStop"
    VETOED = "Vetoed"
    COOLING_DOWN = "CoolingDown"
    RECOVERED = "Recovered"
    ALREADY_ENDED = "AlreadyEnded"
    REFUSED = "Refused"
    RESUMED = "Resumed"
    NOT_RESUMED = "NotResumed"

    @property
    def is_final(self) -> bool:
        """True if the same finding leads to no further decision."""
        return self not in _ON_THE_WAY


_ON_THE_WAY = (StopOutcome.UNCONFIRMED, StopOutcome.ANNOUNCED, StopOutcome.OVER_BUDGET, StopOutcome.STOPPING)


@dataclass(frozen=True)
class Savings:
    """The most that a stop can save: without it, the job might have ended before its time limit.

    remaining_seconds  time to the job's limit
    instances          number and type of its instances, for people
    price_per_hour     the deployment's price of one instance; 0: not known
    most_money         the price of the remaining time
    """

    remaining_seconds: int = field(default=0, metadata=stored(INTEGER))
    instances: str = field(default="", metadata=stored(TEXT))
    price_per_hour: float = field(default=0.0, metadata=stored(FINITE))
    most_money: float = field(default=0.0, metadata=stored(FINITE, name="most_money_saved"))


@dataclass(frozen=True)
class DecisionRecord(TableRecord):
    """One decision about one finding.

    evaluation  the status with the finding
    outcome     the decision
    at          seconds since the epoch
    reason      a sentence for people
    event_id    the event that led to it
    savings     the most that a stop can save
    successor   name of the job that goes on in its place; "": none
    """

    item_name = "The item of a decision"

    evaluation: RuleEvaluation = field(metadata=stored(EVALUATION))
    outcome: StopOutcome = field(metadata=stored(choice(StopOutcome)))
    at: float = field(metadata=stored(FINITE))
    reason: str = field(metadata=stored(TEXT, absent=""))
    event_id: str = field(default="", metadata=stored(TEXT))
    savings: Savings = field(default=Savings(), metadata=stored(flat_record(Savings)))
    successor: str = field(default="", metadata=stored(TEXT, optional=True))

    @property
    def key(self) -> str:
        """The sort key: the same for every delivery of one decision. Each request to SageMaker is a record of its own,
        for any of them may have stopped the job."""
        created_at = self.evaluation.job.created_at
        of_job = f"{created_at}#" if created_at else ""
        of_request = f"#{1000 * self.at:.0f}" if self.outcome is StopOutcome.STOPPING else ""
        return f"{DECISION_PREFIX}{of_job}{self.evaluation.finding_id}#{self.outcome.value}{of_request}"

    def to_item(self, *, expires_at: int | None) -> dict[str, dict[str, Any]]:
        """Return the item; `expires_at` in seconds since the epoch, None: never."""
        return write_item({**item_key(self.evaluation.job.arn, self.key, expires_at), **document_of(self)})


@dataclass(frozen=True)
class VetoRecord(TableRecord):
    """A person's order to let a job go on.

    It holds for all findings from before `at`, and for the deployment's cool-down after it.

    job_arn  the training job
    at       seconds since the epoch
    by       the person
    reason   a sentence
    """

    item_name = "The item of a veto"

    job_arn: str = field(metadata=stored(TEXT, name="pk"))
    at: float = field(metadata=stored(FINITE))
    by: str = field(default="", metadata=stored(TEXT))
    reason: str = field(default="", metadata=stored(TEXT))

    def to_item(self, *, expires_at: int | None) -> dict[str, dict[str, Any]]:
        """Return the item; `expires_at` in seconds since the epoch, None: never."""
        return write_item({**item_key(self.job_arn, VETO, expires_at), **document_of(self)})
