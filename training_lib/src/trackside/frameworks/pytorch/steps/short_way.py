"""The short way through a training step with only losses and learning rates to record.

Most steps of a small model are such, and each bytecode of ours slows them. So the work of many parts on the long way,
most of it nothing, is one function here before the backward pass, one after it, one before the optimizer's step and one
after it. If anything has changed since the step before, the long way does it.

A step with one loss, in which no other part of ours has anything to do, is kept as it is (`capture/plain_steps.py`).
The changes of such steps elsewhere are made for several together: counts of steps and passes, the budget, the look for
unusual losses. The parts return the number of steps that may be kept. The long way finds all of it up to date, because
the short way settles it when it closes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.loss_parts import Part
from trackside.capture.plain_steps import KeptStep
from trackside.capture.schedule import NOTHING_DUE
from trackside.capture.session import RunSession
from trackside.capture.step_engine import TRAIN
from trackside.contracts.recorded_names import BACKWARD_PASSES, GRADIENTS_KEPT
from trackside.frameworks.pytorch.facts.model_facts import ModelFactsSource
from trackside.frameworks.pytorch.losses.description import (
    LossDescription,
    constant_of,
    describe_loss,
    name_of_bare_loss,
)
from trackside.frameworks.pytorch.modes.validation import Validation
from trackside.frameworks.pytorch.optimizers.source import SkippedSteps
from trackside.frameworks.pytorch.statistics.cleared_gradients import OfOptimizer
from trackside.frameworks.pytorch.statistics.gradient_numbers import GradientNumbers
from trackside.frameworks.pytorch.statistics.readings import PyTorchStatistics
from trackside.frameworks.pytorch.statistics.update_size import UpdateSize
from trackside.frameworks.pytorch.steps.graph_looks import GraphLooks
from trackside.frameworks.step_keeper import MOST_KEPT, StepKeeper
from trackside.profiling.phase_clock import BACKWARD, CAPTURE, OPTIMIZER, OTHER, PhaseClock
from trackside.profiling.windows import ProfilingWindows

_TENSOR = torch.Tensor  # a look-up less
MOST_KEPT_SHORT, SHORT_STEP = 32, 4e-3  # for steps of fewer seconds; passes that `StepOrder` worries about are more
# To read how long a thread had no processor is a call of the system, 12 us within a training. Steps that usually take
# fewer seconds than the first number pay for it if they took longer by the second, and at every so many others, with
# the waits before them.
# With a DataLoader each does: the wait within a fetch is what has come since the end of the step before.
WAITS_SELDOM_BELOW, LONGER = SHORT_STEP, 1.5


class ShortWay(StepKeeper):
    """The short way of one adapter. Nothing raises.

    - `is_open`: True while the next step may take it
    - `is_stepping`: True within an optimizer's step that takes it

    Where torch.compile is in use, neither is valid and nothing may be called: it would compile this.
    """

    _waits_with_data = True

    def __init__(
        self,
        session: RunSession,
        *,
        statistics: PyTorchStatistics,
        numbers: GradientNumbers,
        update_size: UpdateSize,
        facts: ModelFactsSource,
        validation: Validation,
        skipped_steps: SkippedSteps,
        look_ahead: Callable[[], None],
        clock: PhaseClock,
        windows: ProfilingWindows,
        looks: GraphLooks,
    ) -> None:
        super().__init__(session, clock, ((BACKWARD_PASSES, "mean"), (GRADIENTS_KEPT, "mean")))
        self.is_open = self.is_stepping = False
        self._has_seen_loss = False  # in this step, so its gradients were cleared
        self._guard, self._statistics = session.guard, statistics
        self._device_numbers = statistics.numbers
        self._numbers, self._cleared, self._order = numbers, numbers.cleared, numbers.order
        self._update_size = update_size
        self._facts, self._validation, self._skipped_steps = facts, validation, skipped_steps
        self._look_ahead, self._looks = look_ahead, looks
        self._windows = windows
        self._optimizer: Callable[[], Optimizer | None] = lambda: None
        self._known_loss = ""  # the newest loss, of no interest to the facts any more
        self._known_node: tuple[Any, Any] = (ShortWay, None)  # of its graph, and of the node before
        self._watched: list[weakref.ref[torch.Tensor]] = []  # parameters, whose gradients show that all were cleared
        self._remembered = OfOptimizer(self._optimizer)  # the gradients of these
        self._passes = 0  # of backward, at the step before
        self._group_count, self._rates = -1, list[tuple[int, float]]()  # of `_reading`
        self._unskipped = self._to_look = 0  # steps since the facts looked, and until they do

    def open_after(self, optimizer: Optimizer) -> None:
        """Open the short way, if possible, after the only optimizer has ended a step on the long way."""
        engine = self._engine
        self._has_seen_loss = False
        is_expected = self._cleared.are_expected_gone and not self._device_numbers.is_used
        is_expected = is_expected and not self._skipped_steps.has_fused  # each of its steps has a flag to be read
        self.is_open = self._record.is_on and engine.mode == TRAIN and is_expected and self._is_plain()
        if self._optimizer() is not optimizer:
            self._optimizer = weakref.ref(optimizer)
        if self.is_open:
            self._recorder = self._record.recorder
            self._group_count = -1
            self._remembered = self._cleared.of_one()
            self._watched = [gradient.parameter for gradient in self._remembered.gradients]
            self._plan_ahead(self._recorder.budget.thread_seconds())

    def close(self) -> None:
        """Close the short way. From now on steps take the long way."""
        self.is_open = self.is_stepping = False
        self.settle()

    def enter_backward(self, args: Any, kwargs: Any) -> bool:
        """Handle a call of `torch.autograd.backward`, with its arguments, before it. Return True if nothing is left.

        `leave_backward` follows then.
        """
        clock = self._clock
        if clock.current or get_ident() != clock.thread:
            return False
        began = self._read()
        meter = self._meter
        if meter.is_on:
            meter.enter()
        try:
            if not self._sees_loss(args, kwargs):
                if not self.is_open:
                    self.settle()
                return False
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            return self._switch_off(error)
        if meter.is_on:
            meter.leave()
        clock.current = BACKWARD
        now = clock.moved_at = self._read()
        clock.seconds[CAPTURE] += now - began
        return True

    def leave_backward(self, *, has_ended: bool = True) -> None:
        """Handle the moment after it. `has_ended`: it has not raised."""
        clock = self._clock
        now = self._read()
        clock.seconds[BACKWARD] += now - clock.moved_at
        clock.moved_at, clock.current = now, OTHER
        if has_ended:
            order = self._order
            order.passes = passes = order.passes + 1
            if passes >= order.limit:
                order.report()

    def begin(self, optimizer: Optimizer, args: Any, kwargs: Any) -> bool:
        """Handle the moment before an optimizer's step, with the arguments of its hook.

        Return True if nothing is left to do.
        """
        clock = self._clock
        if clock.current or get_ident() != clock.thread or not self._has_seen_loss or kwargs or len(args) > 1:
            return False
        if self._validation.is_watching or self._optimizer() is not optimizer:
            return False
        if self._engine.step >= self._windows.watched_from:
            return False
        began = self._read()
        meter = self._meter
        if meter.is_on:
            meter.enter()
        try:
            self._skipped_steps.has_stepped = True
            if self._facts.is_looking:
                started = self._recorder.budget.thread_seconds()
                self._facts.before_step(optimizer)
                self._recorder.budget.spend_on_rows(started)
            groups = optimizer.param_groups
            is_known = len(groups) == self._group_count
            if is_known:
                for number, rate in self._rates:
                    now = groups[number]["lr"]
                    if type(now) is not float or now != rate:
                        is_known = False
            if not is_known:
                self._read_rates(optimizer)
            self.is_stepping = True
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            return self._switch_off(error)
        if meter.is_on:
            meter.leave()
        clock.around_optimizer, clock.current = OTHER, OPTIMIZER
        now = clock.moved_at = self._read()
        clock.seconds[CAPTURE] += now - began
        return True

    def end(self, optimizer: Optimizer) -> bool:
        """Handle the moment after it, and end the step. Return True if nothing is left to do."""
        clock = self._clock
        now = self._read()
        clock.seconds[OPTIMIZER] += now - clock.moved_at
        clock.moved_at, clock.current = now, CAPTURE
        meter = self._meter
        if meter.is_on:
            meter.enter()
        self.is_stepping = self._has_seen_loss = False
        try:
            is_other = self._guard.is_off or self._validation.is_watching or self._device_numbers.is_used
            is_as_before = self._record.is_on and not is_other
            for reference in self._watched:
                parameter = reference()
                is_as_before = is_as_before and parameter is not None and parameter.grad is not None
            if not is_as_before or self._optimizer() is not optimizer:
                self.settle()
                self._statistics.hold(optimizer, self._reading)
                return False
            self._cleared.is_waiting = self._remembered.is_open = True
            passes = self._order.passes
            kept = self._keep((float(passes - self._passes), 0.0)) if self._left else None
            if kept is not None:
                self._passes = passes
                if kept.added is not None:
                    self._numbers.end_clippings()
                self._count_for_facts(kept.step)
                if not self._left:
                    self.settle(is_within_step=False)
                    self._plan_ahead(self._recorder.budget.thread_seconds())
            else:
                self._end_by_parts(optimizer)
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            return self._switch_off(error)
        if meter.is_on:
            meter.leave()
        now = self._read()
        clock.seconds[CAPTURE] += now - clock.moved_at
        clock.moved_at, clock.current = now, OTHER
        return True

    def _settle_others(self, kept: Sequence[KeptStep]) -> None:
        self._facts.skip_steps(self._unskipped)
        self._unskipped = 0
        optimizer = self._optimizer()
        if optimizer is not None:
            self._order.note_steps(optimizer, self._passes)

    def _sees_loss(self, args: Any, kwargs: Any) -> bool:
        if (
            self._validation.is_watching or self._engine.step >= self._looks.due
        ):  # an evaluation in between has a number
            self.is_open = False
            return False
        loss = args[0]
        if type(loss) is not _TENSOR or (args[1] if len(args) > 1 else kwargs.get("grad_tensors")) is not None:
            return False
        if not loss.is_cpu or loss.numel() != 1:
            return False
        node: Any = loss.grad_fn
        kind, before = self._known_node
        name, add = self._known_loss, self._recorder.add_loss
        if type(node) is not kind or (before is not None and type(node.next_functions[0][0]) is not before):
            name, scale = name_of_bare_loss(node), 1.0
            if name:
                is_likelihood = name in {"NLLLoss", "CrossEntropyLoss"}
                known = type(node), type(node.next_functions[0][0]) if is_likelihood else None
            else:
                known, described = (ShortWay, None), describe_loss(node)
                name, scale = described.name, described.scale  # type: ignore[assignment] # looked at next
                add = partial(self._add_described, described)
            if type(scale) is not float or (name is not self._known_loss and self._facts.wants_loss(name)):
                return False
            self._known_loss, self._known_node = name, known
        if not self._has_seen_loss:
            for reference in self._watched:
                parameter = reference()
                if parameter is None or parameter.grad is not None:
                    self.is_open = False
                    return False
            self._cleared.is_waiting = self._remembered.is_open = False
            self._has_seen_loss = True
        add(name, loss.item())
        return True

    def _add_described(self, loss: LossDescription, name: str, scaled: float) -> None:
        scale = constant_of(loss.scale)
        if loss.part is Part.NONE:
            self._recorder.add_loss(name, scaled / scale)
        else:
            self._recorder.parts.add(name, scaled / scale, loss.part, weight=scale, mode=TRAIN)

    def _read_rates(self, optimizer: Optimizer) -> None:
        self._reading = self._statistics.reading_without_norms(optimizer)
        self._group_count, self._rates = self._statistics.known_rates(optimizer)

    def _count_for_facts(self, step: int) -> None:
        facts = self._facts
        if facts.is_looking:
            budget = self._recorder.budget
            started = budget.thread_seconds()
            facts.end_step(step)
            self._to_look = facts.steps_to_skip()
            budget.spend_on_rows(started)  # one of ten steps: samples would miss it, or count it ten times
            return
        self._unskipped = unskipped = self._unskipped + 1
        if unskipped >= self._to_look:
            facts.skip_steps(unskipped)
            self._unskipped = 0

    def _end_by_parts(self, optimizer: Optimizer) -> None:
        self.settle()
        engine, recorder = self._engine, self._recorder
        recorder.add(self._reading)
        self._numbers.end_cleared_step(optimizer)
        if recorder.takes_update:
            self._update_size.after_step(optimizer)
        recorder.end_step(step=engine.step, mode_step=engine.mode_step())
        started = recorder.budget.thread_seconds()
        self._facts.end_step(engine.step)
        engine.end_step()
        if engine.due is not NOTHING_DUE:
            self._look_ahead()
        self._plan_ahead(started)

    def _plan_ahead(self, started: float) -> None:
        """Decide whether the short way stays open, and for how many steps that may be kept.

        `started` is the thread's processor time when what belongs to no step began.
        """
        self.is_open = self._is_plain()
        self._count_ahead()
        budget = self._recorder.budget
        budget.spend_on_rows(started)
        if self._left and self._meter.is_on:
            budget.begin_step(is_sampled=True)  # a kept step has no part in the end of this one

    def _count_ahead(self) -> None:
        optimizer, self._passes = self._optimizer(), self._order.passes
        if optimizer is None or self._order.passes_of_step(optimizer) != 0 or self._order.is_watched(optimizer):
            self._left = 0
            return
        costs = self._recorder.budget.costs
        usual = costs.step if costs is not None else 0.0
        self._long_step = LONGER * usual if usual < WAITS_SELDOM_BELOW else 0.0
        most = MOST_KEPT_SHORT if 0 < usual < SHORT_STEP else MOST_KEPT
        until_look = max(0, self._looks.due - self._engine.step)
        self._left = min(self._recorder.steps_to_keep(), self._engine.steps_to_count(), most, until_look)
        self._to_look = self._facts.steps_to_skip()

    def _is_plain(self) -> bool:
        """Return True if nothing else is due in the open step."""
        engine = self._engine
        is_due = engine.due is not NOTHING_DUE or engine.step >= self._looks.due
        return not is_due and not self._record.recorder.takes_norms

    def _switch_off(self, error: Exception) -> bool:
        self.close()
        self._record.switch_off(error)
        return False
