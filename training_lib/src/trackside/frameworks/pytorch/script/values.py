"""Values that a script saves: tensors, arrays, numbers and lists, as arrays of our own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trackside.capture.ground.guard import Guard, describe
from trackside.frameworks.pytorch.ground.memory import readable
from trackside.frameworks.pytorch.saving.copying import copy_to_array


def tensor_value(name: str, value: Any, guard: Guard) -> np.ndarray | None:
    """Return a copy of a tensor of the script; for any other value log a warning once and return None."""
    array = _array(value)
    if array is None:
        guard.warn_once(f"value/{name}", "%s cannot be saved, as a %s is no tensor.", name, type(value).__name__)
    return array


def scalar_value(name: str, value: Any, guard: Guard, *, keeps_type: bool = False) -> np.ndarray | None:
    """Return a number of the script, of shape (1,); for any other value log a warning once and return None.

    It becomes a float64, unless `keeps_type` is True and it has another type of numbers.
    """
    if value is None:  # NumPy would make NaN of it
        guard.warn_once(f"scalar/{name}", "%s is no scalar: None.", name)
        return None
    try:
        if keeps_type and (typed := _array(value)) is not None and typed.size == 1 and typed.dtype.kind in "biuf":
            return typed.reshape(1)
        array = np.asarray(readable(value).cpu() if isinstance(value, torch.Tensor) else value, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        guard.warn_once(f"scalar/{name}", "%s is no scalar: %s.", name, describe(error))
        return None
    if array.size != 1:
        guard.warn_once(f"scalar/{name}", "%s is no scalar, but has the shape %s.", name, array.shape)
        return None
    return np.array([float(array.reshape(()))], np.float64)


def _array(value: Any) -> np.ndarray | None:
    """Return a copy of the user's value; a scalar has the shape (1,), as smdebug saves it.

    None for a value of other kinds.
    """
    if isinstance(value, torch.Tensor):
        return copy_to_array(value)
    if isinstance(value, dict) or value is None:
        return None
    try:
        array = np.array(value)
    except ValueError:  # a list of lists of different lengths
        return None
    if array.dtype.kind == "O":
        return None
    return array.reshape(1) if np.isscalar(value) else array
