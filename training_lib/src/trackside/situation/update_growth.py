"""The growth of a training's updates against their own recent past. Pure functions of a window."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.run.recorded_names import MOST_TERMS, UPDATE_SIZE, loss_term
from trackside.situation.constants import (
    A_HANDFUL,
    BEYOND,
    COURSE_STEPS,
    FEWEST_UPDATES,
    HALF_AS_MUCH_AGAIN,
    LASTING_STEPS,
    MAD_TO_DEVIATION,
    NEARLY_ALL,
    NEGLIGIBLE_SHARE,
    NEWEST,
    ONE_DEVIATION,
    SIX_DEVIATIONS,
    TENFOLD,
    TRAILING,
    TWICE,
    WILD,
)
from trackside.situation.losses.guessing import labels_of
from trackside.situation.losses.losses import TRAINING_MODES, training_losses
from trackside.situation.measurements import Evidence
from trackside.situation.medians import median, medians_of_three
from trackside.situation.phases import newest_phase, since
from trackside.situation.rates import warms_up
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class UpdateGrowth:
    """The newest updates against those before.

    now        the smallest of the newest three relative updates |w' - w| / |w|
    usual      the median of the 50 before
    deviation  their deviation, from the median absolute deviation
    peak       the largest that the run has lived through before: of medians of three, after the first 20
    since      the step of the first measurement in a row above `usual` and six deviations
    column     the measurements
    """

    now: float
    usual: float
    deviation: float
    peak: float
    since: int
    column: Column

    @property
    def times(self) -> float:
        """The newest update over the usual one."""
        return self.now / self.usual


def growth_of_updates(window: Window, *, worker: str, deviations: float = SIX_DEVIATIONS) -> UpdateGrowth | None:
    """Return the growth of a worker's updates, if the newest three stand out; else None.

    They stand out where each is more than `deviations` above the median of the 50 before, and half as large again. A
    new optimizer begins a new past.

    Args:
        window: The window to read.
        worker: The worker.
        deviations: How far above the usual ones they must be, in deviations.
    """
    columns = since(window.statistic(UPDATE_SIZE, "mean", mode=None), newest_phase(window))
    measured = next((c for c in columns if c.worker == worker), None)
    column = measured if measured is None else of_one_interval(window, measured)
    if column is None or len(column.values) < FEWEST_UPDATES or not stands_out(column.values, deviations=deviations):
        return None
    if column is measured:
        gaps = _training_steps_between(window, column)
        if gaps.min() != gaps.max():  # measured at other intervals than before: changes over more steps are larger
            return None
    usual, deviation, limit = _usual(column.values, deviations)
    below = np.flatnonzero(column.values <= limit)
    first = int(column.steps[below[-1] + 1])
    now = float(column.values[-NEWEST:].min())
    return UpdateGrowth(now, usual, deviation, peak_of(column.values), first, column)


def of_one_interval(window: Window, column: Column) -> Column:
    """Return the updates of single steps, of a run with rests: what changed in a rest is the work of hundreds of steps.

    Those are the updates of steps whose neighbour before is watched. All updates of a run without a rest.
    """
    rests = window.rests(column.worker)
    if not len(rests.after):
        return column
    trained = max(
        (c.steps for c in training_losses(window) if c.worker == column.worker), key=len, default=column.steps
    )
    before = trained[np.maximum(np.searchsorted(trained, column.steps) - 1, 0)]
    kept = rests.before(before) == rests.before(column.steps)
    return replace(column, steps=column.steps[kept], values=column.values[kept])


def _training_steps_between(window: Window, column: Column) -> NDArray[np.int64]:
    """Return the training steps between the newest measurements: the run's steps count those of evaluations, too."""
    newest = column.steps[-TRAILING - NEWEST :]
    trained = max((c.steps for c in training_losses(window) if c.worker == column.worker), key=len, default=newest)
    return np.diff(np.searchsorted(trained, newest) if trained[0] <= newest[0] else newest)


def risen_rate(window: Window, *, before: int) -> tuple[float, float] | None:
    """Return (largest before, now) of a learning rate that is higher than ever; None without one.

    Args:
        window: The window to read.
        before: The first step that does not count as before.
    """
    for column in Evidence(window).learning_rates:
        earlier, now = column.values[column.steps < before], float(column.values[-1])
        if not earlier.size or not 0 < BEYOND * float(earlier.max()) < now:
            continue
        rests = window.rests(column.worker)
        last = int(column.steps[earlier.size - 1])
        is_line = rests.between(last, window.step) > 0 and warms_up(column.values, places=rests.places(column.steps))
        if not is_line:  # a warm-up that goes on in a rest
            return float(earlier.max()), now
    return None


def may_move(window: Window, loss: str, *, worker: str) -> bool:
    """Return True for a loss that may rise in a right training: computed by hand, or with targets that have moved.

    The losses of policies and of curricula follow what the program meets; bootstrapped targets grow while it learns.
    """
    facts = window.facts.loss(loss) if window.facts is not None else None
    if facts is not None and not facts.is_built_in:
        return True
    batches = [b for b in labels_of(window, loss, worker, modes=TRAINING_MODES) if b.dtype.kind == "f"]
    if len(batches) < A_HANDFUL:
        return False
    half = len(batches) // 4 or 1
    first, newest = (np.concatenate([each.reshape(-1) for each in some]) for some in (batches[:half], batches[-half:]))
    spread = float(first.std())
    return bool(abs(newest.mean() - first.mean()) > ONE_DEVIATION * spread or newest.std() > TWICE * spread)


