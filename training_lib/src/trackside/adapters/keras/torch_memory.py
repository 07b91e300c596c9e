"""PyTorch's question for memory to read, for Keras on PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def has_memory(tensor: Any) -> bool:
    """Return True if the values of a tensor of PyTorch can be read now.

    Args:
        tensor: The tensor.
    """
    return _question()(tensor)


@functools.cache
def _question() -> Callable[[Any], bool]:
    from trackside.frameworks.pytorch.ground import memory  # with another backend PyTorch may be missing

    return memory.has_memory
