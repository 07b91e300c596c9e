"""The decisions about starts from checkpoints: after which fault, from where, what is left out, how often.

The record is stored before anything is ended or moved, so that a crash in the middle is made good at the next start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, RecordError, TracksideError
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run.rescue import CURABLE_RULES, RescueRecord, RescueState, RescueTry, TryOutcome
from trackside.contracts.run.restart import ENDED_PREFIX, ORDER_KEY, RESTART, Met, Order, Report, merged
from trackside.contracts.run_layout import RESCUE, RESTARTS_KEY, RULE_OUTPUT, STANDING_ISSUES_KEY, TENSORS
from trackside.environment import LEAVE_OUT, RESUME_FROM, RescueEnvironment
from trackside.local.restarting.checkpoint_choice import Choice, choose, place_aside
from trackside.local.restarting.set_aside import drop_copy, keep_copy, make_places, move_aside
from trackside.records.checkpoints_file import checkpoint_workers, read_checkpoints
from trackside.runs.capture_check import rule_progress
from trackside.storage.open_store import open_store

JUDGING_SECONDS = 10.0  # for which a fault waits for the rules
RANKS_SECONDS = 2.0  # and at least so long for other ranks


@dataclass(frozen=True)
class Plan:
    """A start that is prepared: the choice, the places of later checkpoints, and our copy of the good one."""

    choice: Choice
    asides: tuple[str, ...]
    copy: str


class Restarts:
    """The starts of one run.

    Args:
        folder: The folder of the run.
        settings: Numbers of tries.
        monotonic: Returns seconds.
    """

    def __init__(self, folder: Path, settings: RescueEnvironment, *, monotonic: Callable[[], float]) -> None:
        self._folder, self._settings, self._monotonic = folder, settings, monotonic
        self._record = self._earlier_record()
        self._copy = ""
        self._fault: Report | None = None
        self._has_failed = False
        self._met_at = self._failed_at = 0.0

    @property
    def is_over(self) -> bool:
        """True once no more starts are made."""
        return self._record.state in (RescueState.LOST, RescueState.REFUSED, RescueState.OFF)

    def variables(self) -> dict[str, str]:
        """Return the variables of a process that is started again; none for the first."""
        order = self._order()
        if order is None:
            return {}
        return {LEAVE_OUT: str(self._order_path), RESUME_FROM: order.resume_from}

    def begin(self) -> None:
        """Make good what an earlier `trackside run` of this run had begun, and forget reports. Errors: `OSError`."""
        tries, order = self._record.tries, self._order()
        if tries and tries[-1].outcome is TryOutcome.OPEN and order is not None:
            move_aside(tries[-1].set_aside, good=order.resume_from, copy="", aliases=())
        self.forget_reports()

    def forget_reports(self) -> None:
        """Forget what earlier processes have met. Errors: `OSError`."""
        self._fault, self._has_failed, self._failed_at = None, False, 0.0
        for path in (*self._paths(), *self._paths(ENDED_PREFIX)):
            path.unlink(missing_ok=True)

    def has_fault(self) -> bool:
        """Return True if the training has met a fault that has no answer yet."""
        if self.is_over:
            return False
        reports = list(self._reports())
        for report in reports:
            if report.met is not Met.FAULT:
                self._close(TryOutcome.RESCUED if report.met is Met.CONFIRMED else TryOutcome.FAILED)
        faults = [report for report in reports if report.met is Met.FAULT] or self._faults_of_rules()
        if faults and self._fault is None:
            self._met_at = self._monotonic()
        if faults:
            self._fault = _together(faults)
        return self._fault is not None

    def process_failed(self) -> None:
        """Note that the process has ended with a code that is not 0, perhaps for a fault that it found itself."""
        self._has_failed = True

    @property
    def may_have_fault(self) -> bool:
        """True while the rules judge the last steps of a process that failed."""
        return self._has_failed and not self.is_over and bool(self._paths(ENDED_PREFIX))

    def _faults_of_rules(self) -> list[Report]:
        """Return the fault of a process that has failed, where a rule has found one in its last steps."""
        if not self._has_failed:
            return []
        ended = list(self._reports(ENDED_PREFIX))
        first = min((report.first_step for report in ended), default=0)
        for rule, since in self._standing():
            if ended and rule in CURABLE_RULES and since >= first:
                evidence = f"{rule} stands since step {since}, and the script ended itself"
                return [replace(report, met=Met.FAULT, is_of_batch=True, evidence=evidence) for report in ended]
        self._failed_at = self._failed_at or self._monotonic()
        waited = self._monotonic() - self._failed_at
        last = max((report.at_step for report in ended), default=0) - 1
        if waited >= JUDGING_SECONDS or (waited >= RANKS_SECONDS and self._are_judged(last)):
            self._has_failed = False
        return []

    def plan(self) -> Plan | None:
        """Return the prepared start for the fault; None while rules judge, or if there is none.

        Everything that may fail is done here, while the training still runs. Errors: `OSError`, `TracksideError`.
        """
        fault, waited = self._fault, self._monotonic() - self._met_at
        if fault is None or self.is_over or waited < RANKS_SECONDS:
            return None
        if waited < JUDGING_SECONDS and not self._are_judged(fault.first_step - 1):
            return None
        refusal = fault.refusal or self._incurable_before(fault.first_step)
        if refusal:
            return self._refuse(refusal)
        if len(self._record.tries) >= self._settings.tries:
            return self._refuse("the fault came again each time")
        choice = self._choice(fault)
        if isinstance(choice, str):
            return self._refuse(choice)
        try:
            return self._prepared(fault, choice)
        except OSError as error:
            return self._refuse(f"a start from {choice.good} cannot be prepared: {error}")

    def carry_out(self, plan: Plan) -> None:
        """Move later checkpoints aside. Call it once no process of the training is left. Errors: `OSError`."""
        move_aside(plan.asides, good=plan.choice.good, copy=plan.copy, aliases=plan.choice.aliases)
        self.forget_reports()

    def end(self, state: RescueState, reason: str) -> None:
        """Make no more starts. Errors: `OSError`."""
        self._store(replace(self._record, state=state, reason=reason))

    def _prepared(self, fault: Report, choice: Choice) -> Plan:
        tries = self._record.tries
        name = f"{self._folder.name}-{len(tries) + 1}"
        asides = tuple(place_aside(path, name) for path in choice.later)
        is_again = any(one.checkpoint == choice.good for one in tries)
        before = self._order()
        self._drop_copy()
        self._copy = keep_copy(choice.good, name)
        make_places(asides)
        leaves_out = fault.is_of_batch or is_again
        order = Order(
            choice.good,
            undone_steps=max(0, fault.at_step - choice.step - 1),
            usual_loss=fault.usual_loss if before is None or before.usual_loss is None else before.usual_loss,
            most_rate=fault.most_rate,
            most_gradient=fault.most_gradient,
            is_again=is_again,
            left_out=merged([*(before.left_out if before else ()), *(fault.left_out if leaves_out else ())]),
            marks=(*(before.marks if before else ()), *(fault.marks if leaves_out else ())),
        )
        _write_whole(self._order_path, order.to_json())
        one = RescueTry(
            fault.at_step,
            choice.step + 1,
            fault.cause,
            fault.evidence,
            left_out=leaves_out and bool(order.left_out or order.marks),
            softened="half the rate and clipped gradients" if is_again else "",
            checkpoint=choice.good,
            set_aside=asides,
        )
        closed = tuple(replace(t, outcome=TryOutcome.FAILED) if t.outcome is TryOutcome.OPEN else t for t in tries)
        self._store(RescueRecord(RescueState.TRYING, "", (*closed, one)))
        return Plan(choice, asides, self._copy)

    def _choice(self, fault: Report) -> Choice | str:
        tries: dict[str, int] = {}
        for one in self._record.tries:
            tries[one.checkpoint] = tries.get(one.checkpoint, 0) + 1
        return choose(
            self._known(),
            fault.first_step,
            is_contradicted=self._is_contradicted,
            tries=tries,
            most_tries=self._settings.place_tries,
        )

    def _known(self) -> list[Checkpoint]:
        store = open_store(f"{self._folder}/{TENSORS}")
        found = [one for worker in checkpoint_workers(store) for one in read_checkpoints(store, worker)]
        return [one for one in found if os.path.exists(one.path)]

    def _is_contradicted(self, step: int) -> bool:
        return any(rule in CURABLE_RULES and since <= step for rule, since in self._standing())

    def _incurable_before(self, step: int) -> str:
        for rule, since in self._standing():
            if rule not in CURABLE_RULES and since < step:
                return f"{rule} stands since step {since}, which an earlier moment does not cure"
        return ""

    def _standing(self) -> Iterable[tuple[str, int]]:
        """Yield the rule and the first step of each critical issue that stands, without those of undone steps."""
        try:
            found = json.loads((self._folder / RESCUE / STANDING_ISSUES_KEY).read_bytes())
        except (OSError, ValueError):
            return
        for each in found:
            rule, since = str(each["rule"]), int(each["since_step"])
            if not any(one.back_to_step <= since <= one.at_step for one in self._record.tries):
                yield rule, since

    def _are_judged(self, step: int) -> bool:
        progress = rule_progress(open_store(f"{self._folder}/{RULE_OUTPUT}"))
        return bool(progress) and all(one.judged_through >= step for one in progress.values())

    def _close(self, outcome: TryOutcome) -> None:
        """Note what became of the newest start. Errors: `OSError`."""
        tries = self._record.tries
        if not tries or tries[-1].outcome is not TryOutcome.OPEN:
            return
        closed = (*tries[:-1], replace(tries[-1], outcome=outcome))
        if outcome is TryOutcome.RESCUED:
            self._drop_copy()
            self._store(RescueRecord(RescueState.RESCUED, "", closed))
        else:
            kept = f"; a copy of the checkpoint is {self._copy}" if self._copy else ""
            reason = f"the losses since are not as before, so that the script may not have resumed{kept}"
            self._store(RescueRecord(RescueState.LOST, reason, closed))

    def _refuse(self, reason: str) -> None:
        state = RescueState.LOST if self._record.tries else RescueState.REFUSED
        self.end(state, reason)

    def _drop_copy(self) -> None:
        if self._copy:
            drop_copy(self._copy)
            self._copy = ""

    def _earlier_record(self) -> RescueRecord:
        try:
            return RescueRecord.from_json((self._folder / RESCUE / RESTARTS_KEY).read_bytes())
        except (OSError, ConfigurationError):
            return RescueRecord(RescueState.TRYING)

    def _store(self, record: RescueRecord) -> None:
        _write_whole(self._folder / RESCUE / RESTARTS_KEY, record.to_json())
        self._record = record

    @property
    def _order_path(self) -> Path:
        return self._folder / RESTART / ORDER_KEY

    def _order(self) -> Order | None:
        try:
            return Order.from_json(self._order_path.read_bytes())
        except (OSError, ConfigurationError):
            return None

    def _paths(self, prefix: str = "") -> list[Path]:
        return sorted((self._folder / RESTART).glob(f"{prefix}worker_*.json"))

    def _reports(self, prefix: str = "") -> Iterable[Report]:
        for path in self._paths(prefix):
            try:
                yield Report.from_json(path.read_bytes())
            except (OSError, ConfigurationError):
                continue


FAILURES = (OSError, TracksideError, RecordError, ValueError, KeyError, TypeError)


def _together(faults: list[Report]) -> Report:
    """Return the fault of all ranks: the first one's numbers, and the rows of all."""
    first = min(faults, key=lambda report: report.first_step)
    return replace(
        first,
        at_step=max(report.at_step for report in faults),
        refusal=next((report.refusal for report in faults if report.refusal), ""),
        left_out=merged(part for report in faults for part in report.left_out),
        marks=tuple(dict.fromkeys(mark for report in faults for mark in report.marks)),
    )


def _write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all. Errors: `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
