"""Where trained runs lie, so that changed rules can judge them without training again.

A run lies in `build/wild/runs/<family>/<program>/<seed>-<key>/run`, its output beside it, and `outcome.json`, written
last. The key covers the program, the shared code of its file, and the lock file. It does not cover Trackside: after a
change of the capture use `--fresh`.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kept import read_outcome, write_outcome
from benchmarks.wild.catalogue import all_families
from benchmarks.wild.program import FAMILIES, Program

RUNS = Path("build/wild/runs")
OUTPUT = "output.txt"


@dataclass(frozen=True)
class Job:
    """One training: a program and a seed."""

    program: Program
    seed: int

    @property
    def name(self) -> str:
        return f"{self.program.family}/{self.program.name}/{self.seed}"

    def folder(self, root: Path) -> Path:
        """Return the folder of this training, which may not exist."""
        return root / self.program.family / self.program.name / f"{self.seed}-{_digest(self.program)}"


@dataclass(frozen=True)
class Outcome:
    """The end of a training.

    status   exit code; a training that failed has no place in the figures
    seconds  processor time; with `trackside run` of imports and evaluator too
    by       `trackside run`, or `fork` for a process with the libraries imported already
    """

    status: int
    seconds: float
    by: str

    def write(self, folder: Path) -> None:
        """Write the outcome whole or not at all."""
        write_outcome(self, folder)

    @classmethod
    def read(cls, folder: Path) -> Outcome | None:
        """Return the outcome, or None for a training that was not made, or not to its end."""
        return read_outcome(cls, folder)


def jobs(programs: Iterable[Program], *, seeds: int) -> Iterator[Job]:
    """Yield every training, all programs by the first seed before any by the second."""
    chosen = list(programs)
    for seed in range(seeds):
        for program in chosen:
            yield Job(program, seed)


def _digest(program: Program) -> str:
    """Return a digest of the program, the file around it without its other programs, and the lock file."""
    family = all_families()[program.family]
    text = (FAMILIES / f"{program.family}.py").read_text(encoding="utf-8")
    text = re.sub(r"imports=\([^)]*\)", "", text, count=1)  # when they are imported changes nothing
    for other in family.programs.values():
        if other != program:
            text = text.replace(inspect.getsource(other.train), "")
    lock = family.lock.read_text(encoding="utf-8") if family.lock.exists() else ""
    return hashlib.sha256(f"{text}\n{lock}".encode()).hexdigest()[:12]
