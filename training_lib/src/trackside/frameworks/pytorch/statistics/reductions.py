"""Reductions of parameters and gradients, computed in place: a copy of them would take longer.

Only tensors that are saved as reductions and nothing else, usual tensors on the CPU, and reductions that follow from a
few sums. Others are copied, and reduced on the writer thread: a tensor that is not taken here must be saved like any
other.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from trackside.capture.reduced_tensors import FROM_MOMENTS, ReducedLayout, ReducedTensors
from trackside.capture.step_engine import StepEngine
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.copying import is_one
from trackside.frameworks.pytorch.statistics.moments import MomentReader

_MOST_LAYOUTS = 64  # one for each pattern of present gradients
_PLAIN = {torch.Tensor, torch.nn.Parameter}
_NOTHING_TAKEN: frozenset[str] = frozenset()

_Tokens = tuple[str, ...]


class ReductionSource:
    """A source of reductions for the open step. Off until `start`, because a script may want the tensors themselves."""

    def __init__(self, engine: StepEngine) -> None:
        self._engine = engine
        self._is_on = False
        self.leaves_gradients = False  # another source copies them
        self._reader = MomentReader()
        self._tokens_of_due: dict[frozenset[str], dict[str, tuple[_Tokens, str, _Tokens]]] = {}
        self._layouts: dict[tuple[tuple[str, ...], frozenset[str]], ReducedLayout] = {}

    def start(self) -> None:
        """Begin to take reductions."""
        self._is_on = True

    def add(
        self, parameters: Iterable[tuple[str, torch.Tensor]], *, gradient_scale: float | torch.Tensor = 1.0
    ) -> frozenset[str]:
        """Add the reductions that can be computed here, of (name, parameter) pairs and of their gradients.

        Return their names.

        Gradients with a scale are left out.
        """
        engine = self._engine
        if not self._is_on or torch._C._len_torch_dispatch_stack():
            return _NOTHING_TAKEN
        due = engine.due.collections
        tokens_by_name = self._tokens_of_due.setdefault(due, {})
        takes_gradients = is_one(gradient_scale) and not self.leaves_gradients
        names: list[str] = []
        tensors: list[torch.Tensor] = []
        for name, parameter in parameters:
            tokens, gradient_name, gradient_tokens = tokens_by_name.get(name) or self._look_up(tokens_by_name, name)
            if tokens and _is_plain(parameter) and not engine.open_step.has(name):
                names.append(name)
                tensors.append(parameter)
            gradient = parameter.grad if gradient_tokens and takes_gradients else None
            if gradient is not None and _is_plain(gradient):
                names.append(gradient_name)
                tensors.append(gradient)
        return self._reduce(tuple(names), tensors, due) if names else _NOTHING_TAKEN

    def _reduce(self, names: tuple[str, ...], tensors: list[torch.Tensor], due: frozenset[str]) -> frozenset[str]:
        with torch.no_grad():
            moments = self._reader.read(tensors)
        is_exact = moments.is_exact
        if not is_exact.all():
            places = np.flatnonzero(is_exact)
            names, moments = tuple([names[place] for place in places]), moments.at(places)
        if not names:
            return _NOTHING_TAKEN
        layout = self._layouts.get((names, due))
        if layout is None:
            if len(self._layouts) == _MOST_LAYOUTS:
                self._layouts.clear()
            layout = self._layouts[names, due] = ReducedLayout([(name, self._tokens(name)) for name in names])
        self._engine.open_step.add_reduced(ReducedTensors(layout, moments))
        return layout.names

    def _look_up(
        self, tokens_by_name: dict[str, tuple[_Tokens, str, _Tokens]], name: str
    ) -> tuple[_Tokens, str, _Tokens]:
        gradient_name = f"gradient/{name}"
        found = tokens_by_name[name] = self._tokens(name), gradient_name, self._tokens(gradient_name)
        return found

    def _tokens(self, name: str) -> _Tokens:
        """Return the saved reductions of it, if all can be computed here and nothing else of it is saved."""
        saved = self._engine.open_step.saved(name)
        if saved is None or saved.is_raw or saved.has_shape or not FROM_MOMENTS.keys() >= {*saved.reductions}:
            return ()
        return saved.reductions


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.dtype is torch.float32
        and type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and tensor.is_cpu
        and tensor.is_contiguous()
        and tensor.numel() > 0
        and has_memory(tensor)
    )
