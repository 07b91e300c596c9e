"""Losses of an optimizer's state within a process, found by looks at one parameter's part of it.

An optimizer that is made anew each epoch loses it as well. It counts where it takes over the parameters from one of its
class, over the same data, and nothing but steps has written to the parameters: rounds of federated learning and tasks
of meta-learning give the weights back, or have data of their own.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import STATE_LOST_EVERY
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.shared.detectors import watches

FEWEST = 3  # looks that found it emptied, before it is reported
MOST_LINES = 16


@dataclass
class _Kept:
    """The state as a step ended: all of it, and the part of one parameter, which is held so that it stays the same.

    losses, at   looks that found it emptied, and the step of the newest
    """

    whole: Any
    part: Any
    losses: int = 0
    at: int = 0


@dataclass
class _Line:
    """Optimizers of one class that followed one another on the same parameters.

    parameter  the smallest of these
    newest     the optimizer that is stepping
    data       data set of its newest pass
    writes     writes to the parameter by each step; 0 if unknown
    step, written  the newest look: its step, and the writes to the parameter until then
    """

    parameter: weakref.ref[torch.Tensor]
    newest: weakref.ref[Optimizer]
    data: Callable[[], Any]
    step: int
    written: int
    writes: float = 0.0
    kept: _Kept = field(default_factory=lambda: _Kept(None, None))


@watches(STATE_LOST_EVERY)
class LostStates:
    """The looks at optimizers' states, before some of their steps and as these end.

    `state.clear()` leaves the dictionary of all parameters and takes their own ones from it. `load_state_dict` makes
    another dictionary, and is no loss.
    """

    def __init__(self, watch: Watch) -> None:
        self._steps = watch.steps
        self._kept: weakref.WeakKeyDictionary[Optimizer, _Kept] = weakref.WeakKeyDictionary()
        self._every: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self._lines: dict[tuple[int, type], _Line] = {}
        self._data: Callable[[], Any] = _no_data  # the data set of the newest pass

    def pass_met(self, iterator: Any, batch: Any) -> None:
        """Note the data set of a pass."""
        try:
            self._data = weakref.ref(attribute_of(iterator, "_dataset"))
        except TypeError:  # a list, which may be another one in the same place
            self._data = object

    def before_step(self, optimizer: Optimizer) -> None:
        """Count a loss if the state is not the one that `after_step` saw."""
        self._follow(optimizer)
        kept = self._kept.get(optimizer)
        if kept is None or kept.part is None or kept.whole is not optimizer.state or optimizer in self._every:
            return
        if kept.whole.get(smallest_parameter(optimizer)) is not kept.part:
            self._lose(optimizer, kept)

    def after_step(self, optimizer: Optimizer) -> None:
        """Keep the state until the next look."""
        whole = attribute_of(optimizer, "state")
        if not isinstance(whole, dict) or not whole or optimizer in self._every:
            return
        kept = self._kept.setdefault(optimizer, _Kept(whole, None))
        kept.whole, kept.part = whole, whole.get(smallest_parameter(optimizer))

    def _lose(self, optimizer: Optimizer, kept: _Kept) -> None:
        kept.losses += 1
        step = self._steps()
        if kept.losses >= FEWEST:
            self._every[optimizer] = step - kept.at
        kept.at = step

    def _follow(self, optimizer: Optimizer) -> None:
        """Count a loss if the optimizer has taken over the parameters of another one, and has no state."""
        parameter = smallest_parameter(optimizer)
        if parameter is None:
            return
        key, step, written = (id(parameter), type(optimizer)), self._steps(), parameter._version
        line = self._lines.get(key)
        if line is None or line.parameter() is not parameter:
            self._lines = {key: each for key, each in self._lines.items() if each.parameter() is not None}
            if len(self._lines) < MOST_LINES:
                self._lines[key] = _Line(weakref.ref(parameter), weakref.ref(optimizer), self._data, step, written)
            return
        is_only_stepped = line.writes > 0 and written - line.written == line.writes * (step - line.step)
        if line.newest() is optimizer:
            if step > line.step:
                writes = (written - line.written) / (step - line.step)
                line.writes = writes if not line.writes or is_only_stepped else 0.0
        elif is_only_stepped and _is_same(line.data, self._data) and _is_new(optimizer, parameter, step - line.step):
            self._lose(optimizer, line.kept)
        else:
            line.kept.losses = 0
        line.newest, line.data, line.step, line.written = weakref.ref(optimizer), self._data, step, written

    def of(self, optimizer: Optimizer) -> int:
        """Return the steps between the last two losses of an optimizer that is known to lose its state; else 0."""
        return self._every.get(optimizer, 0)


def _is_new(optimizer: Optimizer, parameter: Any, steps: int) -> bool:
    """Return True if an optimizer has made at most so many steps, and had no state before these."""
    state = attribute_of(optimizer, "state")
    if not state:
        return True
    made = state[parameter].get("step") if parameter in state else None
    return made is not None and 0 < float(made) <= steps


def _no_data() -> Any:
    """Stand for the data of a training without a DataLoader."""


def _is_same(one: Callable[[], Any], other: Callable[[], Any]) -> bool:
    return one is other is _no_data or (one() is not None and one() is other())


def smallest_parameter(optimizer: Optimizer) -> Any:
    """Return the parameter with the fewest elements, of which a part of the state may be held; None without one.

    Args:
        optimizer: The optimizer that holds it.
    """
    return min((p for group in optimizer.param_groups for p in group["params"]), key=torch.Tensor.numel, default=None)
