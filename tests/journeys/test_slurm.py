"""Trainings in jobs of a real Slurm: an issue fails the job, a preempted job goes on, signals arrive once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.slurm_cluster import Cluster, cluster_in, why_there_is_none
from tests.patience import wait_until
from trackside.contracts.run.cluster_job import SLURM
from trackside.runs.run_folder import RunState, local_runs, read_record, run_state

pytestmark = [pytest.mark.skipif(bool(why_there_is_none()), reason=why_there_is_none()), pytest.mark.slow]

RUN = f"{sys.executable} -m trackside run --only exploding-tensor --sample-interval 0"
STOPPED = f"{RUN} --on-issue stop --cluster-job stop"

# Trains on whole numbers, and writes its checkpoint after each step and on SIGTERM; `bad`: the loss becomes NaN.
TRAINING = """
import os, signal, sys, time, torch
how = sys.argv[1] if len(sys.argv) > 1 else "bad"
def end(number, frame):
    open("terminated", "a").write(f"{number}\\n")
    sys.exit(7)
if how != "good":
    signal.signal(signal.SIGTERM, end)
def note(number, frame):
    open("noted", "a").write(f"{number}\\n")
signal.signal(signal.SIGUSR1, note)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 4); y = x.sum(1, keepdim=True)
first = int(open("checkpoint").read()) if os.path.exists("checkpoint") else 0
open("started", "a").write(f"{first}\\n")
for step in range(first, 20):
    loss = torch.nn.functional.mse_loss(model(x), y)
    if how == "bad" and step >= 5:
        loss = loss * float("nan")
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    open("checkpoint.part", "w").write(str(step + 1)); os.replace("checkpoint.part", "checkpoint")
    while how == "preempted" and step == 9 and first == 0:
        time.sleep(0.1)
