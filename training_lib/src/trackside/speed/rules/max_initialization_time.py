"""max-initialization-time: the first step came late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.rule import parameter
from trackside.speed.speed_rule import AMAZONS_TOO, CPU, NO_SAMPLES, STEPS, SpeedRule, amazons, found_in, of_processors
from trackside.trial.window import Window


@dataclass(frozen=True)
class MaxInitializationTime(SpeedRule):
    """The training needed a long time before its first step.

    Why it matters:
        Downloads, decoding a data set and compiling a model are paid like the training itself, at each start and at
        each restart after an interruption.

    How it decides:
        1. The time before the first step is that from the first sample of the machine, which `trackside run` takes a
           second after the start, to the end of the first step.
        2. It fires where it is above `threshold` minutes.

        It judges when the first step has come; a training that never comes so far has no step to judge. SageMaker
        Debugger's rule of this name has the same threshold.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        from trackside.speed.rules.max_initialization_time import minutes_between

        assert minutes_between(1000.0, 1600.0) == 10.0
        ```

    References:
        - Amazon SageMaker Debugger, built-in profiler rule MaxInitializationTime.
    """

    rule_id = "max-initialization-time"
    code = "TS412"
    likely_causes = (Cause.SLOW_START,)
    presets = AMAZONS_TOO
    preset_defaults = amazons()
    what_to_do = (
        "Store data as the training reads them, and download while the model is built.",
        "Keep compiled models in a cache that outlives the job.",
    )

    threshold: float = parameter(20.0, "minutes before the first step", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding about the start."""
        first_end = window.profile.first_end()
        starts = [float(series.times[0]) for series in of_processors(window, CPU).values()]
        if first_end is None or not starts:
            return
        minutes = minutes_between(min(starts), first_end)
        if minutes > self.threshold:
            yield found_in(
                window, STEPS, measure="minutes before the first step", observed=minutes, threshold=self.threshold
            )

    def lacks(self, window: Window) -> str:
        """Name the missing input: samples of the machine, and timed steps."""
        if not of_processors(window, CPU):
            return NO_SAMPLES
        return "" if window.profile.first_end() is not None else "recorded steps"


def minutes_between(start: float, end: float) -> float:
    """Return the minutes between two moments in seconds."""
    return (end - start) / 60
