"""batch-size: GPU, its memory and the processors are all in little use."""

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
    GPU_MEMORY,
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
class BatchSize(SpeedRule):
    """GPU, GPU memory and processors are all in little use: a larger batch would fit.

    Why it matters:
        A GPU works on a batch in parallel. A batch that fills neither its processors nor its memory leaves most of it
        idle, and the training takes as many more steps as it could have larger ones.

    How it decides:
        For each GPU, once it has `patience` samples, over its newest `window` samples:

        1. the 95th percentile of its utilisation is below `gpu_threshold_p95`, and
        2. that of its memory in use is below `gpu_memory_threshold_p95`, and
        3. that of the processors of its machine is below `cpu_threshold_p95`; all in percent.

        A GPU that never was above 1 % of utilisation is not used by the training, and is silent. SageMaker Debugger's
        rule of this name decides alike.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        import numpy as np
        from trackside.speed.rules.batch_size import are_low

        idle, busy = np.full(100, 20.0), np.full(100, 95.0)
        assert are_low([(idle, 70), (idle, 70)])
        assert not are_low([(idle, 70), (busy, 70)])
        ```

    References:
        - Amazon SageMaker Debugger, built-in profiler rule BatchSize.
    """

    rule_id = "batch-size"
    code = "TS401"
    likely_causes = (Cause.SMALL_BATCHES,)
    presets = AMAZONS_TOO
    preset_defaults = amazons(patience=(1000, 100))
    what_to_do = (
        "Double the batch size until GPU memory or utilisation is full, and raise the learning rate with it.",
        "Look at `trackside profile` first: a training that waits for its data has an idle GPU too.",
    )

    cpu_threshold_p95: float = parameter(70.0, "percent of the processors", minimum=0, maximum=100)
    gpu_threshold_p95: float = parameter(70.0, "percent of the GPU's utilisation", minimum=0, maximum=100)
    gpu_memory_threshold_p95: float = parameter(70.0, "percent of the GPU's memory", minimum=0, maximum=100)
    patience: int = parameter(240, "samples before it judges", minimum=1)  # type: ignore[misc]  # Amazon's name
    window: int = parameter(500, "newest samples that are looked at", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each GPU."""
        processors = of_processors(window, CPU)
        memory = {(series.node, series.name): series for series in window.machine(GPU_MEMORY)}
        for gpu in window.machine(GPU):
            of_memory = memory.get((gpu.node, gpu.name))
            if len(gpu.values) < self.patience or of_memory is None or gpu.node not in processors:
                continue
            times, busy = gpu.times[-self.window :], gpu.values[-self.window :]
            series = [
                (busy, self.gpu_threshold_p95),
                (at_times(of_memory, times), self.gpu_memory_threshold_p95),
                (at_times(processors[gpu.node], times), self.cpu_threshold_p95),
            ]
            if busy.max() > 1 and are_low(series):
                yield found_in(
                    window,
                    device_of(gpu),
                    measure="95th percentile of its utilisation in %",
                    observed=float(np.percentile(busy, 95)),
                    relation="<",
                    threshold=self.gpu_threshold_p95,
                    since=window.profile.step_at(float(times[0])),
                    statistics={"gpu_memory_p95": float(np.percentile(series[1][0], 95))},
                )

    def lacks(self, window: Window) -> str:
        """Name the missing input: samples of a GPU, or enough of them."""
        return self.lacks_samples(window, GPU, self.patience)


def are_low(series: Iterable[tuple[Values, float]]) -> bool:
    """Return True if the 95th percentile of each series is below its limit."""
    return all(float(np.percentile(values, 95)) < limit for values, limit in series)
