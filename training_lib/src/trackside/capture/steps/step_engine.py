"""The step engine: the number of the step, what it must save, and where it goes. Knows no framework."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from trackside.capture.ground.free_memory import MemoryRoom
from trackside.capture.steps.collection import ANYTHING, Membership
from trackside.capture.steps.open_step import OpenStep
from trackside.capture.steps.schedule import NOTHING_DUE, Due, ModeSchedule
from trackside.capture.steps.spill import Spill
from trackside.capture.steps.step_tensors import StepTensors
from trackside.contracts.capture_request import MODES, CaptureRequest
from trackside.records.modes import checked_mode

TRAIN, EVAL, PREDICT, GLOBAL = MODES
_LOSSES = frozenset({"losses"})


class Destination(Protocol):
    """A receiver of whole steps."""

    def submit(self, step: StepTensors) -> bool:
        """Take a step. Return False if it was dropped."""


@dataclass(frozen=True)
class Position:
    """The number of ended steps: over all modes, and in each that has begun."""

    step: int = 0
    mode_steps: Mapping[str, int] | None = None


class Tally:
    """The counter of steps at rest, small and apart: the code that counts a step runs with cold caches.

    Counting one is `left -= 1`. Whoever takes the last one grants more, or ends the rest.

    Attributes:
        granted: Number of steps that were granted in this rest.
        left: Of these, steps that have not passed.
        optimizer: The id of the optimizer each of whose steps is one of the training; 0 if that has to be asked.
    """

    __slots__ = ("granted", "left", "optimizer")

    def __init__(self) -> None:
        self.granted = self.left = self.optimizer = 0

    def grant(self, steps: int) -> None:
        """Let so many steps more pass."""
        self.granted += steps
        self.left += steps


class StepEngine:
    """A counter and collector of steps, which hands each on whole.

    An adapter reads `due`, adds losses and tensors to `open_step`, and calls `end_step` at the boundary. An idle step
    costs one addition and one comparison. Each mode has an open step of its own: a training step that is under way is
    still open after a validation in between.

    Attributes:
        mode: The current mode.
        open_step: The open step of the current mode.
        due: What that step saves.
        tally: Counts the steps at rest.
        room: Decides whether a step may keep one more copy, whatever framework it comes from.
        spill: Takes the copies of a step that go beyond the memory it may take.
    """

    def __init__(
        self,
        request: CaptureRequest,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        kinds_of_regex: frozenset[str] | None = None,
        regexes: Mapping[str, str] | None = None,
    ) -> None:
        self._request, self._kinds_of_regex = request, ANYTHING if kinds_of_regex is None else kinds_of_regex
        self._regexes = regexes
        self._clock, self._monotonic = clock, monotonic
        self._membership = Membership(request, regexes)
        self.room, self.spill = MemoryRoom(), Spill(request.memory_mb << 20)
        self._destination: Destination | None = None
        self._modes: dict[str, OpenStep] = {}
        self._is_at_rest = False
        self._ended = 0  # steps before the rest
        self.tally = Tally()
        self.mode = TRAIN
        self.open_step = self._begin(TRAIN)
        self.due: Due = self.open_step.due

    @property
    def step(self) -> int:
        """Number of steps of all modes that have ended, so the number of the open step if it ends next.

        The steps of the mode GLOBAL are counted by it. Schedules look at `mode_step()`.
        """
        return self._ended + self._rested

    @property
    def _rested(self) -> int:
        return self.tally.granted - self.tally.left

    def connect(self, destination: Destination) -> None:
        """Set the destination of steps.

        Until then they are held; only the first step, before its end, is ever not connected.
        """
        self._destination = destination

    def use_request(self, request: CaptureRequest) -> None:
        """Replace the request, from the open step on."""
        self._request, self._membership = request, Membership(request, self._regexes)
        self.spill.most_bytes = request.memory_mb << 20
        for open_step in self._modes.values():
            open_step.membership = self._membership
            open_step.schedule = self._schedule(open_step.mode)
            self._look_ahead(open_step)
        self.due = self.open_step.due

    def save_nothing(self) -> None:
        """Count steps from now on and save none, because this worker saves no tensors."""
        self._destination = None
        self.use_request(CaptureRequest(()))
        for open_step in self._modes.values():
            open_step.clear()

    def resume(self, position: Position) -> None:
        """Add the step counts of an earlier process of this run."""
        self._ended += position.step
        for mode, mode_step in (position.mode_steps or {}).items():
            self._state(mode).mode_step += mode_step
        for open_step in self._modes.values():
            if open_step.is_empty:
                self._look_ahead(open_step)
        self.due = self.open_step.due

    def position(self) -> Position:
        """Return the number of ended steps in this process. Safe to call from another thread."""
        ended, rested = self._ended, self._rested
        counts = {mode: open_step.mode_step for mode, open_step in tuple(self._modes.items())}
        if self._is_at_rest:
            counts[self.mode] += rested
        return Position(ended + rested, counts)

    def mode_step(self, mode: str | None = None) -> int:
        """Return the number of the open step within a mode, by default the current one; it counts from 0."""
        mode = mode or self.mode
        if mode == GLOBAL:
            return self.step
        known = self._modes.get(mode)
        if known is None:
            return 0
        return known.mode_step + (self._rested if self._is_at_rest and mode == self.mode else 0)

    @property
    def saves_losses_alone(self) -> bool:
        """True if the open step and all after it save losses, and nothing else."""
        due, open_step = self.due, self.open_step
        return due.kinds == _LOSSES and open_step.schedule.is_always(open_step.mode_step)

    def steps_to_count(self, *, with_losses: bool = False) -> int:
        """Return the number of steps, from the open one on, with nothing due in them or in the next.

        Between `begin_rest` and `end_rest` one is ended by `tally`, and nothing else.

        Args:
            with_losses: True if `hand_on_losses` is called before a step that saves losses alone is counted.
        """
        if self.mode == GLOBAL or not self.open_step.is_empty:
            return 0
        if self.due is not NOTHING_DUE:
            return sys.maxsize if with_losses and self.saves_losses_alone else 0
        return self.open_step.schedule.idle_steps(self.open_step.mode_step + 1)

    def hand_on_losses(self) -> None:
        """Hand on the losses of a step at rest, which ends: `tally` is about to count it."""
        ended = self.open_step
        tensors = ended.take(self.step, self.mode_step(), wall_time=self._clock(), keep_unsettled=False, renamed=str)
        if tensors is not None and self._destination is not None:
            self._destination.submit(tensors)

    def begin_rest(self) -> None:
        """Begin to count steps of the current mode by `tally` alone, at most `steps_to_count` of them."""
        self._is_at_rest = True

    def end_rest(self) -> int:
        """End that. Return the number of steps since `begin_rest`."""
        tally, rested = self.tally, self._rested
        tally.granted = tally.left = tally.optimizer = 0
        self._ended += rested
        self.open_step.mode_step += rested
        self._is_at_rest = False
        return rested

    def set_mode(self, mode: str) -> None:
        """Make that mode the current one.

        Raises:
            ValueError: It is no mode.
        """
        if mode == self.mode:
            return
        self.open_step = self._state(checked_mode(mode))
        self.mode = mode
        if mode == GLOBAL and self.open_step.is_empty:  # other modes have moved it on
            self._look_ahead(self.open_step)
        self.due = self.open_step.due

    def end_step(self, *, keep_unsettled: bool = False, renamed: Callable[[str], str] = str) -> None:
        """Hand the open step on if it holds anything, and open the next.

        Args:
            keep_unsettled: True if what was added since the last `settle` is the next step's, as far as that saves it.
            renamed: Returns the name in the next step of a tensor that is kept.
        """
        ended = self.open_step
        was_due = self.due is not NOTHING_DUE
        if was_due or ended.unsettled or ended.settled:
            tensors = ended.take(
                self.step, self.mode_step(), wall_time=self._clock(), keep_unsettled=keep_unsettled, renamed=renamed
            )
            if tensors is not None and self._destination is not None:
                self._destination.submit(tensors)
        self._ended += 1
        ended.mode_step += 1
        if was_due or not ended.schedule.is_idle(self.step if self.mode == GLOBAL else ended.mode_step):
            ended.schedule.has_saved(ended.due)
            self._look_ahead(ended)
            self.due = ended.due
        if ended.unsettled:
            ended.drop_unwanted()

    def _schedule(self, mode: str) -> ModeSchedule:
        return ModeSchedule(self._request, mode, monotonic=self._monotonic, kinds_of_regex=self._kinds_of_regex)

    def _look_ahead(self, open_step: OpenStep) -> None:
        open_step.look_ahead(self.mode_step(open_step.mode))

    def _state(self, mode: str) -> OpenStep:
        return self._modes.get(mode) or self._begin(mode)

    def _begin(self, mode: str) -> OpenStep:
        begun = OpenStep(mode, self._schedule(mode), self._membership, self.room, self.spill)
        self._modes[mode] = begun
        self._look_ahead(begun)
        return begun
