"""Do trainings by other people's trainers end as their sound twins after a fault, under `trackside run --rescue`?

    python -m venv build/trainers
    build/trainers/bin/pip install -e . torch transformers trl lightning keras click rich
    python -m benchmarks.rescue.trainers --python build/trainers/bin/python --write docs/rescue.md   # half an hour

Each training is `training.py`, started as a user would. A final loss, on other data, is as the twin's if it is at most
the twin's, plus a twentieth, plus three standard deviations of sound final losses over seeds.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put, table
from benchmarks.rescue.training import FAULTS, STEPS, TRAINERS
from trackside.contracts.run.rescue import RescueRecord
from trackside.environment import inherited
from trackside.runs.rescues import read_rescue
from trackside.storage.open_store import open_store

ROOT = Path("build/rescue-trainers")
SCRIPT = Path(__file__).with_name("training.py")
BEGIN, END = "<!-- trainers -->", "<!-- end of trainers -->"
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "KERAS_BACKEND": "torch",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
SOUND, *WITH_FAULT = FAULTS
SOUND_SEEDS = 3


class Ended(NamedTuple):
    """The end of one training: its loss, and the record of its rescues."""

    loss: float
    rescue: RescueRecord | None


class Trainings:
    """The trainings by one interpreter.

    Args:
        python: It has the trainers' libraries, and Trackside.
    """

    def __init__(self, python: str) -> None:
        self._python = os.path.abspath(python)

    def ended(self, trainer: str, kind: str, seed: int, *, is_rescued: bool) -> Ended:
        """Train in a process of its own, and return the end."""
        shutil.rmtree(ROOT, ignore_errors=True)
        ROOT.mkdir(parents=True)
        run = ["-m", "trackside", "run", "--rescue", "--fail-on", "never", "--out", "run", "--", self._python]
        command = [self._python, *(run if is_rescued else []), str(SCRIPT), trainer, kind, str(seed), "outcome.json"]
        environment = {**inherited(), **ENVIRONMENT}
        with (ROOT / "output.txt").open("w") as output:
            subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=output, check=True)
        loss = float(json.loads((ROOT / "outcome.json").read_text())["loss"])
        return Ended(loss, read_rescue(open_store(str(ROOT / "run"))) if is_rescued else None)


def rows(trainings: Trainings, only: str) -> Iterator[tuple[str, ...]]:
    """Yield a row for each trainer."""
    for trainer in TRAINERS:
        if only not in trainer:
            continue
        plain = [trainings.ended(trainer, SOUND, seed, is_rescued=False).loss for seed in range(SOUND_SEEDS)]
        watched = trainings.ended(trainer, SOUND, 0, is_rescued=True)
        limit = plain[0] * 1.05 + 3 * statistics.stdev(plain)
        cells = [trainer, f"{plain[0]:.3f}, at most {limit:.3f}", _of_sound(watched, plain[0])]
        for kind in WITH_FAULT:
            lost = trainings.ended(trainer, kind, 0, is_rescued=False).loss
            saved = trainings.ended(trainer, kind, 0, is_rescued=True)
            is_well = math.isfinite(saved.loss) and saved.loss <= limit
            state = saved.rescue.state.value if saved.rescue is not None else "left alone"
            cells.append(f"{lost:.3f} → {saved.loss:.3f}, {state}" + ("" if is_well else ": **not as the twin**"))
        print(*cells, sep=" | ", file=sys.stderr, flush=True)
        yield tuple(cells)


def _of_sound(watched: Ended, loss: float) -> str:
    if watched.rescue is not None:
        return f"**{watched.rescue.state.value}**"
    return "left alone, the same loss" if watched.loss == loss else f"left alone, **{watched.loss:.3f}**"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--python", default=sys.executable, help="interpreter (default: this one)")
    options.add_argument("--only", default="", help="only trainers with this in their name")
    options.add_argument("--write", type=Path, metavar="PAGE", help="write the table into this page")
    arguments = options.parse_args()
    started = time.monotonic()
    heads = " | ".join(["trainer", "sound loss", "sound, watched", *WITH_FAULT])
    lines = [*table(heads, rows(Trainings(arguments.python), arguments.only))]
    lines += ["", f"{STEPS} steps each; losses on other data, without rescue → with it."]
    put(lines, arguments.write, begin=BEGIN, end=END)
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
