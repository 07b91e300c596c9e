"""The step engine: which step it is, what it must save, and what it has saved so far. Knows no framework."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trackside.capture.arrival import Arrival
from trackside.capture.collection import Membership, Saved
from trackside.capture.reduced_tensors import ReducedTensors
from trackside.capture.schedule import NOTHING, Due, ModeSchedule
from trackside.capture.writer import StepTensors
from trackside.contracts.capture_request import MODES, CaptureRequest
from trackside.records.modes import checked_mode

TRAIN, EVAL, PREDICT, GLOBAL = MODES
SCALARS = "scalars"
MOST_LOSSES_A_STEP = 64  # a script that calls backward and never steps must not fill the memory

_NO_COLLECTIONS: frozenset[str] = frozenset()


class Destination(Protocol):
    """Where whole steps go."""

    def submit(self, step: StepTensors) -> bool:
        """Takes a step; False if it was dropped."""


@dataclass(frozen=True)
class Position:
    """How many steps have ended: over all modes, and in each that has begun."""

    step: int = 0
    mode_steps: Mapping[str, int] | None = None


class _OpenStep:
    """The step that a mode has open, and where that mode stands."""

    __slots__ = (
        "arrivals", "collections", "due", "losses", "mode", "mode_step", "reduced", "schedule", "settled",
        "settled_losses", "settled_reduced", "tensors",
    )  # fmt: skip

    def __init__(self, mode: str, schedule: ModeSchedule) -> None:
        self.mode, self.schedule = mode, schedule
        self.mode_step = 0
        self.due: Due = NOTHING
        self.settled: dict[str, np.ndarray] = {}
        self.tensors: dict[str, np.ndarray] = {}  # since then
        self.collections: dict[str, frozenset[str]] = {}
        self.reduced: list[ReducedTensors] = []
        self.losses: list[tuple[str, np.ndarray]] = []
        self.arrivals: list[Arrival] = []  # of what is in all of these
        self.settled_losses = self.settled_reduced = 0

    @property
    def is_empty(self) -> bool:
        return not (self.tensors or self.settled or self.losses or self.reduced)


class Hook:
    """Collects one step after another and hands each on whole.

    An adapter asks `due`, adds losses and tensors, and calls `end_step` at the boundary. An idle step costs one
    addition and one comparison. Each mode has a step of its own open: a training step that is under way is still there
    after an evaluation in between.

    `step` counts the steps of all modes that have ended, so it is the number that the open step gets if it ends next;
    `mode_step()` counts within the mode, and schedules look at that one. `step` counts those of the mode GLOBAL.
    """

    def __init__(
        self,
        request: CaptureRequest,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._request = request
        self._clock, self._monotonic = clock, monotonic
        self._membership = Membership(request)
        self._destination: Destination | None = None
        self._modes: dict[str, _OpenStep] = {}
        self.step = 0
        self.mode = TRAIN
        self._open = self._begin(TRAIN)
        self.due: Due = self._open.due

    def connect(self, destination: Destination) -> None:
        """Says where steps go. Until then they are held; only the first step, before its end, is ever not connected."""
        self._destination = destination

    def ask(self, request: CaptureRequest) -> None:
        """From here on saves what this request says."""
        self._request, self._membership = request, Membership(request)
        for open_step in self._modes.values():
            open_step.schedule = ModeSchedule(request, open_step.mode, monotonic=self._monotonic)
            self._look_ahead(open_step)
        self.due = self._open.due

    def save_nothing(self) -> None:
        """From here on nothing is due and nothing is handed on; steps are counted, for this worker saves no tensors."""
        self._destination = None
        self.ask(CaptureRequest(()))
        for open_step in self._modes.values():
            self._clear(open_step)

    def resume(self, position: Position) -> None:
        """Goes on counting where an earlier process of this run stopped; what this one has counted is added."""
        self.step += position.step
        for mode, mode_step in (position.mode_steps or {}).items():
            self._state(mode).mode_step += mode_step
        for open_step in self._modes.values():
            if open_step.is_empty:
                self._look_ahead(open_step)
        self.due = self._open.due

    def position(self) -> Position:
        """How far this process has come. Safe to ask from another thread."""
        return Position(self.step, {mode: open_step.mode_step for mode, open_step in tuple(self._modes.items())})

    def mode_step(self, mode: str | None = None) -> int:
        """The number of the open step within a mode, by default the current one; it counts from 0."""
        mode = mode or self.mode
        if mode == GLOBAL:
            return self.step
        known = self._modes.get(mode)
        return known.mode_step if known else 0

    def set_mode(self, mode: str) -> None:
        """Makes the open step of that mode the one that all else is about. Errors: `ValueError` for no mode."""
        if mode == self.mode:
            return
        self._open = self._state(checked_mode(mode))
        self.mode = mode
        if mode == GLOBAL and self._open.is_empty:  # other modes have moved it on
            self._look_ahead(self._open)
        self.due = self._open.due

    def wants(self, tensor_name: str, *, collections: frozenset[str] = _NO_COLLECTIONS) -> bool:
        """True if the tensor belongs to a collection that is due on this step.

        `collections` are those that the adapter knows it to belong to, beside what regexes say.
        """
        due = self.due.collections
        return not (due.isdisjoint(collections) and due.isdisjoint(self._membership.of(tensor_name)))

    def add(self, name: str, array: np.ndarray, *, collections: frozenset[str] = _NO_COLLECTIONS) -> None:
        """Adds a tensor to the open step; the array must be a copy. A tensor without elements is left out.

        `collections` as in `wants`; they are written down with the run.
        """
        if array.size:
            self._open.tensors[name] = array
            if collections:
                self._open.collections[name] = collections

    def add_arrival(self, arrival: Arrival) -> None:
        """Says when arrays that are added to the open step will hold their values: to be called before `add`."""
        self._open.arrivals.append(arrival)

    def has(self, name: str) -> bool:
        """True if the open step holds this tensor already, or its reductions."""
        now_open = self._open
        if name in now_open.tensors or name in now_open.settled:
            return True
        return any(name in reduced.layout.names for reduced in now_open.reduced)

    def saved(self, tensor_name: str) -> Saved | None:
        """What is saved of the tensor on this step, if it belongs to a collection by its name; None for nothing."""
        due = self.due.collections
        return self._membership.saved(tensor_name, due) if self.wants(tensor_name) else None

    def add_reduced(self, reduced: ReducedTensors) -> None:
        """Adds reductions of tensors that an optimizer is about to use: all that is saved of them, by `saved`."""
        self._open.reduced.append(reduced)

    def has_unsettled(self, name: str) -> bool:
        """True if this tensor was added since the last `settle`."""
        return name in self._open.tensors

    def open_tensors(self) -> dict[str, np.ndarray]:
        """What the open step would hand on if it ended now. Waits for what is on its way."""
        for arrival in self._open.arrivals:
            arrival.wait()
        return {**self._named_losses(self._open.losses), **self._open.settled, **self._open.tensors}

    def add_loss(self, loss_name: str, value: np.ndarray) -> None:
        """Adds a loss to the open step; the k-th of one name in a step is saved as `<loss_name>_output_<k>`."""
        if len(self._open.losses) < MOST_LOSSES_A_STEP:
            self._open.losses.append((loss_name, value))

    def add_scalar(self, name: str, value: float) -> None:
        """Adds `scalar/<name>` to the open step, which is saved for it whatever the schedules say."""
        self.add(f"scalar/{name}", np.array([value], np.float64), collections=frozenset({SCALARS}))

    def settle(self) -> None:
        """Marks what was added so far as the open step's own: an optimizer has stepped on it."""
        now_open = self._open
        now_open.settled_losses, now_open.settled_reduced = len(now_open.losses), len(now_open.reduced)
        now_open.settled.update(now_open.tensors)
        now_open.tensors = {}

    def unsettled_names(self) -> frozenset[str]:
        """The tensors added since the last `settle`."""
        return frozenset(self._open.tensors)

    def drop_all_but(self, names: frozenset[str]) -> int:
        """Forgets the tensors added since the last `settle`, but for these and scalars of the user's: so many bytes."""
        now_open = self._open
        kept = {n: a for n, a in now_open.tensors.items() if n in names or self._is_scalar(n)}
        dropped = sum(array.nbytes for name, array in now_open.tensors.items() if name not in kept)
        now_open.tensors = kept
        return dropped

    def drop_unsettled(self) -> None:
        """Forgets what was added since the last `settle`, but for scalars of the user's: it leads to no step."""
        now_open = self._open
        del now_open.losses[now_open.settled_losses :]
        del now_open.reduced[now_open.settled_reduced :]
        now_open.tensors = {name: a for name, a in now_open.tensors.items() if self._is_scalar(name)}

    def end_step(self, *, keep_unsettled: bool = False, renamed: Callable[[str], str] = str) -> None:
        """Hands the open step on if it holds anything, and opens the next.

        With `keep_unsettled`, what was added since the last `settle` is the next step's, as far as that saves it, under
        the names that `renamed` gives.
        """
        now_open = self._open
        was_due = self.due is not NOTHING
        if was_due or now_open.tensors or now_open.settled:
            self._hand_on(now_open, keep_unsettled, renamed)
        self.step += 1
        now_open.mode_step += 1
        if was_due or not now_open.schedule.is_idle(self.step if self.mode == GLOBAL else now_open.mode_step):
            now_open.schedule.has_saved(now_open.due)
            self._look_ahead(now_open)
            self.due = now_open.due
        if now_open.tensors:
            self._leave_unwanted_out(now_open)

    def _hand_on(self, ended: _OpenStep, keep_unsettled: bool, renamed: Callable[[str], str]) -> None:
        end = ended.settled_losses if keep_unsettled else len(ended.losses)
        unsettled = ended.tensors if keep_unsettled else {}
        tensors = {**self._named_losses(ended.losses[:end]), **ended.settled, **({} if unsettled else ended.tensors)}
        reduced = ended.reduced[: ended.settled_reduced] if keep_unsettled else ended.reduced
        if (tensors or reduced) and self._destination is not None:
            step = StepTensors(
                self.step,
                ended.mode,
                self.mode_step(),
                self._clock(),
                tuple(tensors.items()),
                due=ended.due.collections,
                collections=ended.collections,
                reduced=tuple(reduced),
                arrivals=tuple(ended.arrivals),
            )
            self._destination.submit(step)
        losses, collections = ended.losses[end:], ended.collections
        arrivals = ended.arrivals if keep_unsettled else []  # some are of what is kept: to wait for all does no harm
        self._clear(ended)
        ended.losses, ended.arrivals = losses, [arrival for arrival in arrivals if not arrival.is_here()]
        ended.tensors = {renamed(name): array for name, array in unsettled.items()}
        ended.collections = {renamed(name): collections[name] for name in unsettled if name in collections}

    def _leave_unwanted_out(self, begun: _OpenStep) -> None:
        """Of what an earlier step has left: that was gathered for what the earlier one saves."""
        begun.tensors = {
            name: array
            for name, array in begun.tensors.items()
            if self._is_scalar(name) or self.wants(name, collections=begun.collections.get(name, _NO_COLLECTIONS))
        }

    def _is_scalar(self, name: str) -> bool:
        return SCALARS in self._open.collections.get(name, _NO_COLLECTIONS)

    def _named_losses(self, losses: list[tuple[str, np.ndarray]]) -> dict[str, np.ndarray]:
        counts: dict[str, int] = {}
        named: dict[str, np.ndarray] = {}
        for loss_name, value in losses:
            k = counts[loss_name] = counts.get(loss_name, -1) + 1
            name = f"{loss_name}_output_{k}"
            if self.wants(name):
                named[name] = value
        return named

    def _look_ahead(self, open_step: _OpenStep) -> None:
        open_step.due = open_step.schedule.due_at(self.mode_step(open_step.mode))
        if not open_step.due.losses:
            open_step.losses = []
            open_step.settled_losses = 0

    def _state(self, mode: str) -> _OpenStep:
        return self._modes.get(mode) or self._begin(mode)

    def _begin(self, mode: str) -> _OpenStep:
        begun = _OpenStep(mode, ModeSchedule(self._request, mode, monotonic=self._monotonic))
        self._modes[mode] = begun
        self._look_ahead(begun)
        return begun

    def _clear(self, open_step: _OpenStep) -> None:
        open_step.settled, open_step.tensors, open_step.collections = {}, {}, {}
        open_step.losses, open_step.reduced, open_step.arrivals = [], [], []
        open_step.settled_losses = open_step.settled_reduced = 0
