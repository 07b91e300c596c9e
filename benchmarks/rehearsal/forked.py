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

from benchmarks.engine.documents import from_document, write_json
from trackside.choosing.preflight import plan_rules
from trackside.contracts.capture_request import capture_environment
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.environment import RehearsalEnvironment
from trackside.evaluation.backtest import backtest
from trackside.frameworks.pytorch import attach
from trackside.local.run import LocalRunResult
from trackside.rehearsal.check import CheckResult, checked, for_rehearsal
from trackside.runs.rule_state import rule_statuses

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


def variables(run: Path) -> dict[str, str]:
    """Return the variables that make a training a rehearsal, with its run in this folder."""
    plan = plan_rules((), catalogue=built_in_catalogue(), actions=(), save_interval=1)
    return {**capture_environment(str(run), for_rehearsal(plan.capture)), **SETTINGS.variables()}


def judged(run: Path, *, status: int) -> Rehearsed:
    """Return the result of a rehearsal that left a run, or none, and ended with this exit code."""
    plan = plan_rules((), catalogue=built_in_catalogue(), actions=(), save_interval=1)
    found = backtest(str(run), plan.request.rules, clock=time.time) if run.exists() else None
    verdicts, progress = (found.verdicts, found.progress) if found else ((), {})
    rules = rule_statuses(plan.request.rules, verdicts, progress=progress, is_running=False)
    result = checked(LocalRunResult(run, status, None, verdicts, rules, (), "", ""), now=time.time())
    return Rehearsed(result.exit_code, tuple(_reasons(result)))


def rehearse(text: str, folder: Path) -> None:
    """Rehearse a script in its folder, in this process, which is a fork; `RESULT` is left there."""
    os.chdir(folder)
    script, run = Path("train.py").absolute(), Path("run").absolute()
    script.write_text(text, encoding="utf-8")
    with open("output.txt", "w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.update(variables(run))  # noqa: TID251 - as `trackside check` does for a script
    write_json(script.parent / RESULT, asdict(judged(run, status=_run(script))))


def result_of(folder: Path) -> Rehearsed:
    """Return the result of a rehearsal that has ended."""
    return from_document(Rehearsed, json.loads((folder / RESULT).read_text(encoding="utf-8")))


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
