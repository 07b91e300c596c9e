"""confusion: a classifier takes one class for another too often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, CALIBRATED
from trackside.contracts.verdict import Finding
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import SavedValue, values_at_step
from trackside.situation.constants import MOST, MOST_LABELS
from trackside.trial.window import Window

_AT = Schedule(500, save_steps=(10, 20, 50, 100, 200))  # a boosting has some hundred rounds

Matrix = NDArray[np.int64]


@dataclass(frozen=True)
class Confusion(Rule):
    """A classifier names a class too rarely, or takes one class for another too often.

    Why it matters:
        The accuracy over all classes hides the class that is never found, and the two that are always mistaken for each
        other.

    How it decides:
        On the tensors `labels` and `predictions` of the collections `labels_collection` and `predictions_collection`,
        as smdebug's hook saves them of an XGBoost training, at each step from `first_step` on at which both were saved
        (a model that has not been trained yet confuses whatever it can):

        1. C_ij counts the samples of class i that were predicted as class j, of `category_no` classes (0: as many as
           came in labels or predictions, whichever is more).
        2. It fires where C_ii / sum_j C_ij, the share of a class that is found, is below `min_diag`.
        3. It fires where C_ji / sum_k C_ki, the share of class j among what was predicted as i (j is not i), is above
           `max_off_diag`.
        4. Classes that did not come, or were never predicted, have no such share and are left out.

        Predictions that are rows of probabilities are taken for their largest; single numbers that are not whole are
        probabilities of class 1, and cut at 0.5.

        It judges only where it was chosen: while a model learns, it confuses. Amazon's Confusion divides, in 2, by the
        sum over the diagonal. With that, two classes cannot both have 0.9, and every model of two classes or more
        fires: the sum over the row is what must have been meant. It also judges the model of step 0. The rest is the
        same.

    Example:
        ```python
        import numpy as np
        from trackside.rules.models.confusion import confusion_matrix

        labels, predictions = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
        assert confusion_matrix(labels, predictions, classes=2).tolist() == [[1, 1], [0, 2]]
        ```

    References:
        - Amazon SageMaker Debugger, built-in rule Confusion.
    """

    rule_id = "confusion"
    code = "TS302"
    presets = (CALIBRATED, AWS_DOCS, AWS_SDK)
    is_asked_for = True
    judges_until_found = True
    watches = ("labels", "predictions", "all")
    needs = (CollectionRequest("labels", _AT), CollectionRequest("predictions", _AT))
    since = "0.1"
    likely_causes = (Cause.CLASS_IMBALANCE, Cause.WRONG_LABELS)
    what_to_do = ("Look at samples of the classes named: whether they are labelled alike, or one of them is rare.",)

    preset_defaults = MappingProxyType({AWS_DOCS: {"first_step": 0}, AWS_SDK: {"first_step": 0}})

    category_no: int = parameter(0, "number of classes; 0: as many as came", minimum=0, maximum=MOST_LABELS)
    labels: str = parameter("labels", "name of the tensor of labels")
    predictions: str = parameter("predictions", "name of the tensor of predictions")
    labels_collection: str = parameter("labels", "collection of the labels")
    predictions_collection: str = parameter("predictions", "collection of the predictions")
    min_diag: float = parameter(0.9, "share of a class that must be found", minimum=0, maximum=1)
    max_off_diag: float = parameter(
        0.1, "share of another class among what is predicted as a class, that is allowed", minimum=0, maximum=1
    )

    first_step: int = parameter(10, "steps that the model is trained for before it is judged", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker: the cell furthest beyond its bound."""
        if window.step < self.first_step:
            return []
        return [
            found
            for labels, predictions in self._pairs(window)
            if (found := self._judge(window, labels, predictions)) is not None
        ]

    def lacks(self, window: Window) -> str:
        """Name the missing input: labels and predictions of a model that has trained for a while."""
        if window.step < self.first_step:
            return f"predictions at step {self.first_step} or later; the newest are of step {window.step}"
        has_any = any(self._matrix(labels, predicted) is not None for labels, predicted in self._pairs(window))
        return "" if has_any else f"class labels and predictions ({self.labels} and {self.predictions})"

    def _pairs(self, window: Window) -> Iterator[tuple[SavedValue, SavedValue]]:
        labels = self._saved(window, self.labels, self.labels_collection)
        predictions = self._saved(window, self.predictions, self.predictions_collection)
        for worker in sorted(labels.keys() & predictions.keys()):
            yield labels[worker], predictions[worker]

    def _saved(self, window: Window, name: str, collection: str) -> dict[str, SavedValue]:
        """Return the tensor of that name by worker; without one, the only tensor of the collection."""
        members = window.tensors(collection)
        names = [name] if name in window.tensors("all") else list(members) if len(members) == 1 else []
        return {saved.worker: saved for saved in values_at_step(window, names)}

    def _matrix(self, labels: SavedValue, predictions: SavedValue) -> Matrix | None:
        true, predicted = as_classes(labels.value), as_classes(predictions.value)
        if true is None or predicted is None or true.shape != predicted.shape or min(true.min(), predicted.min()) < 0:
            return None
        classes = max(self.category_no, int(true.max()) + 1, int(predicted.max()) + 1)
        return confusion_matrix(true, predicted, classes=classes) if classes <= MOST_LABELS else None

    def _judge(self, window: Window, labels: SavedValue, predictions: SavedValue) -> Finding | None:
        matrix = self._matrix(labels, predictions)
        wrong = None if matrix is None else worst_cell(matrix, min_diag=self.min_diag, max_off_diag=self.max_off_diag)
        if wrong is None:
            return None
        return Finding(
            subject=predictions.tensor,
            worker=predictions.worker,
            step=window.step,
            since_step=window.step,
            measure=wrong.measure,
            observed=wrong.observed,
            relation=wrong.relation,
            threshold=wrong.threshold,
            statistics={"samples": float(labels.value.shape[0])},
        )


