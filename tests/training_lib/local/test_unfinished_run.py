"""A folder that holds an earlier run of the same command: what goes on there, and what is refused."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training_lib.local.verdicts import issue, no_issue
from trackside.capture.writing.worker_lock import WorkerLock
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.run.cluster_job import NO_JOB, ClusterJob
from trackside.contracts.run_layout import END_MARKER_KEY, TENSORS, VERDICTS_KEY
from trackside.contracts.verdict import Outcome
from trackside.evaluation.results.progress import Delivery, Progress, ProgressFile, RuleProgress
from trackside.local.unfinished_run import MOST_LOOKS, place_for, place_of_job, reopen
from trackside.runs.run_folder import LOCK_FILE, RunRecord, RunState, read_record, run_state, write_record
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store

COMMAND = ("python", "train.py")


def earlier_run(folder: Path, record: RunRecord) -> Path:
    folder.mkdir()
    write_record(folder, record)
    open_store(f"{folder}/{TENSORS}").put(END_MARKER_KEY, b"")
    return folder


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(RunRecord(COMMAND, 1.0), id="trackside-run-was-killed"),
        pytest.param(RunRecord(COMMAND, 1.0, 2.0, status=1), id="failed"),
        pytest.param(RunRecord(COMMAND, 1.0, 2.0, status=-15), id="preempted"),
        pytest.param(RunRecord(COMMAND, 1.0, 2.0, status=-2), id="interrupted"),
    ],
)
def test_an_unfinished_run_of_the_same_command_goes_on(tmp_path: Path, record: RunRecord) -> None:
    folder = earlier_run(tmp_path / "r", record)
    place = place_for(folder, list(COMMAND))
    assert (place.folder, place.earlier) == (folder, record)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        pytest.param(RunRecord(("python", "other.py"), 1.0, 2.0, status=1), "of another command, `python other.py`",
                     id="another-command"),
        pytest.param(RunRecord(COMMAND, 1.0, 2.0, status=0), "has finished", id="finished"),
        pytest.param(RunRecord(COMMAND, 1.0, 2.0, status=-15, stopped_by_trackside=True), "Trackside stopped",
                     id="stopped"),
    ],
)  # fmt: skip
def test_another_run_is_refused_with_its_reason(tmp_path: Path, record: RunRecord, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        place_for(earlier_run(tmp_path / "r", record), COMMAND)


def test_a_stop_is_known_though_its_end_was_not_written(tmp_path: Path) -> None:
    """`trackside run` was killed between the SIGTERM and the end of the training, and is started again."""
    folder = earlier_run(tmp_path / "r", RunRecord(COMMAND, 1.0, stopped_by_trackside=True))
    assert run_state(folder) is RunState.STOPPED
    with pytest.raises(ConfigurationError, match="Trackside stopped"):
        place_for(folder, COMMAND)


JOB = ClusterJob("slurm", "12", restarts=1)
POD = ClusterJob("kubernetes", "team/Job/digits", uid="u")


@pytest.mark.parametrize(
    ("job", "records", "goes_on"),
    [
        pytest.param(JOB, [RunRecord(COMMAND, 1.0, job=replace(JOB, restarts=0))], True, id="requeued"),
        pytest.param(JOB, [RunRecord(COMMAND, 1.0, 2.0, status=-15, job=JOB)], True, id="requeued-after-its-end"),
        pytest.param(POD, [RunRecord(COMMAND, 1.0, job=POD)], True, id="next-pod-of-the-job"),
        pytest.param(replace(JOB, restarts=0), [RunRecord(COMMAND, 1.0, job=JOB)], False, id="not-requeued"),
        pytest.param(JOB, [RunRecord(COMMAND, 1.0, job=replace(JOB, id="13"))], False, id="another-job"),
        pytest.param(JOB, [RunRecord(COMMAND, 1.0, job=replace(JOB, array_index=3))], False, id="another-index"),
        pytest.param(POD, [RunRecord(COMMAND, 1.0, job=replace(POD, uid="v"))], False, id="a-later-job-of-the-name"),
        pytest.param(JOB, [RunRecord(("python", "other.py"), 1.0, job=JOB)], False, id="another-command"),
        pytest.param(JOB, [RunRecord(COMMAND, 1.0, 2.0, status=0, job=JOB)], False, id="finished"),
        pytest.param(JOB, [RunRecord(COMMAND, 1.0)], False, id="of-no-job"),
        pytest.param(NO_JOB, [RunRecord(COMMAND, 1.0)], False, id="no-job"),
        pytest.param(JOB, [RunRecord(COMMAND, 1.0, job=JOB)] * 2, False, id="nobody-knows-which-of-two"),
    ],
)
def test_the_run_of_a_job_that_is_started_again(
    tmp_path: Path, job: ClusterJob, records: list[RunRecord], goes_on: bool
) -> None:
    for number, record in enumerate(records):
        earlier_run(tmp_path / f"r{number}", record)
    found = place_of_job(job, COMMAND, tmp_path)
    assert (found is not None) is goes_on
    if found is not None:
        assert (found.folder, found.earlier) == (tmp_path / "r0", records[0])


def test_a_job_that_was_stopped_does_not_go_on(tmp_path: Path) -> None:
    earlier_run(tmp_path / "r", RunRecord(COMMAND, 1.0, 2.0, status=-15, stopped_by_trackside=True, job=JOB))
    with pytest.raises(ConfigurationError, match="Trackside stopped for an issue"):
        place_of_job(JOB, COMMAND, tmp_path)


@pytest.mark.parametrize(("looks", "goes_on"), [(3, True), (10**6, False)], ids=["it-ends", "it-lives-on"])
def test_a_part_that_is_still_ending_is_awaited(tmp_path: Path, looks: int, goes_on: bool) -> None:
    folder = earlier_run(tmp_path / "r", RunRecord(COMMAND, 1.0, job=JOB))
    waits: list[float] = []
    with (folder / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == looks:
                fcntl.flock(lock, fcntl.LOCK_UN)

        if goes_on:
            found = place_of_job(JOB, COMMAND, tmp_path, sleep=sleep)
            assert found is not None
        else:
            with pytest.raises(ConfigurationError, match="still running"):
                place_of_job(JOB, COMMAND, tmp_path, sleep=sleep)
    assert len(waits) == (looks if goes_on else MOST_LOOKS)


def test_a_run_that_lives_is_refused(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "r", RunRecord(COMMAND, 1.0))
    with (folder / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match="still running"):
            place_for(folder, COMMAND)
    assert place_for(folder, COMMAND).earlier is not None


def test_a_training_that_outlives_its_trackside_run_is_refused(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "r", RunRecord(COMMAND, 1.0))
    code = (
        "import sys; from trackside.capture.writing.worker_lock import WorkerLock\n"
        "from trackside.storage.local import LocalStore\n"
        "WorkerLock(LocalStore(sys.argv[1]), 'worker_0').take(); print('held', flush=True); sys.stdin.read()"
    )
    training = subprocess.Popen(
        [sys.executable, "-c", code, str(folder / TENSORS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert training.stdout is not None
        assert training.stdout.readline() == b"held\n"
        with pytest.raises(ConfigurationError, match="still running"):
            place_for(folder, COMMAND)
    finally:
        training.communicate()
    assert WorkerLock(LocalStore(str(folder / TENSORS)), "worker_0").is_held() is False
    assert place_for(folder, COMMAND).earlier is not None


def test_a_training_that_has_not_begun_yet_is_seen_by_its_variable(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "r", RunRecord(COMMAND, 1.0))
    variables = {"TRACKSIDE_RUN": str(folder.resolve())}
    waits = [sys.executable, "-I", "-S", "-c", "import sys; print('begun', flush=True); sys.stdin.read()"]
    training = subprocess.Popen(waits, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert training.stdout is not None
        assert training.stdout.readline() == b"begun\n"
        with pytest.raises(ConfigurationError, match=f"still runs .process {training.pid}"):
            place_for(folder, COMMAND)
        other = earlier_run(tmp_path / "other", RunRecord(COMMAND, 1.0))
        assert place_for(other, COMMAND).earlier is not None
    finally:
        training.communicate()
    assert place_for(folder, COMMAND).earlier is not None


def test_a_folder_without_a_run_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigurationError, match="is not empty"):
        place_for(tmp_path, COMMAND)


def test_reopening_takes_back_the_end_and_keeps_issues(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "r", RunRecord(COMMAND, 1.0, 2.0, status=1))
    output = open_store(f"{folder}/rule-output")
    crashed = no_issue("crashed", outcome=Outcome.NOT_EVALUATED)
    said = [issue(), no_issue("clean"), no_issue("short", outcome=Outcome.NOT_EVALUATED), crashed]
    output.put(VERDICTS_KEY, "".join(f"{verdict.to_json()}\n" for verdict in said).encode())
    rules = {verdict.configuration_name: RuleProgress(judged_through=15, has_concluded=True) for verdict in said}
    rules["crashed"].error = "ZeroDivisionError"
    ProgressFile(output).save(Progress(rules, [Delivery(verdict, ()) for verdict in said]))

    reopen(folder)
    reopen(folder)  # a kill in between is harmless

    progress = ProgressFile(output).load()
    assert [verdict.configuration_name for verdict in progress.verdicts] == ["vanishing-gradient", "crashed"]
    assert [name for name, rule in progress.rules.items() if rule.has_concluded] == ["crashed"]
    assert {rule.judged_through for rule in progress.rules.values()} == {15}
    assert output.get(VERDICTS_KEY).count(b"\n") == 2
    assert not open_store(f"{folder}/{TENSORS}").exists(END_MARKER_KEY)
    assert read_record(folder) is not None
