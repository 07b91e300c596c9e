"""Do trainings with a fault end as their sound twins, with rescue and without it?

    python -m benchmarks.rescue --seeds 3 --write docs/rescue.md     # an hour on two cores
    python -m benchmarks.rescue --seeds 1 --only "batch with NaN"

Each training runs in a forked process: as it is, and under the capture and the rescue of `trackside run --rescue`,
with its own clock. A final loss is as the twin's if it is at most the twin's, plus three standard deviations of sound
final losses of the program over seeds, plus a twentieth.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.engine.forks import empty, forked, warm
from benchmarks.engine.options import parser
from benchmarks.engine.pages import follows, put, table
from benchmarks.engine.stored import RUN
from benchmarks.engine.usual import usual_capture
from benchmarks.rescue.programs import FIRST_AT, NOT_CURABLE, PROGRAMS, SHIFT, SOUND, STEPS, TRANSIENT, Fault
from trackside.capture.statistics import rest
from trackside.contracts.run.rescue import RescueRecord
from trackside.contracts.run_layout import RESCUE, worker_name
from trackside.environment import CaptureEnvironment, RescueEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.rescue.rescue import install_around

ROOT = Path("build/rescue")
WATCHED = 50  # first steps that capture watches: it rests in most of a long training, too
SOUND_SEEDS = 3
_OUTCOME = "outcome.json"


class Ended(NamedTuple):
    """The end of one training.

    loss    final loss
    digest  of the final weights
    rescue  the record of its rescues; None for none
    """

    loss: float
    digest: str
    rescue: RescueRecord | None

    @property
    def state(self) -> str:
        """The state of its rescues in one word; "" for none."""
        return self.rescue.state.value if self.rescue is not None else ""


def trained(program: str, fault: Fault, seed: int, folder: Path, *, is_rescued: bool) -> Ended:
    """Train in a process of its own, and return the end."""
    empty(folder)
    work = partial(_train, program, fault, seed, folder, is_rescued=is_rescued)
    if os.waitpid(forked(work, trouble=folder / "trouble.txt"), 0)[1]:
        raise RuntimeError(f"{program} came to no end: see {folder}/trouble.txt")
    outcome: dict[str, Any] = json.loads((folder / _OUTCOME).read_text())
    record = folder / RUN / RESCUE / f"{worker_name(0)}.json"
    rescue = RescueRecord.from_json(record.read_bytes()) if record.exists() else None
    return Ended(float(outcome["loss"]), outcome["digest"], rescue)


def _train(name: str, fault: Fault, seed: int, folder: Path, *, is_rescued: bool) -> None:
    if is_rescued:
        environment = CaptureEnvironment(str((folder / RUN).absolute()), usual_capture().to_json(), 0, 1)
        capture = PyTorchAdapter(environment)
        install_around(capture, RescueEnvironment(is_on=True))
    program = PROGRAMS[name](seed)
    program.run(fault, FIRST_AT + SHIFT * seed)
    vector = torch.nn.utils.parameters_to_vector(program.net.parameters()).detach()
    digest = hashlib.sha256(vector.numpy().tobytes()).hexdigest()
    (folder / _OUTCOME).write_text(json.dumps({"loss": str(program.final_loss), "digest": digest}))
    if is_rescued:
        capture.uninstall()


class Bench:
    """All trainings of one measurement."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.sound: dict[str, list[tuple[Ended, Ended]]] = {}

    def measure_sound(self, seeds: int) -> None:
        """Train each program without a fault, as it is and with rescue on."""
        for name in PROGRAMS:
            self.sound[name] = [
                (self._trained(name, SOUND, seed, False), self._trained(name, SOUND, seed, True))
                for seed in range(seeds)
            ]

    def with_fault(self, fault: Fault, seeds: int, *, is_rescued: bool) -> list[tuple[str, int, Ended]]:
        """Return (program, seed, end) of each program and seed."""
        each = [(name, seed) for name in PROGRAMS for seed in range(seeds)]
        return [(name, seed, self._trained(name, fault, seed, is_rescued)) for name, seed in each]

    def is_as_twin(self, name: str, seed: int, ended: Ended) -> bool:
        """Return True if a training ended as its sound twin."""
        losses = [plain.loss for plain, _ in self.sound[name]]
        limit = losses[seed] * 1.05 + 3 * statistics.stdev(losses)
        return math.isfinite(ended.loss) and ended.loss <= limit

    def _trained(self, name: str, fault: Fault, seed: int, is_rescued: bool) -> Ended:
        return trained(name, fault, seed, self._root, is_rescued=is_rescued)


