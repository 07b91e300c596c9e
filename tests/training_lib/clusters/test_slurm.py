"""A job of Slurm by commands that record their calls, and fail. A real Slurm: tests/journeys/test_slurm.py."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.training_lib.local.verdicts import issue
from trackside.clusters import slurm as slurm_module
from trackside.clusters.slurm import SlurmJob, slurm_job
from trackside.environment import inherited
from trackside.local.jobs.scheduler import JobError
from trackside.local.process_table import variables_of

VARIABLES = {
    "SLURM_JOB_ID": "12",
    "SLURM_JOB_NAME": "digits",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_NODELIST": "gpu[1-2]",
    "SLURMD_NODENAME": "gpu1",
}


@pytest.fixture
def commands(tmp_path: Path) -> Callable[..., SlurmJob]:
    """A job whose commands print a comment, and write their arguments into `calls`."""

    def make(
        *, comment: str = "(null)", code: int = 0, script: str = "", names: str = "scontrol squeue scancel"
    ) -> SlurmJob:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in names.split():
            file = folder / name
            body = script or f'[ "$0" = "{folder}/squeue" ] && echo "{comment}"'
            text = f"#!/bin/sh\nprintf '%s\\037' {name} \"$@\" >>{tmp_path}/calls; echo >>{tmp_path}/calls\n{body}\n"
            file.write_text(f"{text}[ {code} = 0 ] || echo 'no such job' >&2\nexit {code}\n", encoding="utf-8")
            file.chmod(0o755)
        job = slurm_job({**VARIABLES, "PATH": str(folder)})
        assert job is not None
        return job

    return make


def calls(tmp_path: Path) -> list[list[str]]:
    file = tmp_path / "calls"
    return [line.split("\x1f")[:-1] for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        pytest.param({}, ("12", None, 0, "gpu[1-2]"), id="batch"),
        pytest.param({"SLURM_RESTART_COUNT": "2"}, ("12", None, 2, "gpu[1-2]"), id="requeued"),
        pytest.param(
            {"SLURM_ARRAY_JOB_ID": "10", "SLURM_ARRAY_TASK_ID": "7"}, ("10_7", 7, 0, "gpu[1-2]"), id="in-an-array"
        ),
        pytest.param({"SLURM_JOB_NODELIST": ""}, ("12", None, 0, "gpu1"), id="without-a-list-of-nodes"),
    ],
)
def test_its_facts(changes: dict[str, str], facts: tuple[str, int | None, int, str]) -> None:
    found = slurm_job({**VARIABLES, **changes})
    assert found is not None
    job = found.job
    assert (job.scheduler, job.name, job.user) == ("slurm", "digits", "ada")
    assert (job.id, job.array_index, job.restarts, job.node) == facts


@pytest.mark.parametrize("number", ["", "none", "12; scancel 13", "-1"])
def test_without_a_number_there_is_no_job(number: str) -> None:
    assert slurm_job({**VARIABLES, "SLURM_JOB_ID": number}) is None


@pytest.mark.parametrize(
    ("before", "users"),
    [
        pytest.param("(null)", "", id="none"),
        pytest.param("", "", id="empty"),
        pytest.param("ours to pay", "ours to pay | ", id="of-the-user"),
        pytest.param("ours to pay | trackside: an earlier verdict", "ours to pay | ", id="of-the-user-and-ours"),
        pytest.param("trackside: an earlier verdict", "", id="ours"),
    ],
)
def test_a_verdict_stands_behind_the_users_comment(
    commands: Callable[..., SlurmJob], tmp_path: Path, before: str, users: str
) -> None:
    commands(comment=before).report(issue("exploding-tensor", message='it\'s "NaN"\nnow'), tmp_path)
    assert calls(tmp_path)[-1] == [
        "scontrol",
        "update",
        "JobId=12",
        f"Comment={users}trackside: critical exploding-tensor since step 4: it s  NaN  now",
    ]


def test_a_stop_takes_away_requeueing_first(commands: Callable[..., SlurmJob], tmp_path: Path) -> None:
    job = commands()
    job.withhold("exploding-tensor is critical.")
    job.end("exploding-tensor is critical.")
    assert calls(tmp_path)[0] == ["scontrol", "update", "JobId=12", "Requeue=0"]
    assert "scancel" not in {call[0] for call in calls(tmp_path)}


@pytest.mark.parametrize(
    ("own_step", "variables", "signalled"),
    [
        pytest.param("", {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"}, ["12.0"], id="a-step-below-us"),
        pytest.param("0", {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"}, [], id="our-own-step"),
        pytest.param("", {"SLURM_JOB_ID": "13", "SLURM_STEP_ID": "0"}, [], id="another-job"),
        pytest.param("", {"SLURM_JOB_ID": "12"}, [], id="no-step"),
    ],
)
def test_only_steps_of_the_training_are_signalled(
    commands: Callable[..., SlurmJob], tmp_path: Path, own_step: str, variables: dict[str, str], signalled: list[str]
) -> None:
    job = commands()
    job = SlurmJob(job.job, job.number, own_step, job.environment)
    kept = {name: text for name, text in inherited().items() if not name.startswith("SLURM_")}
    task = subprocess.Popen([sys.executable, "-c", "input()"], env={**kept, **variables}, stdin=subprocess.PIPE)
    try:
        wait_until(lambda: variables_of(task.pid).get("SLURM_JOB_ID") == variables["SLURM_JOB_ID"])
        assert job.signal_tasks("TERM", [task.pid, 2**22 + 1]) is bool(signalled)
    finally:
        task.communicate(b"\n")
    assert calls(tmp_path) == [["scancel", "--signal=TERM", step] for step in signalled]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        pytest.param({"code": 1}, "squeue refused: no such job", id="refused"),
        pytest.param({"names": "scontrol"}, "squeue is not on PATH", id="not-there"),
        pytest.param({"script": "exec /bin/sleep 3600"}, "squeue has not answered within", id="hangs"),
        pytest.param({"script": "printf '\\377\\376'; exit 3"}, "squeue refused", id="no-text"),
    ],
)
def test_what_fails_is_a_sentence(
    commands: Callable[..., SlurmJob],
    tmp_path: Path,
    how: dict[str, object],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm_module, "CALL_SECONDS", 0.5 if "sleep" in str(how) else 60.0)
    with pytest.raises(JobError, match=why):
        commands(**how).report(issue(), tmp_path)
