"""Verdicts from findings: one for each rule configuration, in sentences a user can act on. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from trackside.contracts.action import Action
from trackside.contracts.capture_request import ALL
from trackside.contracts.cause import Cause, Sign, Suspicion
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.observation import is_recorded_number
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.run.checkpoint import Checkpoint, newest_before
from trackside.contracts.run_layout import TENSORS
from trackside.contracts.verdict import (
    MOST_FINDINGS,
    NO_LOSS,
    NOTHING_TO_JUDGE,
    Finding,
    Outcome,
    Severity,
    State,
    Verdict,
)
from trackside.diagnosis.learned import odds, weights
from trackside.diagnosis.probability import probability_of, properties_of
from trackside.diagnosis.ranking import suspicions_of
from trackside.diagnosis.signs import FOUND, SHOWN
from trackside.rules.catalogue import ConfiguredRule
from trackside.situation.constants import MOST_CAUSES, OBSERVED

_SURE = 0.5  # probability from which another cause replaces the one that users were notified of


@dataclass(frozen=True)
class Moment:
    """The run, step and time (seconds since the epoch) of a verdict.

    count  returns the numbers of steps among the training steps, as users count
    """

    run: str
    step: int
    detected_at: float
    count: Callable[[Sequence[int]], Sequence[int]] = field(default=list, compare=False)

    @property
    def shown(self) -> int:
        """The number of the step, as users count."""
        return self.count([self.step])[0]


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by their distance beyond the threshold, then by their duration, else in the rule's own order."""
    found = tuple(findings)
    return tuple(sorted(found, key=lambda finding: (-_excess(finding), finding.since_step))) if found else ()


def issue_found(
    configured: ConfiguredRule,
    findings: Sequence[Finding],
    moment: Moment,
    *,
    event_key: str,
    several_workers: bool,
    severity: Severity,
    harm: str = "",
    suspicions: tuple[Suspicion, ...] = (),
    signs: tuple[Sign, ...] = (),
    occurrence: int = 1,
    facts: ModelFacts | None = None,
    checkpoints: Sequence[Checkpoint] = (),
) -> Verdict:
    """Return IssuesFound, for findings sorted worst first. Only a critical issue stops a run, whatever was requested.

    harm         the harm that makes it critical, a clause
    facts        the facts about the program; None if they are unknown
    checkpoints  the checkpoints that the script wrote
    """
    rule, lead = configured.rule, findings[0]
    since = min(finding.since_step for finding in findings)
    on_worker = f" on {lead.worker}" if several_workers else ""
    where = f"{on_worker}" if is_recorded_number(lead.subject) else f": {lead.subject}{on_worker}"
    others = len(findings) - 1
    more = f", and {others} more like it" if others else ""
    summary = rule.describe().summary.rstrip(".")
    at, first = moment.count([lead.step, since])
    sentence = f"{summary}{where} ({lead.comparison} at step {at}) since step {first}{more}."
    way_back = newest_before(since, checkpoints)
    verdict = Verdict(
        run=moment.run,
        rule_id=rule.rule_id,
        configuration_name=configured.configuration.name,
        outcome=Outcome.ISSUE_FOUND,
        severity=severity,
        step=moment.step,
        message=rule.sentence([_as_counted(finding, moment) for finding in findings]) or sentence,
        detected_at=moment.detected_at,
        findings=tuple(findings[:MOST_FINDINGS]),
        affected=len(findings),
        what_to_do=rule.advice(facts),
        actions=allowed_actions(configured, severity),
        terms=configured.configuration.terms,
        tensor_key=f"{TENSORS}/{event_key}" if event_key else "",
        harm=harm,
        suspicions=suspicions,
        signs=signs,
        occurrence=occurrence,
        checkpoint=way_back.path if way_back else "",
        checkpoint_step=way_back.step if way_back else 0,
    )
    return counted(verdict, moment)


