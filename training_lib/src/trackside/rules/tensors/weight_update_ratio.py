"""weight-update-ratio: steps are far too large or far too small for the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.causes import DIVERGES, LEARNS_NOTHING
from trackside.evidence.suspects import only
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.constants import (
    COURSE_STEPS,
    FEWEST,
    GAIN,
    HALF_AS_MUCH_AGAIN,
    HOPELESS,
    LEARNS,
    NEAR_GUESSING,
    NEGLIGIBLE_SHARE,
    NEWEST_LOSSES,
    TENFOLD,
)
from trackside.situation.losses.guessing import all_as_guessing
from trackside.situation.losses.losses import has_gained, learned_share, training_losses
from trackside.situation.measurements import Evidence
from trackside.situation.medians import median
from trackside.situation.weight_updates import (
    has_learned_before,
    measured_ratios,
    must_loss_fall,
    norms_of_weights,
    rates_rise,
    typical_ratios,
    verdict_on,
    was_torn,
)
from trackside.trial.window import Column, Window

_RATIO, _GROWTH = "relative update of the weight", "norm of the weight over its first"
_TORN = "loss over its first within ten steps"


@dataclass(frozen=True)
class WeightUpdateRatio(NetworkRule):
    """Steps are far too large or far too small for the weights.

    Why it matters:
        The size of a step is its change of a weight compared with the weight itself. Around a thousandth is
        usual. At a tenth the optimizer throws away what it has learned; at a millionth, a million steps lead nowhere.
        Both are seen within the first steps, long before the loss curve shows it.

    How it decides:
        The hook measures the real update of each weight, momentum, decay and clipping included, at the first steps and
        now and then: u = |w' - w| / |w| with L2 norms. For each weight, r is the median of its newest five u (three at
        least). Weights that began at zero, and normalisation layers' and other vectors, are left out.

        1. Too large: after `start_step` steps the median of r over the weights is above `large_threshold`, and the
           training has not learned a tenth of its first loss (or the loss is above its first value), by medians of 20
           losses, or of halves of fewer; or the loss is at least 90 % of that of the best constant answer to the
           labels, however high it was between. Large steps that
           work are right. Where a loss may stay (several optimizers, rewards) this point is left out.
        2. Too large before: the median over the weights of their norm now over their first is above `growth_threshold`,
           and as little is learned. Steps that threw the weights so far out are small beside them afterwards. Where a
           loss may stay, one of the first ten steps must have changed the weights by more than half of their size.
        3. Too small: after n steps, `start_step` at least, the largest r of all weights is below
           `small_threshold` x (n / `start_step`)^2, for what leads nowhere in many steps may be larger than what does
           in few; no weight can have come 10 % of its size (the sum of its u over all steps, an upper bound); and no
           training loss has fallen by more than 5 % of its size, beyond twice the error of that (medians of the first
           and of the newest steps). Where a loss may stay or is ever negative (several optimizers, rewards) it
           does not count, and only r below `small_threshold` counts.
        4. Torn at the start: one of the first ten steps changed the weights by more than half of their size (median
           over the weights), and a loss rose above `torn_threshold` times its first value within as many steps. What
           the initialisation had is gone, and what comes after is learned from where the step led. Losses that may
           stay, or that are zero at first, are left out.
        5. While the learning rate rises (warm-up) nothing is too small, unless r is below `small_threshold` for ten
           times `start_step` steps. A loss far below chance (cross entropy under 0.7 ln(classes)) has learned before:
           fine-tuning takes small steps. So does a parameter that is frozen, or that gets no gradient: it is
           `parameters-not-trained`'s.

        A warning; critical where the loss is above 1.5 times its first value, or all r are below 1e-8.

        Amazon's WeightUpdateRatio has the two thresholds (10 and 1e-8) and compares two saved steps; the formula is not
        documented, and frozen weights always fire. It is the preset `aws-docs`.

    Example:
        ```python
        from trackside.situation.weight_updates import verdict_on

        usual = {"Net_a.weight": 1e-3, "Net_b.weight": 4e-3}
        assert verdict_on(usual, large=0.1, small=1e-6) == ""
        assert verdict_on({name: 0.5 for name in usual}, large=0.1, small=1e-6) == "large"
        assert verdict_on({name: 1e-9 for name in usual}, large=0.1, small=1e-6) == "small"
        ```

    References:
        - Karpathy: CS231n notes, "ratio of weights:updates": about 1e-3.
        - You, Gitman, Ginsburg: Large batch training of convolutional networks (2017): the ratio as a trust region.
        - Amazon SageMaker Debugger, built-in rule WeightUpdateRatio: the parameters.
    """

    rule_id = "weight-update-ratio"
    code = "TS118"
    watches = ("weights",)
    patience = 2
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.LEARNING_RATE_TOO_LOW)
    suspects = (*only(DIVERGES, ">"), *only(LEARNS_NOTHING, "<"))
    what_to_do = (
        "Divide the learning rate by ten where steps are too large, multiply it by ten where they are too small.",
        "Aim for updates of about a thousandth of the weights.",
    )

    large_threshold: float = parameter(0.1, "relative update above which a step is too large", minimum=0)
    small_threshold: float = parameter(
        1e-6, "relative update below which a step is too small at `start_step`", minimum=0
    )
    growth_threshold: float = parameter(
        10.0, "norm of the weights over their first above which steps were too large", minimum=1
    )
    torn_threshold: float = parameter(
        2.0, "loss over its first within the first steps, above which they tore the weights", minimum=1
    )
    start_step: int = parameter(30, "step from which on steps can be too large or too small", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per weight with steps that are too large or too small, the largest excess first."""
        ratios = typical_ratios(window)
        small = self._small(window)
        kind = verdict_on(ratios, large=self.large_threshold, small=small)
        if not kind:
            return self._thrown_out(window) or self._torn(window)
        if not (self._is_too_large(window) if kind == "large" else self._is_too_small(window)):
            return []
        columns = {column.tensor: column for column in measured_ratios(window)}
        threshold = self.large_threshold if kind == "large" else small
        concerned = [name for name, r in ratios.items() if (r > threshold if kind == "large" else r < threshold)]
        concerned.sort(key=lambda name: ratios[name], reverse=kind == "large")
        found = [self._finding(window, columns[name], ratios[name], kind, threshold) for name in concerned]
        is_hopeless = kind == "small" and all(each.observed < HOPELESS for each in found)
        return [replace(each, grade=Severity.CRITICAL) for each in found] if is_hopeless else found

    def lacks(self, window: Window) -> str:
        """Name the missing input: measured updates."""
        return "" if typical_ratios(window) else f"{FEWEST} measurements of the updates of weights"

    def _is_too_large(self, window: Window) -> bool:
        if not must_loss_fall(window) or window.step < self.start_step:
            return False
        fewest = min(len(column.values) for column in training_losses(window))
        learned = learned_share(
            window, newest=max(1, min(NEWEST_LOSSES, fewest // 2))
        )  # of losses apart from the first ones
        return learned is not None and (learned < LEARNS or all_as_guessing(window, share=NEAR_GUESSING))

    def _thrown_out(self, window: Window) -> list[Finding]:
        """Return one finding per weight that has grown out of all proportion."""
        if not self._may_have_grown(window):
            return []
        norms = norms_of_weights(window)
        growths = [float(column.values[-1] / column.values[0]) for column in norms]
        limit = self.growth_threshold
        if not growths or not median(growths) > limit:
            return []
        if not (self._is_too_large(window) if must_loss_fall(window) else was_torn(window)):
            return []
        found = [(g, c) for g, c in zip(growths, norms, strict=True) if g > limit]
        found.sort(key=lambda pair: -pair[0])
        return [
            self._finding(window, replace(c, values=c.values / c.values[0]), g, "large", limit, measure=_GROWTH)
            for g, c in found
        ]

    def _torn(self, window: Window) -> list[Finding]:
        """Return a finding for a loss that the first steps drove far above its first value, with the weights."""
        if window.step < self.start_step or not must_loss_fall(window) or not was_torn(window):
            return []
        found = []
        for column in training_losses(window):
            place = int(column.values[:COURSE_STEPS].argmax())
            first, highest = float(column.values[0]), float(column.values[place])
            if first > 0 and np.isfinite(column.values).all() and highest > self.torn_threshold * first:
                rose = replace(column, values=column.values / first)
                tore = self._finding(window, rose, highest / first, "large", self.torn_threshold, measure=_TORN)
                found.append(replace(tore, since_step=int(column.steps[place])))
        return found

    def _may_have_grown(self, window: Window) -> bool:
        panels = window.newest(window.tensors("weights"), "l2", last=1, mode=None)
        ends = ((panel.oldest[:, 0], panel.newest[:, -1]) for panel in panels)
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is left out later
            return any(bool((now[first > 0] / first[first > 0] > self.growth_threshold).any()) for first, now in ends)

    def _small(self, window: Window) -> float:
        """Return the relative update below which steps are too small. The limit grows with the number of steps."""
        if not must_loss_fall(window) or rates_rise(window):
            return self.small_threshold
        return self.small_threshold * max(1.0, window.step / max(1, self.start_step)) ** 2

    def _is_too_small(self, window: Window) -> bool:
        way = Evidence(window).way
        if (
            way is None
            or way[0] > NEGLIGIBLE_SHARE
            or window.step < (TENFOLD if rates_rise(window) else 1) * self.start_step
        ):
            return False
        return not (must_loss_fall(window) and (has_gained(window, share=GAIN) or has_learned_before(window)))

    def _finding(
        self, window: Window, column: Column, ratio: float, kind: str, threshold: float, *, measure: str = _RATIO
    ) -> Finding:
        learned = learned_share(window)
        loss_left = 1 - learned if learned is not None else math.nan
        module = window.facts.module_of(column.tensor) if window.facts else None
        beyond = column.values > threshold if kind == "large" else column.values < threshold
        within = np.flatnonzero(~beyond)
        place = min(int(within[-1]) + 1, len(column.steps) - 1) if within.size else 0
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=window.step,
            since_step=int(column.steps[place]),
            measure=measure,
            observed=ratio,
            relation=">" if kind == "large" else "<",
            threshold=threshold,
            statistics={"loss_left": loss_left},
            grade=Severity.CRITICAL if kind == "large" and loss_left > HALF_AS_MUCH_AGAIN else Severity.WARNING,
            series=column.series,
            place=module.line if module else "",
        )
