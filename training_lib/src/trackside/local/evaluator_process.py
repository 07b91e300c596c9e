"""The evaluator beside the training: a process of its own, restarted a few times if it dies, then given up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path

from trackside.runs.run_folder import EVALUATOR_LOG

MOST_RESTARTS = 3
RESTART_PAUSE_SECONDS = (0.0, 0.5, 2.0)
EVALUATOR = (sys.executable, "-m", "trackside.evaluation")

# Codes of trackside.evaluation.exit_codes, which would import NumPy into this process.
JUDGED_TO_THE_END = (0, 5)  # 5: a rule crashed, which has a verdict of its own
BAD_CONFIGURATION = 2


class EvaluatorState(Enum):
    """The state of the evaluator's process."""

    RUNNING = "running"
    ENDED = "ended"  # judged to the end
    GIVEN_UP = "given up"


class EvaluatorProcess:
    """Keeps one evaluator of a run alive.

    folder       the run's folder; of a run elsewhere, a folder for the evaluator's log
    environment  variables for the process, without those that start capture
    note         receives a sentence about each failure and restart
    monotonic    returns seconds
    command      the evaluator's command line
    run          address of a run elsewhere; None: the run lies in `folder`

    The evaluator ends with this process, however that ends.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environment: Mapping[str, str],
        note: Callable[[str], None],
        monotonic: Callable[[], float],
        command: tuple[str, ...] = EVALUATOR,
        run: str | None = None,
    ) -> None:
        self._command = (*command, "--run", run or str(folder), "--parent", str(os.getpid()))
        self._folder = folder
        self._environment = _evaluator_environment(environment)
        self._note = note
        self._monotonic = monotonic
        self._restarts = 0
        self._start_at = monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self.state = EvaluatorState.RUNNING
        self.problem = ""

    @property
    def pid(self) -> int | None:
        """The id of the running process; None without one."""
        return self._process.pid if self._process else None

    def tend(self) -> EvaluatorState:
        """Start the process if it does not run, and note its end. Returns the state at once."""
        if self.state is not EvaluatorState.RUNNING:
            return self.state
        if self._process is None:
            if self._monotonic() >= self._start_at:
                self._start()
            return self.state
        status = self._process.poll()
        if status is not None:
            self._process = None
            self._ended(status)
        return self.state

    def finish(self, *, grace_seconds: float) -> None:
        """End the process: SIGINT, after which it judges the complete steps, then SIGKILL after `grace_seconds`.

        A SIGTERM does not end it: Slurm sends one to each process of a step, and steps of the grace are judged, too.
        """
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGINT)
        try:
            status = process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        if status in JUDGED_TO_THE_END:
            self.state = EvaluatorState.ENDED
        else:
            self.state, self.problem = (
                EvaluatorState.GIVEN_UP,
                "The rules were ended before they had judged every step.",
            )

    def _start(self) -> None:
        with (self._folder / EVALUATOR_LOG).open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                # `-m` puts the working folder on the import path: a folder of ours cannot shadow a module
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # No `preexec_fn`: in a training, with its threads and memory, a plain start is safe and fast.
                start_new_session=True,  # Ctrl-C is for the training
            )

    def _ended(self, status: int) -> None:
        if status in JUDGED_TO_THE_END:
            self.state = EvaluatorState.ENDED
            return
        how = _describe(status)
        if status == BAD_CONFIGURATION or self._restarts == MOST_RESTARTS:
            self.state, self.problem = EvaluatorState.GIVEN_UP, f"{how}{self._last_log_line()}"
            self._note(f"the rules judge no further: {self.problem} The training goes on.")
            return
        self._start_at = self._monotonic() + RESTART_PAUSE_SECONDS[self._restarts]
        self._restarts += 1
        self._note(
            f"The evaluator ended ({how}); it continues where it was (restart {self._restarts}/{MOST_RESTARTS})."
        )

    def _last_log_line(self) -> str:
        log = self._folder / EVALUATOR_LOG
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {last[:200]} (more in {log})." if last else f" (see {log})."


def _evaluator_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables for the evaluator, without those that start capture.

    One thread of arithmetic is enough, and the cores belong to the training.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith("TRACKSIDE_")}
    return {**kept, "TRACKSIDE_POLL_SECONDS": "0.5", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _describe(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
