"""Units that are dead: their gradients, and those of the layers behind. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trackside.contracts.model_facts import ModelFacts
from trackside.situation.constants import (
    A_HANDFUL,
    CUT_OFF,
    ENOUGH_FOR_A_SHARE,
    HALF_LEARNED,
    LEARNS,
    LONG_STEPS,
    MOST,
    NEARLY_ALL,
    WELL_ON_ITS_WAY,
)
from trackside.trial.window import Column, Window

_WITHOUT_ZEROS = ("tanh", "sigmoid", "gelu", "silu", "leaky_relu", "softmax", "log_softmax", "other")


def dying(shares: Mapping[str, float], *, threshold_layer: float) -> tuple[str, ...]:
    """Return the layers with more than `threshold_layer` percent dead units, the deadest first.

    `shares`: the share of units without a gradient, by layer. () if no layer is alive: then the model has nothing to
    learn at the moment.
    """
    if not shares or min(shares.values()) > threshold_layer / 100:
        return ()
    found = [name for name, share in shares.items() if share > threshold_layer / 100]
    return tuple(sorted(found, key=lambda name: (-shares[name], name)))


def zero_inputs(*, weights: float, bias: float) -> float:
    """Return the share of a layer's inputs that are always zero, from the zeros in its parameters' gradients.

    Units without any gradient count in both shares; a unit with one has it from the inputs that are not zero. 0 if
    nearly all units have none: then the share is unknown.
    """
    return 1 - (1 - weights) / (1 - bias) if bias <= NEARLY_ALL else 0.0


def can_be_lived_with(learned: float, zeros: float | None, step: int, *, dead: float, died: bool) -> bool:
    """Return True if a model that lost `learned` of its first loss does without the dead units, or may recover them.

    zeros  share of its gradients (by tensors) that are all zeros, if known
    dead   share of the layer's units that are dead
    died   True if they died in training, not before
    """
    if died:
        return learned > HALF_LEARNED and dead < NEARLY_ALL
    gets_through = zeros is None or zeros < MOST
    if step < LONG_STEPS:
        return learned > 0 and (gets_through or learned > LEARNS)
    return (learned > HALF_LEARNED and dead < CUT_OFF) or (
        learned > WELL_ON_ITS_WAY and zeros is not None and gets_through
    )


def biases_of(window: Window, facts: ModelFacts | None) -> list[Column]:
    """Return the zero share of the gradients of biases that were measured often enough."""
    return [
        column
        for name in _names_of_biases(window, facts)
        for column in window.statistic(name, "zero_share", mode=None)
        if len(column.values) >= A_HANDFUL
    ]


def zero_shares(window: Window, facts: ModelFacts | None) -> Mapping[str, float]:
    """Return the smallest of the newest shares of each column of `biases_of`, by tensor. The last worker counts."""
    names = _names_of_biases(window, facts)
    found: dict[str, tuple[str, float]] = {}
    for panel in window.newest(names, "zero_share", last=A_HANDFUL, mode=None):
        if panel.count < A_HANDFUL:
            continue
        for tensor, worker, share in zip(panel.tensors, panel.workers, panel.newest.min(axis=1).tolist(), strict=True):
            if tensor not in found or worker > found[tensor][0]:
                found[tensor] = worker, share
    return {name: found[name][1] for name in names if name in found}


def _names_of_biases(window: Window, facts: ModelFacts | None) -> tuple[str, ...]:
    names = [
        name for name in window.tensors("gradients") if name.endswith(("bias", "bias:0"))
    ]  # of Keras: `dense/bias:0`
    return tuple([name for name in names if not _is_of_embedding(facts, name)])


def reaches_weights(window: Window, bias: str, share: float) -> bool:
    """Return True if the layer's weights have as few gradients as its bias, or unknown ones."""
    columns = window.statistic(f"{bias.removesuffix('bias')}weight", "zero_share", mode=None)
    return all(float(column.values[-A_HANDFUL:].min()) >= NEARLY_ALL * share for column in columns)


def zeros_of_readers(window: Window, shares: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return (bias, share of zeros in the weights' gradient) of each layer but the first.

    A layer without a bias takes the next one: that of the normalisation behind it. Rows of an embedding that no
    sample used do not count as zeros.
    """
    facts = window.facts
    names = [held.gradient for held in facts.parameters] if facts else list(window.tensors("gradients"))
    names = [n for n in names if n in shares or (n.endswith("weight") and not _is_of_embedding(facts, n))]
    weights = [(place, name) for place, name in enumerate(names) if name not in shares]
    found = []
    for place, weight in weights[1:]:
        own = f"{weight.removesuffix('weight')}bias"
        bias = own if own in shares else next((name for name in names[place:] if name in shares), None)
        if bias is not None:
            columns = window.statistic(weight, "zero_share", mode=None)
            found += [(bias, float(column.values[-A_HANDFUL:].min())) for column in columns]
    return found


def is_normalised(facts: ModelFacts | None, bias: str) -> bool:
    """Return True if a ReLU and then a normalisation follow the layer, as modules were built."""
    own = facts.module_of(bias) if facts else None
    if facts is None or own is None:
        return False
    place = facts.modules.index(own)
    return [module.role for module in facts.modules[place + 1 : place + 3]] == ["activation", "normalization"]


def _is_of_embedding(facts: ModelFacts | None, name: str) -> bool:
    module = facts.module_of(name) if facts else None
    return module is not None and module.role in {"embedding", "attention"}


def has_no_relu(facts: ModelFacts) -> bool:
    """Return True if all activations are known, and none of them puts out zeros."""
    kinds = {module.activation for module in facts.modules if module.activation}
    return bool(kinds) and kinds.issubset(_WITHOUT_ZEROS)


def has_small_batches(facts: ModelFacts) -> bool:
    sizes = [int(np.prod(loss.input_shape[:-1])) for loss in facts.losses if len(loss.input_shape) > 1]
    return bool(sizes) and max(sizes) < ENOUGH_FOR_A_SHARE
