"""Gradients that have vanished. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from trackside.contracts.model_facts import ModelFacts, ParameterFacts
from trackside.situation.constants import (
    GAIN,
    GROWING,
    LITTLE_IS_LEFT,
    LONG_STEPS,
    MOVES,
    NEARLY_ALL,
    NEARLY_GUESSING,
    NEWEST,
    NEWEST_LOSSES,
    SHORT_STRETCH,
    TENFOLD,
    THREEFOLD,
)
from trackside.situation.losses.guessing import best_guess
from trackside.situation.losses.losses import has_gained, training_losses
from trackside.situation.medians import median
from trackside.trial.window import Column, Window

_DECOUPLED = "decoupled_weight_decay"


def vanished(
    sizes: Mapping[str, float], *, threshold: float, relative_threshold: float, loss_left: float | None = None
) -> tuple[str, ...]:
    """Return the gradient tensors that have vanished, smallest first.

    sizes      mean |g| over the entries that are not zero, by gradient tensor of one worker and step (0 for only zeros)
    loss_left  share of the first loss that is left; None if unknown
    """
    if loss_left is not None and loss_left <= LITTLE_IS_LEFT:
        return ()
    taking_part = {name: size for name, size in sizes.items() if size != 0}
    largest = largest_of(taking_part)
    nothing_works = largest < threshold and loss_left is not None and loss_left > NEARLY_ALL
    behind = math.inf if nothing_works else relative_threshold * largest
    loud = {module_of(name) for name, size in taking_part.items() if not size < threshold}  # NaN is loud
    found = [name for name, size in taking_part.items() if module_of(name) not in loud and size < behind]
    return tuple(sorted(found, key=lambda name: (sizes[name], name)))


def side_paths(facts: ModelFacts | None, sizes: Mapping[str, float], quiet: Sequence[str]) -> frozenset[str]:
    """Return the quiet gradients with a sound one in a module before theirs: what comes before them is reached.

    The order is that in which the model registers its parameters. Without facts there is no order, and no side path.

    facts  the facts about the program
    sizes  the size of each gradient of one worker and step, 0 for only zeros
    quiet  the gradients that are too small
    """
    if facts is None:
        return frozenset()
    order = {parameter.gradient: place for place, parameter in enumerate(facts.parameters)}
    still = {module_of(name) for name in quiet}
    sound = [
        order[name] for name, size in sizes.items() if size != 0 and name in order and module_of(name) not in still
    ]
    first = min(sound, default=math.inf)
    return frozenset([name for name in quiet if order.get(name, -1) > first])


def grows(column: Column) -> bool:
    """Return True for a gradient of four times its value at half as many steps, or early ten times its first."""
    now = float(column.values[-1])
    known = column.values[column.values > 0]
    if column.steps[-1] < LONG_STEPS and known.size and now > TENFOLD * known[0]:
        return True
    half = int(np.searchsorted(column.steps, column.steps[-1] / 2, side="right")) - 1
    return half >= 0 and bool(now > GROWING * column.values[half])


def learns_nothing(window: Window, worker: str) -> bool:
    """Return True if each training loss of a worker is that of a guess, or where none is known, has gained nothing."""
    columns = [column for column in training_losses(window) if column.worker == worker]
    guesses = [best_guess(window, column.tensor, worker=worker) for column in columns]
    if None in guesses:
        return bool(columns) and not has_gained(window, share=GAIN)
    newest = [median(column.values[-NEWEST_LOSSES:]) for column in columns]
    levels = [NEARLY_GUESSING * guess.loss for guess in guesses if guess is not None]
    return bool(columns) and all(now > level for now, level in zip(newest, levels, strict=True))


def moves(window: Window, gradient: str, *, worker: str, size: float) -> bool:
    """Return True if the parameter of this small gradient moves, by more than weight decay explains."""
    update = updates_of(window, [gradient], worker).get(gradient, 0.0)
    if not update >= MOVES:
        return False
    held = window.facts.parameter(gradient) if window.facts else None
    return held is None or not _decays(window, held, update=update, size=size)


def _decays(window: Window, held: ParameterFacts, *, update: float, size: float) -> bool:
    """Return True if weight decay explains the updates of a parameter with gradients of this size."""
    optimizer = window.facts.optimizer(held.optimizer) if window.facts else None
    decay = abs(optimizer.hyperparameter("weight_decay", group=held.group) or 0.0) if optimizer else 0.0
    if not decay or optimizer is None:
        return False
    if optimizer.type_name != "AdamW" and not optimizer.hyperparameter(_DECOUPLED, group=held.group):
        weights = window.statistic(held.name, "l2", last=1, mode=None)  # the decay is a part of the gradient
        if weights and decay * float(weights[0].values[-1]) / math.sqrt(max(1, held.size)) > size:
            return True
    rates = window.statistic(f"hyperparameters/{held.optimizer}/group_{held.group}/lr", "mean", last=1, mode=None)
    return bool(rates) and update < THREEFOLD * decay * float(rates[0].values[-1])


def updates_of(window: Window, gradients: Sequence[str], worker: str) -> dict[str, float]:
    """Return the median of the newest relative updates of each gradient's parameter, where they are known."""
    names = tuple([name.removeprefix("gradient/") for name in gradients])
    return {
        f"gradient/{tensor}": median(newest)
        for panel in window.newest(names, "update_ratio", last=NEWEST, mode=None)
        for tensor, of, newest in zip(panel.tensors, panel.workers, panel.newest, strict=True)
        if of == worker
    }


def module_of(name: str) -> str:
    """Return the name without its last part: `gradient/Net_fc1.weight` -> `gradient/Net_fc1`.

    A parameter of the root keeps its name.
    """
    head, dot, _ = name.rpartition(".")
    return head if dot else name


def largest_of(sizes: Mapping[str, float]) -> float:
    return max((size for size in sizes.values() if math.isfinite(size)), default=0.0)


def mean_of_nonzero(mean: float, zero_share: float) -> float:
    """Return mean |g| over the entries that are not zero; over all if only a reduction was saved (a share of 0)."""
    if not 0 < mean < math.inf:
        return mean
    return mean / (1 - zero_share) if zero_share < 1 else mean


def loss_left_of(window: Window, worker: str) -> float | None:
    """Return the largest share of its first value that a loss of this worker has left; None without such a loss."""
    columns = window.columns("losses", "mean")
    own = [c for c in columns if c.worker == worker] or columns
    shares = [
        float(median(c.values[-SHORT_STRETCH:]) / c.values[0])
        for c in own
        if math.isfinite(c.values[0]) and c.values[0] > 0
    ]
    return max((share for share in shares if math.isfinite(share)), default=None)


def quiet_since(column: Column, threshold: float) -> int:
    """Return the first step of the streak, up to the newest, over which mean |g| was below the threshold."""
    loud = np.flatnonzero(~(column.values < threshold))
    return int(column.steps[min(loud[-1] + 1, len(column.steps) - 1) if loud.size else 0])
