"""A rehearsal in a fork of this process: `trackside check` without the seconds of starting Python and PyTorch twice.

The script trains under capture and is judged by the rules of `trackside check`, in one process of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from trackside.contracts.capture_request import capture_environment
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.environment import RehearsalEnvironment
from trackside.evaluation.backtest import backtest
from trackside.frameworks.pytorch import attach
from trackside.local.check import CheckResult, checked, for_rehearsal
from trackside.local.preflight import plan_rules
from trackside.local.run import LocalRunResult

SETTINGS = RehearsalEnvironment(steps=50)  # as `trackside check` without options
RESULT = "result.json"


@dataclass(frozen=True)
class Rehearsed:
    """The result of one rehearsal.

    exit_code  that of `trackside check`
    reasons    names of the probes and rules that found something, the rules with their severity
    """

    exit_code: int
    reasons: tuple[str, ...]


def warm() -> None:
    """Import what each rehearsal needs, without starting a thread: processes are forked from here."""
    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # the first optimizer of a process imports the compiler
    built_in_catalogue()


def start(script: Path) -> int:
    """Begin the rehearsal of a script, in its folder, and return the process id. Its end leaves `RESULT` there."""
    pid = os.fork()
    if pid == 0:
        try:
            _rehearse(script)
        except BaseException:  # noqa: BLE001 - the child must end here, whatever happens
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(0)
    return pid


def result_of(folder: Path) -> Rehearsed:
    """Return the result of a rehearsal that has ended."""
    document = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    return Rehearsed(document["exit_code"], tuple(document["reasons"]))


def variables(run: Path) -> dict[str, str]:
    """Return the variables that make a training a rehearsal, with its run in this folder."""
    plan = plan_rules((), catalogue=built_in_catalogue(), actions=(), save_interval=1)
    return {**capture_environment(str(run), for_rehearsal(plan.capture)), **SETTINGS.variables()}


def judged(run: Path, *, status: int) -> Rehearsed:
    """Return the result of a rehearsal that left a run, or none, and ended with this exit code."""
    plan = plan_rules((), catalogue=built_in_catalogue(), actions=(), save_interval=1)
    found = backtest(str(run), plan.request.rules, clock=time.time).verdicts if run.exists() else ()
    result = checked(LocalRunResult(run, status, None, found, (), (), "", ""), now=time.time())
    return Rehearsed(result.exit_code, tuple(_reasons(result)))


def _rehearse(script: Path) -> None:
    os.chdir(script.parent)
    with open("output.txt", "w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    run = Path("run").absolute()
    os.environ.update(variables(run))  # noqa: TID251 - as `trackside check` does for a script
    result = judged(run, status=_run(script))
    (script.parent / RESULT).write_text(json.dumps(asdict(result)), encoding="utf-8")


def _run(script: Path) -> int:
    sys.argv[:] = [str(script)]
    attach()
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        return int(ended.code or 0)
    except Exception as error:  # noqa: BLE001 - a script may fail
        traceback.print_exc()
        sys.last_type = type(error)
        return 1
    finally:
        atexit._run_exitfuncs()
    return 0


def _reasons(result: CheckResult) -> list[str]:
    probes = [f"`{answer.probe}`" for answer in result.faults]
    return [*probes, *dict.fromkeys(f"`{issue.rule_id}` ({issue.severity.value})" for issue in result.issues)]
