"""`--table`: which table of runs a command is about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def table_option(command: F) -> F:
    """Adds `--table`; "" means the deployment of this account and region."""
    help_text = "The table of runs; without it TRACKSIDE_TABLE, else what the stack TracksideStorage says."
    return click.option("--table", default="", metavar="NAME", help=help_text)(command)


def shown_moment(seconds: float) -> str:
    """Local time to the minute; `-` for a moment that is not known."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else "-"
