"""The end of plain steps: each is kept as it is, and what it changes elsewhere is done for several together.

The short ways of adapters inherit it. Most steps of a training are plain (`capture/plain_steps.py`), and what runs once
a step costs several times as much in a training as alone: its caches hold the training's data. So an adapter decides
after a step that took its long way how many of the next may be kept (`_left`), and ends each by `_keep`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trackside.capture.plain_steps import KeptStep, Key, NumberKeys
from trackside.capture.schedule import NOTHING_DUE
from trackside.capture.session import RunSession
from trackside.capture.statistic_rows import Reading, Watched
from trackside.capture.step_engine import TRAIN
from trackside.profiling.phase_clock import (
    CAPTURE,
    DATA,
    FIRST_STEPS,
    PHASE_KEYS,
    STEP_KEY,
    WAIT_KEY,
    Phase,
    PhaseClock,
)

NOT_READ = Reading(Watched(()), [])
MOST_KEPT = 16  # steps, until what they change elsewhere is done
WAITS_EVERY = 8  # steps, between two readings of the wait for a processor
_PHASES = len(Phase)
_LEAST = -math.inf
_kept_step = tuple.__new__  # a named tuple's own is a function of Python


class StepKeeper:
    """The plain steps of one session.

    Args:
        session: The session.
        clock: The clock of its steps.
        further: The keys of numbers that each step has besides its times.
    """

    _waits_with_data = False  # the wait for a processor is read where a batch was fetched

    def __init__(self, session: RunSession, clock: PhaseClock, further: tuple[Key, ...] = ()) -> None:
        self._engine, self._record, self._meter = session.engine, session.statistics, session.statistics.meter
        self._recorder = session.statistics.recorder
        self._clock, self._read, self._waited = clock, clock.read, clock.waited
        self._keys = NumberKeys((*map(PHASE_KEYS.get, range(_PHASES)), STEP_KEY, *further), _PHASES)
        self._keys_with_wait = NumberKeys((*self._keys.keys, WAIT_KEY), _PHASES)
        self._reading = NOT_READ
        self._left = 0  # steps that may be kept
        self._long_step = 0.0  # seconds, from which on the wait for a processor is read
        self._kept: list[KeptStep] = []  # since the last `settle`

    def settle(self, *, is_within_step: bool = True) -> None:
        """Do what the kept steps change elsewhere. Nothing raises.

        Args:
            is_within_step: False right at the end of a step.
        """
        self._left = 0
        if not self._kept:
            return
        kept, self._kept = self._kept, []
        try:
            self._settle_others(kept)
            self._recorder.end_kept_steps(kept, is_within_step=is_within_step)
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            self._record.switch_off(error)

    def _settle_others(self, kept: Sequence[KeptStep]) -> None:
        """Do what they change in other parts of the adapter."""

    def _keep(self, further: tuple[float, ...] = ()) -> KeptStep | None:
        """End the step as one of those that are kept, and return it. Return None, with nothing done, if it is another.

        After the last one, or one with an unusual loss, none is left to keep, and `settle` is due.

        Args:
            further: The values of the keys.
        """
        recorder, engine, clock = self._recorder, self._engine, self._clock
        losses, open_step = recorder.losses[TRAIN], engine.open_step
        if len(losses) != 1 or open_step.unsettled or open_step.settled or engine.due is not NOTHING_DUE:
            return None
        if engine.mode is not TRAIN:
            return None
        now, left = self._read(), self._left - 1
        seconds, clock.seconds = clock.seconds, [0.0] * _PHASES
        seconds[CAPTURE] += now - clock.moved_at
        took = now - clock.began
        clock.moved_at = clock.began = now
        clock.steps += 1
        if took > clock.longest and clock.steps > FIRST_STEPS + 1:
            clock.longest = took
        seconds += (took, *further)
        keys = self._keys
        if took > self._long_step or not left % WAITS_EVERY or (self._waits_with_data and seconds[DATA]):
            waited = self._waited()
            if waited is not None:
                seconds.append(min(waited, took))
                keys = self._keys_with_wait
        loss: Any = losses.pop()  # its value is a float: no number comes from a device
        self._left = left if _LEAST < loss[1] <= recorder.usual_loss else 0
        added = recorder.numbers.added
        if added:
            recorder.numbers.added = {}
        wall_time, share = recorder.clock(), recorder.budget.expected_share
        values = (
            engine.step,
            open_step.mode_step,
            wall_time,
            now,
            loss,
            self._reading,
            share,
            seconds,
            keys,
            added or None,
        )
        step = _kept_step(KeptStep, values)
        recorder.waiting.append(step)
        recorder.newest = step
        self._kept.append(step)
        engine.step += 1
        open_step.mode_step += 1
        if self._meter.is_on:
            recorder.budget.take_sample()
        return step
