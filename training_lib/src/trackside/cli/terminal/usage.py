"""Mistakes on the command line, shown as all other errors: problem, place and cure."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import click
from click.exceptions import NoArgsIsHelpError

from trackside.cli.terminal.failure import write_lines
from trackside.contracts.errors import did_you_mean

_NOT_ONE_OF = re.compile(r"'([^']*)' is not one of ")


class WrongUsage(click.UsageError):
    """A mistake on the command line that shows itself as our own errors do."""

    def __init__(self, lines: tuple[str, ...], ctx: click.Context | None) -> None:
        super().__init__(lines[0], ctx)
        self._lines = lines

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the lines to stderr."""
        write_lines(self._lines, sys.stderr)


@contextmanager
def shown_as_ours() -> Iterator[None]:
    """Raise click's errors about the command line as `WrongUsage`."""
    try:
        yield
    except (WrongUsage, NoArgsIsHelpError):
        raise
    except click.UsageError as error:
        raise WrongUsage(_lines(error), error.ctx) from error


def _lines(error: click.UsageError) -> tuple[str, ...]:
    path = error.ctx.command_path if error.ctx else "trackside"
    help_text = f"{path} --help"
    for kind, shown in _KINDS:
        if isinstance(error, kind):
            what, where, fix = shown(error)
            break
    else:
        what, where, fix = error.format_message(), "", ""
    lines = [f"Error: {what}", f"  Where: {where}" if where else "", f"  Try: {fix or help_text}"]
    return tuple([line for line in lines if line])


def _no_option(error: click.NoSuchOption) -> tuple[str, str, str]:
    options = [name for one in (error.ctx.command.params if error.ctx else ()) for name in one.opts]
    hint = did_you_mean(error.option_name, [name for name in options if name.startswith("--")])
    return f"There is no option {error.option_name!r}.", "", hint if hint.startswith("Did") else ""


def _missing(error: click.MissingParameter) -> tuple[str, str, str]:
    name = _name(error)
    kind = "argument" if isinstance(error.param, click.Argument) else "option"
    return f"The {kind} {name} is missing.", "", ""


def _bad(error: click.BadParameter) -> tuple[str, str, str]:
    text = error.message.rstrip(".")
    kind, wrong = getattr(error.param, "type", None), _NOT_ONE_OF.match(text)
    hint = did_you_mean(wrong[1], kind.choices) if wrong and isinstance(kind, click.Choice) else ""
    return f"{text[:1].upper()}{text[1:]}.", _name(error), hint if hint.startswith("Did") else ""


def _name(error: click.BadParameter) -> str:
    if isinstance(error.param, click.Option):
        return max(error.param.opts, key=len)
    if error.param is not None:
        return error.param.make_metavar(error.ctx) if error.ctx else str(error.param.human_readable_name)
    return str(error.param_hint or "")


_KINDS: tuple[tuple[type[click.UsageError], Callable[[Any], tuple[str, str, str]]], ...] = (
    (click.NoSuchOption, _no_option),
    (click.MissingParameter, _missing),
    (click.BadParameter, _bad),
)
