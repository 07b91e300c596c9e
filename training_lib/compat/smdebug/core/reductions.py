"""Reductions computed from a tensor's values, and the names of saved ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from smdebug import not_offered
from smdebug.exceptions import SMDebugValueError
from trackside.trial.trial import REDUCTION_MARK

REDUCTIONS_PREFIX = REDUCTION_MARK


def _l1(values: Any) -> Any:
    return np.linalg.norm(np.ravel(values), ord=1)


def _l2(values: Any) -> Any:
    return np.linalg.norm(np.ravel(values), ord=2)


_REDUCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "min": np.amin,
    "max": np.amax,
    "mean": np.mean,
    "std": np.std,
    "variance": np.var,
    "sum": np.sum,
    "prod": np.prod,
    "l1": _l1,
    "l2": _l2,
}


def get_numpy_reduction(reduction_name: str, numpy_data: Any, abs: bool = False) -> Any:  # noqa: A002 - its old name
    """Return a reduction of the values.

    `std` and `variance` divide by n. Norms are over all elements, like the saved ones.

    Raises:
        SMDebugValueError: The name is unknown.
    """
    if reduction_name not in _REDUCTIONS:
        raise SMDebugValueError(f"Invalid reduction type {reduction_name}. Known: {', '.join(_REDUCTIONS)}.")
    with np.errstate(all="ignore"):  # inf - inf and overflow are answers here, not accidents
        return _REDUCTIONS[reduction_name](np.absolute(numpy_data) if abs else numpy_data)


def get_basic_numpy_reduction(reduction_name: str, numpy_data: Any) -> Any:
    """Return a reduction of the values, or None for an unknown name."""
    return get_numpy_reduction(reduction_name, numpy_data) if reduction_name in _REDUCTIONS else None


def get_reduction_tensor_name(
    tensorname: str,
    reduction_name: str,
    abs: bool,  # noqa: A002 - its old name
    remove_colon_index: bool = True,
) -> str:
    """Return the name of a saved reduction: `fc.weight`, `mean`, True -> `smdebug/reductions/abs_mean/fc.weight`."""
    base = re.sub(r":\d+", "", tensorname) if remove_colon_index else tensorname
    return f"{REDUCTIONS_PREFIX}{'abs_' if abs else ''}{reduction_name}/{base}"


def reverse_reduction_tensor_name(reduction_tensor_name: str) -> tuple[str, str, bool]:
    """Return the parts of such a name: `smdebug/reductions/abs_mean/fc.weight` -> (`fc.weight`, `mean`, True)."""
    reduced = reduction_tensor_name.partition(REDUCTIONS_PREFIX)[2]
    name, _, base = reduced.partition("/")
    return base, name.removeprefix("abs_"), name.startswith("abs_")


__getattr__ = not_offered.attribute_of(__name__)
