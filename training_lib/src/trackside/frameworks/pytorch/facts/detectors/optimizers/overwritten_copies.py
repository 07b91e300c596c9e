"""Copies of parameters that an optimizer trains, and that the script overwrites by what they are copies of.

The target network of Q-learning and the slow twin of two views follow the model by copies or averages of its weights.
In the model's optimizer, and with gradients, they are trained against what they are to hold still for. Copies are the
parameters of one optimizer that are alike before its first step. A few numbers of each are compared from one look to
the next step. An average that the optimizer holds, and that never gets a gradient, is left alone. Nothing on a device
is read.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import OVERWRITTEN_COPIES
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.modes.stale_copies import sample_of
from trackside.frameworks.pytorch.saving.slabs import PLAIN_TYPES
from trackside.frameworks.shared.detectors import watches

MOST_LOOKS = 3  # that find it
_MOST_PARAMETERS = 512  # of an optimizer, among which copies are looked for
_MOST_PAIRS = 8
_FEWEST_NUMBERS = 8  # of a parameter
_PARALLEL = 0.999  # cosine of what a parameter moved by and of the way to what it is a copy of


class _Pair(NamedTuple):
    """Two parameters that began alike, and numbers of both after the newest step that was looked at.

    - `steps`: steps of the process until then; -1 before one
    """

    one: weakref.ref[torch.Tensor]
    other: weakref.ref[torch.Tensor]
    steps: int = -1
    values: tuple[torch.Tensor, ...] = ()


@watches(OVERWRITTEN_COPIES)
class OverwrittenCopies:
    """The pairs of each optimizer, and the looks that found one of a pair overwritten by the other."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._pairs: weakref.WeakKeyDictionary[Optimizer, list[_Pair]] = weakref.WeakKeyDictionary()
        self._counts: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()

    def before_step(self, optimizer: Optimizer) -> None:
        """Look for copies at the first step, and later for those that were overwritten since the step before."""
        if optimizer not in self._pairs:
            self._pairs[optimizer] = [] if self._watch.steps() else _pairs_of(optimizer)
        elif self._counts.get(optimizer, 0) < MOST_LOOKS:
            now = self._watch.steps()
            if any(_is_overwritten(pair, now) for pair in self._pairs[optimizer]):
                self._counts[optimizer] = self._counts.get(optimizer, 0) + 1
                self._watch.changed()

    def after_step(self, optimizer: Optimizer) -> None:
        """Note the numbers of copies."""
        if pairs := self._pairs.get(optimizer):
            steps = self._watch.steps()
            self._pairs[optimizer] = [_after(pair, steps) for pair in pairs]

    def of(self, optimizer: Optimizer) -> int:
        """Return the number of looks that found an overwritten copy."""
        return self._counts.get(optimizer, 0)


def _pairs_of(optimizer: Optimizer) -> list[_Pair]:
    """Return the pairs of matrices that are alike, and not of one value."""
    held = (parameter for group in optimizer.param_groups for parameter in group["params"])
    seen: dict[tuple[torch.Size, bytes], torch.Tensor] = {}
    pairs: list[_Pair] = []
    for _, parameter in zip(range(_MOST_PARAMETERS), held, strict=False):
        if parameter.dim() < 2 or not _is_readable(parameter):
            continue
        numbers = sample_of(parameter)
        if len(numbers) < _FEWEST_NUMBERS or bool((numbers == numbers[0]).all()):
            continue
        key = parameter.shape, numbers.float().numpy().tobytes()
        if key in seen and len(pairs) < _MOST_PAIRS:
            pairs.append(_Pair(weakref.ref(seen[key]), weakref.ref(parameter)))
        seen.setdefault(key, parameter)
    return pairs


def _is_readable(parameter: torch.Tensor) -> bool:
    is_plain = (
        type(parameter) in PLAIN_TYPES
        and parameter.is_cpu
        and parameter.layout == torch.strided
        and parameter.is_floating_point()
    )
    return is_plain and has_memory(parameter)


def _after(pair: _Pair, steps: int) -> _Pair:
    """Return a pair with its numbers after a step."""
    one, other = pair.one(), pair.other()
    if one is None or other is None or not (has_memory(one) and has_memory(other)):
        return pair._replace(values=())
    return pair._replace(steps=steps, values=(sample_of(one), sample_of(other)))


def _is_overwritten(pair: _Pair, steps: int) -> bool:
    """Return True if one of a pair, with a gradient, has become the other or an average with it since its step."""
    one, other = pair.one(), pair.other()
    if one is None or other is None or not pair.values or not (has_memory(one) and has_memory(other)):
        return False
    if one.grad is None or other.grad is None:
        return False
    now = [sample_of(one), sample_of(other)]
    if torch.equal(*now):
        return not torch.equal(*pair.values)
    is_next = steps == pair.steps + 1
    return is_next and any(_has_moved_to(*each) for each in _ways(pair, now))


def _ways(pair: _Pair, now: list[torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    for place, other in ((0, 1), (1, 0)):
        if torch.equal(pair.values[other], now[other]):
            yield pair.values[place], now[place], now[other]


def _has_moved_to(before: torch.Tensor, now: torch.Tensor, other: torch.Tensor) -> bool:
    moved, way = now - before, other - before
    if not bool(moved.any()) or bool(moved.norm() > way.norm()):
        return False
    return float(torch.nn.functional.cosine_similarity(moved, way, dim=0)) > _PARALLEL
