"""The samples of stacks as a run stores them: lines by their place in the script."""

from __future__ import annotations

import linecache
import os
from collections import Counter

from trackside.capture.ground.script_lines import Place, shown
from trackside.profiling.phase_clock import Phase
from trackside.profiling.stack_sampler import SampledLine, StackSampler
from trackside.records.machine.performance_facts import FETCH, INSIDE, MOST_LINES, LineSamples

MOST_CODE = 120  # characters of a line


def shown_lines(sampler: StackSampler, script: str) -> tuple[LineSamples, ...]:
    """Return the lines of a sampler, those with most samples first. Any thread may call it.

    Args:
        sampler: The sampler, which may be at work.
        script: The path of the started script.
    """
    lines: Counter[SampledLine] = Counter(dict(list(sampler.lines.items())))
    return tuple(_line(line, count, script) for line, count in lines.most_common(MOST_LINES))


def _line(line: SampledLine, count: int, script: str) -> LineSamples:
    place = Place(line.file, line.line) if line.file else None
    return LineSamples(
        phase=FETCH if line.is_fetch else INSIDE if line.is_unknown else Phase(line.phase).name.lower(),
        place=shown(place, script),
        function=line.function,
        code=linecache.getline(line.file, line.line).strip()[:MOST_CODE] if line.file else "",
        library=line.library,
        is_in_model=line.is_in_model,
        samples=count,
    )


def usable_processors() -> int:
    """Return the number of processors that this process may use; 0 if unknown."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 0
