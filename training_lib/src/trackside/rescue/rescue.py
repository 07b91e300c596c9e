"""Rescue: a training with broken numbers goes back to its last good moment, in the same process, and goes on.

    after each step of the leading optimizer     the numbers of the step are read (numbers.py) and judged (health.py);
                                                 now and then a moment is kept (ring.py, snapshot.py)
    a fault that going back may cure             the newest good moment is put back; the next batches are others
    the same again                               with half the rate and clipped gradients; then from further back
    usual losses for some looks                  rescued
    no tries left                                the training goes on as it would have, and nothing of ours stays in it

With `--rescue restart` a fault is only reported (fault_course.py), with the rows of its batches (drawn_batches.py).

Several ranks do each of these at the same step (agreement.py). The data's position does not go back: a loop takes the
next batch. All is done at the end of an optimizer's step, the only place of a script at which all of its parts belong
to the same moment.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.session import RunSession
from trackside.contracts.errors import TracksideError
from trackside.contracts.run.rescue import RescueRecord, RescueState, RescueTry
from trackside.contracts.run_layout import RESCUE, worker_name
from trackside.environment import RescueEnvironment
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.sharding.ranks import key_value_store, rank_of_this_process
from trackside.frameworks.shared import in_charge
from trackside.frameworks.shared.replaced_methods import ReplacedFunction
from trackside.rescue.agreement import why_not_together
from trackside.rescue.fault_reports import FaultReports
from trackside.rescue.live_training import LiveTraining
from trackside.rescue.numbers import StepNumbers
from trackside.rescue.skipping import note_steps
from trackside.rescue.standing import StandingIssues
from trackside.rescue.step_events import Handler, StepEvents
from trackside.storage.store import Store

_PASSES_WITHOUT_STEP = 200  # backward passes without a step that is seen


class Capture(Protocol):
    """The capture of the same training, not yet installed."""

    session: RunSession

    def install(self) -> None:
        """Register the hooks."""


def install_around(
    capture: Capture,
    settings: RescueEnvironment,
    *,
    clock: Callable[[], float] = time.perf_counter,
    thread_clock: Callable[[], float] = time.thread_time,
) -> Rescue:
    """Install a capture, and the rescue of its training. Return the rescue.

    Args:
        capture: It sees each step first, and losses last.
        settings: Numbers of copies and tries.
        clock: Returns seconds.
        thread_clock: Returns the processor time of the calling thread.
    """
    rescue = Rescue(capture.session, settings, clock=clock, thread_clock=thread_clock)
    rescue.watch_losses()
    capture.install()
    rescue.install()
    return rescue


class Rescue:
    """The rescue of the training in this process.

    Args:
        session: The run.
        settings: Numbers of copies and tries.
        clock: Returns seconds.
        thread_clock: Returns the processor time of the calling thread.
    """

    def __init__(
        self,
        session: RunSession,
        settings: RescueEnvironment,
        *,
        clock: Callable[[], float],
        thread_clock: Callable[[], float],
    ) -> None:
        self._session, self._settings = session, settings
        self._clock, self._thread_clock = clock, thread_clock
        self._fuse = Fuse(session.guard, "going back when numbers break")
        self._fuse.when_blown = self._blown
        self._numbers = StepNumbers()
        self._loss_hook = ReplacedFunction(torch.autograd, "backward", self._watched_backward)
        handlers = [self._handler(each) for each in (self._before, self._after, self._skipped)]
        self._events = StepEvents(*handlers)
        self._reports: FaultReports | None = None
        if settings.restarts:
            self._reports = FaultReports(
                lambda: self._session,
                self._fuse,
                steps=lambda: self._training.steps,
                last=lambda: None if self._is_off else self._training.last_report(),
            )
        self._passes = 0  # backward passes while no step was seen
        self._is_off = False
        self._tries: list[RescueTry] = []
        self._trainings = 0
        self._standing = StandingIssues(self._open_folder, clock=clock)
        self._training = self._new_training()

    def _new_training(self) -> LiveTraining:
        reports = self._reports
        return LiveTraining(
            self._settings,
            numbers=self._numbers,
            standing=self._standing,
            tries=self._tries,
            faults=functools.partial(reports.course, standing=self._standing) if reports is not None else None,
            changed=self._write,
            end=self._end,
            clock=self._clock,
            thread_clock=self._thread_clock,
        )

    def watch_losses(self) -> None:
        """Begin to note losses and batches. Call it before the adapter that captures is installed."""
        self._loss_hook.put_in()
        if self._reports is not None:
            self._reports.batches.put_in()

    def install(self) -> None:
        """Begin to look at steps. Call it after the adapter that captures is installed, which sees each step first."""
        self._events.put_in()

    def _handler(self, handler: Callable[..., None]) -> Handler:
        protected = untraced(self._fuse.protect(handler))

        def handle(optimizer: Optimizer) -> None:
            if not self._is_off:
                self._training.returns.step_ended()  # even once capture is off: the script's rates are its own
                protected(optimizer)

        skip_frame(handle)
        return handle

    def remove(self) -> None:
        """Leave the training alone, and take the hooks out. Only tests need it."""
        self._stand_down()
        self.pause()

    def pause(self) -> None:
        """Take the hooks out until `watch_losses` and `install`. Never call it within a step."""
        self._events.take_out()
        if self._reports is not None:
            self._reports.batches.take_out()
        self._loss_hook.take_out()

    def _stand_down(self) -> None:
        """Leave the training alone from here on, and let go of all memory."""
        self._is_off = True
        self._training.end()
        self._training = self._new_training()

    def _watched_backward(self, original: Any) -> Any:
        saw = untraced(self._fuse.protect(self._saw_loss))

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> None:
            if not self._is_off:
                saw(args[0] if args else kwargs.get("tensors"))
            original(*args, **kwargs)

        skip_frame(backward)
        return backward

    def _saw_loss(self, tensors: Any) -> None:
        self._numbers.saw_loss(tensors)
        self._events.watch_keras()
        if not self._training.has_begun:
            self._passes += 1
            if self._passes == _PASSES_WITHOUT_STEP:
                self._end(RescueState.REFUSED, _why_no_step())

    def _has_begun(self) -> bool:
        """Return True once the run has begun, by this capture or that of another framework of the process."""
        if not self._session.has_begun:
            session = getattr(in_charge.attached(), "session", None)
            if isinstance(session, RunSession) and session.has_begun:
                self._session = session
        return self._session.has_begun

    def _open_folder(self) -> Store:
        return self._session.open_folder(RESCUE)

    # A step.

    def _before(self, optimizer: Optimizer) -> None:
        self._training.returns.step_begins(optimizer)

    def _after(self, optimizer: Optimizer) -> None:
        if not self._has_begun():
            return
        leads = self._leads(optimizer)
        if not self._is_off:
            self._training.note(optimizer)
        if leads:
            self._training.stepped(self._session.engine.step)
            if self._reports is not None:
                note_steps(self._training.steps)

    def _skipped(self, optimizer: Optimizer) -> None:
        self._training.skipped(optimizer)

    def _leads(self, optimizer: Optimizer) -> bool:
        """Return True for the leading optimizer: the first one that has stepped."""
        leads = self._training.is_led_by(optimizer)
        if leads is not None:
            return leads
        if self._training.has_begun:
            self._training.end()
            self._training = self._new_training()
        self._training.begin(optimizer)
        self._trainings += 1
        return self._joins(optimizer)

    def _joins(self, optimizer: Optimizer) -> bool:
        """Act together with the other ranks of this training. Return False if that cannot be."""
        rank = rank_of_this_process(self._session.environment)
        if rank.of == 1:
            return True
        if self._reports is not None:
            if why_not := self._reports.why_not_together(rank.of):
                self._end(RescueState.REFUSED, why_not)
            return not why_not
        store = key_value_store()
        why_not = why_not_together(optimizer) if store is not None else "several processes train that share no store"
        if why_not:
            self._end(RescueState.REFUSED, why_not)
            return False
        self._training.join(store, rank.number, rank.of, training=self._trainings)
        return True

    def _end(self, state: RescueState, reason: str) -> None:
        """Leave the training alone from here on."""
        self._write(state, reason)
        self._stand_down()

    def _blown(self) -> None:
        self._end(RescueState.OFF, "it failed itself, and was switched off")

    def _write(self, state: RescueState, reason: str = "") -> None:
        record = RescueRecord(state, reason, tuple(self._tries))
        try:
            key = f"{worker_name(rank_of_this_process(self._session.environment).number)}.json"
            self._open_folder().put(key, record.to_json().encode())
        except (TracksideError, OSError) as error:
            self._session.guard.warn_once("rescue record", "the record of rescues is not stored: %s.", error)


def _why_no_step() -> str:
    if in_charge.is_scripts():
        return "the script captures its training itself, and not by `trackside run`"
    return "its steps are made by no optimizer of PyTorch or Keras"