def transient_rows(bench: Bench, seeds: int, only: str) -> Iterator[tuple[str, ...]]:
    """Yield a row for each kind of fault that going back may cure, and their sum."""
    total, plain_well, rescued_well = 0, 0, 0
    for title, fault in TRANSIENT.items():
        if only and only not in title:
            continue
        runs = bench.with_fault(fault, seeds, is_rescued=True)
        plain = sum(bench.is_as_twin(*one) for one in bench.with_fault(fault, seeds, is_rescued=False))
        well = sum(bench.is_as_twin(*one) for one in runs)
        undone = [one.rescue.tries[0].undone_steps for *_, one in runs if one.rescue and one.rescue.tries]
        words = _counted([one.state for *_, one in runs])
        total, plain_well, rescued_well = total + len(runs), plain_well + plain, rescued_well + well
        steps = f"{statistics.median(undone):g}" if undone else "-"
        yield title, f"{plain} of {len(runs)}", f"{well} of {len(runs)}", words, steps
        print(title, plain, well, words, steps, file=sys.stderr, flush=True)
    yield "**all**", f"**{plain_well} of {total}**", f"**{rescued_well} of {total}**", "", ""


def not_curable_rows(bench: Bench, seeds: int, only: str) -> Iterator[tuple[str, ...]]:
    """Yield a row for each kind of fault that going back cannot cure."""
    for title, fault in NOT_CURABLE.items():
        if only and only not in title:
            continue
        runs = bench.with_fault(fault, seeds, is_rescued=True)
        states = [one.state for *_, one in runs]
        yield title, f"{states.count('rescued')} of {len(runs)}", _counted(states)
        print(title, states, file=sys.stderr, flush=True)


def _counted(states: Sequence[str]) -> str:
    named = [state or "left alone" for state in states]
    return ", ".join(f"{named.count(state)} {state}" for state in dict.fromkeys(sorted(named)))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=1, help="of each fault and program (default %(default)s)")
    options.add_argument("--only", default="", help="only faults with this in their title")
    options.add_argument("--write", type=Path, metavar="PAGE", help="write the tables into this page")
    arguments = options.parse_args()
    warm()
    rest.FIRST_WATCHED = WATCHED
    started, bench = time.monotonic(), Bench(ROOT)
    bench.measure_sound(max(SOUND_SEEDS, arguments.seeds))
    sound = [pair for pairs in bench.sound.values() for pair in pairs]
    went_back = sum(bool(one.rescue) for _, one in sound)
    equal = sum(plain.digest == one.digest for plain, one in sound)
    lines = [
        *table(
            "transient fault | as the sound twin, without rescue | with it | rescues | steps undone, median",
            transient_rows(bench, arguments.seeds, arguments.only),
        ),
        "",
        *table(
            "fault that going back cannot cure | called rescued | rescues",
            not_curable_rows(bench, arguments.seeds, arguments.only),
        ),
        "",
        (
            f"Sound trainings: {len(sound)}, of which {went_back} went back or refused to; {equal} ended with the same "
            f"weights, to the bit, as without Trackside. Three programs of {STEPS} steps, seeds: {arguments.seeds}."
        ),
    ]
    put(lines, arguments.write, begin=follows("benchmarks.rescue"))
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
