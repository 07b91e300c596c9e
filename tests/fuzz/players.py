"""Cases played in processes of their own, watched from outside: a crash or a hang of one does not end the others."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.fuzz.case import Fuzzer
from tests.fuzz.watch import MOST_SECONDS, OpenedFiles

_SILENT_SECONDS = 30 + 14 * MOST_SECONDS  # a case has as many readers, each within its own limit
_REPORTED_CASES = 500


@dataclass(frozen=True)
class Game:
    """What is to be played: cases from `first` on, until there were `cases`, `minutes` are over, or so many failed."""

    seed: str
    minutes: float
    processes: int
    first: int = 0
    cases: int | None = None
    corpus: Path | None = None
    most_failures: int = 20


@dataclass
class Player:
    """A process, the last case it has finished, and when."""

    process: BaseProcess
    newest: int
    notified_at: float


def play(game: Game, *, tell: Callable[[str], None]) -> tuple[int, int]:
    """(how many failed, how many were played). `tell` hears of each failure at once, and now and then how far it is."""
    context = multiprocessing.get_context("spawn")
    failures = _Failures(tell)
    cases = 0
    until = time.monotonic() + 60 * game.minutes
    with tempfile.TemporaryDirectory(prefix="trackside-fuzz-", dir=_memory_folder()) as scratch:
        players: dict[Connection, Player] = {}
        for index in range(game.processes):
            ours, theirs = context.Pipe(duplex=False)
            arguments = (theirs, Path(scratch) / str(index), game, index, until)
            process = context.Process(target=_play, args=arguments, daemon=True)
            process.start()
            theirs.close()
            players[ours] = Player(process, -1, time.monotonic())
        while players and failures.count < game.most_failures:
            for ready in wait(list(players), timeout=1.0):
                assert isinstance(ready, Connection)
                player = players[ready]
                try:
                    player.newest, failure = ready.recv()
                except EOFError:
                    player.process.join()
                    del players[ready]
                    if player.process.exitcode:
                        failures.add(f"a process ended with {player.process.exitcode} after case {player.newest}")
                    continue
                player.notified_at = time.monotonic()
                cases += 1
                if failure:
                    failures.add(failure)
                if cases % _REPORTED_CASES == 0:
                    tell(f"{cases} cases so far, {failures.count} failed\n")
            for player in players.values():
                if player.process.is_alive() and _hangs(player):
                    failures.add(_killed(player))
        for player in players.values():
            player.process.kill()
            player.process.join()
    return failures.count, cases


class _Failures:
    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.count = 0

    def add(self, failure: str) -> None:
        self.count += 1
        self._tell(f"{failure}\n\n")


def _hangs(player: Player) -> bool:
    return time.monotonic() - player.notified_at > _SILENT_SECONDS


def _killed(player: Player) -> str:
    player.process.kill()
    return f"the case after {player.newest} of its process hangs: it was killed"


def _play(out: Connection, scratch: Path, game: Game, index: int, until: float) -> None:
    scratch.mkdir(parents=True)
    fuzzer = Fuzzer(scratch, seed=game.seed, corpus=game.corpus, opened=OpenedFiles())
    number = game.first + index
    end = None if game.cases is None else game.first + game.cases
    while time.monotonic() < until and (end is None or number < end):
        failure = fuzzer.play(number)
        out.send((number, str(failure) if failure else ""))
        number += game.processes


def _memory_folder() -> str | None:
    """A folder that is no disk, where there is one: files are small and many."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
