"""Mistakes in initialisation, activations, normalisation and modes, and in freezing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional, init

from benchmarks.mutants.operator import operator
from benchmarks.mutants.seams import Seams
from trackside.contracts.cause import Cause

INIT = "the functions of torch.nn.init that draw"
NO_INIT = "weights from a file, `torch.randn`, and `tensor.normal_` called by a model itself"
DRAWS = (
    "kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "xavier_normal_", "uniform_", "normal_",
    "trunc_normal_", "orthogonal_",
)  # fmt: skip
HIDDEN_ACTIVATIONS = ("relu", "gelu", "silu", "leaky_relu", "elu", "selu", "relu6", "mish")
HIDDEN = "the activations of torch.nn.functional, which the modules call"
NO_HIDDEN = "models without them, and `Tensor.relu`"
MODE = "`Module.train`, which `Module.eval` calls, once an optimizer exists"


def _drawn(seams: Seams, change: Callable[[Tensor], object]) -> None:
    """Change matrices after they were drawn; the random numbers are used up as before."""

    def draw(original: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        found = original(tensor, *args, **kwargs)
        if tensor.dim() > 1:
            seams.touch()
            with torch.no_grad():
                change(tensor)
        return found

    for name in DRAWS:
        seams.wrap(init, name, draw)


@operator("initialisation", Cause.SYMMETRIC_INITIALIZATION, Cause.BAD_INITIALIZATION, seam=INIT, unreached=NO_INIT)
def weights_zero(seams: Seams) -> None:
    """All weight matrices begin with zeros."""
    _drawn(seams, lambda tensor: tensor.zero_())


@operator("initialisation", Cause.SYMMETRIC_INITIALIZATION, Cause.BAD_INITIALIZATION, seam=INIT, unreached=NO_INIT)
def weights_constant(seams: Seams) -> None:
    """All weight matrices begin with 0.1 in each place."""
    _drawn(seams, lambda tensor: tensor.fill_(0.1))


@operator("initialisation", Cause.BAD_INITIALIZATION, Cause.EXPLODING_GRADIENTS, seam=INIT, unreached=NO_INIT)
def weights_10_times_too_large(seams: Seams) -> None:
    """All weight matrices begin ten times too large."""
    _drawn(seams, lambda tensor: tensor.mul_(10))


@operator("initialisation", Cause.BAD_INITIALIZATION, Cause.VANISHING_GRADIENTS, seam=INIT, unreached=NO_INIT)
def weights_100_times_too_small(seams: Seams) -> None:
    """All weight matrices begin a hundred times too small."""
    _drawn(seams, lambda tensor: tensor.mul_(0.01))


def _activated(seams: Seams, change: Callable[[Tensor], Tensor]) -> None:
    def activate(_original: Any, values: Tensor, *_args: Any, **_kwargs: Any) -> Tensor:
        seams.touch()
        return change(values)

    for name in HIDDEN_ACTIVATIONS:
        seams.wrap(functional, name, activate)
    seams.wrap(torch, "relu", activate)


@operator("activations", seam=HIDDEN, unreached=NO_HIDDEN)
def activations_removed(seams: Seams) -> None:
    """Hidden activations are left out, so that the network is linear."""
    _activated(seams, lambda values: values)


@operator("activations", Cause.VANISHING_GRADIENTS, Cause.SATURATED_UNITS, seam=HIDDEN, unreached=NO_HIDDEN)
def activations_sigmoid(seams: Seams) -> None:
    """Hidden activations are sigmoids where they were of ReLU's kind."""
    _activated(seams, torch.sigmoid)


@operator("activations", Cause.DEAD_UNITS, Cause.BAD_INITIALIZATION, seam=HIDDEN, unreached=NO_HIDDEN)
def activations_dead(seams: Seams) -> None:
    """Hidden units begin far below zero and put out nothing, as with biases of -5."""
    _activated(seams, lambda values: (values - 5).clamp(min=0))


@operator("activations", Cause.SATURATED_UNITS, Cause.VANISHING_GRADIENTS, seam=HIDDEN, unreached=NO_HIDDEN)
def activations_saturated(seams: Seams) -> None:
    """Hidden units sit at the flat ends of a steep tanh."""
    _activated(seams, lambda values: torch.tanh(50 * values))


@operator(
    "activations",
    Cause.DEAD_UNITS,
    Cause.WRONG_LOSS,
    seam="the output of the outermost module (`Module.__call__`)",
    unreached="models with more than one tensor as output",
)
def output_activated(seams: Seams) -> None:
    """The last layer ends in a ReLU."""
    seams.at_calls(outputs=lambda _, values: values.clamp(min=0))


