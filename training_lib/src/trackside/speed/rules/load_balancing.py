"""load-balancing: the GPUs of a training are used unevenly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.rule import parameter
from trackside.situation.constants import PARTS_OF_A_RUN
from trackside.speed.speed_rule import AMAZONS_TOO, GPU, NO_GPU, SpeedRule, Values, amazons, device_of, found_in
from trackside.trial.window import Window


@dataclass(frozen=True)
class LoadBalancing(SpeedRule):
    """The GPUs of the training are used unevenly.

    Why it matters:
        Data-parallel training goes on at the pace of its slowest device. GPUs that are used less than the others wait
        for them, or were never given any work at all.

    How it decides:
        Once each GPU has `patience` samples:

        1. The utilisation of each GPU is a histogram of ten bins of 10 % each, as shares of its samples.
        2. The distance of two GPUs is half the sum of the differences of their bins: 0 for the same use, 1 for none in
           common.
        3. It fires for the GPU with the greatest median distance to the others, where that is above `threshold`.

        Amazon documents that its rule of this name compares histograms, and not how it measures the distance.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        import numpy as np
        from trackside.speed.rules.load_balancing import distance

        busy, idle = np.full(100, 95.0), np.zeros(100)
        assert distance(busy, idle) == 1.0
        assert distance(busy, busy) == 0.0
        ```

    References:
        - Amazon SageMaker Debugger, built-in profiler rule LoadBalancing.
    """

    rule_id = "load-balancing"
    code = "TS405"
    likely_causes = (Cause.UNEVEN_WORK,)
    presets = AMAZONS_TOO
    preset_defaults = amazons(patience=(1000, 10))
    what_to_do = (
        "Check that every rank has its own GPU: torch.cuda.set_device(local_rank).",
        "Give every rank batches of the same size, and sort by length within a batch only.",
        "Use DistributedDataParallel instead of torch.nn.DataParallel.",
    )

    threshold: float = parameter(0.5, "distance of histograms, from 0 to 1", minimum=0, maximum=1)
    patience: int = parameter(240, "samples of each GPU before it judges", minimum=1)  # type: ignore[misc]  # Amazon's name

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding about the GPU that is used least like the others."""
        gpus = window.machine(GPU)
        if len(gpus) < 2 or any(len(gpu.values) < self.patience for gpu in gpus):
            return
        middles = [
            float(np.median([distance(gpu.values, other.values) for other in gpus if other is not gpu])) for gpu in gpus
        ]
        worst = int(np.argmax(middles))
        if len(gpus) == 2:  # equally far from one another: the one that is used less
            worst = int(np.argmin([gpu.values.mean() for gpu in gpus]))
        if middles[worst] > self.threshold:
            yield found_in(
                window,
                device_of(gpus[worst]),
                measure="distance of its use from that of the other GPUs",
                observed=middles[worst],
                threshold=self.threshold,
                since=window.profile.step_at(float(gpus[worst].times[0])),
                statistics={"mean_utilisation": float(gpus[worst].values.mean())},
            )

    def lacks(self, window: Window) -> str:
        """Name the missing input: samples of two GPUs, or enough of them."""
        counts = [len(series.values) for series in window.machine(GPU)]
        if not counts:
            return NO_GPU
        if len(counts) < 2:
            return "two GPUs; the run has one"
        return "" if min(counts) >= self.patience else f"{self.patience} samples of each GPU; one has {min(counts)}"


def distance(one: Values, other: Values) -> float:
    """Return the distance of two histograms of utilisation, from 0 to 1."""
    shares = [np.histogram(values, bins=PARTS_OF_A_RUN, range=(0, 100))[0] / len(values) for values in (one, other)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)
