"""Speed of plain training loops that know nothing of Trackside: measured, judged, and the slow line named."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.training_lib.speed.pytorch import scripts
from tests.warm_python import WarmPython
from trackside.contracts.capture_request import CaptureRequest, capture_environment
from trackside.environment import inherited
from trackside.speed.performance.measured import Measured
from trackside.speed.performance.profile import open_profile
from trackside.speed.performance.reading import measured_workers
from trackside.speed.performance.verdict import judge_speed
from trackside.speed.rules.data_starvation import DataStarvation
from trackside.speed.rules.dataloader import Dataloader
from trackside.speed.rules.hang import Hang
from trackside.speed.rules.max_initialization_time import MaxInitializationTime
from trackside.speed.rules.step_outlier import StepOutlier
from trackside.speed.rules.straggler_rank import StragglerRank
from trackside.trial.trial import open_trial
from trackside.trial.window import Window

STEPS = 40
LOOPS: Mapping[str, str] = {
    "collate": scripts.COLLATE,
    "by_hand": scripts.BY_HAND,
    "iterable": scripts.ITERABLE,
    "no_loader": scripts.NO_LOADER,
    "generator": scripts.GENERATOR,
    "ahead": scripts.READ_AHEAD,
    "thread_queue": scripts.QUEUE,
    "simple_queue": scripts.SIMPLE_QUEUE,
    "quick_queue": scripts.QUICK_QUEUE,
    "quick_simple_queue": scripts.QUICK_SIMPLE_QUEUE,
    "no_batches": scripts.NO_BATCHES,
    "process_queue": scripts.PROCESS_QUEUE,
    "slow_step": scripts.SLOW_STEP,
    "sleep": scripts.SLEEP,
    "evaluation": scripts.SLOW_EVALUATION,
    "pauses": scripts.PAUSES,
    "compute": scripts.COMPUTE,
}


LONG_WAIT = 8.0  # milliseconds: more than a batch needs on a busy machine, and less than the planted ones
WAITING = {"data-starvation", "dataloader"}
QUEUES = ["thread_queue", "simple_queue", "quick_queue", "quick_simple_queue", "no_batches", "process_queue"]
WITHOUT_WAITS = {"no_loader", "slow_step", "quick_simple_queue", "no_batches"}


@pytest.fixture(scope="module")
def runs(folder: Path) -> Mapping[str, Measured]:
    """The measurements of each loop."""
    return {name: measured_workers(str(folder / name))["worker_0"] for name in LOOPS}


@pytest.fixture(scope="module")
def folder(warm_python: WarmPython, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a run of each loop. Those that mostly sleep run at once, and the one that computes after them."""
    folder = tmp_path_factory.mktemp("loops")
    with ExitStack() as stack:
        others = [name for name in LOOPS if name != "compute" and name not in QUEUES]
        for together in (others, QUEUES, ["compute"]):
            started = {}
            for name in together:
                script = folder / f"{name}.py"
                width = 1 << 17 if name == "compute" else 64
                script.write_text(scripts.HEAD.format(steps=STEPS, width=width) + LOOPS[name].format(steps=STEPS))
                environment = {**inherited(), **capture_environment(str(folder / name), CaptureRequest(()))}
                started[name] = stack.enter_context(warm_python.start_captured(script, env=environment))
            for name, process in started.items():
                done = process.finish()
                assert done.returncode == 0, (name, done.stderr)
    return folder


