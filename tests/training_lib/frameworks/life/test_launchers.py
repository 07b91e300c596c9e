"""Zero script change, however a training is started; and nothing but the training itself is captured."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import trackside
from trackside.capture.writing.restart import write_state
from trackside.records.state_file import TrainingState
from trackside.storage.local import LocalStore


def assert_all_is_stored(run: Path, workers: int, steps: int) -> None:
    trial = trackside.open_trial(str(run))
    assert trial.workers == tuple(f"worker_{rank}" for rank in range(workers))
    assert trial.steps() == tuple(range(steps))
    assert trial.has_ended
    for worker in trial.workers:
        series = trial.tensor("CrossEntropyLoss_output_0", worker=worker)
        assert tuple(saved.step for saved in series) == tuple(range(steps))
    assert "gradient/Net_fc.weight" in trial.names
    assert not trial.lost_steps()
    statistics = {path.name for path in (run / "statistics").iterdir()}
    assert statistics == set(trial.workers)


def test_torchrun_below_trackside_run(trackside_run: Any, package: Path, steps: int) -> None:
    torchrun = ("python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    done = trackside_run(*torchrun, "-m", "pkg.train")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained") == 2
    assert not done.lines
    assert_all_is_stored(package / "run", 2, steps)


@pytest.mark.parametrize("workers", [1, 2])
def test_below_accelerate_launch(
    workers: int, trackside_run: Any, trainers_python: Path, package: Path, steps: int
) -> None:
    devices = "--cpu" if workers == 1 else "--multi_gpu"  # its way to several processes; the script uses no GPU
    launch = (
        "accelerate.commands.launch",
        devices,
        "--num_processes",
        str(workers),
        "--num_machines",
        "1",
        "--main_process_port",
        "0",
    )
    mixed = ("--mixed_precision", "no", "--dynamo_backend", "no", "--num_cpu_threads_per_process", "1")
    done = trackside_run(trainers_python, "-m", *launch, *mixed, "pkg/train.py", python=trainers_python)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained") == workers
    assert not done.lines
    assert_all_is_stored(package / "run", workers, steps)


def test_sagemaker_script_mode_needs_the_environment_only(start_script: Any, package: Path, steps: int) -> None:
    """The container starts the script itself; the job's `Environment` has what `capture_environment` says."""
    request = '{"collections": [{"name": "losses", "save_interval": 1}, {"name": "gradients", "save_interval": 1}]}'
    done = start_script(
        package / "pkg" / "train.py",
        TRACKSIDE_RUN="run", TRACKSIDE_CAPTURE_REQUEST=request, TRAINING_JOB_NAME="a-job", SM_MODEL_DIR="/opt/ml/model",
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.lines) == (0, "trained\n", []), done.stderr
    assert_all_is_stored(package / "run", 1, steps)


def test_ranks_that_were_killed_at_different_steps_go_on_from_the_same(
    start_ranks: Any, package: Path, steps: int
) -> None:
    """Each finds another state in the run; rank 0 tells all."""
    store = LocalStore(package / "run" / "debug-output")
    for worker, seen in (("worker_0", 5), ("worker_1", 8)):
        write_state(store, worker, TrainingState(1, seen, seen, {"TRAIN": seen}))
    ranks = start_ranks(
        package / "pkg" / "train.py",
        TRACKSIDE_RUN="run", TRACKSIDE_CAPTURE_REQUEST='{"collections": [{"name": "losses", "save_interval": 1}]}',
    )  # fmt: skip
    for done in ranks:
        assert done.returncode == 0, done.stderr
        assert not done.lines
    trial = trackside.open_trial(str(package / "run"))
    for worker in ("worker_0", "worker_1"):
        series = trial.tensor("CrossEntropyLoss_output_0", worker=worker)
        assert [saved.step for saved in series] == list(range(9, 9 + steps))


def test_a_command_that_trains_twice_is_captured_twice(trackside_run: Any, package: Path, steps: int) -> None:
    """A script with a loader that forks, then a module with one that spawns: every step of both is there."""
    done = trackside_run("sh", "-c", "python pkg/train.py fork && python -m pkg.train spawn")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained") == 2
    assert not done.lines
    assert_all_is_stored(package / "run", 1, 2 * steps)


AT_THE_SAME_TIME = """
import os, sys, time
from pkg.train import train

def wait_for(path, deadline=time.monotonic() + 600):
    while not os.path.exists(path):
        assert time.monotonic() < deadline, path
        time.sleep(0.02)

is_first = sys.argv[1] == "first"
if not is_first:
    wait_for("run/debug-output/state/worker_0.lock")
train("fork")
if is_first:
    wait_for("second-is-done")
else:
    open("second-is-done", "w").close()
"""


def test_of_two_trainings_at_the_same_time_one_is_captured(trackside_run: Any, package: Path, steps: int) -> None:
    """They would write the same files. The other one is told why, and trains as if we were not there."""
    (package / "both.py").write_text(AT_THE_SAME_TIME)
    done = trackside_run("sh", "-c", "python -m both first & python -m both second; wait")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained") == 2
    (said,) = [line for line in done.lines if "uncaptured" in line]
    assert re.fullmatch(
        r"trackside: process \d+ trains uncaptured: process \d+ already records this run; "
        r"a run holds one training, with all its ranks\.",
        said,
    )
    assert_all_is_stored(package / "run", 1, steps)
    left = {path.name for path in (package / "run" / "debug-output" / "state").iterdir()}
    assert left == {"worker_0.json"}


def test_a_worker_that_torchrun_starts_again_goes_on(trackside_run: Any, package: Path, steps: int) -> None:
    script = package / "pkg" / "train.py"
    fault = """
    import glob, time
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        while not glob.glob(os.environ["TRACKSIDE_RUN"] + "/debug-output/index/*/*.json"):
            time.sleep(0.01)
        os._exit(1)
"""
    script.write_text(script.read_text() + fault)
    torchrun = ("torchrun", "--standalone", "--nproc-per-node", "1", "--max-restarts", "1")
    done = trackside_run(*torchrun, "--monitor-interval", "0.1", script)
    assert done.returncode == 0, done.stderr
    saved = trackside.open_trial(str(package / "run")).steps()
    again = saved[-steps:]
    assert again == tuple(range(again[0], again[0] + steps)), "every step of the second worker"
    assert 0 < again[0] <= steps, "it goes on after the first one; what that had not stored at os._exit is lost"
