"""One cell of benchmarks/reading.py in a process of its own: `reading_cell.py PACKAGE CELL ORDER`, answers JSON.

Runs under the interpreter of the peer environment. PACKAGE is `smdebug` (the original), `drop-in` (the same script on
trackside-smdebug) or `trackside` (our own interface). Only one of them is imported. ORDER is JSON.
"""

import contextlib
import json
import os
import resource
import statistics
import sys
import time
import types
from pathlib import Path

PACKAGE, CELL, ORDER = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])

if PACKAGE == "smdebug":  # its profiler, which is not used here, wants packages that no longer build
    for absent in ("pandas", "psutil", "pyinstrument", "pyinstrument.renderers"):
        sys.modules[absent] = types.ModuleType(absent)
    sys.modules["pyinstrument"].Profiler = object
    sys.modules["pyinstrument.renderers"].JSONRenderer = object

if PACKAGE == "trackside":
    from dataclasses import dataclass
    from typing import ClassVar

    import trackside
    from trackside.contracts.rule_request import RuleConfiguration
    from trackside.contracts.verdict import Severity
    from trackside.evaluation.evaluator import Evaluator
    from trackside.evaluation.results.progress import ProgressFile
    from trackside.rules.catalogue import ConfiguredRule
    from trackside.rules.rule import Rule
    from trackside.storage.memory import MemoryStore

    @dataclass(frozen=True)
    class NoLossAbove(Rule):
        """Looks at every loss at every step."""

        rule_id: ClassVar[str] = "no-loss-above"
        watches: ClassVar[tuple[str, ...]] = ("losses",)
        save_interval: ClassVar[int] = 1
        severity: ClassVar[Severity] = Severity.WARNING
        since: ClassVar[str] = "0"
        what_to_do: ClassVar[tuple[str, ...]] = ("nothing",)

        def check(self, window):
            for name in window.tensors("losses"):
                for column in window.statistic(name, "mean", last=1):
                    if column.values[-1] > 1e9:
                        raise AssertionError("the benchmark's losses are small")
            return ()

    def open_run():
        return trackside.open_trial(ORDER["run"])

    def query(trial):
        trial.refresh()
        return trial.names, trial.steps()

    def values(trial, name, steps):
        tensor = trial.tensor(name)
        for step in steps:
            start = time.perf_counter()
            tensor.value(step)
            yield time.perf_counter() - start

    def judge():
        trial = open_run()
        configured = ConfiguredRule(RuleConfiguration("no-loss-above"), NoLossAbove())
        evaluator = Evaluator(trial, [configured], [], ProgressFile(MemoryStore()), run="run", clock=time.time)
        start = time.process_time()
        evaluator.poll()
        seconds = time.process_time() - start
        judged = evaluator.summary().judged["no-loss-above"]
        return judged / seconds

else:
    import smdebug
    from smdebug.exceptions import NoMoreData
    from smdebug.rules import Rule, invoke_rule
    from smdebug.trials import create_trial

    ours = "compat" in Path(smdebug.__file__).parts
    assert ours == (PACKAGE == "drop-in"), smdebug.__file__

    class NoLossAbove(Rule):
        """Looks at every loss at every step."""

        def __init__(self, base_trial):
            super().__init__(base_trial, action_str="")
            self.names = base_trial.tensor_names(regex="Loss")
            self.judged = 0

        def invoke_at_step(self, step):
            for name in self.names:
                assert self.base_trial.tensor(name).value(step).max() < 1e9
            self.judged += 1
            return False

    def open_run():
        return create_trial(ORDER["run"])

    def query(trial):
        return trial.tensor_names(), trial.steps()

    def values(trial, name, steps):
        for step in steps:
            start = time.perf_counter()
            trial.tensor(name).value(step)
            yield time.perf_counter() - start

    def judge():
        trial = open_run()
        rule = NoLossAbove(trial)
        start = time.process_time()
        with contextlib.suppress(NoMoreData):
            invoke_rule(rule, start_step=ORDER["first_step"], end_step=ORDER["end_step"])
        return rule.judged / (time.process_time() - start)


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def current_mb():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def cell_open():
    before, start = current_mb(), time.process_time()
    names, steps = query(open_run())
    seconds = time.process_time() - start
    assert len(names) == ORDER["tensors"], len(names)
    assert len(steps) == ORDER["steps"], len(steps)
    return {"seconds": seconds, "mb": max(0.0, peak_mb() - before)}


def cell_first_query():
    trial, start = open_run(), time.perf_counter()
    query(trial)
    return {"seconds": time.perf_counter() - start}


def cell_live_idle():
    """`ms`: in the steady state, since our store trusts what it knows of a folder a while after its last change.
    `at_once_ms`: right after opening, before it does."""
    trial = open_run()
    query(trial)
    at_once = [seconds_of_query(trial) for _ in range(5)]
    time.sleep(0.2)
    query(trial)
    settled = [seconds_of_query(trial) for _ in range(ORDER["repeats"])]
    return {"ms": statistics.median(settled) * 1e3, "at_once_ms": statistics.median(at_once) * 1e3}


def seconds_of_query(trial):
    start = time.perf_counter()
    query(trial)
    return time.perf_counter() - start


def cell_live_growing():
    """Each query finds one new step: its files are moved into place before, the event file first."""
    trial = open_run()
    query(trial)
    times, seen = [], ORDER["steps"]
    for event, index in ORDER["coming"]:
        for key in (event, index):
            target = Path(ORDER["run"], key)
            target.parent.mkdir(parents=True, exist_ok=True)
            Path(ORDER["stash"], key).rename(target)
        start = time.perf_counter()
        _, steps = query(trial)
        times.append(time.perf_counter() - start)
        seen += 1
        assert seen - 1 <= len(steps) <= seen, (len(steps), seen)
    return {"ms": statistics.median(times) * 1e3}


def cell_value():
    trial = open_run()
    query(trial)
    count = ORDER["steps"]
    steps = [(1 + 7919 * i) % count for i in range(count)]  # every step once, out of order: 7919 is prime
    list(values(trial, ORDER["tensor"], steps))  # the page cache
    return {"us": statistics.median(values(trial, ORDER["tensor"], steps)) * 1e6}


def cell_judge():
    return {"steps_per_s": judge()}


def cell_s3():
    """What a reader asks of S3; the parent counts. Each stage ends with a line, and waits for one."""
    trial = open_run()
    names, steps = query(trial)
    stage("open")
    query(trial)
    stage("query")
    next(iter(values(trial, names[0], steps[:1])))
    stage("value")
    return {}


def stage(name):
    print(json.dumps({"stage": name}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    print(json.dumps(globals()[f"cell_{CELL}"]()), flush=True)
