"""The final verdict on a rule at the end of a run."""

from __future__ import annotations

from collections.abc import Iterable

from trackside.contracts.issue_group import standing_issues
from trackside.contracts.verdict import FindingKind, Verdict
from trackside.evaluation.results import verdicts
from trackside.evaluation.results.judging import FEWEST_CLEAN_STEPS, is_calibrated
from trackside.evaluation.results.missing_inputs import verdict_without_inputs
from trackside.evaluation.results.progress import RuleProgress
from trackside.evaluation.results.verdicts import Moment
from trackside.rules.catalogue import ConfiguredRule
from trackside.trial.trial import Trial

_NO_VALUES = "trackside.rules.program."  # rules of the program itself, which see as much without finite values


def final_verdict(
    configured: ConfiguredRule,
    progress: RuleProgress,
    trial: Trial,
    *,
    run: str,
    now: float,
    not_finite_since: int | None = None,
) -> Verdict | None:
    """Return the final verdict of a rule; None if the rule found an issue, recovered or not.

    not_finite_since  the step from which values of the run are not finite to its end; None: they are finite
    """
    if progress.issues:
        return None
    moment = Moment(run, max(progress.judged_through, 0), now, trial.parts.steps.training_steps)
    answered = progress.judged > 0 and not progress.lacks
    if (without_input := verdict_without_inputs(configured, moment, trial, answered=answered)) is not None:
        return without_input
    if not_finite_since is not None and needs_values(configured) and progress.judged_through >= not_finite_since:
        return verdicts.blinded(configured, moment, since=not_finite_since)
    return _of_judged(configured, progress, trial, moment)


def _of_judged(configured: ConfiguredRule, progress: RuleProgress, trial: Trial, moment: Moment) -> Verdict:
    if progress.judged < configured.rule.findings_in_a_row and progress.lacks:
        return verdicts.not_ready(configured, moment, lacks=progress.lacks)
    if progress.judged == 0:
        saved = bool(trial.new_complete_steps(-1))
        return verdicts.no_data(configured, moment, run_saved_steps=saved, unreadable=progress.unreadable)
    if progress.judged < configured.rule.findings_in_a_row:
        return verdicts.too_little_data(configured, moment, judged=progress.judged)
    if progress.judged < (enough := enough_steps(configured)):
        return verdicts.too_few_steps(configured, moment, judged=progress.judged, enough=enough)
    return verdicts.clean(configured, moment, judged=progress.judged)


def enough_steps(configured: ConfiguredRule) -> int:
    """Return the number of judged steps without a finding that make a rule's verdict "no issue".

    As many as end an issue: too few to call an issue over are too few to call a run sound. Rules of the
    program see all of it at one step, and rules of others, and those of Amazon, say what they need themselves.
    """
    needed = configured.rule.findings_in_a_row
    if not (is_calibrated(configured) and needs_values(configured)):
        return needed
    return max(FEWEST_CLEAN_STEPS, needed)


def not_finite_since(found: Iterable[Verdict]) -> int | None:
    """Return the first step of values that were not finite to the end of the run; None if they were, or recovered.

    found  the verdicts of the run
    """
    findings = (finding for issue in standing_issues(found) for finding in issue.findings)
    return min((finding.since_step for finding in findings if finding.kind is FindingKind.NOT_FINITE), default=None)


def needs_values(configured: ConfiguredRule) -> bool:
    """Return True if a rule judges values, which it cannot once they are not finite."""
    rule = configured.rule
    return not (type(rule).__module__.startswith(_NO_VALUES) or rule.judges_waiting or rule.judges_speed)
