"""vanishing-gradient: the early layers of a network get no gradient to learn from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.causes import CERTAIN, TORN
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import FirstOf, Suspect
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import HARDLY_VISIBLE, LONG_STEPS, STILL, VISIBLE
from trackside.situation.vanished_gradients import (
    grows,
    largest_of,
    learns_nothing,
    loss_left_of,
    mean_of_nonzero,
    module_of,
    moves,
    quiet_since,
    side_paths,
    updates_of,
    vanished,
)
from trackside.trial.window import Column, Window

SIZE, SHARE = "mean |gradient|", "share of the largest mean |gradient|"


@dataclass(frozen=True)
class Vanished(Details):
    """Details of a finding.

    largest_mean_abs_gradient  largest mean |gradient| of the step
    zero_gradients  number of gradients of zeros
    is_side_path  True if another path leads around the quiet modules
    """

    largest_mean_abs_gradient: float = 0.0
    zero_gradients: int = 0
    is_side_path: bool = False


def _beside_another(known: Known) -> Answer:
    lead = known.lead
    largest = Vanished.of(lead).largest_mean_abs_gradient
    size = lead.observed * largest if lead.measure == SHARE else lead.observed
    return f"{lead.subject} gets {size:.2g}, another {largest:.2g}"


@dataclass(frozen=True)
class VanishingGradient(Rule):
    """Gradients have become too small to move the weights.

    Why it matters:
        A layer whose gradient is a ten-millionth of its neighbour's does not learn: its weights stay what the random
        initialisation made them, however long the job runs. Nothing crashes, and the loss may even creep down a little,
        because the last layers still move. The usual cause is depth: each saturating activation (sigmoid, tanh)
        multiplies the gradient by a factor well below one on its way back, so that it shrinks geometrically towards the
        input.

    How it decides:
        At each step at which the always-on statistics measured gradients, or at which they were saved, for each worker:

        1. The size of a gradient tensor g is the mean of |g| over the entries of g that are not exactly zero. Entries
           that took no part in the step (rows of an embedding that no sample used, units a ReLU switched off) do
           not show how far a gradient travels. A tensor of zeros only, or a parameter without a gradient (frozen),
           takes no part at all and is never reported; the finding counts such tensors as `zero_gradients`.
        2. A tensor is quiet when its size < `threshold`, and a module is quiet when all its gradients are. A tiny
           gradient beside a sound one in the same module is mathematics, not a fault: a bias before batch
           normalisation, or the bias of an attention key, has the gradient 0 in theory and rounding noise in practice.
        3. Let M be the largest size of the step. A quiet module has vanished when it stays behind the rest: size <
           `relative_threshold` x M. Or else, if everything is quiet (M < `threshold`), when the run has learned
           nothing: over 90 % of its first loss is left.
        4. A run that is done is silent: with at most 10 % of the first loss left (median of the newest five), small
           gradients are what success looks like. Losses are used where the run saved them; without them, only the
           comparison with M decides.
        5. A gradient that grows fast has not vanished: one that is four times what it was after half as many steps, or
           in the first hundred steps ten times what it was at first. So it is behind gates and a last layer that begin
           at zero, and open.
        6. A small gradient that moves its weights has not vanished: the newest relative updates |w' - w| / |w| of a
           parameter of the module are at least 1e-5, and more than weight decay explains. Adam divides a gradient by
           its own size, so that a small one trains as fast as a large one, until it is far below `eps`. The attention
           logits of a narrow transformer begin near zero, and the gradients of its queries and keys with them.
           It has vanished all the same if it is that of the first modules and the run has learned nothing in 100 steps
           (the loss is that of a guess, or where none is known, has not fallen): Adam moves a weight by noise, too.
        7. A gradient that vanishes on its way leaves nothing for the layers before. If a module before the quiet one
           (in the order in which the model registers them) gets a sound gradient, the quiet one is a side path: it
           must be quiet for 100 steps, and is a warning then.
        8. Relative alone, a warning: no gradient is below `threshold`, but that of the first modules is below a
           ten-thousandth of the largest, and their weights stand still: they change by less than a millionth of their
           size per step, and by less than a thousandth of the change of others, after 100 steps.
        9. Three judged steps in a row must show a vanished gradient; a single quiet step raises no alarm.

        The smallest gradient leads. Amazon's VanishingGradient has the same `threshold` and reports every tensor whose
        mean |g|, zeros included, is below it. Except for point 8, the points only take findings away: whatever this
        rule reports, that one would report too.

        Affected layers that begin at the input and end in the middle point to the depth. If every layer is affected,
        the loss may be scaled down far too much, or the output saturated by inputs that were never normalised.

    Example:
        Ten layers of sigmoid: the gradient has lost nine orders of magnitude on its way to the first.

        ```python
        from trackside.situation.vanished_gradients import vanished

        sizes = {"gradient/Net_0.weight": 4.7e-12, "gradient/Net_2.weight": 3.1e-8, "gradient/Net_20.weight": 0.021}
        found = vanished(sizes, threshold=1e-7, relative_threshold=1e-3)
        assert found == ("gradient/Net_0.weight", "gradient/Net_2.weight")

        converged = {name: 2e-8 for name in sizes}
        assert vanished(converged, threshold=1e-7, relative_threshold=1e-3, loss_left=0.001) == ()
        ```

    References:
        - Bengio, Simard, Frasconi: Learning long-term dependencies with gradient descent is difficult (1994).
        - Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks (2010).
        - Amazon SageMaker Debugger, built-in rule VanishingGradient: the parameter and its default.
    """

    rule_id = "vanishing-gradient"
    code = "TS117"
    is_of_networks = True
    watches = ("gradients",)
    save_interval = 100
    needs = ()
    severity = Severity.CRITICAL
    since = "0.1"
    patience = 3
    likely_causes = (Cause.VANISHING_GRADIENTS, Cause.SATURATED_UNITS)
    suspects = (
        *CERTAIN,
        Suspect(Cause.VANISHING_GRADIENTS, _beside_another),
        FirstOf(TORN, (Suspect(Cause.SATURATED_UNITS),)),
    )
    what_to_do = (
        "Replace sigmoid and tanh in the hidden layers by ReLU, GELU or SiLU.",
        "Add normalisation (BatchNorm, LayerNorm) or residual connections between the layers named above.",
        "Initialise to match the activation: Kaiming for ReLU, Xavier for tanh.",
    )

    threshold: float = parameter(1e-7, "mean |gradient| below which a gradient counts as quiet", minimum=0)
    relative_threshold: float = parameter(
        1e-3,
        "share of the step's largest mean |gradient| below which a quiet gradient has vanished",
        minimum=0,
        maximum=1,
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per gradient tensor and worker that has vanished at this step, smallest first."""
        gradients = window.tensors("gradients")
        means = window.at_step(gradients, "abs_mean").by_worker()
        zero_shares = window.at_step(gradients, "zero_share").by_worker() if means else {}
        findings = []
        for worker, of_worker in sorted(means.items()):
            shares = zero_shares.get(worker, {})
            sizes = {tensor: mean_of_nonzero(mean, shares.get(tensor, 0.0)) for tensor, mean in of_worker.items()}
            findings += self._judge(window, worker, sizes)
        return sorted(findings, key=lambda finding: finding.observed)

    def advice(self, facts: ModelFacts | None) -> tuple[str, ...]:
        """Return the advice, without that of modules that the model has, or of activations that it has not."""
        if facts is None or not facts.modules:
            return self.what_to_do
        activations, normalisation, initial = self.what_to_do
        saturates = any(module.activation in ("sigmoid", "tanh") for module in facts.modules)
        is_normalised = any(module.role == "normalization" for module in facts.modules)
        fitting = ((activations, saturates), (normalisation, not is_normalised), (initial, True))
        return tuple(text for text, fits in fitting if fits)

    def _judge(self, window: Window, worker: str, sizes: Mapping[str, float]) -> list[Finding]:
        loss_left = loss_left_of(window, worker)
        quiet = vanished(
            sizes, threshold=self.threshold, relative_threshold=self.relative_threshold, loss_left=loss_left
        )
        if not quiet:
            return self._far_behind(window, worker, sizes, loss_left)
        moved = {module_of(name) for name in quiet if moves(window, name, worker=worker, size=sizes[name])}
        if moved and window.facts is not None and window.step >= LONG_STEPS and learns_nothing(window, worker):
            moved &= {module_of(name) for name in side_paths(window.facts, sizes, quiet)}
        lasting = [name for name in quiet if module_of(name) not in moved]
        aside = side_paths(window.facts, sizes, lasting)
        columns = [c for name in lasting for c in window.statistic(name, "abs_mean") if c.worker == worker]
        return [
            self._finding(window, column, sizes, is_side_path=column.tensor in aside)
            for column in columns
            if not grows(column) and (column.tensor not in aside or self._is_quiet_for_long(window, column))
        ]

    def _is_quiet_for_long(self, window: Window, column: Column) -> bool:
        return window.watched_since(quiet_since(column, self.threshold)) >= LONG_STEPS

    def _far_behind(
        self, window: Window, worker: str, sizes: Mapping[str, float], loss_left: float | None
    ) -> list[Finding]:
        """Return the findings for gradients of the first modules that are small beside the others alone."""
        limit = HARDLY_VISIBLE * largest_of(sizes)
        names = vanished(sizes, threshold=limit, relative_threshold=1.0, loss_left=loss_left)
        if not names or window.facts is None or side_paths(window.facts, sizes, names):
            return []
        updates = updates_of(window, [name for name, size in sizes.items() if size != 0], worker)
        fastest = max(updates.values(), default=0.0)
        most = min(STILL, VISIBLE * fastest)
        columns = [c for name in names for c in window.statistic(name, "abs_mean") if c.worker == worker]
        if any(updates.get(column.tensor, math.inf) >= most or grows(column) for column in columns):
            return []
        return [
            replace(
                self._finding(window, column, sizes, is_side_path=False),
                measure=SHARE,
                observed=float(column.values[-1]) / largest_of(sizes),
                threshold=HARDLY_VISIBLE,
                since_step=int(column.steps[0]),
                grade=Severity.WARNING,
            )
            for column in columns
            if column.values[-1] < limit and int(column.steps[-1] - column.steps[0]) >= LONG_STEPS
        ]

    def _finding(self, window: Window, column: Column, sizes: Mapping[str, float], *, is_side_path: bool) -> Finding:
        return finding_of(
            window,
            column,
            SIZE,
            float(column.values[-1]),
            below=self.threshold,
            since=quiet_since(column, self.threshold),
            statistics=Vanished(largest_of(sizes), sum(size == 0 for size in sizes.values()), is_side_path).numbers(),
            grade=Severity.WARNING if is_side_path else Severity.CRITICAL,
        )