def counted(verdict: Verdict, moment: Moment) -> Verdict:
    """Return the verdict with the numbers of its steps as users count."""
    series = verdict.lead.series if verdict.lead is not None else ()
    steps = sorted({verdict.step, verdict.since_step, *(f.step for f in verdict.findings[:1]), *(s for s, _ in series)})
    steps = sorted({*steps, verdict.checkpoint_step}) if verdict.checkpoint else steps
    pairs = zip(steps, moment.count(steps), strict=True)
    return replace(verdict, training_steps=tuple((step, number) for step, number in pairs if step != number))


def _as_counted(finding: Finding, moment: Moment) -> Finding:
    step, since = moment.count([finding.step, finding.since_step])
    return replace(finding, step=step, since_step=since)


def allowed_actions(configured: ConfiguredRule, severity: Severity) -> tuple[Action, ...]:
    """Return the actions that were asked for and that the severity allows."""
    return tuple(action for action in configured.configuration.actions if _may(severity, action))


def recovered(opened: Verdict, moment: Moment) -> Verdict:
    """Return NoIssuesFound for the time being: the issue `opened` is gone."""
    lead = opened.lead
    subject = "it" if lead is None or is_recorded_number(lead.subject) else lead.subject
    found_at = opened.training_step(opened.step)
    verdict = replace(
        opened,
        outcome=Outcome.CLEAN,
        severity=Severity.INFO,
        state=State.RECOVERED,
        step=moment.step,
        detected_at=moment.detected_at,
        message=f"Recovered by step {moment.shown}: {subject} is as it should be again (issue of step {found_at}).",
        findings=(),
        affected=0,
        what_to_do=(),
        actions=(),
        suspicions=(),
        signs=(),
        harm="",
        probability=None,
        checkpoint="",
        checkpoint_step=0,
    )
    return counted(verdict, moment)


def grouped(verdict: Verdict, standing: Iterable[Verdict], *, before: Verdict | None = None) -> Verdict:
    """Return the verdict with its group.

    Its causes are ranked by the evidence of the group. It notifies nobody of a problem that users know, unless it is
    graver or names a surer cause.

    before  the last issue of this configuration, if it recovered; its return is notified again
    """
    known = tuple(standing)
    group = group_of(verdict, (before, *known) if before is not None else known)
    members = tuple([other for other in known if other.group == group])
    diagnosis = diagnosed(replace(verdict, group=group), members)
    notified = [other for other in members if Action.NOTIFY in other.actions]
    if not notified or is_news(diagnosis, notified):
        return diagnosis
    return replace(diagnosis, actions=tuple([a for a in diagnosis.actions if a is not Action.NOTIFY]))


def is_news(verdict: Verdict, notified: Sequence[Verdict]) -> bool:
    """Return True if a verdict changes a notified problem: it is graver, or names another cause with more certainty.

    Args:
        verdict: The new verdict, with its causes ranked by all evidence.
        notified: The verdicts of its group that users were notified of, oldest first.
    """
    if max(other.severity.rank for other in notified) < verdict.severity.rank:
        return True
    first, before = verdict.suspicions[:1], notified[-1].suspicions[:1]
    if not first or not first[0].probability or first[0].probability < _SURE:
        return False
    return not before or (
        before[0].cause is not first[0].cause and (before[0].probability or 0.0) < first[0].probability
    )


def diagnosed(verdict: Verdict, members: Sequence[Verdict]) -> Verdict:
    """Return an issue with its causes ranked by all evidence, and its probability. Only rules of ours carry evidence.

    A mistake that another rule of the group observed in the program comes first: it is known, the others are inferred.

    Args:
        verdict: The new issue.
        members: The standing issues of its group by other rules.
    """
    if not verdict.signs:
        return verdict
    pooled = tuple(pooled_signs(verdict, members))
    hints = {one.rule_id: one.suspicions for one in (*members, verdict)}
    others = {member.rule_id for member in members} - {verdict.rule_id}
    likely = probability_of(verdict.rule_id, properties_of(verdict, others=others), odds())
    own = next(filter(_is_observed, verdict.suspicions), None)
    causes = suspicions_of(pooled, weights(), hints=hints, observed=own)
    known = _observed_by(members) if own is None else None
    if known is not None:
        causes = (known, *[one for one in causes if one.cause is not known.cause][: MOST_CAUSES - 1])
    return replace(verdict, suspicions=causes, probability=round(likely, 3))


