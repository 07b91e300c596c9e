"""weights-set-back: the weights return in one step to where they began, or all that was learned is lost so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import UPDATE_SIZE
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.constants import (
    ALL_BUT_A_FEW,
    FEWEST,
    HAD_LEARNED,
    MOST,
    SAME_NORM,
    SEVERAL,
    SHORT_STRETCH,
    THREEFOLD,
    TRACE,
    VALUES_OF_A_LEVEL,
    VISIBLE,
)
from trackside.situation.losses.losses import whole_losses
from trackside.situation.medians import median
from trackside.situation.phases import newest_phase, since
from trackside.situation.update_growth import of_one_interval
from trackside.situation.weight_updates import trained_matrices
from trackside.trial.window import Column, Window

_MEASURE = "times that the weights were set back"


@dataclass(frozen=True)
class WeightsSetBack(NetworkRule):
    """The weights return in one step to where they began.

    Why it matters:
        A checkpoint that is loaded inside of the loop, a copy of the best or first weights that is written back, a
        process that is restarted from a file that nobody replaces: all that was learned since is thrown away, and the
        loss curve has teeth. Each part of the curve looks like a training.

    How it decides:
        With the relative change of the weights at each step, u (`trackside/update_size`), and the norms of the trained
        weights of two dimensions or more, since the newest optimizer was made:

        1. A jump is an u that is more than `jump_times` times each of the ten before it and of those after it (three
           at least, ten at most): a single step that changes the weights by far more than all others around it.
        2. It sets the weights back if it brings their norms nearer to the first ones: the median over the weights of
           |n - n0| falls to half or less, from the measurement before the jump to that after it. Weights that had not
           moved by a thousandth do not count.
        3. A smaller jump, of `jump_times` / 3, sets them back if a twentieth of the distance is left, or if two norms
           or more are to seven digits what they were once: where the loss is back too, all updates after the jump are
           large, and a checkpoint of some layers alone leaves the others where they are.
        4. It fires from `fewest` such jumps on. From one on where a twentieth of the distance is left and the loss
           tells the same: it had lost a fifth of its first level, and is back at 95 % of it or above.

        A learning rate that rises moves the updates after it as well. A layer that begins anew moves one norm of many,
        averaging and look-ahead move weights by little, and weights that are put back once without a loss that had
        fallen, as by a search for a learning rate, are silent.

        It needs neighbouring steps: in a run that is watched in bursts, weights that were set back in a rest are not
        seen, and what changed over a rest is no jump.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.weights_set_back import jumps_of

        updates = np.full(80, 0.01)
        assert jumps_of(updates, times=8).tolist() == []
        updates[[30, 60]] = 0.5
        assert jumps_of(updates, times=8).tolist() == [30, 60]
        ```

    References:
        - PyTorch, "Saving and loading models": a state dict refers to the weights, and copies none of them.
    """

    rule_id = "weights-set-back"
    code = "TS120"
    only_of = ("pytorch", "keras")
    watches = ("weights",)
    since = "0.1"
    likely_causes = (Cause.WEIGHTS_SET_BACK,)
    shows_its_cause = True
    what_to_do = (
        "Look for code that loads a checkpoint or copies weights inside of the loop: load once, before the first step.",
        "Copy the best weights (copy.deepcopy of the state dict): without a copy they are the present ones.",
    )

    jump_times: float = parameter(8.0, "size of an update over those around it, above which it is a jump", minimum=1)
    fewest: int = parameter(2, "jumps back from which on it fires", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with weights that were set back often enough."""
        began, found = newest_phase(window), []
        for measured in since(window.statistic(UPDATE_SIZE, "mean", mode=None), began):
            updates = of_one_interval(window, measured)
            jumps = updates.steps[jumps_of(updates.values, times=self.jump_times / THREEFOLD)].tolist()
            if not jumps:
                continue
            large = set(updates.steps[jumps_of(updates.values, times=self.jump_times)].tolist())
            norms = [
                c
                for c in since(
                    [c for n in trained_matrices(window) for c in window.statistic(n, "l2", mode=None)], began
                )
                if c.worker == updates.worker
            ]
            back = [
                step
                for step in jumps
                if _goes_back(norms, step, left=MOST if step in large else TRACE) or _are_as_once(norms, step)
            ]
            is_once = len(back) == 1 and _goes_back(norms, back[0], left=TRACE) and _is_lost(window, back[0], began)
            if len(back) >= self.fewest or is_once:
                found.append(self._finding(window, updates, back))
        return found

    def lacks(self, window: Window) -> str:
        """Name the missing input: enough updates."""
        columns = window.statistic(UPDATE_SIZE, "mean", mode=None)
        enough = any(len(column.values) > VALUES_OF_A_LEVEL + FEWEST for column in columns)
        return "" if enough else f"the sizes of {VALUES_OF_A_LEVEL + FEWEST + 1} updates"

    def _finding(self, window: Window, updates: Column, back: list[int]) -> Finding:
        return finding_of(
            window,
            updates,
            _MEASURE,
            float(len(back)),
            above=float(min(self.fewest, len(back)) - 1),
            since=back[0],
            statistics={"last_at": float(back[-1])},
        )


def jumps_of(sizes: NDArray[np.float64], *, times: float) -> NDArray[np.int64]:
    """Return the places of single updates that are many times as large as those around them.

    Args:
        sizes: Relative updates, oldest first, shape (n,).
        times: How many times each of its neighbours a jump must be.
    """
    if len(sizes) <= VALUES_OF_A_LEVEL + FEWEST or not np.isfinite(sizes).all():
        return np.zeros(0, np.int64)
    large = np.flatnonzero(sizes > times * median(sizes)).tolist()  # most runs have none
    return np.array(
        [k for k in large if VALUES_OF_A_LEVEL <= k < len(sizes) - FEWEST and sizes[k] > times * _around(sizes, k)],
        np.int64,
    )


def _around(sizes: NDArray[np.float64], place: int) -> float:
    before, after = sizes[place - VALUES_OF_A_LEVEL : place], sizes[place + 1 : place + 1 + VALUES_OF_A_LEVEL]
    return float(max(before.max(), after.max()))


def _goes_back(norms: list[Column], step: int, *, left: float) -> bool:
    """Return True if of the distance of most weights from their first norm a share of `left` remains after a step."""
    shares = [share for column in norms if (share := _distance_left(column, step)) is not None]
    return bool(shares) and median(shares) <= left


def _is_lost(window: Window, step: int, began: int) -> bool:
    """Return True if a training loss had fallen before a step, and is after it what it was at first."""
    for column in since(whole_losses(window), began):
        before, after = column.values[column.steps < step], column.values[column.steps > step]
        if len(before) < 2 * SHORT_STRETCH or len(after) < SHORT_STRETCH:
            continue
        first, level, now = (
            median(each) for each in (before[:SHORT_STRETCH], before[-SHORT_STRETCH:], after[:SHORT_STRETCH])
        )
        if level < HAD_LEARNED * first and now > ALL_BUT_A_FEW * first > 0:
            return True
    return False


def _are_as_once(norms: list[Column], step: int) -> bool:
    """Return True if norms of several weights after a step are the very ones of an earlier measurement."""
    return sum(_is_as_once(column, step) for column in norms) >= SEVERAL


def _is_as_once(column: Column, step: int) -> bool:
    place = int(np.searchsorted(column.steps, step))
    if not 1 < place < len(column.values):
        return False
    now, before = float(column.values[place]), column.values[:place]
    was_elsewhere = abs(float(before[-1]) - now) > VISIBLE * now > 0
    return was_elsewhere and bool((np.abs(before - now) < SAME_NORM * now).any())


def _distance_left(column: Column, step: int) -> float | None:
    """Return the distance from the first norm after a step over that before it; None without a distance before."""
    place = int(np.searchsorted(column.steps, step))
    if not 0 < place < len(column.values) or not column.values[0] > 0:
        return None
    before, after = (abs(float(column.values[at]) - float(column.values[0])) for at in (place - 1, place))
    return after / before if before > VISIBLE * float(column.values[0]) else None
