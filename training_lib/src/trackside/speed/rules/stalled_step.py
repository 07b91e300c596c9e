"""stalled-step: a line of the loop holds up each step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import Suspect
from trackside.rules.rule import parameter
from trackside.speed.performance.stalls import CHANGES, stalled_lines
from trackside.speed.speed_rule import STEPS, SpeedRule, found_in, step_times
from trackside.trial.window import Window


def _stalled_line(known: Known) -> Answer:
    """Return the kind of the line, and the change to try."""
    facts = known.window.speed_facts.get(known.lead.worker) if known.findings else None
    for stall, lines in stalled_lines(facts).items() if facts is not None else ():
        if known.lead.place in {line.place for line in lines}:
            return f"the line is {stall.value}: {CHANGES[stall]}"
    return False


@dataclass(frozen=True)
class StalledStep(SpeedRule):
    """A line of the loop holds up each step: a sleep, a meeting of all ranks, output, or a wait for the GPU.

    Why it matters:
        Such a line computes nothing of the model. A sleep that limits a rate, a metric that is gathered from all ranks,
        `loss.item()` on a GPU, or a file that is written at each step may take more time than the training itself, and
        no phase of the step shows it.

    How it decides:
        For each worker, of the samples of the stack of its training thread, once they are `samples`:

        1. The share of a line is that of the samples in it, in no phase of the step and below no module.
        2. It fires where lines of one kind (a sleep; a meeting of ranks, such as `barrier` or `all_gather`; output;
           garbage collection; on a GPU a copy to it or a wait for it) have more than `share` of all samples, and more
           than `milliseconds` a step.

        Other work in the script is never blamed: `trackside profile` shows it. Batches that come late are
        `data-starvation`.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        from trackside.speed.rules.stalled_step import is_stalled

        assert is_stalled(share=0.5, step_seconds=0.02, limit=0.3, milliseconds=1)
        assert not is_stalled(share=0.5, step_seconds=0.001, limit=0.3, milliseconds=1)
        ```

    References:
        - PyTorch, Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization".
    """

    rule_id = "stalled-step"
    code = "TS415"
    only_of = ("pytorch",)
    likely_causes = (Cause.SLOW_LINE,)
    suspects = (Suspect(Cause.SLOW_LINE, _stalled_line), Suspect(Cause.SLOW_LINE))
    what_to_do = (
        "Do what the named line does at every 100th step, after the loop, or in another thread.",
        "Look at `trackside profile`: it has the seconds that can be won back.",
    )

    share: float = parameter(0.3, "share of the step in one kind of line", minimum=0, maximum=1)
    milliseconds: float = parameter(1.0, "milliseconds a step below which a line does not count", minimum=0)
    samples: int = parameter(100, "samples of the stack before it judges", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each worker: its slowest kind of line."""
        means = {times.worker: float(times.seconds.mean()) for times in step_times(window)}
        for worker, facts in sorted(window.speed_facts.items()):
            total, stalled = sum(line.samples for line in facts.lines), stalled_lines(facts)
            if worker not in means or total < self.samples or not stalled:
                continue
            lines = max(stalled.values(), key=lambda some: sum(line.samples for line in some))
            share = sum(line.samples for line in lines) / total
            if is_stalled(share=share, step_seconds=means[worker], limit=self.share, milliseconds=self.milliseconds):
                yield found_in(
                    window,
                    STEPS,
                    measure="share of the step at lines that hold it up",
                    observed=share,
                    threshold=self.share,
                    worker=worker,
                    place=max(lines, key=lambda line: line.samples).place,
                    statistics={"stall_ms": 1000 * share * means[worker]},
                )

    def lacks(self, window: Window) -> str:
        """Name the missing input: samples of the stack."""
        counts = [sum(line.samples for line in facts.lines) for facts in window.speed_facts.values()]
        if max(counts, default=0) < self.samples:
            return f"{self.samples} samples of the stack of the training; the run has {max(counts, default=0)}"
        return "" if step_times(window) else "timed steps"


def is_stalled(*, share: float, step_seconds: float, limit: float, milliseconds: float) -> bool:
    """Return True if lines have a large share of the step, and long enough to count."""
    return share > limit and 1000 * share * step_seconds > milliseconds
