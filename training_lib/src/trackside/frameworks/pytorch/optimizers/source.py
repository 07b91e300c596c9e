"""Data of an optimizer: its settings, its state, AMP's scale, and the steps that AMP skips."""

from __future__ import annotations

import functools
import gc
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.values import Values
from trackside.capture.steps.step_engine import StepEngine
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.ground.live_objects import instances, look_again
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver

SKIPPED_STEPS = "amp_skipped_steps"
_HYPERPARAMETERS = frozenset({"hyperparameters"})
_VARIABLES = "optimizer_variables"


def fused_scale(optimizer: Optimizer) -> float | torch.Tensor:
    """Return AMP's factor of the gradients by which a fused optimizer will divide inside of its step; 1 for others.

    A factor on a device is returned as a tensor: reading the number would make training wait.
    """
    scale = attribute_of(optimizer, "grad_scale")
    if not isinstance(scale, torch.Tensor) or scale.numel() != 1 or not has_memory(scale):
        return 1.0
    return scale.item() if scale.is_cpu else scale.detach().reshape(())


def optimizers_beside(
    is_known: Callable[[Optimizer], bool], *, seen: Callable[[], list[Optimizer] | None] = lambda: None
) -> list[Optimizer]:
    """Return the optimizers that are not registered: built before capture began, or copied and so never built.

    `seen` returns those of a search just before: if all are known, no other search is made. A search takes some ten
    milliseconds, and more if it finds any: those that only wait to be collected are left out.
    """
    found = seen()
    if not _unknown(instances(Optimizer) if found is None else found, is_known):
        return []
    del found
    look_again()  # what was found is held by the look itself, and would not be collected
    gc.collect()
    return _unknown(instances(Optimizer), is_known)


def _unknown(found: list[Optimizer], is_known: Callable[[Optimizer], bool]) -> list[Optimizer]:
    # One that only wraps another passes `param_groups` on as a property.
    return [each for each in found if "param_groups" in each.__dict__ and not is_known(each)]


