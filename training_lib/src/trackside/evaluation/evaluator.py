"""Judges a run while it grows: each complete step in order, each configured rule, and says each answer once."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trackside.contracts.errors import RecordError, StorageUnavailableError
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Verdict
from trackside.evaluation import verdicts
from trackside.evaluation.asking import Answer, Asker, StepToJudge, sees_only_what_was_saved
from trackside.evaluation.other_runs import OtherRuns
from trackside.evaluation.outbox import Outbox
from trackside.evaluation.progress import ProgressFile, RuleProgress, keep_only
from trackside.evaluation.rule_limits import RuleLimits
from trackside.evaluation.rule_thread import MOST_QUESTIONS, Question, RuleThread
from trackside.evaluation.saved_source import SavedSource
from trackside.evaluation.shared_reading import SharedSource, Turns
from trackside.evaluation.sinks.sink import Sink
from trackside.evaluation.verdicts import Moment
from trackside.evaluation.without_inputs import without_inputs
from trackside.rules.catalogue import ConfiguredRule, build_rules
from trackside.rules.rule import is_paced_step
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.trial import Trial
from trackside.trial.window import Window

DELIVERY_SECONDS_AFTER_THE_END = 300.0
# A paced rule waits for the statistics of a saved step, which are stored a little later: the writer flushes them every
# second, and a trial that has seen none so far looks again after 5 seconds (`trial.recorded.SECONDS_BETWEEN_LOOKS`).
# Waiting no longer than that, a rule could judge a moment before the first rows are seen.
SECONDS_FOR_ROWS = 10.0
SIGN_OF_LIFE_SECONDS = 300.0  # the progress is stored so often even if nothing is new: its age tells who is dead
MOST_SLOW_STEPS = 3  # of a rule that is asked in the evaluator's own thread: then it gets one of its own
END_THREADS_SECONDS = 0.2
CATCH_UP_SECONDS = 0.5  # for rules that are behind: between two looks after the end of the run, and when asked to stop
REFUSED = "not run here"  # what the progress of a configuration says whose code another evaluator may run

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Summary:
    """What an evaluation came to.

    `verdicts` are all of the run so far, those of earlier evaluators of the same run included. `judged` counts the
    steps each configuration judged. `has_ended` is False where the evaluator was stopped before the run had ended.
    `crashed` names the configurations whose rule raised, `refused` those whose code is not run here, `undelivered` the
    verdicts that some sink did not take.
    """

    verdicts: tuple[Verdict, ...]
    judged: Mapping[str, int]
    last_step: int
    has_ended: bool
    crashed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    undelivered: tuple[Verdict, ...] = ()
    damaged: tuple[RecordError, ...] = ()

    @property
    def issues(self) -> tuple[Verdict, ...]:
        """The verdicts that found something."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome is Outcome.ISSUE_FOUND)


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
    """Judges the run until it has ended and all of it is judged, or until `should_stop`.

    Goes on where an earlier evaluator of this run stopped or died. On `should_stop` what is complete is still judged,
    but for rules that are slow. `clock` is in seconds since the epoch; `sleep` may return early. Without
    `runs_custom_rules` no file that the request names is run: of that configuration it is said that it is not judged,
    and the others are. `limits` says for how long a rule may take. Errors: `ConfigurationError` for the request;
    `StorageError` where the run cannot be read (an outage is waited out).
    """
    refused = () if runs_custom_rules else tuple(rule for rule in request.rules if rule.custom is not None)
    rules = build_rules(RuleRequest(tuple(rule for rule in request.rules if rule not in refused)))
    trial = Trial(stores(run.tensors), stores(run.statistics))
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
    )
    return evaluator.watch(poll_seconds=poll_seconds, sleep=sleep, should_stop=should_stop)


@dataclass
class _Apart:
    """A rule that is asked in a thread of its own, and the steps that it is given next where it is behind."""

    thread: RuleThread
    is_behind: bool = False
    is_resting: bool = False  # until the next sweep: the store could not be reached
    steps: Iterator[int] = field(default_factory=lambda: iter(()))
    last: int | None = None  # step of a run that has ended


