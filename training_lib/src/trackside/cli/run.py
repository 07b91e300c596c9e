"""`trackside run`: any training command on this machine, judged by rules while it runs."""

from __future__ import annotations

import os
import re
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.chosen_rules import RuleOptions, rule_options, rules_of
from trackside.cli.terminal.configured import ConfiguredCommand, is_given, settings_of
from trackside.cli.terminal.options import is_quiet, is_verbose, quiet_option, shared_options, wants_color
from trackside.cli.terminal.reports import ReportPath
from trackside.contracts.action import Action
from trackside.contracts.capture_request import BUILT_IN_COLLECTIONS, CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import ConfigurationError, Problem, TracksideError, did_you_mean
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.run.profiling_request import MOST_STEPS, Window
from trackside.contracts.verdict import Severity
from trackside.environment import RescueEnvironment

if TYPE_CHECKING:
    from trackside.choosing.preflight import RulePlan
    from trackside.choosing.rules_file import RulesFile
    from trackside.integrations.notification import Receiver
    from trackside.integrations.open_telemetry import TelemetryObserver
    from trackside.local.jobs.scheduler import JobLeave, Scheduler
    from trackside.local.run import Observer
    from trackside.local.unfinished_run import RunPlace

ON_ISSUE = {
    "stop": (Action.STOP_TRAINING, Action.NOTIFY),
    "notify": (Action.NOTIFY,),
    "nothing": (),
}
FAIL_ON = {"warning": Severity.WARNING, "critical": Severity.CRITICAL, "never": None}
SHORTEST_INTERVAL_MS = 100
_SCHEDULER = "trackside.scheduler"
_RANGE = re.compile(r"(?P<first>[0-9]{1,12})(?::(?P<count>[0-9]{1,6}))?")


class StepRange(click.ParamType):  # type: ignore[type-arg] # generic in click 8.5 and later only
    """A step, or FIRST:COUNT."""

    name = "steps"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Window:
        """Return the steps as a window."""
        match = _RANGE.fullmatch(str(value))
        count = int(match["count"] or 1) if match else 0
        if match is None or not 1 <= count <= MOST_STEPS:
            self.fail(f"{value!r} is not FIRST:COUNT with a count from 1 to {MOST_STEPS}, such as 100:3.", param, ctx)
        return Window(first_step=int(match["first"]), steps=count)


class SavedCollection(click.ParamType):  # type: ignore[type-arg] # generic in click 8.5 and later only
    """A collection, or COLLECTION=STEPS."""

    name = "collection"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> CollectionRequest:
        """Return the request for the collection's values."""
        if isinstance(value, CollectionRequest):
            return value
        name, _, steps = str(value).partition("=")
        if name not in BUILT_IN_COLLECTIONS:
            self.fail(f"{name!r} is no collection. {did_you_mean(name, BUILT_IN_COLLECTIONS)}", param, ctx)
        if steps and not (steps.isascii() and steps.isdigit() and int(steps) > 0):
            self.fail(f"{steps!r} is no number of steps, such as weights=100.", param, ctx)
        schedule = Schedule(save_interval=int(steps)) if steps else Schedule()
        return CollectionRequest(name, schedule=schedule, save_raw_tensor=True)


class RescueMode(click.ParamType):  # type: ignore[type-arg] # as above
    """The way in which a training goes back: in its own process, or started again."""

    name = "mode"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the mode."""
        if value not in ("in-place", "restart"):
            self.fail(f"{value!r} is not restart. If it is your command, put `--` before it.", param, ctx)
        return str(value)


def _checked_interval(_ctx: click.Context, _parameter: click.Parameter, value: int) -> int:
    """Return the interval. Errors: `click.BadParameter` for one that is too short."""
    if 0 < value < SHORTEST_INTERVAL_MS:
        raise click.BadParameter(f"{value} is below {SHORTEST_INTERVAL_MS}; 0 switches it off.")
    return value


class RunCommand(ConfiguredCommand):
    """`trackside run`. In a pod of Kubernetes the pod's annotations are defaults of its options."""

    def variables(self, ctx: click.Context) -> dict[str, str]:
        """Return the environment; a setting that it lacks is that of the annotation `trackside/<setting>`."""
        from trackside.choosing.project_settings import OF_VARIABLES
        from trackside.clusters.own_job import scheduler_of
        from trackside.environment import inherited, project_variable

        environ = inherited()
        ctx.meta[_SCHEDULER] = scheduler = scheduler_of(environ)
        given = scheduler.settings if scheduler else {}
        return {**{project_variable(key): text for key, text in given.items() if key in OF_VARIABLES}, **environ}


