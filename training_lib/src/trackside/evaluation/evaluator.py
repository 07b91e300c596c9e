"""The evaluator of a growing run: judges each complete step in order by each rule, and sends each verdict once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Verdict
from trackside.evaluation.asking import Asker, StepToJudge, how_to_ask
from trackside.evaluation.last_words import last_word
from trackside.evaluation.ledger import Ledger
from trackside.evaluation.other_runs import OtherRuns
from trackside.evaluation.pace import LONGEST_SECONDS, Pace
from trackside.evaluation.progress import ProgressFile
from trackside.evaluation.rule_limits import RuleLimits
from trackside.evaluation.rules_apart import RulesApart
from trackside.evaluation.shared_reading import Turns
from trackside.evaluation.sinks.sink import Sink
from trackside.evaluation.steps_to_judge import StepsToJudge, is_asked
from trackside.evaluation.summary import Summary
from trackside.evaluation.verdicts import Moment
from trackside.rules.catalogue import ConfiguredRule, build_rules
from trackside.rules.rule import is_paced_step
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.trial import Trial, trial_of

DELIVERY_SECONDS_AFTER_THE_END = 300.0
SIGN_OF_LIFE_SECONDS = 300.0  # the progress is stored at least this often: by its age a dead evaluator is found
REMOTE_PROGRESS_SECONDS = 10.0  # a request each time: after a kill, so many seconds are judged again
MOST_SLOW_STEPS = 3  # slow steps in the evaluator's thread after which a rule gets a thread of its own

_logger = logging.getLogger(__name__)


def evaluate(
    run: RunLocation,
    request: RuleRequest,
    sinks: Sequence[Sink],
    *,
    poll_seconds: float,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
    should_stop: Callable[[], bool],
    stores: Callable[[str], Store] = open_store,
    runs_custom_rules: bool = True,
    limits: RuleLimits = RuleLimits(),  # noqa: B008  frozen
) -> Summary:
    """Judge the run until it has ended and is fully judged, or until `should_stop` returns True.

    Continues where an earlier evaluator of this run stopped or died. After `should_stop`, complete steps are still
    judged, except by slow rules.

    clock              returns seconds since the epoch
    sleep              may return early
    runs_custom_rules  False: a rule from a file that the request names is not run; its verdict is "not judged"
    limits             time limits of a rule

    Errors: `ConfigurationError` for the request; `StorageError` if the run cannot be read (outages are waited out).
    """
    refused = () if runs_custom_rules else tuple(rule for rule in request.rules if rule.custom is not None)
    rules = build_rules(RuleRequest(tuple(rule for rule in request.rules if rule not in refused)))
    trial, is_remote = trial_of(run, stores), "://" in run.uri
    progress_file = ProgressFile(stores(run.rule_output))
    evaluator = Evaluator(
        trial,
        rules,
        sinks,
        progress_file,
        run=run.name,
        clock=clock,
        refused=refused,
        stores=stores,
        limits=limits,
        apart=[rule.configuration.name for rule in rules if not _ships_with_trackside(rule)],
        progress_seconds=REMOTE_PROGRESS_SECONDS if is_remote else 0.0,
    )
    longest = LONGEST_SECONDS if is_remote else poll_seconds  # a look into a folder costs almost nothing
    return evaluator.watch(poll_seconds=poll_seconds, longest_seconds=longest, sleep=sleep, should_stop=should_stop)


class Evaluator:
    """Judges one run with rules that are already built.

    Configurations in `apart`, rules from files, and rules that turn out to be slow (`RuleLimits`) get a thread each;
    the others are asked in the evaluator's thread. While a rule is quick, its verdicts and their order do not depend on
    the thread.

    run               the run's name in verdicts
    clock             returns seconds since the epoch
    refused           configurations that get the verdict "not judged here"
    stores            opens the runs that rules compare with
    limits            time limits of a rule
    apart             configurations that get a thread from the start
    progress_seconds  interval between writes of the progress without a verdict; each verdict writes it at once
    critical          by built-in rule, the kinds of harm with which it is critical; None for the learned ones
    """

    def __init__(
        self,
        trial: Trial,
        rules: Sequence[ConfiguredRule],
        sinks: Sequence[Sink],
        progress_file: ProgressFile,
        *,
        run: str,
        clock: Callable[[], float],
        refused: Sequence[RuleConfiguration] = (),
        stores: Callable[[str], Store] = open_store,
        limits: RuleLimits = RuleLimits(),  # noqa: B008  frozen
        apart: Collection[str] = (),
        progress_seconds: float = 0.0,
        critical: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._trial, self._run, self._clock, self._limits = trial, run, clock, limits
        self._progress_seconds = progress_seconds
        self._rules = {rule.configuration.name: rule for rule in rules}
        self._others = OtherRuns([rule.rule for rule in rules], stores)
        self._ledger = Ledger(self._rules, refused, progress_file, sinks, run=run)
        self._outbox = self._ledger.outbox
        # The time at which a restarted evaluator starts, since it did not see the step come.
        self._newest_step, self._newest_at = self._ledger.judged_through, clock()
        self._last_sign_at = self._newest_at
        self._steps = StepsToJudge(trial, self._others)
        self._turns = Turns()
        self._asker = Asker(trial, run=run, lock=self._turns.lock, critical=critical)
        self._apart = RulesApart(
            trial, self._ledger, self._steps, self._asker, self._turns, run=run, clock=clock, limits=limits
        )
        for name in self._ledger.open():
            if name in apart or self._rules[name].configuration.custom is not None:
                self._apart.add(name)
        self._slow_steps: dict[str, int] = {}
        self._asked_until: float | None = None  # thread time at the last answer; None at the start of a step
        self._damaged_told = 0

    def watch(
        self,
        *,
        poll_seconds: float,
        longest_seconds: float = 0.0,
        sleep: Callable[[float], object],
        should_stop: Callable[[], bool],
    ) -> Summary:
        """Sweep until everything is judged and delivered, or until `should_stop` returns True. Return the summary.

        poll_seconds     the pause between two sweeps while steps are quick
        longest_seconds  the longest pause while steps are slow
        """
        pace = Pace(shortest_seconds=poll_seconds, longest_seconds=longest_seconds, now=self._clock())
        try:
            return self._watch(pace, sleep, should_stop)
        finally:
            self._apart.end()

    def _watch(self, pace: Pace, sleep: Callable[[float], object], should_stop: Callable[[], bool]) -> Summary:
        give_up_at: float | None = None
        while True:
            is_last = should_stop()
            seen = self._newest_step
            self._through_outages(self.sweep)
            if self._newest_step > seen:
                pace.note_news(self._clock())
            if self.is_done:
                if give_up_at is None:
                    give_up_at = self._clock() + DELIVERY_SECONDS_AFTER_THE_END
                if not self._ledger.progress.outbox or self._clock() >= give_up_at:
                    return self.summary()
            if is_last:
                self._through_outages(self._leave_off)
                return self.summary()
            if not should_stop():
                sleep(pace.pause_seconds(self._clock()))

    def sweep(self) -> None:
        """Judge every new complete step, send the verdicts, and retry undelivered ones.

        Errors: those of the trial's store. Steps judged before the error stay judged.
        """
        with self._turns.lock:
            self._sweep()

    def _sweep(self) -> None:
        self._trial.refresh()
        self._others.refresh()
        now = self._clock()
        self._ledger.refuse(now)
        self._apart.begin_sweep()
        names = self._abreast()
        steps = self._trial.new_complete_steps(self._judged_by_all(names))
        has_grown = bool(steps) and steps[-1] > self._newest_step  # paced rules leave old steps unjudged
        for step in steps:
            names = self._judge_step(self._steps.at(step, now, is_last=False), names)
        if steps and self._trial.has_ended:  # paced rules judge the last step too
            self._judge_step(self._steps.at(steps[-1], now, is_last=True), names)
        if has_grown:
            self._newest_step, self._newest_at = steps[-1], now
        self._apart.attend()
        if self._trial.has_ended:
            self._apart.catch_up()
            self._conclude(now)
            self._apart.give_up_the_late(self._newest_step)
        elif not has_grown and self._newest_step >= 0:
            self._outbox.say([v for name in self._abreast() if (v := self._judge_waiting(name, now)) is not None])
        self._tell_damage()
        quiet_seconds = now - self._last_sign_at
        if quiet_seconds >= (self._progress_seconds if self._outbox.has_moved else SIGN_OF_LIFE_SECONDS):
            self._last_sign_at, self._outbox.is_unsaved = now, True
        self._outbox.deliver()

    @property
    def is_done(self) -> bool:
        """True once the run has ended and every rule has its final verdict."""
        return self._trial.has_ended and not self._ledger.open()

    def summary(self) -> Summary:
        """Return the present state of the evaluation."""
        progress = self._ledger.progress
        with self._turns.lock:
            damaged = self._trial.damaged
        return Summary(
            verdicts=progress.verdicts,
            judged={name: rule.judged for name, rule in progress.rules.items()},
            last_step=self._ledger.judged_through,
            has_ended=self.is_done,
            crashed=self._ledger.crashed(),
            refused=tuple(self._ledger.refused),
            undelivered=tuple(said.verdict for said in progress.outbox),
            damaged=damaged,
        )

    def _through_outages(self, act: Callable[[], None]) -> None:
        try:
            act()
        except StorageUnavailableError as error:
            self._outbox.tell_once(f"The run cannot be read at the moment; looking again: {error}")

    def _abreast(self) -> tuple[str, ...]:
        """Return the unfinished configurations that judge each step together."""
        return tuple(name for name in self._ledger.open() if not self._apart.is_behind(name))

    def _due(self, names: tuple[str, ...], there: StepToJudge) -> Sequence[str]:
        """Return the configurations to ask at this step: without the paced ones at a step that is none of theirs.

        Most rules are paced, and most steps are none of theirs: this saves a call for each.
        """
        if there.is_last or any(is_paced_step(there.window.step, through) for through in self._paced_through(names)):
            return names
        return [name for name in names if not self._rules[name].rule.paced]

    def _paced_through(self, names: tuple[str, ...]) -> set[int]:
        return {self._asked_through(name) for name in names if self._rules[name].rule.paced}

    def _judged_by_all(self, names: Iterable[str]) -> int:
        return min(map(self._asked_through, names), default=self._newest_step if self._apart else 2**63)

    def _asked_through(self, name: str) -> int:
        return self._apart.asked_through(name) if name in self._apart else self._ledger.of(name).judged_through

    def _judge_step(self, there: StepToJudge, names: tuple[str, ...]) -> tuple[str, ...]:
        """Ask these rules about a step. Return the ones that still judge each step together."""
        self._asked_until = None
        found = [verdict for name in self._due(names, there) if (verdict := self._judge(name, there)) is not None]
        if found:
            self._outbox.say(found)
            names = self._abreast()
        if self._apart:
            self._turns.make_room()
            self._apart.attend()
        return names

    def _judge(self, name: str, there: StepToJudge) -> Verdict | None:
        """Return one rule's verdict at a step, if it has one at once."""
        configured, progress = self._rules[name], self._ledger.of(name)
        if progress.has_concluded:  # since this sweep began
            return None
        if name in self._apart:
            return self._apart.ask(name, there) if is_asked(configured, self._asked_through(name), there) else None
        if not is_asked(configured, progress.judged_through, there):
            return None
        if how_to_ask(configured, there) is None:
            self._ledger.pass_over(name, there.window.step)
            return self._weigh_again(name, configured, there)
        return self._ask_here(name, configured, there)

    def _weigh_again(self, name: str, configured: ConfiguredRule, there: StepToJudge) -> Verdict | None:
        """Return the open issue of a rule as graver, if the training is hurt by now."""
        opened = self._outbox.last_issue(name) if self._ledger.of(name).is_open else None
        if opened is None:
            return None
        return self._ledger.note(name, self._asker.weigh_again(configured, self._ledger.of(name), opened, there.window))

    def _ask_here(self, name: str, configured: ConfiguredRule, there: StepToJudge) -> Verdict | None:
        """Ask a rule in this thread, and return its verdict.

        Move a rule that needs much processor time to a thread of its own.

        Reading a store needs little processor time and does not count. The clock is a system call: it is read once
        between two rules.
        """
        window = self._steps.as_seen_by(configured, there.window)
        if window is not there.window:
            there = replace(there, window=window)
        began = time.thread_time() if self._asked_until is None else self._asked_until
        answer = self._asker.ask(configured, self._ledger.of(name), there)
        self._asked_until = time.thread_time()
        is_slow = self._asked_until - began > self._limits.quick_seconds
        verdict = self._ledger.note(name, answer)
        if is_slow and not answer.progress.has_concluded:
            self._slow_steps[name] = self._slow_steps.get(name, 0) + 1
            if self._slow_steps[name] >= MOST_SLOW_STEPS:
                _logger.info("%s is slow, and goes on at its own pace", name)
                self._apart.add(name)
        return verdict

    def _judge_waiting(self, name: str, now: float) -> Verdict | None:
        """Return the verdict of a rule that watches the clock, while no new step comes."""
        configured = self._rules[name]
        if not configured.rule.judges_waiting:
            return None
        window = self._trial.window(self._newest_step, now=now, newest_step_at=self._newest_at)
        if name in self._apart:
            return self._apart.ask_again(name, window)
        return self._ledger.note(name, self._asker.ask_again(configured, self._ledger.of(name), window))

    def _leave_off(self) -> None:
        with self._turns.lock:
            self._apart.catch_up()
            self._outbox.is_unsaved |= self._outbox.has_moved
            self._outbox.deliver()

    def _conclude(self, now: float) -> None:
        """Send the final verdicts at the end of the run.

        All are computed before the first is sent, since computing one may fail.
        """
        last_words = {name: self._last_word(name, now) for name in self._abreast()}
        for name in last_words:
            self._ledger.conclude(name)
            self._apart.drop(name)
        self._outbox.say([verdict for verdict in last_words.values() if verdict is not None])

    def _last_word(self, name: str, now: float) -> Verdict | None:
        progress = self._ledger.of(name)
        moment = Moment(self._run, max(progress.judged_through, 0), now)
        return last_word(self._rules[name], progress, moment, self._trial)

    def _tell_damage(self) -> None:
        damaged = self._trial.damaged
        for error in damaged[self._damaged_told :]:
            _logger.warning("Left out, because it cannot be read: %s", error)
        self._damaged_told = len(damaged)


def _ships_with_trackside(configured: ConfiguredRule) -> bool:
    return type(configured.rule).__module__.startswith("trackside.rules.")
