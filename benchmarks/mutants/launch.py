"""Runs a script with a mistake planted in its process; the script is not changed.

    python -m benchmarks.mutants.launch loss-negated train.py --epochs 3
    python -m benchmarks.mutants.launch --losses out.json twin train.py        # nothing planted
    python -m benchmarks.mutants.launch --list

Under `trackside run -- python -m benchmarks.mutants.launch ...` the mutant is judged as any training.
"""

from __future__ import annotations

import argparse
import atexit
import os
import runpy
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from benchmarks.engine.options import parser
from benchmarks.mutants.operator import all_operators
from benchmarks.mutants.plain_losses import PlainLosses
from benchmarks.mutants.seams import Seams

TWIN = "twin"


@dataclass(frozen=True)
class Planted:
    """A mistake in this process, and the record of the losses."""

    seams: Seams
    losses: PlainLosses

    def write(self, path: Path) -> None:
        """Write the plain losses and the number of the mistake's effects."""
        self.losses.write(path, touched=self.seams.touched)

    def write_at_exit(self, path: Path) -> None:
        """Write them when this process ends; workers of a DataLoader are forks, and end too."""
        owner, path = os.getpid(), path.absolute()
        atexit.register(lambda: self.write(path) if os.getpid() == owner else None)


def plant(name: str, *, seed: int = 0) -> Planted:
    """Plant a mistake in this process, and begin to record losses.

    Args:
        name: Name of an operator, or `twin` for none.
        seed: Seed of the operator's own random numbers.

    Raises:
        KeyError: There is no such operator.
    """
    seams, losses = Seams(seed), PlainLosses()
    if name != TWIN:
        all_operators()[name].plant(seams)
    losses.watch(seams)
    return Planted(seams, losses)


def listing() -> Iterator[str]:
    """Yield the operators by family, for a terminal of 80 columns."""
    for family, several in groupby(all_operators().values(), key=lambda each: each.family):
        yield family
        for each in several:
            yield f"  {each.name}"
            yield textwrap.fill(each.what, 78, initial_indent="      ", subsequent_indent="      ")


def main(words: Sequence[str] | None = None) -> int:
    """Plant the mistake, and become the script."""
    options = parser(__doc__)
    options.add_argument("--list", action="store_true", help="print the operators")
    options.add_argument("--seed", type=int, default=0, help="of the operator's own random numbers")
    options.add_argument("--losses", type=Path, help="write the losses there, as the script alone would compute them")
    options.add_argument("operator", nargs="?", default=TWIN, help="name of an operator, or `twin` for none")
    options.add_argument("script", nargs="?", help="the script, which is not changed")
    options.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the script")
    arguments = options.parse_args(words)
    if arguments.list or arguments.script is None:
        print("\n".join(listing()))
        return 0
    if arguments.operator != TWIN and arguments.operator not in all_operators():
        options.error(f"Unknown operator {arguments.operator!r}. `--list` prints them.")
    losses = arguments.losses and arguments.losses.absolute()
    planted = plant(arguments.operator, seed=arguments.seed)
    sys.argv = [arguments.script, *arguments.arguments]
    sys.path[0] = str(Path(arguments.script).resolve().parent)
    try:
        runpy.run_path(arguments.script, run_name="__main__")
    finally:
        planted.seams.undo()
        if losses:
            planted.write(losses)
    return 0


if __name__ == "__main__":
    sys.exit(main())
