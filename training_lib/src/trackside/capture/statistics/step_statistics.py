"""The always-on statistics of a session.

Nothing raises: the first error switches off the statistics, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trackside.capture.ground.guard import Guard, describe
from trackside.capture.ground.values import Values
from trackside.capture.statistics.always_on import AlwaysOn, Moment
from trackside.capture.statistics.budget import OverheadBudget, ThreadMeter
from trackside.capture.statistics.logged_numbers import LoggedNumbers
from trackside.capture.statistics.rest import Rest
from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.capture.statistics.step_numbers import NumberSampler
from trackside.capture.steps.step_engine import StepEngine
from trackside.contracts.capture_request import StatisticsRequest

ARRIVAL_SECONDS = 1.0  # how long the end of a run waits for numbers that are on their way


class StepStatistics:
    """The statistics of each step of a session. At every step an adapter may call `recorder` directly.

    Attributes:
        is_on: True while statistics are recorded.
        recorder: Takes readings, losses and numbers of the open step; its methods may raise.
        budget: The share of a step's time that statistics may take.
        meter: Measures all of our code on the training thread; an adapter notes where it begins and ends.
        wait: Waits for numbers on their way, at most the given seconds. An adapter of a device sets it.
        when_off: Called once statistics are switched off.
        samplers: Functions that add numbers at the end of each training step.
        logged: Receives the numbers that the script or its trainer logs.
    """

    def __init__(self, request: StatisticsRequest, guard: Guard) -> None:
        self._guard = guard
        self.wait: Callable[[float], object] = lambda seconds: None
        self.when_off: Callable[[], object] = lambda: None
        self.samplers: list[NumberSampler] = []
        self.meter = ThreadMeter()
        self.use_request(request)
        self.logged = LoggedNumbers(self, guard)

    def use_request(self, request: StatisticsRequest) -> None:
        """Replace the request. Drop the numbers of ended steps."""
        self.is_on = request.enabled
        self.recorder = AlwaysOn(request, meter=self.meter, samplers=self.samplers)
        self.budget: OverheadBudget = self.recorder.budget
        if not self.is_on:
            self.budget.rest()

    def connect(self, log: StatisticsLog, *, writer_seconds: Callable[[], float] = float) -> None:
        """Set the log of the rows. Steps that ended before wait for it.

        `writer_seconds` returns the processor time that the thread that writes has spent on it and its like so far.
        """
        self.recorder.connect(log)
        self.budget.threads.append(writer_seconds)
        self.logged.begin()

    def add_loss(self, name: str, value: float | Values, *, mode: str) -> None:
        """Add a loss to the open step of a mode."""
        if self.is_on:
            try:
                self.recorder.add_loss(name, value, mode=mode)
            except Exception as error:  # noqa: BLE001 - see `switch_off`
                self.switch_off(error)

    def rest(self, engine: StepEngine) -> Rest:
        """Return the bursts and rests that their budget allows."""
        return Rest(engine, self)

    def settle(self, mode: str) -> None:
        """Mark the losses added so far as the open step's: `keep_unsettled` moves only later ones to the next step."""
        self.recorder.settle(mode)

    def end_step(self, engine: StepEngine, *, keep_unsettled: bool = False, ended: Moment | None = None) -> None:
        """Record the engine's open step. Call it right before the engine's own `end_step`.

        `ended` is as in `AlwaysOn.end_step`.
        """
        if not self.is_on:
            return
        try:
            self.recorder.end_step(
                step=engine.step,
                mode=engine.mode,
                mode_step=engine.mode_step(),
                keep_unsettled=keep_unsettled,
                ended=ended,
            )
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            self.switch_off(error)

    def end_validation_step(self, engine: StepEngine, losses: Sequence[tuple[str, Any]]) -> None:
        """End a validation step with these losses, arrays of one element each. Does nothing without one."""
        if not losses:
            return
        for name, value in losses:
            self.recorder.add_loss(name, float(value), mode=engine.mode)
        self.end_step(engine)

    def recorded_through(self, step: int) -> int | None:
        """Return the last step, up to `step`, with all its rows in the log; None if another thread is recording.

        Without statistics it is `step`. For the writer's thread.
        """
        if not self.is_on:
            return step
        try:
            return self.recorder.recorded_through(step)
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            self.switch_off(error)
            return step

    def finish(self) -> None:
        """Record the steps that have ended, with numbers that arrive within `ARRIVAL_SECONDS`."""
        self._guard.attempt("recording the last statistics", self._finish)

    def switch_off(self, error: Exception) -> None:
        """Switch off the statistics, and nothing else; log the reason."""
        self.is_on = False
        self.budget.rest()
        self.when_off()
        message = "always-on statistics are switched off, all else goes on: %s."
        self._guard.warn_once("always-on statistics", message, describe(error))

    def _finish(self) -> None:
        self.wait(ARRIVAL_SECONDS)
        self.recorder.drain(wait_seconds=ARRIVAL_SECONDS)