def numbers_in(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Return (name, number) for a number, a tensor of one, or each of a tuple of them.

    Flags and others are left out.
    """
    if isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        yield name, float(value)
    elif isinstance(value, torch.Tensor) and value.numel() == 1 and has_memory(value):
        yield name, float(value.detach())
    elif isinstance(value, (tuple, list)):
        for k, part in enumerate(value):
            yield from numbers_in(f"{name}_{k}", part)


def tensors_in(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor | float]]:
    """Return (name, value) for a tensor or number of an optimizer's state, or each in a list of them."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, float(value)
    elif isinstance(value, (tuple, list)):
        for k, part in enumerate(value):
            yield from tensors_in(f"{name}_{k}", part)


class OptimizerSource:
    """A source of hyperparameters, before an optimizer's step, and of its state, after it."""

    def __init__(self, engine: StepEngine, *, saver: TensorSaver, names: ParameterNames) -> None:
        self._engine = engine
        self._saver = saver
        self._names = names
        self._names_by_optimizer: weakref.WeakKeyDictionary[Optimizer, str] = weakref.WeakKeyDictionary()
        self._taken: dict[str, int] = {}

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Add `hyperparameters/<Class>/group_<i>/<key>` as this step uses them."""
        if "hyperparameters" not in self._engine.due.kinds:
            return
        for i, group in enumerate(optimizer.param_groups):
            prefix = f"hyperparameters/{self.name(optimizer)}/group_{i}"
            for key, value in group.items():
                if key != "params":
                    self._add_numbers(f"{prefix}/{key}", value)

    def _add_numbers(self, name: str, value: Any) -> None:
        for full_name, number in numbers_in(name, value):
            if self._engine.open_step.wants(full_name, collections=_HYPERPARAMETERS):
                self._engine.open_step.add(full_name, np.array(number, np.float64), collections=_HYPERPARAMETERS)

    def after_optimizer(self, optimizer: Optimizer) -> None:
        """Add `optimizer/<parameter>/<key>` for the state after this step."""
        if _VARIABLES not in self._engine.due.kinds:
            return
        for parameter_name, parameter in self._names.of(optimizer):
            state = optimizer.state.get(parameter)
            for key, value in (state or {}).items():
                for name, found in tensors_in(f"optimizer/{parameter_name}/{key}", value):
                    self._add_state(name, found)

    def _add_state(self, name: str, value: torch.Tensor | float) -> None:
        collections = frozenset({_VARIABLES})
        if isinstance(value, torch.Tensor):
            self._saver.save(name, value, collection=_VARIABLES)
        elif self._engine.open_step.wants(name, collections=collections):
            self._engine.open_step.add(name, np.array(value, np.float64), collections=collections)

    def name(self, optimizer: Optimizer) -> str:
        """Return the name of an optimizer: its class, and from the second of that on a number."""
        name = self._names_by_optimizer.get(optimizer)
        if name is None:
            kind = type(optimizer).__name__
            count = self._taken[kind] = self._taken.get(kind, 0) + 1
            name = self._names_by_optimizer[optimizer] = kind if count == 1 else f"{kind}{count}"
        return name


MOST_FLAGS = 256  # of skipped steps, on their way from a device


class SkippedSteps:
    """A counter of the steps that AMP's GradScaler skips because a gradient is not finite.

    The optimizer is not called then; a fused one is, and told to change nothing. The count so far is saved as
    `scalar/amp_skipped_steps` with the next step that is made.

    - `skipped`: is called with each optimizer that was not stepped
    - `read_later`: begins to read a tensor on a device
    """

    def __init__(
        self,
        engine: StepEngine,
        *,
        protect: Callable[[Callable[..., None]], Callable[..., None]],
        skipped: Callable[[Optimizer], None],
        read_later: Callable[[torch.Tensor], Values],
    ) -> None:
        self.count = 0
        self.has_scaler = False  # one was used
        self._engine = engine
        self._report = skipped
        self._read_later = read_later
        self.has_fused = False  # a fused optimizer was told whether to skip its step
        self._flags: deque[Values] = deque(maxlen=MOST_FLAGS)  # on their way from a device
        self.has_stepped = False  # an optimizer has, since the scaler was called
        self._skipped = untraced(protect(self._add))

    def flag(self, optimizer: Optimizer) -> bool | Values | None:
        """Return whether a fused optimizer must skip the step it is about to make; None for any other optimizer.

        A flag on a device is on its way, and is counted at the first step after its arrival.
        """
        while self._flags and self._flags[0].is_here():
            if self._flags.popleft().get().any():
                self._skipped()
        found = attribute_of(optimizer, "found_inf")
        if not isinstance(found, torch.Tensor) or not has_memory(found):
            return None
        self.has_fused = True
        if not found.is_cpu:
            flag = self._read_later(found.reshape(-1))
            self._flags.append(flag)
            return flag
        is_skipped = bool(found.any())
        if is_skipped:
            self._skipped()
        return is_skipped

    def install(self) -> Callable[[], None]:
        """Wrap `GradScaler.step`. Return the function that undoes it."""
        scaler_class = torch.amp.grad_scaler.GradScaler
        original = scaler_class.step
        counter = self

        @functools.wraps(original)
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            counter.has_stepped, counter.has_scaler = False, True
            before = counter._engine.step
            result = original(self, *args, **kwargs)
            if not counter.has_stepped and counter._engine.step == before:  # at rest steps are counted, and no more
                counter._skipped(kwargs.get("optimizer", args[0] if args else None))
            return result

        skip_frame(step)
        setattr(scaler_class, "step", step)  # noqa: B010 - mypy forbids the plain assignment to a method
        return functools.partial(setattr, scaler_class, "step", original)

    def _add(self, skipped: Any = None) -> None:
        self.count += 1
        if isinstance(skipped, Optimizer):
            self._report(skipped)
        self._engine.open_step.add_scalar(SKIPPED_STEPS, self.count)