@click.command("run", cls=RunCommand, context_settings={"allow_interspersed_args": False})
@rule_options
@click.option(
    "--on-issue",
    type=click.Choice(list(ON_ISSUE)),
    help="Stop the training (critical issues only), show a card, or wait for the summary.  [default: notify]",
)
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    default="critical",
    show_default=True,
    help="Exit with 1 if an issue is at least this severe.",
)
@click.option(
    "--cluster-job",
    type=click.Choice(["none", "report", "stop"]),
    default="none",
    show_default=True,
    help="In a job of Slurm, Kubernetes or AWS Batch: show problems in it; also end it, where --on-issue stop does.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The run's folder; an unfinished run of the same COMMAND in it goes on.  [default: .trackside/runs/NAME]",
)
@click.option(
    "--report",
    "reports",
    type=ReportPath(),
    multiple=True,
    metavar="FILE",
    help="Write the verdicts to FILE at the end: .json, .sarif, or .xml for JUnit. Repeat for more.",
)
@click.option(
    "--save-interval",
    type=click.IntRange(min=1),
    metavar="STEPS",
    help="Save every so many steps.  [default: as the rules need]",
)
@click.option(
    "--save",
    "saves",
    type=SavedCollection(),
    multiple=True,
    metavar="COLLECTION[=STEPS]",
    help="Save the values of a collection, such as weights, every so many steps (500). Repeat for more.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to end after a stop, before SIGKILL.",
)
@click.option(
    "--notify",
    multiple=True,
    metavar="WHERE",
    help="Send each problem: desktop, https://WEBHOOK, or command:PROGRAM. Repeat for more.",
)
@click.option(
    "--json-lines",
    metavar="FILE",
    help="Add a line of JSON to FILE for each problem and note, and at the end; - for stderr.",
)
@click.option(
    "--otlp",
    is_flag=True,
    help="Send steps, loss and problems to an OpenTelemetry collector (OTEL_EXPORTER_OTLP_ENDPOINT).",
)
@click.option(
    "--sample-interval",
    type=click.IntRange(min=0, max=60_000),
    default=500,
    show_default=True,
    metavar="MILLISECONDS",
    callback=_checked_interval,
    help="Sample the machine so often, from 100 to 60000; 0: do not.",
)
@click.option(
    "--profile-steps",
    type=StepRange(),
    metavar="FIRST:COUNT",
    help="Profile these steps in detail: operators, then Python functions. See `trackside profile`.",
)
@click.option(
    "--profile-on-issue",
    type=click.IntRange(min=1, max=MOST_STEPS),
    metavar="COUNT",
    help="Profile so many steps in detail once the first problem is found.",
)
@click.option(
    "--rescue",
    type=RescueMode(),
    is_flag=False,
    flag_value="in-place",
    metavar="[restart]",
    help="When the numbers of a PyTorch training break, go back to the last good moment, kept in memory; or, with "
    "restart, start the script again from its last good checkpoint.",
)
@click.option(
    "--rescue-copies",
    type=click.IntRange(min=2, max=16),
    default=RescueEnvironment.copies,
    show_default=True,
    metavar="COUNT",
    help="Keep so many earlier moments in memory.",
)
@click.option(
    "--rescue-tries",
    type=click.IntRange(min=1, max=100),
    default=RescueEnvironment.tries,
    show_default=True,
    metavar="COUNT",
    help="Go back at most so often.",
)
@click.option(
    "--rescue-place-tries",
    type=click.IntRange(min=1, max=100),
    default=RescueEnvironment.place_tries,
    show_default=True,
    metavar="COUNT",
    help="Go back to one moment or checkpoint at most so often.",
)
@click.option(
    "--rescue-memory",
    type=click.IntRange(min=0),
    metavar="MB",
    help="Keep earlier moments in so much memory, and those beyond in files (default: that of one, or 256).",
)
@click.option(
    "--rescue-folder",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    default="",
    metavar="FOLDER",
    help="Keep those files here (default: the folder of temporary files).",
)
@click.option(
    "--show-samples",
    is_flag=True,
    help="Keep some answers of a language model in the run, and show the worst with a problem of its rewards.",
)
@quiet_option("Show problems only: no line at the start, no line if all is well.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@shared_options
def command(
    *,
    options: RuleOptions,
    on_issue: str | None,
    fail_on: str,
    cluster_job: str,
    out: Path | None,
    reports: tuple[Path, ...],
    save_interval: int | None,
    saves: tuple[CollectionRequest, ...],
    grace: float,
    notify: tuple[str, ...],
    json_lines: str | None,
    otlp: bool,
    sample_interval: int,
    profile_steps: Window | None,
    profile_on_issue: int | None,
    rescue: str | None,
    rescue_copies: int,
    rescue_tries: int,
    rescue_place_tries: int,
    rescue_memory: int | None,
    rescue_folder: str,
    show_samples: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and judge it while it runs. Put `--` before COMMAND.

    The training keeps its output, input, signals and exit code. Trackside writes to stderr only, and exits with 1 if
    it stopped the training or an issue reached --fail-on.

    \b
    Example:
      trackside run -- python train.py --epochs 10
      trackside run --on-issue stop --skip overfit -- torchrun train.py
    """
    from trackside.choosing.preflight import plan_rules
    from trackside.environment import inherited
    from trackside.local.event_lines import checked_target
    from trackside.local.jobs.scheduler import JobLeave
    from trackside.local.training_process import find_command

    environment = inherited()
    settings = settings_of(click.get_current_context())
    file = _read_rules_file(options.rules_file or settings.rules_file)
    chosen = rules_of(options, settings, file)
    plan = plan_rules(
        chosen.rules,
        catalogue=built_in_catalogue(),
        actions=None if file.rules and not is_given("on_issue") else ON_ISSUE[on_issue or "notify"],
        save_interval=save_interval,
        saves=saves,
        capture=file.capture or settings.capture,
        was_chosen=not chosen.is_default,
    )
    if otlp:
        _check_telemetry()
    find_command(command, search_path=environment.get("PATH"))
    receivers = _receivers(notify)
    json_lines = checked_target(json_lines)
    scheduler = click.get_current_context().meta[_SCHEDULER]
    place = _place(command, out, scheduler)
    code = _run(
        command,
        plan=plan,
        difference=chosen.difference if chosen.is_default else "",
        place=place,
        environment=environment,
        grace=grace,
        fail_on=fail_on,
        receivers=receivers,
        json_lines=json_lines,
        otlp=otlp,
        sample_interval=sample_interval,
        profile_steps=profile_steps,
        issue_profile_steps=profile_on_issue or 0,
        rescue=RescueEnvironment(
            is_on=rescue is not None,
            restarts=rescue == "restart",
            copies=rescue_copies,
            tries=rescue_tries,
            place_tries=rescue_place_tries,
            memory_mb=rescue_memory,
            folder=rescue_folder,
        ),
        shows_samples=show_samples,
        scheduler=scheduler,
        job_leave=JobLeave(cluster_job),
    )
    _write_reports(place.folder, reports)
    click.get_current_context().exit(code)


def _write_reports(folder: Path, paths: tuple[Path, ...]) -> None:
    """Write the reports. A failure is shown, and the exit code stays that of the run."""
    from trackside.cli.terminal.reports import write_report
    from trackside.runs.recorded_run import read_run

    for path in paths:
        try:
            write_report(read_run(str(folder)), path)
        except (OSError, TracksideError) as error:
            click.echo(f"trackside: The report {path} was not written: {error}", err=True)


def _receivers(targets: tuple[str, ...]) -> list[Receiver]:
    from trackside.integrations.notification import receiver_of

    receivers: list[Receiver] = []
    problems: list[Problem] = []
    for target in targets:
        try:
            receivers.append(receiver_of(target))
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError(problems, subject="The command line")
    return receivers


def _check_telemetry() -> None:
    """Raise `ConfigurationError` if the packages of OpenTelemetry are missing."""
    from importlib.util import find_spec

    from trackside.extras import missing_extra

    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        raise missing_extra("otel")


def _telemetry(view: Observer, *, run: str) -> TelemetryObserver:
    from trackside.integrations.open_telemetry import TelemetryObserver

    return TelemetryObserver(view, run=run)


def _read_rules_file(path: Path | None) -> RulesFile:
    from trackside.choosing.rules_file import RulesFile, read_rules_file
    from trackside.cli.terminal.views.run_view import RunView

    if path is None:
        return RulesFile(())
    found = read_rules_file(path)
    view = RunView(color=wants_color())
    for note in (*found.notes, *found.capture_notes):
        view.note(note)
    return found


def _place(command: tuple[str, ...], out: Path | None, scheduler: Scheduler | None) -> RunPlace:
    from trackside.local.unfinished_run import place_for, place_of_job
    from trackside.runs.run_folder import RUNS, run_name

    if out is None and scheduler is not None and (place := place_of_job(scheduler.job, command, RUNS)):
        return place
    return place_for(out or RUNS / run_name(command, now=time.time(), token=secrets.token_hex(2)), command)


def _run(
    command: tuple[str, ...],
    *,
    plan: RulePlan,
    difference: str,
    place: RunPlace,
    environment: dict[str, str],
    grace: float,
    fail_on: str,
    receivers: list[Receiver],
    json_lines: str | None,
    otlp: bool,
    sample_interval: int,
    profile_steps: Window | None,
    issue_profile_steps: int,
    rescue: RescueEnvironment,
    shows_samples: bool,
    scheduler: Scheduler | None,
    job_leave: JobLeave,
) -> int:
    from trackside.cli.terminal.views.run_view import RunView, Verbosity
    from trackside.extras import install_elsewhere
    from trackside.integrations.notifying_observer import NotifyingObserver
    from trackside.local.event_lines import EventLines
    from trackside.local.run import LocalRun, run_locally
    from trackside.local.training_process import owns_the_terminal
    from trackside.runs.capture_check import lacks_trackside
    from trackside.runs.run_folder import discard_run_folder

    folder = place.folder
    loud = Verbosity.VERBOSE if is_verbose(click.get_current_context()) else Verbosity.NORMAL
    view = RunView(color=wants_color(), verbosity=Verbosity.QUIET if is_quiet() else loud)
    view.begin(_relative(folder), plan)
    if place.earlier is not None:
        view.note(f"goes on with the unfinished run in {_relative(folder)}, of the same command")
    if scheduler is not None and scheduler.problem:
        view.note(f"the job's own settings are not known: {scheduler.problem}")
    if difference:
        view.note(f"judged by {difference}")
    if python := lacks_trackside(command, environment=environment):
        view.note(f"nothing will be captured: {python} has no Trackside. Install it there: {install_elsewhere(python)}")
    run = LocalRun(
        command=command,
        folder=folder,
        request=plan.request,
        capture=_with_profile(plan.capture, profile_steps),
        environment=environment,
        grace_seconds=grace,
        shares_terminal=owns_the_terminal(),
        reports_inapplicable_rules=plan.was_chosen,
        sample_interval_ms=sample_interval,
        issue_profile_steps=issue_profile_steps,
        earlier=place.earlier,
        rescue=rescue,
        shows_samples=shows_samples,
        scheduler=scheduler,
        job_leave=job_leave,
    )
    telemetry = _telemetry(view, run=folder.name) if otlp else None
    observer = NotifyingObserver(telemetry or view, receivers, run=folder.name)
    lines = EventLines(observer, json_lines, run=str(folder)) if json_lines else None
    try:
        if lines is not None:
            lines.begin(rules=len(plan.request.rules))
        result = run_locally(run, observer=lines or observer)
    except OSError as error:
        if place.earlier is None:
            discard_run_folder(folder)
        problem = Problem(command[0], f"cannot be started: {error.strerror}.")
        raise ConfigurationError([problem], subject="The command") from error
    observer.finish()
    if telemetry is not None:
        telemetry.finish(result)
    code = result.exit_code(FAIL_ON[fail_on])
    if lines is not None:
        lines.end(result, exit_code=code)
    view.end(result, _relative(folder), exit_code=code, fail_on=fail_on)
    return code


def _with_profile(capture: CaptureRequest, window: Window | None) -> CaptureRequest:
    """Return the request with a window for operators, and one of as many steps behind it for functions."""
    from dataclasses import replace

    from trackside.contracts.run.profiling_request import ProfilingRequest

    if window is None:
        return capture
    return replace(capture, profiling=ProfilingRequest(operators=window, python=window.shifted(window.steps)))


def _relative(folder: Path) -> str:
    """Return the folder as the user would type it."""
    try:
        return str(folder.relative_to(os.getcwd()))
    except ValueError:
        return str(folder)
