"""Rules in threads of their own, each at its own pace: no rule waits for one that is slow or hangs."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.verdict import Verdict
from trackside.evaluation import verdicts
from trackside.evaluation.asking import Answer, Asker, StepToJudge
from trackside.evaluation.ledger import Ledger
from trackside.evaluation.rule_limits import RuleLimits
from trackside.evaluation.rule_thread import MOST_QUESTIONS, Question, RuleThread
from trackside.evaluation.shared_reading import SharedSource, Turns
from trackside.evaluation.steps_to_judge import StepsToJudge, is_asked
from trackside.evaluation.verdicts import Moment
from trackside.rules.catalogue import ConfiguredRule
from trackside.trial.trial import Trial
from trackside.trial.window import Window

END_THREADS_SECONDS = 0.2
CATCH_UP_SECONDS = 0.5  # waiting time for rules that are behind: at each look after the end of the run, and on a stop

_logger = logging.getLogger(__name__)


@dataclass
class _Apart:
    """One rule with a thread of its own.

    is_behind   True if the rule no longer judges each step together with the others
    is_resting  True until the next sweep: the store could not be reached
    steps       steps to hand on to a rule that is behind
    last        the last step of a run that has ended, else None
    """

    thread: RuleThread
    is_behind: bool = False
    is_resting: bool = False  # until the next sweep: the store could not be reached
    steps: Iterator[int] = field(default_factory=lambda: iter(()))
    last: int | None = None  # step of a run that has ended


class RulesApart:
    """The rules of a ledger that have threads of their own. Falsy if no rule has one."""

    def __init__(
        self,
        trial: Trial,
        ledger: Ledger,
        steps: StepsToJudge,
        asker: Asker,
        turns: Turns,
        *,
        run: str,
        clock: Callable[[], float],
        limits: RuleLimits,
    ) -> None:
        self._trial, self._ledger, self._steps = trial, ledger, steps
        self._asker, self._turns = asker, turns
        self._run, self._clock, self._limits = run, clock, limits
        self._apart: dict[str, _Apart] = {}
        self._given_up: list[RuleThread] = []
        self._wait_seconds = 0.0  # left in this sweep
        self._ended_at: float | None = None  # by the monotonic clock

    def __bool__(self) -> bool:
        return bool(self._apart)

    def __contains__(self, name: str) -> bool:
        return name in self._apart

    def add(self, name: str) -> None:
        """Start judging by a rule in a thread of its own."""
        thread = RuleThread(name, self._ledger.of(name), file=_file_of(self._ledger.rules[name]))
        self._apart[name] = _Apart(thread)

    def drop(self, name: str) -> None:
        """Remove a finished rule, if it is one of these."""
        self._apart.pop(name, None)

    def is_behind(self, name: str) -> bool:
        """Return True for a rule that no longer judges each step together with the others."""
        return name in self._apart and self._apart[name].is_behind

    def asked_through(self, name: str) -> int:
        """Return the newest step that the rule was asked about."""
        return self._apart[name].thread.asked_through

    # Questions to a rule, and answers that come at once.

    def ask(self, name: str, there: StepToJudge) -> Verdict | None:
        """Ask the rule about a step. Return its verdict if it answers soon enough."""
        apart = self._apart[name]
        if apart.is_behind:
            return None
        apart.thread.give(self._question(self._ledger.rules[name], apart, there))
        return self._heard_at_once(name, apart)

    def ask_again(self, name: str, window: Window) -> Verdict | None:
        """Ask the rule about the newest step once more. Return its verdict if it answers soon enough."""
        configured, apart = self._ledger.rules[name], self._apart[name]
        window = _shared(window, self._turns, apart.thread)
        apart.thread.give(
            Question(
                window.step,
                apart.thread.asked_through,
                lambda progress: self._asker.ask_again(configured, progress, window),
            )
        )
        return self._heard_at_once(name, apart)

    def _question(self, configured: ConfiguredRule, apart: _Apart, there: StepToJudge) -> Question:
        window = _shared(self._steps.as_seen_by(configured, there.window), self._turns, apart.thread)
        there = replace(there, window=window)
        return Question(window.step, window.step, lambda progress: self._asker.ask(configured, progress, there))

    def _heard_at_once(self, name: str, apart: _Apart) -> Verdict | None:
        """Return the verdict on the question just asked. Mark a rule that does not answer soon enough as behind."""
        self._wait_for(apart.thread)
        if apart.thread.is_idle:
            return next(iter([*self._heard(name)]), None)
        apart.is_behind, apart.steps = True, iter(())
        return None

    def _wait_for(self, thread: RuleThread) -> None:
        """Wait for the thread until it is idle or stuck, at most for the waiting time left in this sweep."""
        began = time.monotonic()
        with self._turns.let_go():
            while not thread.is_idle and not self._is_stuck(thread):
                left = self._wait_seconds - (time.monotonic() - began)
                if left <= 0:
                    break
                thread.wait(min(left, 1.0))
        self._wait_seconds -= time.monotonic() - began

    def _heard(self, name: str) -> Iterator[Verdict]:
        """Yield the new verdicts of a rule. The caller sends each one before it takes the next."""
        apart = self._apart[name]
        answers, failure = apart.thread.take()
        for answer in answers:
            if (verdict := self._ledger.note(name, answer)) is not None:
                yield verdict
        if self._ledger.of(name).has_concluded:
            del self._apart[name]
        elif failure is not None and isinstance(failure.error, StorageUnavailableError):
            self._ledger.outbox.tell_once(f"{name} cannot read at the moment, and is asked again: {failure.error}")
            apart.thread.start_over(self._ledger.of(name))
            apart.is_behind, apart.is_resting, apart.steps = True, True, iter(())
        elif failure is not None:  # without access to the run the evaluator cannot read either, and reports it
            del self._apart[name]
            moment = Moment(self._run, failure.step, self._clock())
            answer = self._asker.crashed(self._ledger.rules[name], self._ledger.of(name), moment, failure.error)
            if (verdict := self._ledger.note(name, answer)) is not None:
                yield verdict

    # Rules that are behind.

    def begin_sweep(self) -> None:
        """Reset the waiting time, and let rules try the store again that could not reach it."""
        self._wait_seconds = self._limits.wait_seconds
        self._given_up = [thread for thread in self._given_up if not thread.give_up()]
        for apart in self._apart.values():
            apart.is_resting = False
        self.attend()

    def attend(self) -> None:
        """Send the verdicts of the rules that are behind, hand them more steps, and give up stuck ones.

        Waits for none.
        """
        for name in tuple(self._apart):
            apart = self._apart[name]
            if not apart.is_behind or apart.is_resting:
                continue
            for verdict in self._heard(name):
                self._ledger.outbox.say([verdict])
            if name in self._apart and not apart.is_resting:
                self._hand_on(name, apart)
                self._give_up_if_stuck(name, apart)

    def _hand_on(self, name: str, apart: _Apart) -> None:
        """Hand a rule its next steps, as many as its queue takes. Without a step left, the rule is no longer behind."""
        if apart.thread.room <= MOST_QUESTIONS // 2 or self._hand_on_what_is_left(name, apart):
            return
        if apart.thread.is_idle:
            steps = self._trial.new_complete_steps(apart.thread.asked_through)
            apart.steps, apart.last = iter(steps), steps[-1] if self._trial.has_ended and steps else None
            apart.is_behind = self._hand_on_what_is_left(name, apart)

    def _hand_on_what_is_left(self, name: str, apart: _Apart) -> bool:
        configured, now, is_given = self._ledger.rules[name], self._clock(), False
        while apart.thread.room > 0 and (step := next(apart.steps, None)) is not None:
            there = self._steps.at(step, now, is_last=step == apart.last)
            if is_asked(configured, apart.thread.asked_through, there):
                apart.thread.give(self._question(configured, apart, there))
                is_given = True
        return is_given

    def catch_up(self) -> None:
        """Wait up to `CATCH_UP_SECONDS` for the rules that are behind."""
        until = time.monotonic() + CATCH_UP_SECONDS
        while time.monotonic() < until:
            self.attend()
            behind = [apart.thread for apart in self._apart.values() if apart.is_behind and not apart.is_resting]
            if not behind:
                return
            with self._turns.let_go():
                behind[0].wait(0.02)

    # Rules that are given up.

    def _is_stuck(self, thread: RuleThread) -> bool:
        stuck = thread.stuck
        return stuck is not None and stuck.seconds > self._limits.step_seconds

    def _give_up_if_stuck(self, name: str, apart: _Apart) -> None:
        stuck = apart.thread.stuck
        if stuck is None or stuck.seconds <= self._limits.step_seconds:
            return
        moment = Moment(self._run, stuck.step, self._clock())
        verdict = verdicts.given_up(self._ledger.rules[name], moment, seconds=stuck.seconds)
        self._give_up(name, verdict, error=f"still at step {stuck.step} after {stuck.seconds:.0f} seconds")

    def give_up_the_late(self, newest_step: int) -> None:
        """Give up the rules still behind `end_seconds` after the run ended and every other rule finished."""
        now = time.monotonic()
        self._ended_at = now if self._ended_at is None else self._ended_at
        seconds = now - self._ended_at
        if seconds <= self._limits.end_seconds:
            return
        last_step = max([newest_step, *self._trial.new_complete_steps(newest_step)[-1:]])
        self.attend()  # send the verdicts that came meanwhile
        for name in [name for name, apart in self._apart.items() if apart.is_behind]:
            moment = Moment(self._run, max(self._ledger.of(name).judged_through, 0), self._clock())
            verdict = verdicts.out_of_time(self._ledger.rules[name], moment, last_step=last_step, seconds=seconds)
            self._give_up(name, verdict, error=f"{seconds:.0f} seconds after the end only at step {moment.step}")

    def _give_up(self, name: str, verdict: Verdict, *, error: str) -> None:
        _logger.error("%s", verdict.message)
        thread = self._apart.pop(name).thread
        if not thread.give_up():
            self._given_up.append(thread)
        progress = replace(self._ledger.of(name), judged_through=verdict.step, has_concluded=True, error=error)
        self._ledger.note(name, Answer(progress))
        self._ledger.outbox.say([verdict])

    def end(self) -> None:
        """End the threads, as far as they end within `END_THREADS_SECONDS`. The rest ends with the process."""
        threads = [*(apart.thread for apart in self._apart.values()), *self._given_up]
        until = time.monotonic() + END_THREADS_SECONDS
        while threads := [thread for thread in threads if not thread.give_up()]:
            if time.monotonic() >= until:
                return
            time.sleep(0.005)


def _shared(window: Window, turns: Turns, thread: RuleThread) -> Window:
    """Return the window with sources that a rule's own thread may read."""
    others = {name: SharedSource(source, turns, thread.reading) for name, source in window.others.items()}
    return replace(window, source=SharedSource(window.source, turns, thread.reading), others=others)


def _file_of(configured: ConfiguredRule) -> str:
    """Return the path of the rule's code, as in its frames; "" if unknown."""
    custom = configured.configuration.custom
    if custom is not None:
        return custom.source
    try:
        return inspect.getfile(type(configured.rule))
    except (TypeError, OSError):
        return ""
