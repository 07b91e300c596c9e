"""io-bottleneck: processors wait for a disk, while a GPU is idle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.rule import parameter
from trackside.situation.constants import NEGLIGIBLE_SHARE, SHORT_STRETCH, VALUES_OF_A_LEVEL
from trackside.speed.speed_rule import (
    AMAZONS_TOO,
    DATA,
    GPU,
    IO_WAIT,
    NO_SAMPLES,
    SpeedRule,
    Values,
    amazons,
    at_times,
    device_of,
    found_in,
    of_processors,
    step_times,
)
from trackside.trial.window import MachineSeries, Window

DISK_WAITS = "ProcessesInDiskWait"


@dataclass(frozen=True)
class IoBottleneck(SpeedRule):
    """The processors wait for a disk, and the GPU is idle meanwhile.

    Why it matters:
        A network file system or a full disk gives every batch later than the training could use it, and no number of
        workers helps once the disk is at its limit.

    How it decides:
        For each GPU, or for each machine without one, once it has `patience` samples:

        1. A sample is a bottleneck if the processors wait for a disk for more than `io_threshold` percent of their time
           while the GPU is used below `gpu_threshold` percent. Without a GPU the wait alone counts.
        2. It fires where bottlenecks are more than `threshold` percent of all samples.
        3. It fires too where a process of the training itself waits for a disk in more than `process_threshold` percent
           of the samples of its processes, once they are 10, and the training waits for batches for a tenth of its
           steps, or has no DataLoader. Processors that are many, or busy with other work, do not show such a wait.
           The share is of the time in which other work did not keep the training from a processor, and of five
           samples at least.

        SageMaker Debugger's rule of this name decides by the first two, on machines with a GPU.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        import numpy as np
        from trackside.speed.rules.io_bottleneck import share_of_waits

        waits, gpu = np.array([60.0, 60.0, 60.0, 0.0]), np.array([5.0, 5.0, 90.0, 5.0])
        assert share_of_waits(waits, gpu, waiting=50, idle=10) == 0.5
        assert share_of_waits(waits, None, waiting=50, idle=10) == 0.75
        ```

    References:
        - Amazon SageMaker Debugger, built-in profiler rule IOBottleneck.
    """

    rule_id = "io-bottleneck"
    code = "TS403"
    likely_causes = (Cause.BUSY_DISK, Cause.SLOW_INPUT)
    presets = AMAZONS_TOO
    preset_defaults = amazons(patience=(1000, 1000), gpu_threshold=(10.0, 70.0), process_threshold=(0.0, 0.0))
    what_to_do = (
        "Copy the data to a local disk before the training.",
        "Read few large files instead of many small ones, or keep decoded data in memory.",
        "Write checkpoints less often, or in another thread.",
    )

    threshold: float = parameter(50.0, "percent of samples that are bottlenecks", minimum=0, maximum=100)
    gpu_threshold: float = parameter(10.0, "percent below which a GPU is idle", minimum=0, maximum=100)
    io_threshold: float = parameter(50.0, "percent of the processors' time in waits", minimum=0, maximum=100)
    process_threshold: float = parameter(
        40.0, "percent of samples in which the training waits for a disk; 0: do not look", minimum=0, maximum=100
    )
    patience: int = parameter(240, "samples before it judges", minimum=1)  # type: ignore[misc]  # Amazon's name

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each GPU, or for each machine without one."""
        for subject, waits, gpu in self._devices(window):
            if len(waits.values) < self.patience:
                continue
            busy = None if gpu is None else gpu.values
            share = share_of_waits(waits.values, busy, waiting=self.io_threshold, idle=self.gpu_threshold)
            if 100 * share > self.threshold:
                yield found_in(
                    window,
                    subject,
                    measure="share of samples in which processors wait for a disk",
                    observed=share,
                    threshold=self.threshold / 100,
                    since=window.profile.step_at(float(waits.times[0])),
                )

        yield from self._own_waits(window)

    def _own_waits(self, window: Window) -> Iterator[Finding]:
        """Yield a finding for each machine on which processes of the training wait for a disk."""
        if not self.process_threshold or not is_waiting_for_data(window):
            return
        starved = min((times.waited_share for times in step_times(window)), default=0.0)
        for waits in window.machine(DISK_WAITS):
            if len(waits.values) >= VALUES_OF_A_LEVEL:
                share = share_of_own(int(np.sum(waits.values > 0)), len(waits.values), starved=starved)
                if 100 * share > self.process_threshold:
                    yield found_in(
                        window,
                        f"the training on {waits.node}",
                        measure="share of samples in which the training waits for a disk",
                        observed=share,
                        threshold=self.process_threshold / 100,
                        since=window.profile.step_at(float(waits.times[0])),
                    )

    def lacks(self, window: Window) -> str:
        """Name the missing input: enough samples of the machine."""
        own = [len(waits.values) for waits in window.machine(DISK_WAITS)] if self.process_threshold else []
        if max(own, default=0) >= VALUES_OF_A_LEVEL:
            return ""
        counts = [len(waits.values) for _, waits, _ in self._devices(window)]
        if not counts:
            return NO_SAMPLES
        return "" if max(counts) >= self.patience else f"{self.patience} samples; the run has {max(counts)}"

    def _devices(self, window: Window) -> Iterator[tuple[str, MachineSeries, MachineSeries | None]]:
        """Yield the name of each device, the waits of its machine at its samples, and the use of the GPU."""
        gpus = window.machine(GPU)
        for node, waits in of_processors(window, IO_WAIT).items():
            own = [gpu for gpu in gpus if gpu.node == node]
            for gpu in own:
                at_gpu = MachineSeries(node, waits.name, gpu.times, at_times(waits, gpu.times))
                yield device_of(gpu), at_gpu, gpu
            if not own:
                yield node, waits, None


def is_waiting_for_data(window: Window) -> bool:
    """Return True if a worker waits for batches for a tenth of its steps, or has no DataLoader."""
    return any(DATA not in times.phases or times.share_of(DATA) >= NEGLIGIBLE_SHARE for times in step_times(window))


def share_of_own(in_wait: int, samples: int, *, starved: float) -> float:
    """Return the share of samples in a wait for a disk, of those in which other work did not hold the training up.

    Args:
        in_wait: Number of samples in a wait; fewer than five are no share.
        samples: Number of all samples.
        starved: Share of the time in which other work held the training up.
    """
    return min(1.0, in_wait / max(1.0, samples * (1.0 - starved))) if in_wait >= SHORT_STRETCH else 0.0


def share_of_waits(waits: Values, gpu: Values | None, *, waiting: float, idle: float) -> float:
    """Return the share of samples with waits above `waiting`, and with the GPU, if any, below `idle`."""
    is_waiting = waits > waiting
    return float(np.mean(is_waiting if gpu is None else is_waiting & (gpu < idle)))
