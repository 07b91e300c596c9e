"""The decisions about starts from checkpoints: after which fault, from where, what is left out, how often.

The record is stored before anything is ended or moved, so that a crash in the middle is made good at the next start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run.rescue import RescueRecord, RescueState, RescueTry, Standing, TryOutcome
from trackside.contracts.run.restart import ENDED_PREFIX, Met, Order, Report, merged
from trackside.environment import LEAVE_OUT, RESUME_FROM, RescueEnvironment
from trackside.rescue.restarting.checkpoint_choice import Choice, choose, place_aside, with_newest
from trackside.rescue.restarting.restart_folder import RestartFolder
from trackside.rescue.restarting.set_aside import drop_copy, keep_copy, make_places, move_aside, place_of_copy, restore

JUDGING_SECONDS = 10.0  # for which a fault waits for the rules
RANKS_SECONDS = 2.0  # and at least so long for other ranks


@dataclass(frozen=True)
class Plan:
    """A start that is prepared: the choice, a name of the run and the try, and our copy of the good checkpoint."""

    choice: Choice
    name: str
    copy: str


class Restarts:
    """The starts of one run.

    Args:
        folder: The files of the run.
        settings: Numbers of tries.
        monotonic: Returns seconds.
    """

    def __init__(self, folder: RestartFolder, settings: RescueEnvironment, *, monotonic: Callable[[], float]) -> None:
        self._folder, self._settings, self._monotonic = folder, settings, monotonic
        self._record = folder.record()
        self._copy = ""
        self._fault: Report | None = None
        self._met_at = 0.0
        self._failed_at: float | None = None  # at which a process ended with another code than 0

    @property
    def is_over(self) -> bool:
        """True once no more starts are made."""
        return self._record.state in (RescueState.LOST, RescueState.REFUSED, RescueState.OFF)

    def variables(self) -> dict[str, str]:
        """Return the variables of a process that is started again; none for the first."""
        order = self._folder.order()
        if order is None:
            return {}
        return {LEAVE_OUT: str(self._folder.order_path), RESUME_FROM: order.resume_from}

    def begin(self) -> None:
        """Make good what an earlier `trackside run` of this run had begun. Errors: `OSError`."""
        tries, order = self._record.tries, self._folder.order()
        if tries and tries[-1].outcome is TryOutcome.OPEN and order is not None:
            self._copy = place_of_copy(order.resume_from, self._name(len(tries)))
            restore(order.resume_from, self._copy)
            move_aside(tries[-1].set_aside, good=order.resume_from, copy=order.resume_from, aliases=order.aliases)
        self._forget()

    def has_fault(self) -> bool:
        """Return True if the training has met a fault that has no answer yet."""
        if self.is_over:
            return False
        reports = self._folder.reports()
        for report in reports:
            if report.met is not Met.FAULT:
                self._close(TryOutcome.RESCUED if report.met is Met.CONFIRMED else TryOutcome.FAILED)
        faults = [report for report in reports if report.met is Met.FAULT] or self._faults_of_rules()
        if faults and self._fault is None:
            self._met_at = self._monotonic()
        self._fault = together(faults) if faults else self._fault
        return self._fault is not None

    def process_failed(self) -> None:
        """Note that the process has ended with a code that is not 0, perhaps for a fault that it found itself."""
        self._failed_at = self._monotonic()

    @property
    def may_have_fault(self) -> bool:
        """True while the rules judge the last steps of a process that failed."""
        return self._failed_at is not None and not self.is_over and bool(self._folder.reports(ENDED_PREFIX))

    def plan(self) -> Plan | None:
        """Return the prepared start for the fault; None while rules judge, or if no start can cure it.

        Everything that may fail is done here, while the training still runs. Errors: `OSError`, those of the store.
        """
        fault = self._fault
        if fault is None or self.is_over or not self._has_waited(self._met_at, fault.first_step - 1):
            return None
        standing, tries = self._standing(), self._record.tries
        refusal = fault.refusal or standing.incurable_before(fault.first_step) or _why_no_try(tries, self._settings)
        choice = refusal or _choice(self._folder.checkpoints(), fault, standing, tries, self._settings)
        if isinstance(choice, str):
            self._refuse(choice)
            return None
        try:
            return self._prepared(fault, choice)
        except OSError as error:
            self._refuse(f"a start from {choice.good} cannot be prepared: {error}")
            return None

    def carry_out(self, plan: Plan) -> None:
        """Move later checkpoints aside. Call it once no process of the training is left. Errors: `OSError`."""
        self._forget()
        restore(plan.choice.good, plan.copy)
        choice = with_newest(plan.choice, self._folder.checkpoints())
        asides = _places(choice, plan.name)
        *earlier, newest = self._record.tries
        newest = replace(newest, set_aside=asides, ended_at_step=max(newest.at_step, self._folder.steps()))
        self._store(replace(self._record, tries=(*earlier, newest)))
        move_aside(asides, good=choice.good, copy=plan.copy, aliases=choice.aliases)

    def end(self, state: RescueState, reason: str) -> None:
        """Make no more starts. Errors: `OSError`."""
        self._store(replace(self._record, state=state, reason=reason))

    def _has_waited(self, since: float, step: int) -> bool:
        waited = self._monotonic() - since
        return waited >= JUDGING_SECONDS or (waited >= RANKS_SECONDS and self._folder.is_judged(step))

    def _faults_of_rules(self) -> list[Report]:
        """Return the fault of a process that has failed, where a rule has found one in its last steps."""
        ended = self._folder.reports(ENDED_PREFIX) if self._failed_at is not None else []
        if not ended or self._failed_at is None:
            return []
        first = min(report.first_step for report in ended)
        if found := self._standing().curable_since(first):
            evidence = f"{found.rule} stands since step {found.since_step}, and the script ended itself"
            return [replace(report, met=Met.FAULT, evidence=evidence) for report in ended]
        if self._has_waited(self._failed_at, max(report.at_step for report in ended) - 1):
            self._failed_at = None
        return []

    def _prepared(self, fault: Report, choice: Choice) -> Plan:
        tries = self._record.tries
        name = self._name(len(tries) + 1)
        asides = _places(choice, name)
        is_again = any(one.checkpoint == choice.good for one in tries)
        self._drop_copy()
        self._copy = keep_copy(choice.good, name)
        make_places(asides)
        order = order_after(fault, choice, self._folder.order(), is_again=is_again)
        self._folder.give(order)
        one = RescueTry(
            fault.at_step,
            choice.step + 1,
            fault.cause,
            fault.evidence,
            left_out=bool(order.left_out or order.marks),
            softened="half the rate and clipped gradients at first" if is_again else "",
            checkpoint=choice.good,
            set_aside=asides,
        )
        self._store(RescueRecord(RescueState.TRYING, "", (*map(_failed, tries), one)))
        return Plan(choice, name, self._copy)

    def _standing(self) -> Standing:
        """Return the critical issues that stand, without those of undone steps."""
        tries = self._record.tries
        issues = self._folder.standing()
        return Standing(tuple(one for one in issues if not any(each.undid(one.since_step) for each in tries)))

    def _close(self, outcome: TryOutcome) -> None:
        """Note what became of the newest start. Errors: `OSError`."""
        tries = self._record.tries
        if not tries or tries[-1].outcome is not TryOutcome.OPEN:
            return
        closed = (*tries[:-1], replace(tries[-1], outcome=outcome))
        if outcome is TryOutcome.RESCUED:
            self._drop_copy()
            self._store(RescueRecord(RescueState.RESCUED, "", closed))
            return
        kept = f"; a copy of the checkpoint is {self._copy}" if self._copy else ""
        reason = f"the losses since are not as before, so that the script may not have resumed{kept}"
        self._store(RescueRecord(RescueState.LOST, reason, closed))

    def _name(self, number: int) -> str:
        """Return a name of the run and the try."""
        return f"{self._folder.name}-{number}"

    def _refuse(self, reason: str) -> None:
        self.end(RescueState.LOST if self._record.tries else RescueState.REFUSED, reason)

    def _forget(self) -> None:
        self._fault = self._failed_at = None
        self._folder.forget_reports()

    def _drop_copy(self) -> None:
        if self._copy:
            drop_copy(self._copy)
            self._copy = ""

    def _store(self, record: RescueRecord) -> None:
        self._folder.store(record)
        self._record = record


def _why_no_try(tries: Sequence[RescueTry], settings: RescueEnvironment) -> str:
    most = settings.tries
    return f"the fault came again each time ({len(tries)} of {most} tries)" if len(tries) >= most else ""


def _choice(
    known: Sequence[Checkpoint],
    fault: Report,
    standing: Standing,
    tries: Sequence[RescueTry],
    settings: RescueEnvironment,
) -> Choice | str:
    starts = [one.checkpoint for one in tries]
    return choose(
        known,
        fault.first_step,
        is_contradicted=standing.contradicts,
        tries={path: starts.count(path) for path in starts},
        most_tries=settings.place_tries,
    )


def _places(choice: Choice, name: str) -> tuple[str, ...]:
    return tuple(place_aside(path, name) for path in choice.later)


def order_after(fault: Report, choice: Choice, before: Order | None, *, is_again: bool) -> Order:
    """Return what the next process is started for: what earlier ones left out, and the batches of the fault."""
    before = before or Order(choice.good)
    is_left_out = fault.is_of_batch or is_again
    return Order(
        choice.good,
        aliases=choice.aliases,
        undone_steps=max(0, fault.at_step - choice.step - 1),
        usual_loss=fault.usual_loss if before.usual_loss is None else before.usual_loss,
        most_rate=fault.most_rate,
        most_gradient=fault.most_gradient,
        is_again=is_again,
        left_out=merged([*before.left_out, *(fault.left_out if is_left_out else ())]),
        marks=(*before.marks, *(fault.marks if is_left_out else ())),
    )


def _failed(one: RescueTry) -> RescueTry:
    return dataclasses.replace(one, outcome=TryOutcome.FAILED) if one.outcome is TryOutcome.OPEN else one


def together(faults: Sequence[Report]) -> Report:
    """Return the fault of all ranks: the first one's numbers, and the rows of all."""
    first = min(faults, key=lambda report: report.first_step)
    return replace(
        first,
        at_step=max(report.at_step for report in faults),
        refusal=next((report.refusal for report in faults if report.refusal), ""),
        left_out=merged(part for report in faults for part in report.left_out),
        marks=tuple(dict.fromkeys(mark for report in faults for mark in report.marks)),
    )
