"""Causes of lost time: the input, and lines of the script. Pure.

A cause has the seconds that its cure can win back at most, and the line to change.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from trackside.performance.measured import FEWEST_SAMPLES, Measured
from trackside.records.performance_facts import LineSamples, LoaderFacts

INPUT, COPY, HOST = "input-bound", "copy-bound", "host-bound"
COMMUNICATION, STRAGGLER = "communication-bound", "straggler rank"
LEAST_SHARE_OF_LINE = 0.1  # of the samples of its phase
MOST_WORKERS = 16  # that are ever suggested
_FASTER_RANK = "give that rank less work, or a processor of its own; its own verdict names its line"
_LESS_TO_EXCHANGE = (
    "exchange gradients less often (several batches under no_sync()), or less of them (bf16_compress_hook of "
    "torch.distributed.algorithms)"
)
_WAITS = re.compile(r"\.(item|cpu|tolist|numpy|synchronize)\(|\b(bool|float|int)\(\w*loss")
_COPIES = re.compile(r"\.(to|cuda)\(")
_SLEEPS = re.compile(r"\bsleep\(")
_STORES = re.compile(r"\b(save|dump|savetxt|write|print|savefig)\w*\(")


@dataclass(frozen=True)
class Line:
    """A line that takes a share of a phase.

    Attributes:
        place: "train.py:41".
        function: The function in it.
        code: The text of the line.
        share: Share of the samples of its phase.
    """

    place: str
    function: str
    code: str
    share: float


@dataclass(frozen=True)
class Cause:
    """A cause of lost time.

    Attributes:
        kind: The bottleneck that it makes of the run, such as `input-bound`.
        headline: One sentence about its share.
        share: Share of the step that its cure can win back at most.
        seconds: Seconds of the run that its cure can win back at most.
        where: The object or line to change.
        change: The change to try.
        step_seconds_after: Seconds of a step after it, at best.
        lines: Lines that the time is spent in, most first.
    """

    kind: str
    headline: str
    share: float
    seconds: float
    where: str
    change: str
    step_seconds_after: float
    lines: tuple[Line, ...] = ()


def input_cause(measured: Measured) -> Iterator[Cause]:
    """Yield the wait for batches of a DataLoader, if it has any."""
    total, data = measured.training_seconds, measured.of("data")
    if data <= 0:
        return
    step, wait = total / measured.steps, data / measured.steps
    facts = measured.facts
    loader = facts.loaders[0] if facts and facts.loaders else None
    lines = tuple(_lines(measured, phase="data"))
    workers = loader.workers if loader else 0
    wanted, after = _with_workers(wait, step, workers=workers, processors=facts.processors if facts else 0)
    change = _change(loader, wanted, lines)
    if wanted <= workers:  # more of them do not help: the work itself has to become less
        after = step - wait
    won = max(0.0, step - after) * measured.steps
    yield Cause(
        kind=INPUT,
        headline=f"{_percent(data / total)} of the step waits for a batch",
        share=won / total,
        seconds=won,
        where=_where(loader),
        change=change,
        step_seconds_after=after,
        lines=lines,
    )


def line_causes(measured: Measured) -> Iterator[Cause]:
    """Yield each line of the script that takes part of the time in no phase."""
    rest, total = measured.rest_seconds, measured.training_seconds
    is_cuda = measured.facts is not None and measured.facts.device == "cuda"
    for line in _lines(measured, phase="other"):
        seconds = line.share * rest
        kind, what, change = _judged(line.code, is_cuda=is_cuda)
        yield Cause(
            kind=kind,
            headline=f"{_percent(seconds / total)} of the step is {what}",
            share=seconds / total,
            seconds=seconds,
            where=f"{line.place} in {line.function}",
            change=change,
            step_seconds_after=(total - seconds) / measured.steps,
            lines=(line,),
        )


def rank_causes(measured: Measured) -> Iterator[Cause]:
    """Yield the wait for a rank that is slower than this one, and the exchange of gradients itself."""
    wait = measured.gradient_wait
    if wait is None:
        return
    step = measured.training_seconds / measured.steps
    exchange, for_others = min(wait.least_seconds, step), min(wait.seconds, step) - min(wait.least_seconds, step)
    given = (
        (STRAGGLER, for_others, f"waits for {wait.least_worker}", wait.least_worker, _FASTER_RANK),
        (COMMUNICATION, exchange, "waits until gradients are averaged over the ranks", "", _LESS_TO_EXCHANGE),
    )
    for kind, seconds, what, where, change in given:
        yield Cause(
            kind=kind,
            headline=f"{_percent(seconds / step)} of the step {what}",
            share=seconds / step,
            seconds=seconds * measured.steps,
            where=where,
            change=change,
            step_seconds_after=step - seconds,
        )


def _with_workers(wait: float, step: float, *, workers: int, processors: int) -> tuple[int, float]:
    """Return the number of workers to try, and the seconds of a step with them at best.

    One worker fetches a batch in the time that the training waits for it now; if workers cannot keep up, in as many
    steps as their number. With n of them a batch comes n times as fast, and the wait is over once a step takes longer.
    """
    others = max(step - wait, 1e-9)
    fetch = step * workers if workers else wait
    most = max(1, min(MOST_WORKERS, processors or 1))
    wanted = min(most, max(workers, math.ceil(fetch / others)))
    return wanted, max(others, fetch / max(1, wanted))


def _change(loader: LoaderFacts | None, wanted: int, lines: tuple[Line, ...]) -> str:
    slow = f"make {lines[0].function} ({lines[0].place}) cheaper" if lines and lines[0].function != "<module>" else ""
    if loader is None:
        return slow or "fetch batches in workers of a DataLoader"
    if loader.workers and wanted <= loader.workers:
        makers = " and ".join(filter(None, (loader.collate_at, loader.dataset_at)))
        return slow or f"make the work of a worker cheaper: {makers or loader.dataset}"
    share = "; each worker must take its own part: torch.utils.data.get_worker_info()" if loader.is_iterable else ""
    return f"num_workers={wanted}{share}"


def _where(loader: LoaderFacts | None) -> str:
    if loader is None:
        return ""
    parts = [f"num_workers={loader.workers}"]
    parts += [f"batch_size={loader.batch_size}"] if loader.batch_size else []
    parts += [f"collate_fn={loader.collate}"] if loader.collate else []
    return f"DataLoader of {loader.dataset} at {loader.created_at or loader.looped_at or '?'}: {', '.join(parts)}"


def _lines(measured: Measured, *, phase: str) -> Iterator[Line]:
    """Yield the lines of a phase, each place once, the one with most samples first. None on too few samples."""
    facts = measured.facts
    if facts is None or sum(line.samples for line in facts.lines) < FEWEST_SAMPLES:
        return
    counts: Counter[tuple[str, str]] = Counter()
    of_place: dict[tuple[str, str], LineSamples] = {}
    for line in facts.lines:
        if line.phase == phase and not (phase == "other" and line.is_in_model):
            counts[line.place, line.function] += line.samples
            of_place.setdefault((line.place, line.function), line)
    total = sum(counts.values())
    for key, count in counts.most_common():
        line = of_place[key]
        if line.place and count >= LEAST_SHARE_OF_LINE * total:
            yield Line(line.place, line.function, line.code, count / total)


def _judged(code: str, *, is_cuda: bool) -> tuple[str, str, str]:
    """Return the bottleneck that a line makes, its description, and the change to try."""
    if _SLEEPS.search(code):
        return HOST, "a sleep", "remove the sleep, or sleep outside of the loop"
    if is_cuda and _COPIES.search(code):
        return COPY, "a copy to the device", "pin_memory=True in the DataLoader and non_blocking=True in the copy"
    if is_cuda and _WAITS.search(code):
        return HOST, "a wait for the device", "read the value every 100th step, or after the loop"
    if _STORES.search(code):
        return HOST, "output", "write less often, or in another thread"
    return HOST, "work at one line", "move it out of the loop, into DataLoader workers, or do it less often"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
