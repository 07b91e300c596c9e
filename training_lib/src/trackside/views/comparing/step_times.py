"""The steps of stored runs for the gate of `trackside compare`, and whether the runs may be compared at all.

Runs are comparable if model, batch, processes, device and precision are the same. All of it is read from the runs;
nobody has to declare anything. What may change between two versions of a program is noted, and changes no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.run_layout import RunLocation
from trackside.records.machine.performance_facts import PerformanceFacts
from trackside.speed.performance.measured import CAPTURE, EVALUATION
from trackside.speed.performance.profile import Profile, StepDurations
from trackside.speed.performance.step_time_gate import BUSY_SHARE, Gate, GateVerdict, TimedRun, judge_step_time
from trackside.views.comparing.comparison import ComparedRun, described_model

MOST_REASONS = 5
MODEL, DEVICE = "model", "device"  # facts that stand for the two records of a run

_Setup = Mapping[str, str]


def gate(before: Sequence[ComparedRun], after: Sequence[ComparedRun], *, limit: float) -> Gate:
    """Return whether the later runs are slower than the earlier ones by more than the limit.

    Args:
        before: Runs of the program as it was.
        after: Runs of the program as it is.
        limit: The change that is allowed: 0.05 for 5 %.

    Raises:
        StorageError: A store failed.
    """
    every = (*before, *after)
    setups = [(_name(run), _setup(run)) for run in every]
    reasons = list(dict.fromkeys(_reasons(setups)))
    if reasons:
        more = [f"and {len(reasons) - MOST_REASONS} more differences"] if len(reasons) > MOST_REASONS else []
        return Gate(GateVerdict.NOT_COMPARABLE, limit, reasons=(*reasons[:MOST_REASONS], *more))
    found = judge_step_time([timed_run(run) for run in before], [timed_run(run) for run in after], limit=limit)
    return replace(found, notes=tuple(_notes(found, every)))


def _reasons(setups: Sequence[tuple[str, _Setup]]) -> Iterator[str]:
    """Yield a sentence for each record that a run lacks; else for each fact that differs from the first run's."""
    lacking = [
        f"{name} has no record of its {fact}" for name, setup in setups for fact in (MODEL, DEVICE) if fact not in setup
    ]
    if lacking:
        yield from lacking
        return
    first_name, first = setups[0]
    for name, setup in setups[1:]:
        for fact in dict.fromkeys((*first, *setup)):
            one, other = first.get(fact, ""), setup.get(fact, "")
            if one != other:
                yield f"{fact}: {one or 'absent'} in {first_name}, {other or 'absent'} in {name}"


def _setup(run: ComparedRun) -> _Setup:
    """Return the facts that must be the same. A record that the run lacks has none."""
    facts = run.trial.model_facts
    speed = run.trial.profile.facts()
    worker = speed[min(speed)] if speed else None
    return {**_of_program(facts), **_of_worker(worker)}


def _of_program(facts: ModelFacts | None) -> _Setup:
    if facts is None:
        return {}
    program = facts.program
    shapes = sorted({"x".join(map(str, loss.input_shape)) for loss in facts.losses if loss.input_shape})
    return {
        MODEL: "known",
        "processes": str(program.world_size),
        "data parallel": program.data_parallel or "none",
        "mixed precision": program.autocast_dtype or "none",
        "shape of the losses' input": ", ".join(shapes) or "unknown",
        **described_model(facts),
    }


def _of_worker(worker: PerformanceFacts | None) -> _Setup:
    if worker is None:
        return {}
    batches = sorted({loader.batch_size for loader in worker.loaders})
    return {
        DEVICE: worker.device,
        "processors": str(worker.processors),
        "threads": str(worker.threads),
        "batch size": ", ".join(map(str, batches)) or "no DataLoader",
    }


def timed_run(run: ComparedRun) -> TimedRun:
    """Return the steps of the worker with the longest ones: the others wait for it.

    Raises:
        StorageError: A store failed.
    """
    workers = Profile(run.recorded.location.uri, run.trial).steps()
    slowest = max(workers, key=lambda worker: float(np.median(_own(worker))), default=None)
    if slowest is None:
        return TimedRun(_name(run), np.empty(0), np.empty(0), np.empty(0))
    _, times = run.trial.parts.steps.times_by_worker().get(slowest.worker, ((), ()))
    began_at = float(min(times, default=math.nan))
    phases = {name: each for name, each in slowest.phases.items() if name not in {CAPTURE, EVALUATION}}
    return TimedRun(_name(run), slowest.seconds, _own(slowest), slowest.waits, began_at, phases)


def _own(worker: StepDurations) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    others = sum(np.nan_to_num(worker.phases[name]) for name in (CAPTURE, EVALUATION) if name in worker.phases)
    return np.maximum(worker.seconds - others, 0.0)


def _notes(found: Gate, runs: Sequence[ComparedRun]) -> Iterator[str]:
    medians = (*found.before, *found.after)
    waiting = [run.waiting for run in medians if run.waiting is not None]
    if waiting and max(waiting) >= BUSY_SHARE:
        yield (
            f"other work on the machine had the processor for {100 * min(waiting):.0f} to {100 * max(waiting):.0f} %"
            " of these runs; it is left out"
        )
    if medians and not waiting:
        yield "waits for a processor are not known here: other work on the machine is part of these steps"
    if found.verdict is GateVerdict.UNDECIDED:
        yield "the interval contains 0: run both again, and add the runs with --baseline and --repeat"
    elif found.high is not None and found.verdict is GateVerdict.WITHIN and found.high > found.limit:
        yield "the interval reaches beyond the limit; further runs with --baseline and --repeat narrow it"
    versions = {facts.program.framework_version for run in runs if (facts := run.trial.model_facts) is not None}
    if len(versions) > 1:
        yield f"versions of the framework: {', '.join(sorted(versions))}"
    workers = {
        str(loader.workers) for run in runs for facts in run.trial.profile.facts().values() for loader in facts.loaders
    }
    if len(workers) > 1:
        yield f"num_workers of DataLoaders: {', '.join(sorted(workers))}"


def _name(run: ComparedRun) -> str:
    return RunLocation(run.recorded.location.uri).name
