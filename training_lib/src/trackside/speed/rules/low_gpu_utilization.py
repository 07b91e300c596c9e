"""low-gpu-utilization: a GPU is used little, or by fits and starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.rule import parameter
from trackside.speed.speed_rule import AMAZONS_TOO, GPU, SpeedRule, Values, amazons, device_of, found_in
from trackside.trial.window import Window


@dataclass(frozen=True)
class LowGpuUtilization(SpeedRule):
    """A GPU is used little, or its use goes up and down.

    Why it matters:
        The hours of a GPU are paid whether it computes or not. Use that stays low asks for larger batches or a smaller
        machine; use that goes up and down shows that the GPU waits for something between two bursts of work.

    How it decides:
        For each GPU, once it has `patience` samples, over its newest `window` samples:

        1. It is used too little where the 95th percentile of its utilisation is below `threshold_p95` percent.
        2. Its use goes up and down where that percentile is above `threshold_p95` and the 5th one is below
           `threshold_p5` percent.

        Utilisation is the share of time in which any kernel ran: a GPU at 100 % may still compute little. SageMaker
        Debugger's rule of this name decides alike.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        import numpy as np
        from trackside.speed.rules.low_gpu_utilization import kind_of

        assert kind_of(np.full(100, 30.0), p95=70, p5=10) == "little"
        assert kind_of(np.tile([0.0, 95.0], 50), p95=70, p5=10) == "up and down"
        assert kind_of(np.full(100, 95.0), p95=70, p5=10) == ""
        ```

    References:
        - Amazon SageMaker Debugger, built-in profiler rule LowGPUUtilization.
    """

    rule_id = "low-gpu-utilization"
    code = "TS404"
    likely_causes = (Cause.BUSY_HOST, Cause.SLOW_INPUT, Cause.SMALL_BATCHES)
    presets = AMAZONS_TOO
    preset_defaults = amazons(patience=(1000, 1000))
    what_to_do = (
        "Look at `trackside profile`: a wait for data, a copy, or Python between the kernels.",
        "Try a larger batch, or a smaller machine.",
    )

    threshold_p95: float = parameter(70.0, "percent that the 95th percentile should reach", minimum=0, maximum=100)
    threshold_p5: float = parameter(10.0, "percent that the 5th percentile should reach", minimum=0, maximum=100)
    window: int = parameter(500, "newest samples that are looked at", minimum=1)
    patience: int = parameter(240, "samples before it judges", minimum=1)  # type: ignore[misc]  # Amazon's name

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each GPU."""
        for gpu in window.machine(GPU):
            if len(gpu.values) < self.patience:
                continue
            newest = gpu.values[-self.window :]
            kind = kind_of(newest, p95=self.threshold_p95, p5=self.threshold_p5)
            if kind:
                is_little = kind == "little"
                yield found_in(
                    window,
                    device_of(gpu),
                    measure=f"{95 if is_little else 5}th percentile of its utilisation in %",
                    observed=float(np.percentile(newest, 95 if is_little else 5)),
                    relation="<",
                    threshold=self.threshold_p95 if is_little else self.threshold_p5,
                    since=window.profile.step_at(float(gpu.times[-len(newest)])),
                )

    def lacks(self, window: Window) -> str:
        """Name the missing input: samples of a GPU, or enough of them."""
        return self.lacks_samples(window, GPU, self.patience)


def kind_of(values: Values, *, p95: float, p5: float) -> str:
    """Return "little" or "up and down" for low use of a GPU; "" if it is used well."""
    low, high = np.percentile(values, [5, 95])
    if high < p95:
        return "little"
    return "up and down" if high > p95 and low < p5 else ""
