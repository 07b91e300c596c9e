"""growing-attention: the logits of attention grow far beyond their recent size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import ATTENTION_ENTROPY, ATTENTION_LOGIT
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.causes import CERTAIN
from trackside.evidence.suspects import Suspect
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import COURSE_STEPS, FEWEST_UPDATES, NEWEST
from trackside.situation.medians import median
from trackside.situation.phases import newest_phase, since
from trackside.situation.update_growth import has_run_away, peak_of, risen_rate
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class Growth(Details):
    """Details of a finding.

    rate_has_risen  True if a learning rate has risen beyond all before
    """

    rate_has_risen: bool = False


@dataclass(frozen=True)
class GrowingAttention(Rule):
    """The logits of attention grow far beyond any that the run has seen.

    Why it matters:
        Where queries and keys run away, the softmax between them becomes a choice of one key, its gradient vanishes,
        and the loss follows: about when it begins to rise, or some steps before.

    How it decides:
        At steps with a look, the hook multiplies a sample of queries and keys again: a is the largest absolute logit
        that is not masked. It fires where the smallest of the newest three is

        1. more than m + `deviations` x s, and more than 1.5 x m: m is the median of the 50 looks before, and s their
           deviation, 1.4826 x MAD,
        2. more than `beyond` times the largest that the run has lived through (of medians of three, without the first
           20 looks and the newest 10),
        3. and the entropy of the layer with the least, over that of even attention, is 0 or lower than ever: the median
           of the newest three.

        It is a warning where a learning rate is higher than ever as well (1.2 x), and else a remark: attention that
        sharpens is what a model learns. A new optimizer begins a new past. How often it looks follows from the budget
        of the always-on statistics: at every step with a budget of 1, and every 10th to 50th of a small model by
        default, but for ten steps in a row after a look that is a quarter above the usual.

    Example:
        ```python
        import numpy as np
        from trackside.situation.update_growth import has_run_away

        calm = np.random.default_rng(0).normal(10, 0.5, 80)
        assert has_run_away(np.append(calm, [20.0, 25.0, 31.0]), deviations=8, beyond=1.2)
        assert not has_run_away(calm, deviations=8, beyond=1.2)
        ```

    References:
        - Dehghani et al.: Scaling vision transformers to 22 billion parameters (ICML 2023): logits above 50,000.
        - Zhai et al.: Stabilizing transformer training by preventing attention entropy collapse (ICML 2023).
    """

    rule_id = "growing-attention"
    code = "TS122"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    escalates = True
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH,)
    suspects = (
        *CERTAIN,
        Suspect(
            Cause.LEARNING_RATE_TOO_HIGH,
            "the largest attention logit is {observed:.3g}, and was never above {threshold:.3g}",
        ),
    )
    what_to_do = (
        "Print the learning rate of these steps, and see that the schedule is stepped as it should be.",
        "Lower the learning rate, or the end of its warm-up.",
        "Normalise queries and keys before their product (QK-norm).",
    )

    deviations: float = parameter(8.0, "deviations above the recent logits, above which it fires", minimum=1)
    beyond: float = parameter(1.2, "times the largest logit of the run so far, above which it fires", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with logits beyond all before."""
        logits = window.statistic(ATTENTION_LOGIT, "mean", mode=None)
        if not logits:
            return []
        began = newest_phase(window)
        return [f for column in since(logits, began) if (f := self._judge(window, column, began)) is not None]

    def lacks(self, window: Window) -> str:
        """Name the missing input: enough looks at attention, where a model has any."""
        most = max(
            (len(c.values) for c in window.statistic(ATTENTION_LOGIT, "mean", mode=None)), default=FEWEST_UPDATES
        )
        return "" if most >= FEWEST_UPDATES else f"{FEWEST_UPDATES} looks at attention; the run has {most}"

    def _judge(self, window: Window, column: Column, began: int) -> Finding | None:
        values = column.values
        if len(values) < FEWEST_UPDATES or not has_run_away(values, deviations=self.deviations, beyond=self.beyond):
            return None
        now, limit = float(values[-NEWEST:].min()), self.beyond * peak_of(values)
        entropies = since(window.statistic(ATTENTION_ENTROPY, "mean", mode=None), began)
        entropy = next((c.values for c in entropies if c.worker == column.worker), None)
        if entropy is None or len(entropy) <= NEWEST:
            return None
        if entropy[-1] > 0 and not median(entropy[-NEWEST:]) < float(entropy[:-NEWEST].min()):
            return None
        first = int(column.steps[-NEWEST])
        growth = Growth(risen_rate(window, before=first - COURSE_STEPS) is not None)
        return finding_of(
            window,
            ATTENTION_LOGIT,
            "largest absolute attention logit",
            now,
            above=limit,
            since=first,
            worker=column.worker,
            series=column.series,
            statistics={
                "entropy": float(entropy[-1]),
                **growth.numbers(),
            },
            grade=Severity.WARNING if growth.rate_has_risen else Severity.INFO,
        )
