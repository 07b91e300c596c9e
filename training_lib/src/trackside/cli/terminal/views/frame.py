"""One frame of `trackside watch`: a run on a screen of 80 columns and 24 rows, or whatever the terminal has."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from trackside.cli.terminal.console import safe
from trackside.cli.terminal.plot import plot
from trackside.cli.terminal.sparkline import is_log_scaled
from trackside.contracts.issue_group import IssueGroup, recovered_groups
from trackside.contracts.verdict import Severity
from trackside.runs.live_run import Curve, LiveRun

HEIGHT = 23
HINT_LINES = 1  # the last row of a terminal stays empty: a character in its corner would scroll some
FEWEST_COLUMNS = 40
SMALL_ROWS = 4
FEWEST_LOSS_ROWS = 3
MOST_PROBLEMS = 5
_FIXED_ROWS = 5  # heading, titles of the two rows of curves, their first step and last step, a line before problems

_SYMBOLS = {Severity.CRITICAL: ("✖", "X", "bold red"), Severity.WARNING: ("▲", "!", "bold yellow")}
_INFO = ("●", "i", "bold cyan")


def frame(console: Console, run: LiveRun, *, width: int, height: int, trouble: str, is_live: bool) -> list[Text]:
    """Return at most `height` lines of at most `width` columns."""
    width = max(FEWEST_COLUMNS, width)
    ascii_only = console.options.ascii_only
    problems = list(_problem_lines(run, ascii_only=ascii_only))
    hint = [Text("q leaves", style="dim")] if is_live else []
    rows = max(FEWEST_LOSS_ROWS, height - _FIXED_ROWS - SMALL_ROWS - len(problems) - len(hint))
    lines = [_heading(run), *_loss(run, width=width, height=rows, ascii_only=ascii_only)]
    lines += _small_curves(run, width=width, ascii_only=ascii_only)
    lines += [Text(), *problems]
    lines += [Text(trouble, style="yellow")] if trouble else hint
    return [_fitted(console, line, width) for line in lines[:height]]


def _heading(run: LiveRun) -> Text:
    step = f"step {run.step:,}" if run.step >= 0 else "no step yet"
    pace = f"{_number(run.steps_per_second)} steps/s" if run.steps_per_second else ""
    facts = [run.state.value, step, pace, _duration(run.seconds)]
    return Text(run.name, style="bold") + Text(f"  {'  '.join(fact for fact in facts if fact)}", style="not bold")


def _loss(run: LiveRun, *, width: int, height: int, ascii_only: bool) -> Iterator[Text]:
    loss = run.losses[0] if run.losses else None
    others = f"  and {len(run.losses) - 1} more" if len(run.losses) > 1 else ""
    scale = ", log scale" if loss is not None and is_log_scaled(loss.values.tolist()) else ""
    newest = "" if loss is None else f"  {_number(loss.newest)}  {loss.name}{others}{scale}"
    yield Text("loss", style="bold") + Text(newest, style="not bold")
    drawn = _drawn(loss, width=width, height=height, ascii_only=ascii_only)
    yield from (Text(line, style="cyan") for line in drawn)
    if loss is not None and len(loss.steps):
        first, last = f"step {int(loss.steps[0]):,}", f"{int(loss.steps[-1]):,}"
        yield Text(f"{'':9}{first}{last:>{max(1, width - 9 - len(first))}}", style="dim")
    else:
        yield Text()


def _small_curves(run: LiveRun, *, width: int, ascii_only: bool) -> Iterator[Text]:
    """Yield the learning rate, the gradient norm and the pace beside one another."""
    named = (("learning rate", run.learning_rate), ("gradient norm", run.gradient_norm), ("steps/s", run.pace))
    column = width // len(named)
    titles = [f"{name}  {_number(curve.newest)}" for name, curve in named]
    yield Text("".join(f"{title:<{column}}" for title in titles).rstrip(), style="bold")
    drawn = [_drawn(curve, width=column - 1, height=SMALL_ROWS, ascii_only=ascii_only) for _, curve in named]
    for parts in zip(*drawn, strict=True):
        yield Text("".join(f"{part:<{column}}" for part in parts).rstrip(), style="cyan")


def _drawn(curve: Curve | None, *, width: int, height: int, ascii_only: bool) -> list[str]:
    if curve is None:
        return plot([], [], width=width, height=height)
    return plot(curve.steps.tolist(), curve.values.tolist(), width=width, height=height, ascii_only=ascii_only)


def _problem_lines(run: LiveRun, *, ascii_only: bool) -> Iterator[Text]:
    if run.judged.reservation:
        yield Text(run.judged.reservation, style="yellow")
    if not run.judged.has_answer:
        return
    standing = [group for group in run.problems if group.standing]
    recovered = recovered_groups(run.problems)
    if not standing and run.judged.is_well:
        none = "no issue stands" if recovered else "no issue so far" if run.is_open else "no issue"
        yield Text(none, style="green")
    for group in standing[:MOST_PROBLEMS]:
        symbol, plain, style = _SYMBOLS.get(group.severity, _INFO)
        yield Text(f"{plain if ascii_only else symbol} {_problem(group)}", style=style)
    if len(standing) > MOST_PROBLEMS:
        yield Text(f"and {len(standing) - MOST_PROBLEMS} more: trackside findings {run.name}")
    if recovered:
        names = ", ".join(f"{group.lead.configuration_name} by step {group.shown_recovery}" for group in recovered)
        yield Text(f"{'+' if ascii_only else '✔'} recovered: {names}", style="green")


def _problem(group: IssueGroup) -> str:
    lead = group.lead
    cause = f": {group.suspicions[0].explanation.what}" if group.suspicions else ""
    return f"{lead.configuration_name}, since step {lead.shown_since}{cause}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _duration(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds) or seconds < 1:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _fitted(console: Console, line: Text, width: int) -> Text:
    cleaned = Text()
    for segment in line.split("\n"):
        cleaned += segment
    clean = safe(console, cleaned.plain)
    if clean != cleaned.plain:
        cleaned = Text(clean, style=line.style)
    cleaned.truncate(width)
    cleaned.rstrip()
    return cleaned
