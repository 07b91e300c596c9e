from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from trackside.contracts.run_layout import RunLocation
from trackside.report.machine import machine_curves
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import WALL_TIME, end_run, write_collections, write_statistics, write_tensors
from trackside.trial.trial import open_trial

LOSS = "CrossEntropyLoss_output_0"
CPU = ("processors", "total", "CPUUtilizationTotal")
GPU0, GPU1 = ("gpu", "gpu0", "GPUUtilization"), ("gpu", "gpu1", "GPUUtilization")
MEMORY = ("process", "training", "ProcessMemoryBytes")
Sample = tuple[tuple[str, str, str], str, float, float]  # type, name and dimension; machine; time of the run; number


def curves(folder: Path, samples: Sequence[Sample], *, steps: int = 10) -> Mapping[str, Mapping[int, float]]:
    """Return what is shown of these samples, in a run that makes a step a second: the highest number of each step."""
    run = RunLocation(str(folder / "run"))
    saved = LocalStore(run.tensors)
    write_collections(saved)
    write_tensors(saved, 0, {LOSS: 2.0})
    write_statistics(LocalStore(run.statistics), {LOSS: {"mean": dict.fromkeys(range(steps), 1.0)}})
    end_run(saved)
    lines = [
        {
            "Type": kind,
            "Name": name,
            "Dimension": dimension,
            "Value": value,
            "NodeId": node,
            "Timestamp": WALL_TIME + at,
        }
        for (kind, name, dimension), node, at, value in samples
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    LocalStore(run.profiles).put(f"system/incremental/2026112307/{int(WALL_TIME)}.algo-1.json", text.encode())
    found = machine_curves(open_trial(run.uri), (0, steps - 1))
    return {title: dict(zip(one.first.tolist(), one.high.tolist(), strict=True)) for title, one in found}


@pytest.mark.parametrize(
    ("samples", "shown"),
    [
        pytest.param([], {}, id="none"),
        pytest.param(
            [(CPU, "algo-1", 2.4, 50.0), (CPU, "algo-1", 4.9, 70.0)],
            {"Processors in use, %": {3: 50.0, 5: 70.0}},
            id="at-the-step-that-was-being-made",
        ),
        pytest.param(
            [(CPU, "algo-1", 2.2, 50.0), (CPU, "algo-1", 2.7, 90.0)],
            {"Processors in use, %": {3: 90.0}},
            id="two-in-a-step",
        ),
        pytest.param([(CPU, "algo-1", -5.0, 50.0), (CPU, "algo-1", 60.0, 50.0)], {}, id="before-and-after-the-steps"),
        pytest.param([(CPU, "algo-1", 2.0, 0.0), (CPU, "algo-1", 3.0, 0.001)], {}, id="nothing-of-it-was-used"),
        pytest.param(
            [(MEMORY, "algo-1", 3.0, 2e9)], {"Memory of the training, MB": {3: 2000.0}}, id="bytes-become-megabytes"
        ),
        pytest.param(
            [(GPU0, "algo-1", 3.0, 10.0), (GPU1, "algo-1", 3.0, 20.0)],
            {"GPU in use, %: gpu0": {3: 10.0}, "GPU in use, %: gpu1": {3: 20.0}},
            id="two-devices",
        ),
        pytest.param(
            [(CPU, "algo-1", 3.0, 10.0), (CPU, "algo-2", 3.0, 20.0)],
            {"Processors in use, %: algo-1": {3: 10.0}, "Processors in use, %: algo-2": {3: 20.0}},
            id="two-machines",
        ),
    ],
)
def test_samples_are_shown_at_their_steps(
    tmp_path: Path, samples: Sequence[Sample], shown: Mapping[str, Mapping[int, float]]
) -> None:
    assert curves(tmp_path, samples) == shown
