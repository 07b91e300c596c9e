"""Copies of a trained model that are evaluated with the running statistics that its norms began with.

An average of weights is a copy whose parameters are updated by hand. Its batch norms never see a batch: unless the
script copies or estimates their statistics (`AveragedModel` copies them), in eval mode they normalise by mean 0 and
variance 1.
Copies are looked for once, among the models that were there at the first step. A call is read until three were counted
of copies that have changed since, while the trained model's own statistics have moved. Nothing on a device is read.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from trackside.capture.ground.script_lines import Place, user_place
from trackside.frameworks.pytorch.ground.memory import has_memory, readable
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.ground.script_objects import modules_of, named_parameters_of, parameters_of

ENOUGH = 3  # calls
_SAMPLED = 64  # elements of one parameter


class _Copy(NamedTuple):
    """A copy of a root, the number of its parameter that is sampled, and the sample at the first look."""

    root: weakref.ref[nn.Module]
    number: int
    sample: torch.Tensor


class StaleCopies:
    """A counter of evaluations of such copies.

    Attributes:
        count: Calls with stale statistics, at most `ENOUGH`.
        place: Line of the script that made the newest of them; None if unknown.
    """

    def __init__(self) -> None:
        self.count = 0
        self.place: Place | None = None
        self._copies: weakref.WeakKeyDictionary[nn.Module, _Copy] = weakref.WeakKeyDictionary()

    def look(self, names: ParameterNames) -> None:
        """Find the copies of the roots that no optimizer trains, with norms as they began."""
        for module, root in copies_of_roots(names):
            number = first_readable(module, root) if any(map(is_stale_norm, modules_of(module))) else None
            if number is not None:
                sample = sample_of(parameters_of(module)[number])
                self._copies[module] = _Copy(weakref.ref(root), number, sample)

    def __contains__(self, module: nn.Module) -> bool:
        return bool(self._copies) and module in self._copies

    def called(self, module: nn.Module) -> bool:
        """Read a copy in eval mode that is about to be called. Return True if it counts."""
        found = self._copies.get(module) if self._copies and self.count < ENOUGH else None
        root = found.root() if found is not None else None
        if found is None or root is None:
            return False
        is_stale = any(
            is_stale_norm(norm) and not norm.training and not is_stale_norm(trained)
            for norm, trained in zip(modules_of(module), modules_of(root), strict=False)
        )
        if not is_stale or not has_changed(parameters_of(module)[found.number], found.sample):
            return False
        self.count += 1
        self.place = user_place()
        return True


def copies_of_roots(names: ParameterNames) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Yield (copy, root) for each copy of a root that no optimizer trains."""
    by_type: dict[type, list[nn.Module]] = {}
    for _, root in names.roots():
        by_type.setdefault(type(root), []).append(root)
    for other in names.others():
        for module in modules_of(other):
            yield from ((module, root) for root in by_type.get(type(module), ()) if is_copy(module, root))


def first_readable(module: nn.Module, root: nn.Module) -> int | None:
    """Return the number of the first trained parameter of a root that its copy holds apart, and that can be read."""
    for number, (copied, trained) in enumerate(zip(parameters_of(module), parameters_of(root), strict=False)):
        if trained.requires_grad and copied is not trained and copied.is_cpu and has_memory(copied):
            return number
    return None


def is_stale_norm(module: nn.Module) -> bool:
    """Return True if the running statistics of a norm, in whatever mode, are as they began."""
    return isinstance(module, nn.modules.batchnorm._NormBase) and _is_as_made(module)


def _is_as_made(norm: Any) -> bool:
    mean, variance = norm.running_mean, norm.running_var
    if mean is None or variance is None or not mean.is_cpu or not (has_memory(mean) and has_memory(variance)):
        return False
    with torch.no_grad():
        return not bool(mean.any()) and bool((variance == 1).all())


def is_copy(module: nn.Module, root: nn.Module) -> bool:
    """Return True for another module with parameters of the same names and shapes."""
    return module is not root and _shapes(named_parameters_of(module)) == _shapes(named_parameters_of(root))


def _shapes(named: Iterable[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Size]]:
    return [(name, tensor.shape) for name, tensor in named]


def has_changed(parameter: torch.Tensor, sample: torch.Tensor) -> bool:
    """Return True if a parameter has memory, and other first numbers than the sample."""
    return has_memory(parameter) and not torch.equal(sample_of(parameter), sample)


def sample_of(parameter: torch.Tensor) -> torch.Tensor:
    """Return a copy of the first numbers of a parameter that has memory, of shape (n,)."""
    return readable(parameter).reshape(-1)[:_SAMPLED].clone()
