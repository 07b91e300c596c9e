"""Judging of one step by one rule: findings are counted, and become a verdict when enough came in a row."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from threading import RLock
from typing import NamedTuple

from trackside.contracts.cause import Sign, Suspicion
from trackside.contracts.errors import RecordError, StorageError, TensorNotSavedError
from trackside.contracts.rule_request import CALIBRATED
from trackside.contracts.verdict import Finding, Severity, Verdict
from trackside.diagnosis.harm import gated, harms_in, lasted_steps
from trackside.diagnosis.learned import UNLEARNED, critical_harms
from trackside.diagnosis.signs import signs_of, signs_of_harm, signs_of_rules
from trackside.evaluation.results import verdicts
from trackside.evaluation.results.progress import RuleProgress
from trackside.evaluation.results.verdicts import Moment
from trackside.evaluation.results.watched_source import WatchedSource
from trackside.rules.catalogue import ConfiguredRule
from trackside.rules.rule import FoldingRule, is_paced_step, ships_with_trackside
from trackside.situation.constants import OBSERVED
from trackside.trial.trial import Trial
from trackside.trial.window import Window

FEWEST_CLEAN_STEPS = 3  # judged steps in a row without a finding, until an issue has recovered
MOST_ISSUES = 10  # issues of one rule: one that comes and goes for hours is not reported each time

_CALIBRATED = frozenset({"", CALIBRATED})

_logger = logging.getLogger(__name__)


class VisibleData(Enum):
    """The data that a rule is shown of a step."""

    WHOLE = "saved tensors and recorded statistics"
    RECORDED = "recorded statistics only, perhaps without the ones that the rule needs"


class StepData:
    """The kinds of data that a step holds. Most steps of a run hold the same, and share one object.

    is_saved  True if any tensor was saved at the step
    saved     collections with a saved tensor
    all       collections with a saved tensor or a recorded statistic
    """

    def __init__(self, *, is_saved: bool, saved: frozenset[str], all: frozenset[str]) -> None:  # noqa: A002
        self.is_saved, self.saved, self.all = is_saved, saved, all
        self._visible: dict[str, VisibleData | None] = {}

    def visible_to(self, configured: ConfiguredRule) -> VisibleData | None:
        """Return the data to show a rule at such a step; None if the step holds nothing for it."""
        name = configured.configuration.name
        if name not in self._visible:
            self._visible[name] = self._choose(configured)
        return self._visible[name]

    def _choose(self, configured: ConfiguredRule) -> VisibleData | None:
        rule = configured.rule
        if rule.paced or (self.is_saved and (rule.judges_every_step or rule.is_watching(self.saved))):
            return VisibleData.WHOLE
        if rule.judges_every_step or not rule.is_watching(self.all) or sees_saved_steps_only(configured):
            return None
        return VisibleData.RECORDED


@dataclass(frozen=True)
class StepToJudge:
    """One step, as rules are shown it.

    window   the run up to this step
    data     the data that the step holds
    is_last  True for the last step of a run that has ended
    """

    window: Window
    data: StepData
    is_last: bool  # of a run that has ended


class Judgement(NamedTuple):
    """The result of judging one step.

    progress   the rule's progress after the step
    verdict    an issue, or the end of a rule that raised; None if nothing is to be reported
    recovered  the moment at which the rule's last issue recovered; None if it did not
    """

    progress: RuleProgress
    verdict: Verdict | None = None
    recovered: Moment | None = None


class RuleJudge:
    """Judges the steps of one run by one rule at a time.

    The evaluator's thread and the rules' own threads use it at the same time: it changes no state.

    trial     the run
    run       the run's name in verdicts
    lock      held while the trial is read
    critical  by built-in rule, the kinds of harm with which it is critical; None for the learned ones
    """

    def __init__(
        self, trial: Trial, *, run: str, lock: RLock, critical: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._trial, self._run, self._lock = trial, run, lock
        self._critical = critical_harms() if critical is None else critical

    def judge(self, configured: ConfiguredRule, progress: RuleProgress, pending_step: StepToJudge) -> Judgement:
        """Return a rule's judgement of one step. For a rule that raises it is the judgement of `crashed`.

        Errors: `StorageError`.
        """
        try:
            return self._judge(configured, progress.copied(), pending_step)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001  a rule may be anybody's code, and must not end the others
            return self.crashed(configured, progress, self._moment(pending_step.window), error)

    def judge_again(self, configured: ConfiguredRule, progress: RuleProgress, window: Window) -> Judgement:
        """Return a rule's judgement of the newest step once more, while no newer step exists.

        Errors: `StorageError`.
        """
        try:
            return self._judge_again(configured, progress.copied(), window)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001  as in `judge`
            return self.crashed(configured, progress, self._moment(window), error)

    def weigh_again(
        self, configured: ConfiguredRule, progress: RuleProgress, opened: Verdict, window: Window
    ) -> Judgement:
        """Return an open issue as graver if the training is hurt by now, at a step that holds nothing for its rule.

        Errors: `StorageError`.
        """
        if not is_calibrated(configured) or not _may_become_graver(configured, progress, window):
            return Judgement(progress)
        progress = replace(progress, weighed_through=window.step)
        try:
            severity, harm, signs = self._weighed(configured, opened.findings, window)
        except StorageError:
            raise
        except Exception:  # harm is an extra: the issue stands as it is
            _logger.warning("The harm at step %d is unknown", window.step, exc_info=True)
            return Judgement(progress)
        if severity.rank <= progress.severity or progress.issues >= MOST_ISSUES:
            return Judgement(progress)
        progress.issues, progress.severity = progress.issues + 1, severity.rank
        kept = tuple(sign for sign in opened.signs if sign.name not in {new.name for new in signs})
        return Judgement(
            progress,
            verdicts.counted(
                replace(
                    opened,
                    severity=severity,
                    harm=harm,
                    step=window.step,
                    detected_at=window.now,
                    actions=verdicts.allowed_actions(configured, severity),
                    signs=(*signs, *kept),
                    occurrence=progress.issues,
                    group="",
                ),
                self._moment(window),
            ),
        )

    def crashed(
        self, configured: ConfiguredRule, progress: RuleProgress, moment: Moment, error: BaseException
    ) -> Judgement:
        """Log the error of a rule. Return the judgement that ends the rule: a verdict, and no further judging."""
        _logger.error("The rule %s crashed at step %d", configured.rule.rule_id, moment.step, exc_info=error)
        message = f"{type(error).__name__}: {error}"[:500]
        progress = replace(progress, judged_through=moment.step, has_concluded=True, error=message)
        return Judgement(progress, verdicts.crashed(configured, moment, error=message))

    def _judge(self, configured: ConfiguredRule, progress: RuleProgress, pending_step: StepToJudge) -> Judgement:
        rule, window = configured.rule, pending_step.window
        findings: tuple[Finding, ...] | None = None
        lacks = ""
        how = pending_step.data.visible_to(configured)
        try:
            if how is VisibleData.WHOLE:
                findings = _check(configured, progress, window)
            elif how is VisibleData.RECORDED:
                findings = self._check_recorded(configured, progress, window)
            if findings is not None:
                lacks = "" if findings else rule.lacks(window)
        except RecordError:  # a damaged file is no fault of the rule; the trial has noted it
            findings = ()
        progress.judged_through = window.step
        return Judgement(progress) if findings is None else self._weigh(configured, progress, findings, lacks, window)

    def _judge_again(self, configured: ConfiguredRule, progress: RuleProgress, window: Window) -> Judgement:
        memory = progress.memory  # a step is remembered once, however often it is looked at
        findings = _check(configured, progress, window)
        progress.memory = memory
        return self._with_patience(configured, progress, findings, window) if findings else Judgement(progress)

    def _check_recorded(
        self, configured: ConfiguredRule, progress: RuleProgress, window: Window
    ) -> tuple[Finding, ...] | None:
        """Return the findings in the recorded statistics of a step; None if the rule needs other data.

        Rows are recorded in tiers: a few numbers of each tensor at most steps, more of them at some.
        """
        source = WatchedSource(window.source, step=window.step, collections=configured.rule.watches)
        try:
            findings = _check(configured, progress, window.seen_through(source))
        except TensorNotSavedError:  # it needs whole tensors
            return None
        return findings if findings or source.has_shown else None

    def _weigh(
        self,
        configured: ConfiguredRule,
        progress: RuleProgress,
        findings: tuple[Finding, ...],
        lacks: str,
        window: Window,
    ) -> Judgement:
        """Count the step as judged, missing its inputs, or unreadable.

        Open an issue once the rule's patience is over.
        """
        if not findings and self._trial.parts.damage and self._is_damaged(window.step):
            progress.unreadable += 1  # an unread step is not clean, and leaves the streak as it is
        elif lacks:  # nothing found where nothing could be: not a judged step
            progress.lacks, progress.streak, progress.since = lacks, 0, {}
        else:
            progress.judged += 1
            if findings:
                return self._with_patience(configured, progress, findings, window)
            progress.streak, progress.since = 0, {}
            if progress.is_open and self._has_recovered(configured, progress, window):
                progress.is_open, progress.opened = False, None
                return Judgement(progress, recovered=self._moment(window))
        return Judgement(progress)

    def _with_patience(
        self, configured: ConfiguredRule, progress: RuleProgress, findings: tuple[Finding, ...], window: Window
    ) -> Judgement:
        progress.streak += 1
        before = progress.since
        progress.since = {
            (f.worker, f.subject): min(f.since_step, before.get((f.worker, f.subject), f.since_step)) for f in findings
        }
        progress.quiet = 0
        if progress.issues >= MOST_ISSUES or progress.streak < configured.rule.findings_in_a_row:
            return Judgement(progress)
        if progress.is_open and not _may_become_graver(configured, progress, window):
            return Judgement(progress)
        dated = [replace(f, since_step=progress.since[f.worker, f.subject]) for f in findings]
        ordered = verdicts.worst_first(dated)
        severity, harm, signs = self._weighed(configured, ordered, window)
        progress.weighed_through = window.step
        if progress.is_open and severity.rank <= progress.severity:
            return Judgement(progress)
        progress.issues, progress.is_open, progress.severity = progress.issues + 1, True, severity.rank
        progress.opened = ordered[0]
        progress.has_concluded = configured.rule.judges_until_found
        with self._lock:
            event_key = self._trial.parts.steps.event_key(ordered[0].step, ordered[0].worker)
            several_workers = self._trial.parts.steps.has_several_workers(window.step)
            is_of_weights = severity is not Severity.INFO and not configured.rule.judges_speed
            checkpoints = self._trial.parts.checkpoints.all() if is_of_weights else ()
        verdict = verdicts.issue_found(
            configured,
            ordered,
            self._moment(window),
            event_key=event_key,
            several_workers=several_workers,
            severity=severity,
            harm=harm,
            suspicions=(suspicions := _suspicions(configured, ordered, window)),
            signs=(*signs, *_signs(configured, suspicions, window)),
            occurrence=progress.issues,
            facts=window.facts,
            checkpoints=checkpoints,
        )
        return Judgement(progress, verdict)

    def _weighed(
        self, configured: ConfiguredRule, findings: tuple[Finding, ...], window: Window
    ) -> tuple[Severity, str, tuple[Sign, ...]]:
        """Return the severity of an issue, the harm that makes it critical, and all harm as evidence."""
        severity = configured.rule.severity_of(findings)
        if not is_calibrated(configured):
            return severity, "", ()
        harms = harms_in(findings, window)
        allowed = self._critical.get(configured.rule.rule_id, UNLEARNED)
        severity, harm = gated(severity, harms, allowed, lasted_steps=lasted_steps(findings, window))
        return severity, harm, tuple(signs_of_harm(harms))

    def _has_recovered(self, configured: ConfiguredRule, progress: RuleProgress, window: Window) -> bool:
        """Return True if the open issue is over: enough steps without a finding, and without the harm that it did.

        Enough is the number of findings in a row that opened it, and at least `FEWEST_CLEAN_STEPS`. Noise can hide a
        finding for a while; what the training has lost it does not bring back.
        """
        progress.quiet += 1
        if progress.quiet < max(FEWEST_CLEAN_STEPS, configured.rule.findings_in_a_row):
            return False
        if not is_calibrated(configured):
            return True
        if progress.opened is not None and not configured.rule.is_over(progress.opened, window):
            return False
        if progress.severity < Severity.CRITICAL.rank:
            return True
        if not (window.is_last or is_paced_step(window.step, progress.weighed_through)):
            return False  # weighing is for every tenth step, as that of findings
        progress.weighed_through = window.step
        allowed = self._critical.get(configured.rule.rule_id, UNLEARNED)
        return not any(harm.value in allowed for harm in harms_in((), window))

    def _is_damaged(self, step: int) -> bool:
        with self._lock:
            return self._trial.parts.steps.is_damaged(step)

    def _moment(self, window: Window) -> Moment:
        return Moment(self._run, window.step, window.now, self._counted)

    def _counted(self, steps: Sequence[int]) -> Sequence[int]:
        with self._lock:
            return self._trial.parts.steps.training_steps(steps)


def is_calibrated(configured: ConfiguredRule) -> bool:
    """Return True for a rule of ours with the default preset: its causes, severity and probability are learned.

    Rules about speed measure their causes, and no harm to the learning makes them graver.
    """
    is_ours = ships_with_trackside(configured.rule) and not configured.rule.judges_speed
    return is_ours and configured.configuration.preset in _CALIBRATED


def sees_saved_steps_only(configured: ConfiguredRule) -> bool:
    """Return True for a rule of an Amazon preset, which counts saved steps only.

    Rules that judge while waiting are excepted: any step ends a stall. So are rules about speed, which read no tensor.
    """
    if configured.configuration.preset in _CALIBRATED:
        return False
    return not (configured.rule.judges_waiting or configured.rule.judges_speed)


def _check(configured: ConfiguredRule, progress: RuleProgress, window: Window) -> tuple[Finding, ...]:
    rule = configured.rule
    if not isinstance(rule, FoldingRule):
        return verdicts.worst_first(rule.check(window))
    state = rule.load(progress.memory) if progress.memory else rule.start()
    state, findings = rule.fold(state, window)
    found = verdicts.worst_first(findings)
    progress.memory = rule.dump(state)
    return found


def _may_become_graver(configured: ConfiguredRule, progress: RuleProgress, window: Window) -> bool:
    """Return True if an open issue is to be weighed again at this step.

    Rules of ours are weighed at the pace of most rules, for the cost; others at each finding, if they escalate.
    """
    if not is_calibrated(configured):
        return configured.rule.escalates
    return progress.severity < Severity.CRITICAL.rank and is_paced_step(window.step, progress.weighed_through)


def _signs(configured: ConfiguredRule, suspicions: tuple[Suspicion, ...], window: Window) -> tuple[Sign, ...]:
    if not is_calibrated(configured):
        return ()
    return (*signs_of(window), *signs_of_rules([(configured.rule.rule_id, suspicions)]))


def _suspicions(configured: ConfiguredRule, findings: tuple[Finding, ...], window: Window) -> tuple[Suspicion, ...]:
    try:
        found = tuple(configured.rule.suspicions(findings, window))
    except RecordError:  # the findings hold, though a file with their causes is damaged
        return ()
    if found and is_calibrated(configured) and configured.rule.observes(findings):
        return (replace(found[0], probability=OBSERVED), *found[1:])
    return found
