"""The rules chosen to judge recorded runs: by `--rule`, `--set`, `--preset` and `--rules-file`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import PRESETS, RuleConfiguration, RuleRequest
from trackside.local.rule_text import HOW_TO_WRITE, parse_rule

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Choice:
    """The rule options of a command line. `preset` is None without `--preset`."""

    rules: tuple[str, ...]
    settings: tuple[str, ...]
    preset: str | None
    rules_file: Path | None


def rule_options(verb: str) -> Callable[[F], F]:
    """Return a decorator that adds the options. `verb` is the command's action on a rule ("Test")."""

    def add(command: F) -> F:
        file = click.option(
            "--rules-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Rules as JSON or YAML, as for `trackside run`.",
        )
        preset = click.option(
            "--preset",
            type=click.Choice(PRESETS),
            help=f"In whose sense.  [default: {PRESETS[0]}, or as the file says]",
        )
        setting = click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set a parameter of the one --rule. Repeat for more.",
        )
        rule = click.option(
            "--rule",
            "rules",
            multiple=True,
            metavar="ID[:NAME=VALUE,...]",
            help=f"{verb} this rule, or your own: FILE.py:CLASS. Repeat for more. Default: all.",
        )
        return rule(setting(preset(file(command))))

    return add


def chosen_rules(choice: Choice) -> list[RuleConfiguration]:
    """Return the chosen rules, with unique names.

    Errors: `ConfigurationError` with every problem of the command line, or of the rules, at once.
    """
    from trackside.local.preflight import with_names_of_their_own

    problems: list[Problem] = []
    chosen = [one for text in choice.rules if (one := _rule(text, problems)) is not None]
    parameters = dict([pair for text in choice.settings if (pair := _pair(text, problems)) is not None])
    if choice.settings and len(choice.rules) != 1:
        what = "needs one --rule whose parameter it sets."
        problems.append(Problem("--set", what, "--rule ID:NAME=VALUE,NAME=VALUE sets those of each rule."))
    if problems:
        raise ConfigurationError(problems, subject="The command line")
    chosen = [replace(one, parameters={**one.parameters, **parameters}) for one in chosen]
    chosen = [*_of_file(choice.rules_file), *chosen] or _usual(choice.preset or "")
    if choice.preset is not None:
        chosen = [_in_sense_of(choice.preset, one) for one in chosen]
    named = with_names_of_their_own(chosen)
    built_in_catalogue().check(RuleRequest(named))
    return list(named)


def _usual(preset: str) -> list[RuleConfiguration]:
    catalogue = built_in_catalogue()
    offered = [rule for rule in catalogue.usual if catalogue.rules[rule].in_sense_of(preset) is not None]
    return [RuleConfiguration(rule_id) for rule_id in offered]


def _in_sense_of(preset: str, rule: RuleConfiguration) -> RuleConfiguration:
    return rule if rule.custom else replace(rule, preset="" if preset == PRESETS[0] else preset)


def _of_file(path: Path | None) -> Sequence[RuleConfiguration]:
    if path is None:
        return ()
    from trackside.local.rules_file import read_rules_file

    found = read_rules_file(path)
    for note in found.notes:
        click.echo(f"trackside: {note}", err=True)
    return found.rules


def _rule(text: str, problems: list[Problem]) -> RuleConfiguration | None:
    try:
        return parse_rule(text)
    except ValueError as error:
        problems.append(Problem(f"--rule {text}", str(error), HOW_TO_WRITE))
        return None


def _pair(text: str, problems: list[Problem]) -> tuple[str, str] | None:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        problems.append(Problem(f"--set {text}", "is not NAME=VALUE.", "Write for example: --set threshold=0.5"))
        return None
    return name.strip(), value.strip()
