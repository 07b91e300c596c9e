"""The course of a training that is not put back here: a fault is reported, and so is what became of an earlier one.

`trackside run` ends the process and starts the script again; see `trackside.rescue.restarting`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from trackside.contracts.run.restart import LeftOut, Met, Order, Report
from trackside.rescue.health import BY_RULE, FEWEST_HEALTHY, RATE_JUMP, Fault, Health
from trackside.rescue.numbers import Numbers
from trackside.rescue.returns import CONFIRMED_LOOKS, CONFIRMED_STEPS
from trackside.rescue.softening import Softening
from trackside.rescue.standing import StandingIssues

SOFT_STEPS = 100  # beyond the place of the fault


class FaultCourse:
    """The course of one training.

    Args:
        health: Judges the numbers.
        standing: The issues that rules have found.
        order: What this process was started again for; None for a first start.
        report: Stores a report, whose steps are those of this process.
        rows: Returns the rows that were fetched for some steps, both included.
        marks: Returns the marks of batches that were fetched for them.
        start: Returns the number of steps of the run before this process.
    """

    def __init__(
        self,
        health: Health,
        standing: StandingIssues,
        *,
        order: Order | None,
        report: Callable[[Report], object],
        rows: Callable[[int, int], tuple[LeftOut, ...]],
        marks: Callable[[int, int], tuple[str, ...]],
        start: Callable[[], int],
    ) -> None:
        self._health, self._standing, self._order = health, standing, order
        self._report, self._rows, self._marks, self._start = report, rows, marks, start
        self._is_over = False
        self._sound = 0  # training steps that had ended at the newest look without a suspicion
        self._losses: list[float] = []
        self._looks = 0
        self._is_open = order is not None

    def softening(self) -> Softening | None:
        """Return what is changed in the first steps; None for nothing."""
        order = self._order
        if order is None or not (order.is_again or order.most_rate):
            return None
        return Softening(
            factor=0.5 if order.is_again else 1.0,
            most_rate=order.most_rate,
            most_gradient=order.most_gradient if order.is_again else 0.0,
            steps=order.undone_steps + SOFT_STEPS,
        )

    def step_ended(self, steps: int) -> None:
        """Do nothing: all ranks are ended together."""

    def act(self, fault: Fault | None, numbers: Numbers, steps: int) -> None:
        """Act after a look.

        Args:
            fault: The fault that it shows, if any.
            numbers: Of the look.
            steps: Number of training steps that have ended.
        """
        if self._is_over:
            return
        fault = fault or self._fault_by_rule()
        if fault is not None:
            self._is_over = True
            self._report(self._report_of(fault, steps))
        elif not self._health.is_suspected:
            self._sound = numbers.steps
            self._judge(numbers, steps)

    def ended(self, steps: int) -> Report | None:
        """Return where a fault may lie that a rule finds once the process has ended; None after one was reported.

        Args:
            steps: Number of training steps that have ended.
        """
        if self._is_over:
            return None
        early = "its first steps already broke it, so there is no sound moment to go back to"
        risen = "its losses had risen above where they began, so an earlier moment is no sound one"
        refusal = early if self._health.looks < FEWEST_HEALTHY else "" if self._health.has_learned() else risen
        fault = Fault(BY_RULE, max(0, steps - 1), "the script ended", refusal=refusal)
        return replace(self._report_of(fault, steps), met=Met.ENDED)

    def _report_of(self, fault: Fault, steps: int) -> Report:
        start = self._start()
        first = min(fault.since, max(self._sound, fault.since - _MOST_UNSEEN))
        refusal = self._standing.incurable_before(start + fault.since)
        if not self._is_open:  # else it came again, soon after a start from a moment that was sound
            refusal = fault.refusal or refusal
        bound = self._health.usual_loss
        return Report(
            Met.FAULT,
            process=os.getpid(),
            first_step=start + first,
            at_step=start + steps,
            cause=fault.cause,
            evidence=fault.evidence,
            refusal=refusal,
            is_of_batch=fault.is_of_batch,
            usual_loss=bound if math.isfinite(bound) else None,
            most_rate=self._health.rate if fault.cause == RATE_JUMP else 0.0,
            most_gradient=self._health.gradient,
            left_out=self._rows(first, steps),
            marks=self._marks(first, steps),
        )

    def _fault_by_rule(self) -> Fault | None:
        """Return the fault of a rule's finding in this process, while the loss is unusual, too."""
        if not self._health.looks or not self._health.is_harmed():
            return None
        start = self._start()
        found = self._standing.fault_since(start)
        return found._replace(since=max(0, found.since - start)) if found is not None else None

    def _judge(self, numbers: Numbers, steps: int) -> None:
        """Report what became of an earlier fault, once its place has been passed."""
        order = self._order
        if order is None or not self._is_open:
            return
        self._looks += 1
        if numbers.loss is not None:
            self._losses = [*self._losses, numbers.loss][-3 * CONFIRMED_LOOKS :]
        if self._looks < CONFIRMED_LOOKS or steps < order.undone_steps + CONFIRMED_STEPS:
            return
        self._is_open = False
        bound = order.usual_loss
        is_usual = bound is None or not self._losses or median(self._losses) <= bound
        met = Met.CONFIRMED if is_usual else Met.UNLIKE
        self._report(Report(met, process=os.getpid(), at_step=self._start() + steps))


_MOST_UNSEEN = 100  # steps, between two looks and one that a device delays
