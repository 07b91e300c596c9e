"""The short way through a training step with only losses and learning rates to record.

Most steps of a small model are such, and each of our function calls slows them: code that runs once in two milliseconds
finds the caches cold, and leaves them cold to the training. So the work of many parts on the long way, most of it
nothing, is one function here before the backward pass, one before the optimizer's step and one after it. Each returns
True if it did all the work. If anything has changed since the step before, the long way does it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.schedule import NOTHING_DUE
from trackside.capture.session import RunSession
from trackside.capture.statistic_rows import Reading, Watched
from trackside.capture.step_engine import TRAIN
from trackside.frameworks.pytorch.facts.model_facts import ModelFactsSource
from trackside.frameworks.pytorch.losses.description import describe_loss, name_of_bare_loss
from trackside.frameworks.pytorch.modes.validation import Validation
from trackside.frameworks.pytorch.optimizers.source import SkippedSteps
from trackside.frameworks.pytorch.statistics.gradient_numbers import GradientNumbers
from trackside.frameworks.pytorch.statistics.readings import PyTorchStatistics
from trackside.frameworks.pytorch.statistics.update_size import UpdateSize

NOT_READ = Reading(Watched(()), [])


class ShortWay:
    """The short way of one adapter. Nothing raises.

    - `is_open`: True while the next step may take it
    - `is_stepping`: True within an optimizer's step that takes it

    Where torch.compile is in use, neither is valid and nothing may be called: it would compile this.
    """

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
    ) -> None:
        self.is_open = self.is_stepping = False
        self._has_seen_loss = False  # in this step, so its gradients were cleared
        self._engine, self._guard = session.engine, session.guard
        self._statistics, self._record = statistics, session.statistics
        self._numbers, self._cleared = numbers, numbers.cleared
        self._update_size = update_size
        self._facts, self._validation, self._skipped_steps = facts, validation, skipped_steps
        self._look_ahead = look_ahead
        self._optimizer: Callable[[], Optimizer | None] = lambda: None
        self._reading = NOT_READ
        self._known_loss = ""  # the newest loss, of no interest to the facts any more

    def open_after(self, optimizer: Optimizer) -> None:
        """Open the short way, if possible, after the only optimizer has ended a step on the long way."""
        engine = self._engine
        self._has_seen_loss = False
        is_expected = self._cleared.are_expected_gone and not self._statistics.numbers.is_used
        self.is_open = self._record.is_on and engine.mode == TRAIN and is_expected and self._is_plain()
        if self._optimizer() is not optimizer:
            self._optimizer = weakref.ref(optimizer)

    def close(self) -> None:
        """Close the short way. From now on steps take the long way."""
        self.is_open = self.is_stepping = False

    def see_loss(self, args: Any, kwargs: Any) -> bool:
        """Handle a call of `torch.autograd.backward`, with its arguments. Return True if nothing is left to do."""
        if self._validation.is_watching or self._guard.is_off:
            self.is_open = False
            return False
        try:
            loss, grad_tensors = args[0], args[1] if len(args) > 1 else kwargs.get("grad_tensors")
            if type(loss) is not torch.Tensor or grad_tensors is not None or not loss.is_cpu or loss.numel() != 1:
                return False
            node, scale = loss.grad_fn, 1.0
            name = name_of_bare_loss(node)
            if not name:
                name, scale, _ = describe_loss(node)  # type: ignore[assignment] # looked at next
            if type(scale) is not float or (name is not self._known_loss and self._facts.wants_loss(name)):
                return False
            self._known_loss = name
            self.is_open = self._has_seen_loss or self._cleared.are_gone()
            if not self.is_open:
                return False
            self._has_seen_loss = True
            self._record.recorder.add_loss(name, loss.item() / scale)
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            return self._switch_off(error)
        return True

    def begin(self, optimizer: Optimizer, args: Any, kwargs: Any) -> bool:
        """Handle the moment before an optimizer's step, with the arguments of its hook.

        Return True if nothing is left to do.
        """
        if not self._has_seen_loss or kwargs or len(args) > 1 or self._guard.is_off or self._validation.is_watching:
            return False
        try:
            if self._optimizer() is not optimizer:
                return False
            self._skipped_steps.has_stepped = True
            if self._facts.is_looking:
                self._facts.before_step(optimizer)
            self._reading = self._statistics.reading_without_norms(optimizer)
            self.is_stepping = True
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            return self._switch_off(error)
        return True

    def end(self, optimizer: Optimizer) -> bool:
        """Handle the moment after it, and end the step. Return True if nothing is left to do."""
        self.is_stepping = self._has_seen_loss = False
        engine, statistics, record = self._engine, self._statistics, self._record
        try:
            is_as_before = record.is_on and not (self._guard.is_off or self._validation.is_watching)
            is_as_before = is_as_before and not statistics.numbers.is_used
            if not is_as_before or self._optimizer() is not optimizer or not self._cleared.are_present():
                statistics.hold(optimizer, self._reading)
                return False
            recorder = record.recorder
            recorder.add(self._reading)
            self._numbers.end_cleared_step(optimizer)
            if recorder.takes_update:
                self._update_size.after_step(optimizer)
            recorder.end_step(step=engine.step, mode_step=engine.mode_step())
            self._facts.end_step(engine.step)
            engine.end_step()
            self.is_open = self._is_plain()
            if engine.due is not NOTHING_DUE:
                self._look_ahead()
        except Exception as error:  # noqa: BLE001 - see `switch_off`
            return self._switch_off(error)
        return True

    def _is_plain(self) -> bool:
        """Return True if nothing else is due in the open step."""
        return self._engine.due is NOTHING_DUE and not self._record.recorder.takes_norms

    def _switch_off(self, error: Exception) -> bool:
        self.close()
        self._record.switch_off(error)
        return False
