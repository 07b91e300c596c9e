"""The record of rescues in a run: each return to an earlier moment of the training, its cause and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from trackside.contracts.stored_fields import BOOLEAN, COUNT, TEXT, TEXTS, StoredDocument, choice, records, stored

# Rules whose issues a return can cure: the numbers of one moment broke, and not what the program does at each step.
CURABLE_RULES = frozenset(
    {"exploding-gradient", "exploding-tensor", "loss-spike", "runaway-updates", "tensor-variance"}
)


class Issue(NamedTuple):
    """A critical issue that stands: its rule, and the first step of it."""

    rule: str
    since_step: int


class Standing(NamedTuple):
    """The critical issues that stand, without those of undone steps."""

    issues: tuple[Issue, ...]

    def contradicts(self, step: int) -> bool:
        """Return True if broken numbers were found at a step, or before it."""
        return any(one.rule in CURABLE_RULES and one.since_step <= step for one in self.issues)

    def curable_since(self, step: int) -> Issue | None:
        """Return an issue of broken numbers that began at a step, or later; None for none."""
        return next((one for one in self.issues if one.rule in CURABLE_RULES and one.since_step >= step), None)

    def incurable_before(self, step: int) -> str:
        """Return a clause about an issue before a step that going back does not cure; "" for none."""
        for rule, since in self.issues:
            if rule not in CURABLE_RULES and since < step:
                return f"{rule} stands since step {since}, which an earlier moment does not cure"
        return ""


class RescueState(str, Enum):
    """The state of the rescues of a run."""

    TRYING = "trying"
    RESCUED = "rescued"
    LOST = "lost"
    REFUSED = "refused"
    OFF = "off"


class TryOutcome(str, Enum):
    """The outcome of one return."""

    OPEN = "open"
    RESCUED = "rescued"
    FAILED = "failed"
    UNDONE = "undone"


@dataclass(frozen=True)
class RescueTry:
    """One return of a training to an earlier moment."""

    at_step: int = field(metadata=stored(COUNT, "Training steps that had ended when the fault was met."))
    back_to_step: int = field(metadata=stored(COUNT, "Training steps that had ended at the moment gone back to."))
    cause: str = field(metadata=stored(TEXT, "Kind of the fault."))
    evidence: str = field(default="", metadata=stored(TEXT, "Numbers that show the fault, a clause."))
    left_out: bool = field(
        default=False,
        metadata=stored(BOOLEAN, "True if the batches since then are left out; false if random states went back, too."),
    )
    softened: str = field(default="", metadata=stored(TEXT, "Change of rate or clipping for the next steps, a clause."))
    outcome: TryOutcome = field(default=TryOutcome.OPEN, metadata=stored(choice(TryOutcome), "Outcome."))
    checkpoint: str = field(
        default="", metadata=stored(TEXT, "The checkpoint that the script was started again from.", optional=True)
    )
    set_aside: tuple[str, ...] = field(
        default=(), metadata=stored(TEXTS, "Places of later checkpoints, which were moved.", optional=True)
    )

    ended_at_step: int = field(
        default=0, metadata=stored(COUNT, "Training steps that had ended when its process was ended.", optional=True)
    )

    @property
    def undone_steps(self) -> int:
        """Number of training steps that this return undid."""
        return max(0, self._last_step - self.back_to_step)

    def undid(self, step: int) -> bool:
        """Return True if this return has undone a step, or the step began right after it.

        Args:
            step: Number of a training step, from 0 on.
        """
        return self.back_to_step <= step <= self._last_step

    @property
    def _last_step(self) -> int:
        return max(self.at_step, self.ended_at_step)


@dataclass(frozen=True)
class RescueRecord(StoredDocument):
    """All rescues of one training process."""

    document_name = "The record of rescues"

    state: RescueState = field(metadata=stored(choice(RescueState), "State after the newest of them."))
    reason: str = field(default="", metadata=stored(TEXT, "Why no return was made, or no other, a clause."))
    tries: tuple[RescueTry, ...] = field(default=(), metadata=stored(records(RescueTry), "Returns, first to last."))

    @property
    def is_rescued(self) -> bool:
        """True if a return was confirmed, and no fault stands since."""
        return self.state is RescueState.RESCUED

    @property
    def is_about_to_start(self) -> bool:
        """True while the process before a start from a checkpoint is ended."""
        newest = self.tries[-1:] if self.state is RescueState.TRYING else ()
        return any(one.checkpoint and not one.ended_at_step for one in newest)

    def sentence(self) -> str:
        """Return one sentence for people about what was done, without a full stop."""
        undone = sum(one.undone_steps for one in self.tries)
        times = {0: "", 1: "once"}.get(len(self.tries), f"{len(self.tries)} times")
        undone_steps = f"{undone} step{'' if undone == 1 else 's'}"
        if self.state is RescueState.RESCUED:
            return f"Rescued: went back {times}, {undone_steps} undone ({self._causes()})"
        if self.state is RescueState.TRYING:
            newest = self.tries[-1]
            how = f"; {newest.softened}" if newest.softened else ""
            place = f" ({newest.checkpoint}), started again" if newest.checkpoint else ""
            aside = f"; set aside: {', '.join(newest.set_aside)}" if newest.set_aside else ""
            steps = f"from step {newest.at_step} to step {newest.back_to_step}"
            return f"Went back {steps}{place}: {newest.evidence}{how}{aside}"
        if self.state is RescueState.LOST:
            return f"Not rescued: went back {times}, and {self.reason}"
        return f"No rescue: {self.reason}"

    def covers(self, step: int) -> bool:
        """Return True if a return that is open or was confirmed has undone this step, or began right after it.

        Args:
            step: Number of a training step, from 0 on.
        """
        kept = (TryOutcome.OPEN, TryOutcome.RESCUED)
        return self.state in (RescueState.TRYING, RescueState.RESCUED) and any(
            one.outcome in kept and one.undid(step) for one in self.tries
        )

    def _causes(self) -> str:
        return ", ".join(dict.fromkeys(one.cause for one in self.tries))
