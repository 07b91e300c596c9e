"""Reductions: one number of a tensor, by smdebug's tokens, one pure function each.

`std` and `variance` are unbiased (n - 1), as the original's PyTorch hook saves them; its analysis half computes them
biased from a whole tensor. Numbers are added up in float64. The result is of the tensor's type, but float32 for
integers, booleans and halves: a half's own range is left quickly by sums.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]

PREFIX = "smdebug/reductions/"
_ABS = "abs_"
_PLACE = re.compile(r":\d+")  # the original takes it out of a tensor's name
_VARIABLE = re.compile(r"/[^/]+:\d+$")  # of TensorFlow, "dense/kernel:0": smdebug keeps the place of these
# Values of which a wide copy stays in the cache. Fewer than 10,000: from there on OpenBLAS hands a scalar product to
# threads of its own, which wait in a busy loop on the cores that train.
_BLOCK = 1 << 13


def smallest(values: AnyArray) -> Any:
    """min x"""
    return np.minimum.reduce(values)


def largest(values: AnyArray) -> Any:
    """max x"""
    return np.maximum.reduce(values)


def mean(values: AnyArray) -> Any:
    """Σx / n"""
    return total(values) / values.size


def std(values: AnyArray) -> Any:
    """√variance"""
    return np.sqrt(variance(values))


def variance(values: AnyArray) -> Any:
    """Σ|x - mean|² / (n - 1); NaN of one value, as torch has it."""
    if values.size < 2:
        return np.nan
    average = mean(values)
    return sum(_square_sum(block - average) for block in _wide_blocks(values)) / (values.size - 1)


def total(values: AnyArray) -> Any:
    """Σx"""
    return np.add.reduce(values, dtype=_wide(values))


def product(values: AnyArray) -> Any:
    """Πx"""
    return np.multiply.reduce(values, dtype=_wide(values))


def l1_norm(values: AnyArray) -> Any:
    """Σ|x|"""
    return np.add.reduce(np.abs(values), dtype=np.float64)


def l2_norm(values: AnyArray) -> Any:
    """√Σ|x|²"""
    return np.sqrt(sum(map(_square_sum, _wide_blocks(values))))


# How smdebug names the reduction in a tensor's name, and what computes it.
REDUCTIONS: Mapping[str, tuple[str, Callable[[AnyArray], Any]]] = {
    "min": ("min", smallest),
    "max": ("max", largest),
    "mean": ("mean", mean),
    "std": ("std", std),
    "variance": ("variance", variance),
    "sum": ("sum", total),
    "prod": ("prod", product),
    "l1_norm": ("l1", l1_norm),
    "l2_norm": ("l2", l2_norm),
}


def reduced(name: str, values: AnyArray, tokens: Iterable[str]) -> list[tuple[str, AnyArray]]:
    """Return each reduction as a tensor of shape (), with smdebug's name: `smdebug/reductions/abs_mean/fc.bias`.

    - `tokens`: those of a capture request; one with `abs_` is computed of |x|
    - `values`: at least one value

    Texts, times and objects have no reductions. Complex numbers have only those without an order, and those of |x|.
    """
    kind = values.dtype.kind
    if kind not in "biufc":
        return []
    result_type = values.dtype if values.dtype.itemsize > 2 and kind in "fc" else np.dtype(np.float32)
    flat = values.reshape(-1)
    if kind != "c" and result_type != values.dtype:
        flat = flat.astype(np.float32 if kind == "f" else np.float64)  # exact, and absolutes cannot overflow
    absolutes: AnyArray | None = None
    found = []
    with np.errstate(all="ignore"):  # infinities and NaN are results like others
        for token in tokens:
            is_abs = token.startswith(_ABS)
            bare, compute = REDUCTIONS[token.removeprefix(_ABS)]
            if is_abs and absolutes is None:
                absolutes = np.abs(flat)
            if kind == "c" and not is_abs and bare in {"min", "max"}:
                continue
            result = compute(absolutes if is_abs and absolutes is not None else flat)
            found.append((record_name(name, token), _stored(result, result_type)))
    return found


@lru_cache(maxsize=16384)  # a training saves the same ones step after step
def record_name(tensor_name: str, token: str) -> str:
    """Return the name that one reduction of a tensor is saved under: `smdebug/reductions/abs_mean/fc.bias`."""
    written = REDUCTIONS[token.removeprefix(_ABS)][0]
    name = tensor_name if _VARIABLE.search(tensor_name) else _PLACE.sub("", tensor_name)
    return f"{PREFIX}{_ABS if token.startswith(_ABS) else ''}{written}/{name}"


def _stored(result: Any, result_type: np.dtype[Any]) -> AnyArray:
    is_real_of_complex = result_type.kind == "c" and not np.iscomplexobj(result)
    return np.asarray(result, np.float64 if is_real_of_complex else result_type)


def _wide(values: AnyArray) -> type[np.generic]:
    return np.complex128 if values.dtype.kind == "c" else np.float64


def _wide_blocks(values: AnyArray) -> Iterable[AnyArray]:
    dtype = _wide(values)
    return (values[i : i + _BLOCK].astype(dtype) for i in range(0, values.size, _BLOCK))


def _square_sum(block: AnyArray) -> float:
    return float(np.vdot(block, block).real)
