"""Measurements of weights, gradients and learning rates that distinguish causes. Pure functions of a window.

Every result may be None: an old run, or a run without always-on statistics, holds less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cached_property import cached_property
from trackside.contracts.model_facts import LossFacts, ParameterFacts
from trackside.contracts.observations import CLIPPINGS, HAS_GRADIENT, LOOKS_UNTRAINED
from trackside.contracts.run.recorded_names import CLIPPING, GRADIENTS_KEPT
from trackside.situation.constants import ENOUGH_STEPS, NEARLY_ALL, RISEN, SHORT_WAY, VALUES_OF_A_LEVEL
from trackside.situation.losses.losses import finite
from trackside.situation.medians import median
from trackside.situation.rates import collapsed_at, warms_up
from trackside.situation.training_parts import History
from trackside.trial.window import Column, Window

_LOW_PRECISION = ("float16",)


@dataclass(frozen=True)
class Evidence:
    """The numbers of one window that distinguish causes."""

    window: Window

    @cached_property
    def update_ratio(self) -> float | None:
        """Median over weights of the newest relative updates |w' - w| / |w|."""
        ratios = [
            median(column.values[-VALUES_OF_A_LEVEL:])
            for column in self.window.columns("weights", "update_ratio", mode=None)
        ]
        finite = [ratio for ratio in ratios if math.isfinite(ratio)]
        return median(finite) if finite else None

    @cached_property
    def way(self) -> tuple[float, int] | None:
        """The longest way of a weight, as a share of its size, and the number of steps it took.

        The way is the sum of the relative updates |w' - w| / |w| over all steps, interpolated between measurements: an
        upper bound, since steps to and fro add up too. Vectors, frozen weights, and weights that began at zero (with
        updates relative to nothing) are left out; None without any other.
        """
        ways = [
            found
            for name in self.window.tensors("weights")
            if _is_trained_matrix(self.window, name)
            for column in self.window.statistic(name, "update_ratio", mode=None)
            if (found := way_of(column)) is not None
        ]
        return max(ways, default=None)

    @cached_property
    def goes_nowhere(self) -> bool:
        """True if no weight has moved far enough to learn anything, though it had the steps for it."""
        return self.way is not None and self.way[1] >= ENOUGH_STEPS and 0 < self.way[0] < SHORT_WAY

    @cached_property
    def learning_rates(self) -> tuple[Column, ...]:
        """The learning rate of each parameter group, a column each."""
        names = [name for name in self.window.tensors("hyperparameters") if name.endswith("/lr")]
        return tuple([column for name in names for column in self.window.statistic(name, "mean", mode=None)])

    def _places(self, column: Column) -> NDArray[np.int64]:
        return self.window.rests(column.worker).places(column.steps)

    @cached_property
    def collapsed_rate(self) -> tuple[int, float, float] | None:
        """(first step, peak, now) of a learning rate that collapsed long ago; None without one."""
        for column in self.learning_rates:
            if (since := collapsed_at(column.values, places=self._places(column))) is not None:
                return int(column.steps[since]), float(column.values.max()), float(column.values[-1])
        return None

    @cached_property
    def risen_rate(self) -> tuple[float, float] | None:
        """(first, now) of a learning rate that rose to a multiple of its first value without a warm-up, else None."""
        for column in self.learning_rates:
            first, now = float(column.values[0]), float(column.values[-1])
            if 0 < RISEN * first < now and not warms_up(column.values, places=self._places(column)):
                return first, now
        return None

    @cached_property
    def keeps_gradients(self) -> bool:
        """True if gradients are not cleared between steps."""
        columns = self.window.statistic(GRADIENTS_KEPT, "mean", mode=None)
        return any(
            len(column.values) >= VALUES_OF_A_LEVEL and column.values[-VALUES_OF_A_LEVEL:].mean() > NEARLY_ALL
            for column in columns
        )

    @cached_property
    def zero_gradients(self) -> float | None:
        """The share of weights (by tensors) with a newest gradient of zeros only; None without gradients."""
        norms = [
            float(column.values[-VALUES_OF_A_LEVEL:].max())
            for column in self.window.columns("gradients", "l2", mode=None)
        ]
        return sum(norm == 0 for norm in norms) / len(norms) if norms else None

    @cached_property
    def had_gradients(self) -> bool:
        """True if some gradient is all zeros now and was not at first."""
        return any(
            float(column.values[-VALUES_OF_A_LEVEL:].max()) == 0 < float(column.values[0])
            for column in self.window.columns("gradients", "l2", mode=None)
        )

    @cached_property
    def first_update_ratio(self) -> float | None:
        """Median over weights of the first relative updates |w' - w| / |w| (the largest of the first ten)."""
        ratios = [
            float(column.values[:VALUES_OF_A_LEVEL].max())
            for column in self.window.columns("weights", "update_ratio", mode=None)
        ]
        finite = [ratio for ratio in ratios if math.isfinite(ratio)]
        return median(finite) if finite else None

    @cached_property
    def gradient_spread(self) -> float | None:
        """The largest gradient norm of a weight over the smallest above zero, medians of the newest."""
        norms = [
            median(column.values[-VALUES_OF_A_LEVEL:])
            for name in self._gradients_of_weights()
            for column in self.window.statistic(name, "l2", mode=None)
        ]
        sizes = [norm for norm in norms if math.isfinite(norm) and norm > 0]
        return max(sizes) / min(sizes) if len(sizes) > 1 else None

    def _gradients_of_weights(self) -> list[str]:
        of_weights = {
            f"gradient/{name}" for name in self.window.tensors("weights")
        }  # empty if gradients alone are saved
        names = self.window.tensors("gradients")
        return [name for name in names if name in of_weights or name.endswith("weight")]

    @cached_property
    def gradient_growth(self) -> float | None:
        """The present norm of all gradients over the first one, from medians of the newest and of the first values."""
        columns = self.window.columns("gradients", "l2", mode=None)
        if not columns or min(len(column.values) for column in columns) < 3 * VALUES_OF_A_LEVEL:
            return None
        first, now = (
            math.hypot(*[median(column.values[part]) for column in columns])
            for part in (slice(VALUES_OF_A_LEVEL), slice(-VALUES_OF_A_LEVEL, None))
        )
        return now / first if first > 0 else None

    @cached_property
    def weight_growth(self) -> float | None:
        """The present norm of all weights over the first one."""
        columns = self.window.columns("weights", "l2", mode=None)
        first = math.hypot(*[float(column.values[0]) for column in columns])
        return math.hypot(*[float(column.values[-1]) for column in columns]) / first if first > 0 else None

    @cached_property
    def kept_by_clipping(self) -> float | None:
        """The median share of the gradient's norm that clipping leaves; None without clipping."""
        facts = self.window.facts
        limits = [clip.limit for clip in CLIPPINGS.of(facts.program) if clip.kind == "norm"] if facts else []
        columns = self.window.statistic(CLIPPING, "mean", mode=None)
        if not limits or not columns:
            return None
        before = np.concatenate([column.values[-5 * VALUES_OF_A_LEVEL :] for column in columns])
        before = before[np.isfinite(before) & (before > 0)]
        return median(min(limits) / np.maximum(before, min(limits))) if before.size else None

    @cached_property
    def losses(self) -> tuple[LossFacts, ...]:
        """Facts about the training's losses, from the hook."""
        facts = self.window.facts
        return facts.losses if facts is not None else ()

    @cached_property
    def is_low_precision(self) -> bool:
        """True if anything is computed in float16, with its largest number of 65,504."""
        facts = self.window.facts
        if facts is None:
            return False
        return facts.program.autocast_dtype in _LOW_PRECISION or any(
            p.dtype in _LOW_PRECISION for p in facts.parameters
        )

    @cached_property
    def outside_optimizers(self) -> tuple[ParameterFacts, ...]:
        """Parameters that get a gradient, look untrained, and belong to no optimizer, nor did in an earlier phase."""
        facts = self.window.facts
        held = facts.parameters if facts is not None else ()
        outside = [
            p for p in held if p.requires_grad and not p.optimizer and HAS_GRADIENT.of(p) and LOOKS_UNTRAINED.of(p)
        ]
        history = History(self.window) if outside else None
        return tuple([p for p in outside if history is not None and not history.is_over(p)])

    @cached_property
    def weight_decay(self) -> float:
        """The largest weight decay of any parameter group by size; negative if it makes weights grow."""
        facts = self.window.facts
        groups = [group for optimizer in facts.optimizers for group in optimizer.groups] if facts else []
        return max((group.get("weight_decay", 0.0) for group in groups), key=abs, default=0.0)


def way_of(column: Column) -> tuple[float, int] | None:
    """Return (sum of the relative updates over all steps, their number); None with fewer than three finite values."""
    steps, ratios = finite(column)
    if len(steps) < 3:
        return None
    between = (ratios[1:] + ratios[:-1]) / 2 * np.diff(steps)
    return float(ratios[0] + between.sum()), int(steps[-1] - steps[0]) + 1


def _is_trained_matrix(window: Window, name: str) -> bool:
    held = window.facts.parameter(name) if window.facts else None
    if held is not None and (len(held.shape) < 2 or not held.requires_grad):
        return False
    return all(column.values[0] > 0 for column in window.statistic(name, "l2", mode=None))
