"""large-epsilon: the constant under an optimizer's fraction outweighs the gradients, and steps are tiny."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ParameterFacts
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.aims import has_several_aims
from trackside.situation.constants import HALF_LEARNED, SHORT_STRETCH
from trackside.situation.losses.losses import learned_share
from trackside.situation.medians import median
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class Sizes(Details):
    """Details of a finding.

    least   least ratio of epsilon to the size of a gradient
    update  median change of the weights in a step, over their size
    """

    least: float = 0.0
    update: float = 0.0


@dataclass(frozen=True)
class LargeEpsilon(PyTorchRule):
    """The epsilon of an adaptive optimizer outweighs the gradients, and steps are tiny.

    Why it matters:
        Adam divides by the size of the gradients so far, plus epsilon. An epsilon far above that size takes the place
        of it: each step is the gradient times rate / epsilon, often a hundredth of what the rate promises. The loss
        falls all the while, so slowly that data or model seem to be at fault.

    How it decides:
        For each trained weight of two dimensions or more of an optimizer with an epsilon of `least_epsilon` and above,
        with the medians of the newest five measurements:

        1. e is its epsilon over the root mean square of its gradient; e > `times` for every weight.
        2. u is its update over the weight, L2 norms; the median of u over all weights is below `small_update`: around a
           thousandth is usual. A large epsilon with a rate that makes up for it, as with RMSprop for Inception, is
           silent.
        3. From `start_step` on, and while the loss has lost less than half of its first value. Programs with several
           optimizers are left out.

    Example:
        ```python
        from trackside.rules.tensors.large_epsilon import over_gradient

        assert over_gradient(1.0, norm=0.5, size=2500) == 100.0
        ```

    References:
        - Kingma, Ba: Adam (ICLR 2015), algorithm 1: epsilon of 1e-8.
        - TensorFlow, `tf.keras.optimizers.Adam`: 1.0 or 0.1 for Inception, with a rate to match.
    """

    rule_id = "large-epsilon"
    code = "TS123"
    watches = ("weights", "gradients")
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_LOW,)
    suspects = (Suspect(Cause.LEARNING_RATE_TOO_LOW, "eps is {least:.3g} times the gradients and more"),)
    shows_its_cause = True
    what_to_do = ("Leave eps at its default (1e-8), or raise the learning rate by as much as eps outweighs gradients.",)

    times: float = parameter(10.0, "epsilon over the size of gradients, above which it outweighs them", minimum=1)
    least_epsilon: float = parameter(1e-4, "epsilon from which on it is looked at", minimum=0)
    small_update: float = parameter(5e-4, "relative update of the weights, below which steps are tiny", minimum=0)
    start_step: int = parameter(100, "step from which on it is judged", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding, of the weight with the smallest gradient, if epsilon outweighs the gradients of all."""
        if window.step < self.start_step or has_several_aims(window):
            return []
        weights = [*_weights(window, least=self.least_epsilon)]
        if not weights:
            return []
        learned = learned_share(window)
        if learned is None or learned >= HALF_LEARNED:
            return []
        ratios, updates = list[tuple[float, Column]](), list[float]()
        for held, epsilon in weights:
            gradients = window.statistic(held.gradient, "l2", mode=None)
            changes = window.statistic(held.name, "update_ratio", mode=None)
            if not gradients or not changes or len(gradients[0].values) < SHORT_STRETCH:
                return []
            norm = median(gradients[0].values[-SHORT_STRETCH:])
            ratios.append((over_gradient(epsilon, norm=norm, size=held.size), gradients[0]))
            updates.append(median(changes[0].values[-SHORT_STRETCH:]))
        least = min(ratio for ratio, _ in ratios)
        if not least > self.times or not median(updates) < self.small_update:
            return []
        ratio, gradient = max(ratios, key=lambda pair: pair[0])
        return [
            finding_of(
                window,
                gradient,
                "epsilon over the size of the gradient",
                ratio,
                above=self.times,
                since=int(gradient.steps[0]),
                statistics=Sizes(least, median(updates)).numbers(),
            )
        ]

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: how much epsilon outweighs, and the size of steps."""
        sizes = Sizes.of(findings[0])
        return (
            f"The optimizer's epsilon is at least {sizes.least:.3g} times the size of the gradients, and a step "
            f"changes the weights by {sizes.update:.2g} of their size."
        )


def over_gradient(epsilon: float, *, norm: float, size: int) -> float:
    """Return epsilon over the root mean square of a gradient; infinite for a gradient of zeros.

    Args:
        epsilon: The epsilon.
        norm: L2 norm of the gradient.
        size: Number of its elements.
    """
    return float(epsilon * np.sqrt(size) / norm) if norm > 0 else float("inf")


def _weights(window: Window, *, least: float) -> Iterator[tuple[ParameterFacts, float]]:
    """Yield trained matrices, and the epsilon of their group; nothing if any is below `least`."""
    facts = window.facts
    if facts is None:
        return
    optimizers = {each.name: each for each in facts.optimizers}
    found = []
    for held in facts.parameters:
        if not held.optimizer or len(held.shape) < 2 or not held.requires_grad:
            continue
        epsilon = (
            optimizers[held.optimizer].hyperparameter("eps", group=held.group) if held.optimizer in optimizers else None
        )
        if epsilon is None or epsilon < least:
            return
        found.append((held, epsilon))
    yield from found
