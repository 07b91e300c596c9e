"""Options that the commands of all sources share."""

from __future__ import annotations

import argparse
from pathlib import Path

from trackside.capture.statistics import rest


def parser(text: str | None) -> argparse.ArgumentParser:
    """Return a parser of options with the docstring of a command as its help."""
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_place(options: argparse.ArgumentParser, *, root: Path, processes: int = 1) -> None:
    """Add `--root` and `--processes`."""
    options.add_argument("--root", type=Path, default=root, help="folder of the runs (default %(default)s)")
    options.add_argument("--processes", type=int, default=processes, help="at once (default %(default)s)")


def add_rest(options: argparse.ArgumentParser) -> None:
    """Add `--rest-after`."""
    options.add_argument(
        "--rest-after",
        type=int,
        metavar="STEPS",
        help="capture within the budget of `trackside run`, and rest after so many steps; in a --root of its own",
    )


def rests(arguments: argparse.Namespace) -> bool:
    """Return True if trainings are to rest early; then let those of this process and of its forks do so."""
    if arguments.rest_after is None:
        return False
    rest.FIRST_WATCHED = rest.FEWEST_WATCHED = arguments.rest_after
    return True
