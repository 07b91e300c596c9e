"""A job of Slurm: its comment shows the verdict, and a stop takes away its requeueing.

Slurm's own end of a job that failed is what its users know: `trackside run` ends with 1, the step and the batch script
fail, the state is FAILED, and `afternotok` follows. `scancel` of the whole job would say that a person cancelled it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.run.cluster_job import SLURM, ClusterJob
from trackside.contracts.verdict import Verdict
from trackside.environment import SlurmEnvironment
from trackside.local.jobs.scheduler import MOST_TEXT, JobDefaults, JobError, sentence_of
from trackside.local.process_table import variables_of

CALL_SECONDS = 15.0  # a controller that is down answers after minutes
OURS = "trackside: "
_BESIDE = " | "  # between the user's own comment and ours


@dataclass(frozen=True)
class SlurmJob(JobDefaults):
    """A job of Slurm, seen from a process of it.

    job          its facts
    number       its number, by which commands know it
    own_step     the step of this process; "" in a batch script
    environment  variables of Slurm's commands
    """

    job: ClusterJob
    number: str
    own_step: str
    environment: Mapping[str, str]

    @property
    def signals_every_process(self) -> bool:
        """Slurm signals every process of a step."""
        return True

    def report(self, verdict: Verdict, run: Path) -> None:
        """Write the verdict behind the user's own comment."""
        self._comment(sentence_of(verdict))

    def withhold(self, reason: str) -> None:
        """Forbid requeueing: `scontrol requeue` in the script, a node that fails and preemption then end the job."""
        self._call("scontrol", "update", f"JobId={self.number}", "Requeue=0")
        self._comment(f"stopped: {reason}")

    def end(self, reason: str) -> None:
        """Leave the end to the exit code."""

    def signal_tasks(self, name: str, tasks: Sequence[int]) -> bool:
        """Signal the steps of the training. A SIGTERM to `srun` itself would kill its tasks at once."""
        steps = self._steps_of(tasks)
        for step in steps:
            self._call("scancel", f"--signal={name}", f"{self.number}.{step}")
        return bool(steps)

    def _steps_of(self, tasks: Sequence[int]) -> list[str]:
        found = [SlurmEnvironment.read(variables_of(pid)) for pid in tasks]
        own = {one.step_id for one in found if one.job_id == self.number} - {self.own_step, ""}
        return sorted(own)

    def _comment(self, text: str) -> None:
        before = self._call("squeue", "--noheader", f"--jobs={self.number}", "--format=%k")
        users = before.partition(OURS)[0].removesuffix(_BESIDE).strip()
        users = "" if users in ("(null)", "N/A") else users
        comment = _BESIDE.join(part for part in (users, f"{OURS}{_plain(text)}") if part)
        self._call("scontrol", "update", f"JobId={self.number}", f"Comment={comment}")

    def _call(self, *words: str) -> str:
        program = shutil.which(words[0], path=self.environment.get("PATH"))
        if program is None:
            raise JobError(f"{words[0]} is not on PATH: inside a container, bind Slurm's commands and munge's socket.")
        try:
            done = subprocess.run(
                (program, *words[1:]),
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=CALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise JobError(f"{words[0]} has not answered within {CALL_SECONDS:g} s.") from None
        except OSError as error:
            raise JobError(f"{words[0]} cannot be started: {error.strerror}.") from error
        if done.returncode:
            raise JobError(f"{words[0]} refused: {' '.join(done.stderr.split())[:MOST_TEXT]}")
        return done.stdout.strip()


def slurm_job(environ: Mapping[str, str]) -> SlurmJob | None:
    """Return the job of Slurm that a process belongs to; None for none."""
    env = SlurmEnvironment.read(environ)
    if not env.job_id.isdigit():
        return None
    is_array = env.array_job_id and env.array_index is not None
    job = ClusterJob(
        scheduler=SLURM,
        id=f"{env.array_job_id}_{env.array_index}" if is_array else env.job_id,
        name=env.job_name,
        node=env.nodes,
        user=env.user,
        array_index=env.array_index,
        restarts=env.restarts,
    )
    return SlurmJob(job, env.job_id, env.step_id, environ)


def _plain(text: str) -> str:
    """Return a text that `scontrol` takes as one value, and that a table of `squeue` can show."""
    return "".join(letter if letter.isprintable() and letter not in "\"'" else " " for letter in text)