def _observed_by(members: Sequence[Verdict]) -> Suspicion | None:
    """Return the mistake that the gravest of these issues observed in the program; of a remark none."""
    for member in sorted(members, key=lambda one: -one.severity.rank):
        first = next(filter(_is_observed, member.suspicions), None)
        if first is not None and member.severity.rank >= Severity.WARNING.rank:
            return first
    return None


def _is_observed(suspicion: Suspicion) -> bool:
    return suspicion.probability == OBSERVED


def pooled_signs(verdict: Verdict, members: Sequence[Verdict]) -> Iterator[Sign]:
    """Yield the evidence of an issue, then the opinions of the other rules of its group.

    Args:
        verdict: The new issue, with the newest facts and statistics.
        members: The standing issues of its group by other rules.
    """
    yield from verdict.signs
    names = {sign.name for sign in verdict.signs}
    for member in members:
        for sign in member.signs:
            if sign.name.startswith((FOUND, SHOWN)) and sign.name not in names:
                names.add(sign.name)
                yield sign


def group_of(verdict: Verdict, others: Iterable[Verdict]) -> str:
    """Return the group of the first other issue with the same problem; else the verdict's own.

    One fault can show in many ways: many rules find it, and the user has one problem.
    """
    for other in others:
        if is_one_problem(verdict, other):
            return other.group
    return verdict.verdict_id


def is_one_problem(one: Verdict, other: Verdict) -> bool:
    """Return True if two verdicts are signs of one problem.

    They share one of their two likeliest causes; or the finding of one is evidence of the likeliest cause of the other;
    or that of the other comes first by the evidence of both.

    Args:
        one: A new issue.
        other: One that stands.
    """
    causes, others = _likeliest(one), _likeliest(other)
    if not causes or not others:  # an unknown cause may be that of the other
        return bool(one.signs and other.signs)
    if not set(causes).isdisjoint(others):
        return True
    if _is_evidence_of(one, others[0]) or _is_evidence_of(other, causes[0]):
        return True
    pooled = tuple(pooled_signs(one, [other]))
    hints = {each.rule_id: each.suspicions for each in (other, one)}
    return any(first.cause is others[0] for first in suspicions_of(pooled, weights(), hints=hints)[:1])


def _is_evidence_of(verdict: Verdict, cause: Cause) -> bool:
    """Return True if the finding of a rule is evidence of a cause, by the learned weights; False for unknown rules."""
    return weights().present.get(f"{FOUND}{verdict.rule_id}", {}).get(cause.value, 0.0) > 0


def _likeliest(verdict: Verdict) -> list[Cause]:
    return [suspicion.cause for suspicion in verdict.suspicions[:2]]


def clean(configured: ConfiguredRule, moment: Moment, *, judged: int) -> Verdict:
    """Return NoIssuesFound, at the end of the run."""
    message = f"{_steps(judged)} judged up to step {moment.shown}, no issue found."
    return _verdict(configured, moment, Outcome.CLEAN, message=message)


def blinded(configured: ConfiguredRule, moment: Moment, *, since: int) -> Verdict:
    """Return the verdict on a rule without an issue in a run with values that are not finite from `since` on.

    NoIssuesFound if they were finite for most of the run, else "not evaluated".
    """
    first = moment.count([since])[0]
    seen = f"no issue was found in the {_steps(first)} before" if first else "no step came before"
    message = f"Values are not finite from step {first} on, which hides all else from this rule; {seen}."
    outcome = Outcome.CLEAN if 2 * since > moment.step else Outcome.NOT_EVALUATED
    return _verdict(configured, moment, outcome, message=message)


def crashed(configured: ConfiguredRule, moment: Moment, *, error: str) -> Verdict:
    """Return "not evaluated": the rule itself raised."""
    message = f"The rule {configured.rule.rule_id} crashed at step {moment.shown} and judges no further: {error}"
    fix = "Look at the evaluator's log for the traceback, and report or mend the rule; the other rules went on."
    return _verdict(configured, moment, Outcome.NOT_EVALUATED, message=message, what_to_do=(fix,))


