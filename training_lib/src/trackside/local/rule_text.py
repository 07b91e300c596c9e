"""A rule as a user writes it, on the command line or in Python: `exploding-tensor:threshold=10`, `mine.py:Large`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_catalogue import RuleCatalogue, built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.environment import inherited

if TYPE_CHECKING:
    from trackside.local.project_settings import ProjectSettings

HOW_TO_WRITE = "Write ID or FILE.py:CLASS, then :NAME=VALUE,NAME=VALUE if you like."

Rules = Sequence[str | RuleConfiguration] | Mapping[str, Mapping[str, object]]


def parse_rule(text: str) -> RuleConfiguration:
    """Return the configuration in `exploding-tensor:threshold=10,patience=2`, or `FILE.py:CLASS:threshold=10`.

    A short code stands for the id of its rule: `TS203`.

    Raises `ValueError` with a cure.
    """
    source, rule_id, rest = split_rule(text)
    parameters = {}
    for pair in rest.split(",") if rest else ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{pair!r} is not NAME=VALUE.")
        if name.strip() in parameters:
            raise ValueError(f"{name.strip()!r} is set twice.")
        parameters[name.strip()] = value.strip()
    if not rule_id.strip():
        raise ValueError("names no rule.")
    if not source and rule_id.strip().endswith(".py"):
        raise ValueError("names a file, and no class in it.")
    name = rule_id.strip()
    return RuleConfiguration(name if source else built_in_catalogue().id_of(name), parameters=parameters, source=source)


def split_rule(text: str) -> tuple[str, str, str]:
    """Return (file, rule or class, the rest) of `s3://b/mine.py:Large:limit=3`.

    The file is "" for a rule without one.
    """
    file, py, after = text.partition(".py:")
    if not py or "=" in file:  # then it stands within a parameter
        return "", *text.partition(":")[::2]
    return f"{file}.py", *after.partition(":")[::2]


def rules_of(
    rules: Rules | None, *, subject: str, settings: ProjectSettings | None = None
) -> tuple[RuleConfiguration, ...]:
    """Return the rules that a Python program chose, with unique names; those of the project's settings for None.

    `settings` None: they are read. Errors: `ConfigurationError` with every problem at once, under the name `subject`.
    """
    from trackside.local.preflight import with_names_of_their_own  # the command line reads rules without it

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
    from trackside.local.project_settings import read_settings
    from trackside.local.rule_choice import Layer, choose_rules
    from trackside.local.rules_file import RulesFile, read_rules_file

    settings = settings or read_settings(Path.cwd(), inherited())
    file = RulesFile(()) if settings.rules_file is None else read_rules_file(settings.rules_file)
    of_file = Layer(requests=file.rules, requested_in=str(settings.rules_file or "")) if file.rules else Layer()
    return choose_rules([*settings.rule_layers, of_file, file.words], catalogue=catalogue).rules


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