@pytest.mark.parametrize(
    ("name", "bottleneck", "place", "code"),
    [
        pytest.param("collate", "input-bound", "collate.py:18 in slow_collate", "time.sleep(0.03)", id="collate"),
        pytest.param("by_hand", "input-bound", "by_hand.py:21 in __getitem__", "time.sleep(0.004)", id="by-hand"),
        pytest.param("iterable", "input-bound", "iterable.py:20 in __iter__", "time.sleep(0.004)", id="an-iterable"),
        pytest.param("no_loader", "host-bound", "no_loader.py:18 in read_batch", "time.sleep(0.03)", id="no-loader"),
        pytest.param("generator", "input-bound", "generator.py:19 in batches", "time.sleep(0.03)", id="a-generator"),
        pytest.param("ahead", "input-bound", "ahead.py:22 in read", "time.sleep(0.03)", id="a-thread-that-reads"),
        pytest.param("thread_queue", "input-bound", "thread_queue.py:22 in read", "time.sleep(0.05)", id="a-queue"),
        pytest.param(
            "simple_queue", "input-bound", "simple_queue.py:26 in <module>", "batch = ready.get()", id="a-simple-queue"
        ),
        pytest.param(
            "process_queue", "input-bound", "process_queue.py:26 in <module>", "batch = ready.get()", id="a-process"
        ),
        pytest.param(
            "no_batches", "host-bound", "no_batches.py:26 in <module>", "batch = ready.get()", id="a-queue-of-numbers"
        ),
        pytest.param("slow_step", "host-bound", "slow_step.py:21 in wait", "time.sleep(0.03)", id="a-quick-generator"),
        pytest.param("sleep", "host-bound", "sleep.py:19 in <module>", "time.sleep(0.03)", id="a-sleep-in-the-step"),
    ],
)  # fmt: skip
def test_names_the_bottleneck_and_the_line(
    runs: Mapping[str, Measured], name: str, bottleneck: str, place: str, code: str
) -> None:
    verdict = judge_speed(runs[name])
    assert verdict.bottleneck.value == bottleneck
    first = verdict.causes[0].lines[0]
    assert (f"{first.place} in {first.function}", first.code) == (place, code)
    assert verdict.causes[0].share > 0.4
    assert verdict.can_win_back.startswith(bottleneck) or verdict.causes[0].seconds < 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("collate", WAITING, id="collate"),
        pytest.param("by_hand", WAITING, id="by-hand"),
        pytest.param("iterable", WAITING, id="an-iterable"),
        pytest.param("no_loader", set(), id="no-loader"),
        pytest.param("generator", {"data-starvation"}, id="a-generator"),
        pytest.param("ahead", {"data-starvation"}, id="a-thread-that-reads"),
        pytest.param("thread_queue", {"data-starvation"}, id="a-queue"),
        pytest.param("simple_queue", {"data-starvation"}, id="a-simple-queue"),
        pytest.param("process_queue", {"data-starvation"}, id="a-queue-of-a-process"),
        pytest.param("quick_queue", set(), id="a-full-queue"),
        pytest.param("quick_simple_queue", set(), id="a-full-simple-queue"),
        pytest.param("no_batches", set(), id="a-queue-of-numbers"),
        pytest.param("slow_step", set(), id="a-quick-generator"),
        pytest.param("sleep", set(), id="a-sleep-in-the-step"),
        pytest.param("evaluation", set(), id="the-evaluation-waits-and-the-training-does-not"),
        pytest.param("compute", set(), id="a-loop-that-computes"),
    ],
)
def test_rules_find_the_waits_and_nothing_else(folder: Path, name: str, expected: set[str]) -> None:
    waits = (DataStarvation(steps=20, milliseconds=LONG_WAIT, samples=50), Dataloader(milliseconds=LONG_WAIT))
    rules = (*waits, StragglerRank(steps=20), MaxInitializationTime(), Hang())
    window = last_window(folder / name)
    found = {rule.rule_id: finding for rule in rules for finding in rule.check(window)}
    assert found.keys() == expected
    if expected:
        assert found["data-starvation"].place.startswith(f"{name}.py:")


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        pytest.param("thread_queue", 0, 1, id="empty"),
        pytest.param("process_queue", 0, 1, id="empty-of-a-process"),
        pytest.param("quick_queue", 10, STEPS, id="full"),
    ],
)
def test_batches_of_a_queue_are_counted(runs: Mapping[str, Measured], name: str, least: float, most: float) -> None:
    facts = runs[name].facts
    assert facts is not None
    (queue,) = facts.queues
    assert queue.taken_at.startswith(f"{name}.py:26")
    assert STEPS - 3 <= queue.takes < STEPS
    assert least <= queue.ready <= most
    assert bool(queue.makes) == (name == "thread_queue")  # all quick ones were made before the first was taken
    assert (queue.make_seconds >= 0.05) == (name == "thread_queue")
    assert "ready when one was taken" in str(judge_speed(runs[name]).notes)


