"""Gradients before the script clipped them, and the norm that clipping returned.

The clipping functions of torch.nn.utils are wrapped: scripts take them out of that module by name, and if a
script was first (a notebook), they are wrapped in the script's modules. A call costs one comparison when raw gradients
are not due. Gradients that nothing clips are raw as the optimizer gets them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import torch
from torch.nn import utils as nn_utils
from torch.nn.utils import clip_grad

from trackside.capture.steps.step_engine import StepEngine
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.modules.source import TrainedModules
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver
from trackside.frameworks.shared.adapter import StepHook
from trackside.frameworks.shared.replaced_methods import ReplacedFunction

KIND = "raw_gradients"
PREFIX = "raw_gradient/"
TOTAL_NORM = "raw_gradient/total_norm"
_CLIPPING = ("clip_grad_norm_", "clip_grads_with_norm_", "clip_grad_value_")


def _places_of(name: str, original: Any) -> list[Any]:
    """Return the modules that hold the function by its name: torch's, and those of scripts that had taken it before."""
    scripts = [module for key, module in list(sys.modules.items()) if not key.startswith("torch.")]
    modules = [module for module in (clip_grad, nn_utils, *scripts) if issubclass(type(module), ModuleType)]
    # Not `module.__dict__`: reading it would load a module that is to be loaded on its first use.
    return [module for module in modules if ModuleType.__getattribute__(module, "__dict__").get(name) is original]


class RawGradients:
    """A source of raw gradients, on the steps that request them."""

    def __init__(
        self,
        engine: StepEngine,
        *,
        saver: TensorSaver,
        modules: TrainedModules,
        protect: Callable[[Callable[..., None]], Callable[..., None]],
        clipped: Callable[[str, Any, Any, Any], None] = lambda *_: None,
    ) -> None:
        self._engine = engine
        self._clips = clipped  # called at every call: the function's name, its arguments after the first, its result
        self._is_clipping = False
        self._saver = saver
        self._modules = modules
        self._see = untraced(protect(self._clipping))
        self._see_norm = untraced(protect(self._clipped))

    def step_hooks(self) -> Iterable[StepHook]:
        """Return the hooks in the clipping functions, wherever they stand as the training begins to be captured."""
        for name in _CLIPPING:
            original = getattr(clip_grad, name, None)  # clip_grads_with_norm_ came with torch 2.6
            places = _places_of(name, original) if original is not None else []
            stand_in = functools.cache(functools.partial(self._stand_in, name))  # one for all places
            for place in places:
                yield ReplacedFunction(place, name, stand_in)

    def add_unclipped(self, name: str, gradient: torch.Tensor, scale: float | torch.Tensor) -> None:
        """Add a gradient that the optimizer is about to use, unless it was seen before clipping."""
        if not self._engine.open_step.has(f"{PREFIX}{name}"):
            self._saver.save(f"{PREFIX}{name}", gradient, collection=KIND, scale=scale)

    def _stand_in(self, name: str, original: Any) -> Any:
        engine, see, see_norm, clips, source = self._engine, self._see, self._see_norm, self._clips, self

        @functools.wraps(original)
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if source._is_clipping:  # one of these functions calls another
                return original(parameters, *args, **kwargs)
            wants_raw = KIND in engine.due.kinds
            if wants_raw:
                if not isinstance(parameters, torch.Tensor):
                    parameters = list(parameters)  # an iterator can be walked once only
                see(parameters)
            source._is_clipping = True
            try:
                result = original(parameters, *args, **kwargs)
            finally:
                source._is_clipping = False
            if wants_raw:
                see_norm(result)
            clips(name, args, kwargs, result)
            return result

        clip.__prepare_scriptable__ = lambda: original  # type: ignore[attr-defined] # torch.jit reads it
        skip_frame(clip)
        return clip

    def _clipping(self, parameters: Any) -> None:
        listed = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        for parameter in listed:
            name = self._modules.parameter_name(parameter)
            if name is None or parameter.grad is None or f"{PREFIX}{name}" in self._engine.open_step.unsettled:
                continue
            self._saver.save(f"{PREFIX}{name}", parameter.grad, collection=KIND)

    def _clipped(self, total_norm: Any) -> None:
        if (
            isinstance(total_norm, torch.Tensor)
            and total_norm.numel() == 1
            and not self._engine.open_step.has(TOTAL_NORM)
        ):
            self._saver.save(TOTAL_NORM, total_norm, collection=KIND)
