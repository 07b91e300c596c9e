"""The evaluator of a growing run: judges each complete step in order by each rule, and sends each verdict once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.learning import Learning
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Verdict
from trackside.diagnosis.learning import learning_of
from trackside.evaluation.cut_run import is_cut
from trackside.evaluation.other_runs import OtherRuns
from trackside.evaluation.poll_interval import LONGEST_SECONDS, PollInterval
from trackside.evaluation.results.final_verdict import final_verdict, not_finite_since
from trackside.evaluation.results.judging import RuleJudge, StepToJudge
from trackside.evaluation.results.progress import ProgressFile
from trackside.evaluation.results.run_progress import RunProgress
from trackside.evaluation.results.summary import Summary
from trackside.evaluation.rule_processes.rule_limits import RuleLimits
from trackside.evaluation.rule_processes.shared_reading import RunLock
from trackside.evaluation.rule_processes.threaded_rules import ThreadedRules
from trackside.evaluation.sinks.sink import Sink
from trackside.evaluation.steps_to_judge import StepsToJudge, must_judge
from trackside.rules.catalogue import ConfiguredRule, build_rules
from trackside.rules.rule import Rule, is_paced_step, ships_with_trackside
from trackside.rules.rule_file import load_rule
from trackside.storage.open_store import OpenStore, open_store
from trackside.trial.trial import Trial, trial_of
from trackside.trial.window import Window

DELIVERY_SECONDS_AFTER_THE_END = 300.0
HEARTBEAT_SECONDS = 300.0  # the progress is stored at least this often: by its age a dead evaluator is found
REMOTE_PROGRESS_SECONDS = 10.0  # a request each time: after a kill, so many seconds are judged again
NO_STEP_IS_NEWER = 2**63  # above every step number: steps are signed 64-bit integers
MOST_CLOCK_SECONDS = 0.005  # for which time by the clock is taken for processor time
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
    stores: OpenStore = open_store,
    runs_custom_rules: bool = True,
    limits: RuleLimits = RuleLimits(),  # noqa: B008  frozen
    note_progress: Callable[[], object] = lambda: None,
) -> Summary:
    """Judge the run until it has ended and is fully judged, or until `should_stop` returns True.

    Continues where an earlier evaluator of this run stopped or died. After `should_stop`, complete steps are still
    judged, except by slow rules.

    clock              returns seconds since the epoch
    sleep              may return early
    runs_custom_rules  False: a rule from a file that the request names is not run; its verdict is "not judged"
    limits             limits of a rule in time and memory
    note_progress      called at each look and each judged step, often: an evaluator that does not call it hangs

    Errors: `ConfigurationError` for the request; `StorageError` if the run cannot be read (outages are waited out).
    """
    refused = () if runs_custom_rules else tuple(rule for rule in request.rules if rule.custom is not None)
    with ExitStack() as processes:
        judged = RuleRequest(tuple(rule for rule in request.rules if rule not in refused))
        rules = build_rules(judged, load=_loader_of(judged, processes, limits))
        trial, is_remote = trial_of(run, stores), "://" in run.uri
        evaluator = Evaluator(
            trial,
            rules,
            sinks,
            ProgressFile(stores(run.rule_output)),
            run=run.name,
            clock=clock,
            refused=refused,
            stores=stores,
            limits=limits,
            threaded=[rule.configuration.name for rule in rules if not ships_with_trackside(rule.rule)],
            progress_seconds=REMOTE_PROGRESS_SECONDS if is_remote else 0.0,
            note_progress=note_progress,
            is_cut=lambda: is_cut(stores(run.uri)),
        )
        longest = LONGEST_SECONDS if is_remote else poll_seconds  # a look into a folder costs almost nothing
        return evaluator.watch(poll_seconds=poll_seconds, longest_seconds=longest, sleep=sleep, should_stop=should_stop)


class _PacedRules(NamedTuple):
    """The paced rules between two steps at which they judge: asking all of them at each step would take longer.

    names    all configurations that judge together
    through  the newest steps that paced ones have judged
    others   the configurations that are not paced
    """

    names: tuple[str, ...]
    through: set[int]
    others: list[str]


class Evaluator:
    """Judges one run with rules that are already built.

    Configurations in `threaded`, rules from files, and rules that turn out to be slow (`RuleLimits`) get a thread each;
    the others judge in the evaluator's thread. While a rule is quick, its verdicts and their order do not depend on
    the thread.

    run               the run's name in verdicts
    clock             returns seconds since the epoch
    refused           configurations that get the verdict "not judged here"
    stores            opens the runs that rules compare with
    limits            limits of a rule in time and memory
    threaded          configurations that get a thread from the start
    progress_seconds  interval between writes of the progress without a verdict; each verdict writes it at once
    critical          by built-in rule, the kinds of harm with which it is critical; None for the learned ones
    note_progress     called at each look and each judged step
    is_cut            returns True if the training would go on behind the last step, as that of a rehearsal
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
        stores: OpenStore = open_store,
        limits: RuleLimits = RuleLimits(),  # noqa: B008  frozen
        threaded: Collection[str] = (),
        progress_seconds: float = 0.0,
        critical: Mapping[str, Sequence[str]] | None = None,
        note_progress: Callable[[], object] = lambda: None,
        is_cut: Callable[[], bool] = lambda: False,
    ) -> None:
        self._trial, self._run, self._clock, self._limits = trial, run, clock, limits
        self._note_progress = note_progress
        self._progress_seconds = progress_seconds
        self._rules = {rule.configuration.name: rule for rule in rules}
        self._others = OtherRuns([rule.rule for rule in rules], stores)
        self._run_progress = RunProgress(self._rules, refused, progress_file, sinks, run=run)
        self._outbox = self._run_progress.outbox
        # The time at which a restarted evaluator starts, since it did not see the step come.
        self._newest_step, self._newest_at = self._run_progress.judged_through, clock()
        self._last_heartbeat_at = self._newest_at
        self._steps = StepsToJudge(trial, self._others, is_cut=is_cut)
        self._run_lock = RunLock()
        self._rule_judge = RuleJudge(trial, run=run, lock=self._run_lock.lock, critical=critical)
        self._threaded = ThreadedRules(
            trial,
            self._run_progress,
            self._steps,
            self._rule_judge,
            self._run_lock,
            run=run,
            clock=clock,
            limits=limits,
        )
        for name in self._run_progress.open():
            if name in threaded or self._rules[name].configuration.custom is not None:
                self._threaded.add(name)
        self._paced: _PacedRules | None = None  # None: not known at this step
        self._slow_steps: dict[str, int] = {}
        self._judged_as_last: set[str] = set()  # configurations that judged the last step as the last
        self._quick_until = 0.0, 0.0  # thread time and clock: since then each rule was quick
        self._damaged_logged = 0
        self._learning: Learning | None = None

    def watch(
        self,
        *,
        poll_seconds: float,
        longest_seconds: float = 0.0,
        sleep: Callable[[float], object],
        should_stop: Callable[[], bool],
    ) -> Summary:
        """Poll until everything is judged and delivered, or until `should_stop` returns True. Return the summary.

        poll_seconds     the pause between two polls while steps are quick
        longest_seconds  the longest pause while steps are slow
        """
        interval = PollInterval(shortest_seconds=poll_seconds, longest_seconds=longest_seconds, now=self._clock())
        try:
            return self._watch(interval, sleep, should_stop)
        finally:
            self._threaded.end()

    def _watch(
        self, interval: PollInterval, sleep: Callable[[float], object], should_stop: Callable[[], bool]
    ) -> Summary:
        deadline: float | None = None
        while True:
            is_last = should_stop()
            seen, verdicts = self._newest_step, len(self._run_progress.progress.deliveries)
            self._through_outages(self.poll)
            if self._newest_step > seen:
                interval.note_new_steps(self._clock())
            if len(self._run_progress.progress.deliveries) > verdicts:
                interval.note_issue(self._clock())
            if self.is_done:
                if deadline is None:
                    deadline = self._clock() + DELIVERY_SECONDS_AFTER_THE_END
                if not self._run_progress.progress.outbox or self._clock() >= deadline:
                    return self.summary()
            if is_last:
                self._through_outages(self._leave)
                return self.summary()
            if not should_stop():
                sleep(interval.pause_seconds(self._clock()))

    def poll(self) -> None:
        """Judge every new complete step, send the verdicts, and retry undelivered ones.

        Errors: those of the trial's store. Steps judged before the error stay judged.
        """
        with self._run_lock.lock:
            self._poll()

    def _poll(self) -> None:
        self._note_progress()
        self._trial.refresh()
        self._others.refresh()
        now = self._clock()
        self._run_progress.refuse(now)
        self._threaded.begin_poll()
        self._paced = None
        names = self._judging_together()
        steps = self._trial.new_complete_steps(self._judged_by_all(names))
        has_grown = bool(steps) and steps[-1] > self._newest_step  # paced rules leave old steps unjudged
        for step in steps:
            names = self._judge_step(self._steps.at(step, now, is_last=False), names)
        if steps and self._trial.has_ended:  # paced rules judge the last step too, after all others, as in a live run
            self._judge_step(self._steps.at(steps[-1], now, is_last=True), names)
        if has_grown:
            self._newest_step, self._newest_at = steps[-1], now
        self._threaded.collect()
        if self._trial.has_ended:
            self._threaded.catch_up()
            self._conclude(now)
            self._threaded.abandon_late(self._newest_step)
        elif not has_grown and self._newest_step >= 0:
            waiting = [self._judge_waiting(name, now) for name in self._judging_together()]
            self._outbox.send([verdict for verdict in waiting if verdict is not None])
        self._log_damage()
        unsaved_seconds = now - self._last_heartbeat_at
        if unsaved_seconds >= (self._progress_seconds if self._outbox.has_moved else HEARTBEAT_SECONDS):
            self._last_heartbeat_at, self._outbox.is_unsaved = now, True
        self._outbox.deliver()

    @property
    def is_done(self) -> bool:
        """True once the run has ended and every rule has its final verdict."""
        return self._trial.has_ended and not self._run_progress.open()

    def summary(self) -> Summary:
        """Return the present state of the evaluation."""
        progress = self._run_progress.progress
        with self._run_lock.lock:
            damaged = self._trial.damaged
        return Summary(
            verdicts=progress.verdicts,
            judged={name: rule.judged for name, rule in progress.rules.items()},
            last_step=self._run_progress.judged_through,
            has_ended=self.is_done,
            crashed=self._run_progress.crashed(),
            refused=tuple(self._run_progress.refused),
            undelivered=tuple(delivery.verdict for delivery in progress.outbox),
            damaged=damaged,
            learning=self._learning,
        )

    def _through_outages(self, act: Callable[[], None]) -> None:
        try:
            act()
        except StorageUnavailableError as error:
            self._outbox.warn_once(f"The run cannot be read at the moment; looking again: {error}")

    def _judging_together(self) -> tuple[str, ...]:
        """Return the unfinished configurations that judge each step together."""
        return tuple(name for name in self._run_progress.open() if not self._threaded.is_behind(name))

    def _due(self, names: tuple[str, ...], pending_step: StepToJudge) -> Sequence[str]:
        """Return the configurations to ask at this step: without the paced ones at a step that is none of theirs.

        Most rules are paced, and most steps are none of theirs: this saves a call for each.
        """
        if self._paced is None or self._paced.names is not names:
            through = {self._queued_through(name) for name in names if self._rules[name].rule.paced}
            others = [name for name in names if not self._rules[name].rule.paced]
            self._paced = _PacedRules(names, through, others)
        step, paced = pending_step.window.step, self._paced
        if not pending_step.is_last and not any(is_paced_step(step, through) for through in paced.through):
            return paced.others
        self._paced = None  # they judge this step
        return names

    def _judged_by_all(self, names: Iterable[str]) -> int:
        no_rule_left = self._newest_step if self._threaded else NO_STEP_IS_NEWER
        return min(map(self._queued_through, names), default=no_rule_left)

    def _queued_through(self, name: str) -> int:
        if name in self._threaded:
            return self._threaded.queued_through(name)
        return self._run_progress.of(name).judged_through

    def _judge_step(self, pending_step: StepToJudge, names: tuple[str, ...]) -> tuple[str, ...]:
        """Ask these rules about a step. Return the ones that still judge each step together."""
        clock = time.perf_counter()
        if clock - self._quick_until[1] > MOST_CLOCK_SECONDS:
            self._quick_until = time.thread_time(), clock
        self._note_progress()
        due = self._due(names, pending_step)
        found = [verdict for name in due if (verdict := self._judge(name, pending_step)) is not None]
        if found:
            self._outbox.send(found)
            names = self._judging_together()
        if self._threaded:
            self._run_lock.let_readers_in()
            self._threaded.collect()
        return names

    def _judge(self, name: str, pending_step: StepToJudge) -> Verdict | None:
        """Return one rule's verdict at a step, if it has one at once."""
        configured, progress = self._rules[name], self._run_progress.progress.rules[name]
        if progress.has_concluded:  # since this poll began
            return None
        if pending_step.is_last and must_judge(configured, self._queued_through(name), pending_step):
            self._judged_as_last.add(name)
        if self._threaded and name in self._threaded:
            if not must_judge(configured, self._queued_through(name), pending_step):
                return None
            return self._threaded.judge(name, pending_step)
        if not must_judge(configured, progress.judged_through, pending_step):
            return None
        if pending_step.data.visible_to(configured) is None:
            self._run_progress.pass_over(progress, pending_step.window.step)
            return self._weigh_again(name, configured, pending_step) if progress.is_open else None
        return self._judge_in_this_thread(name, configured, pending_step)

    def _weigh_again(self, name: str, configured: ConfiguredRule, pending_step: StepToJudge) -> Verdict | None:
        """Return the open issue of a rule as graver, if the training is hurt by now."""
        opened = self._outbox.last_issue(name)
        if opened is None:
            return None
        progress = self._run_progress.of(name)
        judgement = self._rule_judge.weigh_again(configured, progress, opened, pending_step.window)
        return self._run_progress.note(name, judgement)

    def _judge_in_this_thread(self, name: str, configured: ConfiguredRule, pending_step: StepToJudge) -> Verdict | None:
        """Ask a rule in this thread, and return its verdict.

        Move a rule that needs much processor time to a thread of its own.

        Reading a store needs little processor time and does not count.
        """
        window = self._steps.visible_to(configured, pending_step.window)
        if window is not pending_step.window:
            pending_step = replace(pending_step, window=window)
        began = time.perf_counter()
        judgement = self._rule_judge.judge(configured, self._run_progress.progress.rules[name], pending_step)
        is_slow = time.perf_counter() - began > self._limits.quick_seconds and self._has_used_processor(began)
        verdict = self._run_progress.note(name, judgement)
        if is_slow and not judgement.progress.has_concluded:
            self._slow_steps[name] = self._slow_steps.get(name, 0) + 1
            if self._slow_steps[name] >= MOST_SLOW_STEPS:
                _logger.info("%s is slow, and judges in a thread of its own from now on", name)
                self._threaded.add(name)
        return verdict

    def _has_used_processor(self, began: float) -> bool:
        """Return True if a rule that began at `began`, by the clock, has needed too much processor time.

        The thread's time is a system call, so it is read now and then, and after a rule that took long by the clock.
        The rules in between were quick: their time by the clock is taken for their processor time.
        """
        thread_seconds, clock = self._quick_until
        self._quick_until = now = time.thread_time(), time.perf_counter()
        return now[0] - thread_seconds - (began - clock) > self._limits.quick_seconds

    def _judge_waiting(self, name: str, now: float) -> Verdict | None:
        """Return the verdict of a rule that watches the clock, while no new step comes."""
        configured = self._rules[name]
        if not configured.rule.judges_waiting:
            return None
        return self._judge_once_more(
            name, self._trial.window(self._newest_step, now=now, newest_step_at=self._newest_at)
        )

    def _judge_once_more(self, name: str, window: Window) -> Verdict | None:
        """Return the verdict of a rule that is asked about the newest step once more."""
        if name in self._threaded:
            return self._threaded.judge_again(name, window)
        judgement = self._rule_judge.judge_again(self._rules[name], self._run_progress.of(name), window)
        return self._run_progress.note(name, judgement)

    def _leave(self) -> None:
        with self._run_lock.lock:
            self._threaded.catch_up()
            self._outbox.is_unsaved |= self._outbox.has_moved
            self._outbox.deliver()

    def _conclude(self, now: float) -> None:
        """Send the final verdicts at the end of the run.

        All are computed before the first is sent, since computing one may fail.
        """
        last = [self._judge_the_end(name, now) for name in self._judging_together()]
        self._outbox.send([verdict for verdict in last if verdict is not None])
        final_verdicts = {name: self._final_verdict(name, now) for name in self._judging_together()}
        for name in final_verdicts:
            self._run_progress.conclude(name)
            self._threaded.drop(name)
        self._outbox.send([verdict for verdict in final_verdicts.values() if verdict is not None])
        if self._learning is None and not self._run_progress.open():
            self._learning = self._learned(now)

    def _judge_the_end(self, name: str, now: float) -> Verdict | None:
        """Return the verdict of a rule that looks at the newest step once more when the run has ended.

        So does a rule with a pace that judged the newest step before it was known to be the last.
        """
        progress, rule = self._run_progress.of(name), self._rules[name].rule
        is_new = name not in self._judged_as_last and name not in self._threaded
        did_not_know = rule.paced and rule.patience == 1 and is_new
        if not (rule.judges_the_end or did_not_know) or progress.judged_through < 0 or progress.is_open:
            return None
        return self._judge_once_more(name, self._steps.at(progress.judged_through, now, is_last=True).window)

    def _learned(self, now: float) -> Learning | None:
        """Return what the run has learned. A failure is logged only: the verdicts are worth having without it."""
        if self._newest_step < 0:
            return None
        try:
            return learning_of(self._steps.at(self._newest_step, now, is_last=True).window)
        except Exception:
            _logger.warning("What the run has learned is unknown", exc_info=True)
            return None

    def _final_verdict(self, name: str, now: float) -> Verdict | None:
        progress, found = self._run_progress.of(name), self._run_progress.progress.verdicts
        return final_verdict(
            self._rules[name],
            progress,
            self._trial,
            run=self._run,
            now=now,
            not_finite_since=not_finite_since(found),
        )

    def _log_damage(self) -> None:
        damaged = self._trial.damaged
        for error in damaged[self._damaged_logged :]:
            _logger.warning("Left out, because it cannot be read: %s", error)
        self._damaged_logged = len(damaged)


def _loader_of(request: RuleRequest, processes: ExitStack, limits: RuleLimits) -> Callable[[RuleConfiguration], Rule]:
    """Return the function that loads rules from files, in processes that `processes` ends."""
    if all(rule.custom is None for rule in request.rules):
        return load_rule
    from trackside.evaluation.rule_processes.rule_process import RuleProcesses  # brings `multiprocessing`, for few runs

    return processes.enter_context(RuleProcesses(limits)).load
