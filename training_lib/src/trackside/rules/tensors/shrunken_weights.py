"""shrunken-weights: the weights have shrunk to a small part of their first size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import Evidence
from trackside.rules.medians import median
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

_FEWEST = 3  # norms of a weight
_MEASURE = "norm of the weight over its first"


@dataclass(frozen=True)
class ShrunkenWeights(Rule):
    """The weights have shrunk to a small part of their first size.

    Why it matters:
        A penalty on the weights with a factor of 1 where 0.0001 was meant, or a weight decay in another unit, pulls all
        weights to zero. The loss with the penalty falls as it should, by a lot, and the model answers every input with
        the same.

    How it decides:
        For each trained weight of two dimensions or more that did not begin at zero, g is its L2 norm over its first
        one, from three norms on.

        1. It fires where the median of g over all weights of a worker is below `share`, from `start_step` on.
        2. It names the weights below it, the smallest first.

        Training moves weights away from where they began, and so makes them longer. Of 267 runs that are right, of our
        corpus and of other people's trainers, the smallest median is 0.39. A single layer that shrinks, as a gate or a
        layer that is pruned, is silent. Amazon's Debugger has no such rule.

    What to do:
        Print each term of the loss times its weight. Use the optimizer's `weight_decay` in place of a penalty, at 0.01
        or less for AdamW, and at 0.0001 for SGD.

    Example:
        ```python
        from trackside.rules.tensors.shrunken_weights import have_shrunk

        assert have_shrunk({"a.weight": 0.02, "b.weight": 0.03, "c.weight": 0.9}, share=0.1)
        assert not have_shrunk({"a.weight": 0.02, "b.weight": 0.7, "c.weight": 1.2}, share=0.1)
        ```

    References:
        - Krogh, Hertz: A simple weight decay can improve generalization (1992).
        - Loshchilov, Hutter: Decoupled weight decay regularization (2019): decay and penalty are not the same.
    """

    rule_id = "shrunken-weights"
    code = "TS119"
    is_of_networks = True
    watches = ("weights",)
    save_interval = 500
    needs = ()
    paced = True
    patience = 2
    severity = Severity.WARNING
    since = "0.1"
    likely_causes = (Cause.PENALTY_TOO_STRONG, Cause.WEIGHT_DECAY_TOO_STRONG)
    shows_its_cause = True
    what_to_do = (
        "Print each term of the loss times its weight, and divide the weight of a penalty by a hundred.",
        "Use the optimizer's weight_decay in place of a penalty: 0.01 or less for AdamW, 0.0001 for SGD.",
    )

    share: float = parameter(0.1, "norm of the weights over their first, below which they have shrunk", minimum=0)
    start_step: int = parameter(20, "step from which on weights can have shrunk", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per shrunken weight, the smallest first, if most have shrunk."""
        if window.step < self.start_step:
            return []
        found: list[Finding] = []
        norms = _norms(window)
        for worker in dict.fromkeys(column.worker for column in norms):
            own = {c.tensor: c for c in norms if c.worker == worker}
            sizes = {name: float(c.values[-1] / c.values[0]) for name, c in own.items()}
            if have_shrunk(sizes, share=self.share):
                small = sorted((name for name in sizes if sizes[name] < self.share), key=sizes.__getitem__)
                found += [self._finding(window, own[name]) for name in small]
        return found

    def lacks(self, window: Window) -> str:
        """Name the missing input: norms of weights."""
        return "" if _norms(window) else f"{_FEWEST} norms of trained weights"

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return weight decay where an optimizer has it, else a penalty in the loss."""
        because = f"weights shrank to {median([finding.observed for finding in findings]):.2%} of their size"
        decays = Evidence(window).weight_decay > 0
        first = Cause.WEIGHT_DECAY_TOO_STRONG if decays else Cause.PENALTY_TOO_STRONG
        others = [cause for cause in self.likely_causes if cause is not first and decays]
        return (Suspicion(first, because), *map(Suspicion, others))

    def _finding(self, window: Window, column: Column) -> Finding:
        module = window.facts.module_of(column.tensor) if window.facts else None
        shares = column.values / column.values[0]
        above = np.flatnonzero(shares >= self.share)
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=window.step,
            since_step=int(column.steps[above[-1] + 1]),
            measure=_MEASURE,
            observed=float(shares[-1]),
            relation="<",
            threshold=self.share,
            series=replace(column, values=shares).series,
            place=module.line if module else "",
        )


def have_shrunk(sizes: dict[str, float], *, share: float) -> bool:
    """Return True if the median size is below a share of the first.

    Args:
        sizes: The norm of each weight over its first one.
        share: The share.
    """
    return bool(sizes) and median(list(sizes.values())) < share


def _norms(window: Window) -> list[Column]:
    """Return the norms of trained matrices that began above zero and are finite."""
    facts, found = window.facts, list[Column]()
    for name in window.tensors("weights"):
        held = facts.parameter(name) if facts else None
        if held is None or (len(held.shape) > 1 and held.requires_grad):
            columns = window.statistic(name, "l2", mode=None)
            found += [
                c for c in columns if len(c.values) >= _FEWEST and c.values[0] > 0 and np.isfinite(c.values).all()
            ]
    return found