class Evaluator:
    """Judges one run with rules that are ready. `run` is its name in the verdicts.

    Of the configurations in `refused` it says that they are not judged here. `stores` opens the runs that rules
    compare with. Those in `apart`, and all whose code is in a file, are asked in a thread each; so is a rule that turns
    out to be slow: see `RuleLimits`. A rule that is quick enough is asked about each step together with the others, and
    then what is said, and in which order, does not depend on where it was asked.
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
    ) -> None:
        self._trial, self._run, self._clock, self._limits = trial, run, clock, limits
        self._rules = {rule.configuration.name: rule for rule in rules}
        self._saved = SavedSource(trial)
        self._others = OtherRuns([rule.rule for rule in rules], stores)
        self._refused = {configuration.name: configuration for configuration in refused}
        by_name = {sink.name: sink for sink in sinks}
        self._progress = keep_only(progress_file.load(), configurations=(*self._rules, *self._refused), sinks=by_name)
        self._forget_refusals()
        newest = max((rule.judged_through for rule in self._progress.rules.values()), default=-1)
        self._newest_step, self._newest_at = newest, clock()  # a restarted evaluator was not there to see it come
        self._last_sign_at = self._newest_at
        self._outbox = Outbox(self._progress, progress_file, by_name)
        self._seen_at: dict[int, float] = {}  # of steps that are young
        self._seen_through = -1
        self._turns = Turns()
        self._asker = Asker(trial, run=run, lock=self._turns.lock)
        self._apart: dict[str, _Apart] = {}
        for name in self._open():
            if name in apart or self._rules[name].configuration.custom is not None:
                self._set_apart(name)
        self._given_up: list[RuleThread] = []
        self._slow_steps: dict[str, int] = {}
        self._wait_seconds = 0.0  # left in this sweep
        self._ended_at: float | None = None  # by the monotonic clock
        self._damaged_told = 0

    def watch(
        self, *, poll_seconds: float, sleep: Callable[[float], object], should_stop: Callable[[], bool]
    ) -> Summary:
        """Sweeps until everything is judged and delivered, or until `should_stop`."""
        try:
            return self._watch(poll_seconds, sleep, should_stop)
        finally:
            self._end_threads()

    def _watch(self, poll_seconds: float, sleep: Callable[[float], object], should_stop: Callable[[], bool]) -> Summary:
        give_up_at: float | None = None
        while True:
            is_last = should_stop()
            self._through_outages(self.sweep)
            if self.is_done:
                if give_up_at is None:
                    give_up_at = self._clock() + DELIVERY_SECONDS_AFTER_THE_END
                if not self._progress.outbox or self._clock() >= give_up_at:
                    return self.summary()
            if is_last:
                self._through_outages(self._leave_off)
                return self.summary()
            if not should_stop():
                sleep(poll_seconds)

    def sweep(self) -> None:
        """Judges every complete step that is new, says what there is to say, and tries again what did not arrive.

        Errors: those of the trial's store; what was judged before stays judged.
        """
        with self._turns.lock:
            self._sweep()

    def _sweep(self) -> None:
        self._trial.refresh()
        self._others.refresh()
        now = self._clock()
        self._refuse(now)
        self._begin_sweep()
        names = self._abreast()
        steps = self._trial.new_complete_steps(self._judged_by_all(names))
        has_grown = bool(steps) and steps[-1] > self._newest_step  # paced rules leave steps that are long there
        last = steps[-1] if self._trial.has_ended and steps else None
        self._note_when_seen(steps, now)
        for step in steps:
            there = self._there_is_at(step, now, is_last=step == last)
            found = [verdict for name in names if (verdict := self._judge(name, there)) is not None]
            if found:
                self._outbox.say(found)
                names = self._abreast()
            if self._apart:
                self._turns.make_room()
                self._attend()
        if has_grown:
            self._newest_step, self._newest_at = steps[-1], now
        self._attend()
        if self._trial.has_ended:
            self._catch_up()
            self._conclude(now)
            self._give_up_the_late()
        elif not has_grown and self._newest_step >= 0:
            self._outbox.say([v for name in self._abreast() if (v := self._judge_waiting(name, now)) is not None])
        self._tell_damage()
        if now - self._last_sign_at >= SIGN_OF_LIFE_SECONDS:
            self._last_sign_at, self._outbox.is_unsaved = now, True
        self._outbox.deliver()

    @property
    def is_done(self) -> bool:
        """True once the run has ended and every rule has said its last word."""
        return self._trial.has_ended and not self._open()

    def summary(self) -> Summary:
        """How things stand."""
        rules = self._progress.rules
        with self._turns.lock:
            damaged = self._trial.damaged
        return Summary(
            verdicts=self._progress.verdicts,
            judged={name: rule.judged for name, rule in rules.items()},
            last_step=max((rule.judged_through for rule in rules.values()), default=-1),
            has_ended=self.is_done,
            crashed=tuple(name for name, rule in rules.items() if rule.error and name not in self._refused),
            refused=tuple(self._refused),
            undelivered=tuple(said.verdict for said in self._progress.outbox),
            damaged=damaged,
        )

    def _through_outages(self, act: Callable[[], None]) -> None:
        try:
            act()
        except StorageUnavailableError as error:
            self._outbox.tell_once(f"The run cannot be read at the moment; looking again: {error}")

    def _open(self) -> tuple[str, ...]:
        """Configurations that have not said their last word yet."""
        return tuple(name for name in self._rules if not self._progress.rules[name].has_concluded)

    def _refuse(self, now: float) -> None:
        """Once for each configuration, whatever the run holds."""
        answered = {verdict.configuration_name for verdict in self._progress.verdicts}
        unanswered = [one for name, one in self._refused.items() if name not in answered]
        for configuration in unanswered:
            self._progress.rules[configuration.name].error = REFUSED
            self._progress.rules[configuration.name].has_concluded = True
        self._outbox.say([verdicts.refused(one, Moment(self._run, 0, now)) for one in unanswered])

    def _forget_refusals(self) -> None:
        """What an earlier evaluator would not run, this one judges from the start."""
        rules = self._progress.rules
        again = {name for name in self._rules if rules[name].error == REFUSED}
        rules.update({name: RuleProgress() for name in again})
        self._progress.said = [said for said in self._progress.said if said.verdict.configuration_name not in again]

    def _abreast(self) -> tuple[str, ...]:
        """Of those, the ones that are asked about a step together."""
        return tuple(name for name in self._open() if name not in self._apart or not self._apart[name].is_behind)

    def _judged_by_all(self, names: Iterable[str]) -> int:
        return min(map(self._asked_through, names), default=self._newest_step if self._apart else 2**63)

    def _asked_through(self, name: str) -> int:
        apart = self._apart.get(name)
        return self._progress.rules[name].judged_through if apart is None else apart.thread.asked_through

    def _note_when_seen(self, steps: Sequence[int], now: float) -> None:
        """When a step was seen first, for as long as it matters."""
        self._seen_at = {step: at for step, at in self._seen_at.items() if now - at < SECONDS_FOR_ROWS}
        self._seen_at.update({step: now for step in steps if step > self._seen_through})
        self._seen_through = max([self._seen_through, *steps[-1:]])

    def _there_is_at(self, step: int, now: float, *, is_last: bool) -> StepToJudge:
        trial = self._trial
        return StepToJudge(
            window=trial.window(step, now=now),
            is_saved=trial.is_saved(step),
            saved=trial.saved_collections_at(step),
            all=trial.collections_at(step),
            is_last=is_last,
            is_settled=trial.has_ended or trial.recorded_through >= step or step not in self._seen_at,
        )

    def _judge(self, name: str, there: StepToJudge) -> Verdict | None:
        """What one rule has to say at a step, as far as that is known at once."""
        configured, apart = self._rules[name], self._apart.get(name)
        if self._progress.rules[name].has_concluded:  # since this sweep began
            return None
        if not _is_asked(configured, self._asked_through(name), there):
            return None
        if apart is None:
            there = replace(there, window=self._as_seen_by(configured, there.window))
            return self._ask_here(name, lambda progress: self._asker.ask(configured, progress, there))
        if apart.is_behind:
            return None
        apart.thread.give(self._question(configured, apart, there))
        return self._heard_at_once(name, apart)

    def _ask_here(self, name: str, ask: Callable[[RuleProgress], Answer]) -> Verdict | None:
        """Asks in this thread; one that needs much of the processor (reading a store needs little) gets its own."""
        began = time.thread_time()
        answer = ask(self._progress.rules[name])
        is_slow = time.thread_time() - began > self._limits.quick_seconds
        verdict = self._note(name, answer)
        if is_slow and not answer.progress.has_concluded:
            self._slow_steps[name] = self._slow_steps.get(name, 0) + 1
            if self._slow_steps[name] >= MOST_SLOW_STEPS:
                _logger.info("%s is slow, and goes on at its own pace", name)
                self._set_apart(name)
        return verdict

    def _as_seen_by(self, configured: ConfiguredRule, window: Window) -> Window:
        """The window with what the rule compares with; in Amazon's sense, of what was saved alone."""
        if configured.rule.other_runs:
            window = replace(window, others=self._others.of(configured.rule))
        return replace(window, source=self._saved) if sees_only_what_was_saved(configured) else window

    def _judge_waiting(self, name: str, now: float) -> Verdict | None:
        """What a rule that watches the clock has to say while nothing new comes."""
        configured, apart = self._rules[name], self._apart.get(name)
        if not configured.rule.judges_waiting:
            return None
        window = self._trial.window(self._newest_step, now=now, newest_step_at=self._newest_at)
        if apart is None:
            return self._note(name, self._asker.ask_again(configured, self._progress.rules[name], window))
        window = _shared(window, self._turns, apart.thread)
        apart.thread.give(
            Question(
                window.step,
                apart.thread.asked_through,
                lambda progress: self._asker.ask_again(configured, progress, window),
            )
        )
        return self._heard_at_once(name, apart)

    def _note(self, name: str, answer: Answer) -> Verdict | None:
        """How far a rule has come, and what it said."""
        if answer.progress != self._progress.rules[name]:
            self._progress.rules[name], self._outbox.is_unsaved = answer.progress, True
        opened = self._outbox.last_issue(name) if answer.recovered is not None else None
        if answer.recovered is not None and opened is not None:
            return verdicts.recovered(opened, answer.recovered)
        return answer.verdict

    def _set_apart(self, name: str) -> None:
        thread = RuleThread(name, self._progress.rules[name], file=_file_of(self._rules[name]))
        self._apart[name] = _Apart(thread)

    def _question(self, configured: ConfiguredRule, apart: _Apart, there: StepToJudge) -> Question:
        window = _shared(self._as_seen_by(configured, there.window), self._turns, apart.thread)
        there = replace(there, window=window)
        return Question(window.step, window.step, lambda progress: self._asker.ask(configured, progress, there))

    def _heard_at_once(self, name: str, apart: _Apart) -> Verdict | None:
        """What a rule apart has just been asked; one that does not answer soon enough is behind from now on."""
        self._wait_for(apart.thread)
        if apart.thread.is_idle:
            return next(iter([*self._heard(name)]), None)
        apart.is_behind, apart.steps = True, iter(())
        return None

    def _wait_for(self, thread: RuleThread) -> None:
        """For what is left of this sweep's patience, or until it is stuck."""
        began = time.monotonic()
        with self._turns.let_go():
            while not thread.is_idle and not self._is_stuck(thread):
                left = self._wait_seconds - (time.monotonic() - began)
                if left <= 0:
                    break
                thread.wait(min(left, 1.0))
        self._wait_seconds -= time.monotonic() - began

    def _heard(self, name: str) -> Iterator[Verdict]:
        """What a rule apart has said since the last time, to be said before the next is taken."""
        apart = self._apart[name]
        answers, failure = apart.thread.take()
        for answer in answers:
            if (verdict := self._note(name, answer)) is not None:
                yield verdict
        if self._progress.rules[name].has_concluded:
            del self._apart[name]
        elif failure is not None and isinstance(failure.error, StorageUnavailableError):
            self._outbox.tell_once(f"{name} cannot read at the moment, and is asked again: {failure.error}")
            apart.thread.start_over(self._progress.rules[name])
            apart.is_behind, apart.is_resting, apart.steps = True, True, iter(())
        elif failure is not None:  # where it may not read the run, the evaluator may not either, and says so itself
            del self._apart[name]
            moment = Moment(self._run, failure.step, self._clock())
            answer = self._asker.crashed(self._rules[name], self._progress.rules[name], moment, failure.error)
            if (verdict := self._note(name, answer)) is not None:
                yield verdict

    def _begin_sweep(self) -> None:
        self._wait_seconds = self._limits.wait_seconds
        self._given_up = [thread for thread in self._given_up if not thread.give_up()]
        for apart in self._apart.values():
            apart.is_resting = False
        self._attend()

    def _attend(self) -> None:
        """Hears the rules that are behind, hands them more steps, and gives up one that is stuck. Waits for none."""
        for name in tuple(self._apart):
            apart = self._apart[name]
            if not apart.is_behind or apart.is_resting:
                continue
            for verdict in self._heard(name):
                self._outbox.say([verdict])
            if name in self._apart and not apart.is_resting:
                self._hand_on(name, apart)
                self._give_up_if_stuck(name, apart)

    def _hand_on(self, name: str, apart: _Apart) -> None:
        """The next steps, as many as it takes; where there are none, it is abreast of the others."""
        if apart.thread.room <= MOST_QUESTIONS // 2 or self._hand_on_what_is_left(name, apart):
            return
        if apart.thread.is_idle:
            steps = self._trial.new_complete_steps(apart.thread.asked_through)
            apart.steps, apart.last = iter(steps), steps[-1] if self._trial.has_ended and steps else None
            apart.is_behind = self._hand_on_what_is_left(name, apart)

    def _hand_on_what_is_left(self, name: str, apart: _Apart) -> bool:
        configured, now, is_given = self._rules[name], self._clock(), False
        while apart.thread.room > 0 and (step := next(apart.steps, None)) is not None:
            there = self._there_is_at(step, now, is_last=step == apart.last)
            if _is_asked(configured, apart.thread.asked_through, there):
                apart.thread.give(self._question(configured, apart, there))
                is_given = True
        return is_given

    def _is_stuck(self, thread: RuleThread) -> bool:
        stuck = thread.stuck
        return stuck is not None and stuck.seconds > self._limits.step_seconds

    def _give_up_if_stuck(self, name: str, apart: _Apart) -> None:
        stuck = apart.thread.stuck
        if stuck is None or stuck.seconds <= self._limits.step_seconds:
            return
        moment = Moment(self._run, stuck.step, self._clock())
        verdict = verdicts.given_up(self._rules[name], moment, seconds=stuck.seconds)
        self._give_up(name, verdict, error=f"still at step {stuck.step} after {stuck.seconds:.0f} seconds")

    def _give_up_the_late(self) -> None:
        """Of a run that has ended long ago, whose other rules have all said their last word."""
        now = time.monotonic()
        self._ended_at = now if self._ended_at is None else self._ended_at
        seconds = now - self._ended_at
        if seconds <= self._limits.end_seconds:
            return
        last_step = max([self._newest_step, *self._trial.new_complete_steps(self._newest_step)[-1:]])
        self._attend()  # hear what was said meanwhile
        for name in [name for name, apart in self._apart.items() if apart.is_behind]:
            moment = Moment(self._run, max(self._progress.rules[name].judged_through, 0), self._clock())
            verdict = verdicts.out_of_time(self._rules[name], moment, last_step=last_step, seconds=seconds)
            self._give_up(name, verdict, error=f"{seconds:.0f} seconds after the end only at step {moment.step}")

    def _give_up(self, name: str, verdict: Verdict, *, error: str) -> None:
        _logger.error("%s", verdict.message)
        thread = self._apart.pop(name).thread
        if not thread.give_up():
            self._given_up.append(thread)
        progress = replace(self._progress.rules[name], judged_through=verdict.step, has_concluded=True, error=error)
        self._note(name, Answer(progress))
        self._outbox.say([verdict])

    def _leave_off(self) -> None:
        with self._turns.lock:
            self._catch_up()
            self._outbox.deliver()

    def _end_threads(self) -> None:
        """As far as they can be ended at once; what is left ends with the process."""
        threads = [*(apart.thread for apart in self._apart.values()), *self._given_up]
        until = time.monotonic() + END_THREADS_SECONDS
        while threads := [thread for thread in threads if not thread.give_up()]:
            if time.monotonic() >= until:
                return
            time.sleep(0.005)

    def _catch_up(self) -> None:
        """Gives rules that are behind a little time."""
        until = time.monotonic() + CATCH_UP_SECONDS
        while time.monotonic() < until:
            self._attend()
            behind = [apart.thread for apart in self._apart.values() if apart.is_behind and not apart.is_resting]
            if not behind:
                return
            with self._turns.let_go():
                behind[0].wait(0.02)

    def _conclude(self, now: float) -> None:
        """The end of the run: all last words are known before the first is said, for asking for one may fail."""
        last_words = {name: self._last_word(name, now) for name in self._abreast()}
        for name in last_words:
            self._progress.rules[name].has_concluded = self._outbox.is_unsaved = True
            self._apart.pop(name, None)
        self._outbox.say([verdict for verdict in last_words.values() if verdict is not None])

    def _last_word(self, name: str, now: float) -> Verdict | None:
        """What is said at the end; nothing more where an issue was found, whether it recovered or not."""
        configured, progress = self._rules[name], self._progress.rules[name]
        moment = Moment(self._run, max(progress.judged_through, 0), now)
        if progress.issues:
            return None
        answered = progress.judged > 0 and not progress.lacks
        if (unjudged := without_inputs(configured, moment, self._trial, answered=answered)) is not None:
            return unjudged
        if progress.judged < configured.rule.findings_in_a_row and progress.lacks:
            return verdicts.not_ready(configured, moment, lacks=progress.lacks)
        if progress.judged == 0:
            saved = bool(self._trial.new_complete_steps(-1))
            return verdicts.no_data(configured, moment, run_saved_steps=saved, unreadable=progress.unreadable)
        if progress.judged < configured.rule.findings_in_a_row:
            return verdicts.too_little_data(configured, moment, judged=progress.judged)
        return verdicts.clean(configured, moment, judged=progress.judged)

    def _tell_damage(self) -> None:
        damaged = self._trial.damaged
        for error in damaged[self._damaged_told :]:
            _logger.warning("Left out, because it cannot be read: %s", error)
        self._damaged_told = len(damaged)