def is_mostly_of_classes(window: Window, loss: str, *, worker: str) -> bool:
    """Return True for a sum of which a loss over classes made nine tenths at the newest look at its terms.

    Its other terms move it little, and the targets of classes do not grow.
    """
    facts = window.facts
    whole = facts.loss(loss) if facts is not None else None
    if facts is None or whole is None or whole.is_built_in or not whole.backward_line:
        return False
    named = [f for f in facts.losses if f.is_built_in and f.backward_line == whole.backward_line]
    if not named or any(term.class_count is None for term in named):
        return False
    total = next((c for c in training_losses(window) if (c.tensor, c.worker) == (loss, worker)), None)
    columns = [c for n in range(MOST_TERMS) for c in window.statistic(loss_term(n), "mean", mode=None)]
    terms = [c for c in columns if c.worker == worker and len(c.values)]
    newest = max((int(c.steps[-1]) for c in terms), default=-1)
    now = total.values[total.steps == newest] if total is not None else np.zeros(0)
    return bool(len(now)) and sum(c.values[-1] for c in terms if c.steps[-1] == newest) >= NEARLY_ALL * now[0] > 0


def main_term_rose(window: Window, loss: str, *, worker: str, since: int) -> bool | None:
    """Return True if the largest term of a sum by hand has risen since a step; None without a look since then.

    It stays where a penalty is phased in, or another term begins late: then only the sum rises.

    Args:
        window: The window to read.
        loss: The name of the sum.
        worker: The worker.
        since: The step at which the sum rose.
    """
    facts = window.facts.loss(loss) if window.facts is not None else None
    if facts is None or facts.is_built_in:
        return None
    columns = [c for n in range(MOST_TERMS) for c in window.statistic(loss_term(n), "mean", mode=None)]
    terms = [(c.values[c.steps < since], c.values[c.steps >= since]) for c in columns if c.worker == worker]
    known = [(before, after) for before, after in terms if before.size and after.size]
    if not known:
        return None
    before, after = max(known, key=lambda term: abs(float(term[0][-1])))
    level = float(before[-1])
    return not float(after[-1]) <= level + NEGLIGIBLE_SHARE * max(abs(level), float(before[0]) - level)


def is_driven(window: Window, *, worker: str) -> bool:
    """Return True if the steps show why a loss rises: a learning rate or updates beyond all earlier ones, large ones,
    or weights that have grown to a multiple; True too where no update was measured.
    """
    seen = Evidence(window)
    if seen.update_ratio is None or not seen.update_ratio <= WILD or not (seen.weight_growth or 0.0) <= TENFOLD:
        return True
    return seen.risen_rate is not None or growth_of_updates(window, worker=worker) is not None


def stands_out(sizes: NDArray[np.float64], *, deviations: float) -> bool:
    """Return True if the newest three sizes are far above the 50 before; False for too few.

    Args:
        sizes: Relative updates, oldest first, shape (n,).
        deviations: How far above the usual ones they must be, in deviations.
    """
    if len(sizes) < TRAILING + NEWEST:
        return False
    newest, recent = float(sizes[-NEWEST:].min()), _recent(sizes)
    if np.count_nonzero(HALF_AS_MUCH_AGAIN * recent >= newest) > TRAILING // 2:  # so is the median: most steps end here
        return False
    return newest > _usual(sizes, deviations)[2] > 0


def _usual(sizes: NDArray[np.float64], deviations: float) -> tuple[float, float, float]:
    """Return the median of the recent sizes, their deviation, and the size above which one stands out."""
    recent = _recent(sizes)
    usual = median(recent)
    deviation = MAD_TO_DEVIATION * median(np.abs(recent - usual))
    return usual, deviation, max(usual + deviations * deviation, HALF_AS_MUCH_AGAIN * usual)


def _recent(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    return sizes[-TRAILING - NEWEST : -NEWEST]


def has_run_away(sizes: NDArray[np.float64], *, deviations: float, beyond: float) -> bool:
    """Return True if the newest three sizes are far above those before, and above all of the run.

    Args:
        sizes: Relative updates, or attention logits, oldest first, shape (n,).
        deviations: How far above the recent ones they must be, in deviations.
        beyond: How many times the largest earlier one they must be.
    """
    return stands_out(sizes, deviations=deviations) and float(sizes[-NEWEST:].min()) > beyond * peak_of(sizes)


def peak_of(sizes: NDArray[np.float64]) -> float:
    """Return the largest size that the run has lived through: of medians of three, without its start and the newest.

    Args:
        sizes: Relative updates, oldest first, shape (n,).
    """
    values = sizes[LASTING_STEPS:-COURSE_STEPS]
    if len(values) < NEWEST:
        return 0.0
    return float(medians_of_three(values).max())
