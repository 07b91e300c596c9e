"""The steps of a run: which are complete, their mode, their workers, the collections with data at them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.trial.completeness import Completeness
from trackside.trial.facts.damage import Damage
from trackside.trial.recorded.recorded import KEPT_BYTES, Recorded
from trackside.trial.steps.step_index import StepIndex
from trackside.trial.tensors.tensor_names import TensorNames

_NONE: frozenset[str] = frozenset()
_Times = tuple[NDArray[np.int64], NDArray[np.float64]]


class CompleteSteps:
    """Steps saved by every worker, or as complete as they will ever be, and steps with recorded statistics only."""

    def __init__(
        self, index: StepIndex, recorded: Recorded, names: TensorNames, completeness: Completeness, damage: Damage
    ) -> None:
        self._index, self._recorded, self._names = index, recorded, names
        self._completeness, self._damage = completeness, damage
        self._saved: tuple[tuple[int, int | None], tuple[int, ...]] = ((0, None), ())
        self._times: tuple[int, Mapping[str, _Times]] | None = None  # of a version

    def saved(self, mode: str | None = None) -> tuple[int, ...]:
        """Return the complete steps with saved tensors, ascending."""
        version, steps = self._saved
        if version != self._completeness.version:
            steps = tuple(self._index.complete_steps())
            self._saved = self._completeness.version, steps
        return steps if mode is None else tuple(step for step in steps if self.mode_of(step) == mode)

    def new_saved(self, after: int) -> Sequence[int]:
        """Return the complete saved steps above `after`, ascending; -1 for all."""
        return self._index.complete_steps(after=after)

    def new_complete(self, after: int) -> Sequence[int]:
        """Return the complete steps above `after`, saved or recorded, ascending; -1 for all."""
        saved = self.new_saved(after)
        recorded = self._recorded.steps
        if recorded is None:
            return saved
        through = self._completeness.settled_step()
        more = recorded.between(after, through)
        if not more:
            return saved if not saved or saved[-1] <= through else [step for step in saved if step <= through]
        return sorted({*more, *(step for step in saved if step <= through)})

    def mode_of(self, step: int) -> str:
        """Return the mode of the first worker with a mode at this step, "GLOBAL" without one."""
        if self._index.is_saved(step) and (saved := self._index.saved(step)):
            return saved[min(saved)].mode
        recorded = self._recorded.steps
        return (recorded.mode_of(step) if recorded is not None else None) or "GLOBAL"

    def collections_at(self, step: int) -> frozenset[str]:
        """Return the collections with a saved tensor or a recorded statistic at this step."""
        saved, measured = self.saved_collections_at(step), self.measured_collections_at(step)
        return saved | measured if saved else measured

    def saved_collections_at(self, step: int) -> frozenset[str]:
        """Return the collections with a saved tensor at this step."""
        if not self._index.is_saved(step):
            return _NONE
        return _NONE.union(*(self._names.collections_in(saved.layout) for saved in self._index.saved(step).values()))

    def measured_collections_at(self, step: int) -> frozenset[str]:
        """Return the collections with a recorded statistic at this step. Equal ones are mostly the same object."""
        recorded = self._recorded.steps
        tensors = recorded.tensors_at(step) if recorded is not None else _NONE
        return self._names.collections_among(tensors) if tensors else _NONE

    def moments(self, worker: str) -> Iterator[_Times]:
        """Yield `times` a piece at a time. The pieces follow one another; nothing of them is kept."""
        return self._recorded.moments(worker)

    def times(self, worker: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the recorded training steps of a worker, ascending, and the end of each in seconds since the epoch."""
        pieces = [*self.moments(worker)]
        steps = np.concatenate([np.empty(0, np.int64), *(steps for steps, _ in pieces)])
        return steps, np.concatenate([np.empty(0), *(times for _, times in pieces)])

    def times_by_worker(self) -> Mapping[str, _Times]:
        """Return `times` of each worker with recorded steps, by its name. Computed once for each version of the run."""
        if self._recorded.steps is None:
            return {}
        version = self._recorded.version
        if self._times is None or self._times[0] != version:
            self._times = version, {worker: self.times(worker) for worker in sorted(self._recorded.workers)}
        return self._times[1]

    def trim(self) -> None:
        """Drop the moments that are kept, if they take much memory. The next question reads them again."""
        if self._times and sum(steps.nbytes for steps, _ in self._times[1].values()) > KEPT_BYTES:
            self._times = None

    def training_steps(self, steps: Sequence[int]) -> list[int]:
        """Return the number of each step among the training steps, without evaluations, as users count."""
        found: list[int] = self._recorded.training_steps(steps).tolist()
        return found

    def training_numbers(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `training_steps` of many steps."""
        return self._recorded.training_steps(steps)

    def training_ends(self) -> tuple[int, int] | None:
        """Return the numbers of the first and the last complete recorded step; without those, of saved steps."""
        recorded, last = self._recorded.steps, self._completeness.last_step()
        if recorded is not None:
            ends = (recorded.first, recorded.newest(last))
        else:
            saved = [step for step in self.saved() if step <= last]
            ends = (saved[0], saved[-1]) if saved else (None, None)
        if ends[0] is None or ends[1] is None:
            return None
        first, last = self.training_steps([ends[0], ends[1]])
        return first, last

    def count(self) -> int:
        """Return the number of steps with anything known about them, complete or not; it grows with the run."""
        recorded = self._recorded.steps
        return len(self.saved()) + (len(recorded) if recorded is not None else 0)

    def is_saved(self, step: int) -> bool:
        """Return True if a worker saved tensors at this step."""
        return self._index.is_saved(step)

    def is_damaged(self, step: int) -> bool:
        """Return True if a file of this step has turned out to be unreadable."""
        if not self._damage:
            return False
        files = (saved.event_key for saved in self._index.saved(step).values())
        return any(key in self._damage for key in files) or self._index.has_unreadable_index(step)

    def event_key(self, step: int, worker: str) -> str:
        """Return the key of the event file of one step and worker, "" if it saved none."""
        saved = self._index.saved_by(step, worker)
        return saved.event_key if saved else ""

    @property
    def saving_workers(self) -> Collection[str]:
        """The workers that saved tensors."""
        return self._index.workers

    def workers(self) -> tuple[str, ...]:
        """Return the names of the workers seen, sorted."""
        return tuple(sorted({*self._index.workers, *self._recorded.workers}))

    def is_worker(self, name: str) -> bool:
        """Return True for the name of a worker seen."""
        return name in self._index.workers or name in self._recorded.workers

    def has_several_workers(self, last_step: int) -> bool:
        """Return True if more than one worker saved or recorded anything at `last_step` or before."""
        recorded = self._recorded.steps
        firsts = [self._index.first_by_worker, recorded.first_by_worker if recorded is not None else {}]
        return len({worker for first in firsts for worker, step in first.items() if step <= last_step}) > 1
