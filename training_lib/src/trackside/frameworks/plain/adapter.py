"""The adapter of no framework: the program itself passes its losses, weights and gradients, and ends its steps.

It is the shortest example of an adapter; docs/write-an-adapter.md walks through it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

from trackside.capture.ground.values import Values
from trackside.capture.session import CLOSE_SECONDS, SIGTERM_SECONDS, Rank, RunSession, SessionOptions
from trackside.capture.statistics.array_parameters import Parameters
from trackside.capture.steps.open_step import SCALARS
from trackside.capture.steps.step_engine import TRAIN
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared.detailed_profile import DetailedProfile
from trackside.frameworks.shared.rehearsed_steps import rehearsed_steps
from trackside.profiling.windows import Begin

RATE = "hyperparameters/optimizer/group_0/lr"

P = ParamSpec("P")
R = TypeVar("R")


def _metered(method: Callable[Concatenate[PlainAdapter, P], R]) -> Callable[Concatenate[PlainAdapter, P], R]:
    """Return the method with its processor time measured at the steps that are sampled."""

    @functools.wraps(method)
    def run(self: PlainAdapter, *args: P.args, **kwargs: P.kwargs) -> R:
        meter = self.session.statistics.meter
        if not meter.is_on:
            return method(self, *args, **kwargs)
        meter.enter()
        try:
            return method(self, *args, **kwargs)
        finally:
            meter.leave()

    return cast("Callable[Concatenate[PlainAdapter, P], R]", run)


class PlainAdapter:
    """An adapter that adds the program's numbers to the open step; see `frameworks/shared/adapter.py`.

    Attributes:
        session: The run.

    Args:
        environment: Address of the run, and the capture request.
        options: Options for storing the run.
        framework: The framework of the operators, as in the keys of their files; "" without any.
        begin_operators: Begins a profile of the framework's operators; None for a framework without a profiler.
    """

    def __init__(
        self,
        environment: CaptureEnvironment,
        *,
        options: SessionOptions | None = None,
        framework: str = "",
        begin_operators: Begin | None = None,
    ) -> None:
        self.session = RunSession(environment, options=options)
        self._engine, self._statistics = self.session.engine, self.session.statistics
        self._parameters = Parameters()
        self._detailed = DetailedProfile(self.session, framework=framework, begin_operators=begin_operators)
        self._rehearsed = rehearsed_steps(environment, self.uninstall)

    def install(self) -> None:
        """Begin the run: a program that passes numbers trains."""
        self.session.read_request()
        environment = self.session.environment
        rank = Rank(environment.rank, environment.world_size)
        self.session.begin(rank, owner=self, idle_parts=lambda: self._detailed.parts(rank))

    def uninstall(self) -> None:
        """Close the run."""
        self.close()
        self.session.forget_process_end()

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """Store the steps that have ended."""
        self.session.flush(timeout_seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """End the run. A step that the program has not ended is left out. Never raises."""
        self._detailed.windows.end()
        if self._rehearsed is not None:
            self._rehearsed.closing(self.session, is_interrupted=is_interrupted)
        self.session.close(timeout_seconds, is_interrupted=is_interrupted)

    @_metered
    def add_loss(self, name: str, value: float | Values) -> None:
        """Add a loss to the open step. One that is on its way from a device is waited for only if it is saved."""
        if self._engine.due.losses:
            number = value if isinstance(value, float) else value.get()[0]
            self._engine.open_step.add_loss(name, np.array(number, np.float64))
        self._statistics.add_loss(name, value, mode=self._engine.mode)

    @property
    def takes_parameters(self) -> bool:
        """True if the open step saves weights or gradients, or measures all of them."""
        is_measured = self._statistics.is_on and self._engine.mode == TRAIN and self._statistics.recorder.takes_dear
        return self._engine.due.parameters or is_measured

    def add_tensor(self, name: str, value: Any, collection: str) -> None:
        """Add a tensor of the program to the open step. It is saved regardless of the schedules."""
        array = self._array(name, value)
        if array is not None:
            self._engine.open_step.add(name, array, collections=frozenset({collection}))

    def add_scalar(self, name: str, value: float) -> None:
        """Add `scalar/<name>` to the open step. It is saved regardless of the schedules."""
        self._engine.open_step.add(f"scalar/{name}", np.array([value]), collections=frozenset({SCALARS}))

    @_metered
    def add_parameters(
        self,
        weights: Mapping[str, Any],
        gradients: Mapping[str, Any],
        updates: Mapping[str, Any],
        learning_rate: float | None,
    ) -> None:
        """Add weights and gradients, by the names of the parameters, right before the update uses them."""
        open_step = self._engine.open_step
        for prefix, arrays in (("", weights), ("gradient/", gradients)) if self._engine.due.parameters else ():
            for name, value in arrays.items():
                if open_step.wants(prefix + name) and (array := self._array(prefix + name, value)) is not None:
                    open_step.add(prefix + name, array)
        rates = {} if learning_rate is None else {RATE: learning_rate}
        for name, rate in rates.items():
            if open_step.wants(name):
                open_step.add(name, np.array(rate, np.float64))
        if self._statistics.is_on and self._engine.mode == TRAIN:
            reading = self._parameters.reading(weights, gradients, updates, rates, self._statistics.recorder)
            self._statistics.recorder.add(reading)

    def set_mode(self, mode: str) -> None:
        """Set the mode of the next steps."""
        self._engine.set_mode(mode)

    @_metered
    def end_step(self) -> None:
        """End the open step; with the last step of a rehearsal, the script."""
        self._statistics.end_step(self._engine)
        self._engine.end_step()
        self._detailed.step_ended()
        if self._rehearsed is not None:
            self._rehearsed.stepped(self.session)

    def _array(self, name: str, value: Any) -> np.ndarray | None:
        try:
            array = np.array(value)
        except (TypeError, ValueError):  # a list of lists of different lengths
            array = np.array(None)
        if array.dtype.kind != "O":
            return array.reshape(1) if array.ndim == 0 else array
        message = "%s cannot be saved, as a %s is no array of numbers."
        self.session.guard.warn_once(f"value/{name}", message, name, type(value).__name__)
        return None
