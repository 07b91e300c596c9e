"""Target networks that nothing updates: copies of a trained model that targets are computed with, and that stand still.

The target of Q-learning, and the slow twin of two views, are called without gradients beside the trained model, on
other numbers: the next states, or another view. A reference of a fine-tuning, a teacher and a random network to distil
read what the model reads, and stand still on purpose; what reads tokens is left alone. Copies are looked for once,
among the models that were there at the first step, and read at the calls that are watched anyway. Nothing on a device
is read.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import STILL_TARGET_STEPS
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.initial_values import looks_untrained
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import modules_of, parameters_of
from trackside.frameworks.pytorch.ground.structures import flatten
from trackside.frameworks.pytorch.modes.stale_copies import first_readable, has_changed, is_copy, sample_of
from trackside.frameworks.shared.detectors import watches

FEWEST = 5  # steps in which it was called on other inputs, before its steps count
LEVELS = (200, 1000, 5000, 20000)  # steps
_MOST_MODULES = 256  # of a model that are looked at for copies
_MOST_COPIES = 8
_ROWS, _NUMBERS = 8, 16  # of an input that are read


@dataclass
class _Copy:
    """A copy, its model, and the numbers of one parameter of both as they were at `since`, a number of steps."""

    root: weakref.ref[nn.Module]
    number: int
    copied: torch.Tensor
    trained: torch.Tensor
    since: int
    calls: int = 0  # steps in which it was called on other inputs
    inputs: list[torch.Tensor] = field(default_factory=list)  # in the open step


@dataclass
class _Given:
    """The inputs of a trained model in the open step, and whether any of them came with gradients."""

    inputs: list[torch.Tensor] = field(default_factory=list)
    has_gradients: bool = False


@watches(STILL_TARGET_STEPS)
class StillTargets:
    """The copies of the trained models, and the inputs of both at the steps that watch calls."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._held: set[int] = set()  # ids of parameters that optimizers have stepped
        self._copies: weakref.WeakKeyDictionary[nn.Module, _Copy] = weakref.WeakKeyDictionary()
        self._trained: weakref.WeakKeyDictionary[nn.Module, _Given] = weakref.WeakKeyDictionary()
        self._steps = 0

    def before_step(self, optimizer: Optimizer) -> None:
        """Note what the optimizer trains, and judge the step's calls."""
        if self._watch.is_first_look():
            self._held |= {id(p) for group in optimizer.param_groups for p in group["params"]}
        elif self._copies and self._trained:
            self._judge()

    def look_begins(self) -> None:
        """Look for copies of the models, once these are known."""
        if self._watch.is_first_look():
            for module, root in self._pairs():
                self._add(module, root)

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note the input of a copy without gradients, and of its model with them."""
        if not self._copies:
            return
        copy, trained = self._copies.get(module), self._trained.get(module)
        if copy is not None and not torch.is_grad_enabled():
            copy.inputs += _numbers_of(args, kwargs)
        elif trained is not None:
            trained.inputs += _numbers_of(args, kwargs)
            trained.has_gradients |= torch.is_grad_enabled()

    def of(self, watch: Watch) -> int:
        """Return the level of steps in which a target has not changed once; 0 without one."""
        return max((level for level in LEVELS if level <= self._steps), default=0)

    def _pairs(self) -> Iterator[tuple[nn.Module, nn.Module]]:
        """Yield each module that no optimizer trains with a trained one of the same parameters."""
        names = self._watch.names
        roots = [modules_of(root)[:_MOST_MODULES] for _, root in names.roots()]
        others = [module for other in names.others() for module in modules_of(other)[:_MOST_MODULES]]
        trained: dict[type, list[nn.Module]] = {}
        for module in (module for root in roots for module in root):
            parameters = parameters_of(module)
            if parameters and self._held.issuperset(map(id, parameters)):
                trained.setdefault(type(module), []).append(module)
            elif parameters and self._held.isdisjoint(map(id, parameters)):
                others.append(module)
        for module in others:
            model = next((each for each in trained.get(type(module), ()) if is_copy(module, each)), None)
            if model is not None:
                yield module, model

    def _add(self, module: nn.Module, root: nn.Module) -> None:
        number = first_readable(module, root)
        if number is None or len(self._copies) >= _MOST_COPIES:
            return
        copied, trained = (sample_of(parameters_of(each)[number]) for each in (module, root))
        matrices = [p for p in parameters_of(module) if p.dim() > 1]
        if any(map(looks_untrained, matrices)) or torch.equal(copied, trained):
            self._copies[module] = _Copy(weakref.ref(root), number, copied, trained, self._watch.steps())
            self._trained[root] = _Given()

    def _judge(self) -> None:
        """Count the steps of copies that were called on other inputs than their model, and stand still."""
        now = self._watch.steps()
        for module, copy in list(self._copies.items()):
            root, inputs = copy.root(), copy.inputs
            copy.inputs = []
            given = self._trained.get(root) if root is not None else None
            if given is None or not inputs or not given.has_gradients:
                continue
            is_updated = has_changed(parameters_of(module)[copy.number], copy.copied)
            if is_updated or any(_are_equal(one, other) for one in inputs for other in given.inputs):
                del self._copies[module]  # one that reads what the model reads is a reference
                continue
            copy.calls += 1
        for each in self._trained:
            self._trained[each] = _Given()
        steps = [now - each.since for each in self._copies.values() if each.calls >= FEWEST and self._moves(each)]
        level, self._steps = self.of(self._watch), max(steps, default=0)
        if self.of(self._watch) != level:
            self._watch.changed()

    def _moves(self, copy: _Copy) -> bool:
        root = copy.root()
        return root is not None and has_changed(parameters_of(root)[copy.number], copy.trained)


def _numbers_of(args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Return a copy of some numbers of the first input; nothing of one that cannot be read."""
    first = next(iter(flatten(args, kwargs)), None)
    is_read = first is not None and first.is_floating_point() and first.is_cpu and first.layout == torch.strided
    if first is None or not is_read or first.dim() < 1 or not has_memory(first):
        return []
    return [first.detach()[:_ROWS].reshape(-1)[: _ROWS * _NUMBERS].clone()]


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool((one == other).all())
