"""One tensor of a run over its steps, as smdebug's analysis sees it."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

from smdebug import not_offered
from smdebug.core.modes import ModeKeys
from smdebug.core.reductions import get_numpy_reduction
from smdebug.exceptions import (
    InvalidWorker,
    ShapeUnavailableForStep,
    SMDebugNotImplementedError,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailableForStep,
)
from trackside.trial.step_index import SavedStep

if TYPE_CHECKING:
    from smdebug.trials.trial import Trial

GLOBAL = ModeKeys.GLOBAL


class StepState(Enum):
    """What can be said of a step of a growing run."""

    UNAVAILABLE = 0
    AVAILABLE = 1
    NOT_YET_AVAILABLE = 2


class Tensor:
    """A tensor of a trial. Steps are those of `mode`; in mode GLOBAL they are the run's own.

    `worker` None stands for the first by name.
    """

    def __init__(self, name: str, trial: Trial, cache: bool) -> None:
        self.name = name
        self._original_name: str | None = None
        self.trial = trial
        self.cache = cache
        self._saved: dict[int, dict[str, SavedStep]] = {}  # by global step and worker
        self._seen = 0  # how many of the trial's arrivals have been looked at
        self._values: dict[tuple[int, str], Any] = {}

    @property
    def original_name(self) -> str | None:
        """What the framework calls it, where its shape was saved; else None."""
        self._read_on()
        return self._original_name

    def steps(self, mode: ModeKeys = GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Steps at which it was saved, ascending; complete ones unless all are asked for."""
        self.trial.maybe_refresh(self.name)
        saved = self._read_on()
        steps = (
            self.trial.step_in_mode(step, mode)
            for step in saved
            if show_incomplete_steps or self.trial.is_complete(step)
        )
        return sorted({step for step in steps if step is not None})

    def prev_steps(self, step: int, n: int | None = None, mode: ModeKeys = GLOBAL) -> list[int]:
        """The newest `n` steps up to and with `step`, ascending; all of them without `n`."""
        steps = self.steps(mode=mode)
        before = steps[: bisect.bisect_right(steps, step)]
        return before[-n:] if n else before

    def workers(self, step_num: int, mode: ModeKeys = GLOBAL) -> list[str]:
        """The workers that saved it at this step, sorted. Errors: `TensorUnavailableForStep`."""
        found = self._at(step_num, mode)
        if not found:
            raise TensorUnavailableForStep(self.name, step_num, mode)
        return sorted(found)

    def value(self, step_num: int, mode: ModeKeys = GLOBAL, worker: str | None = None) -> Any:
        """The whole tensor.

        Errors: `TensorUnavailableForStep` (also where only reductions or the shape were saved), `StepUnavailable`,
        `StepNotYetAvailable`, `InvalidWorker`.
        """
        saved = self._saved_step(step_num, mode, worker)
        if self.name not in saved.layout.records:
            has_reductions = bool(self.trial.contents(saved)[self.name].reductions)
            raise TensorUnavailableForStep(self.name, step_num, mode, has_reductions)
        return self._fetch(saved, step_num, mode)

    def values(self, mode: ModeKeys = GLOBAL, worker: str | None = None) -> dict[int, Any]:
        """The whole tensor at each of its complete steps."""
        return {step: self.value(step, mode=mode, worker=worker) for step in self.steps(mode=mode)}

    def reduction_value(
        self,
        step_num: int,
        reduction_name: str,
        mode: ModeKeys = GLOBAL,
        worker: str | None = None,
        abs: bool = False,  # noqa: A002 - its old name
    ) -> Any:
        """A saved reduction, or one computed from the whole tensor.

        Errors: as `value`; `SMDebugValueError` for an unknown reduction.
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
        """All saved reductions by (name, of absolute values)."""
        saved = self._saved_step(step_num, mode, worker)
        records = self.trial.contents(saved)[self.name].reductions
        return {key: self.trial.fetch(saved, record, step_num=step_num, mode=mode) for key, record in records.items()}

    def shape(self, step_num: int, mode: ModeKeys = GLOBAL, worker: str | None = None) -> tuple[int, ...]:
        """The saved shape, or the value's. Errors: as `value`, with `ShapeUnavailableForStep`."""
        saved = self._saved_step(step_num, mode, worker)
        entry = saved.layout.shapes.get(self.name)
        if entry is not None:
            return entry.shape
        try:
            return tuple(self.value(step_num, mode, worker).shape)
        except TensorUnavailableForStep as error:
            raise ShapeUnavailableForStep(self.name, step_num, mode) from error

    def shapes(self, mode: ModeKeys = GLOBAL, worker: str | None = None) -> dict[int, tuple[int, ...]]:
        """The shape at each of its complete steps: documented by the original, which lacks it."""
        return {step: self.shape(step, mode=mode, worker=worker) for step in self.steps(mode=mode)}

    def step(self, step_num: int, mode: ModeKeys = GLOBAL, worker: str | None = None) -> NoReturn:
        """Gone since long; here for its message."""
        raise SMDebugNotImplementedError("step has been removed: use value or reduction_value.")

    def _read_on(self) -> Mapping[int, Mapping[str, SavedStep]]:
        """Looks at what the trial has found since the last time."""
        arrivals = self.trial.arrivals
        for saved in arrivals[self._seen :]:
            if self.name in self.trial.contents(saved):
                self._saved.setdefault(saved.step, {})[self.trial.worker_name(saved)] = saved
                shape = saved.layout.shapes.get(self.name)
                self._original_name = shape.original_name if shape else self._original_name
        self._seen = len(arrivals)
        return self._saved

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
        return found[min(found) if worker is None else worker]

    def _explain_absence(self, step_num: int, mode: ModeKeys) -> NoReturn:
        state = self.trial.has_passed_step(step_num, mode)
        if state is StepState.AVAILABLE:
            raise TensorUnavailableForStep(self.name, step_num, mode)
        if state is StepState.UNAVAILABLE:
            raise StepUnavailable(step_num, mode)
        raise StepNotYetAvailable(step_num, mode)

    def _fetch(self, saved: SavedStep, step_num: int, mode: ModeKeys) -> Any:
        key = (saved.step, saved.worker)
        if key in self._values:
            return self._values[key]
        value = self.trial.fetch(saved, self.name, step_num=step_num, mode=mode)
        if self.cache:
            self._values[key] = value
        return value


__getattr__ = not_offered.attribute_of(__name__)