def test_a_rule_finds_the_pauses(folder: Path) -> None:
    (finding,) = StepOutlier(n_outliers=1).check(last_window(folder / "pauses"))
    assert finding.statistics["slowest_seconds"] > 0.9
    assert finding.statistics["lost_percent"] > 5


def last_window(run: Path) -> Window:
    trial = open_trial(str(run))
    return replace(trial.window(trial.recorded_through, now=time.time()), is_last=True)


def test_describes_the_loader_from_the_live_object(runs: Mapping[str, Measured]) -> None:
    (cause,) = (cause for cause in judge_speed(runs["collate"]).causes if cause.kind == "input-bound")
    assert cause.where == (
        "DataLoader of TensorDataset at collate.py:20: num_workers=0, batch_size=8, collate_fn=slow_collate"
    )
    assert cause.change.startswith("num_workers=")
    (cause,) = (cause for cause in judge_speed(runs["iterable"]).causes if cause.kind == "input-bound")
    assert "get_worker_info" in cause.change


@pytest.mark.parametrize("name", LOOPS)
def test_phases_and_rest_are_the_whole_step(runs: Mapping[str, Measured], name: str) -> None:
    run = runs[name]
    expected = {"backward", "optimizer", "capture", *(["data"] if name not in WITHOUT_WAITS else [])}
    if name in WITHOUT_WAITS and "data" in run.phases:
        expected.add("data")  # a sample may have met the generator, quick as it is
    assert expected <= run.phases.keys() <= expected | {"evaluation", "forward"}
    assert ("evaluation" in run.phases) is (name == "evaluation")
    assert STEPS - 6 < run.steps < STEPS, "without the first ones"
    timed = sum(run.of(phase) for phase in {*expected, "forward"} - {"capture"}) + run.rest_seconds
    assert timed == pytest.approx(run.training_seconds, rel=0.02)


def test_the_start_of_workers_is_a_wait_for_data(warm_python: WarmPython, tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(scripts.HEAD.format(steps=STEPS, width=64) + scripts.WORKERS)
    environment = {**inherited(), **capture_environment(str(tmp_path / "run"), CaptureRequest(()))}
    with warm_python.start_captured(script, env=environment) as process:
        assert process.finish().returncode == 0
    (steps,) = open_profile(str(tmp_path / "run")).steps()
    waits = np.nansum(steps.phases["data"][3:])  # by the clock: a verdict leaves out what workers had no processor for
    assert waits > 3 * 2 * 0.15, "that of the first epoch is before the first step"
    run = measured_workers(str(tmp_path / "run"))["worker_0"]
    assert run.facts is not None
    (loader,) = run.facts.loaders
    assert (loader.workers, loader.batch_bytes) == (2, 32 * 64 * 4 + 32 * 8)


def test_an_evaluation_is_not_the_training_s_wait(runs: Mapping[str, Measured]) -> None:
    run = runs["evaluation"]
    assert run.of("evaluation") > 4 * 4 * 0.03 * 0.8, "its fetches are part of it"
    assert run.of("data") < run.of("evaluation") / 4
    assert not [cause for cause in judge_speed(run).causes if "slow_collate" in f"{cause.where} {cause.lines}"]


def test_a_loop_that_computes_is_not_blamed(runs: Mapping[str, Measured]) -> None:
    verdict = judge_speed(runs["compute"])
    assert runs["compute"].of("forward") > runs["compute"].of("optimizer"), "read from the samples of the stack"
    assert verdict.bottleneck.value in {"compute-bound", "balanced"}, verdict  # on a busy machine few samples come
    assert verdict.can_win_back == ""
