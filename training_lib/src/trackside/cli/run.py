"""`trackside run`: any training command on this machine, judged by rules while it runs."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.options import shared_options, wants_color
from trackside.contracts.action import Action
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Severity
from trackside.local.rule_text import HOW_TO_WRITE, parse_rule

if TYPE_CHECKING:
    from trackside.local.preflight import RulePlan
    from trackside.local.rules_file import RulesFile

ON_ISSUE = {
    "stop": (Action.STOP_TRAINING, Action.NOTIFY),
    "notify": (Action.NOTIFY,),
    "nothing": (),
}
FAIL_ON = {"warning": Severity.WARNING, "critical": Severity.CRITICAL, "never": None}


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="ID[:NAME=VALUE,...]",
    help="Judge by this rule, or by your own: FILE.py:CLASS. Repeat for more. Default: all.",
)
@click.option(
    "--rules-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Rules as JSON or YAML."
)
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
    "--out", type=click.Path(file_okay=False, path_type=Path), help="The run's folder.  [default: .trackside/runs/NAME]"
)
@click.option(
    "--save-interval",
    type=click.IntRange(min=1),
    metavar="STEPS",
    help="Save every so many steps.  [default: as the rules need]",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to end after a stop, before SIGKILL.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@shared_options
def command(
    *,
    rules: tuple[str, ...],
    rules_file: Path | None,
    on_issue: str | None,
    fail_on: str,
    out: Path | None,
    save_interval: int | None,
    grace: float,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and judge it while it runs. Put `--` before COMMAND.

    The training keeps its output, input, signals and exit code. Trackside writes to stderr only, and exits with 1 if
    it stopped the training or an issue reached --fail-on.

    \b
    Example:
      trackside run -- python train.py --epochs 10
      trackside run --on-issue stop --rule exploding-tensor -- torchrun train.py
    """
    from trackside.environment import inherited
    from trackside.local.preflight import plan_rules
    from trackside.local.training_process import find_command

    environment = inherited()
    file = _read_rules_file(rules_file)
    requested = [*file.rules, *_read_rules(rules)]
    keeps_file_actions = on_issue is None and rules_file is not None
    plan = plan_rules(
        requested,
        catalogue=built_in_catalogue(),
        actions=None if keeps_file_actions else ON_ISSUE[on_issue or "notify"],
        save_interval=save_interval,
        capture=file.capture,
    )
    find_command(command, search_path=environment.get("PATH"))
    code = _run(
        command, plan=plan, folder=_new_folder(command, out), environment=environment, grace=grace, fail_on=fail_on
    )
    click.get_current_context().exit(code)


def _read_rules(texts: tuple[str, ...]) -> list[RuleConfiguration]:
    configurations, problems = [], []
    for text in texts:
        try:
            configurations.append(parse_rule(text))
        except ValueError as error:
            problems.append(Problem(f"--rule {text}", str(error), HOW_TO_WRITE))
    if problems:
        raise ConfigurationError(problems, subject="The command line")
    return configurations


def _read_rules_file(path: Path | None) -> RulesFile:
    from trackside.cli.terminal.run_view import RunView
    from trackside.local.rules_file import RulesFile, read_rules_file

    if path is None:
        return RulesFile(())
    found = read_rules_file(path)
    view = RunView(color=wants_color())
    for note in (*found.notes, *found.capture_notes):
        view.note(note)
    return found


def _new_folder(command: tuple[str, ...], out: Path | None) -> Path:
    from trackside.local.run_folder import RUNS, create_run_folder, run_name

    return create_run_folder(out or RUNS / run_name(command, now=time.time(), token=secrets.token_hex(2)))


def _run(
    command: tuple[str, ...], *, plan: RulePlan, folder: Path, environment: dict[str, str], grace: float, fail_on: str
) -> int:
    from trackside.cli.terminal.run_view import RunView
    from trackside.local.run import LocalRun, run_locally
    from trackside.local.run_folder import discard_run_folder
    from trackside.local.training_process import owns_the_terminal

    view = RunView(color=wants_color())
    view.begin(_relative(folder), plan)
    run = LocalRun(
        command=command,
        folder=folder,
        request=plan.request,
        capture=plan.capture,
        environment=environment,
        grace_seconds=grace,
        shares_terminal=owns_the_terminal(),
        reports_inapplicable_rules=plan.was_chosen,
    )
    try:
        result = run_locally(run, observer=view)
    except OSError as error:
        discard_run_folder(folder)
        problem = Problem(command[0], f"cannot be started: {error.strerror}.")
        raise ConfigurationError([problem], subject="The command") from error
    code = result.exit_code(FAIL_ON[fail_on])
    view.end(result, _relative(folder), exit_code=code, fail_on=fail_on)
    return code


def _relative(folder: Path) -> str:
    """Return the folder as the user would type it."""
    try:
        return str(folder.relative_to(os.getcwd()))
    except ValueError:
        return str(folder)
