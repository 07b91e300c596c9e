"""Rescue: a training whose numbers break goes back to its last good moment, in the same process, and goes on.

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
import json
import math
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from threading import get_ident
from typing import Any, Protocol

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from trackside.capture.session import RunSession
from trackside.contracts.errors import TracksideError
from trackside.contracts.run.rescue import CURABLE_RULES, RescueRecord, RescueState, RescueTry, TryOutcome
from trackside.contracts.run_layout import RESCUE, STANDING_ISSUES_KEY, worker_name
from trackside.environment import RescueEnvironment
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.rescue.health import BY_RULE, SPIKE, RATE_JUMP, Fault, Health
from trackside.frameworks.pytorch.rescue.kept_trees import all_finite
from trackside.frameworks.pytorch.rescue.numbers import Numbers, StepNumbers
from trackside.frameworks.pytorch.rescue.ring import Ring
from trackside.frameworks.pytorch.rescue.snapshot import NoRoomError, Snapshot
from trackside.frameworks.pytorch.rescue.softening import Softening
from trackside.frameworks.pytorch.sharding.ranks import rank_of_this_process
from trackside.frameworks.shared.replaced_methods import ReplacedFunction

CONFIRMED_LOOKS, CONFIRMED_STEPS = 10, 30  # after a return
SOFT_STEPS = 100
_LOOK_SHARE = 0.007  # of the training's time, for looks
_MOST_STEPS_UNSEEN = 50
_FIRST_STEPS = 400  # each of which is looked at, as capture watches each
_OTHERS_STEPS = 50  # of other optimizers, after which the leading one trains no more
_HUGE = 1e6  # times the usual gradient: the optimizer's state may have overflowed
_STANDING_SECONDS = 0.5


class Capture(Protocol):
    """The capture of the same training, not yet installed."""

    session: RunSession

    def install(self) -> None:
        """Register the hooks."""


def install_around(
    capture: Capture, settings: RescueEnvironment, *, clock: Callable[[], float] = time.perf_counter
) -> Rescue:
    """Install a capture, and the rescue of its training. Return the rescue.

    Args:
        capture: It sees each step first, and losses last.
        settings: Numbers of copies and tries.
        clock: Returns seconds.
    """
    rescue = Rescue(capture.session, settings, clock=clock)
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
    """

    def __init__(
        self, session: RunSession, settings: RescueEnvironment, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._session, self._settings, self._clock = session, settings, clock
        self._fuse = Fuse(session.guard, "going back when numbers break")
        self._fuse.when_blown = self._blown
        self._numbers = StepNumbers()
        self._loss_hook = ReplacedFunction(torch.autograd, "backward", self._watched_backward)
        self._handle: Any = None
        self._lead: weakref.ref[Optimizer] | None = None
        self._tries: list[RescueTry] = []
        self._thread = 0
        self._begin()

    def _begin(self) -> None:
        """Begin with a training of which nothing is known."""
        self._health, self._ring = Health(), Ring(self._settings.copies, clock=self._clock)
        self._numbers.forget()
        self._softening: Softening | None = None
        self._fault: Fault | None = None  # of the return that is on trial
        self._broken: Snapshot | None = None
        self._trial: list[float] = []
        self._trial_looks = 0
        self._others = self._unseen = self._looked = 0
        self._every, self._step_seconds, self._left_at = 1, 0.0, 0.0
        self._standing: list[dict[str, Any]] = []
        self._standing_at = -math.inf

    def watch_losses(self) -> None:
        """See the losses of backward passes. Call it before the adapter that captures is installed."""
        self._loss_hook.put_in()

    def install(self) -> None:
        """Begin to look at steps. Call it after the adapter that captures is installed, which sees each step first."""
        after = untraced(self._fuse.protect(self._after))

        def after_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
            if self._softening is not None:  # even once capture is off: the script's rates are its own
                self._softening.after()
            after(optimizer)

        skip_frame(after_step)
        self._handle = register_optimizer_step_post_hook(after_step)

    def remove(self) -> None:
        """Take everything out of the training, and let go of all memory."""
        if self._softening is not None:
            self._softening.end()
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        self._loss_hook.take_out()
        self._begin()

    def _watched_backward(self, original: Any) -> Any:
        saw = untraced(self._fuse.protect(self._numbers.saw_loss))

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> None:
            if self._handle is not None:
                saw(args[0] if args else kwargs.get("tensors"))
            original(*args, **kwargs)

        skip_frame(backward)
        return backward

    # A step.

    def _after(self, optimizer: Optimizer) -> None:
        if self._softening is not None and not self._softening.is_on:
            self._softening = None
        if not self._session.has_begun:
            return
        leads = self._leads(optimizer)
        if self._handle is not None and get_ident() == self._thread:
            self._ring.members.stepped(optimizer)
        if not leads:
            return
        now = self._clock()
        if self._left_at and self._unseen == 0:  # the time of a step without ours
            self._step_seconds = now - self._left_at
        self._unseen += 1
        if self._unseen < self._every:
            return
        self._unseen = 0
        self._look()
        left = self._clock()
        self._looked += 1
        if self._step_seconds > 0 and self._looked >= _FIRST_STEPS:
            spent = left - now
            self._every = min(_MOST_STEPS_UNSEEN, max(1, math.ceil(spent / (_LOOK_SHARE * self._step_seconds))))
        self._left_at = left

    def _leads(self, optimizer: Optimizer) -> bool:
        """Return True for the optimizer with whose steps all is done: the first one that has stepped."""
        lead = self._lead() if self._lead is not None else None
        if lead is optimizer:
            self._others = 0
            return get_ident() == self._thread
        self._others += 1
        if lead is not None and self._others <= _OTHERS_STEPS:
            return False
        rank = rank_of_this_process(self._session.environment)
        if rank.of > 1:
            self._refuse(f"{rank.of} processes train together, and would have to go back at the same step")
            return False
        if self._lead is not None:
            self._begin()
        self._lead, self._thread, self._others = weakref.ref(optimizer), get_ident(), 0
        return True

    def _look(self) -> None:
        steps = self._session.engine.step
        optimizers = self._trained()
        numbers = self._numbers.read(optimizers, steps, scale=self._scale())
        if numbers is None:
            return
        fault = self._health.observe(numbers, state_is_finite=self._state_is_finite(numbers, optimizers))
        if fault is None and self._fault is None:
            fault = self._fault_by_rule(steps)
        if fault is not None:
            self._met(fault, steps)
        elif self._fault is not None:
            self._try_on(self._fault, numbers, steps)
        elif not self._health.is_suspected:
            self._tend(steps)

    def _tend(self, steps: int) -> None:
        try:
            self._ring.tend(self._health.looks, steps, is_contradicted=self._is_contradicted)
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

    # What rules have found.

    def _read_standing(self) -> list[dict[str, Any]]:
        now = self._clock()
        if now - self._standing_at >= _STANDING_SECONDS:
            self._standing_at = now
            try:
                found = json.loads(self._session.open_folder(RESCUE).get(STANDING_ISSUES_KEY))
                self._standing = [each for each in found if {"rule", "since_step"} <= each.keys()]
            except (TracksideError, OSError, ValueError, AttributeError, TypeError):
                pass  # nothing was found yet, or it is being written
        return self._standing

    def _is_contradicted(self, steps: int) -> bool:
        return any(each["rule"] in CURABLE_RULES and each["since_step"] < steps for each in self._read_standing())

    def _fault_by_rule(self, steps: int) -> Fault | None:
        """Return the fault of a rule's finding after the newest good moment, while the loss is unusual, too."""
        if not self._ring.good or not self._health.is_harmed():
            return None
        newest = self._ring.good[-1].steps
        for each in self._read_standing():
            if each["rule"] in CURABLE_RULES and newest <= each["since_step"] <= steps:
                return Fault(BY_RULE, int(each["since_step"]), f"{each['rule']} stands since step {each['since_step']}")
        return None

    def _why_not(self, fault: Fault) -> str:
        """Return why going back does not cure a fault; "" if it may."""
        if fault.refusal:
            return fault.refusal
        for each in self._read_standing():
            if each["rule"] not in CURABLE_RULES and each["since_step"] < fault.since:
                return f"{each['rule']} stands since step {each['since_step']}, which an earlier moment does not cure"
        return ""

    # Going back.

    def _met(self, fault: Fault, steps: int) -> None:
        """Go back for a fault if that may cure it."""
        if self._fault is not None:
            self._close(TryOutcome.FAILED)
        elif why := self._why_not(fault):
            self._refuse(why)
            return
        first = self._fault or fault
        good = [each for each in self._ring.good if each.steps <= first.since and each.is_usable()]
        if not good and self._fault is None:
            self._refuse("there is no earlier moment that is known to be sound")
            return
        places = [each for each in good if each.tries < self._settings.place_tries]
        if not places or len(self._tries) >= self._settings.tries:
            self._give_up(steps)
            return
        self._go_back(places[-1], first, fault, steps)

    def _go_back(self, place: Snapshot, first: Fault, fault: Fault, steps: int) -> None:
        if self._fault is None and first.cause in (SPIKE, RATE_JUMP, BY_RULE):
            self._keep_broken(steps)
        self._ring.drop_waiting()
        is_again = self._fault is not None
        leaves_out = first.is_of_batch or is_again
        place.tries += 1
        place.put_back(with_random=not leaves_out)
        softened = self._soften(first, is_again=is_again)
        self._fault, self._trial, self._trial_looks = first, [], 0
        self._health.went_back()
        self._numbers.forget()
        self._tries.append(
            RescueTry(
                at_step=steps,
                back_to_step=place.steps,
                cause=first.cause,
                evidence=fault.evidence,
                left_out=leaves_out,
                softened=softened,
            )
        )
        self._write(RescueState.TRYING)

    def _keep_broken(self, steps: int) -> None:
        """Keep the present moment, which finite numbers may yet find better than what the returns lead to."""
        self._broken = self._ring.spare()
        try:
            self._broken.take(self._ring.members, steps)
        except NoRoomError:
            self._broken = None

    def _soften(self, fault: Fault, *, is_again: bool) -> str:
        if self._softening is not None:
            self._softening.end()
            self._softening = None
        most_rate = self._health.rate if fault.cause == RATE_JUMP else 0.0
        most_gradient = self._health.gradient if is_again else 0.0
        if not is_again and not most_rate:
            return ""
        factor = 0.5 if is_again else 1.0
        self._softening = Softening(
            factor=factor, most_rate=most_rate, most_gradient=most_gradient, steps=SOFT_STEPS, fuse=self._fuse
        )
        half = f"half the rate and gradients of a norm of at most {most_gradient:.3g}, for {SOFT_STEPS} steps"
        cap = f"a rate of at most {most_rate:.3g} until the script's own is below"
        return "; ".join([text for text, is_so in ((half, is_again), (cap, bool(most_rate))) if is_so])

    def _try_on(self, fault: Fault, numbers: Numbers, steps: int) -> None:
        """Judge the losses since a return, once there are enough."""
        self._trial_looks += 1
        if numbers.loss is not None:
            self._trial.append(numbers.loss)
        if self._trial_looks < CONFIRMED_LOOKS or steps - self._tries[-1].at_step < CONFIRMED_STEPS:
            return
        if not self._health.is_usual(self._trial):
            self._met(fault, steps)
            return
        self._close(TryOutcome.RESCUED)
        self._fault = None
        if self._broken is not None:
            self._ring.give(self._broken)
            self._broken = None
        self._health.confirmed()
        self._write(RescueState.RESCUED)

    def _give_up(self, steps: int) -> None:
        broken, outcome = self._broken, TryOutcome.FAILED
        if broken is not None and broken.is_usable():
            broken.put_back(with_random=False)
            outcome = TryOutcome.UNDONE
        self._close(outcome)
        times = len(self._tries)
        self._end(RescueState.LOST, f"the fault came again each time, last by step {steps} ({times} of {self._settings.tries})")

    def _close(self, outcome: TryOutcome) -> None:
        if self._tries:
            self._tries[-1] = replace(self._tries[-1], outcome=outcome)

    def _refuse(self, why: str) -> None:
        self._end(RescueState.REFUSED, why)

    def _end(self, state: RescueState, reason: str) -> None:
        """Leave the training alone from here on."""
        self._write(state, reason)
        self.remove()

    def _blown(self) -> None:
        self._write(RescueState.OFF, "it failed itself, and was switched off")
        self.remove()

    def _write(self, state: RescueState, reason: str = "") -> None:
        record = RescueRecord(state, reason, tuple(self._tries))
        try:
            key = f"{worker_name(rank_of_this_process(self._session.environment).number)}.json"
            self._session.open_folder(RESCUE).put(key, record.to_json().encode())
        except (TracksideError, OSError) as error:
            self._session.guard.warn_once("rescue record", "the record of rescues is not stored: %s.", error)
