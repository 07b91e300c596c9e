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

if TYPE_CHECKING:
    from trackside.integrations.notification import Receiver
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
@click.option(
    "--notify",
    multiple=True,
    metavar="WHERE",
    help="Send each problem: desktop, https://WEBHOOK, or command:PROGRAM. Repeat for more.",
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
    notify: tuple[str, ...],
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
    receivers = _receivers(notify)
    code = _run(
        command,
        plan=plan,
        folder=_new_folder(command, out),
        environment=environment,
        grace=grace,
        fail_on=fail_on,
        receivers=receivers,
    )
    click.get_current_context().exit(code)


def parse_rule(text: str) -> RuleConfiguration:
    """Return the configuration in `exploding-tensor:threshold=10,patience=2`, or `FILE.py:CLASS:threshold=10`.

    Raises `ValueError` with a cure.
    """
    source, rule_id, rest = split_rule(text)
    parameters = {}
    for pair in rest.split(",") if rest else ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{pair!r} is not NAME=VALUE.")
        if name.strip() in parameters:
            raise ValueError(f"{name.strip()!r} is set twice.")
        parameters[name.strip()] = value.strip()
    if not rule_id.strip():
        raise ValueError("names no rule.")
    if not source and rule_id.strip().endswith(".py"):
        raise ValueError("names a file, and no class in it.")
    return RuleConfiguration(rule_id.strip(), parameters=parameters, source=source)


def split_rule(text: str) -> tuple[str, str, str]:
    """Return (file, rule or class, the rest) of `s3://b/mine.py:Large:limit=3`.

    The file is "" for a rule without one.
    """
    file, py, after = text.partition(".py:")
    if not py or "=" in file:  # then it stands within a parameter
        return "", *text.partition(":")[::2]
    return f"{file}.py", *after.partition(":")[::2]


def _read_rules(texts: tuple[str, ...]) -> list[RuleConfiguration]:
    configurations, problems = [], []
    for text in texts:
        try:
            configurations.append(parse_rule(text))
        except ValueError as error:
            fix = "Write ID or FILE.py:CLASS, then :NAME=VALUE,NAME=VALUE if you like."
            problems.append(Problem(f"--rule {text}", str(error), fix))
    if problems:
        raise ConfigurationError(problems, subject="The command line")
    return configurations


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
    command: tuple[str, ...],
    *,
    plan: RulePlan,
    folder: Path,
    environment: dict[str, str],
    grace: float,
    fail_on: str,
    receivers: list[Receiver],
) -> int:
    from trackside.cli.terminal.run_view import RunView
    from trackside.integrations.notifying_observer import NotifyingObserver
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
    observer = NotifyingObserver(view, receivers, run=folder.name)
    try:
        result = run_locally(run, observer=observer)
    except OSError as error:
        discard_run_folder(folder)
        problem = Problem(command[0], f"cannot be started: {error.strerror}.")
        raise ConfigurationError([problem], subject="The command") from error
    observer.finish()
    code = result.exit_code(FAIL_ON[fail_on])
    view.end(result, _relative(folder), exit_code=code, fail_on=fail_on)
    return code


def _relative(folder: Path) -> str:
    """Return the folder as the user would type it."""
    try:
        return str(folder.relative_to(os.getcwd()))
    except ValueError:
        return str(folder)
