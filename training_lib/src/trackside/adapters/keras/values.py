"""Values of what Keras shows. A value inside a compiled function has none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras.src.backend.common.stateless_scope import in_stateless_scope
from numpy.typing import NDArray

from trackside.adapters.keras.torch_memory import has_memory

_BACKEND = keras.backend.backend()  # of this process, as it is asked for several times a step


def array_of(value: Any) -> NDArray[Any] | None:
    """Return a copy of a tensor as an array of at least one dimension; None for one without a value."""
    array = view_of(value)
    return None if array is None else np.array(array)


def view_of(value: Any) -> NDArray[Any] | None:
    """Return the same as `array_of` for use at once: where the backend allows it, the memory is the tensor's own."""
    if value is None or not has_value(value):
        return None
    array: NDArray[Any]
    tensor = _known(tensor_of(value))
    if hasattr(tensor, "detach"):  # of torch: Keras's own conversion warns with NumPy 2
        tensor = tensor.detach()
        is_here = tensor.device.type == "cpu" and tensor.element_size() > 2  # NumPy has no bfloat16
        array = tensor.numpy() if is_here else _widened(tensor.cpu()).numpy()
    else:
        array = np.asarray(keras.ops.convert_to_numpy(tensor))
    return array.reshape(1) if array.ndim == 0 else array


def _widened(tensor: Any) -> Any:
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def tensor_of(value: Any) -> Any:
    """Return the backend's tensor of a variable; any other value as it is."""
    if not isinstance(value, keras.Variable):
        return value
    # On PyTorch `value` asks for the device, by its name, each time: 10 us of a step whose caches are cold.
    own = getattr(value, "_value", None) if _BACKEND == "torch" and not in_stateless_scope() else None
    return value.value if own is None else own


def named_parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, tensor) of a tensor, or of each in a list or a mapping: `<name>_<k>`."""
    parts = list(keras.tree.flatten(value))
    for number, part in enumerate(parts):
        yield (name if len(parts) == 1 else f"{name}_{number}"), part


def number_of(value: Any) -> float | None:
    """Return a loss or metric as a number; None for one without a value."""
    if isinstance(value, float):
        return value
    if _BACKEND == "torch":  # asked for at each step: without an array between
        tensor = tensor_of(value)
        if hasattr(tensor, "detach"):
            return None if tensor.numel() != 1 or not has_memory(tensor) else float(tensor.item())
    array = view_of(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def learning_rate_of(optimizer: Any) -> float | None:
    """Return the learning rate that the optimizer uses now; None if it has none."""
    return number_of(getattr(optimizer, "learning_rate", None))


def has_value(value: Any) -> bool:
    """Return True if a tensor has a value: it has none while a function is being compiled."""
    if isinstance(value, (int, float, np.ndarray, np.generic)):
        return True
    if isinstance(value, keras.KerasTensor):
        return False
    if _BACKEND == "torch":
        tensor = tensor_of(value)
        return not hasattr(tensor, "detach") or has_memory(tensor)
    if _BACKEND == "tensorflow":
        return hasattr(value, "numpy")
    if _BACKEND == "jax":
        return not type(_known(value)).__name__.endswith("Tracer")
    return True


def _known(value: Any) -> Any:
    """Return the value of a tracer of JAX, if it has one: gradients of plain calls are computed by such tracers."""
    while _BACKEND == "jax" and type(value).__name__.endswith("Tracer") and hasattr(value, "primal"):
        value = value.primal
    return value
