"""Does each planted fault do harm, and does each clean run learn? Else the corpus would prove nothing."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from benchmarks.detection.corpus.catalogue import all_programs
from benchmarks.engine.stored import Outcome

if TYPE_CHECKING:
    from benchmarks.detection.train import Job

LEAST_HARM = 0.05  # of what the clean twin has learned, on average over the seeds


def harm_of(clean: float, faulty: float | None, *, chance: float) -> float:
    """Return the share of what the clean twin has learned that the faulty one has not; 1 where it has no score."""
    return 1.0 if faulty is None else min(1.0, (clean - faulty) / (clean - chance))


def tell(found: Iterable[tuple[Job, Outcome]]) -> bool:
    """Print a line for each fault and each clean program that fails; return True if there is one without harm."""
    by_program: dict[str, dict[str, dict[int, Outcome]]] = defaultdict(lambda: defaultdict(dict))
    for job, outcome in found:
        by_program[job.program.name][job.fault][job.seed] = outcome
    is_wrong = False
    for name, faults in sorted(by_program.items()):
        program, clean = all_programs()[name], faults.pop("", {})
        for seed, run in sorted(clean.items()):
            if run.score is None or run.score < program.at_least:
                is_wrong = True
                print(f"CLEAN RUN DOES NOT LEARN: {name} #{seed}: {run.score} < {program.at_least} {run.error}")
        for fault, runs in sorted(faults.items()):
            harms = [
                harm_of(twin.score, run.score, chance=program.chance)
                for seed, run in sorted(runs.items())
                if (twin := clean.get(seed)) is not None and twin.score is not None
            ]
            if not harms:
                continue
            is_harmless = statistics.mean(harms) < LEAST_HARM
            is_wrong |= is_harmless
            shown = " ".join(f"{harm:4.0%}" for harm in harms)
            print(f"{'HARMLESS: ' if is_harmless else ''}{name} with {fault}: {shown} of what is learned is lost")
    return is_wrong
