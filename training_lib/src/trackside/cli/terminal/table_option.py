"""`--table`, `--environment`: which table of runs, and which deployment, a command is about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def table_option(command: F) -> F:
    """Adds `--table` and `--environment`; "" twice means the deployment of this account and region."""
    help_text = "The table of runs; without it TRACKSIDE_TABLE, else what the stack TracksideStorage says."
    return click.option("--table", default="", metavar="NAME", help=help_text)(environment_option(command))


def environment_option(command: F) -> F:
    """Adds `--environment`; "" means the one deployment without."""
    help_text = "Which of several deployments, as its setting says."
    return click.option("--environment", default="", metavar="NAME", help=help_text)(command)


def shown_moment(seconds: float) -> str:
    """Local time to the minute; `-` for a moment that is not known."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else "-"