while how == "bad" or how == "waits" and not os.path.exists("noted"):
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_in(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    return tmp_path


def submitted(slurm: Cluster, work: Path, script: str, *options: str) -> str:
    return slurm.submit(f"#!/bin/bash\n{script}\n", *options, folder=work)


def restarted(slurm: Cluster, job: str) -> None:
    """Wait until a job is requeued, and start it without the two minutes that Slurm waits.

    Not within the second of its end: slurmd refuses the credential of such a start as one of the job that ended.
    """
    wait_until(lambda: (found := slurm.job(job))["Restarts"] == "1" and found["JobState"] == "PENDING", "a requeueing")
    slurm.call("scontrol", "update", f"JobId={job}", "StartTime=now+2seconds")


def only_run(work: Path) -> Path:
    (folder,) = local_runs(work / ".trackside" / "runs")
    return folder


def output(work: Path, job: str) -> str:
    return (work / f"slurm-{job}.out").read_text(errors="replace")


def comment_of(slurm: Cluster, job: str) -> str:
    return slurm.call("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%k")


def test_an_issue_fails_the_job_and_nothing_requeues_it(slurm: Cluster, work: Path) -> None:
    """Also not the usual last line of a script, which requeues a job whose training failed."""
    script = f"{STOPPED} -- {sys.executable} train.py bad || scontrol requeue $SLURM_JOB_ID 2>refused; exit 1"
    job = submitted(slurm, work, script, "--comment=ours to pay", "--job-name=digits")
    ended = slurm.wait_for(job, "FAILED", "COMPLETED", "CANCELLED")
    assert (ended["JobState"], ended["ExitCode"], ended["Restarts"], ended["Requeue"]) == ("FAILED", "1:0", "0", "0")
    assert "disabled" in (work / "refused").read_text()
    comment = comment_of(slurm, job)
    assert comment.startswith("ours to pay | trackside: stopped: critical exploding-tensor since step")
    record = read_record(only_run(work))
    assert record is not None
    assert (record.stopped_by_trackside, record.job.scheduler, record.job.id) == (True, SLURM, job)
    assert (record.job.name, record.job.user, record.job.restarts) == ("digits", "root", 0)
    assert record.job.node == ended["NodeList"]
    listed = subprocess.run(
        [sys.executable, "-m", "trackside", "runs", "--format", "json"], cwd=work, capture_output=True, check=True
    )
    (row,) = json.loads(listed.stdout)["runs"]
    assert (row["scheduler"], row["job"], row["user"]) == (SLURM, job, "root")


def test_a_training_without_an_issue_leaves_its_job_alone(slurm: Cluster, work: Path) -> None:
    job = submitted(slurm, work, f"{STOPPED} -- {sys.executable} train.py good", "--comment=ours", "--array=3")
    ended = slurm.wait_for(f"{job}_3", "FAILED", "COMPLETED")
    assert (ended["JobState"], ended["Requeue"], comment_of(slurm, job)) == ("COMPLETED", "1", "ours")
    record = read_record(only_run(work))
    assert record is not None
    assert (record.job.id, record.job.array_index) == (f"{job}_3", 3)


def test_without_leave_an_issue_changes_nothing_of_the_job(slurm: Cluster, work: Path) -> None:
    job = submitted(slurm, work, f"{RUN} --on-issue stop -- {sys.executable} train.py bad", "--comment=ours")
    ended = slurm.wait_for(job, "FAILED", "COMPLETED")
    assert (ended["JobState"], ended["Requeue"], comment_of(slurm, job)) == ("FAILED", "1", "ours")


def test_the_tasks_of_srun_have_the_grace_to_write_a_checkpoint(slurm: Cluster, work: Path) -> None:
    """A SIGTERM to `srun` itself kills its tasks at once."""
    job = submitted(slurm, work, f"{STOPPED} -- srun {sys.executable} train.py bad")
    assert slurm.wait_for(job, "FAILED", "COMPLETED")["JobState"] == "FAILED"
    assert (work / "terminated").read_text() == "15\n"


def test_a_step_that_runs_us_ends_as_the_training_does(slurm: Cluster, work: Path) -> None:
    job = submitted(slurm, work, f"srun {STOPPED} -- {sys.executable} train.py bad")
    assert slurm.wait_for(job, "FAILED", "COMPLETED")["ExitCode"] == "1:0"
    assert (work / "terminated").read_text() == "15\n"


def test_the_script_of_the_example(slurm: Cluster, work: Path) -> None:
    script = (Path(__file__).parents[2] / "examples" / "slurm" / "train.sbatch").read_text(encoding="utf-8")
    path = f"--export=ALL,PATH={Path(sys.executable).parent}:/usr/bin:/bin,TRACKSIDE_ONLY=exploding-tensor"
    ended = slurm.wait_for(slurm.submit(script, path, folder=work), "FAILED", "COMPLETED")
    assert (ended["JobName"], ended["ExitCode"], ended["Requeue"]) == ("digits", "1:0", "0")
    assert (work / "terminated").read_text() == "15\n"


def test_a_stopped_job_that_is_requeued_all_the_same_does_not_train(slurm: Cluster, work: Path) -> None:
    """By `RequeueExit` in slurm.conf, which asks for no right to requeue."""
    script = (
        f"{STOPPED} -- {sys.executable} train.py bad; code=$?; echo $code >>codes\n"
        "[ ${SLURM_RESTART_COUNT:-0} = 0 ] && exit 99; exit $code"
    )
    job = submitted(slurm, work, script)
    restarted(slurm, job)
    codes = work / "codes"
    wait_until(lambda: codes.exists() and len(codes.read_text().split()) == 2, "the end of the second start")
    slurm.wait_for(job, "FAILED", "COMPLETED")
    assert codes.read_text().split() == ["1", "2"]
    assert (work / "started").read_text() == "0\n"
    assert "that Trackside stopped for an issue" in output(work, job)
    assert run_state(only_run(work)) is RunState.STOPPED


def test_a_preempted_job_goes_on_as_the_same_run(slurm: Cluster, work: Path, tmp_path: Path) -> None:
    job = submitted(slurm, work, f"{STOPPED} -- {sys.executable} train.py preempted", "--open-mode=append")
    wait_until(lambda: (work / "checkpoint").exists() and (work / "checkpoint").read_text() == "10", "step 9")
    other = tmp_path / "other"
    other.mkdir()
    urgent = submitted(slurm, other, "true", "--partition=high")
    slurm.wait_for(urgent, "COMPLETED")
    restarted(slurm, job)
    assert slurm.wait_for(job, "FAILED", "COMPLETED")["JobState"] == "COMPLETED"
    assert (work / "started").read_text() == "0\n10\n"
    record = read_record(only_run(work))
    assert record is not None
    assert (record.status, record.job.id, record.job.restarts) == (0, job, 1)
    assert "goes on with the unfinished run" in output(work, job)
    assert "restart 1/3" not in output(work, job)  # the signals of the preemption were not for the evaluator


@pytest.mark.parametrize(
    ("script", "signal_option"),
    [
        pytest.param("srun {run}", "--signal=USR1@55", id="to-the-step"),
        pytest.param("{run} &\ntrap 'kill -USR1 $!' USR1; wait; wait", "--signal=B:USR1@55", id="to-the-script"),
    ],
)
def test_a_signal_before_the_time_limit_arrives_once(
    slurm: Cluster, work: Path, script: str, signal_option: str
) -> None:
    run = f"{STOPPED} -v -- {sys.executable} train.py waits"
    job = submitted(slurm, work, script.format(run=run), "--time=1", signal_option)
    assert slurm.wait_for(job, "FAILED", "COMPLETED", "TIMEOUT")["JobState"] == "COMPLETED", output(work, job)
    assert (work / "noted").read_text() == "10\n"
    assert "restart 1/3" not in output(work, job)
