"""Runs for a dashboard."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.training_lib.local.verdicts import finding, issue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY, VERDICTS_KEY, RunLocation
from trackside.contracts.verdict import Verdict
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import WALL_TIME, end_run, write_collections, write_statistics, write_tensors

LOSS = "CrossEntropyLoss_output_0"
HOSTILE = "gradient/Net_</script><img src=x onerror=alert(1)>.\"'weight"
NODE = "algo-2</nav><script>alert(3)</script>"
WEIGHT = "Net_</td><script>alert(2)</script>.weight"
ISSUE = issue(findings=(finding(HOSTILE),))


def write_run(
    folder: Path,
    *,
    verdicts: tuple[Verdict, ...] = (),
    tensors: tuple[str, ...] = ("gradient/Net_fc.bias",),
    steps: int = 400,
    slope: float = 1.0,
    broken_at: int | None = 123,
    ended: bool = True,
    has_weights: bool = False,
    machines: Sequence[str] = (),
) -> None:
    """Write a run with a loss at every step, which is not a number at one, and the norms of these tensors.

    Each of the machines has twelve cores, of which the last one is busy from half of the run on.

    With weights it has the values of one more at three steps, one of them infinite.
    """
    run = RunLocation(str(folder))
    saved = LocalStore(run.tensors)
    write_collections(saved)
    write_tensors(saved, 0, {LOSS: 2.0})
    losses = {step: math.nan if step == broken_at else 2.0 - slope * step / steps for step in range(steps)}
    numbers = {LOSS: {"mean": losses}}
    for place, name in enumerate(tensors):
        numbers[name] = {"l2": {step: 10.0 ** -(place + step / steps) for step in range(0, steps, 4)}}
    if has_weights:
        values = np.random.default_rng(0).normal(size=(3, 200)).astype(np.float32)
        values[1, 7] = math.inf
        for place, step in enumerate((100, 200, 300)):
            write_tensors(saved, step, {WEIGHT: values[place]})
    numbers["trackside/step_seconds"] = {"mean": {step: 2.0 if step == 77 else 0.1 for step in range(steps)}}
    numbers["trackside/data_seconds"] = {"mean": dict.fromkeys(range(steps), 0.03)}
    write_statistics(LocalStore(run.statistics), numbers)
    (folder / RULE_REQUEST_KEY).write_text(RuleRequest((RuleConfiguration("vanishing-gradient"),)).to_json())
    LocalStore(run.rule_output).put(VERDICTS_KEY, "".join(f"{one.to_json()}\n" for one in verdicts).encode())
    if machines:
        _write_samples(run, machines, steps)
    if ended:
        end_run(saved)


def _write_samples(run: RunLocation, machines: Sequence[str], steps: int) -> None:
    lines = []
    for place, node in enumerate(machines):
        for at in range(steps):
            cores = [(f"cpu{core}", "CPUUtilization", 4.0) for core in range(11)]
            cores.append(("cpu11", "CPUUtilization", 100.0 if at >= steps // 2 else 4.0))
            for name, dimension, value in (*cores, ("total", "CPUUtilizationTotal", 10.0 + place)):
                of = {"Type": "cpu", "Name": name, "Dimension": dimension, "Value": value}
                lines.append({**of, "NodeId": node, "Timestamp": WALL_TIME + at})
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    LocalStore(run.profiles).put(f"system/incremental/2026112307/{int(WALL_TIME)}.algo-1.json", text.encode())


def write_judged_run(folder: Path, *, verdicts: tuple[Verdict, ...]) -> None:
    """Write the least that the list of runs shows: an end, and what the rules found."""
    run = RunLocation(str(folder))
    saved = LocalStore(run.tensors)
    write_collections(saved)
    end_run(saved)
    LocalStore(run.rule_output).put(VERDICTS_KEY, "".join(f"{one.to_json()}\n" for one in verdicts).encode())
