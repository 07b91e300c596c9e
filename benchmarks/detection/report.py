"""Trains and judges a whole split for every preset, and writes the tables of docs/rule-quality.md.

    python -m benchmarks.detection.report --split report --processes 2 --write docs/rule-quality.md
    python -m benchmarks.detection.report --split tune --seeds 1 --only wine --verbose     # prints them, and each run

It may be ended and started again at any time: a run that is stored is not trained again, and what was said of a run is
kept beside it (`judged-<preset>.json`) and holds for as long as the code of the rules and of the evaluation does.
What stands above the marker in the file is left as it is.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.detection.card import Card, Run
from benchmarks.detection.train import Job, add_choice, chosen_jobs, train_all
from benchmarks.engine.documents import write_text
from benchmarks.engine.judge import Judged, judge_all
from benchmarks.engine.options import parser
from benchmarks.engine.pages import follows, put
from benchmarks.engine.stored import Outcome, missing_of, stored_of
from benchmarks.engine.usual import rules_of
from trackside.contracts.rule_request import PRESETS

MARKER = follows("benchmarks.detection.report")


def run_of(job: Job, folder: Path, judged: Judged) -> Run:
    """Return a judged run with what is true of it."""
    outcome = Outcome.read(folder)
    fault = job.program.fault(job.fault) if job.fault else None
    effect_step = (outcome.effect_step if outcome else None) or 0
    return Run(job.name, fault.kind if fault else "", frozenset(fault.causes if fault else ()), effect_step, judged)


def card_of(stored: Sequence[tuple[Job, Path]], *, preset: str, processes: int) -> Card:
    """Return the card of a preset over these runs."""
    judged = judge_all([folder for _, folder in stored], processes=processes, preset=preset)
    runs = [run_of(job, folder, each) for (job, folder), each in zip(stored, judged, strict=True)]
    return Card(preset, tuple(rule.rule_id for rule in rules_of(preset)), tuple(runs))


def page(cards: Sequence[Card], *, split: str, seeds: int, missing: int) -> Iterator[str]:
    """Yield the written part of the page, line by line."""
    first = cards[0]
    yield (
        f"{len(first.runs)} of {len(first.runs) + missing} runs of the split `{split}` ({len(first.clean)} clean, "
        f"{len(first.faulty)} faulty, {seeds} seeds of each), torch {torch.__version__}, losses captured at every "
        "step. Intervals are Wilson's at 95 %, and count a program's seeds as independent."
    )
    for card in cards:
        yield ""
        yield from card.markdown()


def main(words: Sequence[str] | None = None) -> int:
    """Train, judge and write; 1 if a rule crashed or a training came to no end."""
    options = parser(__doc__)
    add_choice(options)
    options.add_argument("--presets", nargs="*", choices=PRESETS, default=list(PRESETS))
    options.add_argument("--write", type=Path, help="the page whose tables are replaced")
    options.add_argument("--json", type=Path, help="write what was said of each run there")
    options.add_argument("--verbose", action="store_true", help="a line for each run besides")
    arguments = options.parse_args(words)
    jobs, root = chosen_jobs(arguments), arguments.root
    todo = missing_of(jobs, root)
    began = time.perf_counter()
    failed = train_all(todo, root=root, processes=arguments.processes) if todo else []
    print(f"{len(todo)} trained in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    stored = stored_of(jobs, root)
    cards = [card_of(stored, preset=preset, processes=arguments.processes) for preset in arguments.presets]
    missing = len(jobs) - len(stored)
    put([*page(cards, split=arguments.split, seeds=arguments.seeds, missing=missing)], arguments.write, begin=MARKER)
    runs = [run for card in cards for run in card.runs]
    if arguments.verbose:
        print("\n".join(run.line() for run in runs))
    if arguments.json:
        write_text(arguments.json, json.dumps([run.document() for run in runs], indent=1) + "\n")
    return 1 if failed or any(run.judged.crashed for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
