"""The content of a run, the progress of its rules, and the likely reason for an empty run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, KeyNotFoundError
from trackside.contracts.run.uncaptured import UncapturedProcess
from trackside.contracts.run_layout import INDEX_PREFIX, UNCAPTURED, parse_index_key
from trackside.evaluation.results.progress import ProgressFile, RuleProgress
from trackside.runs.command_end import exit_code_of, signal_of
from trackside.storage.store import Store

_PROBE = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('trackside') else 3)"
_LACKS_TRACKSIDE = 3
_INSTALLED = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if u.find_spec(n)])"
_BY_THEMSELVES = ("torch", "keras", "xgboost", "lightgbm", "catboost", "sklearn", "mxnet")  # without a call
_PROBE_SECONDS = 10
_MOST_SHEBANG_BYTES = 256
HAND_STEP = "put `hook = trackside.Hook()` before the loop, and `hook.step()` after the update"


def saved_steps(tensors: Store) -> tuple[int, ...]:
    """Return the steps with saved tensors, ascending. `tensors` is rooted at `<run>/debug-output`."""
    parsed = (parse_index_key(key) for key in tensors.list(INDEX_PREFIX))
    return tuple(sorted({found[0] for found in parsed if found}))


def rule_progress(rule_output: Store) -> Mapping[str, RuleProgress]:
    """Return the progress of each rule, by the name of its configuration. `rule_output` is `<run>/rule-output`."""
    return ProgressFile(rule_output).rules()


def uncaptured_processes(run: Store) -> tuple[UncapturedProcess, ...]:
    """Return the reports of processes that captured nothing, the likeliest training first. Errors: the store's."""
    found = []
    for key in run.list(f"{UNCAPTURED}/"):
        try:
            found.append(UncapturedProcess.from_json(run.get(key)))
        except (KeyNotFoundError, ConfigurationError):
            continue
    return tuple(sorted(found, key=lambda each: (-each.backward_passes, "torch" not in each.frameworks)))


def why_nothing_was_captured(
    command: Sequence[str], *, status: int, has_begun: bool, processes: Sequence[UncapturedProcess]
) -> str:
    """Return the likeliest reason for an empty run and the way on, in one sentence.

    Args:
        command: The command of the run.
        status: Its exit code, or -n if signal n ended it.
        has_begun: True if a step was made.
        processes: Reports of its processes, the likeliest training first.
    """
    if has_begun:
        return (
            "a training began, but no step was saved or judged: none was due (a short run may need --save-interval 1), "
            "or capture was switched off, as a line above says"
        )
    if not processes:
        return _without_report(command, status)
    return _of_process(processes[0])


def lacks_trackside(command: Sequence[str], *, environment: Mapping[str, str]) -> str:
    """Return the Python of a command if Trackside is not installed for it; "" otherwise, or if that is unknown.

    Args:
        command: The command of the run.
        environment: Variables that it gets.
    """
    python = _interpreter(command, search_path=environment.get("PATH"))
    if not python or os.path.dirname(os.path.abspath(python)) == os.path.dirname(sys.executable):
        return ""
    kept = {name: value for name, value in environment.items() if not name.startswith("TRACKSIDE_")}
    try:
        probe = subprocess.run(
            [python, "-c", _PROBE], env=kept, capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return python if probe.returncode == _LACKS_TRACKSIDE else ""


def nothing_captured_yet(command: Sequence[str], *, environment: Mapping[str, str]) -> str:
    """Return a sentence for a command that still runs, about the frameworks that are installed for it.

    Args:
        command: The command of the run.
        environment: Variables that it gets.
    """
    found = _installed((*_BY_THEMSELVES, "jax"), command, environment)
    trained = [name for name in found if name in _BY_THEMSELVES]
    if trained:
        names = " or ".join(filter(None, (", ".join(trained[:-1]), trained[-1])))
        return f"nothing captured yet: no training step of {names} has ended"
    if found:
        return "nothing captured yet: jax is captured by a call, trackside.JaxRun"
    return "nothing captured yet: no training step has ended; a program without a framework calls trackside.Run"


def _installed(names: Sequence[str], command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return those of the modules that the command's Python can import; none if that is unknown."""
    python = _interpreter(command, search_path=environment.get("PATH"))
    if not python:
        return ()
    kept = {name: value for name, value in environment.items() if not name.startswith("TRACKSIDE_")}
    try:
        probe = subprocess.run(
            [python, "-c", _INSTALLED, *names],
            env=kept,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(probe.stdout.split()) if probe.returncode == 0 else ()


def _of_process(process: UncapturedProcess) -> str:
    crashed = f"{process.error} ended it" if process.error not in ("", "SystemExit") else ""
    if process.manual_update:
        return f"weights change by hand, without a torch.optim optimizer ({process.manual_update}); {HAND_STEP}"
    if crashed and "torch" in process.frameworks:
        return f"{crashed} before the first optimizer step; the traceback is above"
    if process.backward_passes and process.optimizers:
        names = " and ".join(dict.fromkeys(process.optimizers))
        passes = f"{process.backward_passes} backward pass{'' if process.backward_passes == 1 else 'es'}"
        return f"{names} was made and {passes} ran, but `optimizer.step()` was never called"
    if process.backward_passes:
        return f"backward ran, but no torch.optim optimizer was made; if it updates weights by hand, {HAND_STEP}"
    if "torch" in process.frameworks:
        return "torch was imported, but `backward` was never called, so nothing was trained"
    return _of_others(process, crashed)


def _of_others(process: UncapturedProcess, crashed: str) -> str:
    """Return the reason for a process that did not import torch."""
    if crashed:
        return f"{crashed} before the first step; the traceback is above"
    if set(process.frameworks) == {"jax"}:
        return "the script uses jax, which is captured by a call: trackside.JaxRun"
    seen = f"the script uses {', '.join(process.frameworks)}, and no training was seen that `trackside run` captures"
    if "sklearn" not in process.frameworks:
        return seen
    return f"{seen}; fits in worker processes (n_jobs) are captured only where the estimator keeps losses"


def _without_report(command: Sequence[str], status: int) -> str:
    name = Path(command[0]).name
    if signal := signal_of(status):
        return f"{signal} ended the command (exit code {exit_code_of(status)}) before a training step was recorded"
    if status:
        return f"the command ended with code {status} before it imported a framework; its own message is above"
    if name.startswith("python"):
        return "the script never imported a framework; a program without one is captured by a call: trackside.Run"
    return f"{name} started no Python that has Trackside and trains"


def _interpreter(command: Sequence[str], *, search_path: str | None) -> str:
    """Return the path of the Python that runs a command: the command itself, or the one in a script's first line."""
    program = shutil.which(command[0], path=search_path)
    if program is None:
        return ""
    if Path(program).name.startswith("python"):
        return program
    try:
        with open(program, "rb") as file:
            first = file.read(_MOST_SHEBANG_BYTES).split(b"\n")[0].decode("utf-8", "replace")
    except OSError:
        return ""
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = words[1:]
    found = shutil.which(words[0], path=search_path) if words and Path(words[0]).name.startswith("python") else None
    return found or ""
