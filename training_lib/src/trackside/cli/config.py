"""`trackside config`: the settings of this project, and the source of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.rows import print_json, print_table

if TYPE_CHECKING:
    from trackside.choosing.project_settings import ProjectSettings
    from trackside.choosing.rule_choice import Chosen

DEFAULT = "default"


@click.group("config")
@shared_options
def command() -> None:
    """Show the settings of this project.

    They stand in trackside.toml, or under [tool.trackside] in pyproject.toml, in the working folder or above it. A
    variable TRACKSIDE_... counts more than the file, and an option of the command line more than both.

    \b
    Example:
      trackside config show
    """


@command.command("show")
@format_option("table", "json")
@shared_options
def show(output: str) -> None:
    """Print each setting, its value and its source.

    \b
    Example:
      trackside config show --format json
    """
    from trackside.choosing.project_settings import read_settings
    from trackside.choosing.rule_choice import Layer, choose_rules
    from trackside.choosing.rules_file import RulesFile, read_rules_file
    from trackside.contracts.rule_catalogue import built_in_catalogue
    from trackside.environment import inherited

    settings = read_settings(Path.cwd(), inherited())
    path = settings.rules_file
    file = RulesFile(()) if path is None else read_rules_file(path)
    layers = [*settings.rule_layers, Layer(requests=file.rules, requested_in=str(path or "")), file.words]
    chosen = choose_rules(layers, catalogue=built_in_catalogue())
    rows = [*_setting_rows(settings), *_rule_rows(settings)]
    if output == "json":
        print_json(
            {
                "file": str(settings.file) if settings.file else None,
                "settings": [{"setting": name, "value": value, "source": source} for name, value, source in rows],
                "rules": [rule.name for rule in chosen.rules],
            }
        )
        return
    click.echo(f"File: {settings.file or 'none'}")
    click.echo(f"Judged by: {_judged_by(chosen)}")
    click.echo()
    cells = [(name, _shown(value), source) for name, value, source in rows]
    print_table(("setting", "value", "from"), cells, color=wants_color())


def _setting_rows(settings: ProjectSettings) -> Iterator[tuple[str, Any, str]]:
    from trackside.choosing.project_settings import CAPTURE, RULES_FILE, SETTINGS

    for kind in SETTINGS:
        found = settings.values.get(kind.key)
        yield kind.key, found.value if found else kind.default, found.source if found else DEFAULT
    found = settings.values.get(RULES_FILE)
    yield RULES_FILE, found.value if found else None, found.source if found else DEFAULT
    saved = [one.name for one in settings.capture.collections] if settings.capture else None
    yield CAPTURE, saved, str(settings.file) if saved else DEFAULT


def _rule_rows(settings: ProjectSettings) -> Iterator[tuple[str, Any, str]]:
    for layer in settings.rule_layers:
        for name, words in (("rule", layer.add), ("only", layer.only), ("skip", layer.skip)):
            for word in words:
                yield name, word.text, word.where
        for one in layer.settings:
            yield "set", f"{one.rule}.{one.parameter}={one.value}", one.where


def _judged_by(chosen: Chosen) -> str:
    return chosen.difference or f"the {len(chosen.rules)} default rules"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
