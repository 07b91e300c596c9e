"""growing-attention: the logits of attention grow far beyond their recent size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.recorded_names import ATTENTION_ENTROPY, ATTENTION_LOGIT
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import certain_causes
from trackside.rules.medians import median
from trackside.rules.phases import newest_phase, since
from trackside.rules.rule import Rule, parameter
from trackside.rules.update_growth import FEWEST, has_run_away, peak_of, risen_rate
from trackside.trial.window import Column, Window

_NEWEST = 3
_BEFORE = 10  # steps before the growth that do not count as before


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
        default, but for ten steps in a row after a look that is a quarter above the usual. Amazon's Debugger has no
        such rule.

    What to do:
        Look at the learning rate of these steps; normalise queries and keys, or lower the end of the warm-up.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.growing_attention import has_run_away

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
    save_interval = 500
    needs = ()
    severity = Severity.WARNING
    escalates = True
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH,)
    what_to_do = (
        "Print the learning rate of these steps, and see that the schedule is stepped as it should be.",
        "Lower the learning rate, or the end of its warm-up.",
        "Normalise queries and keys before their product (QK-norm).",
    )

    deviations: float = parameter(8.0, "deviations above the recent logits, above which it fires", minimum=1)
    beyond: float = parameter(1.2, "times the largest logit of the run so far, above which it fires", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with logits beyond all before.

        Args:
            window: The run up to the step to judge.
        """
        logits = window.statistic(ATTENTION_LOGIT, "mean", mode=None)
        if not logits:
            return []
        began = newest_phase(window)
        return [f for column in since(logits, began) if (f := self._judge(window, column, began)) is not None]

    def lacks(self, window: Window) -> str:
        """Name the missing input: enough looks at attention, where a model has any.

        Args:
            window: The run up to the step to judge.
        """
        most = max((len(c.values) for c in window.statistic(ATTENTION_LOGIT, "mean", mode=None)), default=FEWEST)
        return "" if most >= FEWEST else f"{FEWEST} looks at attention; the run has {most}"

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return WARNING if a learning rate has risen beyond all before, else INFO.

        Args:
            findings: The findings.
        """
        has_risen = any(finding.statistics["rate_has_risen"] for finding in findings)
        return Severity.WARNING if has_risen else Severity.INFO

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return a learning rate that is too high, with the size of the logits as evidence.

        Args:
            findings: The findings, worst first.
            window: The run up to the judged step.
        """
        lead = findings[0]
        because = f"the largest attention logit is {lead.observed:.3g}, and was never above {lead.threshold:.3g}"
        return (*certain_causes(window), Suspicion(Cause.LEARNING_RATE_TOO_HIGH, because))

    def _judge(self, window: Window, column: Column, began: int) -> Finding | None:
        values = column.values
        if len(values) < FEWEST or not has_run_away(values, deviations=self.deviations, beyond=self.beyond):
            return None
        now, limit = float(values[-_NEWEST:].min()), self.beyond * peak_of(values)
        entropies = since(window.statistic(ATTENTION_ENTROPY, "mean", mode=None), began)
        entropy = next((c.values for c in entropies if c.worker == column.worker), None)
        if entropy is None or len(entropy) <= _NEWEST:
            return None
        if entropy[-1] > 0 and not median(entropy[-_NEWEST:]) < float(entropy[:-_NEWEST].min()):
            return None
        first = int(column.steps[-_NEWEST])
        return Finding(
            subject=ATTENTION_LOGIT,
            worker=column.worker,
            step=window.step,
            since_step=first,
            measure="largest absolute attention logit",
            observed=now,
            relation=">",
            threshold=limit,
            statistics={
                "entropy": float(entropy[-1]),
                "rate_has_risen": float(risen_rate(window, before=first - _BEFORE) is not None),
            },
            series=column.series,
        )
