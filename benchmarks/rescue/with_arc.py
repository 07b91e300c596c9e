"""The same trainings under ARC's controller with its defaults, in an interpreter that has `arc-training` and Trackside.

    ENV/bin/python -m benchmarks.rescue.with_arc --seeds 1 --write docs/rescue.md

Faults, and what counts as the sound twin's loss, are those of `benchmarks.rescue`.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import arc
import torch

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put, table
from benchmarks.rescue.programs import FIRST_AT, NOT_CURABLE, PROGRAMS, SHIFT, SOUND, TRANSIENT, Fault

SOUND_SEEDS = 3
BEGIN, END = "<!-- arc -->", "<!-- end of arc -->"


class Ended(NamedTuple):
    """The end of one training: its final loss, ARC's rollbacks, and whether it calls the run unrecoverable."""

    loss: float
    rollbacks: int
    is_lost: bool


def trained(name: str, fault: Fault, seed: int, *, is_guarded: bool = True) -> Ended:
    """Train in this process, and return the end."""
    program = PROGRAMS[name](seed)
    rollbacks, is_lost = 0, False
    if is_guarded:
        scheduler = {"scheduler": program.scheduler} if program.scheduler is not None else {}
        controller = arc.Controller(program.net, program.optimizer, **scheduler)

        def guard(loss: torch.Tensor) -> bool:
            nonlocal rollbacks, is_lost
            action = controller.step(loss)
            rollbacks += bool(action.rolled_back)
            is_lost = is_lost or bool(action.unrecoverable)
            return bool(action.should_skip)

        program.guard = guard
    program.run(fault, FIRST_AT + SHIFT * seed)
    return Ended(program.final_loss, rollbacks, is_lost)


def rows(faults: Mapping[str, Fault], seeds: int) -> Iterator[tuple[str, ...]]:
    """Yield a row for each fault, and their sum."""
    sound = {
        name: [trained(name, SOUND, seed, is_guarded=False).loss for seed in range(max(SOUND_SEEDS, seeds))]
        for name in PROGRAMS
    }
    total, all_well = 0, 0
    for title, fault in faults.items():
        ends = [(name, seed, trained(name, fault, seed)) for name in PROGRAMS for seed in range(seeds)]
        limits = [1.05 * sound[name][seed] + 3 * statistics.stdev(sound[name]) for name, seed, _ in ends]
        pairs = zip(ends, limits, strict=True)
        well = sum(math.isfinite(end.loss) and end.loss <= limit for (*_, end), limit in pairs)
        lost, back = sum(end.is_lost for *_, end in ends), sum(end.rollbacks for *_, end in ends)
        total, all_well = total + len(ends), all_well + well
        print(title, well, back, lost, file=sys.stderr, flush=True)
        yield title, f"{well} of {len(ends)}", str(back), f"{lost} of {len(ends)}"
    yield "**all**", f"**{all_well} of {total}**", "", ""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=1, help="of each fault and program (default %(default)s)")
    options.add_argument("--write", type=Path, metavar="PAGE", help="write the table into this page")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    started = time.monotonic()
    heads = "fault, with ARC | as the sound twin | rollbacks | called unrecoverable"
    faults = {"none": SOUND, **TRANSIENT}
    lines = [
        *table(heads, rows(faults, arguments.seeds)),
        "",
        *table(heads.replace("fault", "not curable", 1), rows(NOT_CURABLE, arguments.seeds)),
    ]
    put(lines, arguments.write, begin=BEGIN, end=END)
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
