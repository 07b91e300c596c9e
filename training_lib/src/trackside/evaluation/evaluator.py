"""Judges a run while it grows: each complete step in order, each configured rule, and says each answer once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from trackside.contracts.cause import Suspicion
from trackside.contracts.errors import RecordError, StorageError, StorageUnavailableError, TensorNotSavedError
from trackside.contracts.rule_request import CALIBRATED, RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Finding, Outcome, Verdict
from trackside.evaluation import verdicts
from trackside.evaluation.other_runs import OtherRuns
from trackside.evaluation.progress import ProgressFile, RuleProgress, Said, keep_only
from trackside.evaluation.saved_source import SavedSource
from trackside.evaluation.sinks.sink import Sink, UndeliveredError
from trackside.evaluation.verdicts import Moment
from trackside.evaluation.watched_source import WatchedSource
from trackside.rules.catalogue import ConfiguredRule, build_rules
from trackside.rules.rule import FoldingRule, is_paced_step
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.trial import Trial
from trackside.trial.window import Window

DELIVERY_SECONDS_AFTER_THE_END = 300.0
FEWEST_QUIET_STEPS = 3  # judged steps in a row without a finding, until an issue has recovered
SECONDS_FOR_ROWS = 5.0  # a paced rule waits for the statistics of a saved step, which are stored a little later
MOST_ISSUES = 10  # of one rule: one that comes and goes for hours is not told each time
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
) -> Summary:
    """Judges the run until it has ended and all of it is judged, or until `should_stop`.

    Goes on where an earlier evaluator of this run stopped or died. On `should_stop` what is complete is still judged.
    `clock` is in seconds since the epoch; `sleep` may return early. Without `runs_custom_rules` no file that the
    request names is run: of that configuration it is said that it is not judged, and the others are. Errors:
    `ConfigurationError` for the request; `StorageError` where the run cannot be read (an outage is waited out).
    """
    refused = () if runs_custom_rules else tuple(rule for rule in request.rules if rule.custom is not None)
    rules = build_rules(RuleRequest(tuple(rule for rule in request.rules if rule not in refused)))
    trial = Trial(stores(run.tensors), stores(run.statistics))
    progress_file = ProgressFile(stores(run.rule_output))
    evaluator = Evaluator(trial, rules, sinks, progress_file, run=run.name, clock=clock, refused=refused, stores=stores)
    return evaluator.watch(poll_seconds=poll_seconds, sleep=sleep, should_stop=should_stop)


@dataclass(frozen=True)
class _StepToJudge:
    """What there is of a step: the collections of which anything was saved, and those with recorded statistics too."""

    window: Window
    is_saved: bool
    saved: frozenset[str]
    all: frozenset[str]
    is_last: bool  # of a run that has ended
    is_settled: bool  # no more statistics are to come


class Evaluator:
    """Judges one run with rules that are ready. `run` is its name in the verdicts.

    Of the configurations in `refused` it says that they are not judged here. `stores` opens the runs that rules
    compare with.
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
    ) -> None:
        self._trial, self._run, self._clock = trial, run, clock
        self._rules = {rule.configuration.name: rule for rule in rules}
        self._saved = SavedSource(trial)
        self._others = OtherRuns([rule.rule for rule in rules], stores)
        self._refused = {configuration.name: configuration for configuration in refused}
        self._sinks = {sink.name: sink for sink in sinks}
        self._file = progress_file
        self._progress = keep_only(
            progress_file.load(), configurations=(*self._rules, *self._refused), sinks=self._sinks
        )
        self._forget_refusals()
        newest = max((rule.judged_through for rule in self._progress.rules.values()), default=-1)
        self._newest_step, self._newest_at = newest, clock()  # a restarted evaluator was not there to see it come
        self._is_unsaved = False
        self._seen_at: dict[int, float] = {}  # of the steps that some rule has not judged yet
        self._damaged_told = 0
        self._troubles: set[str] = set()

    def watch(
        self, *, poll_seconds: float, sleep: Callable[[float], object], should_stop: Callable[[], bool]
    ) -> Summary:
        """Sweeps until everything is judged and delivered, or until `should_stop`."""
        give_up_at: float | None = None
        while True:
            is_last = should_stop()
            self._sweep_through_outages()
            if self.is_done:
                if give_up_at is None:
                    give_up_at = self._clock() + DELIVERY_SECONDS_AFTER_THE_END
                if not self._progress.outbox or self._clock() >= give_up_at:
                    return self.summary()
            if is_last:
                return self.summary()
            if not should_stop():
                sleep(poll_seconds)

    def sweep(self) -> None:
        """Judges every complete step that is new, says what there is to say, and tries again what did not arrive.

        Errors: those of the trial's store; what was judged before stays judged.
        """
        self._trial.refresh()
        self._others.refresh()
        now = self._clock()
        self._refuse(now)
        names = self._open()
        steps = self._trial.new_complete_steps(self._judged_by_all())
        has_grown = bool(steps) and steps[-1] > self._newest_step  # paced rules leave steps that are long there
        last = steps[-1] if self._trial.has_ended and steps else None
        self._seen_at = {step: self._seen_at.get(step, now) for step in steps}
        for step in steps:
            moment = self._there_is_at(step, now, is_last=step == last)
            found = [verdict for name in names if (verdict := self._judge(name, moment)) is not None]
            if found:
                self._say(found)
                names = self._open()
        if has_grown:
            self._newest_step, self._newest_at = steps[-1], now
        if self._trial.has_ended:
            self._say([verdict for name in self._open() if (verdict := self._conclude(name, now)) is not None])
        elif not has_grown and self._newest_step >= 0:
            self._say([verdict for name in names if (verdict := self._judge_waiting(name, now)) is not None])
        self._tell_damage()
        self._deliver()

    @property
    def is_done(self) -> bool:
        """True once the run has ended and every rule has said its last word."""
        return self._trial.has_ended and not self._open()

    def summary(self) -> Summary:
        """How things stand."""
        rules = self._progress.rules
        return Summary(
            verdicts=self._progress.verdicts,
            judged={name: rule.judged for name, rule in rules.items()},
            last_step=max((rule.judged_through for rule in rules.values()), default=-1),
            has_ended=self.is_done,
            crashed=tuple(name for name, rule in rules.items() if rule.error and name not in self._refused),
            refused=tuple(self._refused),
            undelivered=tuple(said.verdict for said in self._progress.outbox),
            damaged=self._trial.damaged,
        )

    def _sweep_through_outages(self) -> None:
        try:
            self.sweep()
        except StorageUnavailableError as error:
            self._tell_once(f"The run cannot be read at the moment; looking again: {error}")

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
        self._say([verdicts.refused(one, Moment(self._run, 0, now)) for one in unanswered])

    def _forget_refusals(self) -> None:
        """What an earlier evaluator would not run, this one judges from the start."""
        rules = self._progress.rules
        again = {name for name in self._rules if rules[name].error == REFUSED}
        rules.update({name: RuleProgress() for name in again})
        self._progress.said = [said for said in self._progress.said if said.verdict.configuration_name not in again]

    def _judged_by_all(self) -> int:
        return min((self._progress.rules[name].judged_through for name in self._open()), default=2**63)

    def _there_is_at(self, step: int, now: float, *, is_last: bool) -> _StepToJudge:
        trial = self._trial
        return _StepToJudge(
            window=trial.window(step, now=now),
            is_saved=trial.is_saved(step),
            saved=trial.saved_collections_at(step),
            all=trial.collections_at(step),
            is_last=is_last,
            is_settled=trial.has_ended
            or trial.recorded_through >= step
            or now - self._seen_at[step] >= SECONDS_FOR_ROWS,
        )

    def _judge(self, name: str, there: _StepToJudge) -> Verdict | None:
        """What one rule has to say at a step."""
        configured, step = self._rules[name], there.window.step
        rule, progress = configured.rule, self._progress.rules[name]
        if step <= progress.judged_through:
            return None
        if rule.paced and not (there.is_settled and (there.is_last or is_paced_step(step, progress.judged_through))):
            return None  # it is asked about this step later, or never
        there = replace(there, window=self._as_seen_by(configured, there.window))
        return self._note(name, there.window, lambda draft: self._ask(configured, draft, there))

    def _as_seen_by(self, configured: ConfiguredRule, window: Window) -> Window:
        """The window with what the rule compares with; in Amazon's sense, of what was saved alone."""
        if configured.rule.other_runs:
            window = replace(window, others=self._others.of(configured.rule))
        return replace(window, source=self._saved) if _sees_only_what_was_saved(configured) else window

    def _judge_waiting(self, name: str, now: float) -> Verdict | None:
        """What a rule that watches the clock has to say while nothing new comes."""
        configured = self._rules[name]
        if not configured.rule.judges_waiting:
            return None
        window = self._trial.window(self._newest_step, now=now, newest_step_at=self._newest_at)
        return self._note(name, window, lambda draft: self._ask_again(configured, draft, window))

    def _note(self, name: str, window: Window, ask: Callable[[RuleProgress], Verdict | None]) -> Verdict | None:
        """What a rule says when it is asked, which moves on a draft of its progress: all of it holds, or nothing.

        Errors: `StorageError`, which leaves the step to be judged again.
        """
        draft = replace(self._progress.rules[name])
        try:
            verdict = ask(draft)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001  a rule may be anybody's code, and must not end the others
            draft = replace(self._progress.rules[name])
            verdict = self._crash(self._rules[name], draft, Moment(self._run, window.step, window.now), error)
        if draft != self._progress.rules[name]:
            self._progress.rules[name], self._is_unsaved = draft, True
        return verdict

    def _ask(self, configured: ConfiguredRule, progress: RuleProgress, there: _StepToJudge) -> Verdict | None:
        rule, window = configured.rule, there.window
        findings: tuple[Finding, ...] | None = None
        lacks = ""
        try:
            if rule.paced or (there.is_saved and (rule.judges_every_step or rule.is_watching(there.saved))):
                findings = _check(configured, progress, window)
            elif (
                rule.is_watching(there.all) and not rule.judges_every_step and not _sees_only_what_was_saved(configured)
            ):
                findings = self._check_recorded(configured, progress, window)
            if findings is not None:
                lacks = "" if findings else rule.lacks(window)
        except RecordError:  # a damaged file is no fault of the rule; the trial has noted it
            findings = ()
        progress.judged_through = window.step
        return None if findings is None else self._weigh(configured, progress, findings, lacks, window)

    def _ask_again(self, configured: ConfiguredRule, progress: RuleProgress, window: Window) -> Verdict | None:
        memory = progress.memory  # a step is remembered once, however often it is looked at
        findings = _check(configured, progress, window)
        progress.memory = memory
        return self._with_patience(configured, progress, findings, window) if findings else None

    def _check_recorded(
        self, configured: ConfiguredRule, progress: RuleProgress, window: Window
    ) -> tuple[Finding, ...] | None:
        """What the rule finds in the statistics that were recorded of a step; None if it needs others.

        Recorded rows come in tiers: at most steps there are a few numbers of each tensor, at some there are more.
        """
        source = WatchedSource(self._trial, step=window.step, collections=configured.rule.watches)
        try:
            findings = _check(configured, progress, replace(window, source=source))
        except TensorNotSavedError:  # it asks for whole tensors
            return None
        return findings if findings or source.has_shown else None

    def _weigh(
        self,
        configured: ConfiguredRule,
        progress: RuleProgress,
        findings: tuple[Finding, ...],
        lacks: str,
        window: Window,
    ) -> Verdict | None:
        """Counts the step as judged, or not, and opens an issue where the rule's patience is over."""
        if not findings and self._trial.is_damaged(window.step):
            progress.unreadable += 1  # not seen is not clean, and says nothing about the streak
        elif lacks:
            progress.lacks, progress.streak, progress.since = (
                lacks,
                0,
                {},
            )  # nothing found where nothing could be: not a judged step
        else:
            progress.judged += 1
            if findings:
                return self._with_patience(configured, progress, findings, window)
            progress.streak, progress.since = 0, {}
            return self._recovered(configured, progress, Moment(self._run, window.step, window.now))
        return None

    def _recovered(self, configured: ConfiguredRule, progress: RuleProgress, moment: Moment) -> Verdict | None:
        """What is said once an issue has been gone for as long as it took to be found, and a little longer."""
        if not progress.is_open:
            return None
        progress.quiet += 1
        if progress.quiet < max(FEWEST_QUIET_STEPS, configured.rule.findings_in_a_row):
            return None
        progress.is_open = False
        opened = self._last_issue(configured)
        return verdicts.recovered(opened, moment) if opened is not None else None

    def _last_issue(self, configured: ConfiguredRule) -> Verdict | None:
        name = configured.configuration.name
        return next((v for v in reversed(self._issues()) if v.configuration_name == name), None)

    def _issues(self) -> tuple[Verdict, ...]:
        return tuple([v for v in self._progress.verdicts if v.outcome is Outcome.ISSUE_FOUND])

    def _with_patience(
        self, configured: ConfiguredRule, progress: RuleProgress, findings: tuple[Finding, ...], window: Window
    ) -> Verdict | None:
        progress.streak += 1
        before = progress.since
        progress.since = {
            (f.worker, f.subject): min(f.since_step, before.get((f.worker, f.subject), f.since_step)) for f in findings
        }
        progress.quiet = 0
        if progress.is_open or progress.issues >= MOST_ISSUES or progress.streak < configured.rule.findings_in_a_row:
            return None
        progress.issues, progress.is_open = progress.issues + 1, True
        progress.has_concluded = configured.rule.judges_until_found
        dated = [replace(f, since_step=progress.since[f.worker, f.subject]) for f in findings]
        ordered = verdicts.worst_first(dated)
        return verdicts.issue_found(
            configured,
            ordered,
            Moment(self._run, window.step, window.now),
            event_key=self._trial.event_key(ordered[0].step, ordered[0].worker),
            several_workers=len(self._trial.workers) > 1,
            suspicions=_suspicions(configured, ordered, window),
            occurrence=progress.issues,
        )

    def _grouped(self, verdict: Verdict) -> Verdict:
        """One by one: of issues that are opened at the same step, the first leads."""
        if verdict.outcome is not Outcome.ISSUE_FOUND:
            return verdict
        return verdicts.grouped(verdict, self._standing_beside(verdict.configuration_name))

    def _standing_beside(self, configuration: str) -> tuple[Verdict, ...]:
        """The issues of other rules that stand, oldest first: what recovered is told anew when it comes back."""
        standing = {name for name, rule in self._progress.rules.items() if rule.is_open and name != configuration}
        newest = {issue.configuration_name: issue for issue in self._issues()}
        return tuple(
            [
                issue
                for issue in self._issues()
                if issue is newest[issue.configuration_name] and issue.configuration_name in standing
            ]
        )

    def _crash(self, configured: ConfiguredRule, progress: RuleProgress, moment: Moment, error: Exception) -> Verdict:
        _logger.error("The rule %s crashed at step %d", configured.rule.rule_id, moment.step, exc_info=error)
        progress.judged_through, progress.has_concluded = moment.step, True
        progress.error = f"{type(error).__name__}: {error}"[:500]
        return verdicts.crashed(configured, moment, error=progress.error)

    def _conclude(self, name: str, now: float) -> Verdict | None:
        """The last word at the end of the run; nothing more where an issue was found, whether it recovered or not."""
        configured, progress = self._rules[name], self._progress.rules[name]
        moment = Moment(self._run, max(progress.judged_through, 0), now)
        progress.has_concluded = self._is_unsaved = True
        if progress.issues:
            return None
        if progress.judged < configured.rule.findings_in_a_row and progress.lacks:
            return verdicts.not_ready(configured, moment, lacks=progress.lacks)
        if progress.judged == 0:
            saved = bool(self._trial.new_complete_steps(-1))
            return verdicts.no_data(configured, moment, run_saved_steps=saved, unreadable=progress.unreadable)
        if progress.judged < configured.rule.findings_in_a_row:
            return verdicts.too_little_data(configured, moment, judged=progress.judged)
        return verdicts.clean(configured, moment, judged=progress.judged)

    def _say(self, found: Sequence[Verdict]) -> None:
        """Notes the verdicts down, then delivers: in this order nothing is lost, whenever the process is killed."""
        if not found:
            return
        for verdict in found:
            _logger.info("%s: %s", verdict.configuration_name, verdict.message)
            self._progress.said.append(Said(self._grouped(verdict), tuple(self._sinks)))
        self._is_unsaved = True
        self._deliver()

    def _deliver(self) -> None:
        self._save()
        for name, sink in self._sinks.items():
            waiting = [said for said in self._progress.outbox if name in said.undelivered]
            if waiting:
                self._hand_over(name, sink, waiting)
        self._save()

    def _hand_over(self, name: str, sink: Sink, waiting: Sequence[Said]) -> None:
        kept: set[str] = set()
        try:
            sink.emit([said.verdict for said in waiting])
        except UndeliveredError as error:
            kept = {verdict.verdict_id for verdict in error.undelivered}
            self._tell_once(f"Not delivered to {name}, trying again at each poll: {error}")
        for said in waiting:
            if said.verdict.verdict_id not in kept:
                said.undelivered = tuple(sink for sink in said.undelivered if sink != name)
                self._is_unsaved = True

    def _save(self) -> None:
        if not self._is_unsaved:
            return
        try:
            self._file.save(self._progress)
            self._is_unsaved = False
        except StorageError as error:
            # An alarm said twice after a restart is better than one not said while the disk is full.
            self._tell_once(f"How far the rules have come cannot be stored, trying again at each poll: {error}")

    def _tell_once(self, trouble: str) -> None:
        if trouble not in self._troubles:
            self._troubles.add(trouble)
            _logger.warning("%s", trouble)

    def _tell_damage(self) -> None:
        damaged = self._trial.damaged
        for error in damaged[self._damaged_told :]:
            _logger.warning("Left out, because it cannot be read: %s", error)
        self._damaged_told = len(damaged)


def _sees_only_what_was_saved(configured: ConfiguredRule) -> bool:
    """True for a rule in Amazon's sense, whose steps are saved ones; but any step ends a stall."""
    return configured.configuration.preset not in {"", CALIBRATED} and not configured.rule.judges_waiting


def _check(configured: ConfiguredRule, progress: RuleProgress, window: Window) -> tuple[Finding, ...]:
    rule = configured.rule
    if not isinstance(rule, FoldingRule):
        return verdicts.worst_first(rule.check(window))
    state = rule.load(progress.memory) if progress.memory else rule.start()
    state, findings = rule.fold(state, window)
    found = verdicts.worst_first(findings)
    progress.memory = rule.dump(state)
    return found


def _suspicions(configured: ConfiguredRule, findings: Sequence[Finding], window: Window) -> tuple[Suspicion, ...]:
    try:
        return tuple(configured.rule.suspicions(findings, window))
    except RecordError:  # what was found holds, whatever file is damaged that would have told why
        return ()
