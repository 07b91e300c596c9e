"""The tensors in arguments and results of modules: tuples, lists, dicts, dataclasses, outputs of Hugging Face."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

_DEEPEST = 16  # deeper is a linked structure or a cycle
_MOST_TENSORS = 1024  # of one call


def flatten(*values: Any) -> Iterator[torch.Tensor]:
    """Return the tensors in `values`, in order; of mappings and dataclasses in the order of their fields.

    An object that is neither a tensor nor a known container holds none. At most 1024 tensors, and 16 levels.
    """
    for count, tensor in enumerate(_flatten(values, 0)):
        if count == _MOST_TENSORS:
            return
        yield tensor


def _flatten(value: Any, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
        return
    if depth > _DEEPEST:
        return
    for part in _parts(value):
        yield from _flatten(part, depth + 1)


def _parts(value: Any) -> Iterator[Any]:
    # Mappings first: an output of Hugging Face is a dataclass too, and only as a mapping leaves out what is None.
    if isinstance(value, Mapping):
        return iter(value.values())
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, range, memoryview)):
        return iter(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (getattr(value, field.name, None) for field in dataclasses.fields(value))
    return iter(())


def is_no_computation() -> bool:
    """Return True if a call is no computation of the step: recomputed in the backward pass, traced, or transformed."""
    if torch._C._current_graph_task_id() != -1 or torch._C._get_tracing_state() is not None:
        return True
    functorch = getattr(torch._C, "_functorch", None)
    return functorch is not None and functorch.maybe_current_level() is not None