def _is_asked(configured: ConfiguredRule, judged_through: int, there: StepToJudge) -> bool:
    """Whether a rule is asked about a step now; it may be later, or never."""
    rule, step = configured.rule, there.window.step
    if step <= judged_through:
        return False
    if rule.paced:
        return there.is_settled and (there.is_last or is_paced_step(step, judged_through))
    is_always_ready = rule.judges_every_step or rule.judges_waiting or sees_only_what_was_saved(configured)
    if there.is_settled or is_always_ready:
        return True
    # Else a step at which only something else was saved would pass for judged, and so would those before it, before
    # what was recorded of them has come. A rule that has nothing saved lives on what is recorded, and sees all of it.
    return rule.needs != () and there.is_saved and rule.is_watching(there.saved)


def _shared(window: Window, turns: Turns, thread: RuleThread) -> Window:
    """The window for a rule in a thread of its own."""
    others = {name: SharedSource(source, turns, thread.reading) for name, source in window.others.items()}
    return replace(window, source=SharedSource(window.source, turns, thread.reading), others=others)


def _ships_with_trackside(configured: ConfiguredRule) -> bool:
    return type(configured.rule).__module__.startswith("trackside.rules.")


def _file_of(configured: ConfiguredRule) -> str:
    """Where the rule's code is, as its frames name it; "" if that cannot be told."""
    custom = configured.configuration.custom
    if custom is not None:
        return custom.source
    try:
        return inspect.getfile(type(configured.rule))
    except (TypeError, OSError):
        return ""
