"""The open step of one mode: what it must save, and what it holds so far."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trackside.capture.ground.free_memory import MemoryRoom
from trackside.capture.steps.arrival import Arrival
from trackside.capture.steps.collection import Membership, Saved
from trackside.capture.steps.late_tensors import LateTensors, Row
from trackside.capture.steps.loss_parts import MOST_LOSSES_A_STEP, Part, SavedLoss
from trackside.capture.steps.schedule import NOTHING_DUE, Due, ModeSchedule
from trackside.capture.steps.spill import Spill
from trackside.capture.steps.step_memory import StepMemory
from trackside.capture.steps.step_tensors import StepTensors

SCALARS = "scalars"

_NO_COLLECTIONS: frozenset[str] = frozenset()
_Losses = list[tuple[str, np.ndarray | SavedLoss]]


class OpenStep:
    """The losses and tensors of a step until it ends.

    Attributes:
        mode: The mode of the step.
        mode_step: The number of the step within its mode.
        due: What the step saves.
        schedule: Decides `due`.
        membership: Decides the parts of each tensor that are saved.
        memory: Decides which of its tensors lie in memory.
        settled: Tensors that are this step's own for certain, by name; see `settle`.
        unsettled: Tensors added since.
        late: Tensors that become known later; the destination of the step must be a `HeldSteps` then.
        lost: Why nothing of the step is saved, and nothing is added any more until it ends; "" for any other.
        wall_times: Moments of tensors that the script dated itself, in seconds since the epoch.
    """

    __slots__ = (
        "_arrivals", "_collections", "_losses", "_reduced", "_settled_losses", "_settled_reduced", "due", "late",
        "lost", "membership", "memory", "mode", "mode_step", "schedule", "settled", "unsettled", "wall_times",
    )  # fmt: skip

    def __init__(
        self, mode: str, schedule: ModeSchedule, membership: Membership, room: MemoryRoom, spill: Spill
    ) -> None:
        self.mode, self.schedule, self.membership = mode, schedule, membership
        self.memory = StepMemory(room, spill)
        self.mode_step = 0
        self.due: Due = NOTHING_DUE
        self.clear()

    def clear(self) -> None:
        """Drop everything that was added."""
        self.settled: dict[str, np.ndarray] = {}
        self.unsettled: dict[str, np.ndarray] = {}
        self.wall_times: dict[str, float] = {}
        self._collections: dict[str, frozenset[str]] = {}
        self._reduced: list[Row] = []
        self._losses: _Losses = []
        self._arrivals: list[Arrival] = []  # of the arrays in all of these
        self.late: list[LateTensors] = []
        self._settled_losses = self._settled_reduced = 0
        self.memory.clear()
        self.lost = ""

    @property
    def is_empty(self) -> bool:
        """True if nothing was added."""
        return not (self.unsettled or self.settled or self._losses or self._reduced or self.late)

    def look_ahead(self, number: int) -> None:
        """Set what is due for the step `number`, which begins."""
        self.due = self.schedule.due_at(number)
        if not self.due.losses:
            self._losses = []
            self._settled_losses = 0

    def wants(self, tensor_name: str, *, collections: frozenset[str] = _NO_COLLECTIONS) -> bool:
        """Return True if the tensor belongs to a collection that is due on this step.

        Args:
            tensor_name: The name; regexes of collections may match it.
            collections: The collections that the adapter knows it to belong to.
        """
        due = self.due.collections
        return not (self.lost or (due.isdisjoint(collections) and due.isdisjoint(self.membership.of(tensor_name))))

    def saved(self, tensor_name: str) -> Saved | None:
        """Return what is saved of a tensor that belongs to a collection by its name; None for nothing."""
        return self.membership.saved(tensor_name, self.due.collections) if self.wants(tensor_name) else None

    def has(self, *names: str) -> bool:
        """Return True if any of these tensors, or its reductions, were added."""
        if not (self.unsettled or self.settled or self._reduced):
            return False
        rows = [row.layout.names for row in self._reduced]
        return any(any(name in added for added in (self.unsettled, self.settled, *rows)) for name in names)

    def add(self, name: str, array: np.ndarray, *, collections: frozenset[str] = _NO_COLLECTIONS) -> None:
        """Add a tensor. One without elements is left out. Where memory runs out, the whole step is given up.

        Args:
            name: The name it is saved under.
            array: A copy, which no other code may write to.
            collections: As in `wants`; they are stored with the run.
        """
        if array.size and not self.lost:
            array, lacking = self.memory.kept(array, self._arrivals)
            if lacking:
                self.clear()
                self.lost = lacking
                return
            self.unsettled[name] = array
            if collections:
                self._collections[name] = collections

    def add_arrival(self, arrival: Arrival) -> None:
        """Add the moment at which arrays will hold their values. Call it before `add`."""
        self._arrivals.append(arrival)

    def add_reduced(self, reduced: Row) -> None:
        """Add reductions of tensors that an optimizer is about to use: everything that `saved` requests of them."""
        self._reduced.append(reduced)

    def add_loss(self, loss_name: str, value: np.ndarray, *, part: Part = Part.NONE, weight: float = 1.0) -> None:
        """Add a loss. The k-th of one name in a step is saved as `<loss_name>_output_<k>`.

        Args:
            loss_name: Its name.
            value: Its value, of one element for a part.
            part: Its role: parts of one loss are saved as that one.
            weight: The factor that the script gave a part.
        """
        loss: np.ndarray | SavedLoss = value
        if part is not Part.NONE:
            known = _put_together(self._losses[self._settled_losses :])
            whole = next((each for each in known if each.takes(loss_name, part)), None)
            loss = whole or SavedLoss(loss_name, part, value)
            loss.add(value, weight)
            if whole is not None:
                return
        if len(self._losses) < MOST_LOSSES_A_STEP:
            self._losses.append((loss_name, loss))

    def add_scalar(self, name: str, value: float) -> None:
        """Add `scalar/<name>`, which is saved regardless of the schedules."""
        self.add(f"scalar/{name}", np.array([value], np.float64), collections=frozenset({SCALARS}))

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors that the step would hand on if it ended now. Waits for those on their way."""
        for arrival in (*self._arrivals, *_put_together(self._losses)):
            arrival.wait()
        return {**_named(self._losses, self.wants), **self.settled, **self.unsettled}

    def settle(self) -> None:
        """Mark everything added so far as this step's own: an optimizer has stepped on it."""
        self._settled_losses, self._settled_reduced = len(self._losses), len(self._reduced)
        self.settled.update(self.unsettled)
        self.unsettled = {}

    def drop_unsettled(self) -> None:
        """Drop everything added since the last `settle`, except user scalars: it leads to no step."""
        del self._losses[self._settled_losses :]
        del self._reduced[self._settled_reduced :]
        self.drop_all_but(frozenset())

    def drop_all_but(self, names: frozenset[str]) -> int:
        """Drop unsettled tensors except `names` and user scalars. Return the number of bytes dropped."""
        kept = {
            name: a
            for name, a in self.unsettled.items()
            if name in names or SCALARS in self._collections.get(name, _NO_COLLECTIONS)
        }
        dropped = sum(array.nbytes for name, array in self.unsettled.items() if name not in kept)
        self.unsettled = kept
        return dropped

    def drop_unwanted(self) -> None:
        """Drop tensors that an earlier step left and this one does not save."""
        self.unsettled = {
            name: array
            for name, array in self.unsettled.items()
            if SCALARS in self._collections.get(name, _NO_COLLECTIONS)
            or self.wants(name, collections=self._collections.get(name, _NO_COLLECTIONS))
        }

    def take(
        self, step: int, mode_step: int, *, wall_time: float, keep_unsettled: bool, renamed: Callable[[str], str]
    ) -> StepTensors | None:
        """Return the step that has ended, None if it holds nothing, and begin the next with what that one keeps.

        Args:
            step, mode_step: Its numbers, over all modes and within its mode.
            wall_time: When it ended, in seconds since the epoch.
            keep_unsettled: True if what was added since the last `settle` is the next step's.
            renamed: Returns the name in the next step of a tensor that is kept.
        """
        if self.lost:
            lost = StepTensors(step, self.mode, mode_step, wall_time, (), due=self.due.collections, lost=self.lost)
            self.clear()
            return lost
        ended = self._ended(step, mode_step, wall_time, keep_unsettled=keep_unsettled)
        if keep_unsettled:
            self._keep_unsettled(renamed)
        else:
            self.clear()
        return ended

    def _ended(self, step: int, mode_step: int, wall_time: float, *, keep_unsettled: bool) -> StepTensors | None:
        end = self._settled_losses if keep_unsettled else len(self._losses)
        is_kept = keep_unsettled and bool(self.unsettled)
        tensors = {**_named(self._losses[:end], self.wants), **self.settled, **({} if is_kept else self.unsettled)}
        reduced = self._reduced[: self._settled_reduced] if keep_unsettled else self._reduced
        if not (tensors or reduced or self.late):
            return None
        return StepTensors(
            step,
            self.mode,
            mode_step,
            wall_time,
            tuple(tensors.items()),
            due=self.due.collections,
            collections=self._collections,
            reduced=tuple(reduced),
            arrivals=(*self._arrivals, *_put_together(self._losses[:end])),
            wall_times=self.wall_times,
            late=tuple(self.late),
        )

    def _keep_unsettled(self, renamed: Callable[[str], str]) -> None:
        losses, kept, collections = self._losses[self._settled_losses :], self.unsettled, self._collections
        wall_times = {name: moment for name, moment in self.wall_times.items() if name in kept}
        arrivals = self._arrivals  # some are of what is kept: to wait for all does no harm
        self.clear()
        self._losses, self._arrivals = losses, [arrival for arrival in arrivals if not arrival.is_here()]
        self.unsettled = {renamed(name): array for name, array in kept.items()}
        self.memory.note(self.unsettled.values())
        self._collections = {renamed(name): collections[name] for name in kept if name in collections}
        self.wall_times = wall_times


def _named(losses: _Losses, wants: Callable[[str], bool]) -> dict[str, np.ndarray]:
    """Return the values of losses by the names that they are saved under, those that are wanted."""
    counts: dict[str, int] = {}
    named: dict[str, np.ndarray] = {}
    for loss_name, value in losses:
        k = counts[loss_name] = counts.get(loss_name, -1) + 1
        name = f"{loss_name}_output_{k}"
        if wants(name):
            named[name] = value.array if isinstance(value, SavedLoss) else value
    return named


def _put_together(losses: _Losses) -> list[SavedLoss]:
    """Return the losses that have parts. As arrivals they come after those of the parts."""
    return [loss for _, loss in losses if isinstance(loss, SavedLoss)]
