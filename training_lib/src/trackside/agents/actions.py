"""Actions for agents, which need permission: a rehearsal is started and its end read, and a run is stopped."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackside.agents.answers import CheckResult, FindingLine, ProbeLine, Started, Stopped
from trackside.agents.runs import Runs
from trackside.agents.text import MOST_LINE, one_line, sentence, shown_name
from trackside.contracts.errors import ConfigurationError, Problem, RunNotFoundError
from trackside.contracts.run.check import Outcome
from trackside.contracts.run.exit_code import NOT_JUDGED
from trackside.environment import inherited
from trackside.local.stop_request import MOST_REASON, request_stop
from trackside.local.training_process import find_command
from trackside.runs.run_folder import RUNS, run_name, run_state

MOST_CHECKS = 4  # at once
MOST_STEPS = 10_000
MOST_RESULT_BYTES = 4 << 20
MOST_OUTPUT = 600  # characters: of the end of what the script printed
MOST_FAULTS, MOST_FINDINGS = 4, 6
CHECK = (sys.executable, "-m", "trackside", "check", "--json")


@dataclass
class _Check:
    """A rehearsal that was started here; the file `output` takes the result, `errors` the rest."""

    process: subprocess.Popen[bytes]
    output: Path
    errors: Path


class Actions:
    """Rehearsals and stops. The rehearsals end with this object.

    Args:
        runs: The runs.
        clock: Returns seconds since the epoch.
    """

    def __init__(self, runs: Runs, *, clock: Callable[[], float] = time.time) -> None:
        self._runs, self._clock = runs, clock
        self._checks: dict[str, _Check] = {}
        self._lock = threading.Lock()
        self._files = tempfile.TemporaryDirectory(prefix="trackside-mcp-")

    def start_check(self, command: Sequence[str], *, steps: int) -> Started:
        """Start a rehearsal of a command in the working folder, without a shell.

        Args:
            command: The words of the command, such as `["python", "train.py"]`.
            steps: Optimizer steps before the probes.

        Raises:
            ConfigurationError: There is no such program, too many rehearsals run, or the runs lie in S3.
        """
        if self._runs.list.is_remote:
            raise _refused("command", "cannot be rehearsed: the runs of this server lie in S3.")
        if not command or not all(command):
            raise _refused("command", "is empty.", 'For example: ["python", "train.py"]')
        environment = inherited()
        find_command(command, search_path=environment.get("PATH"))
        name = run_name(command, now=self._clock(), token=secrets.token_hex(2))
        with self._lock:
            if sum(check.process.poll() is None for check in self._checks.values()) >= MOST_CHECKS:
                raise _refused(
                    "command", f"must wait: {MOST_CHECKS} rehearsals run.", "Read check_result of one first."
                )
            self._checks[name] = self._started(name, command, steps, environment)
        return Started(
            name, tuple(one_line(word, 80) for word in command[:12]), "It takes a minute or more: ask check_result."
        )

    def check_result(self, run: str) -> CheckResult:
        """Return the end of a rehearsal that this server started.

        Raises:
            RunNotFoundError: This server started no rehearsal of that name.
        """
        with self._lock:
            check = self._checks.get(run)
        if check is None:
            raise RunNotFoundError(f"This server started no rehearsal {one_line(run, 100)!r}. start_check starts one.")
        code = check.process.poll()
        if code is None:
            return CheckResult(run, "running", None, 0, (), (), "")
        printed = _end_of(check.errors)
        document = _document(check.output)
        if document is None:
            return CheckResult(run, "broken", code, 0, (), (), printed)
        faults = [probe for probe in document["probes"] if probe["outcome"] == Outcome.FAULT.value]
        state = {0: "passed", NOT_JUDGED: "not judged"}.get(document["exit_code"], "failed")
        return CheckResult(
            run=run,
            state=state,
            exit_code=document["exit_code"],
            steps=document["steps"],
            faults=tuple(_probe_line(probe) for probe in faults[:MOST_FAULTS]),
            findings=tuple(_finding_line(finding) for finding in document["findings"][:MOST_FINDINGS]),
            output="" if state == "passed" else printed,
        )

    def stop_run(self, run: str, *, reason: str) -> Stopped:
        """Have `trackside run` stop a training.

        Raises:
            ConfigurationError: The run is not one that `trackside run` runs on this machine now.
        """
        uri = self._runs.uri(run)
        request_stop(uri, one_line(reason, MOST_REASON) or "by an agent", now=self._clock)
        note = "The training gets SIGTERM now, and SIGKILL after its grace. wait_for_news waits for its end."
        return Stopped(shown_name(self._runs.name(run)), run_state(Path(uri)).value, note)

    def close(self) -> None:
        """End the rehearsals that run."""
        for check in self._checks.values():
            if check.process.poll() is None:
                check.process.terminate()
        self._files.cleanup()

    def _started(self, name: str, command: Sequence[str], steps: int, environment: Mapping[str, str]) -> _Check:
        folder = Path(self._runs.list.where or RUNS) / name
        words = [*CHECK, "--out", str(folder), "--steps", str(steps), "--", *command]
        output, errors = (Path(self._files.name, f"{name}.{kind}") for kind in ("json", "txt"))
        with output.open("wb") as stdout, errors.open("wb") as stderr:
            process = subprocess.Popen(
                words,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        return _Check(process, output, errors)


def _refused(where: str, what: str, fix: str = "") -> ConfigurationError:
    return ConfigurationError([Problem(where, what, fix)], subject="The call")


def _document(output: Path) -> dict[str, Any] | None:
    with output.open("rb") as file:
        data = file.read(MOST_RESULT_BYTES)
    try:
        document = json.loads(data)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _end_of(errors: Path) -> str:
    with errors.open("rb") as file:
        file.seek(max(0, errors.stat().st_size - 4 * MOST_OUTPUT))
        text = one_line(file.read().decode("utf-8", "replace"), 4 * MOST_OUTPUT)
    return text if len(text) <= MOST_OUTPUT else f"…{text[-MOST_OUTPUT:]}"


def _probe_line(probe: Mapping[str, Any]) -> ProbeLine:
    steps = tuple(one_line(step) for step in probe.get("what_to_do", [])[:3])
    return ProbeLine(probe["probe"], probe["outcome"], one_line(probe.get("observed", "")), steps)


def _finding_line(finding: Mapping[str, Any]) -> FindingLine:
    subjects = [each.get("subject", "") for each in finding.get("findings", [])]
    return FindingLine(
        finding=shown_name(finding["id"]),
        rule=shown_name(finding["configuration"]),
        severity=finding["severity"],
        state=finding["state"],
        step=finding["step"],
        message=sentence(finding["message"], [subject for subject in subjects if subject], MOST_LINE),
    )
