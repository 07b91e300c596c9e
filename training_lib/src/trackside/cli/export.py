"""`trackside export`: a run for TensorBoard, as a Parquet table or a timeline, or its findings to a tracker."""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.options import is_quiet, quiet_option, shared_options, wants_color
from trackside.cli.terminal.progress import shown
from trackside.cli.terminal.reading import Filters, filter_options, open_run, print_damage
from trackside.cli.terminal.text import printable
from trackside.contracts.english import counted, size_of
from trackside.contracts.errors import ConfigurationError, Problem

if TYPE_CHECKING:
    from trackside.exchange.tensorboard import FindingText
    from trackside.trial.series import TensorSeries
    from trackside.trial.trial import Trial

MOST_NAMES = 3
TRACKERS = ("wandb", "mlflow", "trackio")
_SECONDS = re.compile(r"([0-9]*\.?[0-9]*):([0-9]*\.?[0-9]*)")


@click.command("export")
@click.argument("run")
@click.argument("destination")
@click.option(
    "--to",
    "target",
    type=click.Choice(["tensorboard", "parquet", "timeline", *TRACKERS]),
    required=True,
    help="For what.",
)
@click.option("--histograms", is_flag=True, help="Histograms too (TensorBoard only): fetches every tensor in full.")
@click.option(
    "--statistic",
    "statistics",
    multiple=True,
    metavar="NAME",
    help="Which; repeat for more, `all` for all.  [default: mean, std, abs_max, l2 for TensorBoard, all for Parquet]",
)
@click.option("--seconds", metavar="A:B", help="Timeline only: from A to B seconds after the run's first step.")
@click.option("--open", "is_opened", is_flag=True, help="Timeline only: open it in Perfetto, in a browser.")
@filter_options
@quiet_option("Print nothing if all is well, and no progress bar.")
@shared_options
def command(
    *,
    run: str,
    destination: str,
    target: str,
    histograms: bool,
    statistics: tuple[str, ...],
    seconds: str | None,
    is_opened: bool,
    filters: Filters,
) -> None:
    """Write RUN to DESTINATION for other tools.

    RUN is named as for `trackside tensors`. For TensorBoard, DESTINATION is a folder for `tensorboard --logdir`; each
    mode and worker of the run becomes a TensorBoard run in it. For Parquet it is a file that ends in .parquet, or a
    folder for <run>.parquet: a row for each tensor, worker and step. An earlier export is replaced. Statistics
    are those of `trackside stats`, and others that the run records.

    A timeline has steps, their phases, the machine's metrics and the findings on one clock. DESTINATION is a folder: it
    gets <run>.timeline.json, which https://ui.perfetto.dev opens, and SageMaker Debugger's own files of steps below
    framework/ and of the machine below system/, for smdebug's readers. --steps and --seconds choose a part of the
    steps. --open opens it there: Perfetto's page
    fetches the file from this machine, and keeps it in the browser.

    For W&B and MLflow only findings are written. DESTINATION is PROJECT, PROJECT/RUN or ENTITY/PROJECT/RUN for W&B,
    and an experiment or the id of a run for MLflow.

    \b
    Example:
      trackside export latest --to tensorboard tb --collection gradients
      trackside export s3://bucket/digits-7 --to parquet digits-7.parquet
      trackside export latest --to timeline timeline --steps 100:200 --open
      trackside export latest --to wandb digits
    """
    if target in TRACKERS:
        _to_tracker(run, destination, target)
        return
    if target == "parquet" and histograms:
        fix = "Leave it out: a table holds statistics."
        problem = Problem("--histograms", "This option is for --to tensorboard only.", fix)
        raise ConfigurationError([problem], subject="The command line")
    if target != "timeline":
        _refuse_options_of_timelines(seconds, is_opened=is_opened)
    trial = open_run(run)
    if target == "timeline":
        _to_timeline(run, trial, destination, steps=filters.steps, seconds=seconds, is_opened=is_opened)
        return
    tensors = filters.choose(trial)
    if target == "parquet":
        _to_parquet(trial, destination, tensors, statistics=statistics)
    else:
        findings = _findings(run)
        _to_tensorboard(trial, destination, tensors, statistics=statistics, histograms=histograms, findings=findings)


def _show(text: str, *, err: bool = False) -> None:
    if not is_quiet():
        click.echo(text, err=err)


def _to_tracker(run: str, destination: str, target: str) -> None:
    from trackside.runs.recorded_run import read_run
    from trackside.runs.run_folder import find_run

    recorded = read_run(find_run(run))
    try:
        module = importlib.import_module(f"trackside.integrations.{target}")
    except ModuleNotFoundError as error:
        if error.name != target:
            raise
        fix = f"Install it: {sys.executable} -m pip install {target}"
        problem = Problem(f"--to {target}", f"The package {target} is not installed.", fix)
        raise ConfigurationError([problem], subject="The command line") from error
    where = module.export_issues(recorded.groups, destination, run=recorded.location)
    _show(f"Wrote {counted(len(recorded.groups), 'finding')} of {printable(recorded.location.name)} to:")
    _show(f"  {printable(where)}")


