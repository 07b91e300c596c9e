"""`trackside check`: a rehearsal of minutes before a training of days."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.options import format_option, is_quiet, quiet_option, shared_options, wants_color
from trackside.cli.terminal.rows import print_json
from trackside.cli.terminal.views.run_cards import FAIL_ON
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.verdict import Severity

if TYPE_CHECKING:
    from trackside.local.run import LocalRun
    from trackside.rehearsal.check import CheckResult


@click.command("check", context_settings={"allow_interspersed_args": False})
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Optimizer steps before the probes.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    help="Time for these steps; then the probes begin.",
)
@click.option(
    "--probe-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=90.0,
    show_default=True,
    help="Time for the probes.",
)
@click.option(
    "--limit",
    "limit_seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for everything; then COMMAND is stopped.",
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="The run's folder.  [default: .trackside/runs/NAME]"
)
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    default="warning",
    show_default=True,
    help="Exit with 1 if an issue of the rules that stands at the end is at least this severe.",
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write a JUnit report to this file.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@quiet_option("No line about the rehearsal's folder; the result and the script's output remain.")
@format_option("table", "json", "github")
@shared_options
def command(
    *,
    steps: int,
    seconds: float,
    probe_seconds: float,
    limit_seconds: float,
    out: Path | None,
    fail_on: str,
    junit: Path | None,
    output: str,
    command: tuple[str, ...],
) -> None:
    """Rehearse COMMAND for some steps, and probe its model.

    COMMAND may be a script alone, train.py: it runs with Python.
    The script runs unchanged for some steps, and all rules judge them. Then probes work on its model, optimizer and
    last batch, and the script is ended as by sys.exit(). The script's output goes to stderr. It writes what it writes:
    give it a folder of its own if that matters.

    Exits with 1 if a probe finds a fault, if an issue of the rules stands at the end that reaches --fail-on, or if the
    script fails; 8 if nothing was judged, as no training was seen; 2 for wrong usage.

    \b
    Example:
      trackside check train.py
      trackside check -- python train.py
      trackside check --steps 50 --junit check.xml -- torchrun train.py
      trackside check --format github -- python train.py
    """
    from trackside.choosing.preflight import plan_rules
    from trackside.choosing.project_settings import read_settings
    from trackside.choosing.rule_choice import choose_rules
    from trackside.environment import RehearsalEnvironment, inherited
    from trackside.local.run import LocalRun
    from trackside.local.training_process import find_command, owns_the_terminal
    from trackside.rehearsal.check import rehearsed
    from trackside.runs.run_folder import RUNS, create_run_folder, run_name

    environment = inherited()
    command = _with_python(command, search_path=environment.get("PATH"))
    layers = read_settings(Path.cwd(), environment).rule_layers
    chosen = choose_rules(layers, catalogue=built_in_catalogue())
    plan = plan_rules(chosen.rules, catalogue=built_in_catalogue(), actions=(), save_interval=1)
    find_command(command, search_path=environment.get("PATH"))
    name = run_name(command, now=time.time(), token=secrets.token_hex(2))
    run = LocalRun(
        command=command,
        folder=create_run_folder(out or RUNS / name),
        request=plan.request,
        capture=plan.capture,
        environment=environment,
        shares_terminal=owns_the_terminal(),
        limit_seconds=limit_seconds,
    )
    settings = RehearsalEnvironment(steps, seconds, probe_seconds)
    result = _rehearse(rehearsed(run, settings), fail_on=FAIL_ON[fail_on])
    if junit is not None:
        from trackside.exchange.junit import junit_report

        report = junit_report(result.answers, result.issues, failing=result.failing, not_judged=result.not_judged)
        junit.write_text(report, encoding="utf-8")
    if output == "json":
        print_json(_document(result))
    elif output == "github":
        click.echo(_annotations(result), nl=False)
    else:
        _print(result, fail_on=fail_on)
    click.get_current_context().exit(result.exit_code)


def _with_python(command: tuple[str, ...], *, search_path: str | None) -> tuple[str, ...]:
    """Return the command with a Python before a script: the one of this command if it has torch, else that on PATH."""
    script = Path(command[0])
    is_program = os.sep in command[0] and os.access(script, os.X_OK)
    if script.suffix != ".py" or is_program or shutil.which(command[0], path=search_path):
        return command
    if not script.is_file():
        fix = did_you_mean(command[0], [str(one) for one in Path().glob("*.py")])
        raise ConfigurationError([Problem(command[0], "there is no such file.", fix)], subject="The command")
    own = sys.executable if find_spec("torch") else None
    return (own or shutil.which("python", path=search_path) or sys.executable, *command)


def _rehearse(run: LocalRun, *, fail_on: Severity | None) -> CheckResult:
    from trackside.cli.terminal.views.run_view import RunView, Verbosity
    from trackside.rehearsal.check import check_locally
    from trackside.runs.run_folder import discard_run_folder

    view = RunView(color=wants_color(), verbosity=Verbosity.QUIET)
    if not is_quiet():
        view.note(f"rehearsal in {run.folder}")
    try:
        return check_locally(run, observer=view, fail_on=fail_on)
    except OSError as error:
        discard_run_folder(run.folder)
        problem = Problem(run.command[0], f"cannot be started: {error.strerror}.")
        raise ConfigurationError([problem], subject="The command") from error


def _document(result: CheckResult) -> dict[str, object]:
    from trackside.contracts.stored_fields import document_of
    from trackside.runs.run_document import verdict_document

    return {
        "run": str(result.run.folder),
        "steps": result.steps,
        "exit_code": result.exit_code,
        "judged": not result.not_judged,
        "not_judged": result.not_judged,
        "probes": [document_of(answer) for answer in result.answers],
        "findings": [verdict_document(issue) for issue in result.issues],
    }


def _annotations(result: CheckResult) -> str:
    """Return annotations of GitHub Actions: those of the probes, then those of the rules."""
    from trackside.cli.terminal.reports import report_text
    from trackside.exchange.reports import github_answers
    from trackside.runs.recorded_run import read_run
    from trackside.runs.run_folder import find_run

    folder = result.run.folder
    return github_answers(result.answers, run=folder.name) + report_text(read_run(find_run(str(folder))), "github")


def _print(result: CheckResult, *, fail_on: str) -> None:
    from trackside.cli.terminal.console import data_console
    from trackside.cli.terminal.views.check_view import print_check

    print_check(data_console(color=wants_color()), result, fail_on=fail_on)
