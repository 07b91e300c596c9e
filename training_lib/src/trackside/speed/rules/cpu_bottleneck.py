"""cpu-bottleneck: processors are busy while a GPU is idle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.rule import parameter
from trackside.speed.speed_rule import (
    AMAZONS_TOO,
    CPU,
    GPU,
    SpeedRule,
    Values,
    amazons,
    at_times,
    device_of,
    found_in,
    of_processors,
)
from trackside.trial.window import Window


@dataclass(frozen=True)
class CpuBottleneck(SpeedRule):
    """A GPU is idle while the processors of its machine are busy.

    Why it matters:
        The GPU is the dear part of the machine, and waits for batches or launches that the processors cannot make fast
        enough. More of the same GPUs would make nothing faster.

    How it decides:
        For each GPU, once it has `patience` samples:

        1. A sample is a bottleneck if the processors are used above `cpu_threshold` percent while the GPU is used
           below `gpu_threshold` percent.
        2. It fires where bottlenecks are more than `threshold` percent of all samples.

        SageMaker Debugger's rule of this name decides alike.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        import numpy as np
        from trackside.speed.rules.cpu_bottleneck import share_of_bottlenecks

        cpu, gpu = np.array([95.0, 95.0, 95.0, 20.0]), np.array([5.0, 5.0, 90.0, 5.0])
        assert share_of_bottlenecks(cpu, gpu, busy=90, idle=10) == 0.5
        ```

    References:
        - Amazon SageMaker Debugger, built-in profiler rule CPUBottleneck.
    """

    rule_id = "cpu-bottleneck"
    code = "TS402"
    likely_causes = (Cause.BUSY_HOST, Cause.SLOW_INPUT)
    presets = AMAZONS_TOO
    preset_defaults = amazons(patience=(1000, 100))
    what_to_do = (
        "Look at `trackside profile` for the line that the training waits at.",
        "Fetch batches in DataLoader workers, and decode data once and store the result.",
        "Take a machine with more processors for each GPU.",
    )

    threshold: float = parameter(50.0, "percent of samples that are bottlenecks", minimum=0, maximum=100)
    gpu_threshold: float = parameter(10.0, "percent below which a GPU is idle", minimum=0, maximum=100)
    cpu_threshold: float = parameter(90.0, "percent above which processors are busy", minimum=0, maximum=100)
    patience: int = parameter(240, "samples before it judges", minimum=1)  # type: ignore[misc]  # Amazon's name

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each GPU."""
        processors = of_processors(window, CPU)
        for gpu in window.machine(GPU):
            if len(gpu.values) < self.patience or gpu.node not in processors:
                continue
            cpu = at_times(processors[gpu.node], gpu.times)
            share = share_of_bottlenecks(cpu, gpu.values, busy=self.cpu_threshold, idle=self.gpu_threshold)
            if 100 * share > self.threshold:
                yield found_in(
                    window,
                    device_of(gpu),
                    measure="share of samples with busy processors and this GPU idle",
                    observed=share,
                    threshold=self.threshold / 100,
                    since=window.profile.step_at(float(gpu.times[0])),
                )

    def lacks(self, window: Window) -> str:
        """Name the missing input: samples of a GPU, or enough of them."""
        return self.lacks_samples(window, GPU, self.patience)


def share_of_bottlenecks(cpu: Values, gpu: Values, *, busy: float, idle: float) -> float:
    """Return the share of samples with the processors above `busy` and the GPU below `idle`."""
    return float(np.mean((cpu > busy) & (gpu < idle)))