def abandoned(configured: ConfiguredRule, moment: Moment, *, seconds: float) -> Verdict:
    """Return "not evaluated": the rule was at one step for too long."""
    message = (
        f"The rule {configured.rule.rule_id} was still at step {moment.step} after {seconds:.0f} seconds, "
        "and judges no further."
    )
    return _verdict(
        configured,
        moment,
        Outcome.NOT_EVALUATED,
        message=message,
        what_to_do=(
            "Look in the rule for a loop without an end, or for something that it waits for; the other rules went on.",
            f"Once it is mended, judge this run by it: trackside rules test RUN --rule {_spelled(configured)}",
        ),
    )


def out_of_time(configured: ConfiguredRule, moment: Moment, *, last_step: int, seconds: float) -> Verdict:
    """Return "not evaluated": long after the end of the run the rule was still at `moment.step`, far behind."""
    message = (
        f"The rule {configured.rule.rule_id} is too slow: {seconds:.0f} seconds after the end of the run "
        f"it had come to step {moment.step} of {last_step}."
    )
    return _verdict(
        configured,
        moment,
        Outcome.NOT_EVALUATED,
        message=message,
        what_to_do=(
            f"Run it afterwards, without a limit: trackside rules test RUN --rule {_spelled(configured)}",
            "Or have it do less at each step, or save its tensors less often (save_interval).",
        ),
    )


def refused(configuration: RuleConfiguration, moment: Moment) -> Verdict:
    """Return "not evaluated": the rule's code is a file named by the request, and this evaluator runs no such code."""
    custom = configuration.custom
    source, class_name = (custom.source, custom.class_name) if custom else ("", configuration.rule_id)
    message = (
        f"The rule {class_name or configuration.rule_id} of {source} was not judged: no rule from a file runs here."
    )
    return Verdict(
        run=moment.run,
        rule_id=class_name or configuration.rule_id,
        configuration_name=configuration.name,
        outcome=Outcome.NOT_EVALUATED,
        severity=Severity.WARNING,
        step=moment.step,
        message=message,
        detected_at=moment.detected_at,
        what_to_do=(
            "Judge the run from a machine that may run its code: python -m trackside.evaluation --run <the run>",
            "Or install the rule in the container's image, by the entry point `trackside.rules`, and request its id.",
        ),
    )


def no_data(configured: ConfiguredRule, moment: Moment, *, run_saved_steps: bool, unreadable: int) -> Verdict:
    """Return "not evaluated": no step held the data that the rule watches, or none could be read."""
    rule = configured.rule
    watches = [name for name in rule.watches if name != ALL] or [ALL]
    watched = " or ".join(watches)
    if unreadable:
        message = f"The {watched} of all {_steps(unreadable)} that hold them lie in damaged files."
        fix = "Look at the evaluator's log, which names the files; the training's disk may have been full."
    elif run_saved_steps:
        message = f"The run saved no {watched}, so there was nothing to judge."
        names = " or ".join(repr(name) for name in watches)
        how_often = f"every {rule.save_interval} steps or more often"
        fix = (
            f"Add the collection {names} to the capture request, {how_often}; "
            "if it was requested, this training has no tensor of it."
        )
    else:
        message = "The run ended without a single saved step, so there was nothing to judge."
        fix = "Check that capture was switched on in the training job (TRACKSIDE_RUN) and that it reached a saved step."
    return _verdict(configured, moment, Outcome.NOT_EVALUATED, message=message, what_to_do=(fix,))


def not_ready(configured: ConfiguredRule, moment: Moment, *, lacks: str) -> Verdict:
    """Return "not evaluated": the run was too short, or saved too few steps, for the rule to answer."""
    message = f"The run ended before the rule could answer: it needs {lacks}."
    fix = "Let the run go on for longer, or set the rule's parameters to what a run of this length can answer."
    return _verdict(configured, moment, Outcome.NOT_EVALUATED, message=message, what_to_do=(fix,))


