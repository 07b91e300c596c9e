"""Rules for agents: one explained, and a stored run judged again by chosen ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from trackside.agents.answers import Parameter, RuleManual, RunVerdict
from trackside.agents.runs import Runs, short_verdict
from trackside.agents.text import one_line, shown_name
from trackside.choosing.rule_choice import choose_rules, layer_of_options
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.rule_catalogue import RuleDescription, built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration
from trackside.rules.catalogue import built_in_rules
from trackside.rules.manual import read_manual
from trackside.runs.judged_now import judge_now

MOST_PARAMETERS, MOST_WHY = 12, 600


def rule_manual(rule: str) -> RuleManual:
    """Return a built-in rule in words.

    Raises:
        ConfigurationError: There is no such rule.
    """
    described = _described(rule)
    manual = read_manual(built_in_rules()[described.rule_id])
    return RuleManual(
        rule=described.rule_id,
        code=described.code,
        severity=described.severity.value,
        finds=described.summary,
        why=one_line(manual.why_it_matters, MOST_WHY),
        what_to_do=tuple(one_line(step) for step in manual.what_to_do.splitlines() if step.strip()),
        parameters=tuple(
            Parameter(each.name, str(each.default), one_line(each.help))
            for each in described.parameters[:MOST_PARAMETERS]
        ),
        manual=f"trackside://rules/{described.rule_id}",
    )


def manual_page(rule: str) -> str:
    """Return the whole manual of a built-in rule as Markdown. Errors: as `rule_manual`."""
    described = _described(rule)
    manual = read_manual(built_in_rules()[described.rule_id])
    parts = [f"# {described.rule_id} ({described.code})", manual.summary]
    for heading, text in manual.sections:
        parts += [f"## {heading}", text]
    rows = [f"- `{each.name}`: {each.help} Default: {each.default}." for each in described.parameters]
    return "\n\n".join([*parts, "## Parameters", "\n".join(rows) or "None.", ""])


def judged_again(runs: Runs, run: str, rules: Sequence[str], *, clock: Callable[[], float] = time.time) -> RunVerdict:
    """Judge the recorded steps of a run by built-in rules. Nothing is written, and earlier verdicts do not count.

    Args:
        runs: The runs.
        run: The name of the run.
        rules: Rules as `overfit` or `overfit:patience_evaluations=5`; none for all usual ones.
        clock: Returns seconds since the epoch.

    Raises:
        ConfigurationError: A rule or parameter is unknown, or a rule is from a file.
    """
    uri = runs.uri(run)
    judged = judge_now(uri, _chosen(rules), clock=clock, stores=runs.list.stores)
    return short_verdict(judged.recorded, run=shown_name(runs.name(run)))


def _chosen(rules: Sequence[str]) -> tuple[RuleConfiguration, ...]:
    """Return the rules. One from a file would run code that the caller names, which a reader must not."""
    files = [rule for rule in rules if ".py" in rule.partition("=")[0]]
    if files:
        fix = "Judge by it with `trackside rules run RUN --only FILE.py:CLASS`."
        problems = [Problem(one_line(rule, 80), "is a rule from a file, which is not run here.", fix) for rule in files]
        raise ConfigurationError(problems, subject="The rules")
    layer = layer_of_options(only=tuple(rules))
    chosen = choose_rules([layer], catalogue=built_in_catalogue()).rules
    if any(rule.custom for rule in chosen):
        raise ConfigurationError([Problem("rules", "must be built-in ones.")], subject="The rules")
    return chosen


def _described(rule: str) -> RuleDescription:
    catalogue = built_in_catalogue()
    rule_id = catalogue.id_of(rule)
    if rule_id not in catalogue.rules:
        near = did_you_mean(rule, catalogue.rules)
        fix = near if near.startswith("Did") else ""
        raise ConfigurationError([Problem("rule", f"Unknown rule {one_line(rule, 80)!r}.", fix)], subject="The call")
    return catalogue.rules[rule_id]
