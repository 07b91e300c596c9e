"""The machines under a training: what they did at each step, from the samples that lie beside the run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trackside.trial.facts.run_profile import MachineMetric
from trackside.trial.tensors.buckets import Buckets, bucketed, edges_of
from trackside.trial.trial import Trial
from trackside.trial.window import MachineSeries
from trackside.views.report.charts.heatmap import MOST_COLUMNS, MOST_ROWS, Heatmap
from trackside.views.report.charts.line_chart import MOST_BUCKETS

MOST_DEVICES = 8  # curves of one metric
MOST_MACHINES, MOST_CORE_ROWS = 4, 32  # of the cores in a report, which is mailed and printed
OF_A_CORE = ("CPUUtilization", "GPUUtilization")
LEAST_SHOWN = 0.01  # a metric that never comes to this is left out
# Title, dimension and device of a sample ("" for each), factor. In the order of the questions: is the accelerator busy,
# are the processors, does the memory grow, does the training wait for a disk?
_METRICS = (
    ("GPU in use, %", "GPUUtilization", "", 1.0),
    ("GPU memory in use, %", "GPUMemoryUtilization", "", 1.0),
    ("Processors in use, %", "CPUUtilizationTotal", "", 1.0),
    ("Processors used by the training, % of one core", "ProcessCPUUtilization", "", 1.0),
    ("Memory of the training, MB", "ProcessMemoryBytes", "", 1e-6),
    ("Memory of the machine in use, %", "Platform", "MemoryUsedPercent", 1.0),
    ("Processors waiting for disks, %", "I/OWaitPercentageTotal", "", 1.0),
    ("Read from disks, MB a second", "Disk", "DiskReadBytesPerSecond", 1e-6),
    ("Received from the network, MB a second", "Algorithm", "ReceiveBytesPerSecond", 1e-6),
)


@dataclass(frozen=True, eq=False)
class MachineCurve:
    """One metric of one device over the steps that were being made.

    title    the metric, with its unit, and the device where several have it
    steps    int64 of shape (n,), ascending; several samples may share a step
    values   float64 of shape (n,)
    """

    title: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]


def machine_curves(trial: Trial, steps: tuple[int, int]) -> Iterator[tuple[str, Buckets]]:
    """Yield (title, numbers) of each metric of each machine over these training steps; see `machine_samples`."""
    edges = edges_of(*steps, MOST_BUCKETS)
    for one in machine_samples(trial, steps):
        yield one.title, bucketed(one.steps, one.values, edges)


def machine_samples(trial: Trial, steps: tuple[int, int], *, node: str = "") -> Iterator[MachineCurve]:
    """Yield the samples of each metric of each machine at these training steps.

    A sample belongs to the step that was being made: several may share one step, or one step in ten may have one.

    Args:
        trial: The run.
        steps: First and last step to show.
        node: Name of the machine; "" for all.
    """
    workers = trial.workers
    if not workers or trial.recorded_through < 0:
        return
    profile = trial.profile
    found = [
        (
            factor,
            _labelled(
                title,
                [each for each in profile.machine(one, name=name, until=math.inf) if node in {"", each.node}],
            ),
        )
        for title, one, name, factor in _METRICS
    ]
    times = np.unique(np.concatenate([np.empty(0), *(one.times for _, some in found for one in some.values())]))
    being_made = _steps_of(times, trial.parts.steps.moments(workers[0])) if len(times) else None
    if being_made is None:
        return
    for factor, some in found:
        for label, one in some.items():
            at = being_made[np.searchsorted(times, one.times)]
            first, end = np.searchsorted(at, (steps[0], steps[1] + 1))
            values = one.values[first:end] * factor
            if np.any(values >= LEAST_SHOWN):
                yield MachineCurve(label, at[first:end], values)


def core_maps(trial: Trial, steps: tuple[int, int]) -> Iterator[Heatmap]:
    """Yield the use of the cores and GPUs of each machine over these training steps, `MOST_CORE_ROWS` rows at most."""
    profile = trial.profile
    found = [one for name in OF_A_CORE for one in profile.machine(name, name="", until=math.inf)]
    nodes = sorted({one.node for one in found})
    for node in nodes[:MOST_MACHINES]:
        cores = core_map(trial, [one for one in found if one.node == node], steps, most_rows=MOST_CORE_ROWS)
        if cores is not None:
            yield replace(cores, title=f"{cores.title}: {node}") if len(nodes) > 1 else cores


def core_map(
    trial: Trial,
    cores: Sequence[MachineMetric | MachineSeries],
    steps: tuple[int, int],
    *,
    most_rows: int = MOST_ROWS,
) -> Heatmap | None:
    """Return the use of each core over these training steps, the largest of each column; None without a sample.

    Args:
        trial: The run.
        cores: The use of each in percent, those of one machine.
        steps: First and last step to show.
        most_rows: Rows to show. Of more cores, neighbours share a row, which shows the busiest of them.
    """
    times = np.unique(np.concatenate([np.empty(0), *(one.times for one in cores)]))
    if not (len(times) and trial.workers and trial.recorded_through >= 0):
        return None
    being_made = _steps_of(times, trial.parts.steps.moments(trial.workers[0]))
    if being_made is None:
        return None
    edges = edges_of(*steps, MOST_COLUMNS)
    rows = _rows_of(sorted(cores, key=_in_order), most_rows)
    values = np.full((len(rows), len(edges) - 1), np.nan)
    for row, together in enumerate(rows):
        for one in together:
            at = being_made[np.searchsorted(times, one.times)]
            places = np.searchsorted(edges, at, side="right") - 1
            is_inside = (at >= steps[0]) & (at <= steps[1])
            np.fmax.at(values[row], places[is_inside], one.values[is_inside])
    if not np.isfinite(values).any():
        return None
    names = tuple(some[0].name if len(some) == 1 else f"{some[0].name} to {some[-1].name}" for some in rows)
    return Heatmap("Cores in use, %", names, edges, values, np.isinf(values), scale=(0.0, 100.0))


def _rows_of(
    cores: Sequence[MachineMetric | MachineSeries], most_rows: int
) -> list[Sequence[MachineMetric | MachineSeries]]:
    """Return cores in rows: of the most numerous kind neighbours together, as few in a row as its number allows."""
    kinds = [list(some) for _, some in itertools.groupby(cores, key=_kind)]
    most = max(kinds, key=len, default=[])
    room = max(1, most_rows - (len(cores) - len(most)))  # GPUs have a row each
    width = -(-len(most) // room)
    rows: list[Sequence[MachineMetric | MachineSeries]] = []
    for kind in kinds:
        together = width if kind is most else 1
        rows += [kind[first : first + together] for first in range(0, len(kind), together)]
    return rows


def _kind(one: MachineMetric | MachineSeries) -> str:
    return one.name.rstrip("0123456789")


def _in_order(one: MachineMetric | MachineSeries) -> tuple[str, int, str]:
    """Order `cpu10` behind `cpu9`, and GPUs behind processors."""
    word = _kind(one)
    return word, int(one.name[len(word) :] or 0), one.name


def _labelled(title: str, series: Sequence[MachineSeries]) -> Mapping[str, MachineSeries]:
    """Return each series by its title, with the machine or the device where several have one."""
    several_nodes, several_devices = (len({part(one) for one in series}) > 1 for part in (_node, _device))
    found = {}
    for one in series[:MOST_DEVICES]:
        words = [word for word, is_needed in ((one.node, several_nodes), (one.name, several_devices)) if is_needed]
        found[f"{title}: {' '.join(words)}" if words else title] = one
    return found


def _node(series: MachineSeries) -> str:
    return series.node


def _device(series: MachineSeries) -> str:
    return series.name


def _steps_of(
    times: NDArray[np.float64], moments: Iterable[tuple[NDArray[np.int64], NDArray[np.float64]]]
) -> NDArray[np.int64] | None:
    """Return the step that was being made at each moment: -1 before the first one ended, one more after the last.

    None if no step is known.

    Args:
        times: Ascending.
        moments: Steps and their ends, a piece at a time; the pieces follow one another.
    """
    found, done, last = np.full(len(times), -1, np.int64), -1, None
    for steps, ends in moments:
        if last is None:
            done = int(np.searchsorted(times, ends[0], side="right"))
        until = max(done, int(np.searchsorted(times, ends[-1], side="right")))
        found[done:until] = steps[np.minimum(np.searchsorted(ends, times[done:until], side="left"), len(steps) - 1)]
        done, last = until, int(steps[-1])
    if last is None:
        return None
    found[done:] = last + 1
    return found
