"""Rescue: a training with broken numbers goes back to its last good moment, in the same process, and goes on.

    after each step of the leading optimizer     the numbers of the step are read (numbers.py) and judged (health.py);
                                                 now and then a moment is kept (ring.py, snapshot.py)
    a fault that going back may cure             the newest good moment is put back; the next batches are others
    the same again                               with half the rate and clipped gradients; then from further back
    usual losses for some looks                  rescued
    no tries left                                the training goes on as it would have, and nothing of ours stays in it

The data's position does not go back: a loop takes the next batch. All is done at the end of an optimizer's step, the
only place of a script at which all of its parts belong to the same moment.
"""

from __future__ import annotations

import functools
import math
import time
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any, Protocol

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trackside.capture.session import RunSession
from trackside.contracts.errors import TracksideError
from trackside.contracts.run.rescue import RescueRecord, RescueState, RescueTry
from trackside.contracts.run_layout import RESCUE, worker_name
from trackside.environment import RescueEnvironment
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.rescue.health import Fault, Health
from trackside.frameworks.pytorch.rescue.kept_trees import all_finite
from trackside.frameworks.pytorch.rescue.numbers import Numbers, StepNumbers
from trackside.frameworks.pytorch.rescue.returns import Ending, Returns
from trackside.frameworks.pytorch.rescue.ring import Ring
from trackside.frameworks.pytorch.rescue.snapshot import NoRoomError
from trackside.frameworks.pytorch.rescue.standing import StandingIssues
from trackside.frameworks.pytorch.sharding.ranks import rank_of_this_process
from trackside.frameworks.shared.replaced_methods import ReplacedFunction

_LOOK_SHARE = 0.007  # of the training's time, for looks
_FIRST_STEPS = 400  # each of which is looked at, as capture watches each
_MOST_STEPS_UNSEEN = 50
_OTHERS_STEPS = 50  # of other optimizers, after which the leading one trains no more
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
        self._handles: list[Any] = []
        self._is_off = False
        self._lead: weakref.ref[Optimizer] | None = None
        self._tries: list[RescueTry] = []
        self._thread = 0
        self._standing = StandingIssues(functools.partial(session.open_folder, RESCUE), clock=clock)
        self._begin()

    def _begin(self) -> None:
        """Begin with a training of which nothing is known."""
        self._health, self._ring = (
            Health(),
            Ring(self._settings.copies, clock=self._clock, thread_clock=self._thread_clock),
        )
        self._returns = Returns(
            self._ring,
            self._health,
            settings=self._settings,
            tries=self._tries,
            changed=self._write,
        )
        self._numbers.forget()
        self._others = self._unseen = self._looked = 0
        self._every, self._step_seconds, self._left_at = 1, 0.0, 0.0

    def watch_losses(self) -> None:
        """Begin to note the losses of backward passes. Call it before the adapter that captures is installed."""
        self._loss_hook.put_in()

    def install(self) -> None:
        """Begin to look at steps. Call it after the adapter that captures is installed, which sees each step first."""
        before = untraced(self._fuse.protect(self._before))
        after = untraced(self._fuse.protect(self._after))

        def before_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
            if not self._is_off:
                before(optimizer)

        def after_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
            if not self._is_off:
                self._returns.step_ended()  # even once capture is off: the script's rates are its own
                after(optimizer)

        skip_frame(before_step)
        skip_frame(after_step)
        self._handles = [register_optimizer_step_pre_hook(before_step), register_optimizer_step_post_hook(after_step)]

    def remove(self) -> None:
        """Take the hooks out. Only tests need it: PyTorch's tables of hooks must not change while they are called."""
        self._stand_down()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._loss_hook.take_out()

    def _stand_down(self) -> None:
        """Leave the training alone from here on, and let go of all memory."""
        self._is_off = True
        self._returns.end()
        self._begin()

    def _watched_backward(self, original: Any) -> Any:
        saw = untraced(self._fuse.protect(self._numbers.saw_loss))

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> None:
            if not self._is_off:
                saw(args[0] if args else kwargs.get("tensors"))
            original(*args, **kwargs)

        skip_frame(backward)
        return backward

    # A step.

    def _before(self, optimizer: Optimizer) -> None:
        self._returns.step_begins(optimizer)

    def _after(self, optimizer: Optimizer) -> None:
        if not self._session.has_begun:
            return
        leads = self._leads(optimizer)
        if not self._is_off and get_ident() == self._thread:
            self._ring.members.stepped(optimizer)
        if not leads:
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
        rank = rank_of_this_process(self._session.environment)
        if rank.of > 1:
            self._end(RescueState.REFUSED, f"{rank.of} processes train together and would have to go back together")
            return False
        if self._lead is not None:
            self._returns.end()
            self._begin()
        self._lead, self._thread, self._others = weakref.ref(optimizer), get_ident(), 0
        return True

    def _look(self) -> None:
        steps, optimizers = self._session.engine.step, self._trained()
        numbers = self._numbers.read(optimizers, steps, scale=self._scale())
        if numbers is None:
            return
        returns = self._returns
        fault = self._health.observe(numbers, state_is_finite=self._state_is_finite(numbers, optimizers))
        if returns.is_on_trial:
            ending = returns.meet(fault, steps) if fault is not None else returns.observe(numbers, steps)
        elif fault := fault or self._fault_by_rule():
            why_not = fault.refusal or self._standing.incurable_before(fault.since)
            ending = Ending(RescueState.REFUSED, why_not) if why_not else returns.meet(fault, steps)
        else:
            self._tend(steps)
            return
        if ending is not None:
            self._end(*ending)
        elif fault is not None:
            self._numbers.forget()

    def _tend(self, steps: int) -> None:
        if self._health.is_suspected:
            return
        try:
            self._ring.tend(self._health.looks, steps, is_contradicted=self._standing.contradict)
        except NoRoomError as error:
            self._end(RescueState.OFF, f"no moment can be kept: {error}")

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

    def _fault_by_rule(self) -> Fault | None:
        """Return the fault of a rule's finding after the newest good moment, while the loss is unusual, too."""
        if not self._ring.good or not self._health.is_harmed():
            return None
        return self._standing.fault_since(self._ring.good[-1].steps)

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
            self._session.open_folder(RESCUE).put(key, record.to_json().encode())
        except (TracksideError, OSError) as error:
            self._session.guard.warn_once("rescue record", "the record of rescues is not stored: %s.", error)
