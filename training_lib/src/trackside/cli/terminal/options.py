"""Options of every command, before or after the command's name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_VERBOSE = "trackside.verbose"
_NO_COLOR = "trackside.no_color"
_JSON = "trackside.json"
_QUIET = "trackside.quiet"


def shared_options(command: F) -> F:
    """Add `-v/--verbose` and `--no-color`."""
    verbose = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_be_verbose,
        help="Show logs, and tracebacks of errors.",
    )
    no_color = click.option(
        "--no-color", is_flag=True, expose_value=False, callback=_be_plain, help="No colours; NO_COLOR does the same."
    )
    return verbose(no_color(command))


def format_option(*formats: str) -> Callable[[F], F]:
    """Return a decorator that adds `--format` (the first of `formats` is the default), and `--json` for short."""

    def add(command: F) -> F:
        short = click.option(
            "--json",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_be_json,
            help="The same as --format json.",
        )
        form = click.option(
            "--format",
            "output",
            type=click.Choice(formats),
            default=formats[0],
            show_default=True,
            callback=_chosen_format,
            help="How to print it.",
        )
        return form(short(command))

    return add


def quiet_option(text: str) -> Callable[[F], F]:
    """Return a decorator that adds `-q/--quiet`, for `is_quiet`. `text` is its help."""
    return click.option("-q", "--quiet", is_flag=True, expose_value=False, callback=_be_quiet, help=text)


def is_quiet() -> bool:
    """Return True if -q was given: lines for comfort are left out, and progress bars."""
    return bool(click.get_current_context().meta.get(_QUIET))


def is_verbose(ctx: click.Context) -> bool:
    """Return True if -v was given anywhere on the line."""
    return bool(ctx.meta.get(_VERBOSE))


def wants_color() -> bool:
    """Return False if --no-color was given anywhere on the line."""
    return not click.get_current_context().meta.get(_NO_COLOR)


def _be_verbose(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        ctx.meta[_VERBOSE] = True
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")


def _be_quiet(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        ctx.meta[_QUIET] = True


def _be_plain(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        ctx.meta[_NO_COLOR] = True


def _be_json(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    ctx.meta[_JSON] = given


def _chosen_format(ctx: click.Context, option: click.Parameter, chosen: str) -> str:
    if not ctx.meta.get(_JSON):
        return chosen
    if ctx.get_parameter_source("output") is click.core.ParameterSource.COMMANDLINE and chosen != "json":
        raise click.UsageError(f"--json and --format {chosen} do not go together.", ctx)
    return "json"
