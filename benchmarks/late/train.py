"""Trains the runs of the trial under Trackside's capture, and stores them in `build/late`.

    python -m benchmarks.late.train [--only ramp]

A run that is stored already is not trained again. Statistics may cost what they like (`budget` 1), so that the trial
says the same on every machine; `--budget 0.02` is the default of a run, with another `--root`.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from benchmarks.engine.documents import write_json
from benchmarks.engine.forks import train_each, watched
from benchmarks.engine.options import parser
from benchmarks.engine.stored import RUN
from benchmarks.engine.usual import usual_capture
from benchmarks.late.trainings import FAULTY, HEALTHY, Training, train

ROOT = Path("build/late")
LOSSES = "losses.json"


def store(training: Training, folder: Path, *, budget: float) -> None:
    """Train, and store the run and its losses."""
    with watched(folder / RUN, usual_capture(budget=budget).to_json()):
        losses = list(train(training))
    write_json(folder / LOSSES, losses)


def main() -> int:
    """Train what is not stored, each in a process of its own."""
    options = parser(__doc__)
    options.add_argument("--only", default="", help="trainings whose name holds this")
    options.add_argument("--root", type=Path, default=ROOT)
    options.add_argument("--budget", type=float, default=1.0, help="share of a step that statistics may cost")
    arguments = options.parse_args()
    chosen = [each for each in (*HEALTHY, *FAULTY) if arguments.only in each.name]
    missing = [each for each in chosen if not (each.folder(arguments.root) / LOSSES).exists()]
    todo = [(each, partial(store, each, budget=arguments.budget)) for each in missing]
    return 1 if train_each(todo, root=arguments.root) else 0


if __name__ == "__main__":
    sys.exit(main())
