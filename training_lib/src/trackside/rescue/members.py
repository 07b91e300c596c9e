"""The parts of a training that change: optimizers, tensors of modules, averages of weights, schedulers, scalers.

They are found among all live objects. A tensor that no optimizer trains counts once a look finds other numbers in it
than the look before, as in an average of weights; frozen weights never do, and are not kept. Nothing is held here, so
that a script's own objects go when the script lets them go.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.ground.live_objects import of_types, types
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import parameters_of
from trackside.frameworks.pytorch.optimizers.other_kinds import StandIn
from trackside.rescue.kept_trees import own_part

_OTHERS = (torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)
_SOUGHT: frozenset[type] = frozenset({Optimizer, torch.nn.Module, *_OTHERS})
_SAMPLED = 8  # numbers of a tensor that no optimizer trains


class Members:
    """The changing parts of one training.

    An optimizer is of it once it has stepped, or if it holds a parameter of one that has.
    """

    def __init__(self) -> None:
        self._stepped: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._optimizers: list[weakref.ref[Optimizer]] = []
        self._tensors: list[weakref.ref[torch.Tensor]] = []  # of modules, that no optimizer has
        self._others: list[weakref.ref[Any]] = []
        self._samples: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}
        self._moving: set[int] = set()

    def stepped(self, optimizer: Optimizer) -> None:
        """Note a step of an optimizer of this training."""
        if optimizer not in self._stepped:
            self._stepped.add(optimizer)

    def look(self) -> bool:
        """Find the parts again. Return True if any was found that earlier looks did not have."""
        before = {id(each) for each in (*self.optimizers(), *_alive(self._tensors), *self.others())}
        found = of_types({kind for kind in types() if not _SOUGHT.isdisjoint(type.mro(kind))})
        ours = {number for each in self._stepped for number in _parameters_of(each)}
        optimizers = [
            each
            for each in found
            if isinstance(each, Optimizer) and ours & set(_parameters_of(each)) and not self._is_wrapper(each)
        ]
        modules = [each for each in found if isinstance(each, torch.nn.Module)]
        trained = {number for each in optimizers for number in _parameters_of(each)}
        buffers = {
            id(each): each
            for m in modules
            for each in list(m._buffers.values())
            if each is not None and _is_dense(each)
        }
        untrained: dict[int, torch.Tensor] = {
            id(each): each
            for module in modules
            for each in list(module._parameters.values())
            if each is not None and id(each) not in trained and _is_dense(each)
        }
        moving = self._moved(untrained)
        for module in modules if moving else ():
            numbers = {id(each) for each in parameters_of(module)}
            if numbers & moving and not numbers & trained:  # a part of an average moves: all of it may
                moving |= numbers & untrained.keys()
        changing = [*buffers.values(), *(untrained[number] for number in moving)]
        self._optimizers = [weakref.ref(each) for each in optimizers]
        self._tensors = [weakref.ref(each) for each in changing]
        others = [each for each in found if isinstance(each, _OTHERS)]
        self._others = [weakref.ref(each) for each in others]
        return bool({id(each) for each in (*optimizers, *changing, *others)} - before)

    def optimizers(self) -> Iterator[Optimizer]:
        """Yield the optimizers that are alive."""
        yield from _alive(self._optimizers)

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield the trained parameters, and the other tensors of modules that change, each once."""
        seen: set[int] = set()
        trained = (p for each in self.optimizers() for group in each.param_groups for p in group["params"])
        for tensor in (*trained, *_alive(self._tensors)):
            if id(tensor) not in seen and _is_dense(tensor):
                seen.add(id(tensor))
                yield tensor

    def others(self) -> Iterator[Any]:
        """Yield the schedulers and gradient scalers that are alive."""
        yield from _alive(self._others)

    def _is_wrapper(self, optimizer: Optimizer) -> bool:
        """Return True for another name of an optimizer that steps, as accelerate and Lightning make them."""
        if optimizer in self._stepped:
            return False
        return isinstance(optimizer, StandIn) or any(each.state is optimizer.state for each in self._stepped)

    def _moved(self, untrained: dict[int, torch.Tensor]) -> set[int]:
        samples = {}
        for number, tensor in untrained.items():
            sample = own_part(tensor).reshape(-1)[:_SAMPLED].clone()
            known = self._samples.get(number)
            if known is not None and known[0]() is tensor and not torch.equal(known[1], sample):
                self._moving.add(number)
            samples[number] = (weakref.ref(tensor), sample)
        self._samples = samples
        self._moving &= untrained.keys()
        return set(self._moving)


def _parameters_of(optimizer: Optimizer) -> list[int]:
    return [id(each) for group in optimizer.param_groups for each in group["params"]]


def _is_dense(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and has_memory(tensor)


def _alive(references: list[weakref.ref[Any]]) -> Iterator[Any]:
    for reference in references:
        found = reference()
        if found is not None:
            yield found
