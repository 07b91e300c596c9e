"""Sees that a loss is computed, by whichever name the script calls the function.

What stands in `torch.nn.functional` ends in a function of torch's compiled part, and looks that up at each call: a
script that took `cross_entropy` out of there by name is seen here, which `loss_calls.py` cannot. Replaced for moments
only, for this is nobody's public interface; what `torch.jit` scripts meanwhile has the originals in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from trackside.frameworks.pytorch.tracing import skip_frame

_KERNELS = (
    (torch, "binary_cross_entropy_with_logits"),
    *(
        (torch._C._nn, name)
        for name in (
            "cross_entropy_loss", "nll_loss_nd", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
            "binary_cross_entropy", "soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss",
        )
    ),
)  # fmt: skip


class LossKernels:
    """Replaces them and puts them back. `seen(result)` must not raise."""

    def __init__(self, seen: Callable[[Any], None]) -> None:
        self._seen = seen
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def switch(self, *, on: bool) -> None:
        """Makes calls seen, or no longer seen."""
        known = _known_to_jit()
        if on and not self._replaced and known is not None:
            for place, name in _KERNELS:
                original = getattr(place, name, None)
                if original is not None:
                    stand_in = self._stand_in(original)
                    self._replaced.append((place, name, original, stand_in))
                    setattr(place, name, stand_in)
                    known[id(stand_in)] = known.get(id(original), "")
        elif not on:
            for place, name, original, stand_in in self._replaced:
                if known is not None:
                    known.pop(id(stand_in), None)
                if getattr(place, name) is stand_in:
                    setattr(place, name, original)
            self._replaced = []

    def _stand_in(self, original: Any) -> Any:
        is_compiling = torch.compiler.is_compiling

        @functools.wraps(original)
        def kernel(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not is_compiling():
                self._seen(result)
            return result

        skip_frame(kernel)
        return kernel


def _known_to_jit() -> dict[int, str] | None:
    """The operators that `torch.jit` knows, by the functions' ids. Made at the first look: not from our stand-ins."""
    table = getattr(torch.jit._builtins, "_get_builtin_table", None)
    return table() if table is not None else None
