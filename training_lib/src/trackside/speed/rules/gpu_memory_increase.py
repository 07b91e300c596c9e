"""gpu-memory-increase: the memory of a GPU in use rises."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.rule import parameter
from trackside.speed.speed_rule import AMAZONS_TOO, GPU_MEMORY, SpeedRule, Values, amazons, device_of, found_in
from trackside.trial.window import Window


@dataclass(frozen=True)
class GpuMemoryIncrease(SpeedRule):
    """The memory of a GPU in use rises while the training goes on.

    Why it matters:
        Memory that rises ends in an error, hours after the line that causes it. The usual reason is a tensor that is
        kept together with the graph of its step.

    How it decides:
        For each GPU, once it has `patience` samples:

        1. The mean of its newest `window` samples of memory in use is compared with the mean of as many before them.
        2. It fires where the first is higher by more than `increase` percentage points.

        PyTorch keeps what it has allocated, so that a rise after the first minutes means that more is needed than
        before. SageMaker Debugger's rule of this name decides alike.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        import numpy as np
        from trackside.speed.rules.gpu_memory_increase import rise_of

        assert rise_of(np.array([40.0, 40.0, 50.0, 50.0]), window=2) == 10.0
        assert rise_of(np.array([40.0, 40.0, 50.0]), window=2) is None
        ```

    References:
        - Amazon SageMaker Debugger, built-in profiler rule GPUMemoryIncrease.
    """

    rule_id = "gpu-memory-increase"
    code = "TS406"
    likely_causes = (Cause.KEPT_MEMORY,)
    presets = AMAZONS_TOO
    preset_defaults = amazons(increase=(5.0, 10.0), patience=(1000, 100), window=(10, 500))
    what_to_do = (
        "Append loss.item() to lists, not the loss: a loss keeps the graph of its step.",
        "Evaluate under torch.no_grad() or torch.inference_mode().",
        "Pad or group batches of different length.",
    )

    increase: float = parameter(5.0, "percentage points by which the mean may rise", minimum=0, maximum=100)
    patience: int = parameter(600, "samples before it judges", minimum=1)  # type: ignore[misc]  # Amazon's name
    window: int = parameter(240, "samples of each of the two means", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each GPU."""
        for gpu in window.machine(GPU_MEMORY):
            rise = rise_of(gpu.values, window=self.window) if len(gpu.values) >= self.patience else None
            if rise is not None and rise > self.increase:
                yield found_in(
                    window,
                    device_of(gpu),
                    measure="rise of its memory in use in %",
                    observed=rise,
                    threshold=self.increase,
                    since=window.profile.step_at(float(gpu.times[-self.window])),
                    statistics={"newest_percent": float(gpu.values[-1])},
                )

    def lacks(self, window: Window) -> str:
        """Name the missing input: samples of a GPU's memory, or enough of them."""
        return self.lacks_samples(window, GPU_MEMORY, max(self.patience, 2 * self.window))


def rise_of(values: Values, *, window: int) -> float | None:
    """Return by how much the mean of the newest `window` values is above that of the ones before; None with too few."""
    if len(values) < 2 * window:
        return None
    return float(np.mean(values[-window:]) - np.mean(values[-2 * window : -window]))
