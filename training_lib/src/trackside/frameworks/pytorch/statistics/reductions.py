"""Reductions of parameters and gradients, computed in place: a copy of them would take longer.

Only tensors that are saved as reductions and nothing else, usual tensors on the CPU, and reductions that follow from a
few sums. Others are copied, and reduced on the writer thread: a tensor that is not taken here must be saved like any
other.

The tensors of an optimizer are looked at one by one once. From step to step they are asked together whether anything
has changed, and read by one call of the compiled loops.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from trackside.capture.statistics.one_pass import LOOPS, Loops, ReductionCells
from trackside.capture.steps.late_tensors import Row
from trackside.capture.steps.reduced_tensors import FROM_MOMENTS, ReducedLayout
from trackside.capture.steps.step_engine import StepEngine
from trackside.frameworks.pytorch.ground.memory import has_memory, have_rows
from trackside.frameworks.pytorch.saving.copying import is_one
from trackside.frameworks.pytorch.statistics.moments import MomentReader

_MOST_PLANS = 64  # one for each pattern of present gradients
_PLAIN = {torch.Tensor, torch.nn.Parameter}
_FLOAT = {torch.float32}
_NOTHING_TAKEN: frozenset[str] = frozenset()

_gradient_of, _dtype = operator.attrgetter("grad"), operator.attrgetter("dtype")
_count = torch.Tensor.numel

Tensors = Sequence[torch.Tensor]
_Tokens = tuple[str, ...]
_Reduced = tuple[tuple[str, _Tokens], ...]


class _Plan(NamedTuple):
    """The tensors to read among the parameters and gradients of an optimizer.

    - `chosen`: True for each of these that is read: a parameter, its gradient, the next parameter
    - `counts`: number of elements of those
    - `layout`: their reductions; None if no tensor is read
    - `cells`: the same for the compiled loops
    """

    chosen: Sequence[bool]
    counts: list[int]
    layout: ReducedLayout | None
    cells: ReductionCells | None

    def fits(self, tensors: Tensors) -> bool:
        """Return True if the chosen tensors can be read as when the plan was made."""
        if list(map(_count, tensors)) != self.counts or not set(map(_dtype, tensors)) <= _FLOAT:
            return False
        return not tensors or have_rows(tensors, self.counts)


class ReductionSource:
    """A source of reductions for the open step. Off until `start`, because a script may want the tensors themselves.

    Args:
        engine: The engine.
        is_taken: Returns False for the name of a parameter that, with its gradient, is not to be reduced here.
        loops: The compiled loops; None: by NumPy and PyTorch.
    """

    def __init__(
        self, engine: StepEngine, *, is_taken: Callable[[str], bool] = lambda name: True, loops: Loops | None = LOOPS
    ) -> None:
        self._engine, self._is_taken, self._loops = engine, is_taken, loops
        self._is_on = False
        self.leaves_gradients = False  # another source copies them
        self._reader = MomentReader(loops)
        self._plans: dict[tuple[object, ...], _Plan] = {}
        self._layouts: dict[_Reduced, ReducedLayout] = {}
        self._membership: object = None  # which the plans are of

    def start(self) -> None:
        """Begin to take reductions."""
        self._is_on = True

    def add(
        self, names: tuple[str, ...], parameters: Tensors, *, gradient_scale: float | torch.Tensor = 1.0
    ) -> frozenset[str]:
        """Add the reductions that can be computed here, of parameters and of their gradients.

        Gradients with a scale are left out.

        Args:
            names: Names of the parameters.
            parameters: The parameters.
            gradient_scale: What the gradients are still to be divided by.

        Returns:
            The names of the tensors that are taken.
        """
        if not self._is_on or torch._C._len_torch_dispatch_stack():
            return _NOTHING_TAKEN
        takes_gradients = is_one(gradient_scale) and not self.leaves_gradients
        both: list[torch.Tensor | None] = [None] * (2 * len(parameters))
        both[::2] = parameters
        if takes_gradients:
            both[1::2] = map(_gradient_of, parameters)
        plan, tensors = self._planned(names, both)
        if plan.layout is None:
            return _NOTHING_TAKEN
        return self._read(plan.layout, plan.cells, tensors)

    def _planned(self, names: tuple[str, ...], both: Sequence[torch.Tensor | None]) -> tuple[_Plan, list[torch.Tensor]]:
        """Return a plan that fits, and the tensors that it reads."""
        step = self._engine.open_step
        if self._membership is not step.membership:
            self._membership = step.membership
            self._plans.clear()
        if step.has(*names):  # of another optimizer of this step
            plan = self._plan(names, both)
            return plan, _chosen(both, plan)
        key = (names, self._engine.due.collections, tuple(map(type, both)))
        known = self._plans.get(key)
        if known is not None and known.fits(tensors := _chosen(both, known)):
            return known, tensors
        if len(self._plans) == _MOST_PLANS:
            self._plans.clear()
        plan = self._plans[key] = self._plan(names, both)
        return plan, _chosen(both, plan)

    def _plan(self, names: tuple[str, ...], both: Sequence[torch.Tensor | None]) -> _Plan:
        chosen, reduced = list[bool](), list[tuple[str, _Tokens]]()
        has = self._engine.open_step.has
        for parameter_name, pair in zip(names, zip(both[::2], both[1::2], strict=True), strict=True):
            for name, tensor in zip((parameter_name, f"gradient/{parameter_name}"), pair, strict=True):
                is_new = self._is_taken(parameter_name) and not (name == parameter_name and has(name))
                tokens = self._tokens(name) if is_new and tensor is not None and _is_plain(tensor) else ()
                chosen.append(bool(tokens))
                if tokens:
                    reduced.append((name, tokens))
        if not reduced:
            return _Plan(chosen, [], None, None)
        counts = [tensor.numel() for tensor in itertools.compress(both, chosen) if tensor is not None]
        layout = self._layout(tuple(reduced))
        return _Plan(chosen, counts, layout, ReductionCells(counts, layout.cells) if self._loops is not None else None)

    def _layout(self, tensors: _Reduced) -> ReducedLayout:
        """Return the layout of these tensors, the same object from step to step."""
        layout = self._layouts.get(tensors)
        if layout is None:
            if len(self._layouts) == _MOST_PLANS:
                self._layouts.clear()
            layout = self._layouts[tensors] = ReducedLayout(tensors)
        return layout

    def _read(self, layout: ReducedLayout, cells: ReductionCells | None, tensors: Tensors) -> frozenset[str]:
        if self._loops is not None and cells is not None:
            numbers = self._loops.reductions(cells, list(map(torch.Tensor.data_ptr, tensors)))
            if numbers is not None:
                self._engine.open_step.add_reduced(Row(layout, numbers))
                return layout.names
        return self._read_exact(layout, tensors)

    def _read_exact(self, layout: ReducedLayout, tensors: Tensors) -> frozenset[str]:
        """Read the tensors of which single precision can hold the squares."""
        with torch.no_grad():
            moments = self._reader.read(tensors)
        is_exact = moments.is_exact
        if not is_exact.all():
            places = np.flatnonzero(is_exact)
            if not len(places):
                return _NOTHING_TAKEN
            layout, moments = self._layout(tuple([layout.tensors[place] for place in places])), moments.at(places)
        self._engine.open_step.add_reduced(Row(layout, layout.values(moments)))
        return layout.names

    def _tokens(self, name: str) -> _Tokens:
        """Return the saved reductions of it, if all can be computed here and nothing else of it is saved."""
        saved = self._engine.open_step.saved(name)
        if saved is None or saved.is_raw or saved.has_shape or not FROM_MOMENTS.keys() >= {*saved.reductions}:
            return ()
        return saved.reductions


def _chosen(both: Sequence[torch.Tensor | None], plan: _Plan) -> list[torch.Tensor]:
    return list(itertools.compress(both, plan.chosen))  # type: ignore[arg-type] # no absent one is chosen


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