def _findings(run: str) -> list[FindingText]:
    """Return the findings on the run; none for a bare folder of tensors."""
    from trackside.contracts.errors import RunNotFoundError
    from trackside.exchange.tensorboard import FindingText
    from trackside.integrations.issue_text import issue_card
    from trackside.runs.recorded_run import read_run
    from trackside.runs.run_folder import find_run

    try:
        groups = read_run(find_run(run)).groups
    except RunNotFoundError:
        return []
    leads = [(group, group.lead) for group in groups]
    return [
        FindingText(
            tag=lead.configuration_name,
            step=lead.step,
            text=issue_card(group),
            severity=group.severity.rank + 1,
            worker=lead.lead.worker if lead.lead else "worker_0",
            wall_time=lead.detected_at,
        )
        for group, lead in leads
    ]


def _to_parquet(
    trial: Trial, destination: str, tensors: Sequence[TensorSeries], *, statistics: tuple[str, ...]
) -> None:
    from trackside.exchange.parquet import export_parquet
    from trackside.trial.tensors.statistics import STATISTICS

    chosen = _chosen(statistics, default=tuple(STATISTICS))
    done = export_parquet(trial, destination, tensors=tensors, statistics=chosen, progress=shown)
    _show(f"Wrote {counted(done.rows, 'row')} of {counted(done.tensors, 'tensor')} ({size_of(done.size_bytes)}):")
    _show(f"  {printable(str(done.path))}")
    if done.without_numbers:
        named = ", ".join(done.without_numbers[:MOST_NAMES])
        more = f" and {len(done.without_numbers) - MOST_NAMES} more" if len(done.without_numbers) > MOST_NAMES else ""
        click.echo(f"Without a row, for they hold no numbers that can be read: {printable(named)}{more}", err=True)
    print_damage(trial, color=wants_color())


def _to_tensorboard(
    trial: Trial,
    destination: str,
    tensors: Sequence[TensorSeries],
    *,
    statistics: tuple[str, ...],
    histograms: bool,
    findings: Sequence[FindingText],
) -> None:
    from trackside.exchange.tensorboard import DEFAULT_STATISTICS, export_tensorboard

    chosen = _chosen(statistics, default=DEFAULT_STATISTICS)
    done = export_tensorboard(
        trial,
        destination,
        tensors=tensors,
        statistics=chosen,
        histograms=histograms,
        progress=shown,
        findings=findings,
    )
    points = counted(done.scalars, "point")
    if histograms:
        points += f" and {counted(done.histograms, 'histogram')}"
    written = f"{points} of {counted(done.tensors, 'tensor')}"
    if findings:
        written += f" and {counted(len(findings), 'finding')}"
    _show(f"Wrote {written} to {counted(len(done.files), 'file')} below:")
    _show(f"  {printable(str(done.folder))}")
    _show(f"Look at it: tensorboard --logdir {printable(destination)}", err=True)
    print_damage(trial, color=wants_color())


def _refuse_options_of_timelines(seconds: str | None, *, is_opened: bool) -> None:
    message = "This option is for --to timeline only."
    problems = [Problem("--seconds", message, "Use --steps.")] if seconds is not None else []
    problems += [Problem("--open", message, "Leave it out.")] if is_opened else []
    if problems:
        raise ConfigurationError(problems, subject="The command line")


def _to_timeline(
    run: str, trial: Trial, destination: str, *, steps: str | None, seconds: str | None, is_opened: bool
) -> None:
    from trackside.exchange.timeline import FindingMark, Part, export_timeline
    from trackside.runs.recorded_run import read_run
    from trackside.runs.run_folder import find_run
    from trackside.trial.steps.selection import StepRange

    uri = find_run(run)
    marks = [
        FindingMark(lead.configuration_name, lead.message, lead.step, group.severity.value)
        for group in read_run(uri).groups
        if (lead := group.lead) is not None
    ]
    since, until = _seconds(seconds)
    done = export_timeline(
        uri, trial, destination, findings=marks, part=Part(StepRange.of(steps), since=since, until=until)
    )
    what = f"{counted(done.steps, 'step')}, {counted(done.samples, 'sample')} and {counted(done.findings, 'finding')}"
    _show(f"Wrote {what} to:")
    _show(f"  {printable(str(done.merged))}")
    if not is_opened:
        _show("Look at it: https://ui.perfetto.dev, Open trace file; or add --open", err=True)
        return
    from trackside.exchange.perfetto import PAGE, browser_to_open, open_in_perfetto

    browser = browser_to_open()
    if browser is not None:
        _show(f"Opening {PAGE}, which fetches it from this machine: allow it if the browser asks.", err=True)
    open_in_perfetto(done.merged.absolute(), open_address=browser)


def _seconds(text: str | None) -> tuple[float, float]:
    """Return the two ends of a range of seconds; an end that is left out has no limit."""
    if text is None:
        return 0.0, math.inf
    found = _SECONDS.fullmatch(text.strip())
    if found is None:
        problem = Problem("--seconds", f"{text!r} is no range of seconds.", "For example 10:60, or 10: to the end.")
        raise ConfigurationError([problem], subject="The command line")
    return float(found[1] or 0), float(found[2] or math.inf)


def _chosen(requested: tuple[str, ...], *, default: tuple[str, ...]) -> tuple[str, ...]:
    from trackside.trial.tensors.statistics import STATISTICS

    names = [name for one in requested for name in (STATISTICS if one == "all" else (one,))]
    return tuple(dict.fromkeys(names)) or default
