"""The final verdict on a rule at the end of a run."""

from __future__ import annotations

from trackside.contracts.verdict import Verdict
from trackside.evaluation import verdicts
from trackside.evaluation.missing_inputs import verdict_without_inputs
from trackside.evaluation.progress import RuleProgress
from trackside.evaluation.verdicts import Moment
from trackside.rules.catalogue import ConfiguredRule
from trackside.trial.trial import Trial


def final_verdict(
    configured: ConfiguredRule, progress: RuleProgress, trial: Trial, *, run: str, now: float
) -> Verdict | None:
    """Return the final verdict of a rule; None if the rule found an issue, recovered or not."""
    if progress.issues:
        return None
    moment = Moment(run, max(progress.judged_through, 0), now)
    answered = progress.judged > 0 and not progress.lacks
    if (without_input := verdict_without_inputs(configured, moment, trial, answered=answered)) is not None:
        return without_input
    if progress.judged < configured.rule.findings_in_a_row and progress.lacks:
        return verdicts.not_ready(configured, moment, lacks=progress.lacks)
    if progress.judged == 0:
        saved = bool(trial.new_complete_steps(-1))
        return verdicts.no_data(configured, moment, run_saved_steps=saved, unreadable=progress.unreadable)
    if progress.judged < configured.rule.findings_in_a_row:
        return verdicts.too_little_data(configured, moment, judged=progress.judged)
    return verdicts.clean(configured, moment, judged=progress.judged)