@operator("activations", seam="`Linear.forward`: `bias`", unreached="other layers; seldom harmful")
def biases_removed(seams: Seams) -> None:
    """Linear layers have no bias."""

    def forward(_original: Any, layer: nn.Linear, values: Tensor) -> Tensor:
        seams.touch()
        return functional.linear(values, layer.weight)

    seams.wrap(nn.Linear, "forward", forward)


@operator("activations", seam="`layer_norm` and `batch_norm` of torch.nn.functional", unreached="models without them")
def normalisation_removed(seams: Seams) -> None:
    """Normalisation layers hand on their input."""

    def hand_on(_original: Any, values: Tensor, *_args: Any, **_kwargs: Any) -> Tensor:
        seams.touch()
        return values

    for name in ("layer_norm", "batch_norm"):
        seams.wrap(functional, name, hand_on)


@operator("modes", Cause.TRAIN_EVAL_MODE, seam=MODE, unreached="models without dropout and batch normalisation")
def trained_in_evaluation_mode(seams: Seams) -> None:
    """A model trains in evaluation mode."""

    def switch(original: Any, module: nn.Module, _mode: bool = True) -> Any:
        seams.touch()
        return original(module, False)

    seams.when_first_built(lambda: seams.wrap(nn.Module, "train", switch))


@operator(
    "modes",
    Cause.TRAIN_EVAL_MODE,
    Cause.RANDOM_EVALUATION,
    seam=MODE,
    unreached="models without dropout and batch normalisation",
)
def evaluated_in_training_mode(seams: Seams) -> None:
    """A model is evaluated in training mode."""

    def switch(original: Any, module: nn.Module, _mode: bool = True) -> Any:
        seams.touch()
        return original(module, True)

    seams.when_first_built(lambda: seams.wrap(nn.Module, "train", switch))


@operator(
    "modes",
    Cause.RANDOM_EVALUATION,
    Cause.TRAIN_EVAL_MODE,
    seam="`forward` of the dropout modules",
    unreached="models without dropout, or with dropout as a function",
    is_silent=True,
)
def dropout_always_on(seams: Seams) -> None:
    """Dropout is live in evaluation too (transformers-33844)."""

    def always(kind: type, function: Any) -> None:
        # Above the function, where a model makes this mistake: capture looks at the function's arguments.
        def forward(_original: Any, layer: Any, values: Tensor) -> Any:
            if not layer.training and layer.p > 0:
                seams.touch()
            return function(values, layer.p, training=True)

        seams.wrap(kind, "forward", forward)

    for kind, name in ((nn.Dropout, "dropout"), (nn.Dropout1d, "dropout1d"), (nn.Dropout2d, "dropout2d")):
        always(kind, getattr(functional, name))


@operator("modes", seam="`dropout` of torch.nn.functional", unreached="models without dropout")
def dropout_too_strong(seams: Seams) -> None:
    """Dropout drops 19 of 20 values."""

    def drop(original: Any, values: Tensor, p: float = 0.5, **kwargs: Any) -> Any:
        if p > 0:
            seams.touch()
        return original(values, 0.95 if p > 0 else p, **kwargs)

    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d"):
        seams.wrap(functional, name, drop)


@operator(
    "freezing",
    Cause.FROZEN_PARAMETERS,
    seam="`Optimizer.__init__`: `requires_grad` of the parameters that it is given",
    unreached="programs that set it again later",
)
def layers_frozen(seams: Seams) -> None:
    """The first half of each group's parameters is frozen by a forgotten flag."""

    def freeze(groups: list[dict[str, Any]], _defaults: dict[str, Any]) -> None:
        for group in groups:
            for each in group["params"][: len(group["params"]) // 2]:
                each.requires_grad_(False)

    seams.at_building(freeze)


@operator(
    "freezing",
    Cause.FROZEN_PARAMETERS,
    seam="the output of an inner layer with parameters (`Module.__call__`)",
    unreached="models with one layer, and layers that are not modules",
)
def layers_detached(seams: Seams) -> None:
    """The output of the middle layer is detached, so that no gradient reaches the layers before."""
    chosen: dict[int, nn.Module | None] = {}
    depth = 0

    def middle(model: nn.Module) -> nn.Module | None:
        leaves = [
            each
            for each in model.modules()
            if next(each.children(), None) is None and next(each.parameters(), None) is not None
        ]
        return leaves[(len(leaves) - 1) // 2] if len(leaves) > 1 else None

    def call(original: Any, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if not depth and next(module.parameters(), None) is not None and id(module) not in chosen:
            chosen[id(module)] = middle(module)
        depth += 1
        try:
            found = original(module, *args, **kwargs)
        finally:
            depth -= 1
        if isinstance(found, Tensor) and any(module is each for each in chosen.values()):
            seams.touch()
            return found.detach()
        return found

    seams.wrap(nn.Module, "__call__", call)
