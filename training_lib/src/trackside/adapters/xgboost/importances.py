"""The importances of features, round after round, from each round's own trees.

`Booster.get_score` walks every tree for each kind, and to pick one round's trees out of a model takes XGBoost half a
millisecond: too dear for every round. So rounds wait for one another a quarter of a second. Their trees are then copied
at once, as bytes, and the writer's thread sums them up.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trackside.adapters.xgboost import ubjson
from trackside.adapters.xgboost.model_data import booster_of, feature_names, has_trees, settings_of
from trackside.capture.ground.guard import Guard
from trackside.capture.steps.late_tensors import Row, RowLayout

COLLECTIONS = frozenset({"feature_importance"})
IMPORTANCES = ("weight", "gain", "cover", "total_gain", "total_cover")

_WAIT_SECONDS = 0.25
_MOST_WAITING = 64  # rounds
_ROUND_SECONDS = 1.0  # another thread waits so long for the end of a round; rounds that wait for others are shorter
_BYTES_OF_SPLIT = 80  # a split and a leaf, in XGBoost's binary form
_DEAR_ROUND = 1 << 20  # bytes: to walk such trees takes less than to copy them
_MOST_BYTES = 64 << 20  # of trees that no step has asked for


class _Splits(NamedTuple):
    """The splits of one round."""

    features: NDArray[np.int64]
    gains: NDArray[np.float64]
    covers: NDArray[np.float64]


class TensorNames:
    """The names of the importances of some features. Safe to use from the writer's thread.

    Args:
        features: The names of all features.
    """

    def __init__(self, features: tuple[str, ...]) -> None:
        self.features = features
        self._known: dict[bytes, RowLayout] = {}

    def of(self, used: NDArray[np.int64]) -> RowLayout:
        """Return `feature_importance/<kind>/<feature>`, all features of one kind after another."""
        key = used.tobytes()
        if key not in self._known:
            names = (f"feature_importance/{kind}/{self.features[k]}" for kind in IMPORTANCES for k in used)
            self._known[key] = RowLayout(tuple(names), COLLECTIONS)
        return self._known[key]


class Sums:
    """Splits, gain and cover of each feature over all trees, which advance round by round.

    The training thread appends trees, the writer's thread asks for sums, in the order of rounds.

    Attributes:
        has_failed: True once the trees are of an unknown form, or too many were forgotten because no step asked for
            them: no later sums are known.

    Args:
        names: Names of the tensors.
        sums: Those of all trees so far, of shape (features, 3).
        rounds: The number of rounds so far.
    """

    def __init__(self, names: TensorNames, sums: NDArray[np.float64], rounds: int) -> None:
        self._names, self._sums, self._count = names, sums, rounds
        self._lock = threading.Lock()
        self._copies: deque[bytes] = deque()
        self._bytes = 0
        self._rounds: deque[_Splits] = deque()  # of the copy that was read last
        self.has_failed = False

    def append(self, trees: bytes) -> None:
        """Add the trees of the next rounds: a model with them alone, as `save_raw("ubj")` returns it."""
        with self._lock:
            self._copies.append(trees)
            self._bytes += len(trees)
            if self._bytes > _MOST_BYTES:
                self._forget()

    def at(self, rounds: int) -> Row | None:
        """Return names and shares, of shape (1,), after so many rounds; None if unknown, or if no tree splits."""
        with self._lock:
            try:
                while self._count < rounds:
                    self._advance()
            except (IndexError, KeyError, TypeError, ValueError):
                self._forget()
            used = np.flatnonzero(self._sums[:, 0])
            if self._count != rounds or not used.size:
                return None
            weight, total_gain, total_cover = self._sums[used].T
        kinds = np.array([weight, total_gain / weight, total_cover / weight, total_gain, total_cover])
        totals = kinds.sum(axis=1, keepdims=True)
        shares = np.divide(kinds, totals, out=np.zeros_like(kinds), where=totals != 0)
        return Row(self._names.of(used), shares.reshape(-1, 1))

    def _advance(self) -> None:
        if not self._rounds:
            trees = self._copies.popleft()
            self._bytes -= len(trees)
            self._rounds.extend(_rounds_of(trees))
        splits = self._rounds.popleft()
        values = np.stack([np.ones_like(splits.gains), splits.gains, splits.covers], axis=1)
        np.add.at(self._sums, splits.features, values)
        self._count += 1

    def _forget(self) -> None:
        self._copies.clear()
        self._rounds.clear()
        self._bytes, self.has_failed = 0, True


class Importance:
    """The importances after one round; see `capture/steps/late_tensors.py`.

    Args:
        sums: Sums over the trees.
        rounds: The number of rounds.
    """

    def __init__(self, sums: Sums, rounds: int) -> None:
        self.sums, self._rounds = sums, rounds
        self._is_ready = False
        self.size_bytes = 0

    def is_ready(self) -> bool:
        """Return True once the trees of its round are copied."""
        return self._is_ready

    def copied(self, size_bytes: int) -> None:
        """Note that they are, and their size."""
        self._is_ready, self.size_bytes = True, size_bytes

    def row(self) -> Row | None:
        """Return names, `feature_importance/<kind>/<feature>`, and shares. Those of one kind have the sum 1."""
        return self.sums.at(self._rounds)


class Importances:
    """Reads the importances of one boosting, on its thread.

    Args:
        guard: Logs failures.
        monotonic: Returns seconds.
    """

    def __init__(self, guard: Guard, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._guard, self._monotonic = guard, monotonic
        self._names: TensorNames | None = None
        self._sums: Sums | None = None  # None: the trees must be walked
        self._can_copy = False
        self._copied_rounds = 0
        self._copied_at = 0.0
        self._bytes_a_round = 0.0
        self._waiting: list[Importance] = []
        self._model: Any = None  # that of the rounds that wait
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()  # a handler of a signal may interrupt the thread that has it
        self._copied, self._is_wanted = threading.Event(), False

    def read(self, model: Any) -> Importance | None:
        """Return the importances after the newest round, which become ready later; None for a linear model."""
        if self._names is None:
            if not has_trees(model):
                return None
            self._names, self._can_copy = TensorNames(tuple(feature_names(model)[:-1])), _only_adds_trees(model)
        rounds = model.num_boosted_rounds()
        sums = self._sums
        if sums is None or sums.has_failed or rounds <= self._copied_rounds:
            return self._walked(model, rounds, self._names)
        found = Importance(sums, rounds)
        with self._lock:
            self._waiting.append(found)
            self._model, self._thread = model, threading.current_thread()
            is_due = self._monotonic() - self._copied_at >= _WAIT_SECONDS or len(self._waiting) >= _MOST_WAITING
            if is_due or self._is_wanted:
                self.copy_trees()
        return found

    def copy_trees(self) -> None:
        """Copy the trees that rounds wait for.

        Another thread than the training's waits for the end of the next round, for a second at most: then rounds are
        lost, and their number is logged.
        """
        if not self._may_read() and self._is_copied_meanwhile():
            return
        with self._lock:
            waiting, self._waiting = self._waiting, []
            model, self._model = self._model, None
            if waiting:
                self._copy_for(waiting, model)
            self._is_wanted = False
            self._copied.set()

    def _may_read(self) -> bool:
        """Return False if the model may grow at this moment."""
        thread = self._thread
        return thread is None or thread is threading.current_thread() or not thread.is_alive()

    def _is_copied_meanwhile(self) -> bool:
        """Return True once the training's thread has copied the trees; False if it does not, or no round waits."""
        with self._lock:
            if not self._waiting:
                return False
            self._copied.clear()
            self._is_wanted = True
        return self._copied.wait(_ROUND_SECONDS)

    def _copy_for(self, waiting: Sequence[Importance], model: Any) -> None:
        if self._may_read():
            self._guard.attempt("reading the importances of features", lambda: self._copy(model))
        else:
            message = (
                "the importances of %d rounds are not saved: another thread than the training's stored the run, "
                "while they waited for their trees. Close the hook in the thread that trains."
            )
            self._guard.warn_once("importances/thread", message, len(waiting))
        self._copied_at = self._monotonic()
        for each in waiting:
            each.copied(int(self._bytes_a_round))

    def _copy(self, model: Any) -> None:
        sums, self._sums = self._sums, None
        first, rounds = self._copied_rounds, model.num_boosted_rounds()
        trees = bytes(model[first:rounds].save_raw("ubj"))
        self._bytes_a_round = len(trees) / (rounds - first)
        if sums is not None:
            sums.append(trees)
        self._copied_rounds = rounds
        if self._bytes_a_round <= _DEAR_ROUND:
            self._sums = sums

    def _walked(self, model: Any, rounds: int, names: TensorNames) -> Importance:
        self.copy_trees()
        if self._sums is not None and self._sums.has_failed:
            self._can_copy = False
        numbers = {name: k for k, name in enumerate(names.features)}
        sums = np.zeros((len(numbers), 3))
        for column, kind in enumerate(("weight", "total_gain", "total_cover")):
            for feature, value in model.get_score(importance_type=kind).items():
                sums[numbers[feature], column] = value
        found = Importance(Sums(names, sums, rounds), rounds)
        found.copied(sums.nbytes)
        self._bytes_a_round = _BYTES_OF_SPLIT * float(sums[:, 0].sum()) / max(1, rounds)
        can_copy = self._can_copy and self._bytes_a_round <= _DEAR_ROUND
        self._sums, self._copied_rounds = found.sums if can_copy else None, rounds
        return found


def _rounds_of(trees: bytes) -> Iterable[_Splits]:
    """Yield the splits of each round of a model."""
    model = ubjson.read(trees)["learner"]["gradient_booster"]["model"]
    ends = list(model["iteration_indptr"])
    splits = [_splits_of(tree) for tree in model["trees"]]
    for first, end in itertools.pairwise(ends):
        yield _Splits(*(np.concatenate(parts) for parts in zip(*splits[first:end], strict=True)))


def _splits_of(tree: Any) -> _Splits:
    inner = tree["left_children"] >= 0
    return _Splits(
        tree["split_indices"][inner].astype(np.int64),
        tree["loss_changes"][inner].astype(np.float64),
        tree["sum_hessian"][inner].astype(np.float64),
    )


def _only_adds_trees(model: Any) -> bool:
    """Return False where a round may change trees of earlier rounds."""
    settings = dict(settings_of(json.loads(model.save_config())))
    return settings.get("process_type", "default") == "default" and booster_of(model) != "dart"
