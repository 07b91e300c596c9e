from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from trackside.contracts.run_layout import RunLocation
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import WALL_TIME, end_run, write_collections, write_statistics, write_tensors
from trackside.trial.trial import Trial, open_trial
from trackside.views.report.machine import MOST_CORE_ROWS, MOST_MACHINES, core_maps, machine_curves

LOSS = "CrossEntropyLoss_output_0"
CPU = ("processors", "total", "CPUUtilizationTotal")
GPU0, GPU1 = ("gpu", "gpu0", "GPUUtilization"), ("gpu", "gpu1", "GPUUtilization")
MEMORY = ("process", "training", "ProcessMemoryBytes")
Sample = tuple[tuple[str, str, str], str, float, float]  # type, name and dimension; machine; time of the run; number


def curves(folder: Path, samples: Sequence[Sample], *, steps: int = 10) -> Mapping[str, Mapping[int, float]]:
    """Return what is shown of these samples, in a run that makes a step a second: the highest number of each step."""
    found = machine_curves(run_with(folder, samples, steps=steps), (0, steps - 1))
    return {title: dict(zip(one.first.tolist(), one.high.tolist(), strict=True)) for title, one in found}


def run_with(folder: Path, samples: Sequence[Sample], *, steps: int = 10) -> Trial:
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
    return open_trial(run.uri)


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


def busy(node: str, kind: str, count: int, *, hot: int = -1) -> list[Sample]:
    """Return a sample of each core at the third step: 5 %, and 99 % for the hot one."""
    dimension = {"cpu": "CPUUtilization", "gpu": "GPUUtilization"}[kind]
    return [((kind, f"{kind}{n}", dimension), node, 2.5, 99.0 if n == hot else 5.0) for n in range(count)]


@pytest.mark.parametrize(
    ("samples", "shown"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([(CPU, "algo-1", 2.4, 50.0)], {}, id="the-whole-machine-is-no-core"),
        pytest.param(
            busy("algo-1", "cpu", 2, hot=1), {"Cores in use, %": {"cpu0": 5.0, "cpu1": 99.0}}, id="a-row-each"
        ),
        pytest.param(
            [*busy("algo-1", "cpu", 1), *busy("algo-2", "cpu", 1, hot=0)],
            {"Cores in use, %: algo-1": {"cpu0": 5.0}, "Cores in use, %: algo-2": {"cpu0": 99.0}},
            id="two-machines",
        ),
        pytest.param(
            [*busy("algo-1", "cpu", 62, hot=60), *busy("algo-1", "gpu", 2)],
            {
                "Cores in use, %": {
                    **{f"cpu{n} to cpu{n + 2}": 5.0 for n in range(0, 60, 3)},
                    "cpu60 to cpu61": 99.0,
                    "gpu0": 5.0,
                    "gpu1": 5.0,
                }
            },
            id="the-busiest-of-neighbours",
        ),
    ],
)
def test_cores_in_a_report_have_few_rows_and_hide_no_busy_one(
    tmp_path: Path, samples: Sequence[Sample], shown: Mapping[str, Mapping[str, float]]
) -> None:
    found = list(core_maps(run_with(tmp_path, samples), (0, 9)))
    assert {
        one.title: {name: float(np.nanmax(row)) for name, row in zip(one.tensors, one.values, strict=True)}
        for one in found
    } == shown
    assert all(int(np.flatnonzero(np.isfinite(row))[0]) == 3 for one in found for row in one.values)


@pytest.mark.parametrize("cores", [1, 31, 32, 33, 192, 1000])
def test_as_many_rows_as_have_room(tmp_path: Path, cores: int) -> None:
    (found,) = core_maps(run_with(tmp_path, busy("algo-1", "cpu", cores)), (0, 9))
    assert MOST_CORE_ROWS / 2 < len(found.tensors) <= MOST_CORE_ROWS or len(found.tensors) == cores


def test_the_first_machines_are_shown(tmp_path: Path) -> None:
    samples = [one for place in range(MOST_MACHINES + 2) for one in busy(f"algo-{place}", "cpu", 1)]
    assert len(list(core_maps(run_with(tmp_path, samples), (0, 9)))) == MOST_MACHINES
