"""The changes that a script makes to gradients between its backward pass and its optimizer's step.

Calls of the clipping functions of torch.nn.utils are observed with their arguments, to be repeated in a replay. The
gradients that the optimizer got are kept, so that a replay can be held against them: a script may change gradients in
ways that no call shows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import utils as nn_utils
from torch.nn.utils import clip_grad
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from trackside.capture.ground.script_lines import script_path, shown, user_place
from trackside.frameworks.pytorch.compiling.tracing import skip_frame
from trackside.frameworks.pytorch.ground.memory import has_memory

_CLIPPING = ("clip_grad_norm_", "clip_grads_with_norm_", "clip_grad_value_")
_BY_VALUE = "clip_grad_value_"
_AT_LIMIT = 1 - 1e-4  # of the limit: a narrow type rounds it
_OF_A_KNOWN_NORM = "clip_grads_with_norm_"  # its second argument after the parameters is the norm of that step

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Clipping:
    """One call of a clipping function.

    function      its name
    call          the function itself
    parameters    the parameters that it was given
    arguments     (args, kwargs) after the parameters
    iterator      the kind of iterator that it was given for them; "" for a list, which can be read again
    place         the line of the script
    has_gradients  True if any of the parameters had a gradient other than zero
    is_early      True if a backward pass came between it and the step
    """

    function: str
    call: Callable[..., Any]
    parameters: Tensors
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    iterator: str
    place: str
    has_gradients: bool
    is_early: bool = False

    @property
    def limit(self) -> float:
        """The largest norm or value that it leaves."""
        args, kwargs = self.arguments
        return float(args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value", float("nan"))))

    def repeat(self, parameters: Tensors) -> None:
        """Clip the gradients of these parameters in the same way."""
        args, kwargs = self.arguments
        if self.function == _OF_A_KNOWN_NORM:
            gradients = [p.grad for p in parameters if p.grad is not None]
            limit = args[0] if args else kwargs["max_norm"]
            self.call(list(parameters), limit, torch.linalg.vector_norm(torch.stack([g.norm() for g in gradients])))
        else:
            self.call(list(parameters), *args, **kwargs)


@dataclass(frozen=True)
class GradientChanges:
    """The changes before one step of an optimizer.

    clippings      the calls since the step before, in their order
    arrived        parameters, and the norm of their gradients at the first of these calls or, without any, at the step
    final          each parameter with the gradient that the optimizer got
    is_observable  False if the optimizer computes or scales gradients within its step
    is_warming_up  True if the learning rate is higher than at the first step
    moved          ids of the parameters that had a gradient other than zero at any step so far
    """

    clippings: tuple[Clipping, ...] = ()
    arrived: tuple[Tensors, float] = ((), 0.0)
    final: tuple[tuple[torch.Tensor, torch.Tensor], ...] = ()
    is_observable: bool = False
    is_warming_up: bool = False
    moved: frozenset[int] = frozenset()

    @property
    def is_without_effect(self) -> bool:
        """True if the script clips, and no call reached a gradient of this step."""
        trained = {id(parameter) for parameter, gradient in self.final if bool(gradient.any())}
        reached = [
            clipping
            for clipping in self.clippings
            if clipping.has_gradients and not clipping.is_early and trained & {id(p) for p in clipping.parameters}
        ]
        return bool(self.clippings and trained) and not reached

    @property
    def share_cut(self) -> float:
        """The share of the elements, without zeros, that stand at the limit of a clipping by value."""
        by_value = [clipping for clipping in self.clippings if clipping.function == _BY_VALUE]
        if not by_value:
            return 0.0
        elements = torch.cat([gradient.detach().abs().reshape(-1).cpu() for _, gradient in self.final])
        counted = elements[elements > 0]
        return float((counted >= by_value[-1].limit * _AT_LIMIT).float().mean()) if counted.numel() else 0.0

    def repeat(self, parameters: Tensors, *, scale: float = 1.0) -> None:
        """Change the gradients of a replay as the script does, or as it means to where its clipping has no effect.

        Args:
            parameters: The parameters of the optimizer.
            scale: Factor before the first clipping.
        """
        if scale != 1.0:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(scale)
        is_meant_for_all = self.is_without_effect
        for clipping in self.clippings:
            clipping.repeat(parameters if is_meant_for_all else clipping.parameters)


class GradientWatch:
    """Observes the changes before the newest step of each optimizer.

    Args:
        protect: Wraps a function so that its failure ends no training.
    """

    def __init__(self, protect: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
        self.changes: dict[int, GradientChanges] = {}
        self._first_rates: dict[int, float] = {}
        self._moved: set[int] = set()
        self._see_clipping = protect("recording a clipping", self._clipping)
        self._see_step = protect("recording gradients", self._step)
        self._clippings: list[Clipping] = []
        self._arrived: tuple[Tensors, float] | None = None
        self._is_clipping = False
        self._undo: list[Callable[[], object]] = []

    def install(self) -> None:
        """Begin to observe."""
        for name in _CLIPPING:
            original = getattr(clip_grad, name, None)  # clip_grads_with_norm_ came with torch 2.6
            if original is not None:
                self._undo += list(self._wrap(name, original))
        self._undo.append(register_optimizer_step_pre_hook(self._see_step).remove)

    def remove(self) -> None:
        """Leave PyTorch as it was."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []

    def backward_began(self) -> None:
        """Note that gradients come which no clipping so far has seen."""
        self._clippings = [replace(each, is_early=True) for each in self._clippings]
        self._arrived = None

    def _wrap(self, name: str, original: Any) -> Iterator[Callable[[], object]]:
        watch, see = self, self._see_clipping

        @functools.wraps(original)
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if watch._is_clipping:  # one of these functions calls another
                return original(parameters, *args, **kwargs)
            kind = type(parameters).__name__ if isinstance(parameters, Iterator) else ""
            listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            see(name, original, tuple(listed), (args, kwargs), kind)
            watch._is_clipping = True
            try:
                return original(listed, *args, **kwargs)
            finally:
                watch._is_clipping = False

        skip_frame(clip)
        for module in (clip_grad, nn_utils):
            if getattr(module, name, None) is original:
                setattr(module, name, clip)
                yield functools.partial(_put_back, module, name, clip, original)

    def _clipping(self, name: str, original: Any, parameters: Tensors, arguments: Any, iterator: str) -> None:
        if self._arrived is None:
            self._arrived = (parameters, norm_of(parameters))
        has_gradients = any(bool(p.grad.any()) for p in _with_gradient(parameters) if p.grad is not None)
        place = shown(user_place(), script_path())
        self._clippings.append(Clipping(name, original, parameters, arguments, iterator, place, has_gradients))

    def _step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        held = _with_gradient(p for group in optimizer.param_groups for p in group["params"])
        has_closure = any(callable(each) for each in (*args, *kwargs.values()))
        is_scaled = getattr(optimizer, "grad_scale", None) is not None
        self._moved |= {id(p) for p in held if id(p) not in self._moved and p.grad is not None and bool(p.grad.any())}
        rate = max((float(group["lr"]) for group in optimizer.param_groups if "lr" in group), default=0.0)
        self.changes[id(optimizer)] = GradientChanges(
            tuple(self._clippings),
            self._arrived or (held, norm_of(held)),
            tuple((p, p.grad.detach().clone()) for p in held if p.grad is not None),
            moved=frozenset(self._moved),
            is_warming_up=rate > self._first_rates.setdefault(id(optimizer), rate),
            is_observable=not has_closure
            and not is_scaled
            and not any(p.grad.is_sparse for p in held if p.grad is not None),
        )
        self._clippings, self._arrived = [], None


def norm_of(parameters: Tensors) -> float:
    """Return the norm of all gradients of these parameters together."""
    held = _with_gradient(parameters)
    squares = [float(p.grad.detach().double().norm()) ** 2 for p in held if p.grad is not None]
    return float(sum(squares) ** 0.5)


def _with_gradient(parameters: Iterable[torch.Tensor]) -> Tensors:
    """Return the parameters that have a gradient in memory."""
    return tuple(p for p in parameters if p.grad is not None and has_memory(p.grad))


def _put_back(module: Any, name: str, ours: Any, original: Any) -> None:
    if getattr(module, name, None) is ours:
        setattr(module, name, original)
