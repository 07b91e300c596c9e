"""How many planted mistakes of fine-tunings are found and named, and how many sound ones warned of?

    python -m benchmarks.language.report --half tune --only policy
    python -m benchmarks.language.report --write docs/fine-tuning.md

The programs of `trainers.py` need transformers, TRL and PEFT: run it in the environment of the family `language`, which
`python -m benchmarks.wild.environments build language` makes. Each training is a process of its own, forked from one
that has imported all. A stored training is not made again; `--fresh` makes all.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.engine.documents import write_text
from benchmarks.engine.forks import train_each, watched
from benchmarks.engine.judge import Judged, judge_all
from benchmarks.engine.options import add_place, parser
from benchmarks.engine.pages import replaced
from benchmarks.engine.stored import RUN, Outcome, missing_of
from benchmarks.engine.usual import usual_capture
from benchmarks.language import issues, policies, scripts, trainers
from benchmarks.language.case import REPORT, TUNE, Case
from trackside.contracts.verdict import Severity

ROOT = Path("build/language")
BEGIN, END = "<!-- benchmarks.language.report -->", "<!-- end of benchmarks.language.report -->"


@dataclass(frozen=True)
class Job:
    """One training of a program."""

    case: Case
    seed: int

    @property
    def name(self) -> str:
        """The name of the program, and the seed."""
        return f"{self.case.name}/{self.seed}"

    def folder(self, root: Path) -> Path:
        """Return the folder of this training."""
        return root / self.case.name / str(self.seed)


def chosen(*, halves: Sequence[str], seeds: int, only: Sequence[str], with_trainers: bool) -> list[Job]:
    """Return the trainings of these halves whose names hold one of these words."""
    found = [*policies.cases(), *([*trainers.cases(), *scripts.cases(), *issues.cases()] if with_trainers else ())]
    return [
        Job(case, seed)
        for case in found
        if case.half in halves and (not only or any(word in case.name for word in only))
        for seed in range(seeds)
    ]


def train(job: Job, folder: Path) -> None:
    """Train in this process, and store run and outcome below the folder."""
    began, error, score = time.process_time(), "", None
    place = folder.absolute()
    os.chdir(place)
    try:
        with watched(place / RUN, usual_capture(budget=1.0).to_json()):
            score = job.case.train(job.seed)
    except (ValueError, RuntimeError, ArithmeticError) as raised:  # what training that has gone wrong may end in
        error = f"{type(raised).__name__}: {raised}"
    size = sum(path.stat().st_size for path in (place / RUN).rglob("*") if path.is_file())
    Outcome(score=score, seconds=time.process_time() - began, size_bytes=size, error=error).write(place)


def is_found(judged: Judged) -> bool:
    """Return True if a card of warning level or above stands at the end, or stood before."""
    return any(card.severity.rank >= Severity.WARNING.rank for card in judged.cards)


def is_named(job: Job, judged: Judged) -> bool:
    """Return True if a card names one of the causes among its first two."""
    return any(cause.value in job.case.causes for card in judged.cards for cause in card.causes[:2])


def table(found: Sequence[tuple[Job, Judged]]) -> str:
    """Return the table of figures by half."""
    lines = ["| half | planted | found | named | sound | warned of | critical |", "|---|---|---|---|---|---|---|"]
    for half in (TUNE, REPORT):
        own = [(job, judged) for job, judged in found if job.case.half == half]
        bad, good = [pair for pair in own if not pair[0].case.is_sound], [p for p in own if p[0].case.is_sound]
        if not own:
            continue
        critical = sum(any(c.severity is Severity.CRITICAL for c in judged.cards) for _, judged in good)
        cells = [half, len(bad), sum(is_found(j) for _, j in bad), sum(is_named(*pair) for pair in bad), len(good)]
        lines.append(f"| {' | '.join(map(str, [*cells, sum(is_found(j) for _, j in good), critical]))} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Train what is not there, judge it, and print the figures."""
    options = parser(__doc__)
    options.add_argument("--half", choices=[TUNE, REPORT, "both"], default="both")
    options.add_argument("--seeds", type=int, default=1, help="trainings of each program")
    options.add_argument("--only", nargs="*", default=[], help="programs whose names hold one of these")
    options.add_argument("--fresh", action="store_true", help="train again what is stored")
    options.add_argument("--each", action="store_true", help="print each program of the half `tune`")
    options.add_argument("--write", help="the page that the table goes into")
    add_place(options, root=ROOT, processes=1)
    given = options.parse_args(words)
    halves = [TUNE, REPORT] if given.half == "both" else [given.half]
    has_trainers = _can_import("trl")
    jobs = chosen(halves=halves, seeds=given.seeds, only=given.only, with_trainers=has_trainers)
    root = given.root.absolute()
    todo = jobs if given.fresh else missing_of(jobs, root)
    if has_trainers and any(job.case.needs for job in todo):
        _import_trainers()
    train_each([(job, partial(train, job)) for job in todo], root=root, processes=given.processes)
    done = [job for job in jobs if Outcome.read(job.folder(root)) is not None]
    judged = list(judge_all([job.folder(root) for job in done], processes=given.processes))
    found = list(zip(done, judged, strict=True))
    for job, one in found if given.each else ():
        if job.case.half == TUNE:
            _print(job, one, Outcome.read(job.folder(root)))
    text = table(found)
    print(f"{text}\n\n{len(done)} of {len(jobs)} trainings came to an end.")
    if given.write:
        page = Path(given.write)
        write_text(page, replaced(page.read_text(encoding="utf-8"), text, begin=BEGIN, end=END))
    return 0


def _print(job: Job, judged: Judged, outcome: Outcome | None) -> None:
    cards = [
        f"{'/'.join(c.rules)}@{c.step}:{c.severity.value}:{','.join(x.value for x in c.causes[:2])}"
        for c in judged.cards
    ]
    is_right = (not is_found(judged)) if job.case.is_sound else is_named(job, judged)
    score = f"{outcome.score:.2f}" if outcome is not None and outcome.score is not None else "-"
    error = outcome.error[:80] if outcome is not None else ""
    print(f"{'ok ' if is_right else 'BAD'} {job.name:34} {score} {' | '.join(cards)} {error}")


def _can_import(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


def _import_trainers() -> None:
    """Import, before any fork, what each of them needs."""
    import datasets  # noqa: F401
    import peft  # noqa: F401
    from trl import DPOTrainer, GRPOTrainer, SFTTrainer  # noqa: F401


if __name__ == "__main__":
    sys.exit(main())
