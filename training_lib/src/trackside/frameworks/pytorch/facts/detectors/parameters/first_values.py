"""Evidence of a parameter's initialization in its values: a few rows or numbers of each, read once."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch
from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import HAS_CHANGED, HAS_EQUAL_ROWS, LOOKS_UNTRAINED
from trackside.frameworks.pytorch.facts.detector import SeenParameter, Watch
from trackside.frameworks.pytorch.ground.initial_values import is_readable, looks_untrained
from trackside.frameworks.shared.detectors import watches

_SAMPLE = 16  # numbers of a parameter that are compared with their first values


def has_equal_rows(parameter: torch.Tensor) -> bool:
    """Return True for a matrix with equal first two rows and last row: units that started alike, and stay so.

    False for a tensor without values here. Reads three rows; on a device it waits for them.
    """
    if not is_readable(parameter) or parameter.dim() < 2 or parameter.shape[0] < 3 or parameter[0].numel() < 2:
        return False
    with torch.no_grad():
        rows = parameter.detach()
        return torch.equal(rows[0], rows[1]) and torch.equal(rows[0], rows[-1])


@watches(HAS_EQUAL_ROWS, LOOKS_UNTRAINED, HAS_CHANGED)
class FirstValues:
    """The values that parameters had when they were first seen, a few of each."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._seen_optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._samples: dict[int, _Sample] = {}
        self._alike: dict[int, weakref.ref[torch.Tensor]] = {}  # parameters that began with equal rows

    def before_step(self, optimizer: Optimizer) -> None:
        """Note parameters with equal rows that are not zero, before the first step.

        A step by random biases may be enough to make them differ.
        """
        if optimizer in self._seen_optimizers:
            return
        self._seen_optimizers.add(optimizer)
        if self._watch.is_first_look():
            for parameter in (p for group in optimizer.param_groups for p in group["params"]):
                if has_equal_rows(parameter) and bool(parameter.detach()[0].any()):
                    self._alike[id(parameter)] = weakref.ref(parameter)

    def look_begins(self) -> None:
        """Compare all parameters with their first values. Wait once for each device, for all parameters together."""
        answers: dict[torch.device, list[tuple[_Sample, torch.Tensor]]] = {}
        for sample in self._samples.values():
            parameter = None if sample.has_changed else sample.parameter()
            if parameter is None or not is_readable(parameter):
                continue
            now = _numbers_of(parameter)
            if now.shape == sample.first.shape and now.device == sample.first.device:
                with torch.no_grad():
                    answers.setdefault(now.device, []).append((sample, (now != sample.first).any()))
            else:
                sample.has_changed = True
        for compared in answers.values():
            differ = torch.stack([differs for _, differs in compared]).tolist()
            for (sample, _), has_changed in zip(compared, differ, strict=True):
                sample.has_changed = has_changed

    def of(self, parameter: SeenParameter) -> tuple[bool, bool, bool]:
        """Return whether it had equal rows, looks untrained, and had changed when the look began.

        The last two are known of those that are not trained. The first look at one on a device waits for it.
        """
        tensor = parameter.tensor
        return (self._had_equal_rows(tensor), *((False, False) if parameter.is_trained else self._values_of(tensor)))

    def _had_equal_rows(self, parameter: torch.Tensor) -> bool:
        if self._watch.is_first_look() and has_equal_rows(parameter):
            self._alike[id(parameter)] = weakref.ref(parameter)
        reference = self._alike.get(id(parameter))
        return reference is not None and reference() is parameter

    def _values_of(self, parameter: torch.Tensor) -> tuple[bool, bool]:
        if not is_readable(parameter):
            return False, False
        sample = self._samples.get(id(parameter))
        if sample is None or sample.parameter() is not parameter:
            first = _numbers_of(parameter).clone()
            sample = self._samples[id(parameter)] = _Sample(weakref.ref(parameter), first, looks_untrained(parameter))
        elif sample.has_changed and (parameter.is_cpu or not sample.is_changed_known):
            sample.is_untrained, sample.is_changed_known = looks_untrained(parameter), True
        return sample.is_untrained, sample.has_changed


@dataclass
class _Sample:
    """Some numbers of a parameter, as they were when it was first seen.

    `is_changed_known`: `is_untrained` is that of values that have changed since.
    """

    parameter: weakref.ref[torch.Tensor]
    first: torch.Tensor
    is_untrained: bool
    has_changed: bool = False
    is_changed_known: bool = False


def _numbers_of(parameter: torch.Tensor) -> torch.Tensor:
    numbers = parameter.detach().reshape(-1)
    return numbers[:: max(1, numbers.numel() // _SAMPLE)][:_SAMPLE]
