"""exploding-gradient: gradients are out of all proportion to the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.evidence.causes import CERTAIN
from trackside.evidence.suspects import FirstOf, Suspect
from trackside.rules.advice import Advice, Concerns
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.constants import FEWEST, LASTING_STEPS, NEAR_A_LIMIT, NEWEST, TWICE
from trackside.situation.medians import median, medians_of_rows
from trackside.situation.phases import newest_phase, since
from trackside.trial.window import MOST_IN_PANEL, Column, Panel, Window

PROPORTION, GROWTH = "norm of the gradient over that of the weight", "norm of the gradients over their usual one"


@dataclass(frozen=True)
class ExplodingGradient(NetworkRule):
    """Gradients are out of all proportion to the weights, or grow beyond all measure.

    Why it matters:
        Gradients that grow from layer to layer, or from one time step of a recurrent network to the next, end as
        infinity. Long before that a single one throws the weights anywhere; with Adam or clipping nothing breaks, and
        the training only stays bad.

    How it decides:
        With the L2 norms that the always-on statistics record of each gradient and now and then of each weight:

        1. Proportion: q = |g| / |w| for each weight of two dimensions or more, the median of its newest three. It fires
           where the median of q over the weights is above `proportion`. Usual is 0.001 to 10; a loss in large units (a
           squared error of prices) makes it larger.
        2. Growth: n is the norm of all gradients together. Over the first 20 steps it has a median m. It fires where
           even the smallest n of the newest three steps is above `growth` x m, for finite numbers.
        3. Late growth: it fires as well where that smallest n is above `recent_growth` x the median of the (at most 61)
           steps before the newest three, and above 2 x the largest that the run has lived through before (of medians of
           three). A run that blows up after a good start has gradients no larger than those of its first steps for a
           while.

        A new optimizer begins anew for points 2 and 3: a second trainer in one process has gradients of its own.

        Gradients that are no longer finite are `exploding-tensor`'s. Amazon's Debugger has no such rule: its
        ExplodingTensor waits for infinity.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.exploding_gradient import growth_of, recent_growth_of

        assert growth_of(np.concatenate([np.ones(40), [1e5, 2e5, 1e6]])) == 1e5
        assert growth_of(np.ones(43)) == 1.0
        assert growth_of(np.ones(5)) is None
        assert recent_growth_of(np.concatenate([np.full(20, 90.0), np.ones(40), [200.0, 300.0, 400.0]])) == 200.0
        ```

    References:
        - Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks (2013).
        - Zhang et al.: AutoTrainer (ICSE 2021): ratio of gradients of layers as the symptom.
    """

    rule_id = "exploding-gradient"
    code = "TS103"
    watches = ("gradients",)
    patience = 2
    since = "0.1"
    likely_causes = (Cause.EXPLODING_GRADIENTS, Cause.BAD_INITIALIZATION)
    suspects = (
        *CERTAIN,
        Suspect(Cause.EXPLODING_GRADIENTS, "{comparison}"),
        FirstOf((Suspect(Cause.BAD_INITIALIZATION, only=(PROPORTION,)),), (Suspect(Cause.LEARNING_RATE_TOO_HIGH),)),
    )
    what_to_do = (
        Advice("Clip the gradient norm (torch.nn.utils.clip_grad_norm_).", Concerns.UNCLIPPED_LOOPS),
        "Initialise smaller, and normalise the targets.",
        "Lower the learning rate, or warm it up.",
    )

    proportion: float = parameter(1e5, "norm of a gradient over that of its weight, above which it fires", minimum=0)
    growth: float = parameter(
        1e3, "norm of all gradients over that of the first steps, above which it fires", minimum=1
    )

    recent_growth: float = parameter(
        50.0, "norm of all gradients over that of the steps before, above which it fires", minimum=1
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per weight out of proportion, else one per worker with grown gradients."""
        return self._disproportionate(window) or self._grown(window)

    def _disproportionate(self, window: Window) -> list[Finding]:
        if not _is_out_of_proportion(window, self.proportion):
            return []
        found = [(column, q) for name in window.tensors("weights") for column, q in _proportions(window, name)]
        if not found or not median([q for _, q in found]) > self.proportion:
            return []
        found.sort(key=lambda pair: -pair[1])
        facts = window.facts
        return [
            finding_of(
                window,
                column,
                PROPORTION,
                q,
                above=self.proportion,
                since=int(column.steps[0]),
                place=module.line if facts and (module := facts.module_of(column.tensor)) else "",
            )
            for column, q in found
            if q > self.proportion
        ]

    def _may_have_grown(self, panels: Sequence[Panel]) -> bool:
        """Return False if the first and the newest steps alone show a norm far below the limits.

        The whole history of all gradients is added up only if it may lead to a finding.
        """
        count = max(panel.count for panel in panels)
        longest = [panel for panel in panels if panel.count == count]
        if count < MOST_IN_PANEL + NEWEST:
            return True
        first, newest = (
            np.square(np.concatenate(parts)).sum(axis=0)
            for parts in zip(*[(panel.oldest, panel.newest) for panel in longest], strict=True)
        )
        first, newest = np.sqrt(first[np.isfinite(first)]), np.sqrt(newest)
        if len(first) < LASTING_STEPS or not np.isfinite(newest).all():
            return True
        limits = (
            self.growth * median(first[:LASTING_STEPS]),
            self.recent_growth * median(newest[:-NEWEST]),
        )
        return not float(newest[-NEWEST:].min()) < NEAR_A_LIMIT * min(limits)

    def _grown(self, window: Window) -> list[Finding]:
        found = []
        began = newest_phase(window)
        suspects = {worker for worker, panels in _panels_by_worker(window) if began or self._may_have_grown(panels)}
        for worker, columns in _of_equal_length(window, first_step=began) if suspects else ():
            if worker not in suspects:
                continue
            steps, norms = _total_norms(columns)
            growth, threshold = growth_of(norms), self.growth
            if growth is None or not growth > threshold:
                growth, threshold = recent_growth_of(norms), self.recent_growth
            if growth is None or not growth > threshold:
                continue
            usual = float(norms[-NEWEST:].min()) / growth
            large = norms > threshold * usual
            calm = np.flatnonzero(~large)
            found.append(
                finding_of(
                    window,
                    "all gradients",
                    GROWTH,
                    growth,
                    above=threshold,
                    since=int(steps[calm[-1] + 1 if calm.size and calm[-1] + 1 < len(steps) else -1]),
                    worker=worker,
                    series=tuple([(int(s), float(v)) for s, v in zip(steps[-20:], norms[-20:], strict=True)]),
                    statistics={"usual": usual},
                )
            )
        return found


def growth_of(norms: np.ndarray) -> float | None:
    """Return the smallest of the newest three norms over the median of the first 20; None for too few norms, or zeros.

    `norms`: of all gradients together, one per step, shape (n,).
    """
    if len(norms) < LASTING_STEPS + NEWEST:
        return None
    usual = median(norms[:LASTING_STEPS])
    return float(norms[-NEWEST:].min()) / usual if usual > 0 else None


def recent_growth_of(norms: np.ndarray) -> float | None:
    """Return the smallest of the newest three norms over the median of those before.

    None for too few norms, zeros, and norms that the run has lived through before.

    `norms`: of all gradients together, one per step, shape (n,).
    """
    if len(norms) < LASTING_STEPS + NEWEST:
        return None
    now, usual = float(norms[-NEWEST:].min()), median(norms[-MOST_IN_PANEL:-NEWEST])
    if not usual > 0:
        return None
    before = np.lib.stride_tricks.sliding_window_view(norms[:-NEWEST], NEWEST)
    return now / usual if now > TWICE * float(medians_of_rows(before).max()) else None


def _proportions(window: Window, name: str) -> list[tuple[Column, float]]:
    """Return the gradient's column and |g| / |w| of a weight, for each worker that measured both."""
    if _is_vector(window, name):
        return []
    weights = {column.worker: column for column in window.statistic(name, "l2", mode=None)}
    pairs = []
    for column in window.statistic(f"gradient/{name}", "l2", mode=None):
        weight = weights.get(column.worker)
        if weight is None or len(column.values) < FEWEST or not weight.values[-1] > 0:
            continue
        newest = sorted(column.values[-NEWEST:].tolist())
        if all(map(math.isfinite, newest)):
            pairs.append((column, newest[NEWEST // 2] / float(weight.values[-1])))
    return pairs


def _of_equal_length(window: Window, *, first_step: int) -> list[tuple[str, list[Column]]]:
    """Return (worker, norms of its gradients) by worker, of the gradients recorded most often."""
    by_worker: dict[str, list[Column]] = {}
    for name in window.tensors("gradients"):
        for column in since(window.statistic(name, "l2", mode=None), first_step):
            by_worker.setdefault(column.worker, []).append(column)
    found = []
    for worker, columns in sorted(by_worker.items()):
        length = max(len(column.steps) for column in columns)
        found.append((worker, [column for column in columns if len(column.steps) == length]))
    return found


def _total_norms(columns: Sequence[Column]) -> tuple[np.ndarray, np.ndarray]:
    """Return (steps, norm of all gradients) over the steps at which all were recorded and finite."""
    norms = np.sqrt(np.sum([np.square(column.values) for column in columns], axis=0))
    sound = np.isfinite(norms)
    return columns[0].steps[sound], norms[sound]


def _panels_by_worker(window: Window) -> list[tuple[str, list[Panel]]]:
    """Return (worker, norms of its gradients), sorted by worker."""
    by_worker: dict[str, list[Panel]] = {}
    for panel in window.newest(window.tensors("gradients"), "l2", last=MOST_IN_PANEL, mode=None):
        for worker in dict.fromkeys(panel.workers):
            by_worker.setdefault(worker, []).append(panel.of_worker(worker))
    return sorted(by_worker.items())


def _is_out_of_proportion(window: Window, proportion: float) -> bool:
    """Return True if the median of all proportions is too large."""
    weights = {
        (worker, tensor): norm
        for panel in window.newest(window.tensors("weights"), "l2", last=1, mode=None)
        for worker, tensor, norm in zip(panel.workers, panel.tensors, panel.newest[:, -1].tolist(), strict=True)
        if norm > 0 and not _is_vector(window, tensor)
    }
    found = []
    names = tuple([f"gradient/{name}" for name in window.tensors("weights")])
    for panel in window.newest(names, "l2", last=NEWEST, mode=None):
        if panel.count < FEWEST:
            continue
        for worker, name, newest in zip(panel.workers, panel.tensors, panel.newest.tolist(), strict=True):
            weight = weights.get((worker, name.removeprefix("gradient/")))
            if weight is not None and all(map(math.isfinite, newest)):
                found.append(sorted(newest)[NEWEST // 2] / weight)
    return bool(found) and median(found) > proportion


def _is_vector(window: Window, name: str) -> bool:
    held = window.facts.parameter(name) if window.facts else None
    return held is not None and len(held.shape) < 2
