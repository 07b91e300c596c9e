"""The signs of a training before its first captured step: backward passes, optimizers, weights changed by hand."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch

from trackside.capture.script_lines import script_path, shown, user_place
from trackside.contracts.uncaptured import UncapturedProcess
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph

MOST_LOOKS = 16  # at the weights: afterwards an update by hand would have been seen
MOST_NODES = 2000  # of a loss's graph
MOST_WEIGHTS = 4
MOST_OPTIMIZERS = 8
_FIRST_LOOK = 2  # backward pass: an ordinary training has made its first step before it
_ELEMENTS = 16  # of a weight


class BeforeFirstStep:
    """The signs of training in a process without a step of an optimizer.

    From the second backward pass on, a few elements of a few weights are remembered. If these have changed at the next
    pass although no optimizer has stepped, the program updates its weights by hand. No method raises.
    """

    def __init__(self) -> None:
        self._passes = 0
        self._optimizers: list[str] = []
        self._manual_update = ""
        self._weights: list[tuple[weakref.ref[torch.Tensor], list[float]]] = []

    def signs(self) -> UncapturedProcess:
        """Return the signs so far."""
        return UncapturedProcess(
            backward_passes=self._passes,
            optimizers=tuple(self._optimizers),
            manual_update=self._manual_update,
        )

    @property
    def lacks_optimizer(self) -> bool:
        """True at the first backward pass, if nobody has made an optimizer of PyTorch."""
        return self._passes == 1 and not self._optimizers

    def optimizer_created(self, optimizer: object) -> None:
        """Note a new optimizer."""
        if len(self._optimizers) < MOST_OPTIMIZERS:
            self._optimizers.append(type(optimizer).__name__)

    def backward_called(self, tensors: Any) -> None:
        """Note a backward pass that begins, with the first argument of `torch.autograd.backward`."""
        self._passes += 1
        if self._passes < _FIRST_LOOK or self._passes > MOST_LOOKS or self._manual_update:
            self._weights = []
            return
        try:
            self._look(tensors)
        except Exception:  # noqa: BLE001 - the report is an extra
            self._passes = MOST_LOOKS

    def _look(self, tensors: Any) -> None:
        for reference, before in self._weights:
            weight = reference()
            if weight is not None and before and _elements(weight) not in ([], before):
                self._manual_update = shown(user_place(), script_path()) or "an unknown line"
                return
        roots = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
        if any(is_in_cuda_graph(root) for root in roots):
            return
        found = [weight for root in roots for weight in _weights_of(root.grad_fn)]
        self._weights = [(weakref.ref(weight), _elements(weight)) for weight in found[:MOST_WEIGHTS]]


def _elements(weight: torch.Tensor) -> list[float]:
    if not has_memory(weight):
        return []
    values: list[float] = weight.detach().reshape(-1)[:_ELEMENTS].double().tolist()
    return values


def _weights_of(end: Any) -> Iterator[torch.Tensor]:
    """Yield the leaves of a loss's graph that gradients are computed for."""
    waiting: list[Any] = [end]
    seen: set[Any] = set()
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.nn.Parameter):
            yield variable
        waiting += [following for following, _ in node.next_functions]
