"""The names and collections of saved tensors: Trackside's own, and those of smdebug's hook for TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import keras

from trackside.adapters.keras.layers import collections_of

_BIASES = frozenset({"bias", "beta"})
_EMPTY: frozenset[str] = frozenset()


def path_of(variable: Any) -> tuple[str, str]:
    """Return the layer and the name of a variable: ("dense", "kernel")."""
    path = str(variable.path).split("/")
    return (path[-2] if len(path) > 1 else path[0]), path[-1]


def weight_name(variable: Any) -> str:
    """Return the name of a variable as smdebug's hook had it: `dense/weights/dense/kernel:0`.

    A bias is `dense/biases/dense/bias:0`: rules about weights must not judge it.
    """
    layer, leaf = path_of(variable)
    kind = "biases" if leaf in _BIASES else "weights"
    return f"{layer}/{kind}/{layer}/{leaf}:0"


class Names:
    """Trackside's own names.

    Attributes:
        parts: The collections of inputs (`x`), labels (`y`) and predictions of a batch; the name of the tensor is the
            first one's.
        layers: The collections of a layer's inputs and outputs, as `layer` names them.
        loss: The tensor of a step's loss; "" for one among several losses: `loss_output_0`.
    """

    parts: ClassVar = {
        "x": ("inputs", frozenset({"inputs", "model_inputs"})),
        "y": ("labels", frozenset({"labels"})),
        "predictions": ("predictions", frozenset({"predictions"})),
    }
    loss = ""

    def weight(self, variable: Any, *, is_batch: bool) -> str:
        """Return the name of a variable; `is_batch` is False in a loop by hand."""
        return weight_name(variable)

    def gradient(self, variable: Any) -> str:
        """Return the name of a variable's gradient."""
        return f"gradient/{weight_name(variable)}"

    def layer(self, layer: Any, side: str) -> tuple[str, frozenset[str]] | None:
        """Return name and collections of a layer's "inputs" or "outputs"; None for a layer that is not saved."""
        return f"{layer.name}/{side}", collections_of(layer, side)

    def optimizer_variable(self, optimizer: Any, variable: Any) -> str:
        """Return the name of an optimizer's variable."""
        return f"optimizer/{variable.path}"

    def metrics(self, logs: dict[str, Any], mode: str, batch: int) -> Iterator[tuple[str, Any]]:
        """Yield the metrics of a batch."""
        prefix = "val_" if mode == "EVAL" else ""
        yield from ((prefix + name, value) for name, value in logs.items())


class NamesOfSmdebug(Names):
    """The names of smdebug 1.0.34, as its hook had them on Keras 2."""

    parts: ClassVar = {
        "x": ("inputs", frozenset({"inputs"})),
        "y": ("labels", frozenset({"outputs"})),
        "predictions": ("predictions", frozenset({"outputs"})),
    }
    loss = "loss"

    def weight(self, variable: Any, *, is_batch: bool) -> str:
        layer, leaf = path_of(variable)
        return f"{layer}/weights/{layer}/{leaf}:0" if is_batch else f"weights/{layer}/{leaf}:0"

    def gradient(self, variable: Any) -> str:
        return f"gradients/{'/'.join(path_of(variable))}Grad"

    def layer(self, layer: Any, side: str) -> tuple[str, frozenset[str]] | None:
        return None if isinstance(layer, keras.Model) else (f"{layer.name}/{side}", _EMPTY)

    def optimizer_variable(self, optimizer: Any, variable: Any) -> str:
        return f"{type(optimizer).__name__}/{str(variable.path).partition('/')[2]}:0"

    def metrics(self, logs: dict[str, Any], mode: str, batch: int) -> Iterator[tuple[str, Any]]:
        yield from ((name, value) for name, value in logs.items() if name not in ("loss", "val_loss"))
        yield "batch", batch


OURS, OF_SMDEBUG = Names(), NamesOfSmdebug()
