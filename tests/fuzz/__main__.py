"""`python -m tests.fuzz`: plays cases for a while, in processes of their own."""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.case import Fuzzer
from tests.fuzz.players import Game, play
from tests.fuzz.watch import OpenedFiles


def main(arguments: Sequence[str] | None = None) -> int:
    """Plays until the time is up; 0 if everything held."""
    options = _parser().parse_args(arguments)
    corpus = options.corpus.resolve() if options.corpus else None
    if options.case is not None:
        return _play_one(options.seed, options.case, corpus, keep=options.keep)
    started = time.monotonic()
    game = Game(
        options.seed,
        _minutes(options),
        options.processes,
        first=options.first,
        cases=options.cases,
        corpus=corpus,
        most_failures=options.most_failures,
    )
    failed, cases = play(game, tell=_print_case)
    seconds = time.monotonic() - started
    sys.stdout.write(f"{cases} cases, {failed} failed, {seconds:.0f} s, seed {options.seed}\n")
    return 1 if failed else 0


def _print_case(text: str) -> None:
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode())  # a failure may name half a surrogate pair
    sys.stdout.flush()


def _minutes(options: argparse.Namespace) -> float:
    if options.minutes is not None:
        return float(options.minutes)
    return 1.0 if options.cases is None else math.inf


def _play_one(seed: str, number: int, corpus: Path | None, *, keep: Path | None) -> int:
    scratch = keep.resolve() if keep else Path(tempfile.mkdtemp(prefix="trackside-fuzz-"))
    failure = Fuzzer(scratch, seed=seed, corpus=corpus, opened=OpenedFiles()).play(number)
    _print_case(f"{failure or 'all held'}\nThe run as it was read: {scratch / 'run'}\n")
    return 1 if failure else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Damages runs and reads them.")
    parser.add_argument("--minutes", type=float, default=None, help="how long (default: 1, or as long as --cases take)")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case")
    parser.add_argument("--cases", type=int, metavar="N", help="play so many cases, however long that takes")
    parser.add_argument("--case", type=int, metavar="N", help="play this case alone")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="with --case: leave the damaged run here")
    parser.add_argument("--corpus", type=Path, metavar="FOLDER", help="further valid runs, one in each folder below")
    parser.add_argument("--most-failures", type=int, default=20, metavar="N", help="stop after so many (default 20)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
