"""The common part of the commands that read tensors: options, opening of the run, reports of damage."""

from __future__ import annotations

import functools
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trackside.cli.terminal.progress import shown_waiting
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.name_pattern import name_pattern, problem_of
from trackside.contracts.observation import is_recorded_number

if TYPE_CHECKING:
    from trackside.trial.series import TensorSeries
    from trackside.trial.trial import Trial

F = TypeVar("F", bound=Callable[..., Any])

MODES = ("train", "eval", "predict", "global")
MOST_DAMAGE_NAMED = 5
MOST_NAMED = 3
_STEPS = "These steps only: 20, 10:200 or 10:200:10 (up to 200, every 10th)."


@dataclass(frozen=True)
class Filters:
    """The selection of tensors and steps, as on the command line; None without the option."""

    regex: str | None = None
    collection: str | None = None
    steps: str | None = None
    mode: str | None = None
    worker: str | None = None

    def choose(self, trial: Trial) -> tuple[TensorSeries, ...]:
        """Return the selected tensors. Errors: `ConfigurationError` for an impossible selection."""
        with _as_options():
            return trial.tensors(
                regex=self.regex, collection=self.collection, steps=self.steps, mode=self.mode, worker=self.worker
            )

    def choose_to_show(self, trial: Trial) -> tuple[TensorSeries, ...]:
        """Return the selected tensors for people: numbers of our own, `trackside/...`, only if they were named."""
        found = self.choose(trial)
        return found if self.regex or self.collection else tuple([o for o in found if not is_recorded_number(o.name)])

    def tensor(self, trial: Trial, name: str) -> TensorSeries:
        """Return the tensor of that name over the selected steps.

        Errors: those of `choose`, and `TensorNotSavedError`.
        """
        with _as_options():
            return trial.tensor(name, steps=self.steps, mode=self.mode, worker=self.worker)

    @property
    def each(self) -> tuple[Filters, ...]:
        """Every given filter, alone."""
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return tuple(Filters(**{name: value}) for name, value in given if value is not None)

    def __str__(self) -> str:
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return " ".join(f"--{name} {value}" for name, value in given if value is not None)


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--regex`, `--collection`, `--steps`, `--mode` and `--worker`, passed as `filters`."""

    @functools.wraps(command)
    def run(
        *,
        regex: str | None,
        collection: str | None,
        steps: str | None,
        mode: str | None,
        worker: str | None,
        **others: Any,
    ) -> None:
        command(filters=Filters(regex=regex, collection=collection, steps=steps, mode=mode, worker=worker), **others)

    for option in reversed(
        (
            regex_option("Tensors whose name this regular expression finds."),
            click.option("--collection", metavar="NAME", help="Tensors of this collection, such as gradients."),
            click.option("--steps", metavar="RANGE", help=_STEPS),
            click.option("--mode", type=click.Choice(MODES, case_sensitive=False), help="Steps of this mode only."),
            click.option("--worker", metavar="NAME", help="What this worker saved, such as worker_0."),
        )
    ):
        option(run)
    return run


def regex_option(text: str) -> Callable[[F], F]:
    """Return a decorator that adds `--regex`, which is compiled before anything is read."""
    return click.option("--regex", metavar="PATTERN", callback=_checked_regex, help=text)


def open_run(run: str) -> Trial:
    """Return the trial of RUN: any value that `trackside findings` takes, or a folder of smdebug."""
    from trackside.runs.run_folder import RUNS, find_run, is_run_folder
    from trackside.trial.trial import open_trial

    is_bare = Path(run).is_dir() and not is_run_folder(Path(run)) and not is_run_folder(RUNS / run)
    place = run if is_bare else find_run(run)
    with shown_waiting("opening the run"):
        return open_trial(place)


def print_nothing_selected(trial: Trial, filters: Filters) -> None:
    """Explain on stderr why no tensor was selected. No error: `grep` finds nothing sometimes, too."""
    from trackside.cli.terminal.failure import write_lines

    write_lines(_why_nothing(trial, filters), sys.stderr)


@contextmanager
def _as_options() -> Iterator[None]:
    """Rename arguments in errors to their options on the command line."""
    try:
        yield
    except ConfigurationError as error:
        options = {field.name: f"--{field.name}" for field in fields(Filters)}
        problems = [replace(problem, where=options.get(problem.where, problem.where)) for problem in error.problems]
        raise ConfigurationError(problems, subject="The command line") from error


def _why_nothing(trial: Trial, filters: Filters) -> list[str]:
    if not trial.names:
        if trial.has_ended:
            return [
                f"No tensor was saved: the run at {trial.uri} has ended without one.",
                "  Try: trackside run -- COMMAND   (it prints why nothing was captured)",
            ]
        return [
            f"No tensor was saved yet: the run at {trial.uri} has no complete step.",
            "  Try: again after the first step that is saved",
        ]
    culprits = [one for one in filters.each if not one.choose(trial)]
    why = [f"  Why: {_why_empty(trial, one)}" for one in culprits]
    if not culprits:
        why = [f"  Why: each of {filters} finds something, but no tensor fits all of them."]
    return ["No tensor was saved that is selected.", *why]


def _why_empty(trial: Trial, one: Filters) -> str:
    names, steps = trial.names, trial.steps()
    if one.regex is not None:
        return f"{one} finds none of {len(names)} names, such as {_few(map(repr, names))}."
    if one.collection is not None:
        held = [f"{name} ({len(tensors)})" for name, tensors in trial.collections.items()]
        return f"{one} holds none of the tensors of this run; {_few(held)} do." if held else f"{one} holds no tensor."
    if one.mode is not None:
        seen = sorted({trial.mode_of(step) for step in steps})
        return f"{one}: the steps of this run are of mode {_few(seen).lower()}."
    if one.worker is not None:
        return f"{one} saved nothing; the workers are {_few(trial.workers)}."
    span = f"{len(steps)} steps, {steps[0]} to {steps[-1]}" if steps else "no complete step"
    return f"{one}: the run has {span}{_stride(steps)}."


def _stride(steps: tuple[int, ...]) -> str:
    if len(steps) < 3:
        return ""
    stride = steps[1] - steps[0]
    return f", every {stride}" if steps == tuple(range(steps[0], steps[-1] + 1, stride)) else ""


def _few(words: Iterable[str]) -> str:
    some = list(words)
    more = f" and {len(some) - MOST_NAMED} more" if len(some) > MOST_NAMED else ""
    return ", ".join(some[:MOST_NAMED]) + more


def _checked_regex(ctx: click.Context, option: click.Parameter, pattern: str | None) -> str | None:
    try:
        name_pattern(pattern or "")
    except re.error as error:
        what = f"{pattern!r} {problem_of(error)}."
        fix = f"To find this very text, write --regex {shlex.quote(re.escape(pattern or ''))}"
        raise ConfigurationError([Problem("--regex", what, fix)], subject="The command line") from error
    return pattern


def damage_of(trial: Trial) -> list[str]:
    """Return one text for each file that could not be read, as in the JSON documents."""
    return [str(error) for error in trial.damaged]


def print_damage(trial: Trial, *, color: bool) -> None:
    """Name the files left out on stderr. The exit code stays 0: the rest is true, and was printed."""
    from trackside.cli.terminal.console import progress_console, safe

    damage = damage_of(trial)
    if not damage:
        return
    console = progress_console(color=color)
    for text in damage[:MOST_DAMAGE_NAMED]:
        console.print(f"Warning: left out what cannot be read: {safe(console, text)}", soft_wrap=True)
    if len(damage) > MOST_DAMAGE_NAMED:
        console.print(f"Warning: and {len(damage) - MOST_DAMAGE_NAMED} more damaged files.")
