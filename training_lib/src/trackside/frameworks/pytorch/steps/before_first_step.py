"""The signs of a training before its first captured step: backward passes, optimizers, weights changed by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from trackside.capture.ground.script_lines import script_path, shown, user_place
from trackside.contracts.run.uncaptured import UncapturedProcess
from trackside.frameworks.pytorch.optimizers.hand_looks import Look
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph

MOST_LOOKS = 16  # at the weights: afterwards an update by hand would have been seen
MOST_NODES = 2000  # of a loss's graph
MOST_OPTIMIZERS = 8
_FIRST_LOOK = 2  # backward pass: an ordinary training has made its first step before it


class BeforeFirstStep:
    """The signs of training in a process without a step of an optimizer.

    From the second backward pass on, a few elements of a few weights are remembered. If these have changed at the next
    pass although no optimizer has stepped, the program updates its weights by hand. No method raises.
    """

    def __init__(self) -> None:
        self._passes = 0
        self._optimizers: list[str] = []
        self._manual_update = ""
        self._newest: Look | None = None

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

    def changed_by_hand(self, tensors: Any) -> Sequence[torch.Tensor]:
        """Return the weights that a script changes by hand: all that lead to the loss. None before it was seen to.

        Args:
            tensors: The first argument of `torch.autograd.backward`.
        """
        return list(_weights_of_all(tensors)) if self._manual_update and not self._optimizers else ()

    def optimizer_created(self, optimizer: object) -> None:
        """Note a new optimizer."""
        if len(self._optimizers) < MOST_OPTIMIZERS:
            self._optimizers.append(type(optimizer).__name__)

    def backward_called(self, tensors: Any) -> None:
        """Note a backward pass that begins, with the first argument of `torch.autograd.backward`."""
        self._passes += 1
        if self._passes < _FIRST_LOOK or self._passes > MOST_LOOKS or self._manual_update:
            self._newest = None
            return
        try:
            self._look(tensors)
        except Exception:  # noqa: BLE001 - the report is an extra
            self._passes = MOST_LOOKS

    def _look(self, tensors: Any) -> None:
        if self._newest is not None and self._newest.has_changed():
            self._manual_update = shown(user_place(), script_path()) or "an unknown line"
            return
        self._newest = Look(list(_weights_of_all(tensors)))


def _weights_of_all(tensors: Any) -> Iterator[torch.Tensor]:
    roots = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
    if not any(is_in_cuda_graph(root) for root in roots):
        for root in roots:
            yield from _weights_of(root.grad_fn)


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
