"""hang: no step for longer than the run's own past explains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import STEP_SECONDS
from trackside.contracts.verdict import Finding, FindingKind
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import Suspect
from trackside.rules.rule import parameter
from trackside.situation.constants import SHORT_STRETCH
from trackside.speed.speed_rule import STEPS, SpeedRule, found_in
from trackside.trial.window import Window


def _hanging_line(known: Known) -> Answer:
    facts = known.window.speed_facts.get(known.lead.worker) if known.findings else None
    hang = facts.hang if facts is not None else None
    return hang is not None and bool(hang.place) and f"{hang.place} in {hang.function}: {hang.code}"


@dataclass(frozen=True)
class Hang(SpeedRule):
    """No step has come for longer than the run's own past explains.

    Why it matters:
        A rank that waits for another, a data loader whose worker died, or a lock keeps the machine busy doing nothing.
        A fixed limit is either too short for the first evaluation or too long for the bill.

    How it decides:
        Judges while the evaluator waits for more of a run that has not ended. Let w be the time since the newest step
        was seen, and m the longest step so far, with the evaluations before it, without the first five steps.

        1. The training process itself looks for progress: a step, a change of phase (each batch of an evaluation is
           one), or another line of the user's code. Once it had none for 5 x m, and 60 s at the least, it stores the
           stacks of all its threads. A checkpoint that is being written may take ten times as long.
        2. It fires where the process has found that, and w is above `times` x m and `least_seconds`.
        3. Without a word of the process, which may be gone or stuck outside of Python, it fires where w is above twice
           `times` x m and `silence_seconds`. A run with fewer than five steps has no past, and is silent.

        A run that goes on recovers.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        from trackside.speed.rules.hang import limit_of

        assert limit_of(longest=2.0, times=5, least=60) == 60.0
        assert limit_of(longest=30.0, times=5, least=60) == 150.0
        ```

    References:
        - NVIDIA resiliency extension, fault tolerance: time-outs from what was observed, times a factor of 5.
    """

    rule_id = "hang"
    code = "TS414"
    likely_causes = (Cause.STALLED,)
    suspects = (Suspect(Cause.STALLED, _hanging_line), Suspect(Cause.STALLED))
    judges_waiting = True
    what_to_do = (
        "Read the stacks in profiler-output/performance/<worker>.json of the run.",
        "With several ranks, look at the one in another phase: the rest wait for it.",
    )

    times: float = parameter(5.0, "longest steps so far that are waited for", minimum=1)
    least_seconds: float = parameter(60.0, "seconds that are waited at the least", minimum=1)
    silence_seconds: float = parameter(600.0, "seconds that are waited for a silent process", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each worker that hangs, or for the first one if none reports anything."""
        waited = window.now - window.newest_step_at
        if waited <= min(self.least_seconds, self.silence_seconds):
            return
        columns = window.statistic(STEP_SECONDS, "mean", mode=None)
        past = [
            float(np.max(column.values[SHORT_STRETCH:])) for column in columns if len(column.values) > SHORT_STRETCH
        ]
        if not past:
            return
        limit = limit_of(longest=max(past), times=self.times, least=self.least_seconds)
        hangs = {
            worker: facts.hang
            for worker, facts in sorted(window.speed_facts.items())
            if facts.hang is not None and not facts.hang.is_over
        }
        for worker, hang in hangs.items():
            if waited > limit:
                yield found_in(
                    window,
                    STEPS,
                    measure=f"seconds without a new step, in {hang.phase}",
                    observed=waited,
                    threshold=limit,
                    since=window.step,
                    kind=FindingKind.STANDSTILL,
                    worker=worker,
                    place=hang.place,
                )
        silent = limit_of(longest=max(past), times=2 * self.times, least=self.silence_seconds)
        if not hangs and waited > silent:
            yield found_in(
                window,
                STEPS,
                measure="seconds without a new step",
                observed=waited,
                threshold=silent,
                since=window.step,
                kind=FindingKind.STANDSTILL,
                worker=columns[0].worker,
            )


def limit_of(*, longest: float, times: float, least: float) -> float:
    """Return the seconds that are waited for a step."""
    return max(least, times * longest)
