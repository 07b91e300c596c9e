"""Parameters that two optimizers hold, and step by one gradient, or by gradients that point against one another.

Two optimizers may well share parameters, each with a pass of its own: the encoder of two tasks, or of an adversarial
autoencoder, whose two aims oppose one another. But a module that a loss is taken of itself, and that has an optimizer
of its own, is the judge of the other's modules. Gradients are compared at looks alone, and only of optimizers that
share any.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import OPPOSED_GRADIENTS, REUSED_GRADIENTS
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import parameters_of
from trackside.frameworks.shared.detectors import watches

FIRST_LOOKS, MOST_LOOKS = 3, 11  # at gradients that may oppose one another: in the first nobody has an aim yet
ENOUGH = 3  # looks at reused ones
_MOST_NUMBERS = 1 << 20  # of the gradients that are kept until the other optimizer's step


class _Stepped(NamedTuple):
    """The gradients of shared parameters as an optimizer stepped by them.

    passes     backward passes until then
    judges     the module that was called last has no other parameters than shared ones
    gradients  by id of the parameter, so that another gradient is told from the same
    values     of some of them, by id of the parameter
    """

    passes: int
    judges: bool
    gradients: dict[int, weakref.ref[torch.Tensor]]
    values: dict[int, torch.Tensor]


@watches(REUSED_GRADIENTS, OPPOSED_GRADIENTS)
class SharedParameters:
    """The pairs of optimizers with common parameters, and what they step these by."""

    def __init__(self, watch: Watch) -> None:
        self._passes = watch.passes
        self._called: weakref.ref[nn.Module] | None = None  # the newest outermost one since a step
        self._held: weakref.WeakKeyDictionary[Optimizer, frozenset[int]] = weakref.WeakKeyDictionary()
        self._shared: weakref.WeakKeyDictionary[Optimizer, frozenset[int]] = weakref.WeakKeyDictionary()
        self._stepped: weakref.WeakKeyDictionary[Optimizer, _Stepped] = weakref.WeakKeyDictionary()
        self._reused: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self._cosines: weakref.WeakKeyDictionary[Optimizer, list[float]] = weakref.WeakKeyDictionary()

    def outermost_called(self, module: nn.Module) -> None:
        """Note the module, if it is no loss."""
        if self._held and parameters_of(module):
            self._called = weakref.ref(module)

    def before_step(self, optimizer: Optimizer) -> None:
        """Compare the gradients of shared parameters with those of the other optimizer's newest step."""
        if optimizer not in self._held:
            self._meet(optimizer)
        shared, called, self._called = self._shared.get(optimizer), self._called, None
        if not shared or isinstance(optimizer, torch.optim.LBFGS):  # its gradients come within its step
            return
        passes = self._passes()
        gradients = {
            id(p): p.grad
            for p in _parameters(optimizer)
            if id(p) in shared and p.grad is not None and p.grad.layout == torch.strided and has_memory(p.grad)
        }
        module = called() if called is not None else None
        own = set() if module is None else set(map(id, parameters_of(module)))
        judges = bool(own) and own <= shared
        for other, stepped in list(self._stepped.items()):
            if other is not optimizer and stepped.gradients.keys() & gradients.keys():
                self._reuse(optimizer, gradients, stepped, passes)
                if judges and stepped.judges and passes != stepped.passes and self._held[other] < self._held[optimizer]:
                    self._oppose(optimizer, gradients, stepped)
        is_done = len(self._cosines.get(optimizer, ())) >= MOST_LOOKS
        values = {} if is_done else _copied(gradients)
        self._stepped[optimizer] = _Stepped(
            passes, judges, {key: weakref.ref(g) for key, g in gradients.items()}, values
        )

    def _meet(self, optimizer: Optimizer) -> None:
        held = frozenset(map(id, _parameters(optimizer)))
        for other, others in list(self._held.items()):
            if common := held & others:
                for each in (optimizer, other):
                    self._shared[each] = self._shared.get(each, frozenset()) | common
        self._held[optimizer] = held

    def _reuse(self, optimizer: Optimizer, gradients: dict[int, torch.Tensor], stepped: _Stepped, passes: int) -> None:
        count = self._reused.get(optimizer, 0)
        if passes == stepped.passes and count < ENOUGH:
            is_same = any(
                (before := stepped.gradients.get(key)) is not None and before() is gradient and bool(gradient.any())
                for key, gradient in gradients.items()
            )
            self._reused[optimizer] = count + is_same

    def _oppose(self, optimizer: Optimizer, gradients: dict[int, torch.Tensor], stepped: _Stepped) -> None:
        cosines = self._cosines.setdefault(optimizer, [])
        common = [key for key in stepped.values if key in gradients]
        if len(cosines) < MOST_LOOKS and common:
            with torch.no_grad():
                cosine = _cosine([gradients[key] for key in common], [stepped.values[key] for key in common])
            cosines.extend([] if cosine is None else [cosine])

    def of(self, optimizer: Optimizer) -> tuple[int, float | None]:
        """Return the reuses of gradients by an optimizer, and the mean cosine; None before it is known."""
        cosines = self._cosines.get(optimizer, [])[FIRST_LOOKS:]
        mean = sum(cosines) / len(cosines) if len(cosines) == MOST_LOOKS - FIRST_LOOKS else None
        return self._reused.get(optimizer, 0), mean


def _parameters(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _copied(gradients: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return copies of the first gradients, as many as may be kept."""
    copies: dict[int, torch.Tensor] = {}
    count = 0
    for key, gradient in gradients.items():
        count += gradient.numel()
        if count > _MOST_NUMBERS:
            break
        copies[key] = gradient.detach().clone()
    return copies


def _cosine(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float | None:
    """Return the cosine of two lists of tensors, each taken as one vector; None where one is zero or not finite."""
    product, first, second = (
        float(torch.stack([(a.float() * b.float()).sum() for a, b in zip(left, right, strict=True)]).sum())
        for left, right in ((one, other), (one, one), (other, other))
    )
    return product / (first * second) ** 0.5 if 0 < first * second < float("inf") else None
