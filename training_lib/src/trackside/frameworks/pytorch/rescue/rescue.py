"""Rescue: a training with broken numbers goes back to its last good moment, in the same process, and goes on.

    after each step of the leading optimizer     the numbers of the step are read (numbers.py) and judged (health.py);
                                                 now and then a moment is kept (ring.py, snapshot.py)
    a fault that going back may cure             the newest good moment is put back; the next batches are others
    the same again                               with half the rate and clipped gradients; then from further back
    usual losses for some looks                  rescued
    no tries left                                the training goes on as it would have, and nothing of ours stays in it

Several ranks do each of these at the same step (agreement.py). The data's position does not go back: a loop takes the
next batch. All is done at the end of an optimizer's step, the only place of a script at which all of its parts belong
to the same moment.
"""

from __future__ import annotations

import functools
import math
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
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
from trackside.frameworks.pytorch.rescue.agreement import Agreement, why_not_together
from trackside.frameworks.pytorch.rescue.course import Course
from trackside.frameworks.pytorch.rescue.health import Health
from trackside.frameworks.pytorch.rescue.kept_trees import all_finite
from trackside.frameworks.pytorch.rescue.numbers import Numbers, StepNumbers
from trackside.frameworks.pytorch.rescue.returns import Returns
from trackside.frameworks.pytorch.rescue.ring import Ring
from trackside.frameworks.pytorch.rescue.room import Room
from trackside.frameworks.pytorch.rescue.standing import StandingIssues
from trackside.frameworks.pytorch.rescue.step_events import Handler, StepEvents
from trackside.frameworks.pytorch.sharding.ranks import key_value_store, rank_of_this_process
from trackside.frameworks.shared import in_charge
from trackside.frameworks.shared.replaced_methods import ReplacedFunction
from trackside.storage.store import Store

