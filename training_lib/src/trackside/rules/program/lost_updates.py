"""lost-updates: steps are smaller than the resolution of half-precision weights, and rounding undoes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.run.recorded_names import LOST_UPDATES
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.trial.window import Column, Window

_HALF = frozenset({"float16", "bfloat16"})


@dataclass(frozen=True)
class LostUpdates(PyTorchRule):
    """Updates are smaller than the rounding of half-precision weights, and are lost.

    Why it matters:
        A bfloat16 number has 8 significant bits: at 1 the next one is 1.0078. An update below half of that distance
        leaves the weight as it was, at this step and at each later one. The gradients are right, the optimizer counts
        its steps, and only the small weights move. float16 has 11 bits, and the same fault at smaller rates.

    How it decides:
        Where an optimizer of PyTorch holds weights in half precision, the hook measures now and then what a step does
        to each element.

        1. s is the share of elements with a gradient that the step left as they were.
        2. It fires where s is at least `share` at each of the newest `measurements`.

        Steps with a learning rate of 0 are not measured, and neither are optimizers of other libraries, which may round
        at random or keep the rest. Autocast keeps weights in float32, and is silent.

    Example:
        ```python
        import numpy as np
        from trackside.rules.program.lost_updates import lowest_of_newest

        assert lowest_of_newest(np.array([0.2, 0.95, 0.97, 0.96]), measurements=3) == 0.95
        assert lowest_of_newest(np.array([0.95]), measurements=3) is None  # too early to tell
        ```

    References:
        - Zamirai et al., Revisiting BFloat16 Training (2020): nearest rounding of weight updates.
        - Gupta et al., Deep Learning with Limited Numerical Precision (ICML 2015): stochastic rounding.
    """

    rule_id = "lost-updates"
    code = "TS205"
    watches = ("weights", "biases")
    since = "0.1"
    likely_causes = (Cause.LOST_UPDATES,)
    shows_its_cause = True
    what_to_do = (
        "Keep the weights in float32 and let torch.autocast compute in half precision.",
        "With weights in half precision, raise the learning rate or use an optimizer that rounds at random.",
    )

    share: float = parameter(0.9, "share of elements with a gradient that did not move", minimum=0, maximum=1)
    measurements: int = parameter(5, "newest measurements that must all show it", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker that loses updates."""
        columns = window.statistic(LOST_UPDATES, "mean", mode=None)
        return [found for column in columns if (found := self._judge(window, column)) is not None]

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a model without weights in half precision."""
        is_half = any(parameter.dtype in _HALF for parameter in facts.parameters)
        return "" if is_half else "no weight is in half precision"

    def lacks(self, window: Window) -> str:
        """Name the missing input: enough measurements."""
        columns = window.statistic(LOST_UPDATES, "mean", mode=None)
        if any(len(column.values) >= self.measurements for column in columns):
            return ""
        return f"{self.measurements} measurements of updates of weights in half precision"

    def _judge(self, window: Window, column: Column) -> Finding | None:
        lowest = lowest_of_newest(column.values, measurements=self.measurements)
        if lowest is None or lowest < self.share or not lowest > 0:
            return None
        moved = np.flatnonzero(column.values < self.share)
        facts = window.facts
        half = [parameter.name for parameter in facts.parameters if parameter.dtype in _HALF] if facts else []
        return finding_of(
            window,
            half[0] if half else LOST_UPDATES,
            "share of elements that no update moves",
            lowest,
            above=min(self.share, float(np.nextafter(lowest, -1))),
            since=int(column.steps[moved[-1] + 1 if moved.size else 0]),
            worker=column.worker,
            series=column.series,
        )


def lowest_of_newest(shares: NDArray[np.float64], *, measurements: int) -> float | None:
    """Return the lowest of the newest values; None with fewer values."""
    return float(shares[-measurements:].min()) if len(shares) >= measurements else None
