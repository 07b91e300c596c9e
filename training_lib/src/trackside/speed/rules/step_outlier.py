"""step-outlier: single steps take much longer than the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import Suspect
from trackside.rules.details import Details
from trackside.rules.rule import parameter
from trackside.situation.constants import A_HAIR, ENOUGH_STEPS
from trackside.speed.speed_rule import AMAZONS_TOO, STEPS, SpeedRule, Values, amazons, found_in, step_times
from trackside.trial.window import Window


@dataclass(frozen=True)
class Slow(Details):
    """Details of a finding.

    lost_percent     share of the time that slow steps took beyond the usual
    slowest_step     the slowest step
    slowest_seconds  its seconds
    usual_seconds    median seconds of a step
    """

    lost_percent: float = 0.0
    slowest_step: int = 0
    slowest_seconds: float = 0.0
    usual_seconds: float = 0.0


def _garbage(known: Known) -> Answer:
    """Return the collections of garbage, if they take half of the pauses."""
    facts = known.window.speed_facts.get(known.lead.worker) if known.findings else None
    garbage = facts.garbage if facts is not None else None
    if garbage is None or 2 * garbage.count < known.lead.observed:
        return False
    is_long = 2 * garbage.longest_seconds >= Slow.of(known.lead).slowest_seconds
    return is_long and f"Python collected all garbage {garbage.count} times in these steps, for {garbage.seconds:.3g} s"


@dataclass(frozen=True)
class StepOutlier(SpeedRule):
    """Single steps take much longer than the others.

    Why it matters:
        Garbage collection, a checkpoint, a log that is flushed, or a neighbour on the machine stops the training for a
        moment, again and again. The mean step hides it, and the sum may be a good part of the bill.

    How it decides:
        For each worker, over all its training steps so far without the first, evaluations, and our own cost, once they
        are 30:

        1. A step is an outlier if it took longer than the mean by `stddev` standard deviations, and than the median by
           `milliseconds`: an evaluation by hand of a few milliseconds is no pause.
        2. It fires where more than `n_outliers` steps are outliers, and they took more than `least_share` of all time
           beyond what as many usual steps would have taken.

        `mode` "EVAL" looks at no step: only those of the training are timed. SageMaker Debugger's rule of this name
        lacks `milliseconds` and `least_share`, which are 0 in its presets: in a long run some steps are always
        outliers.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        import numpy as np
        from trackside.speed.rules.step_outlier import outliers_of

        seconds = np.full(100, 0.01)
        seconds[[20, 60]] = 0.5
        assert outliers_of(seconds, stddev=3).tolist() == [20, 60]
        assert len(outliers_of(np.full(100, 0.01), stddev=3)) == 0
        ```

    References:
        - Amazon SageMaker Debugger, built-in profiler rule StepOutlier.
    """

    rule_id = "step-outlier"
    code = "TS411"
    only_of = ("pytorch", "keras")
    likely_causes = (Cause.PAUSES,)
    suspects = (Suspect(Cause.PAUSES, _garbage), Suspect(Cause.PAUSES))
    presets = AMAZONS_TOO
    preset_defaults = amazons(stddev=(3.0, 5.0), least_share=(0.0, 0.0), milliseconds=(0.0, 0.0))
    what_to_do = (
        "Look at what runs only every so many steps: checkpoints, logging, gc.collect().",
        "Freeze or tune garbage collection: gc.freeze() before the loop, gc.set_threshold(...).",
    )

    stddev: float = parameter(3.0, "standard deviations beyond the mean that make an outlier", minimum=0)
    mode: str = parameter("", "mode of the steps: TRAIN, EVAL, or nothing for all that are timed")
    n_outliers: int = parameter(10, "outliers that are allowed", minimum=0)
    least_share: float = parameter(0.05, "share of the time that outliers cost, at the least", minimum=0, maximum=1)

    milliseconds: float = parameter(10.0, "milliseconds beyond a usual step that make an outlier, at least", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each worker."""
        if self.mode.upper() not in {"", "TRAIN"}:
            return
        for times in step_times(window):
            if len(times.steps) < ENOUGH_STEPS:
                continue
            total, usual = float(times.seconds.sum()), float(np.median(times.seconds))
            places = outliers_of(times.seconds, stddev=self.stddev)
            places = places[times.seconds[places] >= usual + self.milliseconds / 1000]
            lost = float((times.seconds[places] - usual).sum()) / total if total > 0 else 0.0
            if len(places) > self.n_outliers and lost >= self.least_share:
                slowest = places[np.argmax(times.seconds[places])]
                yield found_in(
                    window,
                    STEPS,
                    measure="steps that took much longer than the others",
                    observed=len(places),
                    threshold=self.n_outliers,
                    since=int(times.steps[places[0]]),
                    worker=times.worker,
                    statistics=Slow(
                        100 * lost, int(times.steps[slowest]), float(times.seconds[slowest]), usual
                    ).numbers(),
                )

    def lacks(self, window: Window) -> str:
        """Name the missing input: timed steps of the mode."""
        if self.mode.upper() not in {"", "TRAIN"}:
            return f"timed steps of mode {self.mode.upper()}; only steps of the training are timed"
        count = max((len(times.steps) for times in step_times(window)), default=0)
        return "" if count >= ENOUGH_STEPS else f"{ENOUGH_STEPS} timed steps; the run has {count}"


def outliers_of(seconds: Values, *, stddev: float) -> NDArray[np.intp]:
    """Return the places of the values beyond the mean by more than `stddev` standard deviations."""
    return np.flatnonzero(seconds > seconds.mean() + stddev * seconds.std() + A_HAIR)
