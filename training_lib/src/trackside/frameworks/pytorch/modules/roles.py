"""The role of a module, as far as its class shows it, so that rules can request activations by role instead of name."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from trackside.frameworks.pytorch.losses.description import is_loss_like


class Role(NamedTuple):
    """The role of a module: one of `contracts.model_facts.ROLES`, and for an activation one of `ACTIVATIONS`."""

    role: str = ""
    activation: str = ""


# The collections of what modules of a role take and give: a subset of `inputs` and `outputs`.
INPUT_COLLECTIONS = frozenset({"activation_inputs", "saturating_inputs", "model_inputs"})
OUTPUT_COLLECTIONS = frozenset({"activations", "relu_outputs"})
ROLE_COLLECTIONS = INPUT_COLLECTIONS | OUTPUT_COLLECTIONS

_ACTIVATION_OF_CLASS: Mapping[str, str] = {
    "ReLU": "relu", "ReLU6": "relu", "Threshold": "relu", "Hardshrink": "other", "Softshrink": "other",
    "LeakyReLU": "leaky_relu", "PReLU": "leaky_relu", "RReLU": "leaky_relu", "ELU": "leaky_relu", "CELU": "leaky_relu",
    "SELU": "leaky_relu", "GELU": "gelu", "SiLU": "silu", "Mish": "silu", "Hardswish": "silu", "Tanh": "tanh",
    "Hardtanh": "tanh", "Softsign": "tanh", "Sigmoid": "sigmoid", "Hardsigmoid": "sigmoid", "LogSigmoid": "sigmoid",
    "Softmax": "softmax", "Softmax2d": "softmax", "Softmin": "softmax", "LogSoftmax": "log_softmax",
    "AdaptiveLogSoftmaxWithLoss": "", "Softplus": "other", "GLU": "other", "Tanhshrink": "other",
}  # fmt: skip
# What torch has not: classes of other libraries and of users, by the beginning of their names.
_NAMED_ACTIVATION = re.compile(
    r"(?P<leaky_relu>LeakyReLU|PReLU|ELU|SELU)|(?P<relu>ReLU)|(?P<gelu>(New|Fast|Quick|Accurate|Clipped)*GELU)"
    r"|(?P<silu>SiLU|Swish|Mish|HSwish)|(?P<tanh>Tanh)|(?P<sigmoid>Sigmoid|HSigmoid)|(?P<softmax>Softmax)"
)
_NAMED_NORMALIZATION = re.compile(r"(Batch|Layer|Group|Instance|RMS)Norm\w*\Z|Norm\Z|Norm[123]d\Z")
_ROLE_OF_MODULE: Mapping[str, str] = {
    "batchnorm": "normalization", "instancenorm": "normalization", "normalization": "normalization",
    "dropout": "dropout", "sparse": "embedding", "conv": "convolution", "linear": "linear", "rnn": "recurrent",
    "pooling": "pooling", "container": "container", "loss": "loss",
}  # fmt: skip
_NOT_THAT = {"Identity", "Module"}


def role_of(module: nn.Module) -> Role:
    """Return the role of a module."""
    kind: type = type(module)
    role = _role_of_class(kind)
    if role is not None:
        return role
    return Role("loss") if is_loss_like(module) else Role()


@functools.lru_cache(maxsize=4096)
def _role_of_class(kind: type) -> Role | None:
    """Return the role by the torch.nn class that it is or comes from, else by its name.

    A class that only contains layers has none.
    """
    for base in kind.__mro__:
        library, _, file = base.__module__.rpartition(".")
        if library not in {"torch.nn.modules", "torch.nn.quantized.modules", "torch.ao.nn.quantizable.modules"}:
            continue
        if base.__name__ in _NOT_THAT:
            continue
        if base.__name__ == "MultiheadAttention":
            return Role("attention")
        if file == "activation":
            activation = _ACTIVATION_OF_CLASS.get(base.__name__, "other")
            return Role("activation", activation) if activation else Role("loss")
        if file == "container" and base is not kind:  # a network that is a Sequential by inheritance
            break
        return Role(_ROLE_OF_MODULE.get(file, ""))
    return _by_name(kind.__name__)


def _by_name(name: str) -> Role | None:
    match = _NAMED_ACTIVATION.match(name)
    if match is not None and "Loss" not in name and (match.end() == len(name) or name[match.end() :] == "Activation"):
        return Role("activation", str(match.lastgroup))
    if _NAMED_NORMALIZATION.search(name):
        return Role("normalization")
    if name.endswith("Attention"):
        return Role("attention")
    return None


@functools.lru_cache(maxsize=64)
def collections_of_inputs(role: Role, *, is_root: bool = False) -> frozenset[str]:
    """Return the collections of the inputs of a module of that role."""
    found = {"inputs"}
    if is_root:
        found.add("model_inputs")
    if role.role == "activation":
        found.add("activation_inputs")
    if role.activation in {"tanh", "sigmoid"}:
        found.add("saturating_inputs")
    return frozenset(found)


@functools.lru_cache(maxsize=64)
def collections_of_outputs(role: Role) -> frozenset[str]:
    """Return the collections of the outputs of a module of that role."""
    found = {"outputs"}
    if role.role == "activation":
        found.add("activations")
    if role.activation == "relu":
        found.add("relu_outputs")
    return frozenset(found)


def widths(module: nn.Module) -> tuple[int | None, int | None]:
    """Return the number of input and of output features, from the module's own attributes."""
    for names in (
        ("in_features", "out_features"),
        ("in_channels", "out_channels"),
        ("num_embeddings", "embedding_dim"),
        ("input_size", "hidden_size"),
        ("num_features", "num_features"),
        ("embed_dim", "embed_dim"),
    ):
        found = [_whole(module.__dict__.get(name)) for name in names]
        if None not in found:
            return found[0], found[1]
    return None, None


def _whole(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, (bool, torch.SymInt)) and value >= 0
    return int(value) if is_count else None
