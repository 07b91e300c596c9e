"""dataloader: a DataLoader has too few or too many workers for the machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.rule import parameter
from trackside.situation.constants import ENOUGH_WAITS
from trackside.speed.speed_rule import AMAZONS_TOO, DATA, SpeedRule, StepTimes, amazons, found_in, step_times
from trackside.trial.window import Window


@dataclass(frozen=True)
class Dataloader(SpeedRule):
    """A DataLoader has too few or too many workers for the processors of its machine.

    Why it matters:
        Too few workers leave processors idle while the training waits. Too many take processors from one another and
        from the training, and each holds its batches in memory.

    How it decides:
        For each DataLoader of the training:

        1. Its workers are a share of the processors that the training may use, in percent.
        2. Above `max_threshold` percent are too many.
        3. Below `min_threshold` percent are too few, if the training waits for batches for more than `least_wait`
           percent of its steps, and more than `milliseconds` a step: workers that keep up with it are enough. Waits are
           those of `data-starvation`, over 25 steps and more.

        SageMaker Debugger's rule does not look at waits: in its presets both are 0.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        from trackside.speed.rules.dataloader import percent_of_processors

        assert percent_of_processors(workers=2, processors=8) == 25.0
        ```

    References:
        - Amazon's smdebug_rulesconfig 1.0.1, profiler rule Dataloader: the two thresholds.
    """

    rule_id = "dataloader"
    code = "TS410"
    only_of = ("pytorch",)
    likely_causes = (Cause.SLOW_INPUT,)
    presets = AMAZONS_TOO
    preset_defaults = amazons(least_wait=(0.0, 0.0), milliseconds=(0.0, 0.0))
    what_to_do = (
        "Set num_workers to about the number of processors; `trackside profile` computes how many are of use.",
        "Set persistent_workers=True, so that workers are not started anew in each epoch.",
    )

    min_threshold: float = parameter(70.0, "percent of the processors that are enough workers", minimum=0)
    max_threshold: float = parameter(200.0, "percent of the processors that are too many workers", minimum=0)
    least_wait: float = parameter(10.0, "percent of a step in waits from which few are too few", minimum=0, maximum=100)
    milliseconds: float = parameter(1.0, "milliseconds a step below which a wait does not count", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each DataLoader."""
        waits = {times.worker: self._is_waiting(times) for times in step_times(window)}
        for worker, facts in sorted(window.speed_facts.items()):
            is_waiting = waits.get(worker)
            for loader in facts.loaders if facts.processors and is_waiting is not None else ():
                percent = percent_of_processors(workers=loader.workers, processors=facts.processors)
                is_few = percent < self.min_threshold and bool(is_waiting)
                if is_few or percent > self.max_threshold:
                    yield found_in(
                        window,
                        f"DataLoader of {loader.dataset}",
                        measure="workers as a part of the processors in %",
                        observed=percent,
                        relation="<" if is_few else ">",
                        threshold=self.min_threshold if is_few else self.max_threshold,
                        worker=worker,
                        place=loader.created_at or loader.looped_at,
                        statistics={"num_workers": loader.workers, "processors": facts.processors},
                    )

    def _is_waiting(self, times: StepTimes) -> bool:
        if self.least_wait and len(times.steps) < ENOUGH_WAITS:
            return False
        times = times.usual(DATA)
        milliseconds = 1000 * float(times.phases[DATA].mean()) if DATA in times.phases else 0.0
        return 100 * times.share_of(DATA) >= self.least_wait and milliseconds >= self.milliseconds

    def lacks(self, window: Window) -> str:
        """Name the missing input: a DataLoader, and timed steps."""
        if not any(facts.loaders for facts in window.speed_facts.values()):
            return "a DataLoader of PyTorch that the training uses"
        return "" if step_times(window) else "timed steps"


def percent_of_processors(*, workers: int, processors: int) -> float:
    """Return the workers as a part of the processors, in percent."""
    return 100.0 * workers / processors
