"""`trackside compare`: what differs between two runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.failure import FINDINGS, NOT_COMPARABLE, UNDECIDED
from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.reading import open_run
from trackside.cli.terminal.rows import json_value, print_json

if TYPE_CHECKING:
    from trackside.speed.performance.step_time_gate import Gate
    from trackside.views.comparing.comparison import ComparedRun, Comparison

FAIL_ON: dict[str, Callable[[Comparison], bool]] = {
    "never": lambda found: False,
    "loss": lambda found: found.losses_part,
    "bitwise": lambda found: found.differs_in_any_bit,
    "issue": lambda found: bool(found.issues_b),
    "not-mended": lambda found: not found.is_mended,
}
GATE_CODES = {"within": 0, "slower": FINDINGS, "not comparable": NOT_COMPARABLE, "undecided": UNDECIDED}
_PERCENT = re.compile(r"\+?(\d+(?:\.\d+)?) ?%?")


def _share(ctx: click.Context, option: click.Parameter, given: str | None) -> float | None:
    """Return a change in percent as a share: "+5%", "5" and "5 %" are all 0.05."""
    if given is None:
        return None
    found = _PERCENT.fullmatch(given.strip())
    if found is None:
        raise click.BadParameter(f'{given!r} is not a change in percent, such as "+5%".', ctx, option)
    return float(found[1]) / 100


@click.command("compare")
@click.argument("a")
@click.argument("b")
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    default="never",
    show_default=True,
    help="Exit with 1 if the losses part beyond their noise, if any loss differs in a bit, if B has an issue more, or "
    "if B does not prove that the issues of A are mended.",
)
@click.option(
    "--max-step-time",
    callback=_share,
    metavar="PERCENT",
    help='Exit with 1 if the steps of B take longer than those of A by more than this, such as "+5%".',
)
@click.option("--baseline", "baselines", multiple=True, metavar="RUN", help="Another run like A. Repeatable.")
@click.option("--repeat", "repeats", multiple=True, metavar="RUN", help="Another run like B. Repeatable.")
@format_option("table", "json")
@shared_options
def command(
    *,
    a: str,
    b: str,
    fail_on: str,
    max_step_time: float | None,
    baselines: tuple[str, ...],
    repeats: tuple[str, ...],
    output: str,
) -> None:
    """Show the differences between runs A and B.

    Settings (command, optimizers, losses, program, model) that differ; losses side by side, the first step at which
    they differ in a bit, and the first from which they differ by more than the noise of their steps; steps a second;
    issues that only one of them has. Steps are training steps, without evaluations. Runs are named as for
    `trackside tensors`.

    Where an issue stands in A, the last lines are the verdict on the change: mended (the gravest issues are gone, by
    rules that judged B as far, and none as grave is new), not mended, or no proof, with the reason.

    The exit code is 0 whatever differs, unless --fail-on or --max-step-time is given.

    With --max-step-time the quick steps of both are judged, and the average ones: the training's own time, without
    evaluations, without Trackside, and without the time in which other work had the processor. The exit code is 0
    within the limit, 1 if B is slower, 6 if the runs are not comparable (another model, batch, number of processes,
    device or precision), and 7 if B looks slower and the noise is too large to be sure: then add runs with --baseline
    and --repeat.

    \b
    Example:
      trackside compare latest s3://bucket/digits-7
      trackside compare good-run latest --fail-on loss
      trackside compare broken-run latest --fail-on not-mended
      trackside compare main-1 mine-1 --max-step-time +5% --baseline main-2
    """
    from trackside.views.comparing.comparison import compare

    if max_step_time is None and (baselines or repeats):
        raise click.UsageError("--baseline and --repeat need --max-step-time.")
    before, after = _opened(a), _opened(b)
    found = compare(before, after, now=time.time())
    judged = None
    if max_step_time is not None:
        from trackside.views.comparing.step_times import gate

        others, repeated = [_opened(run) for run in baselines], [_opened(run) for run in repeats]
        judged = gate([before, *others], [after, *repeated], limit=max_step_time)
    if output == "json":
        documents = {name: _plain(value) for name, value in asdict(found).items()}
        print_json(documents if judged is None else {**documents, "step_time": _gate_document(judged)})
    else:
        from trackside.cli.terminal.views.comparison_table import print_comparison, print_gate

        print_comparison(found, color=wants_color())
        if judged is not None:
            print_gate(judged, color=wants_color())
    code = 0 if judged is None else GATE_CODES[judged.verdict.value]
    if code or FAIL_ON[fail_on](found):
        click.get_current_context().exit(code or FINDINGS)


def _gate_document(judged: Gate) -> dict[str, Any]:
    return {name: _plain(value) for name, value in asdict(judged).items()}


def _opened(run: str) -> ComparedRun:
    from trackside.runs.recorded_run import read_run
    from trackside.runs.run_folder import find_run, read_record
    from trackside.views.comparing.comparison import ComparedRun

    uri = find_run(run)
    return ComparedRun(
        recorded=read_run(uri), trial=open_run(run), record=None if "://" in uri else read_record(Path(uri))
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else json_value(value)
