"""unchanged-tensor: a tensor is the same as some steps ago."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, CALIBRATED
from trackside.contracts.verdict import Finding
from trackside.rules.advice import Advice, Concerns
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import EVERY_COLLECTION, at_step, selected
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class UnchangedTensor(Rule):
    """A tensor has not changed over several steps.

    Why it matters:
        Weights that stay the same are not trained. Inputs that stay the same are a loader that repeats one batch.

    How it decides:
        For each tensor of `collection_names`, and each whose name a regex of `tensor_regex` finds (both empty:
        weights), at each step at which it was saved:

        1. The values at the newest `num_steps` steps at which it was saved (not necessarily one after the other; of a
           loss, at which it was recorded) are compared one by one with the newest: |a - b| <= `atol` + `rtol` |b| for
           every element, as numpy.allclose.
        2. It fires where all of them are the same. NaN equals nothing, unless `equal_nan`.

        It judges only where it was chosen; `parameters-not-trained` finds weights that never change by itself. Amazon's
        UnchangedTensor is the same.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.unchanged_tensor import UnchangedTensor

        rule = UnchangedTensor()
        assert rule.is_same([np.ones(3), np.ones(3)])
        assert not rule.is_same([np.ones(3), np.zeros(3)])
        ```

    References:
        - NumPy, `numpy.allclose`.
        - Amazon SageMaker Debugger, built-in rule UnchangedTensor.
    """

    rule_id = "unchanged-tensor"
    code = "TS116"
    presets = (CALIBRATED, AWS_DOCS, AWS_SDK)
    is_asked_for = True
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = (CollectionRequest("weights", Schedule(500)),)
    since = "0.1"
    likely_causes = (Cause.PARAMETERS_NOT_IN_OPTIMIZER, Cause.FROZEN_PARAMETERS)
    what_to_do = (Advice("See that the optimizer holds the parameter, or that the loader moves on.", Concerns.LOOPS),)

    collection_names: str = parameter("", "collections to look at, separated by commas")
    tensor_regex: str = parameter("", "regexes of tensor names, separated by commas")
    num_steps: int = parameter(3, "newest saved steps that are compared", minimum=2)
    rtol: float = parameter(1e-5, "relative tolerance", minimum=0)
    atol: float = parameter(1e-8, "absolute tolerance", minimum=0)
    equal_nan: bool = parameter(False, "true: NaN equals NaN")

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per tensor."""
        names = selected(
            window, collection_names=self.collection_names, tensor_regex=self.tensor_regex, default=("weights",)
        )
        return [found for column in at_step(window, names, "mean") if (found := self._judge(window, column))]

    def is_same(self, values: list[NDArray[np.generic]]) -> bool:
        """Return True if all values, oldest first, are the same as the newest."""
        newest = values[-1]
        return all(
            value.shape == newest.shape
            and np.allclose(value, newest, rtol=self.rtol, atol=self.atol, equal_nan=self.equal_nan)
            for value in values[:-1]
        )

    def _judge(self, window: Window, column: Column) -> Finding | None:
        steps = column.steps[-self.num_steps :].tolist()
        if len(steps) < self.num_steps:
            return None
        values = _values(window, column, len(steps))
        if values is None or not self.is_same(values):
            return None
        return finding_of(
            window,
            column,
            "steps without a change",
            float(self.num_steps),
            above=float(self.num_steps - 1),
            since=steps[0],
        )


def _values(window: Window, column: Column, count: int) -> list[NDArray[np.generic]] | None:
    """Return the tensor at its newest `count` steps; None if only statistics are saved.

    The mean of a loss is its value.
    """
    is_scalar = column.tensor in window.tensors("losses")
    values = []
    for step, mean in zip(column.steps[-count:].tolist(), column.values[-count:], strict=True):
        try:
            value = window.value(column.tensor, worker=column.worker, step=step)
        except TensorNotSavedError:
            if not is_scalar:
                return None
            value = np.array([mean])
        values.append(value.reshape(-1) if value.size == 1 else value)
    return values
