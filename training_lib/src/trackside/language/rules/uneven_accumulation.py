"""uneven-accumulation: tokens of one optimizer step count by the batch that they came in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import CLIPPING, STEP_WEIGHT, TOKEN_WEIGHTS
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.constants import NEGLIGIBLE_SHARE, TWICE, VISIBLE
from trackside.trial.window import Window

_RATIO = "largest weight of a token in a step over the smallest"
_TOTAL = "weight of all tokens of a step, of 1"


@dataclass(frozen=True)
class UnevenAccumulation(PyTorchRule):
    """Tokens of one optimizer step count by the batch that they came in.

    Why it matters:
        Gradients of several batches are added up, so that the step is as one of a large batch. Where each batch has its
        own mean, a token of a short answer counts as many times as one of a long answer as that is longer. A trainer
        that hands the number of all tokens to the loss divides by nothing more: a loss of the script's own that leaves
        it out is added up, and each step is as many times too large.

    How it decides:
        At steps with a look, a hook on each cross entropy of a causal language model sees the factor that it counts
        with; of a mean over n targets a token has the n-th part. After `fewest` such steps with several backward
        passes:

        1. the largest weight of a token of a step over the smallest is above `ratio`, in the median;
        2. or the weights of all tokens of a step add up to a whole number above 1 (a mean has 1), while gradients are
           clipped, so that the size of the loss matters.

        Batches with about as many tokens each, and losses that are divided by the tokens of all of them, are silent.

    Example:
        ```python
        from trackside.language.rules.uneven_accumulation import UnevenAccumulation

        assert UnevenAccumulation().ratio == 2
        ```

    References:
        - transformers, pull request 34198 and issue 37110: `num_items_in_batch`, and losses of a script's own.
    """

    rule_id = "uneven-accumulation"
    code = "TS511"
    watches = ("losses",)
    numbers = (TOKEN_WEIGHTS,)
    since = "0.1"
    likely_causes = (Cause.UNEVEN_ACCUMULATION,)
    shows_its_cause = True
    what_to_do = (
        "Sum the losses of the tokens (reduction='sum'), and divide by their number over all batches of the step.",
        "In a Trainer, take num_items_in_batch in compute_loss, or give the loss as compute_loss_func.",
    )

    ratio: float = parameter(
        2.0, "largest weight of a token over the smallest, above which tokens are unlike", minimum=1
    )
    fewest: int = parameter(3, "steps with a look from which on it judges", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding if tokens are weighed unlike, or the batches of a step are added up."""
        ratios, totals = self._looks(window, TOKEN_WEIGHTS), self._looks(window, STEP_WEIGHT)
        if ratios is not None and (ratio := float(np.median(ratios))) > self.ratio:
            return [finding_of(window, TOKEN_WEIGHTS, _RATIO, ratio, above=self.ratio, series=())]
        total = 1.0 if totals is None else float(np.median(totals))
        if not self.is_added_up(total) or not window.statistic(CLIPPING, "max_norm", mode=None):
            return []
        return [finding_of(window, STEP_WEIGHT, _TOTAL, total, above=TWICE * (1 - NEGLIGIBLE_SHARE), series=())]

    def is_added_up(self, total: float) -> bool:
        """Return True if the losses of several batches are added up, each a mean.

        Args:
            total: Sum of the weights of all tokens of a step.
        """
        return total > TWICE * (1 - NEGLIGIBLE_SHARE) and abs(total - round(total)) < VISIBLE * total

    def lacks(self, window: Window) -> str:
        """Return a clause without enough steps of several passes."""
        missing = self._looks(window, TOKEN_WEIGHTS) is None
        return f"{self.fewest} looks at steps of several batches of a causal language model" if missing else ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: how unlike."""
        lead = findings[0]
        if lead.measure == _TOTAL:
            return (
                f"The means of {lead.observed:.0f} batches are added up, not averaged: each step is as large as that."
            )
        return (
            f"Within a step a token counts up to {lead.observed:.3g} times as much as another: "
            "each batch is divided by its own number of tokens."
        )

    def _looks(self, window: Window, name: str) -> NDArray[np.float64] | None:
        columns = window.statistic(name, "mean", mode=None)
        values = columns[0].values if columns else np.zeros(0)
        finite = np.asarray(values[np.isfinite(values)], np.float64)
        return finite if len(finite) >= self.fewest else None
