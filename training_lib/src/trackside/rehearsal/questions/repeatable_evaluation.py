"""evaluation-repeats: two evaluations of one batch give the same outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from trackside.contracts.run.check import Answer
from trackside.rehearsal.probe import Probe
from trackside.rehearsal.subject import SEED, Subject, difference

TOLERANCE = 1e-4  # of the largest output: kernels that add in any order
_DROPOUTS = {"dropout", "dropout_", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "dropout1d",
             "dropout2d", "dropout3d"}  # fmt: skip


class RepeatableEvaluation(Probe):
    """Evaluate one batch twice, with different random numbers."""

    name = "evaluation-repeats"
    place = 30
    what = "Dropout stays on in evaluation: the same batch gives other outputs each time."
    cures = (
        "Pass `self.training` on: F.dropout(x, p, training=self.training), or dropout_p=p if self.training else 0.",
        "Register layers as modules (nn.ModuleList, not a list), so that eval() reaches them.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault where dropout is at work in evaluation mode."""
        with _dropouts_seen(subject) as seen:
            one = subject.evaluated(seed=SEED)
        gap = difference(one, subject.evaluated(seed=SEED + 1))
        if gap <= TOLERANCE:
            return self.ok("two evaluations of one batch agree")
        if seen:
            return self.fault(f"outputs differ by {gap:.2g} of the largest", where=seen[0])
        return self.ok(f"outputs differ by {gap:.2g} of the largest: the model draws random numbers, not by dropout")


@contextmanager
def _dropouts_seen(subject: Subject) -> Iterator[list[str]]:
    """Collect the names of the modules that call dropout with a probability above 0, in the order of calls."""
    names = {id(module): name for name, module in subject.named_modules()}
    seen: list[str] = []
    open_modules: list[torch.nn.Module] = []
    original = torch.nn.Module.__call__

    def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it replaces one
        open_modules.append(self)
        try:
            return original(self, *args, **kwargs)
        finally:
            open_modules.pop()

    class Watch(TorchFunctionMode):
        """Notes dropout at work."""

        def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            if _is_dropout(func, args, given):
                seen.append(_place_of(open_modules, names))
            return func(*args, **given)

    setattr(torch.nn.Module, "__call__", __call__)  # noqa: B010 - mypy forbids the plain assignment to a method
    try:
        with Watch():
            yield seen
    finally:
        setattr(torch.nn.Module, "__call__", original)  # noqa: B010 - as above


def _place_of(open_modules: list[torch.nn.Module], names: dict[int, str]) -> str:
    """Return the name of the innermost module that the model knows; its own dropout may be unknown to it."""
    known = [names[id(module)] for module in reversed(open_modules) if id(module) in names]
    inner = type(open_modules[-1]).__name__ if open_modules else ""
    if not known:
        return inner
    return known[0] if names.get(id(open_modules[-1])) == known[0] else f"{inner} within {known[0]}"


def _is_dropout(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> bool:
    name = getattr(function, "__name__", "")
    if name in _DROPOUTS:
        probability = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
        is_functional = getattr(functional, name, None) is function
        training = kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else is_functional))
        return bool(training) and float(probability) > 0
    if name == "scaled_dot_product_attention":
        return float(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0)) > 0
    if name == "multi_head_attention_forward":
        return (
            bool(kwargs.get("training", True)) and float(args[10] if len(args) > 10 else kwargs.get("dropout_p", 0)) > 0
        )
    return False
