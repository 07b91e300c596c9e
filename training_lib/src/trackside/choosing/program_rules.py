"""The rules that a Python program chooses, as by `judge(run, rules=...)`; else those of the project's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trackside.choosing.preflight import with_names_of_their_own
from trackside.choosing.project_settings import ProjectSettings, read_settings
from trackside.choosing.rule_choice import Layer, choose_rules
from trackside.choosing.rule_text import HOW_TO_WRITE, parse_rule
from trackside.choosing.rules_file import RulesFile, read_rules_file
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_catalogue import RuleCatalogue, built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.environment import inherited

Rules = Sequence[str | RuleConfiguration] | Mapping[str, Mapping[str, object]]


def rules_of(
    rules: Rules | None, *, subject: str, settings: ProjectSettings | None = None
) -> tuple[RuleConfiguration, ...]:
    """Return the rules that a Python program chose, with unique names; those of the project's settings for None.

    `settings` None: they are read. Errors: `ConfigurationError` with every problem at once, under the name `subject`.
    """
    catalogue = built_in_catalogue()
    if rules is None:
        return _of_project(catalogue, settings)
    problems: list[Problem] = []
    chosen: list[RuleConfiguration] = []
    for rule in [rules] if isinstance(rules, str) else rules:
        if isinstance(rule, RuleConfiguration):
            chosen.append(rule)
            continue
        try:
            parsed = parse_rule(rule)
        except ValueError as error:
            problems.append(Problem(f"rules: {rule!r}", str(error), HOW_TO_WRITE))
            continue
        if isinstance(rules, Mapping):
            given = {name: _text(value) for name, value in rules[rule].items()}
            parsed = RuleConfiguration(parsed.rule_id, parameters={**parsed.parameters, **given}, source=parsed.source)
        chosen.append(parsed)
    if problems:
        raise ConfigurationError(problems, subject=subject)
    named = with_names_of_their_own(chosen)
    catalogue.check(RuleRequest(named))
    return named


def _of_project(catalogue: RuleCatalogue, settings: ProjectSettings | None) -> tuple[RuleConfiguration, ...]:
    settings = settings or read_settings(Path.cwd(), inherited())
    file = RulesFile(()) if settings.rules_file is None else read_rules_file(settings.rules_file)
    of_file = Layer(requests=file.rules, requested_in=str(settings.rules_file or "")) if file.rules else Layer()
    return choose_rules([*settings.rule_layers, of_file, file.words], catalogue=catalogue).rules


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