_LOOK_SHARE = 0.007  # of the training's time, for looks
_FIRST_STEPS = 400  # each of which is looked at, as capture watches each
_MOST_STEPS_UNSEEN = 50
_OTHERS_STEPS = 50  # of other optimizers, after which the leading one trains no more
_PASSES_WITHOUT_STEP = 200  # backward passes without a step that is seen
_HUGE = 1e6  # times the usual gradient: the optimizer's state may have overflowed


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
        protected = (self._before, self._after, self._skipped)
        before, after, skipped = [untraced(self._fuse.protect(each)) for each in protected]
        self._events = StepEvents(self._unless_off(before), self._after_own(after), self._unless_off(skipped))
        self._passes = 0  # backward passes while no step was seen
        self._is_off = False
        self._lead: weakref.ref[Optimizer] | None = None
        self._tries: list[RescueTry] = []
        self._thread = self._trainings = 0
        self._standing = StandingIssues(self._open_folder, clock=clock)
        self._steps = 0  # training steps that have ended
        self._begin()

    def _begin(self) -> None:
        """Begin with a training of which nothing is known."""
        self._health, self._ring = (
            Health(),
            Ring(self._settings.copies, self._room(), clock=self._clock, thread_clock=self._thread_clock),
        )
        self._returns = Returns(
            self._ring,
            self._health,
            settings=self._settings,
            tries=self._tries,
            changed=self._write,
        )
        self._course = Course(
            self._ring,
            self._health,
            self._returns,
            self._standing,
            end=self._end,
            went_back=self._numbers.forget,
        )
        self._numbers.forget()
        self._others = self._unseen = self._looked = 0
        self._every, self._step_seconds, self._left_at = 1, 0.0, 0.0

    def _room(self) -> Room:
        limit, folder = self._settings.memory_mb, self._settings.folder
        return Room(limit << 20 if limit is not None else None, Path(folder) if folder else None)

    def watch_losses(self) -> None:
        """Begin to note the losses of backward passes. Call it before the adapter that captures is installed."""
        self._loss_hook.put_in()

    def install(self) -> None:
        """Begin to look at steps. Call it after the adapter that captures is installed, which sees each step first."""
        self._events.put_in()

    def _unless_off(self, handler: Handler) -> Handler:
        def handle(optimizer: Optimizer) -> None:
            if not self._is_off:
                handler(optimizer)

        skip_frame(handle)
        return handle

    def _after_own(self, handler: Handler) -> Handler:
        def handle(optimizer: Optimizer) -> None:
            if not self._is_off:
                self._returns.step_ended()  # even once capture is off: the script's rates are its own
                handler(optimizer)

        skip_frame(handle)
        return handle

    def remove(self) -> None:
        """Leave the training alone, and take the hooks out. Only tests need it."""
        self._stand_down()
        self.pause()

    def pause(self) -> None:
        """Take the hooks out until `watch_losses` and `install`. Never call it within a step."""
        self._events.take_out()
        self._loss_hook.take_out()

    def _stand_down(self) -> None:
        """Leave the training alone from here on, and let go of all memory."""
        self._is_off = True
        self._returns.end()
        self._begin()

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
        if self._lead is None:
            self._passes += 1
            if self._passes == _PASSES_WITHOUT_STEP:
                self._end(RescueState.REFUSED, self._why_no_step())

    def _why_no_step(self) -> str:
        if in_charge.is_scripts():
            return "the script captures its training itself, and not by `trackside run`"
        return "its steps are made by no optimizer of PyTorch or Keras"

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
        self._returns.step_begins(optimizer)

    def _after(self, optimizer: Optimizer) -> None:
        if not self._has_begun():
            return
        leads = self._leads(optimizer)
        if not self._is_off and get_ident() == self._thread:
            self._ring.members.stepped(optimizer)
        if not leads:
            return
        self._steps = max(self._steps + 1, self._session.engine.step)  # a capture at rest may count later
        self._course.step_ended(self._steps)
        if self._is_off:
            return
        now = self._clock()
        if self._left_at and self._unseen == 0:  # the time of a step without ours
            self._step_seconds = now - self._left_at
        self._unseen += 1
        if self._unseen < self._every:
            return
        self._unseen, started = 0, self._thread_clock()
        self._look()
        spent, left = self._thread_clock() - started, self._clock()
        self._looked += 1
        if self._step_seconds > 0 and self._looked >= _FIRST_STEPS:
            self._every = min(_MOST_STEPS_UNSEEN, max(1, math.ceil(spent / (_LOOK_SHARE * self._step_seconds))))
        self._left_at = left

    def _leads(self, optimizer: Optimizer) -> bool:
        """Return True for the leading optimizer: the first one that has stepped."""
        lead = self._lead() if self._lead is not None else None
        if lead is optimizer:
            self._others = 0
            return get_ident() == self._thread
        self._others += 1
        if lead is not None and self._others <= _OTHERS_STEPS:
            return False
        if self._lead is not None:
            self._returns.end()
            self._begin()
        self._lead, self._thread, self._others = weakref.ref(optimizer), get_ident(), 0
        self._trainings += 1
        return self._joins(optimizer)

    def _joins(self, optimizer: Optimizer) -> bool:
        """Act together with the other ranks of this training. Return False if that cannot be."""
        rank = rank_of_this_process(self._session.environment)
        if rank.of == 1:
            return True
        store = key_value_store()
        why_not = why_not_together(optimizer) if store is not None else "several processes train that share no store"
        if why_not:
            self._end(RescueState.REFUSED, why_not)
            return False
        course = self._course
        agreement = Agreement(store, rank.of, training=self._trainings, can_do=course.can_do)
        course.join(agreement, is_first=rank.number == 0)
        return True

    def _skipped(self, optimizer: Optimizer) -> None:
        """Look at a step that was left out: with broken weights, all to come would be."""
        if self._lead is None or self._lead() is not optimizer or get_ident() != self._thread:
            return
        self._course.step_ended(self._steps)
        if not self._is_off:
            self._look(is_skipped=True)

    def _look(self, *, is_skipped: bool = False) -> None:
        optimizers = self._trained()
        numbers = self._numbers.read(optimizers, self._steps, scale=self._scale())
        if numbers is not None and not (is_skipped and math.isfinite(numbers.weights)):
            fault = self._health.observe(numbers, state_is_finite=self._state_is_finite(numbers, optimizers))
            self._course.act(fault, numbers, self._steps)

    def _trained(self) -> list[Optimizer]:
        lead = self._lead() if self._lead is not None else None
        found = list(self._ring.members.optimizers())
        return found or ([lead] if lead is not None else [])

    def _scale(self) -> torch.Tensor | None:
        for other in self._ring.members.others():
            scale = getattr(other, "_scale", None)
            if isinstance(scale, torch.Tensor) and isinstance(other, torch.amp.GradScaler):
                return scale
        return None

    def _state_is_finite(self, numbers: Numbers, optimizers: list[Optimizer]) -> bool:
        """Return False if a gradient far beyond the usual has left an optimizer's state broken."""
        gradient = numbers.gradient
        if gradient is None or gradient <= _HUGE * max(self._health.gradient, 1e-30):
            return True
        return all(all_finite(each.state) for each in optimizers)

    def _end(self, state: RescueState, reason: str) -> None:
        """Leave the training alone from here on."""
        self._write(state, reason)
        self._stand_down()

    def _blown(self) -> None:
        self._end(RescueState.OFF, "it failed itself, and was switched off")

    def _write(self, state: RescueState, reason: str = "") -> None:
        record = RescueRecord(state, reason, tuple(self._returns.tries))
        try:
            key = f"{worker_name(rank_of_this_process(self._session.environment).number)}.json"
            self._open_folder().put(key, record.to_json().encode())
        except (TracksideError, OSError) as error:
            self._session.guard.warn_once("rescue record", "the record of rescues is not stored: %s.", error)
