"""The measured training of a model's parts: their turns, gradients, updates and norms. Pure functions of a window."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from trackside.contracts.cached_property import cached_property
from trackside.contracts.model_facts import ModelFacts, ParameterFacts
from trackside.situation.constants import FEWEST, LONG_LASTING, LONG_STEPS, NOISE, SEVERAL
from trackside.situation.medians import median
from trackside.situation.parts import root_of, should_train
from trackside.situation.phases import revisions_of
from trackside.trial.window import Window


class History:
    """The earlier facts and statistics of the parameters."""

    def __init__(self, window: Window) -> None:
        self._window, self._revisions = window, revisions_of(window)

    @cached_property
    def thaws(self) -> bool:
        """True if parameters train now that were frozen, or in no optimizer, earlier in the run."""
        now = {p.name for p in self._revisions[0].parameters if p.requires_grad and p.optimizer}
        return any(
            p.name in now and not (p.requires_grad and p.optimizer)
            for earlier in self._revisions[1:]
            for p in earlier.parameters
            if p.module
        )

    def is_over(self, held: ParameterFacts) -> bool:
        """Return True if a whole model is in no optimizer now, and was in one earlier: its training has ended."""
        now, root = self._revisions[0], root_of(held)
        if any(p.optimizer for p in now.parameters if root_of(p) == root):
            return False
        # Not by the module's name: that of a model which was the second one, and is the first now, is another.
        return any(p.optimizer and p.name == held.name for each in self._revisions[1:] for p in each.parameters)

    def as_now_since(self, held: ParameterFacts) -> int:
        """Return the first step from which the parameter had the optimizer and the flag that it has now."""
        since = self._revisions[0].from_step
        for earlier in self._revisions[1:]:
            same = [p for p in earlier.parameters if p.name == held.name and bool(p.module) == bool(held.module)]
            if not any((p.optimizer, p.requires_grad) == (held.optimizer, held.requires_grad) for p in same):
                break
            since = earlier.from_step
        return min(since, self._window.step)

    def may_train_since(self, held: ParameterFacts) -> int:
        """Return the first step from which the parameter has been in an optimizer and not frozen; 0 if it is neither.

        A new optimizer does not begin a new time.
        """
        since = self._window.step
        for facts in self._revisions:
            same = [p for p in facts.parameters if p.name == held.name]
            if not any(p.requires_grad and p.optimizer for p in same):
                return 0 if facts is self._revisions[0] else min(since, self._window.step)
            since = facts.from_step
        return 0

    def without_gradient_since(self, held: ParameterFacts) -> int:
        """Return the first step after the last with a gradient of this name."""
        since = 0
        for column in self._window.statistic(held.gradient, "is_present", mode=None):
            had = np.flatnonzero(column.values > 0)
            since = max(since, int(column.steps[had[-1]]) + 1 if had.size else int(column.steps[0]))
        return min(since, self._window.step)

    def had_its_turn(self, since: int) -> bool:
        """Return True if a part that does not train since that step has had time for a turn."""
        lasted = self._window.watched_since(since)
        return lasted >= LONG_LASTING or (lasted >= LONG_STEPS and self._evaluations_after(since) >= SEVERAL)

    def _evaluations_after(self, since: int) -> int:
        steps = {
            int(step)
            for name in self._window.tensors("losses")
            for column in self._window.statistic(name, "mean", mode="EVAL")
            for step in column.steps[column.steps > since]
        }
        return sum(step - 1 not in steps for step in steps)


def takes_turns(window: Window, facts: ModelFacts, *, fewest: int) -> bool:
    """Return True if some parameter had a gradient again after a step without one, or its first after `fewest` such."""
    columns = [c for held in facts.parameters for c in window.statistic(held.gradient, "is_present", mode=None)]
    had = [np.flatnonzero(column.values > 0) for column in columns]
    return any(bool((np.diff(places) > 1).any()) or (places.size > 0 and places[0] >= fewest) for places in had)


def gradients_present(window: Window, facts: ModelFacts, *, last: int) -> Mapping[str, float]:
    """Return the share of the newest steps at which each parameter had a gradient, the largest over the workers.

    Args:
        window: The run up to the judged step.
        facts: The facts about the program.
        last: The number of newest steps. Parameters with fewer are left out.
    """
    shares: dict[str, list[float]] = {}
    too_short: set[str] = set()
    names = tuple([held.gradient for held in facts.parameters])
    for panel in window.newest(names, "is_present", last=last, mode=None):
        if panel.count < last:
            too_short.update(panel.tensors)
        for tensor, share in zip(panel.tensors, panel.newest.mean(axis=1).tolist(), strict=True):
            shares.setdefault(tensor, []).append(share)
    known = {tensor: max(found) for tensor, found in shares.items() if tensor not in too_short}
    return {held.name: known[held.gradient] for held in facts.parameters if held.gradient in known}


def unchanged(window: Window, facts: ModelFacts, present: Mapping[str, float]) -> tuple[ParameterFacts, ...]:
    """Return the parameters with gradients, an optimizer and a rate that no measured update has changed."""
    held = [p for p in facts.parameters if should_train(p) and p.optimizer and present.get(p.name) == 1]
    newest = window.newest(tuple([p.name for p in held]), "update_l2", last=1, mode=None)
    moved = {t for panel in newest for t, update in zip(panel.tensors, panel.newest[:, -1], strict=True) if update}
    still = [p for p in held if p.name not in moved and _never_moved(window, p)]
    largest = _largest_gradients(window) if still else {}
    return tuple([p for p in still if _has_worthy_gradients(window, p, largest)])


def without_slope(window: Window, facts: ModelFacts, present: Mapping[str, float]) -> tuple[ParameterFacts, ...]:
    """Return the parameters of optimizers with gradients of exactly zero at each measured step.

    Counted are modules of which all matrices are so: the gradient of a bias before a normalisation is 0 in theory, and
    that of a recurrent matrix is 0 where one step alone is used. () if no other matrix has a gradient: the loss does
    not depend on the weights, or all units are dead.
    """
    held = [p for p in facts.parameters if should_train(p) and p.optimizer and present.get(p.name) == 1]
    newest = window.newest(tuple([p.gradient for p in held]), "l2", last=1, mode=None)
    loud = {t for panel in newest for t, norm in zip(panel.tensors, panel.newest[:, -1], strict=True) if norm}
    zero = [p for p in held if p.gradient not in loud and _never_had_a_slope(window, p)]
    if not any(p.gradient in loud and len(p.shape) > 1 for p in held):
        return ()
    others = {p.module for p in held if len(p.shape) > 1 and p.gradient in loud}
    modules = {p.module for p in zero if len(p.shape) > 1} - others
    return tuple([p for p in zero if p.module in modules])


def _never_had_a_slope(window: Window, held: ParameterFacts) -> bool:
    columns = window.statistic(held.gradient, "l2", mode=None)
    return bool(columns) and all(len(column.values) >= FEWEST and not column.values.any() for column in columns)


def _never_moved(window: Window, held: ParameterFacts) -> bool:
    """Return True if all of at least three updates were zero, and the rate was not."""
    updates = window.statistic(held.name, "update_l2", mode=None)
    if not updates or any(len(column.values) < 3 or column.values.any() for column in updates):
        return False
    rates = window.statistic(f"hyperparameters/{held.optimizer}/group_{held.group}/lr", "mean", mode=None)
    return any((rate.values > 0).all() for rate in rates)


def was_measured(window: Window, held: ParameterFacts, *, after: int) -> bool:
    """Return True if the norm of a parameter was measured after that step, is never measured, or nothing more comes."""
    columns = window.statistic(held.name, "l2", mode=None)
    return window.is_last or not columns or any(int(column.steps[-1]) > after for column in columns)


def moves_by_hand(window: Window, held: ParameterFacts, *, since: int) -> bool:
    """Return True if the norm of a parameter changed although no optimizer has changed it since that step."""
    norms = [column.values[column.steps >= since] for column in window.statistic(held.name, "l2", mode=None)]
    return any(bool(len(some)) and float(np.ptp(some)) > NOISE * float(some[0]) for some in norms)


def step_of(window: Window, held: ParameterFacts) -> tuple[float, float] | None:
    """Return the rate of a parameter, and the largest step as a share of its size; None if one of them is unknown.

    The gradient limits a step of SGD, 1 for each element a step of Adam.
    """
    rates = window.statistic(f"hyperparameters/{held.optimizer}/group_{held.group}/lr", "mean", mode=None)
    weights = window.statistic(held.name, "l2", last=1, mode=None)
    gradients = window.statistic(held.gradient, "l2", mode=None)
    if not rates or not weights or not gradients:
        return None
    rate, norm = float(rates[0].values[-1]), float(weights[0].values[-1])
    steepest = max(math.sqrt(held.size), median(gradients[0].values))
    return (rate, rate * steepest / norm) if norm > 0 else None


def _has_worthy_gradients(window: Window, held: ParameterFacts, largest: Mapping[str, float]) -> bool:
    """Return True if the parameter has gradients, and each is more than rounding noise.

    The gradient of a bias before a normalisation is 0 in theory. `largest` is the norm of the largest gradient, by
    worker.
    """
    gradients = window.statistic(held.gradient, "l2", mode=None)
    return bool(gradients) and all(
        median(column.values) > NOISE * largest.get(column.worker, 0.0) for column in gradients
    )


def _largest_gradients(window: Window) -> Mapping[str, float]:
    """Return the median norm of the largest gradient, by worker. The newest ones of a converged model are all small."""
    typical: dict[str, list[float]] = {}
    for name in window.tensors("gradients"):
        for column in window.statistic(name, "l2", mode=None):
            typical.setdefault(column.worker, []).append(median(column.values))
    return {worker: max(norms) for worker, norms in typical.items()}