def not_applicable(configured: ConfiguredRule, moment: Moment, *, reason: str) -> Verdict:
    """Return NoIssuesFound: the program has nothing that the rule judges. `reason` is a clause."""
    return _verdict(configured, moment, Outcome.CLEAN, message=f"{NOTHING_TO_JUDGE}{reason}.")


def selects_nothing(configured: ConfiguredRule, moment: Moment, *, selection: str, fix: str) -> Verdict:
    """Return "not evaluated": the rule's settings, `selection` (`tensor_regex 'fc9'`), select no tensor of the run."""
    message = f"Nothing was judged: no tensor of the run is selected by {selection}. {fix}"
    return _verdict(configured, moment, Outcome.NOT_EVALUATED, message=message, what_to_do=(fix,))


def no_loss(configured: ConfiguredRule, moment: Moment, *, has_backward: bool = True) -> Verdict:
    """Return "not evaluated": the rule judges losses, and the training showed none.

    has_backward  False for a training in rounds, whose losses are those of its metrics that fall
    """
    if not has_backward:
        message = f"{NO_LOSS}the training evaluates no metric that falls."
        fix = "Evaluate the training set and held-back rows by a metric that falls while a model learns."
        return _verdict(configured, moment, Outcome.NOT_EVALUATED, message=message, what_to_do=(fix,))
    message = "No loss was seen: `backward` was called on no scalar, and no loss was saved."
    fix = "Save it in the training script: hook.save_tensor('loss', loss, collection='losses')."
    return _verdict(configured, moment, Outcome.NOT_EVALUATED, message=message, what_to_do=(fix,))


def too_little_data(configured: ConfiguredRule, moment: Moment, *, judged: int) -> Verdict:
    """Return "not evaluated": fewer steps were judged than the rule's patience, so it could not find an issue."""
    rule = configured.rule
    watched = " or ".join(rule.watches)
    needed = rule.findings_in_a_row
    message = f"Only {_steps(judged)} with {watched} saved; the rule needs {needed} in a row to find an issue."
    fix = f"Save {watched} more often than now (save_interval), or let the run go on for longer."
    return _verdict(configured, moment, Outcome.NOT_EVALUATED, message=message, what_to_do=(fix,))


def too_few_steps(configured: ConfiguredRule, moment: Moment, *, judged: int, enough: int) -> Verdict:
    """Return "not evaluated": no issue was found, in too few steps for "no issue"."""
    message = f"No issue found, but only {_steps(judged)} judged up to step {moment.shown}: {enough} are enough."
    fix = "Let the run go on for longer, or set the rule's parameters to what a run of this length can answer."
    return _verdict(configured, moment, Outcome.NOT_EVALUATED, message=message, what_to_do=(fix,))


def _verdict(
    configured: ConfiguredRule,
    moment: Moment,
    outcome: Outcome,
    *,
    message: str,
    what_to_do: tuple[str, ...] = (),
) -> Verdict:
    verdict = Verdict(
        run=moment.run,
        rule_id=configured.rule.rule_id,
        configuration_name=configured.configuration.name,
        outcome=outcome,
        severity=Severity.INFO if outcome is Outcome.CLEAN else Severity.WARNING,
        step=moment.step,
        message=message,
        detected_at=moment.detected_at,
        what_to_do=what_to_do,
    )
    return counted(verdict, moment)


def _excess(finding: Finding) -> float:
    """Return the observed value over the threshold; infinity for a value that is not finite."""
    observed, threshold = finding.observed, finding.threshold
    if not math.isfinite(observed):
        return math.inf
    beyond, within = (threshold, observed) if finding.relation == "<" else (observed, threshold)
    if within > 0:
        return beyond / within
    return math.inf if beyond > 0 else abs(observed - threshold)


def _may(severity: Severity, action: Action) -> bool:
    """Return True if the severity allows the action: only critical issues stop a run, and INFO notifies nobody."""
    if action.unit.stops:
        return severity is Severity.CRITICAL
    return severity is not Severity.INFO or action is not Action.NOTIFY


def _spelled(configured: ConfiguredRule) -> str:
    """Return the rule's name on the command line."""
    custom = configured.configuration.custom
    return f"{custom.source}:{custom.class_name}" if custom else configured.configuration.rule_id


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"
