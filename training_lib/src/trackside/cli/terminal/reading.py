"""What the commands that read tensors share: their options, the run they open, what they say of damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from trackside.trial.trial import Trial

F = TypeVar("F", bound=Callable[..., Any])

MODES = ("train", "eval", "predict", "global")
MOST_DAMAGE_NAMED = 5


def name_options(command: F) -> F:
    """Adds `--regex` and `--collection`."""
    regex = click.option("--regex", metavar="PATTERN", help="Tensors whose name this regular expression finds.")
    collection = click.option("--collection", metavar="NAME", help="Tensors of this collection, such as gradients.")
    return regex(collection(command))


def place_options(command: F) -> F:
    """Adds `--mode` and `--worker`."""
    mode = click.option("--mode", type=click.Choice(MODES, case_sensitive=False), help="Steps of this mode only.")
    worker = click.option("--worker", metavar="NAME", help="What this worker saved, such as worker_0.")
    return mode(worker(command))


def steps_option(command: F) -> F:
    """Adds `--steps`."""
    text = "These steps only: 20, 10:200 or 10:200:10 (up to 200, every 10th)."
    return click.option("--steps", metavar="RANGE", help=text)(command)


def open_run(run: str) -> Trial:
    """The trial of RUN: all that `trackside findings` takes, and a folder of the original smdebug."""
    from trackside.local.run_folder import RUNS, find_run, is_run_folder
    from trackside.trial.trial import open_trial

    is_bare = Path(run).is_dir() and not is_run_folder(Path(run)) and not is_run_folder(RUNS / run)
    return open_trial(run if is_bare else find_run(run))


def damage_of(trial: Trial) -> list[str]:
    """One text for each file that could not be read, as the JSON documents carry them."""
    return [str(error) for error in trial.damaged]


def tell_damage(trial: Trial, *, color: bool) -> None:
    """Says on stderr what had to be left out. The exit code stays 0: the rest is true, and was printed."""
    from trackside.cli.terminal.console import progress_console, safe

    damage = damage_of(trial)
    if not damage:
        return
    console = progress_console(color=color)
    for text in damage[:MOST_DAMAGE_NAMED]:
        console.print(f"Warning: left out what cannot be read: {safe(console, text)}", soft_wrap=True)
    if len(damage) > MOST_DAMAGE_NAMED:
        console.print(f"Warning: and {len(damage) - MOST_DAMAGE_NAMED} more damaged files.")
