"""data-starvation: the training waits for its batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import Suspect
from trackside.rules.rule import parameter
from trackside.situation.constants import LARGE_BATCH_BYTES
from trackside.speed.speed_rule import DATA, STEPS, SpeedRule, StepTimes, found_in, step_times
from trackside.trial.window import Window


def _settings_of_loader(known: Known) -> Answer:
    facts = known.window.speed_facts.get(known.lead.worker) if known.findings else None
    loader = facts.loaders[0] if facts is not None and facts.loaders else None
    if loader is None:
        return False
    clause = f"the DataLoader of {loader.dataset} has num_workers={loader.workers}"
    clause += f", collate_fn={loader.collate}" if loader.collate else ""
    return clause + (f", and {loader.batch_bytes >> 20} MiB a batch" if loader.batch_bytes >= LARGE_BATCH_BYTES else "")


@dataclass(frozen=True)
class DataStarvation(SpeedRule):
    """The training waits for its batches for a large part of each step.

    Why it matters:
        The model computes nothing while a batch is fetched. A DataLoader without workers does all its work in between
        two steps, and one with too few of them is the pace of the whole training.

    How it decides:
        For each worker, over its newest `steps` training steps, without evaluations and without our own cost:

        1. The wait is the time in which the training thread asked a DataLoader for a batch, without that in which it,
           or the DataLoader's workers, were ready and other work on the machine had the processor (Linux).
        2. The longest waits are left out, one in 25 steps, up to one in four where the training had no processor: a
           loop that starves waits more often.
        3. It fires where the wait is more than `share` of the time of these steps, and more than `milliseconds` a step.

        Of a loop over anything but a DataLoader (a generator, another library's data set, `next` of an iterator), the
        wait is the share of the stack samples in which the loop asked for its next batch, once they are `samples`, as a
        part of all steps. All time in which the training thread had no processor is taken off it.

        Keras's `fit` is timed where it asks for its batches between steps: on PyTorch, without the first batch of an
        epoch. On JAX the waits of the function that trains are timed. On TensorFlow it waits in its graph: the wait is
        the share of samples in which `tf.data` had not returned the batch of the call. Where `tf.data` keeps no count
        (autotune is off) or one call takes several batches (`steps_per_execution`), the rule lacks data.

        The finding names the line that the wait was mostly spent in, where stacks were sampled, else the one that made
        the DataLoader. Loops that fetch by calling a function are silent.

        Its issues are warnings; with `is_critical` they may stop the run.

    Example:
        ```python
        from trackside.speed.rules.data_starvation import is_starving

        assert is_starving(share=0.8, seconds_a_step=0.02, limit=0.3, milliseconds=1)
        assert not is_starving(share=0.8, seconds_a_step=0.0002, limit=0.3, milliseconds=1)
        ```

    References:
        - PyTorch, Performance Tuning Guide, "Enable asynchronous data loading and augmentation".
    """

    rule_id = "data-starvation"
    code = "TS409"
    only_of = ("pytorch", "keras")
    likely_causes = (Cause.SLOW_INPUT,)
    suspects = (Suspect(Cause.SLOW_INPUT, _settings_of_loader), Suspect(Cause.SLOW_INPUT))
    what_to_do = (
        "Raise num_workers of the DataLoader; `trackside profile` computes how far.",
        "Make the named function cheaper, or do its work once, before the training.",
    )

    steps: int = parameter(50, "newest steps that are looked at", minimum=2)
    share: float = parameter(0.3, "share of these steps that is spent in waits", minimum=0, maximum=1)
    milliseconds: float = parameter(1.0, "milliseconds a step below which a wait does not count", minimum=0)
    samples: int = parameter(100, "samples of the stack, for loops without a DataLoader", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each worker."""
        for times in step_times(window):
            newest = times.newest(self.steps)
            if len(newest.steps) < self.steps:
                continue
            if DATA in newest.phases:
                newest = newest.usual(DATA)
                share, wait = newest.share_of(DATA), float(newest.phases[DATA].mean())
            else:
                share = sampled_share(window, times, fewest=self.samples)
                wait = share * float(times.seconds.mean())
            if is_starving(share=share, seconds_a_step=wait, limit=self.share, milliseconds=self.milliseconds):
                yield found_in(
                    window,
                    STEPS,
                    measure="share of the step in waits for a batch",
                    observed=share,
                    threshold=self.share,
                    since=int(newest.steps[0]),
                    worker=times.worker,
                    place=place_of_wait(window, times.worker),
                    statistics={"wait_ms": 1000 * wait},
                )

    def lacks(self, window: Window) -> str:
        """Name the missing input: timed steps, or a DataLoader."""
        counts = [len(times.steps) for times in step_times(window)]
        if not counts or max(counts) < self.steps:
            return f"{self.steps} timed steps; the run has {max(counts, default=0)}"
        is_keras = window.facts is not None and window.facts.program.framework == "keras"
        if is_keras and not any(
            DATA in times.phases or self._is_sampled(window, times) for times in step_times(window)
        ):
            return "the waits for batches: on TensorFlow, samples of a data set of which tf.data keeps a count"
        return ""

    def _is_sampled(self, window: Window, times: StepTimes) -> bool:
        """Return True if samples show waits for a batch or computing."""
        facts = window.speed_facts.get(times.worker)
        lines = facts.lines if facts is not None else ()
        return sum(line.samples for line in lines if line.is_in_model or line.is_wait_for_data) >= self.samples


def is_starving(*, share: float, seconds_a_step: float, limit: float, milliseconds: float) -> bool:
    """Return True if a wait is both a large share and long enough to count."""
    return share > limit and 1000 * seconds_a_step > milliseconds


def sampled_share(window: Window, times: StepTimes, *, fewest: int) -> float:
    """Return the share of stack samples in which the loop asked for a batch, without waits for a processor.

    Args:
        window: The window.
        times: The steps of a worker.
        fewest: Number of samples below which it is 0.
    """
    facts = window.speed_facts.get(times.worker)
    if facts is None or sum(line.samples for line in facts.lines) < fewest:
        return 0.0
    starved = times.waited_share
    return max(0.0, facts.sampled_fetches - starved) / (1.0 - starved) if starved < 1.0 else 0.0


def place_of_wait(window: Window, worker: str) -> str:
    """Return the line that waits are mostly spent in, else the one that made the DataLoader; "" if neither is known."""
    facts = window.speed_facts.get(worker)
    if facts is None:
        return ""
    in_wait = [line for line in facts.lines if line.is_wait_for_data and line.place]
    if in_wait:
        return max(in_wait, key=lambda line: line.samples).place
    return facts.loaders[0].created_at or facts.loaders[0].looped_at if facts.loaders else ""
