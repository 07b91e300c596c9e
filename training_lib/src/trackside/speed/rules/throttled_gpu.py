"""throttled-gpu: a GPU lowers its clock against heat or a failing power supply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.rule import parameter
from trackside.situation.constants import THROTTLED_BITS
from trackside.speed.speed_rule import SpeedRule, Values, device_of, found_in
from trackside.trial.window import Window

REASONS = "GPUThrottleReasons"
# Bits of NVML's clocksThrottleReasons: hardware slowdown, thermal slowdown by driver and by hardware, power brake


@dataclass(frozen=True)
class ThrottledGpu(SpeedRule):
    """A GPU has lowered its clock against heat, or against its power supply.

    Why it matters:
        A GPU with a blocked fan or a hot neighbour computes at half its speed and reports no error, and in
        data-parallel training all other GPUs wait for it.

    How it decides:
        For each GPU, once it has that many, over its newest `samples` samples:

        1. A sample is throttled if NVML names one of four reasons: hardware slowdown, thermal slowdown by the driver
           or by the hardware, or the power brake of the machine.
        2. It fires where more than `threshold` percent of the samples are throttled.

        The limit of power that was set for the GPU (`SW power cap`) is the usual state of a GPU at full work, and does
        not count.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        import numpy as np
        from trackside.speed.rules.throttled_gpu import share_throttled

        assert share_throttled(np.array([0.0, 4.0, 32.0, 64.0])) == 0.5  # 4: the power limit that was set
        ```

    References:
        - NVIDIA, NVML API reference, nvmlClocksThrottleReasons.
    """

    rule_id = "throttled-gpu"
    code = "TS407"
    likely_causes = (Cause.THROTTLED,)
    what_to_do = (
        "Look at nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER, and at the airflow of the machine.",
        "In a cloud, change to another machine.",
    )

    threshold: float = parameter(20.0, "percent of samples that are throttled", minimum=0, maximum=100)
    samples: int = parameter(120, "newest samples that are looked at", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each GPU."""
        for gpu in window.machine(REASONS):
            share = share_throttled(gpu.values[-self.samples :])
            if len(gpu.values) >= self.samples and 100 * share > self.threshold:
                yield found_in(
                    window,
                    device_of(gpu),
                    measure="share of samples with a throttled clock",
                    observed=share,
                    threshold=self.threshold / 100,
                    since=window.profile.step_at(float(gpu.times[-self.samples])),
                )

    def lacks(self, window: Window) -> str:
        """Name the missing input: samples of a GPU, or enough of them."""
        return self.lacks_samples(window, REASONS, self.samples)


def share_throttled(reasons: Values) -> float:
    """Return the share of samples with a reason that does harm."""
    return float(np.mean((reasons.astype(np.int64) & THROTTLED_BITS) != 0))
