"""Tensors as arrays of our own."""

from __future__ import annotations

import numpy as np
import torch

from trackside.frameworks.pytorch.ground.memory import readable

_KEPT_DTYPES = {
    torch.float16, torch.float32, torch.float64, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.bool, torch.complex64, torch.complex128,
}  # fmt: skip

_NUMBERS = {torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64}


def copy_to_array(tensor: torch.Tensor) -> np.ndarray:
    """Return the tensor's value as an array of our own, in C order; sparse becomes dense, bfloat16 and float8 float32.

    It is always a copy: version counters do not show if an optimizer writes over the tensor later. For a sharded tensor
    it is this rank's part. Errors: `NoMemoryError` for one without a value, and any that torch raises.
    """
    value = readable(tensor)
    number = _NUMBERS.get(tensor.dtype)
    if number is not None and type(tensor) is torch.Tensor and tensor.is_cpu and not tensor.shape:  # a loss
        return np.array(tensor.item(), number)  # a tenth of the time of what follows
    if hasattr(value, "to_local"):
        value = value.to_local()
    if value.layout != torch.strided:
        value = value.to_dense()
    dtype = value.dtype if value.dtype in _KEPT_DTYPES else torch.float32
    value = value.to(device="cpu", dtype=dtype, copy=True, memory_format=torch.contiguous_format)
    return value.resolve_conj().resolve_neg().numpy()


def is_one(scale: float | torch.Tensor) -> bool:
    """Return True for the number 1. A scale on a device is not read, because training would wait for it."""
    return not isinstance(scale, torch.Tensor) and scale == 1


def is_in_cuda_graph(tensor: torch.Tensor) -> bool:
    """Return True while a CUDA graph is being recorded, which a copy to the CPU would break."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()
