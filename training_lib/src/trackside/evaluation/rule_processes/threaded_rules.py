"""Rules in threads of their own: no rule waits for one that is slow or hangs.

The code of a rule from a file runs in a process (`rule_process`), for which its thread waits.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.verdict import Verdict
from trackside.evaluation.results import verdicts
from trackside.evaluation.results.judging import Judgement, RuleJudge, StepToJudge
from trackside.evaluation.results.run_progress import RunProgress
from trackside.evaluation.results.verdicts import Moment
from trackside.evaluation.rule_processes.rule_limits import RuleLimits
from trackside.evaluation.rule_processes.rule_thread import MOST_TASKS, JudgingTask, RuleThread
from trackside.evaluation.rule_processes.shared_reading import RunLock, SharedSource
from trackside.evaluation.steps_to_judge import StepsToJudge, must_judge
from trackside.rules.catalogue import ConfiguredRule
from trackside.trial.trial import Trial
from trackside.trial.window import Window

END_THREADS_SECONDS = 0.2
CATCH_UP_SECONDS = 0.5  # waiting time for rules that are behind: at each look after the end of the run, and on a stop

_logger = logging.getLogger(__name__)


@dataclass
class _ThreadedRule:
    """One rule with a thread of its own.

    is_behind   True if the rule no longer judges each step together with the others
    is_resting  True until the next poll: the store could not be reached
    steps       steps still to queue for a rule that is behind
    last        the last step of a run that has ended, else None
    """

    thread: RuleThread
    is_behind: bool = False
    is_resting: bool = False
    steps: Iterator[int] = field(default_factory=lambda: iter(()))
    last: int | None = None


class ThreadedRules:
    """The rules with threads of their own. Falsy if no rule has one."""

    def __init__(
        self,
        trial: Trial,
        run_progress: RunProgress,
        steps: StepsToJudge,
        rule_judge: RuleJudge,
        run_lock: RunLock,
        *,
        run: str,
        clock: Callable[[], float],
        limits: RuleLimits,
    ) -> None:
        self._trial, self._run_progress, self._steps = trial, run_progress, steps
        self._rule_judge, self._run_lock = rule_judge, run_lock
        self._run, self._clock, self._limits = run, clock, limits
        self._threaded: dict[str, _ThreadedRule] = {}
        self._abandoned: list[RuleThread] = []
        self._wait_seconds = 0.0  # left in this poll
        self._ended_at: float | None = None  # by the monotonic clock

    def __bool__(self) -> bool:
        return bool(self._threaded)

    def __contains__(self, name: str) -> bool:
        return name in self._threaded

    def add(self, name: str) -> None:
        """Start judging by a rule in a thread of its own."""
        configured = self._run_progress.rules[name]
        from trackside.evaluation.rule_processes.rule_process import (
            process_of,  # brings `multiprocessing`, for few runs
        )

        process = process_of(configured.rule)
        end = process.end if process else None
        thread = RuleThread(name, self._run_progress.of(name), file=_file_of(configured), end=end)
        self._threaded[name] = _ThreadedRule(thread)

    def drop(self, name: str) -> None:
        """Remove a finished rule, if it is one of these."""
        if name in self._threaded:
            self._let_go(self._threaded.pop(name).thread)

    def is_behind(self, name: str) -> bool:
        """Return True for a rule that no longer judges each step together with the others."""
        return name in self._threaded and self._threaded[name].is_behind

    def queued_through(self, name: str) -> int:
        """Return the newest step queued for the rule."""
        return self._threaded[name].thread.queued_through

    # Tasks for a rule, and judgements that come at once.

    def judge(self, name: str, pending_step: StepToJudge) -> Verdict | None:
        """Queue a step for the rule. Return its verdict if it comes soon enough."""
        rule = self._threaded[name]
        if rule.is_behind:
            return None
        rule.thread.submit(self._task(self._run_progress.rules[name], rule, pending_step))
        return self._verdict_at_once(name, rule)

    def judge_again(self, name: str, window: Window) -> Verdict | None:
        """Queue the newest step for the rule once more. Return its verdict if it comes soon enough."""
        configured, rule = self._run_progress.rules[name], self._threaded[name]
        window = _shared(window, self._run_lock, rule.thread)
        rule.thread.submit(
            JudgingTask(
                window.step,
                rule.thread.queued_through,
                lambda progress: self._rule_judge.judge_again(configured, progress, window),
            )
        )
        return self._verdict_at_once(name, rule)

    def _task(self, configured: ConfiguredRule, rule: _ThreadedRule, pending_step: StepToJudge) -> JudgingTask:
        window = _shared(self._steps.visible_to(configured, pending_step.window), self._run_lock, rule.thread)
        pending_step = replace(pending_step, window=window)
        return JudgingTask(
            window.step, window.step, lambda progress: self._rule_judge.judge(configured, progress, pending_step)
        )

    def _verdict_at_once(self, name: str, rule: _ThreadedRule) -> Verdict | None:
        """Return the verdict of the task just queued. Mark a rule that takes too long as behind."""
        self._wait_for(rule.thread)
        if rule.thread.is_idle:
            return next(iter([*self._take_verdicts(name)]), None)
        rule.is_behind, rule.steps = True, iter(())
        return None

    def _wait_for(self, thread: RuleThread) -> None:
        """Wait for the thread until it is idle or stuck, at most for the waiting time left in this poll."""
        began = time.monotonic()
        with self._run_lock.released():
            while not thread.is_idle and not self._is_stuck(thread):
                left = self._wait_seconds - (time.monotonic() - began)
                if left <= 0:
                    break
                thread.wait(min(left, 1.0))
        self._wait_seconds -= time.monotonic() - began

    def _take_verdicts(self, name: str) -> Iterator[Verdict]:
        """Yield the new verdicts of a rule. The caller sends each one before it takes the next."""
        rule = self._threaded[name]
        judgements, failure = rule.thread.take()
        for judgement in judgements:
            if (verdict := self._run_progress.note(name, judgement)) is not None:
                yield verdict
        if self._run_progress.of(name).has_concluded:
            self.drop(name)
        elif failure is not None and isinstance(failure.error, StorageUnavailableError):
            self._run_progress.outbox.warn_once(f"{name} cannot read the run, and tries again: {failure.error}")
            rule.thread.start_over(self._run_progress.of(name))
            rule.is_behind, rule.is_resting, rule.steps = True, True, iter(())
        elif failure is not None:  # without access to the run the evaluator cannot read either, and reports it
            self.drop(name)
            moment = Moment(self._run, failure.step, self._clock())
            judgement = self._rule_judge.crashed(
                self._run_progress.rules[name], self._run_progress.of(name), moment, failure.error
            )
            if (verdict := self._run_progress.note(name, judgement)) is not None:
                yield verdict

    # Rules that are behind.

    def begin_poll(self) -> None:
        """Reset the waiting time, and let rules try the store again that could not reach it."""
        self._wait_seconds = self._limits.wait_seconds
        self._abandoned = [thread for thread in self._abandoned if not thread.abandon()]
        for rule in self._threaded.values():
            rule.is_resting = False
        self.collect()

    def collect(self) -> None:
        """Send the verdicts of the rules that are behind, queue more steps for them, and abandon stuck ones.

        Waits for none.
        """
        for name in tuple(self._threaded):
            rule = self._threaded[name]
            if not rule.is_behind or rule.is_resting:
                continue
            for verdict in self._take_verdicts(name):
                self._run_progress.outbox.send([verdict])
            if name in self._threaded and not rule.is_resting:
                self._queue_steps(name, rule)
                self._abandon_if_stuck(name, rule)

    def _queue_steps(self, name: str, rule: _ThreadedRule) -> None:
        """Queue the next steps of a rule, as many as fit. Without a step left, the rule is no longer behind."""
        if rule.thread.free_slots <= MOST_TASKS // 2 or self._queue_remaining(name, rule):
            return
        if rule.thread.is_idle:
            steps = self._trial.new_complete_steps(rule.thread.queued_through)
            rule.steps, rule.last = iter(steps), steps[-1] if self._trial.has_ended and steps else None
            rule.is_behind = self._queue_remaining(name, rule)

    def _queue_remaining(self, name: str, rule: _ThreadedRule) -> bool:
        configured, now, has_queued = self._run_progress.rules[name], self._clock(), False
        while rule.thread.free_slots > 0 and (step := next(rule.steps, None)) is not None:
            pending_step = self._steps.at(step, now, is_last=step == rule.last)
            if must_judge(configured, rule.thread.queued_through, pending_step):
                rule.thread.submit(self._task(configured, rule, pending_step))
                has_queued = True
        return has_queued

    def catch_up(self) -> None:
        """Wait up to `CATCH_UP_SECONDS` for the rules that are behind."""
        until = time.monotonic() + CATCH_UP_SECONDS
        while time.monotonic() < until:
            self.collect()
            behind = [rule.thread for rule in self._threaded.values() if rule.is_behind and not rule.is_resting]
            if not behind:
                return
            with self._run_lock.released():
                behind[0].wait(0.02)

    # Rules that are abandoned.

    def _is_stuck(self, thread: RuleThread) -> bool:
        stuck = thread.stuck
        return stuck is not None and stuck.seconds > self._limits.step_seconds

    def _abandon_if_stuck(self, name: str, rule: _ThreadedRule) -> None:
        stuck = rule.thread.stuck
        if stuck is None or stuck.seconds <= self._limits.step_seconds:
            return
        moment = Moment(self._run, stuck.step, self._clock())
        verdict = verdicts.abandoned(self._run_progress.rules[name], moment, seconds=stuck.seconds)
        self._abandon(name, verdict, error=f"still at step {stuck.step} after {stuck.seconds:.0f} seconds")

    def abandon_late(self, newest_step: int) -> None:
        """Abandon the rules still behind `end_seconds` after the run ended and every other rule finished."""
        now = time.monotonic()
        self._ended_at = now if self._ended_at is None else self._ended_at
        seconds = now - self._ended_at
        if seconds <= self._limits.end_seconds:
            return
        last_step = max([newest_step, *self._trial.new_complete_steps(newest_step)[-1:]])
        self.collect()  # send the verdicts that came meanwhile
        for name in [name for name, rule in self._threaded.items() if rule.is_behind]:
            moment = Moment(self._run, max(self._run_progress.of(name).judged_through, 0), self._clock())
            verdict = verdicts.out_of_time(self._run_progress.rules[name], moment, last_step=last_step, seconds=seconds)
            self._abandon(name, verdict, error=f"{seconds:.0f} seconds after the end only at step {moment.step}")

    def _abandon(self, name: str, verdict: Verdict, *, error: str) -> None:
        _logger.error("%s", verdict.message)
        self.drop(name)
        progress = replace(self._run_progress.of(name), judged_through=verdict.step, has_concluded=True, error=error)
        self._run_progress.note(name, Judgement(progress))
        self._run_progress.outbox.send([verdict])

    def _let_go(self, thread: RuleThread) -> None:
        if not thread.abandon():
            self._abandoned.append(thread)

    def end(self) -> None:
        """End the threads, as far as they end within `END_THREADS_SECONDS`. The rest ends with the process."""
        threads = [*(rule.thread for rule in self._threaded.values()), *self._abandoned]
        until = time.monotonic() + END_THREADS_SECONDS
        while threads := [thread for thread in threads if not thread.abandon()]:
            if time.monotonic() >= until:
                return
            time.sleep(0.005)


def _shared(window: Window, run_lock: RunLock, thread: RuleThread) -> Window:
    """Return the window with sources that a rule's own thread may read."""
    others = {name: SharedSource(source, run_lock, thread.reading) for name, source in window.others.items()}
    return replace(window, source=SharedSource(window.source, run_lock, thread.reading), others=others)


def _file_of(configured: ConfiguredRule) -> str:
    """Return the path of the rule's code, as in its frames; "" if unknown."""
    custom = configured.configuration.custom
    if custom is not None:
        return custom.source
    try:
        return inspect.getfile(type(configured.rule))
    except (TypeError, OSError):
        return ""