@dataclass(frozen=True)
class Wrong:
    """A share beyond its bound, in the fields of a finding."""

    measure: str
    observed: float
    relation: str
    threshold: float


def confusion_matrix(labels: Matrix, predictions: Matrix, *, classes: int) -> Matrix:
    """Return the number of samples of each class (rows) predicted as each class (columns).

    Arguments: shape (samples,).
    """
    cells = np.bincount(labels * classes + predictions, minlength=classes * classes)
    return np.asarray(cells.reshape(classes, classes), np.int64)


def worst_cell(matrix: Matrix, *, min_diag: float, max_off_diag: float) -> Wrong | None:
    """Return the share furthest beyond its bound; None if all are within."""
    rows, columns = matrix.sum(axis=1), matrix.sum(axis=0)
    diagonal = np.where(rows > 0, np.diag(matrix) / np.maximum(rows, 1), np.inf)
    others = np.where(columns > 0, matrix / np.maximum(columns, 1), 0.0)
    np.fill_diagonal(others, 0.0)
    rarest, (j, i) = int(diagonal.argmin()), np.unravel_index(int(others.argmax()), others.shape)
    found = Wrong(f"share of class {rarest} that is found", float(diagonal[rarest]), "<", min_diag)
    mistaken = Wrong(f"share of class {j} among what is predicted as {i}", float(others[j, i]), ">", max_off_diag)
    missing, excess = min_diag - found.observed, mistaken.observed - max_off_diag
    if max(missing, excess) <= 0:
        return None
    return found if missing >= excess else mistaken


def as_classes(values: NDArray[np.generic]) -> Matrix | None:
    """Return class numbers, shape (samples,); None for values that are no classes.

    `values` are class numbers, probabilities of class 1, or rows of probabilities.
    """
    if values.ndim == 2 and values.shape[1] > 1 and values.size:
        return np.asarray(values.argmax(axis=1), np.int64)
    flat = values.reshape(-1) if values.ndim <= 2 else values
    if flat.ndim != 1 or not flat.size or flat.dtype.kind not in "iubf":
        return None
    numbers = flat.astype(np.float64)
    if not np.isfinite(numbers).all():
        return None
    is_whole = bool((numbers == np.floor(numbers)).all())
    return np.asarray(numbers if is_whole else numbers > MOST, np.int64)
