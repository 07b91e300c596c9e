"""Where trained runs lie, so that rules can be judged again without training again.

A run lies in `<root>/<program>/<fault or "clean">/<seed>-<key>/run`, and beside it `outcome.json`, written last: no run
counts that was not trained to its end. The key covers the code of the program, what it is built of and what was
captured; it does not cover Trackside itself, so that `--fresh` is needed after the capture has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from benchmarks.detection.corpus.program import SEEDS, Program
from benchmarks.kept import read_outcome, write_outcome

ROOT = Path("build/detection")
CLEAN = "clean"
_CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Job:
    """One training: a program, the fault planted in it ("" for none), a seed, and what is captured (JSON)."""

    program: Program
    fault: str
    seed: int
    request: str

    @property
    def name(self) -> str:
        return f"{self.program.name}/{self.fault or CLEAN}/{self.seed}"

    def folder(self, root: Path) -> Path:
        """Where this very training lies."""
        text = "\n".join([_code_digest(self.program.module), torch.__version__, self.request])
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        return root / self.program.name / (self.fault or CLEAN) / f"{self.seed}-{key}"


@dataclass(frozen=True)
class Outcome:
    """How a training ended.

    `score` is None where none could be told (not finite, or `error`). `effect_step` is the optimizer step from which
    the fault acts, None for a clean run. `seconds` is CPU time, `size_bytes` what the run takes on the disk.
    """

    program: str
    fault: str
    seed: int
    score: float | None
    effect_step: int | None
    seconds: float
    size_bytes: int
    error: str = ""

    def write(self, folder: Path) -> None:
        """Whole or not at all."""
        write_outcome(self, folder)

    @classmethod
    def read(cls, folder: Path) -> Outcome | None:
        """None where that training has not been made, or not to its end."""
        return read_outcome(cls, folder)


def jobs(programs: list[Program], *, split: str, seeds: int, request: str) -> Iterator[Job]:
    """Every training of a split: each program clean and with each of its faults, by the first seeds of the split."""
    for program in programs:
        if program.split != split:
            continue
        for fault in ("", *(fault.name for fault in program.faults)):
            for seed in SEEDS[split][:seeds]:
                yield Job(program, fault, seed, request)


@cache
def _code_digest(module: str) -> str:
    """Of a program's own file and of all that programs share."""
    own = _CORPUS / "programs" / f"{module.rpartition('.')[2]}.py"
    shared = [*_CORPUS.glob("*.py"), *(_CORPUS / "planted").glob("*.py"), own]
    digest = hashlib.sha256()
    for path in sorted(shared):
        digest.update(path.read_bytes())
    return digest.hexdigest()
