"""The returns of a training to earlier moments: where to, what is changed for the next steps, what became of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from torch.optim.optimizer import Optimizer

from trackside.contracts.run.rescue import RescueState, RescueTry, TryOutcome
from trackside.environment import RescueEnvironment
from trackside.rescue.health import BY_RULE, RATE_JUMP, SPIKE, Fault, Health
from trackside.rescue.numbers import Numbers
from trackside.rescue.ring import Ring
from trackside.rescue.room import NoRoomError
from trackside.rescue.snapshot import Snapshot
from trackside.rescue.softening import Softening

CONFIRMED_LOOKS, CONFIRMED_STEPS = 10, 30  # after a return
SOFT_STEPS = 100


class Ending(NamedTuple):
    """The state in which no more returns are made, and its reason, a clause."""

    state: RescueState
    reason: str


class Plan(NamedTuple):
    """A return that is about to be made.

    fault          the first fault of the trial
    evidence       the numbers that show the newest fault, a clause
    back_to        training steps that had ended at the moment to go back to
    is_again       True if an earlier return for the same fault has failed
    most_rate      the largest rate from then on; 0 for no limit
    most_gradient  the largest norm of gradients for some steps; 0 for no limit
    """

    fault: Fault
    evidence: str
    back_to: int
    is_again: bool
    most_rate: float
    most_gradient: float

    @property
    def leaves_out(self) -> bool:
        """True if the batches since then are left out: random states do not go back."""
        return self.fault.is_of_batch or self.is_again


class Returns:
    """The returns of one training.

    Attributes:
        tries: All returns of this process, first to last.

    Args:
        ring: The earlier moments.
        health: Judges the numbers.
        settings: Numbers of tries.
        tries: Those of earlier trainings of this process, which count.
        changed: Called after each change of `tries`, with the state.
    """

    def __init__(
        self,
        ring: Ring,
        health: Health,
        *,
        settings: RescueEnvironment,
        tries: list[RescueTry],
        changed: Callable[[RescueState], object],
    ) -> None:
        self._ring, self._health, self._settings = ring, health, settings
        self._changed = changed
        self.tries = tries
        self._fault: Fault | None = None  # of the return that is on trial
        self._broken: Snapshot | None = None  # the moment before it
        self._losses: list[float] = []  # since it
        self._looks = 0  # since it
        self._softening: Softening | None = None

    @property
    def is_on_trial(self) -> bool:
        """True while it is not known whether the newest return has cured the fault."""
        return self._fault is not None

    def soften(self, softening: Softening | None) -> None:
        """Change the next steps."""
        self._softening = softening

    def step_begins(self, optimizer: Optimizer) -> None:
        """Change a step that an optimizer is about to make, if it is one of those after a return."""
        if self._softening is not None and not self._softening.before(optimizer):
            self._softening = None

    def step_ended(self) -> None:
        """Set the script's own rates again, right after a step of an optimizer. Never raises."""
        if self._softening is not None:
            self._softening.after()

    def end(self) -> None:
        """Let the optimizers be, and let go of all memory."""
        self.step_ended()
        self._softening = self._fault = self._broken = None

    def plan(self, fault: Fault) -> Plan | Ending:
        """Return where to go back to for a fault; the ending without a place to go back to, or a try left.

        Args:
            fault: A fault that an earlier moment may cure, or any during a trial.
        """
        is_again = self._fault is not None
        first = self._fault or fault
        good = [each for each in self._ring.good if each.steps <= first.since and each.is_usable()]
        if not is_again and not good:
            return Ending(RescueState.REFUSED, "there is no earlier moment that is known to be sound")
        places = [each for each in good if each.tries < self._settings.place_tries]
        if not places or len(self.tries) >= self._settings.tries:
            times = f"{len(self.tries)} of {self._settings.tries} tries"
            return Ending(RescueState.LOST, f"the fault came again each time ({times})")
        return Plan(
            first,
            fault.evidence,
            places[-1].steps,
            is_again,
            most_rate=self._health.rate if first.cause == RATE_JUMP else 0.0,
            most_gradient=self._health.gradient if is_again else 0.0,
        )

    def place_of(self, plan: Plan) -> Snapshot | None:
        """Return the moment that a plan leads to; None if it is not kept."""
        return next((each for each in self._ring.good if each.steps == plan.back_to and each.is_usable()), None)

    def go_back(self, plan: Plan, steps: int, *, keeps_broken: bool) -> None:
        """Go back. Without the plan's moment, do nothing.

        Args:
            plan: Of `plan`.
            steps: Number of training steps that have ended.
            keeps_broken: True to keep the present moment, to which an ending returns.
        """
        place, first = self.place_of(plan), plan.fault
        if place is None:
            return
        if plan.is_again:
            self._close(TryOutcome.FAILED)
        elif keeps_broken and first.cause in (SPIKE, RATE_JUMP, BY_RULE):
            self._keep_broken(steps)
        self._ring.drop_waiting()
        place.tries += 1
        place.put_back(with_random=not plan.leaves_out)
        self._losses, self._looks, self._fault = [], 0, first
        self._health.went_back()
        softened = self._soften(plan)
        went = RescueTry(steps, place.steps, first.cause, plan.evidence, plan.leaves_out, softened)
        self.tries.append(went)
        self._changed(RescueState.TRYING)

    def judge(self, numbers: Numbers, steps: int) -> bool | None:
        """Return True if the losses since the newest return are usual, False if not; None while they are too few.

        Args:
            numbers: Of a look without a fault.
            steps: Number of training steps that have ended.
        """
        self._looks += 1
        if numbers.loss is not None:
            self._losses.append(numbers.loss)
        if self._looks < CONFIRMED_LOOKS or steps - self.tries[-1].at_step < CONFIRMED_STEPS:
            return None
        return self._health.is_usual(self._losses)

    def again(self) -> Plan | Ending:
        """Return the plan after a return with unusual losses."""
        return self.plan(self._fault or Fault(SPIKE, 0, "the losses stay high"))

    def confirm(self) -> None:
        """Note that the newest return has cured the fault."""
        if self._fault is None:
            return
        self._close(TryOutcome.RESCUED)
        self._fault = None
        if self._broken is not None:
            self._ring.give(self._broken)
            self._broken = None
        self._health.confirmed()
        self._changed(RescueState.RESCUED)

    def give_up(self) -> None:
        """Note that the newest return has not cured the fault, and go to the moment before it where that is better."""
        if self._fault is None:
            return
        self._close(TryOutcome.FAILED)
        if self._broken is not None and self._broken.is_usable():
            self._broken.put_back(with_random=False)
            self._close(TryOutcome.UNDONE)

    def _keep_broken(self, steps: int) -> None:
        """Keep the present moment: its numbers are finite, and may be better than what the returns lead to."""
        self._broken = self._ring.spare()
        try:
            self._broken.take(self._ring.members, steps)
        except NoRoomError:
            self._broken = None

    def _soften(self, plan: Plan) -> str:
        """Change the next steps where needed. Return a clause about it; "" if nothing is changed."""
        self._softening = None
        if not plan.is_again and not plan.most_rate:
            return ""
        self._softening = Softening(
            factor=0.5 if plan.is_again else 1.0,
            most_rate=plan.most_rate,
            most_gradient=plan.most_gradient,
            steps=SOFT_STEPS,
        )
        half = f"half the rate and gradients of a norm of at most {plan.most_gradient:.3g}, for {SOFT_STEPS} steps"
        cap = f"a rate of at most {plan.most_rate:.3g} until the script's own is below"
        return "; ".join([text for text, is_so in ((half, plan.is_again), (cap, bool(plan.most_rate))) if is_so])

    def _close(self, outcome: TryOutcome) -> None:
        self.tries[-1] = replace(self.tries[-1], outcome=outcome)
