"""Lines of the script that hold up a step between its phases: the kind of each, and the change to try. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum

from trackside.records.machine.performance_facts import LineSamples, PerformanceFacts

_SLEEPS = re.compile(r"\bsleep\(")
_WAITS = re.compile(r"\.(item|cpu|tolist|numpy|synchronize)\(|\b(bool|float|int)\(\w*loss")
_COPIES = re.compile(r"\.(to|cuda)\(")
_STORES = re.compile(r"\b(save|dump|savetxt|write|print|savefig|fsync|flush)\w*\(")
_COLLECTS = re.compile(r"\bgc\.collect\(")
_MEETS = re.compile(
    r"\b(barrier|all_reduce|all_gather\w*|all_to_all\w*|broadcast\w*|reduce_scatter\w*|gather_object)\("
)
_RANKS_LIBRARY = "torch.distributed."


class Stall(Enum):
    """The kinds of line. The text names it."""

    SLEEP = "a sleep"
    COPY = "a copy to the device"
    DEVICE = "a wait for the device"
    RANKS = "a meeting of all ranks"
    OUTPUT = "output"
    COLLECTION = "garbage collection"
    WORK = "work at one line"


CHANGES = {
    Stall.SLEEP: "remove the sleep, or sleep outside of the loop",
    Stall.COPY: "pin_memory=True in the DataLoader and non_blocking=True in the copy",
    Stall.DEVICE: "read the value every 100th step, or after the loop",
    Stall.RANKS: "let the ranks meet at every 100th step, or after the loop",
    Stall.OUTPUT: "write less often, or in another thread",
    Stall.COLLECTION: "call gc.collect() seldom; gc.freeze() before the loop keeps what is there out of collections",
    Stall.WORK: "move it out of the loop, into DataLoader workers, or do it less often",
}


def stall_of(code: str, library: str, *, is_cuda: bool) -> Stall:
    """Return the kind of a sampled line.

    Args:
        code: Its text.
        library: The innermost function of a library that it was in; "" for none.
        is_cuda: True if the training computes on a GPU: only then a copy or a reading waits for it.
    """
    if _SLEEPS.search(code):
        return Stall.SLEEP
    if _COLLECTS.search(code):
        return Stall.COLLECTION
    if _MEETS.search(code) or library.startswith(_RANKS_LIBRARY):
        return Stall.RANKS
    if is_cuda and _COPIES.search(code):
        return Stall.COPY
    if is_cuda and _WAITS.search(code):
        return Stall.DEVICE
    return Stall.OUTPUT if _STORES.search(code) else Stall.WORK


def stalled_lines(facts: PerformanceFacts) -> Mapping[Stall, Sequence[LineSamples]]:
    """Return the sampled lines that hold up a step, by kind. Other work of the script is in none.

    Args:
        facts: Facts about the speed of a worker.
    """
    found: dict[Stall, list[LineSamples]] = {}
    for line in facts.lines:
        if line.phase == "other" and not line.is_in_model and line.place:
            stall = stall_of(line.code, line.library, is_cuda=facts.is_on_gpu)
            if stall is not Stall.WORK:
                found.setdefault(stall, []).append(line)
    return found
