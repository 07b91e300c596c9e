"""One machine of a run: the use of its cores, and its metrics, from the samples beside the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trackside.contracts.errors import RunNotFoundError
from trackside.speed.performance.profile import Profile
from trackside.trial.trial import Trial
from trackside.views.report.charts.heatmap import Heatmap
from trackside.views.report.machine import OF_A_CORE, MachineCurve, core_map, machine_samples


@dataclass(frozen=True, eq=False)
class MachineView:
    """One machine of a run at the chosen steps.

    nodes   names of all machines, in order
    node    name of the one that is shown; "" without any
    cores   use of its cores and GPUs; None without a sample
    curves  its metrics
    """

    nodes: Sequence[str]
    node: str
    cores: Heatmap | None
    curves: Sequence[MachineCurve]


def machine_view(uri: str, trial: Trial, steps: tuple[int, int] | None, wanted: str) -> MachineView:
    """Return one machine.

    Args:
        uri: The location of the run.
        trial: The same run.
        steps: First and last step to show; None for a run without any.
        wanted: Name of the machine; "" for the first one.

    Raises:
        RunNotFoundError: No sample of a machine with this name was recorded.
        StorageError: The store cannot be read.
    """
    metrics = [one for one in Profile(uri, trial).metrics() if one.dimension in OF_A_CORE]
    nodes = tuple(sorted({one.node for one in metrics}))
    if wanted and wanted not in nodes:
        raise RunNotFoundError(f"No sample of a machine {wanted!r} was recorded.")
    node = wanted or next(iter(nodes), "")
    if steps is None:
        return MachineView(nodes, node, None, ())
    cores = core_map(trial, [one for one in metrics if one.node == node], steps)
    return MachineView(nodes, node, cores, tuple(machine_samples(trial, steps, node=node)))
