"""Commands with defaults from the project's settings: a file, and environment variables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackside.contracts.errors import ConfigurationError

if TYPE_CHECKING:
    from trackside.choosing.project_settings import ProjectSettings

_SETTINGS = "trackside.settings"


class ConfiguredCommand(click.Command):
    """A command with option defaults from the project's settings. Its help works with broken settings, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the settings, then the arguments."""
        from trackside.choosing.project_settings import read_settings

        mistake: ConfigurationError | None = None
        try:
            settings = read_settings(Path.cwd(), self.variables(ctx))
        except ConfigurationError as error:
            mistake = error
        else:
            ctx.meta[_SETTINGS] = settings
            known = {parameter.name for parameter in self.params}
            values = settings.default_map()
            ctx.default_map = {name: value for name, value in values.items() if name in known}
        rest = super().parse_args(ctx, args)
        if mistake is not None:
            raise mistake
        return rest

    def variables(self, ctx: click.Context) -> dict[str, str]:
        """Return the variables that may hold settings."""
        from trackside.environment import inherited

        return inherited()


def settings_of(ctx: click.Context) -> ProjectSettings:
    """Return the settings that a configured command has read."""
    settings: ProjectSettings = ctx.meta[_SETTINGS]
    return settings


def is_given(parameter: str) -> bool:
    """Return True if the option stands on the command line."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is click.core.ParameterSource.COMMANDLINE
