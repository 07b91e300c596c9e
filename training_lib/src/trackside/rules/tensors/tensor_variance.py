"""tensor-variance: the variance of a tensor has left its bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, CALIBRATED
from trackside.contracts.verdict import Finding
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import EVERY_COLLECTION, at_step, selected
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class TensorVariance(Rule):
    """The variance of a tensor is above or below what it should be.

    Why it matters:
        Activations whose variance grows or shrinks from layer to layer are the first sign of a bad initialisation, and
        weights whose variance grows step by step of a regularisation that is missing.

    How it decides:
        For each tensor of `collection_names`, and each whose name a regex of `tensor_regex` finds (both empty:
        weights), at each step at which it was saved, with its population variance v:

        1. It fires where v > `max_threshold`, unless that is 0.
        2. It fires where v < `min_threshold`.

        It judges only where it was chosen: what variance is right depends on the model. Amazon's TensorVariance is the
        same, with None where this has 0.

    Example:
        ```python
        from trackside.rules.tensors.tensor_variance import beyond

        assert beyond(20.0, largest=10, smallest=0) == (">", 10)
        assert beyond(1.0, largest=10, smallest=1e-5) is None
        assert beyond(20.0, largest=0, smallest=0) is None
        ```

    References:
        - Amazon SageMaker Debugger, built-in rule TensorVariance.
    """

    rule_id = "tensor-variance"
    code = "TS115"
    presets = (CALIBRATED, AWS_DOCS, AWS_SDK)
    is_asked_for = True
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = (CollectionRequest("weights", Schedule(500)),)
    since = "0.1"
    likely_causes = (Cause.BAD_INITIALIZATION, Cause.EXPLODING_GRADIENTS)
    what_to_do = ("Initialise to match the activation, normalise, or add weight decay, depending on the tensor.",)

    collection_names: str = parameter("", "collections to look at, separated by commas")
    tensor_regex: str = parameter("", "regexes of tensor names, separated by commas")
    max_threshold: float = parameter(0.0, "variance above which it fires; 0: none", minimum=0)
    min_threshold: float = parameter(0.0, "variance below which it fires; 0: none", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per tensor."""
        names = selected(
            window, collection_names=self.collection_names, tensor_regex=self.tensor_regex, default=("weights",)
        )
        return [found for column in at_step(window, names, "std") if (found := self._judge(window, column))]

    def lacks(self, window: Window) -> str:
        """Name the missing parameter: a bound."""
        return "" if self.max_threshold or self.min_threshold else "max_threshold or min_threshold"

    def _judge(self, window: Window, column: Column) -> Finding | None:
        variance = float(column.values[-1]) ** 2
        side = beyond(variance, largest=self.max_threshold, smallest=self.min_threshold)
        if side is None:
            return None
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=window.step,
            since_step=window.step,
            measure="variance",
            observed=variance,
            relation=side[0],
            threshold=side[1],
            series=tuple([(step, value**2) for step, value in column.series]),
        )


def beyond(variance: float, *, largest: float, smallest: float) -> tuple[str, float] | None:
    """Return (relation, bound) of the bound that a variance exceeds; None if it keeps both. 0 stands for no bound."""
    if largest > 0 and variance > largest:
        return ">", largest
    return ("<", smallest) if variance < smallest else None
