"""Dropout that is live while a model in eval mode is evaluated.

`eval()` reaches the modules of a model, and no function: `F.dropout(x)` and `scaled_dot_product_attention` with a
`dropout_p` drop in every mode unless they are given the mode, and so does a module in a plain list of the model. Calls
of these functions are observed during the first evaluations, and then no longer.

It is none where a registered dropout of the model was put into training mode, or where the same input is evaluated
twice in a row: both are Monte-Carlo dropout.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from trackside.capture.ground.script_lines import Place, user_place
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import modules_of
from trackside.frameworks.pytorch.ground.structures import flatten, is_no_computation
from trackside.frameworks.pytorch.losses.calls import FunctionCalls

ENOUGH = 3  # calls with a live dropout
MOST_CALLS = 12  # of models in evaluations without any
DROPOUTS = ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")
_ATTENTION = "scaled_dot_product_attention"
_ATTENTION_PROBABILITY = 4  # place among its arguments


class RandomEvaluation:
    """A counter of evaluations with a live dropout.

    Attributes:
        count: Their number, at most `ENOUGH`.
        place: Line of the script on the way to the dropout; None if unknown.
        is_looking: True while calls must be reported.

    Args:
        counted: Called after each new one.
        is_compiler_used: Returns True once the script uses torch.compile: then functions are left alone.
        fuse: Keeps errors of ours from the script.
    """

    def __init__(self, *, counted: Callable[[], None], is_compiler_used: Callable[[], bool], fuse: Fuse) -> None:
        self.count = 0
        self.place: Place | None = None
        self.is_looking = True
        self._counted, self._is_compiler_used = counted, is_compiler_used
        self._calls = 0
        self._is_open = self._is_live = self._is_odd = False
        self._input: object = None
        self._live_at: Place | None = None
        fuse.when_blown = self.stand_down
        self._seen = untraced(fuse.protect(self._dropout_called))
        self._functions = FunctionCalls({name: name for name in DROPOUTS}, self._seen)
        self._attention = _AttentionCalls(self._seen)

    def switch(self, *, on: bool) -> None:
        """Start to observe calls of dropout functions, or stop. Call it as an evaluation begins and ends."""
        on = on and self.is_looking and not self._is_compiler_used()
        self._functions.switch(on=on)
        self._attention.switch(on=on)
        self._input = None

    def stand_down(self) -> None:
        """Stop for good."""
        self.is_looking = self._is_open = False
        self.switch(on=False)

    def call_begins(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        """Handle the call of a model in eval mode."""
        if not self.is_looking:
            return
        found = _identity(next(flatten(args, kwargs), None))
        is_again = found is not None and found == self._input
        self._is_odd |= is_again or any(_is_training_dropout(module) for module in modules_of(model))
        self._input = found
        self._is_open, self._is_live = True, False

    def call_dropped(self) -> None:
        """Note that the newest call was no evaluation."""
        self._is_open = False

    def call_ends(self) -> None:
        """Handle the end of what belongs to the call."""
        if not self._is_open or not self.is_looking:
            return
        self._is_open = False
        self._calls += 1
        if self._is_odd:
            self.count = 0
        elif self._is_live:
            self.count += 1
            self.place = self._live_at
        if self._is_odd or self.count >= ENOUGH or (self._calls >= MOST_CALLS and not self.count):
            self.stand_down()
        if self._is_live:
            self._counted()

    def _dropout_called(self, name: str, args: Any, kwargs: Any, _result: Any) -> None:
        if not self._is_open or self._is_live or is_no_computation():
            return
        if name == _ATTENTION:
            probability = kwargs.get("dropout_p", args[_ATTENTION_PROBABILITY] if len(args) > 4 else 0.0)
            self._is_live = bool(probability > 0)
        else:
            probability = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
            self._is_live = bool(kwargs.get("training", args[2] if len(args) > 2 else True)) and bool(probability > 0)
        if self._is_live:
            self._live_at = user_place()


class _AttentionCalls:
    """A switch that replaces `scaled_dot_product_attention`, which has no code of its own to exchange."""

    def __init__(self, seen: Callable[..., None]) -> None:
        self._original: Any = getattr(functional, _ATTENTION, None)
        original: Any = self._original

        def stand_in(*args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                seen(_ATTENTION, args, kwargs, None)
            return original(*args, **kwargs)

        self._stand_in = stand_in
        if original is not None:
            functools.update_wrapper(stand_in, original)
            skip_frame(stand_in)

    def switch(self, *, on: bool) -> None:
        """Start to observe calls, or stop. Another library's replacement stays."""
        if self._original is None:
            return
        before, after = (self._original, self._stand_in) if on else (self._stand_in, self._original)
        if getattr(functional, _ATTENTION, None) is before:
            setattr(functional, _ATTENTION, after)


def _is_training_dropout(module: nn.Module) -> bool:
    return module.training and isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0


def _identity(tensor: torch.Tensor | None) -> object:
    """Return a value that differs for tensors with other contents, as far as that can be known without reading them."""
    if tensor is None or tensor.layout != torch.strided or not has_memory(tensor):
        return None
    return tensor.data_ptr(), tuple(tensor.shape), tensor._version
