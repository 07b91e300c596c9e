"""The rule options of `run`, `check`, `rules run` and `rules test`: the same words with the same meaning."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackside.choosing.rule_choice import Chosen, Layer, choose_rules, layer_of_options
from trackside.cli.terminal.options import is_quiet
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import PRESETS

if TYPE_CHECKING:
    from trackside.choosing.project_settings import ProjectSettings
    from trackside.choosing.rules_file import RulesFile


@dataclass(frozen=True)
class RuleOptions:
    """The rule options of a command line.

    words       `--rule`, `--only`, `--set` and `--skip`
    rules_file  None without `--rules-file`
    preset      None without `--preset`
    """

    words: Layer
    rules_file: Path | None
    preset: str | None = None


def rule_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options, passed as `options`."""

    @functools.wraps(command)
    def run(
        *,
        rules: tuple[str, ...],
        only: tuple[str, ...],
        settings: tuple[str, ...],
        skip: tuple[str, ...],
        rules_file: Path | None,
        preset: str | None,
        **others: Any,
    ) -> None:
        words = layer_of_options(add=rules, only=only, settings=settings, skip=skip)
        command(options=RuleOptions(words, rules_file, preset), **others)

    for option in reversed(
        (
            click.option(
                "--rule",
                "rules",
                multiple=True,
                metavar="ID[:NAME=VALUE,...]",
                help="Judge by this rule too, or by your own: FILE.py:CLASS. Repeat for more.",
            ),
            click.option(
                "--only",
                multiple=True,
                metavar="ID[:NAME=VALUE,...]",
                help="Judge by this rule in place of the default ones. Repeat for more.",
            ),
            click.option(
                "--set",
                "settings",
                multiple=True,
                metavar="ID.NAME=VALUE",
                help="Set a parameter of a rule; all other rules stay. Repeat for more.",
            ),
            click.option("--skip", multiple=True, metavar="ID", help="Leave out this rule. Repeat for more."),
            click.option(
                "--rules-file",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="Rules as JSON or YAML.",
            ),
            click.option(
                "--preset",
                type=click.Choice(PRESETS),
                help=f"In whose sense.  [default: {PRESETS[0]}, or as the file says]",
            ),
        )
    ):
        option(run)
    return run


def rules_of(options: RuleOptions, settings: ProjectSettings, file: RulesFile) -> Chosen:
    """Return the rules by all sources: the project's settings, then the rules file, then the command line.

    Errors: `ConfigurationError` with every problem at once.
    """
    of_file = Layer(requests=file.rules, requested_in=str(options.rules_file or "")) if file.rules else Layer()
    layers = [*settings.rule_layers, of_file, file.words, options.words]
    return choose_rules(layers, catalogue=built_in_catalogue(), preset=options.preset)


def recorded_rules(options: RuleOptions) -> Chosen:
    """Return the rules for recorded runs. Notes on the rules file, and the choice, are shown on stderr.

    Errors: `ConfigurationError` with every problem at once.
    """
    from trackside.choosing.project_settings import read_settings
    from trackside.choosing.rules_file import RulesFile, read_rules_file
    from trackside.environment import inherited

    settings = read_settings(Path.cwd(), inherited())
    path = options.rules_file or settings.rules_file
    file = RulesFile(()) if path is None else read_rules_file(path)
    for note in file.notes:
        click.echo(f"trackside: {note}", err=True)
    chosen = rules_of(options, settings, file)
    if chosen.is_default and chosen.difference and not is_quiet():  # other choices were named by the user
        click.echo(f"trackside: judged by {chosen.difference}", err=True)
    return chosen
