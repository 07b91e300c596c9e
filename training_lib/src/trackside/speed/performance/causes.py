"""Causes of lost time: the input, and lines of the script. Pure.

A cause has the seconds that its cure can win back at most, and the line to change.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from trackside.records.machine.performance_facts import FETCH, LineSamples, LoaderFacts
from trackside.speed.performance.measured import FEWEST_SAMPLES, Measured
from trackside.speed.performance.stalls import CHANGES, Stall, stall_of

INPUT, COPY, HOST = "input-bound", "copy-bound", "host-bound"
COMMUNICATION, STRAGGLER = "communication-bound", "straggler rank"
LEAST_SHARE_OF_LINE = 0.1  # of the samples of its phase
MOST_WORKERS = 16  # that are ever suggested
MOST_WORKERS_A_PROCESSOR = 2
DISK_WAIT_PERCENT = 40.0  # of the samples, from which a disk is the limit
MIB = 1 << 20
LARGE_BATCH_BYTES = 32 * MIB
_FREEZE = "gc.freeze() before the loop: the objects that exist by then are visited no longer"
_FASTER_RANK = "give that rank less work, or a processor of its own; its own verdict names its line"
_LESS_TO_EXCHANGE = (
    "exchange gradients less often (several batches under no_sync()), or less of them (bf16_compress_hook of "
    "torch.distributed.algorithms)"
)


@dataclass(frozen=True)
class Line:
    """A line that takes a share of a phase.

    Attributes:
        place: "train.py:41".
        function: The function in it.
        code: The text of the line.
        share: Share of the samples of its phase.
        library: The innermost function of a library that it calls: `module.function`; "" for none.
    """

    place: str
    function: str
    code: str
    share: float
    library: str = ""


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
    """Yield the wait for batches, of a DataLoader or of whatever the loop asks for them, if it has any."""
    total, data = measured.training_seconds, measured.of("data")
    if data <= 0:
        return
    step, wait = total / measured.steps, data / measured.steps
    facts = measured.facts
    loader = facts.loaders[0] if facts and facts.loaders else None
    lines = tuple(_lines(measured, phase="data"))
    workers = loader.workers if loader else 0
    wanted, with_workers = _with_workers(wait, step, workers=workers, processors=facts.processors if facts else 0)
    change = _change(loader, wanted, lines, measured)
    is_by_more_workers = wanted > workers and change.startswith("num_workers")
    after = with_workers if is_by_more_workers else step - wait  # else the work itself has to become less
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
    is_cuda = measured.facts is not None and measured.facts.is_on_gpu
    for line in _lines(measured, phase="other"):
        seconds = line.share * rest
        stall = stall_of(line.code, line.library, is_cuda=is_cuda)
        if stall is Stall.COLLECTION:
            continue  # see `collection_causes`
        yield Cause(
            kind=COPY if stall is Stall.COPY else HOST,
            headline=f"{_percent(seconds / total)} of the step is {stall.value}",
            share=seconds / total,
            seconds=seconds,
            where=f"{line.place} in {line.function}",
            change=CHANGES[stall],
            step_seconds_after=(total - seconds) / measured.steps,
            lines=(line,),
        )


def collection_causes(measured: Measured) -> Iterator[Cause]:
    """Yield the collections of garbage. No stack is sampled in one: it keeps Python from running."""
    garbage = measured.facts.garbage if measured.facts is not None else None
    if garbage is None or not garbage.steps:
        return
    total = measured.training_seconds
    seconds = min(total, garbage.seconds / garbage.steps * measured.steps)
    is_called = stall_of(garbage.code, "", is_cuda=False) is Stall.COLLECTION
    yield Cause(
        kind=HOST,
        headline=f"{_percent(seconds / total)} of the step is {Stall.COLLECTION.value}",
        share=seconds / total,
        seconds=seconds,
        where=f"{garbage.place} in {garbage.function}" if is_called else "Python's own collections",
        change=CHANGES[Stall.COLLECTION] if is_called else _FREEZE,
        step_seconds_after=(total - seconds) / measured.steps,
        lines=(Line(garbage.place, garbage.function, garbage.code, 1.0),) if is_called else (),
    )


def rank_causes(measured: Measured) -> Iterator[Cause]:
    """Yield the wait for a rank that is slower than this one, and the exchange of gradients itself."""
    wait = measured.gradient_wait
    if wait is None:
        return
    step = measured.clock_seconds / measured.steps  # as the waits for other ranks are measured
    exchange = min(wait.least_seconds, step) * wait.own_share
    late = min(wait.seconds, step) - min(wait.least_seconds, step)
    for_others = max(0.0, late - (1 - wait.own_share) * step)  # a rank without a processor is late, and not slow
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


def _change(loader: LoaderFacts | None, wanted: int, lines: tuple[Line, ...], measured: Measured) -> str:
    slow = f"make {lines[0].function} ({lines[0].place}) cheaper" if lines and lines[0].function != "<module>" else ""
    if (measured.machine.disk_wait_percent or 0.0) >= DISK_WAIT_PERCENT:
        return "read the data from another disk, or keep them in memory: the training waits for the disk"
    if loader is not None and loader.batch_bytes >= LARGE_BATCH_BYTES:
        return f"make the items smaller before they are batched: a batch has {_mib(loader)}; then num_workers={wanted}"
    processors = measured.facts.processors if measured.facts is not None else 0
    if loader is not None and processors and loader.workers > MOST_WORKERS_A_PROCESSOR * processors:
        return (
            f"num_workers={processors} and persistent_workers=True: {loader.workers} workers share {processors} "
            "processors, and each epoch starts them anew"
        )
    if loader is None:
        is_own = bool(lines) and not lines[0].library and not lines[0].code.startswith("for ")
        return (slow if is_own else "") or (
            "fetch batches in workers (of a DataLoader, or of a PyDataset in Keras), or in a thread that is ahead"
        )
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
    parts += [f"{_mib(loader)} a batch"] if loader.batch_bytes >= MIB else []
    return f"DataLoader of {loader.dataset} at {loader.created_at or loader.looped_at or '?'}: {', '.join(parts)}"


def _mib(loader: LoaderFacts) -> str:
    return f"{loader.batch_bytes / MIB:.3g} MiB"


def _lines(measured: Measured, *, phase: str) -> Iterator[Line]:
    """Yield the lines of a phase, each place once, the one with most samples first. None on too few samples."""
    facts = measured.facts
    if facts is None or sum(line.samples for line in facts.lines) < FEWEST_SAMPLES:
        return
    counts: Counter[tuple[str, str]] = Counter()
    of_place: dict[tuple[str, str], LineSamples] = {}
    phases = {phase, FETCH} if phase == "data" else {phase}
    for line in facts.lines:
        if line.phase in phases and not (phase == "other" and line.is_in_model):
            counts[line.place, line.function] += line.samples
            of_place.setdefault((line.place, line.function), line)
    total = sum(counts.values())
    for key, count in counts.most_common():
        line = of_place[key]
        if line.place and count >= LEAST_SHARE_OF_LINE * total:
            yield Line(line.place, line.function, line.code, count / total, line.library)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
