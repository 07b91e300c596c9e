"""The loss of a mutant as its unchanged program would compute it, on the model that the mutant trains.

An operator changes the loss itself, its targets or its scale; a harm must be measured by what it was before. The
recorder stands outside of the operator: it computes the original function on the arguments of the program once more,
and hands on what the operator makes of them. It draws no random number, and keeps no graph.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.engine.documents import write_json
from benchmarks.mutants.seams import LOSSES, Seams, copy_of

BACKWARD = "backward"
EVALUATION = "evaluation"
FIRST, LAST = 5, 60  # values kept at each end


@dataclass
class Series:
    """The values of one loss.

    count  all values
    first  the first ones
    last   the last ones
    """

    count: int = 0
    first: list[float] = field(default_factory=list)
    last: deque[float] = field(default_factory=lambda: deque(maxlen=LAST))

    def add(self, value: float) -> None:
        """Take a value."""
        self.count += 1
        if len(self.first) < FIRST:
            self.first.append(value)
        self.last.append(value)


class PlainLosses:
    """Records losses while an operator is planted.

    Attributes:
        series: By name: a function of torch.nn.functional in training, the same after `evaluation `, or `backward`.
    """

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self._plain: dict[str, Any] = {
            name: copy_of(function)
            for name in LOSSES
            if isinstance(function := getattr(functional, name, None), FunctionType)
        }

    def watch(self, seams: Seams) -> None:
        """Begin. To be called after the operator has been planted, so that its changes lie inside."""
        for name, plain in self._plain.items():
            seams.wrap(functional, name, self._function(name, plain))
        seams.wrap(Tensor, "backward", self._backward)

    def _function(self, name: str, plain: Any) -> Any:
        def record(inner: Any, *args: Any, **kwargs: Any) -> Any:
            # Not under `no_grad`: capture takes a script that switches gradients off for one that validates.
            value = plain(*_detached(args), **{key: _detached(each) for key, each in kwargs.items()})
            self._add(name if torch.is_grad_enabled() else f"{EVALUATION} {name}", value)
            return inner(*args, **kwargs)

        return record

    def _backward(self, inner: Any, loss: Tensor, *args: Any, **kwargs: Any) -> Any:
        self._add(BACKWARD, loss)
        return inner(loss, *args, **kwargs)

    def _add(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor) and value.numel():
            self.series.setdefault(name, Series()).add(float(value.detach().float().mean()))

    def write(self, path: Path, *, touched: int) -> None:
        """Write the series and the number of the operator's effects, whole or not at all."""
        document = {
            "touched": touched,
            "series": {name: {**asdict(each), "last": list(each.last)} for name, each in self.series.items()},
        }
        write_json(path, document)


def _detached(value: Any) -> Any:
    """Return tensors without their graph, and all else as it is."""
    if isinstance(value, tuple):
        return tuple(_detached(each) for each in value)
    return value.detach() if isinstance(value, Tensor) else value


@dataclass(frozen=True)
class Recorded:
    """What a mutant's process wrote.

    touched  the number of the operator's effects
    series   losses by name
    """

    touched: int
    series: Mapping[str, Series]

    @classmethod
    def read(cls, path: Path) -> Recorded | None:
        """Return what a process wrote, or None if it did not come to its end."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        series = {
            name: Series(each["count"], each["first"], deque(each["last"], maxlen=LAST))
            for name, each in document["series"].items()
        }
        return cls(document["touched"], series)
