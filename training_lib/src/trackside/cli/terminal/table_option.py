"""Options for the table of runs and the deployment of a command: `--table`, `--environment`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def table_option(command: F) -> F:
    """Add `--table` and `--environment`. "" for both means the deployment of this account and region."""
    help_text = "The table of runs; without it TRACKSIDE_TABLE, else the output of the stack TracksideStorage."
    return click.option("--table", default="", metavar="NAME", help=help_text)(environment_option(command))


def environment_option(command: F) -> F:
    """Add `--environment`. "" means the one deployment without a name."""
    help_text = "Name of one of several deployments, from its settings."
    return click.option("--environment", default="", metavar="NAME", help=help_text)(command)


def shown_moment(seconds: float) -> str:
    """Return local time to the minute; `-` for an unknown moment."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else "-"
