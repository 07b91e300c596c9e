"""Where trained mutants and their twins lie.

A run lies in `build/mutants/<program>/<operator or "twin">/<seed>-<key>/run`; `losses.json` and, written last,
`outcome.json` beside it. The key covers the program with all that decides on its runs, the operator and the seams.
"""

from __future__ import annotations

import hashlib
import inspect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from benchmarks.detection.corpus.program import Program as OwnProgram
from benchmarks.detection.train import Job as OwnJob
from benchmarks.engine.stored import Outcome
from benchmarks.engine.usual import usual_capture
from benchmarks.mutants import plain_losses, seams
from benchmarks.mutants.launch import TWIN
from benchmarks.mutants.operator import REPORT, TUNE, Operator, all_operators, half_of
from benchmarks.mutants.plain_losses import Recorded
from benchmarks.mutants.subjects import Subject
from benchmarks.wild.run import Job as WildJob

ROOT = Path("build/mutants")
LOSSES = "losses.json"


@dataclass(frozen=True)
class Mutant:
    """One training: a program, the operator planted in it (None for the twin) and a seed."""

    subject: Subject
    operator: Operator | None
    seed: int

    @property
    def name(self) -> str:
        return f"{self.subject.name}/{self.operator.name if self.operator else TWIN}/{self.seed}"

    @property
    def half(self) -> str:
        """`tune` if both the library and the family of operators are of that half; else `report`."""
        family = half_of(self.operator.family) if self.operator else TUNE
        return TUNE if self.subject.half == TUNE == family else REPORT

    @property
    def twin(self) -> Mutant:
        """The same training with nothing planted."""
        return Mutant(self.subject, None, self.seed)

    def folder(self, root: Path) -> Path:
        """Return the folder of this training, which may not exist."""
        program = f"{self.seed}-{_program_digest(self.subject)}"
        text = "\n".join(
            [program, torch.__version__.partition("+")[0], usual_capture(budget=1.0).to_json(), _digest(self.operator)]
        )
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        name = self.operator.name if self.operator else TWIN
        return root / self.subject.name / name / f"{self.seed}-{key}"


def mutants(
    subjects: Sequence[Subject], *, half: str | None, seeds: int, operators: Sequence[Operator] | None = None
) -> Iterator[Mutant]:
    """Yield trainings of a half: by seed, then by program, each twin before its mutants.

    Args:
        subjects: Programs to choose from.
        half: `tune`, `report`, or None for both.
        seeds: Number of seeds of each program.
        operators: All by default.
    """
    chosen = list(all_operators().values()) if operators is None else operators
    for place in range(seeds):
        for subject in subjects:
            seed = subject.seeds[place]
            planted = [Mutant(subject, each, seed) for each in chosen]
            planted = [each for each in planted if half is None or each.half == half]
            if planted:
                yield Mutant(subject, None, seed)
                yield from planted


def drawn(chosen: Sequence[Mutant], *, count: int, draw: str) -> list[Mutant]:
    """Return the trainings of a random sample of mutants: all seeds of each, and their twins, in the order given.

    The sample is stratified: families of operators take turns, so that each has its share however few mutants it has.
    Within a family, and of the families in the last turn, the SHA-256 of the draw and the names of program and operator
    decides. A larger sample of the same draw holds the smaller one, so that a sample may grow while nothing of it has
    been read.

    Args:
        chosen: Trainings to draw from.
        count: Number of pairs of each half; fewer if there are not as many.
        draw: Any text. Another text is another sample.
    """
    sample = {
        pair
        for half in (TUNE, REPORT)
        for pair in _in_turns([each for each in chosen if each.half == half], draw=draw)[:count]
    }
    subjects = {subject for subject, _ in sample}
    return [
        each
        for each in chosen
        if (_pair(each) in sample if each.operator is not None else each.subject.name in subjects)
    ]


def _in_turns(mutants: Sequence[Mutant], *, draw: str) -> list[tuple[str, str]]:
    """Return the pairs of program and operator, one of each family, then the second of each, and so on."""
    families = {_pair(each): each.operator.family for each in mutants if each.operator is not None}
    shuffled = sorted(families, key=lambda pair: hashlib.sha256(f"{draw} {pair[0]} {pair[1]}".encode()).digest())
    turns: dict[tuple[str, str], int] = {}
    taken: Counter[str] = Counter()
    for pair in shuffled:
        turns[pair] = taken[families[pair]]
        taken[families[pair]] += 1
    return sorted(shuffled, key=turns.__getitem__)


def _pair(mutant: Mutant) -> tuple[str, str]:
    return mutant.subject.name, mutant.operator.name if mutant.operator else TWIN


def has_no_effect(mutant: Mutant, root: Path) -> bool:
    """Return True if a stored training shows that this seed of a mutant cannot count: it raised, or was unreached."""
    outcome = Outcome.read(mutant.folder(root))
    if mutant.operator is None or outcome is None:
        return False
    recorded = Recorded.read(mutant.folder(root) / LOSSES)
    return bool(outcome.status) or not (recorded and recorded.touched)


@cache
def _program_digest(subject: Subject) -> str:
    """Return the key by which runs of a program are stored in its own corpus, without the seed."""
    program = subject.program
    if isinstance(program, OwnProgram):
        folder = OwnJob(program, "", 0, usual_capture(budget=1.0).to_json()).folder(ROOT)
    else:
        folder = WildJob(program, 0).folder(ROOT)
    return folder.name.partition("-")[2]


@cache
def _digest(operator: Operator | None) -> str:
    """Return a digest of the seams, and of an operator with the code that it shares with others of its file."""
    digest = hashlib.sha256()
    for module in (seams, plain_losses):
        digest.update(inspect.getsource(module).encode())
    if operator is not None:
        text = Path(inspect.getfile(operator.plant)).read_text(encoding="utf-8")
        for other in all_operators().values():
            if other != operator and other.plant.__module__ == operator.plant.__module__:
                text = text.replace(inspect.getsource(other.plant), "")
        digest.update(text.encode())
    return digest.hexdigest()
