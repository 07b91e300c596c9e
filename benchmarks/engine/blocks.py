"""What something costs a training, measured within it: blocks of steps with it and without take turns.

Two processes with the same training differ by up to 13 % for as long as they live, so that they cannot show 1 %. Here
one process has one model. Blocks of each kind come once in a round, in an order drawn by chance. A figure is the time
of a block over that of the two blocks without capture of the same round: the mean of the middle 80 % of the rounds,
with an interval that holds 95 % of 2,000 draws of rounds (bootstrap). `off again` is the one block without capture over
the other: no figure is finer than its interval. `1 % planted` is a block without capture in which a loop takes a
hundredth of a step of processor after each: the measure has to find it.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

OFF, AGAIN, PLANTED = "off", "off again", "1 % planted"
ALWAYS = (OFF, AGAIN, PLANTED)
PLANTED_SHARE = 0.01
WARM_UP = 4  # steps of a block before its clocks begin: what was set aside while the other kind trained is gone then
SHORTENED = 0.1  # of the rounds on each side
DRAWS = 2000

Round = dict[str, list[float]]  # by kind: seconds of a block, by each clock
Now = Callable[[], list[float]]


def turns(kinds: Sequence[str], rounds: int, block: Callable[[str], list[float]]) -> list[Round]:
    """Return what `block` measures of each kind, once a round."""
    chance = random.Random(0)  # noqa: S311 - an order
    return [{kind: block(kind) for kind in chance.sample(kinds, len(kinds))} for _ in range(rounds)]


class Blocks:
    """The same where a framework's own loop trains. `begin` comes before each block, `step_ended` after each step.

    Args:
        kinds: Kinds of blocks.
        switches: By kind: begins it, and returns the function that undoes that.
        rounds: Number of blocks of each kind.
        steps: Steps of a block, beside those before its clocks begin.
        now: The clocks.
    """

    def __init__(
        self,
        kinds: Sequence[str],
        switches: Mapping[str, Callable[[], Callable[[], object]]],
        *,
        rounds: int,
        steps: int,
        now: Now,
    ) -> None:
        self.rounds: list[Round] = []
        self.planted_seconds = 0.0
        self._kinds, self._switches, self._now = kinds, switches, now
        self._most, self._counted = rounds, steps
        self._order: list[str] = []
        self._kind, self._left, self._began = "", 0, list[float]()
        self._undo: Callable[[], object] | None = None
        self._random = random.Random(0)  # noqa: S311 - an order

    @property
    def steps(self) -> int:
        """The number of steps of a block, with those before its clocks begin."""
        return WARM_UP + self._counted

    def begin(self) -> bool:
        """Switch to the kind of the next block. Return False if all have ended."""
        if self._undo is not None:
            self._undo()
            self._undo = None
        if not self._order:
            if len(self.rounds) == self._most:
                return False
            self.rounds.append({})
            self._order = self._random.sample(self._kinds, len(self._kinds))
        self._kind, self._left = self._order.pop(), self.steps
        if self._kind in self._switches:
            self._undo = self._switches[self._kind]()
        return True

    def step_ended(self) -> bool:
        """Return True if the step was the last one of its block."""
        self._left -= 1
        if self._kind == PLANTED:
            spin(self.planted_seconds)
        if self._left == self._counted:
            self._began = self._now()
        elif self._left == 0:
            pairs = zip(self._now(), self._began, strict=True)
            self.rounds[-1][self._kind] = [now - before for now, before in pairs]
        return self._left == 0


def spin(seconds: float) -> None:
    """Use the processor for that long."""
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


def answer(found: object) -> NoReturn:
    """Print what was measured, and end this process."""
    sys.stdout.write(f"\n{json.dumps(found)}\n")
    sys.stdout.flush()
    os._exit(0)


def answer_of(command: Sequence[str | Path], **settings: Any) -> Any:
    """Return what a process of its own answered."""
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **settings)
    return json.loads(ended.stdout.splitlines()[-1])


def without(each: Round, clock: int = 0) -> float:
    """Return the time of a block without capture of a round."""
    return (each[OFF][clock] + each[AGAIN][clock]) / 2


def shares(rounds: Sequence[Round], kind: str, clock: int = 0) -> list[float]:
    """Return how much longer a block took than without capture, in per cent, by round."""
    usual = [each[OFF][clock] if kind == AGAIN else without(each, clock) for each in rounds]
    return [100 * (each[kind][clock] / off - 1) for each, off in zip(rounds, usual, strict=True)]


def shown(rounds: Sequence[Round], kind: str, clock: int = 0) -> str:
    """Return how much longer a block took, with its interval."""
    found, draw = shares(rounds, kind, clock), random.Random(0)  # noqa: S311 - of a bootstrap
    means = sorted(_middle(draw.choices(found, k=len(found))) for _ in range(DRAWS))
    low, high = means[round(0.025 * DRAWS)], means[round(0.975 * DRAWS) - 1]
    return f"{_middle(found):+.2f} % ({low:+.2f} to {high:+.2f})"


def _middle(found: Sequence[float]) -> float:
    cut = int(SHORTENED * len(found))
    return statistics.fmean(sorted(found)[cut : len(found) - cut])
