"""host-memory-increase: the memory of the training's processes rises without end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.rule import parameter
from trackside.situation.constants import PARTS_OF_A_RUN
from trackside.speed.speed_rule import NO_SAMPLES, SpeedRule, Values, found_in
from trackside.trial.window import Window

MEMORY = "ProcessMemoryBytes"


@dataclass(frozen=True)
class HostMemoryIncrease(SpeedRule):
    """The memory of the training's processes rises, and never falls.

    Why it matters:
        A list of losses with their graphs, a cache without a limit, or a worker that copies its data set grows until
        the kernel ends the training, mostly at night.

    How it decides:
        Over the samples of the second half of the run so far, once that half lasts `seconds`:

        1. It is divided into ten blocks, and each has the median of its samples.
        2. It fires where the last block is higher than the first by more than `increase` MiB and by more than `share`
           of the first, and nine of ten blocks are not below the one before.

        The first half is left out: data are loaded and caches are filled.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        import numpy as np
        from trackside.speed.rules.host_memory_increase import rise_of

        assert rise_of(np.linspace(1e9, 2e9, 100)) > 0.4e9
        assert rise_of(np.full(100, 1e9)) == 0.0
        ```

    References:
        - PyTorch, FAQ, "My model reports cuda runtime error: out of memory": do not accumulate history.
    """

    rule_id = "host-memory-increase"
    code = "TS408"
    likely_causes = (Cause.KEPT_MEMORY,)
    what_to_do = (
        "Append loss.item() to lists, not the loss: a loss keeps the graph of its step.",
        "Bound caches, and empty lists that only grow.",
        "Keep arrays, not lists of Python objects, in a data set that workers copy.",
    )

    increase: float = parameter(100.0, "MiB by which memory may rise", minimum=0)
    share: float = parameter(0.05, "share by which memory may rise", minimum=0, maximum=1)
    seconds: float = parameter(60.0, "seconds of samples that are looked at, at the least", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each machine."""
        for memory in window.machine(MEMORY):
            half = len(memory.values) // 2
            values, times = memory.values[half:], memory.times[half:]
            if len(values) < 2 * PARTS_OF_A_RUN or times[-1] - times[0] < self.seconds:
                continue
            rise = rise_of(values)
            limit = max(self.increase * 2**20, self.share * float(values[0]))
            if rise > limit:
                yield found_in(
                    window,
                    f"the training on {memory.node}",
                    measure="rise of its memory, MiB",
                    observed=rise / 2**20,
                    threshold=limit / 2**20,
                    since=window.profile.step_at(float(times[0])),
                    statistics={"mib_an_hour": 3600 * rise / 2**20 / float(times[-1] - times[0])},
                )

    def lacks(self, window: Window) -> str:
        """Name the missing input: samples of the training's processes, for long enough."""
        spans = [float(s.times[-1] - s.times[0]) for s in window.machine(MEMORY)]
        if not spans:
            return NO_SAMPLES
        needed = 2 * self.seconds
        return "" if max(spans) >= needed else f"{needed:.0f} s of samples; the run has {max(spans):.0f} s"


def rise_of(values: Values) -> float:
    """Return the rise from the first block to the last; 0 if memory fell in between."""
    medians = np.array([np.median(block) for block in np.array_split(values, PARTS_OF_A_RUN)])
    falls = int((np.diff(medians) < 0).sum())
    return max(0.0, float(medians[-1] - medians[0])) if falls <= 1 else 0.0
