"""The purpose of a layer, by its class, and the family of its activation."""

from __future__ import annotations

from typing import Any

import keras

# Roles of `contracts/model_facts.py`, by the beginning or the end of a class's name.
_BY_NAME = {
    "Dense": "linear",
    "EinsumDense": "linear",
    "Embedding": "embedding",
    "LSTM": "recurrent",
    "GRU": "recurrent",
    "SimpleRNN": "recurrent",
    "RNN": "recurrent",
    "Bidirectional": "recurrent",
    "Activation": "activation",
    "ReLU": "activation",
    "LeakyReLU": "activation",
    "PReLU": "activation",
    "ELU": "activation",
    "Softmax": "activation",
}
_BY_PART = {
    "Normalization": "normalization",
    "Dropout": "dropout",
    "Conv": "convolution",
    "Pooling": "pooling",
    "Attention": "attention",
}
_FAMILIES = {
    "relu": "relu",
    "leaky_relu": "leaky_relu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "softmax": "softmax",
    "log_softmax": "log_softmax",
    "gelu": "gelu",
    "silu": "silu",
    "linear": "",
}
_LAYER_FAMILIES = {"ReLU": "relu", "LeakyReLU": "leaky_relu", "Softmax": "softmax", "PReLU": "other", "ELU": "other"}


def role_of(layer: Any) -> str:
    """Return one of the roles of `contracts/model_facts.py`, or ""."""
    if isinstance(layer, keras.Model):
        return "container"
    name = next((kind.__name__ for kind in type(layer).__mro__ if kind.__module__.startswith("keras.")), "")
    return _BY_NAME.get(name) or next((role for part, role in _BY_PART.items() if part in name), "")


def family_of(layer: Any) -> str:
    """Return the family of the activation that a layer ends with; "" without one.

    That within a recurrent layer is none.
    """
    if role_of(layer) == "recurrent":
        return ""
    if type(layer).__name__ in _LAYER_FAMILIES:
        return _LAYER_FAMILIES[type(layer).__name__]
    function = getattr(layer, "activation", None)
    return "" if function is None else _FAMILIES.get(getattr(function, "__name__", ""), "other")


def collections_of(layer: Any, side: str) -> frozenset[str]:
    """Return the collections of a layer's "inputs" or "outputs": a layer with an activation ends with that."""
    family, found = family_of(layer), {side}
    if side == "outputs" and family:
        found |= {"activations", *(("relu_outputs",) if family == "relu" else ())}
    elif side == "inputs" and family and role_of(layer) == "activation":  # of others, its input is not shown
        found |= {"activation_inputs", *(("saturating_inputs",) if family in ("tanh", "sigmoid") else ())}
    return frozenset(found)


def leaves(model: Any) -> list[Any]:
    """Return the layers of a model and of the models in it, in their order; the model itself comes first."""
    found = [model]
    for layer in model.layers:
        found += leaves(layer) if isinstance(layer, keras.Model) else [layer]
    return found
