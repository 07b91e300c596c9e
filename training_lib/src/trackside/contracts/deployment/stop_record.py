"""What was decided about stopping a training job, with the evidence; and a person's veto against it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from trackside.contracts.deployment.run_table import evaluation_attributes, item_key, read_evaluation
from trackside.contracts.deployment.table_item import Item, read_item, write_item
from trackside.contracts.event import RuleEvaluation

DECISION_PREFIX = "decision#"
VETO = "veto"


class StopOutcome(str, Enum):
    """How far a finding has come on the way to a stop. The value is the word in the table."""

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

    @property
    def is_final(self) -> bool:
        """True if nothing more follows from the same finding."""
        return self not in _ON_THE_WAY


_ON_THE_WAY = (StopOutcome.UNCONFIRMED, StopOutcome.ANNOUNCED, StopOutcome.OVER_BUDGET, StopOutcome.STOPPING)


@dataclass(frozen=True)
class Savings:
    """What a stop spares at most: the job might have ended by itself before its time limit. `price_per_hour` is what
    the deployment says one instance costs; 0: it does not say."""

    remaining_seconds: int = 0
    instances: str = ""
    price_per_hour: float = 0.0
    most_money: float = 0.0


@dataclass(frozen=True)
class DecisionRecord:
    """One decision about one finding. `at` is in seconds since the epoch, `reason` a sentence for people."""

    evaluation: RuleEvaluation
    outcome: StopOutcome
    at: float
    reason: str
    event_id: str = ""
    savings: Savings = Savings()

    @property
    def key(self) -> str:
        """The same for the same decision, however often its event comes."""
        return f"{DECISION_PREFIX}{self.evaluation.finding_id}#{self.outcome.value}"

    def to_item(self, *, expires_at: int | None) -> dict[str, dict[str, Any]]:
        """The item; `expires_at` in seconds since the epoch, None: never."""
        saved = self.savings
        return write_item(
            {
                **item_key(self.evaluation.job.arn, self.key, expires_at),
                **evaluation_attributes(self.evaluation),
                "outcome": self.outcome.value,
                "at": self.at,
                "reason": self.reason,
                "event_id": self.event_id,
                "remaining_seconds": saved.remaining_seconds,
                "instances": saved.instances,
                "price_per_hour": saved.price_per_hour,
                "most_money_saved": saved.most_money,
            }
        )

    @classmethod
    def from_item(cls, item: Item) -> DecisionRecord:
        """Errors: `ConfigurationError`."""
        fields = read_item(item)
        record = cls(
            evaluation=read_evaluation(fields),
            outcome=fields.choice("outcome", StopOutcome),
            at=fields.number("at"),
            reason=fields.text("reason", ""),
            event_id=fields.text("event_id", ""),
            savings=Savings(
                remaining_seconds=fields.integer("remaining_seconds", 0),
                instances=fields.text("instances", ""),
                price_per_hour=fields.number("price_per_hour", 0),
                most_money=fields.number("most_money_saved", 0),
            ),
        )
        fields.finish(subject="The item of a decision")
        return record


@dataclass(frozen=True)
class VetoRecord:
    """Somebody wants this job to go on. It holds for all that was found before `at`, and for the deployment's cool-down
    after it."""

    job_arn: str
    at: float
    by: str = ""
    reason: str = ""

    def to_item(self, *, expires_at: int | None) -> dict[str, dict[str, Any]]:
        """The item; `expires_at` in seconds since the epoch, None: never."""
        key = item_key(self.job_arn, VETO, expires_at)
        return write_item({**key, "at": self.at, "by": self.by, "reason": self.reason})

    @classmethod
    def from_item(cls, item: Item) -> VetoRecord:
        """Errors: `ConfigurationError`."""
        fields = read_item(item)
        record = cls(
            job_arn=fields.text("pk"),
            at=fields.number("at"),
            by=fields.text("by", ""),
            reason=fields.text("reason", ""),
        )
        fields.finish(subject="The item of a veto")
        return record
