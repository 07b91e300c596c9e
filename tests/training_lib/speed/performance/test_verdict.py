"""Verdicts on speed, from measurements in tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trackside.records.machine.performance_facts import (
    UNKNOWN_COUNT,
    CollectiveFacts,
    GarbageFacts,
    LineSamples,
    LoaderFacts,
    PerformanceFacts,
    QueueFacts,
)
from trackside.speed.performance.measured import (
    Machine,
    Measured,
    PhaseSeconds,
    with_gradient_waits,
    with_own_seconds,
    with_sampled_phases,
)
from trackside.speed.performance.verdict import PerformanceVerdict, judge_speed, judged_workers

STEPS = 100
LOADER = LoaderFacts(
    looped_at="train.py:40", created_at="train.py:31", dataset="Images", dataset_at="data.py:7", collate="pad",
    collate_at="data.py:20", workers=0, batch_size=32, prefetch_factor=0, is_pinned=False, is_iterable=False,
)  # fmt: skip
MACHINE = Machine(cpu_percent=60.0, training_cpu_percent=200.0, memory_percent=40.0, samples=100)


def line(phase: str, place: str, code: str, samples: int, **others: bool) -> LineSamples:
    return LineSamples(phase, place, "work", code, "", others.get("is_in_model", False), samples)


def measured(
    *lines: LineSamples,
    loader: LoaderFacts | None = LOADER,
    device: str = "cpu",
    machine: Machine = MACHINE,
    rest: float = 0.0,
    steps: int = STEPS,
    **milliseconds: float,
) -> Measured:
    """Measurements of a run with these milliseconds a step."""
    phases = {name: PhaseSeconds(ms * steps / 1000, steps) for name, ms in milliseconds.items()}
    facts = PerformanceFacts(
        device=device, workers=1, processors=4, threads=4, loaders=(loader,) if loader else (), lines=lines
    )
    total = (sum(milliseconds.values()) + rest) * steps / 1000
    return Measured(steps=steps, seconds=total, phases=phases, facts=facts, machine=machine, captured_steps=steps)


def workers(count: int, waited_share: float) -> LoaderFacts:
    """A DataLoader whose workers were kept waiting for a processor."""
    return replace(LOADER, workers=count, fetch_waited_share=waited_share)


COMPUTE: dict[str, Any] = {"forward": 3.0, "backward": 5.0, "optimizer": 1.0, "capture": 0.1}
SLOW_COLLATE = line("data", "data.py:22", "time.sleep(0.05)", 90)
SLEEP = line("other", "train.py:44", "time.sleep(0.01)", 90)


@pytest.mark.parametrize(
    ("run", "bottleneck"),
    [
        pytest.param(measured(SLOW_COLLATE, data=50, **COMPUTE), "input-bound", id="a-slow-collate"),
        pytest.param(measured(loader=None, data=50, **COMPUTE), "input-bound", id="a-loader-that-is-not-known"),
        pytest.param(measured(SLEEP, data=0.3, rest=10, **COMPUTE), "host-bound", id="a-sleep"),
        pytest.param(
            measured(line("other", "t.py:9", "x = x.to(device)", 90), device="cuda", rest=10,
                     machine=replace(MACHINE, gpu_percent=30.0), data=0.3, **COMPUTE),
            "copy-bound", id="a-copy-to-the-gpu",
        ),
        pytest.param(measured(SLOW_COLLATE, data=1.3, **COMPUTE), "compute-bound", id="a-wait-of-13-percent"),
        pytest.param(measured(data=0.3, **COMPUTE), "compute-bound", id="all-in-forward-and-backward"),
        pytest.param(
            measured(data=0.3, rest=9, device="xla", machine=replace(MACHINE, gpu_percent=89.4), **COMPUTE),
            "compute-bound", id="busy-neuron-cores",
        ),
        pytest.param(
            measured(data=0.3, rest=9, device="rocm", machine=replace(MACHINE, gpu_percent=95.0), **COMPUTE),
            "compute-bound", id="a-busy-gpu-of-amd",
        ),
        pytest.param(
            measured(line("other", "t.py:9", "y = model(x)", 90, is_in_model=True), data=0.3, rest=0.4, **COMPUTE),
            "compute-bound", id="samples-in-the-model-are-no-rest",
        ),
        pytest.param(
            measured(line("other", "t.py:9", "loss.item()", 90), device="cuda", data=0.3, rest=10,
                     machine=replace(MACHINE, gpu_percent=97.0), **COMPUTE),
            "compute-bound", id="a-wait-for-a-gpu-that-is-busy",
        ),
        pytest.param(
            measured(device="cuda", data=0.3, machine=replace(MACHINE, gpu_percent=12.0), **COMPUTE),
            "host-bound", id="an-idle-gpu",
        ),
        pytest.param(
            measured(line("data", "t.py:1", "x", 25), line("other", "t.py:2", "y", 1), data=0.9, rest=8, **COMPUTE),
            "host-bound", id="the-only-line-of-the-rest",
        ),
        pytest.param(measured(data=0.3, rest=20, **COMPUTE), "incomplete", id="a-rest-without-samples"),
        pytest.param(measured(device="cuda", data=0.3, **COMPUTE), "incomplete", id="a-gpu-that-was-not-measured"),
        pytest.param(measured(device="rocm", data=0.3, **COMPUTE), "incomplete", id="amd"),
        pytest.param(measured(SLOW_COLLATE, device="xla", data=50, **COMPUTE), "incomplete", id="trainium"),
        pytest.param(
            measured(SLOW_COLLATE, device="xla", data=50, machine=replace(MACHINE, gpu_percent=30.0), **COMPUTE),
            "incomplete", id="trainium-in-little-use",
        ),
        pytest.param(measured(steps=4, data=50, **COMPUTE), "incomplete", id="four-steps"),
        pytest.param(Measured(captured_steps=500), "incomplete", id="no-times"),
        pytest.param(Measured(), "incomplete", id="nothing"),
        pytest.param(
            measured(*[line("other", f"t.py:{n}", "x", 9) for n in range(11)], data=0.4, rest=1.8, forward=2),
            "host-bound", id="many-lines-of-little",
        ),
        pytest.param(
            measured(line("inside", "", "", 90), loader=None, rest=20, optimizer=0.1), "incomplete",
            id="a-function-that-fetches-or-computes",
        ),
        pytest.param(
            measured(line("fetch", "t.py:9", "sleep()", 60), line("other", "", "", 40, is_in_model=True), loader=None,
                     data=12, forward=8), "input-bound", id="a-function-that-waits-in-its-graph",
        ),
        pytest.param(
            measured(line("other", "", "", 90, is_in_model=True), line("fetch", "", "", 5), loader=None, data=1,
                     forward=18), "compute-bound", id="a-function-that-computes",
        ),
        pytest.param(measured(data=0.15, forward=0.7, rest=0.15, evaluation=9.0, capture=0.3), "balanced", id="none"),
        pytest.param(measured(data=0.15, forward=0.9, evaluation=9.0), "compute-bound", id="an-evaluation-is-no-rest"),
    ],
)  # fmt: skip
def test_names_the_bottleneck(run: Measured, bottleneck: str) -> None:
    assert judge_speed(run).bottleneck.value == bottleneck


@pytest.mark.parametrize(
    ("loader", "wait", "change", "step_after"),
    [
        pytest.param(LOADER, 9.0, "num_workers=1", 0.009, id="one-worker-keeps-up"),
        pytest.param(LOADER, 20.0, "num_workers=3", 0.009, id="three-keep-up"),
        pytest.param(LOADER, 91.0, "num_workers=4", 0.02275, id="not-more-than-processors"),
        pytest.param(
            replace(LOADER, is_iterable=True), 9.0,
            "num_workers=1; each worker must take its own part: torch.utils.data.get_worker_info()", 0.009,
            id="an-iterable",
        ),
        pytest.param(replace(LOADER, workers=1), 9.0, "num_workers=2", 0.009, id="one-worker-is-too-few"),
        pytest.param(
            replace(LOADER, workers=4), 91.0, "make the work of a worker cheaper: data.py:20 and data.py:7", 0.009,
            id="as-many-as-processors",
        ),
    ],
)  # fmt: skip
def test_predicts_the_gain_of_workers(loader: LoaderFacts, wait: float, change: str, step_after: float) -> None:
    (cause,) = judge_speed(measured(loader=loader, data=wait, **COMPUTE)).causes
    assert cause.change == change
    assert cause.step_seconds_after == pytest.approx(step_after)
    assert cause.seconds == pytest.approx(STEPS * (0.009 + wait / 1000 - step_after))
    assert "at train.py:31: num_workers=" in cause.where


def test_ranks_causes_by_the_seconds_that_can_be_won() -> None:
    verdict = judge_speed(measured(SLOW_COLLATE, SLEEP, data=8, rest=20, **COMPUTE))
    assert [cause.kind for cause in verdict.causes] == ["host-bound", "input-bound"]
    assert verdict.can_win_back.startswith("host-bound: 54 % of the step is a sleep; up to 2 s of 4 s")


def test_names_the_line_with_its_code() -> None:
    (cause,) = judge_speed(measured(SLOW_COLLATE, data=50, **COMPUTE)).causes
    assert [(one.place, one.code, one.share) for one in cause.lines] == [("data.py:22", "time.sleep(0.05)", 1.0)]


@pytest.mark.parametrize(
    ("code", "device", "said"),
    [
        pytest.param("time.sleep(1)", "cpu", "a sleep", id="sleep"),
        pytest.param("total += loss.item()", "cuda", "a wait for the device", id="item"),
        pytest.param("total += loss.item()", "cpu", "work at one line", id="item-without-a-device"),
        pytest.param("torch.save(model, path)", "cpu", "output", id="save"),
        pytest.param("x = augment(x)", "cpu", "work at one line", id="anything-else"),
    ],
)
def test_judges_a_line_by_its_text(code: str, device: str, said: str) -> None:
    machine = replace(MACHINE, gpu_percent=20.0)
    run = measured(line("other", "t.py:9", code, 90), device=device, machine=machine, data=0.1, rest=30, **COMPUTE)
    assert said in judge_speed(run).headline


@pytest.mark.parametrize(
    ("loader", "machine", "change", "where"),
    [
        pytest.param(
            replace(LOADER, workers=9), MACHINE,
            "num_workers=4 and persistent_workers=True: 9 workers share 4 processors, and each epoch starts them anew",
            "num_workers=9", id="too-many-workers",
        ),
        pytest.param(
            replace(LOADER, batch_bytes=75 << 20), MACHINE,
            "make the items smaller before they are batched: a batch has 75 MiB; then num_workers=4", "75 MiB a batch",
            id="oversized-inputs",
        ),
        pytest.param(
            LOADER, replace(MACHINE, disk_wait_percent=60.0),
            "read the data from another disk, or keep them in memory: the training waits for the disk", "num_workers=0",
            id="a-busy-disk",
        ),
        pytest.param(replace(LOADER, batch_bytes=1 << 20), MACHINE, "num_workers=4", "1 MiB a batch", id="small-items"),
    ],
)  # fmt: skip
def test_names_what_makes_batches_late(loader: LoaderFacts, machine: Machine, change: str, where: str) -> None:
    (cause,) = judge_speed(measured(SLOW_COLLATE, loader=loader, machine=machine, data=50, **COMPUTE)).causes
    assert cause.change == change
    assert where in cause.where


@pytest.mark.parametrize(
    ("code", "where", "change"),
    [
        pytest.param("gc.collect()", "train.py:60 in work", "call gc.collect() seldom", id="called"),
        pytest.param("x = [y]", "Python's own collections", "gc.freeze() before the loop", id="by-python"),
    ],
)
def test_names_garbage_collection(code: str, where: str, change: str) -> None:
    run = measured(SLEEP, line("other", "train.py:60", "gc.collect()", 5), data=0.3, rest=20, **COMPUTE)
    assert run.facts is not None
    garbage = GarbageFacts(20, 0.0235 * 50, 0.1, 50, "train.py:60", "work", code)
    first, *others = judge_speed(replace(run, facts=replace(run.facts, garbage=garbage))).causes
    assert (first.where, first.headline) == (where, "80 % of the step is garbage collection")
    assert first.change.startswith(change)
    assert not [cause for cause in others if "garbage" in cause.headline], "each second is blamed once"


@pytest.mark.parametrize(
    ("without_processor", "bottleneck"),
    [
        pytest.param(0.0, "straggler rank", id="its-own-work"),
        pytest.param(0.6, "compute-bound", id="other-work-had-its-processor"),
        pytest.param(None, "straggler rank", id="unknown"),
    ],
)
def test_a_rank_that_had_no_processor_is_not_blamed(without_processor: float | None, bottleneck: str) -> None:
    workers = ranks(worker_0=6.0, worker_1=0.1)
    late = replace(workers["worker_1"], processor_wait=without_processor)
    verdicts = dict(judged_workers(with_gradient_waits({**workers, "worker_1": late})))
    assert verdicts["worker_0"].bottleneck.value == bottleneck


def test_a_straggler_s_own_cause_is_that_of_the_run() -> None:
    slow = measured(SLOW_COLLATE, data=50, **COMPUTE)
    waiting = measured(data=0.3, **{**COMPUTE, "backward": 55.0})
    workers = with_gradient_waits(
        {
            name: replace(run, facts=replace(run.facts, workers=2, collectives=CollectiveFacts(wait, wait, 100)))
            for name, run, wait in (("worker_0", waiting, 0.05), ("worker_1", slow, 0.0001))
            if run.facts is not None
        }
    )
    name, verdict = judged_workers(workers)[0]
    assert (name, verdict.bottleneck.value) == ("worker_0", "straggler rank")
    assert verdict.causes[0].where.startswith("worker_1, input-bound: DataLoader of Images at train.py:31")
    assert verdict.causes[0].change == "in worker_1: num_workers=4"
    assert verdict.causes[0].lines[0].place == "data.py:22"


def missing_of(run: Measured) -> set[str]:
    return {one.partition(":")[0] for one in judge_speed(run).missing}


@pytest.mark.parametrize(
    ("run", "missing"),
    [
        pytest.param(measured(SLEEP, data=1, **COMPUTE), set(), id="nothing"),
        pytest.param(measured(SLEEP, forward=1, backward=1), {"data"}, id="no-loader"),
        pytest.param(measured(SLEEP, data=1, backward=1), {"forward"}, id="no-module"),
        pytest.param(measured(data=1, **COMPUTE), {"lines"}, id="no-samples"),
        pytest.param(measured(SLEEP, data=1, machine=Machine(), **COMPUTE), {"machine"}, id="no-sampler"),
        pytest.param(measured(SLEEP, data=1, device="cuda", **COMPUTE), {"GPU"}, id="no-gpu-metrics"),
        pytest.param(measured(SLEEP, data=1, device="rocm", **COMPUTE), {"GPU"}, id="amd"),
        pytest.param(measured(SLEEP, data=1, device="xla", **COMPUTE), {"device"}, id="trainium"),
        pytest.param(Measured(), set(), id="nothing-was-captured"),
    ],
)
def test_names_missing_measurements(run: Measured, missing: set[str]) -> None:
    assert missing_of(run) == missing


@pytest.mark.parametrize(
    ("waited", "is_noted"),
    [
        pytest.param(0.9, True, id="other-work"),
        pytest.param(0.02, False, id="a-little"),
        pytest.param(None, False, id="unknown"),
    ],
)
def test_names_waits_for_a_processor(waited: float | None, is_noted: bool) -> None:
    verdict = judge_speed(replace(measured(SLEEP, data=1, **COMPUTE), processor_wait=waited))
    assert any("other work on the machine had the processor" in note for note in verdict.notes) is is_noted


@pytest.mark.parametrize(
    ("run", "waited", "in_fetches", "bottleneck"),
    [
        pytest.param(measured(data=50, **COMPUTE), 0.0, 0.0, "input-bound", id="no-wait"),
        pytest.param(measured(data=50, **COMPUTE), 4.95, 4.9, "compute-bound", id="a-quick-loader-without-a-processor"),
        pytest.param(measured(data=50, **COMPUTE), 0.5, 0.0, "input-bound", id="a-slow-loader-and-a-model-without"),
        pytest.param(measured(data=5, forward=45.0), 4.45, 0.05, "input-bound", id="the-model-hid-it"),
        pytest.param(measured(data=5, forward=45.0), 4.45, None, "compute-bound", id="unknown-where"),
        pytest.param(measured(loader=workers(2, 0.9), data=10, **COMPUTE), 0.0, 0.0, "compute-bound", id="of-workers"),
        pytest.param(measured(loader=workers(2, 0.1), data=10, **COMPUTE), 0.0, 0.0, "input-bound", id="slow-workers"),
        pytest.param(measured(loader=workers(9, 0.9), data=10, **COMPUTE), 0.0, 0.0, "input-bound", id="many-workers"),
        pytest.param(measured(**COMPUTE), 0.5, None, "compute-bound", id="no-loader"),
        pytest.param(measured(data=50, **COMPUTE), 99.0, 98.0, "incomplete", id="waits-that-are-longer-than-the-steps"),
    ],
)
def test_other_work_on_the_machine_is_left_out(
    run: Measured, waited: float, in_fetches: float | None, bottleneck: str
) -> None:
    assert judge_speed(with_own_seconds(run, waited=waited, in_fetches=in_fetches)).bottleneck.value == bottleneck


@pytest.mark.parametrize(
    ("lines", "phases", "bottleneck"),
    [
        pytest.param({"fetch": 60, "other": 20, "model": 20}, {"data": 6.0, "forward": 2.0}, "input-bound", id="waits"),
        pytest.param({"fetch": 80, "backward": 900}, {"data": 10.0}, "input-bound", id="all-of-the-rest"),
        pytest.param({"other": 20, "model": 80}, {"forward": 8.0}, "compute-bound", id="no-wait"),
        pytest.param({"fetch": 10, "model": 90}, {"data": 1.0, "forward": 9.0}, "compute-bound", id="a-short-wait"),
        pytest.param({"fetch": 15, "other": 4}, {}, "host-bound", id="too-few-samples"),
        pytest.param({"backward": 30}, {}, "host-bound", id="none-of-the-rest"),
    ],
)
def test_phases_without_a_clock_are_shares_of_the_samples(
    lines: dict[str, int], phases: dict[str, float], bottleneck: str
) -> None:
    found = [
        line("other" if name == "model" else name, f"t.py:{n}", "read()", samples, is_in_model=name == "model")
        for n, (name, samples) in enumerate(lines.items())
    ]
    run = with_sampled_phases(measured(*found, loader=None, backward=2.0, rest=10.0))
    sampled = {name: 1000 * one.seconds / STEPS for name, one in run.phases.items() if name != "backward"}
    assert sampled == pytest.approx(phases)
    assert judge_speed(run).bottleneck.value == bottleneck


def test_a_wait_for_a_generator_names_it_and_a_wait_in_a_library_names_a_cure() -> None:
    fetch = line("fetch", "t.py:9", "raw = read()", 90)
    for found, change in (
        (fetch, "make work (t.py:9) cheaper"),
        (replace(fetch, code="for x in d:", library="lib.x"), "fetch batches in workers"),
    ):
        run = with_sampled_phases(measured(found, loader=None, backward=2.0, rest=10.0))
        assert judge_speed(run).causes[0].change.startswith(change)


def creeping(*, grows_bytes: float, seconds: float = 600.0, jump: float = 0.0) -> Machine:
    count = 200
    series = tuple(
        (seconds * n / count, 2.0**30 + grows_bytes * n / count + (jump if n < 30 else 0)) for n in range(count)
    )
    return replace(MACHINE, memory_series=series)


@pytest.mark.parametrize(
    ("machine", "is_named"),
    [
        pytest.param(creeping(grows_bytes=2**30), True, id="grows-by-a-gibibyte"),
        pytest.param(creeping(grows_bytes=-(2**29)), False, id="shrinks"),
        pytest.param(creeping(grows_bytes=2**24), False, id="grows-by-little"),
        pytest.param(creeping(grows_bytes=0, jump=-(2**30)), False, id="loads-its-model-and-stays"),
        pytest.param(creeping(grows_bytes=2**30, seconds=20.0), False, id="too-short-to-judge"),
        pytest.param(MACHINE, False, id="not-measured"),
    ],
)
def test_finds_memory_that_grows(machine: Machine, is_named: bool) -> None:
    verdict = judge_speed(measured(data=0.08, forward=0.5, capture=0.3, rest=0.12, machine=machine))
    assert (verdict.bottleneck.value == "memory creep") is is_named
    assert any("memory of the training grew" in note for note in verdict.notes) is is_named


@pytest.mark.parametrize(
    ("training_percent", "is_noted"),
    [pytest.param(40.0, True, id="others-use-the-machine"), pytest.param(350.0, False, id="it-is-all-ours")],
)
def test_says_what_others_use_and_blames_nobody(training_percent: float, is_noted: bool) -> None:
    machine = Machine(cpu_percent=90.0, training_cpu_percent=training_percent, samples=10)
    verdict: PerformanceVerdict = judge_speed(measured(data=0.3, machine=machine, **COMPUTE))
    assert verdict.bottleneck.value == "compute-bound"
    assert any("the machine was busy" in note for note in verdict.notes) is is_noted


def ranks(**exposed_ms: float | None) -> dict[str, Measured]:
    """Measurements of workers with these milliseconds of a step of 9 in which they wait for gradients."""
    workers = {}
    for name, wait in exposed_ms.items():
        run = measured(loader=None, **COMPUTE)
        assert run.facts is not None
        collectives = CollectiveFacts(1.5e-3 * wait, 1e-3 * wait, 100) if wait is not None else None
        workers[name] = replace(run, facts=replace(run.facts, workers=2, collectives=collectives))
    return with_gradient_waits(workers)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (ranks(worker_0=6.0, worker_1=0.1), ["straggler rank", "compute-bound"]),
        (ranks(worker_0=4.0, worker_1=3.9), ["communication-bound", "communication-bound"]),
        (ranks(worker_0=6.0, worker_1=2.0), ["straggler rank", "communication-bound"]),
        (ranks(worker_0=0.3, worker_1=0.2), ["compute-bound", "compute-bound"]),
        (ranks(worker_0=6.0), ["compute-bound"]),  # the others are not known
        (ranks(worker_0=6.0, worker_1=None), ["compute-bound", "compute-bound"]),
        (ranks(worker_0=None, worker_1=None), ["compute-bound", "compute-bound"]),
        (ranks(worker_0=50.0, worker_1=40.0), ["communication-bound", "communication-bound"]),  # longer than the step
    ],
)
def test_waits_for_other_ranks(workers: dict[str, Measured], expected: list[str]) -> None:
    verdicts = dict(judged_workers(workers))
    assert [verdicts[name].bottleneck.value for name in sorted(verdicts)] == expected
    for name, verdict in verdicts.items():
        assert all(cause.share <= 1 and cause.step_seconds_after >= 0 for cause in verdict.causes)
        assert (verdict.bottleneck.value == "straggler rank") == ("waits for worker_1" in verdict.headline)
        assert any("collectives" in one for one in verdict.missing) == (workers[name].gradient_wait is None)


@pytest.mark.parametrize(
    ("queue", "note"),
    [
        pytest.param(
            QueueFacts("queue.Queue", "t.py:9", 40, 0.25, 38, 0.02),
            "queue.Queue at t.py:9: 0.2 batches were ready when one was taken; one thread takes 20 ms to make a batch",
            id="of-a-thread",
        ),
        pytest.param(
            QueueFacts("multiprocessing.SimpleQueue", "", 40, UNKNOWN_COUNT),
            "multiprocessing.SimpleQueue: an unknown number of batches was ready when one was taken",
            id="that-cannot-be-counted",
        ),
    ],
)
def test_a_note_has_the_batches_of_a_queue(queue: QueueFacts, note: str) -> None:
    run = measured(data=9, **COMPUTE)
    assert run.facts is not None
    found = judge_speed(replace(run, facts=replace(run.facts, queues=(queue,)))).notes
    assert note in found
