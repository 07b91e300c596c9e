"""collapsed-routing: a router leaves its experts without work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.constants import (
    A_HANDFUL,
    GAIN,
    MOST,
    MOST_OF_THE_TIME,
    NEGLIGIBLE_SHARE,
    ROUTING_MEASUREMENTS,
)
from trackside.situation.experts import Experts, experts_in
from trackside.situation.losses.losses import has_gained, training_losses
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class Routing(Details):
    """Details of a finding.

    is_known_of_each  True if the use of each expert is known
    learned_nothing   True if no training loss has fallen
    """

    is_known_of_each: bool = False
    learned_nothing: bool = False


@dataclass(frozen=True)
class CollapsedRouting(NetworkRule):
    """A router leaves some of its experts without work.

    Why it matters:
        In a mixture of experts the chosen ones learn, and are chosen again. Without something that balances the load a
        few take all tokens: the others keep their random start and learn nothing any more, while each of them still
        costs its memory. The loss often looks as good as that of a smaller model, which is what is being trained.

    How it decides:
        An expert without a token has a gradient of zero, or none. So this is seen without saving any activation.

        1. Experts are found by shape, not by name: modules of one class, numbered, or parameters of three dimensions
           with an expert in each row; and beside them a router, a matrix with one row or column for each.
        2. An expert is idle if none of its parameters had a gradient at any of the newest `steps` steps, of any worker.
           Of experts in rows only their number is known: the smallest share of zeros in the gradient over the newest
           four measurements and over the layer's parameters, which must be whole experts. Others may be idle each time.
        3. It fires where the idle ones are at least `share` of a layer's experts, and at least one other has gradients.

        A warning where half of a layer's experts have stayed idle and it shows in the loss: no training loss has fallen
        by a twentieth beyond its noise. Else information, for the loss of such a model can be as good as any; so it is
        for experts in rows, too. Never critical. Experts that are frozen are left out.

        It needs no neighbouring steps: it counts measurements; of a run watched in bursts, those of several bursts.

    Example:
        ```python
        import numpy as np
        from trackside.rules.program.collapsed_routing import idle_rows

        assert idle_rows(np.array([0.875, 0.9, 0.875, 0.875]), count=8) == 7
        assert idle_rows(np.array([0.875, 0.0, 0.875, 0.875]), count=8) == 0  # each had its turn
        assert idle_rows(np.array([0.45, 0.45, 0.45, 0.45]), count=8) == 0  # no whole experts
        ```

    References:
        - Shazeer et al.: Outrageously large neural networks (2017): favoured experts are trained more, and chosen more.
        - Fedus, Zoph, Shazeer: Switch transformers (2022): the loss that balances the load.
    """

    rule_id = "collapsed-routing"
    code = "TS217"
    watches = ("gradients",)
    since = "0.1"
    likely_causes = (Cause.COLLAPSED_ROUTING,)
    shows_its_cause = True
    what_to_do = (
        "Add a loss that balances the load of the experts to the training loss, with a weight of 0.01 at first.",
        "Or add noise to the router's scores in training, so that each expert is tried.",
        "If the load is balanced already: raise the weight of that loss, or lower the router's learning rate.",
    )

    steps: int = parameter(200, "newest steps without a gradient after which an expert is idle", minimum=20)
    share: float = parameter(0.25, "share of a layer's experts that are idle", minimum=0, maximum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per layer with idle experts."""
        facts = window.facts
        if facts is None or window.step < self.steps:
            return []
        found = [self._judge(window, layer) for layer in experts_in(facts)]
        return sorted([one for one in found if one is not None], key=lambda one: -one.observed)

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a model without experts."""
        return "" if experts_in(facts) else "the model has no experts with a router"

    def lacks(self, window: Window) -> str:
        """Return a clause without facts about the program, or before `steps` steps of it."""
        if window.facts is None:
            return "what a hook of this version tells of the program (modules, parameters, optimizers)"
        return "" if window.step >= self.steps else f"{self.steps} steps of the program"

    def _judge(self, window: Window, layer: Experts) -> Finding | None:
        idle, subject, since = self._idle_modules(window, layer) if layer.members else self._idle_rows(window, layer)
        share = idle / layer.count
        if not 0 < share < 1 or share < self.share:
            return None
        routing = Routing(
            is_known_of_each=bool(layer.members),
            learned_nothing=bool(training_losses(window)) and not has_gained(window, share=GAIN),
        )
        has_collapsed = share >= MOST and routing.is_known_of_each and routing.learned_nothing
        return finding_of(
            window,
            subject,
            "share of experts without a gradient",
            share,
            above=min(self.share, float(np.nextafter(share, -1))),
            since=since,
            statistics={
                "experts": float(layer.count),
                "idle": float(idle),
                **routing.numbers(),
            },
            place=layer.line,
            grade=Severity.WARNING if has_collapsed else Severity.INFO,
        )

    def _idle_modules(self, window: Window, layer: Experts) -> tuple[int, str, int]:
        """Return number of idle experts, a gradient of the first of them, and the step since which all of them are."""
        idle: list[tuple[str, int]] = []
        for names in layer.members:
            since = self._unused_since(window, names)
            if since is not None:
                idle.append((f"gradient/{names[0]}", since))
        return len(idle), idle[0][0] if idle else "", max((since for _, since in idle), default=0)

    def _unused_since(self, window: Window, names: Sequence[str]) -> int | None:
        """Return the first step after the last gradient of an expert; None if it had one of late, or may have had."""
        since, columns = 0, 0
        for name in names:
            norms = {each.worker: each for each in window.statistic(f"gradient/{name}", "l2", mode=None)}
            for column in window.statistic(f"gradient/{name}", "is_present", mode=None):
                if not self._is_enough(column, ROUTING_MEASUREMENTS):
                    return None
                columns += 1
                had = had_gradient(column, norms.get(column.worker))
                since = max(since, int(had[-1]) + 1 if had.size else int(column.steps[0]))
                if window.step - since < self.steps or np.count_nonzero(column.steps >= since) < ROUTING_MEASUREMENTS:
                    return None
        return since if columns else None

    def _idle_rows(self, window: Window, layer: Experts) -> tuple[int, str, int]:
        """Return the same of experts in rows."""
        columns = [c for name in layer.stacked for c in window.statistic(f"gradient/{name}", "zero_share", mode=None)]
        if not columns or not all(self._is_enough(column, A_HANDFUL) for column in columns):
            return 0, "", 0
        recent = [column.values[-self._newest(column, A_HANDFUL) :] for column in columns]
        idle = min(idle_rows(shares, count=layer.count) for shares in recent)
        since = 0
        for column in columns:
            busy = np.flatnonzero(column.values * layer.count < idle - NEGLIGIBLE_SHARE)
            since = max(since, int(column.steps[busy[-1]]) + 1 if busy.size else int(column.steps[0]))
        return idle, f"gradient/{layer.stacked[0]}", since

    def _newest(self, column: Column, fewest: int) -> int:
        """Return the number of measurements that are looked at: those of the newest steps, and `fewest` at least."""
        return max(fewest, int(np.count_nonzero(column.steps > column.steps[-1] - self.steps)))

    def _is_enough(self, column: Column, fewest: int) -> bool:
        """Return True if so many measurements are looked at, spread over three quarters of the steps."""
        if len(column.steps) < fewest:
            return False
        first = column.steps[-self._newest(column, fewest)]
        return bool(column.steps[-1] - first >= MOST_OF_THE_TIME * self.steps)


def had_gradient(presence: Column, norms: Column | None) -> NDArray[np.int64]:
    """Return the measured steps at which a parameter had a gradient other than zero.

    Args:
        presence: 1 where it had one, else 0.
        norms: The norms of those; None if none was measured.
    """
    had = presence.steps[presence.values > 0]
    return had if norms is None else np.setdiff1d(had, norms.steps[norms.values == 0])


def idle_rows(zero_shares: NDArray[np.float64], *, count: int) -> int:
    """Return the number of experts in the rows of a parameter that had no gradient at any measurement.

    0 if the zeros are no whole experts.

    Args:
        zero_shares: Share of zeros in the gradient, shape (n,).
        count: Number of rows.
    """
    rows = float(np.min(zero_shares)) * count
    whole = int(rows + NEGLIGIBLE_SHARE)
    return whole if abs(rows - whole) <= NEGLIGIBLE_SHARE else 0
