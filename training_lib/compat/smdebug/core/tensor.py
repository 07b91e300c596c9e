"""One tensor of a run over its steps, for smdebug's analysis."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

from smdebug import not_offered
from smdebug.core.modes import ModeKeys
from smdebug.core.reductions import get_numpy_reduction
from smdebug.core.steps import Steps
from smdebug.exceptions import (
    InvalidWorker,
    ShapeUnavailableForStep,
    SMDebugNotImplementedError,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailableForStep,
)
from trackside.trial.steps.saved_step import SavedStep

if TYPE_CHECKING:
    from smdebug.trials.trial import Trial

GLOBAL = ModeKeys.GLOBAL


class StepState(Enum):
    """The state of a step in a growing run."""

    UNAVAILABLE = 0
    AVAILABLE = 1
    NOT_YET_AVAILABLE = 2


class Tensor:
    """One tensor of a trial. Steps are those of `mode`; in mode GLOBAL they are the run's own.

    `worker` None stands for the first by name.
    """

    def __init__(self, name: str, trial: Trial, cache: bool) -> None:
        self.name = name
        self._original_name: str | None = None
        self.trial = trial
        self.cache = cache
        self._saved: dict[int, dict[str, SavedStep]] = {}  # by global step and worker
        self._steps: dict[ModeKeys, Steps] = {}  # the steps of each mode at which it was saved
        self._seen = 0  # how many of the trial's arrivals have been looked at
        self._values: dict[tuple[int, str], Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes this tensor again: the tensor of that name in a copy of the trial."""
        return _of_trial, (self.trial, self.name)

    @property
    def original_name(self) -> str | None:
        """The framework's name for the tensor, if its shape was saved; else None."""
        self._read_on()
        return self._original_name

    def steps(self, mode: ModeKeys = GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Return the steps at which it was saved, ascending; only complete ones unless all are requested."""
        self.trial.maybe_refresh(self.name)
        self._read_on()
        steps = self._steps.get(mode)
        if steps is None:
            return []
        return steps.all() if show_incomplete_steps else steps.complete(lambda step: self._is_complete(mode, step))

    def prev_steps(self, step: int, n: int | None = None, mode: ModeKeys = GLOBAL) -> list[int]:
        """Return the newest `n` steps up to and with `step`, ascending; all of them without `n`."""
        steps = self.steps(mode=mode)
        before = steps[: bisect.bisect_right(steps, step)]
        return before[-n:] if n else before

    def workers(self, step_num: int, mode: ModeKeys = GLOBAL) -> list[str]:
        """Return the workers that saved it at this step, sorted.

        Raises:
            TensorUnavailableForStep: No worker did.
        """
        found = self._at(step_num, mode)
        if not found:
            raise TensorUnavailableForStep(self.name, step_num, mode)
        return sorted(found)

    def value(self, step_num: int, mode: ModeKeys = GLOBAL, worker: str | None = None) -> Any:
        """Return the whole tensor.

        Raises:
            TensorUnavailableForStep: It was not saved at this step, or only its reductions or shape were.
            StepUnavailable: The run has passed this step and did not save it.
            StepNotYetAvailable: The run may still reach this step.
            InvalidWorker: That worker did not save it.
        """
        saved = self._saved_step(step_num, mode, worker)
        if self.name not in saved.layout.records:
            has_reductions = bool(self.trial.contents(saved)[self.name].reductions)
            raise TensorUnavailableForStep(self.name, step_num, mode, has_reductions)
        return self._fetch(saved, step_num, mode)

    def values(self, mode: ModeKeys = GLOBAL, worker: str | None = None) -> dict[int, Any]:
        """Return the whole tensor at each of its complete steps."""
        return {step: self.value(step, mode=mode, worker=worker) for step in self.steps(mode=mode)}

    def reduction_value(
        self,
        step_num: int,
        reduction_name: str,
        mode: ModeKeys = GLOBAL,
        worker: str | None = None,
        abs: bool = False,  # noqa: A002 - its old name
    ) -> Any:
        """Return a saved reduction, or one computed from the whole tensor.

        Raises the errors of `value`, and `SMDebugValueError` for an unknown reduction.
        """
        saved = self._saved_step(step_num, mode, worker)
        record = self.trial.contents(saved)[self.name].reductions.get((reduction_name, abs))
        if record is not None:
            return self.trial.fetch(saved, record, step_num=step_num, mode=mode)
        if self.name not in saved.layout.records:
            raise TensorUnavailableForStep(tname=reduction_name, step=step_num, mode=mode)
        return get_numpy_reduction(reduction_name, self._fetch(saved, step_num, mode), abs)

    def reduction_values(
        self, step_num: int, mode: ModeKeys = GLOBAL, worker: str | None = None
    ) -> dict[tuple[str, bool], Any]:
        """Return all saved reductions by (name, True for absolute values)."""
        saved = self._saved_step(step_num, mode, worker)
        records = self.trial.contents(saved)[self.name].reductions
        return {key: self.trial.fetch(saved, record, step_num=step_num, mode=mode) for key, record in records.items()}

    def shape(self, step_num: int, mode: ModeKeys = GLOBAL, worker: str | None = None) -> tuple[int, ...]:
        """Return the saved shape, or the value's.

        Raises the errors of `value`, with `ShapeUnavailableForStep` in place of `TensorUnavailableForStep`.
        """
        saved = self._saved_step(step_num, mode, worker)
        entry = saved.layout.shapes.get(self.name)
        if entry is not None:
            return entry.shape
        try:
            return tuple(self.value(step_num, mode, worker).shape)
        except TensorUnavailableForStep as error:
            raise ShapeUnavailableForStep(self.name, step_num, mode) from error

    def shapes(self, mode: ModeKeys = GLOBAL, worker: str | None = None) -> dict[int, tuple[int, ...]]:
        """Return the shape at each of its complete steps: documented by the original, which lacks it."""
        return {step: self.shape(step, mode=mode, worker=worker) for step in self.steps(mode=mode)}

    def step(self, step_num: int, mode: ModeKeys = GLOBAL, worker: str | None = None) -> NoReturn:
        """Raise `SMDebugNotImplementedError` with the replacement: the method was removed long ago."""
        raise SMDebugNotImplementedError("step has been removed: use value or reduction_value.")

    def _read_on(self) -> Mapping[int, Mapping[str, SavedStep]]:
        """Add the trial's findings since the last call, and return all."""
        arrivals = self.trial.arrivals
        if self._seen == len(arrivals):
            return self._saved
        for saved in arrivals[self._seen :]:
            if self.name in self.trial.contents(saved):
                self._add(saved)
        self._seen = len(arrivals)
        return self._saved

    def _add(self, saved: SavedStep) -> None:
        if saved.step not in self._saved:
            self._saved[saved.step] = {}
            for mode, step in self.trial.places_of(saved.step):
                self._steps.setdefault(mode, Steps()).add(step)
        self._saved[saved.step][self.trial.worker_name(saved)] = saved
        shape = saved.layout.shapes.get(self.name)
        if shape is not None:
            self._original_name = shape.original_name

    def _is_complete(self, mode: ModeKeys, step: int) -> bool:
        at = self.trial.known_global_step(mode, step)
        return at is not None and self.trial.is_complete(at)

    def _at(self, step_num: int, mode: ModeKeys) -> Mapping[str, SavedStep]:
        step = self.trial.known_global_step(mode, step_num)
        return {} if step is None else self._read_on().get(step, {})

    def _saved_step(self, step_num: int, mode: ModeKeys, worker: str | None) -> SavedStep:
        found = self._at(step_num, mode)
        if not found:
            self.trial.maybe_refresh(self.name)
            found = self._at(step_num, mode) or self._explain_absence(step_num, mode)
        if worker is not None and worker not in found:
            raise InvalidWorker(worker)
        if worker is None:
            worker = next(iter(found)) if len(found) == 1 else min(found)
        return found[worker]

    def _explain_absence(self, step_num: int, mode: ModeKeys) -> NoReturn:
        state = self.trial.has_passed_step(step_num, mode)
        if state is StepState.AVAILABLE:
            raise TensorUnavailableForStep(self.name, step_num, mode)
        if state is StepState.UNAVAILABLE:
            raise StepUnavailable(step_num, mode)
        raise StepNotYetAvailable(step_num, mode)

    def _fetch(self, saved: SavedStep, step_num: int, mode: ModeKeys) -> Any:
        if not self.cache:
            return self.trial.fetch(saved, self.name, step_num=step_num, mode=mode)
        key = (saved.step, saved.worker)
        if key not in self._values:
            self._values[key] = self.trial.fetch(saved, self.name, step_num=step_num, mode=mode)
        return self._values[key]


def _of_trial(trial: Trial, name: str) -> Tensor:
    return trial.tensor(name)


__getattr__ = not_offered.attribute_of(__name__)
