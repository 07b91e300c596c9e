"""The returns of a training to earlier moments: where to, what is changed for the next steps, what became of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from torch.optim.optimizer import Optimizer

from trackside.contracts.run.rescue import RescueState, RescueTry, TryOutcome
from trackside.environment import RescueEnvironment
from trackside.frameworks.pytorch.rescue.health import BY_RULE, RATE_JUMP, SPIKE, Fault, Health
from trackside.frameworks.pytorch.rescue.numbers import Numbers
from trackside.frameworks.pytorch.rescue.ring import Ring
from trackside.frameworks.pytorch.rescue.snapshot import NoRoomError, Snapshot
from trackside.frameworks.pytorch.rescue.softening import Softening

CONFIRMED_LOOKS, CONFIRMED_STEPS = 10, 30  # after a return
SOFT_STEPS = 100


class Ending(NamedTuple):
    """The state in which no more returns are made, and its reason, a clause."""

    state: RescueState
    reason: str


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

    def meet(self, fault: Fault, steps: int) -> Ending | None:
        """Go back for a fault. Return the ending without a place to go back to, or a try left.

        Args:
            fault: A fault that an earlier moment may cure, or any during a trial.
            steps: Number of training steps that have ended.
        """
        is_again = self._fault is not None
        first = self._fault or fault
        good = [each for each in self._ring.good if each.steps <= first.since and each.is_usable()]
        if is_again:
            self._close(TryOutcome.FAILED)
        elif not good:
            return Ending(RescueState.REFUSED, "there is no earlier moment that is known to be sound")
        places = [each for each in good if each.tries < self._settings.place_tries]
        if not places or len(self.tries) >= self._settings.tries:
            return self._give_up()
        if not is_again and first.cause in (SPIKE, RATE_JUMP, BY_RULE):
            self._keep_broken(steps)
        self._ring.drop_waiting()
        leaves_out = first.is_of_batch or is_again
        self._go_back(places[-1], with_random=not leaves_out)
        self._fault = first
        softened = self._soften(first, is_again=is_again)
        went = RescueTry(steps, places[-1].steps, first.cause, fault.evidence, leaves_out, softened)
        self.tries.append(went)
        self._changed(RescueState.TRYING)
        return None

    def observe(self, numbers: Numbers, steps: int) -> Ending | None:
        """Judge the losses since a return, once they are enough. Return the ending if the last try failed.

        Args:
            numbers: Of a look without a fault.
            steps: Number of training steps that have ended.
        """
        fault = self._fault
        if fault is None:
            return None
        self._looks += 1
        if numbers.loss is not None:
            self._losses.append(numbers.loss)
        if self._looks < CONFIRMED_LOOKS or steps - self.tries[-1].at_step < CONFIRMED_STEPS:
            return None
        if not self._health.is_usual(self._losses):
            return self.meet(fault, steps)
        self._close(TryOutcome.RESCUED)
        self._fault = None
        if self._broken is not None:
            self._ring.give(self._broken)
            self._broken = None
        self._health.confirmed()
        self._changed(RescueState.RESCUED)
        return None

    def _go_back(self, place: Snapshot, *, with_random: bool) -> None:
        place.tries += 1
        place.put_back(with_random=with_random)
        self._losses, self._looks = [], 0
        self._health.went_back()

    def _keep_broken(self, steps: int) -> None:
        """Keep the present moment: its numbers are finite, and may be better than what the returns lead to."""
        self._broken = self._ring.spare()
        try:
            self._broken.take(self._ring.members, steps)
        except NoRoomError:
            self._broken = None

    def _soften(self, fault: Fault, *, is_again: bool) -> str:
        """Change the next steps where needed. Return a clause about it; "" if nothing is changed."""
        self._softening = None
        most_rate = self._health.rate if fault.cause == RATE_JUMP else 0.0
        most_gradient = self._health.gradient if is_again else 0.0
        if not is_again and not most_rate:
            return ""
        self._softening = Softening(
            factor=0.5 if is_again else 1.0,
            most_rate=most_rate,
            most_gradient=most_gradient,
            steps=SOFT_STEPS,
        )
        half = f"half the rate and gradients of a norm of at most {most_gradient:.3g}, for {SOFT_STEPS} steps"
        cap = f"a rate of at most {most_rate:.3g} until the script's own is below"
        return "; ".join([text for text, is_so in ((half, is_again), (cap, bool(most_rate))) if is_so])

    def _give_up(self) -> Ending:
        if self._broken is not None and self._broken.is_usable():
            self._broken.put_back(with_random=False)
            self._close(TryOutcome.UNDONE)
        times = f"{len(self.tries)} of {self._settings.tries} tries"
        return Ending(RescueState.LOST, f"the fault came again each time ({times})")

    def _close(self, outcome: TryOutcome) -> None:
        self.tries[-1] = replace(self.tries[-1], outcome=outcome)
