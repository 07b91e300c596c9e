"""The report's section on a model with labels and predictions: how good it is, where it errs, what it looks at.

It answers the ten questions of the report that SageMaker Debugger made of an XGBoost training, for every objective. A
question that does not suit the objective, or lacks its data, is answered with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.views.report.charts.line_chart import number
from trackside.views.report.charts.markup import Markup, element, joined, scrolled
from trackside.views.report.model.classification import (
    CUT,
    Classified,
    calibration,
    class_scores,
    classified,
    cuts,
)
from trackside.views.report.model.figures import MOST_LINES, Line, curves, folded, histogram, meters, shades, table
from trackside.views.report.model.labelled import AVERAGE_SHAP, Family, LabelledRun
from trackside.views.report.model.regression import label_bins, r_squared, residuals
from trackside.views.report.model.sliders import cut_slider, matrix_slider

MOST_FEATURES = 20  # in the open; the others are folded up
MOST_FOLDED = 1000
MOST_CELLS = 12  # classes of a matrix with a number in each cell
MOST_BARS = 20
_BINS = 40
_RISING = ("auc", "aucpr", "ndcg", "map", "pre", "accuracy", "f1", "r2")  # metrics that grow while a model learns
_FEW_LABELS = 0.1  # of an even share: such a class is named
_WORSE = 0.02  # of the best value: a last round that far from it is named
_KINDS = {
    "gain": "gain: how much a split on the feature improves the objective, on average",
    "total_gain": "total_gain: the same over all splits",
    "weight": "weight: number of splits on the feature",
    "cover": "cover: samples that pass a split on the feature, on average",
    "total_cover": "total_cover: the same over all splits",
    AVERAGE_SHAP: "average SHAP: how far the feature moves a prediction, up or down, on average over samples",
}

_CUT_WORDS = ("A score from", "Precision", "Recall", "F1", "Taken for class 1")

Numbers = NDArray[np.float64]


def model_section(run: LabelledRun) -> Markup:
    """Return the section."""
    known = _classified(run)
    return joined(
        _introduction(run),
        *(joined(element("h3", title), content) for title, content in _parts(run, known)),
    )


def _classified(run: LabelledRun) -> Classified | None:
    if not run.saved or run.family not in {Family.BINARY, Family.CLASSES}:
        return None
    return classified(run.saved[-1], run.family, run.objective)


def _parts(run: LabelledRun, known: Classified | None) -> Iterator[tuple[str, Markup]]:
    yield "Labels", _labels(run, known)
    yield "Metrics over rounds", _metrics(run)
    yield "Importance of features", _importance(run)
    yield "Confusion matrix", _matrix(run, known)
    yield "Precision and recall of each class", _classes(run, known)
    yield "Recall of each class over rounds", _recall_over_rounds(run, known)
    yield "ROC, precision and recall at every cut, calibration", _cuts(run, known)
    yield "Residuals", _residuals(run, known)
    yield "Error by the size of the label", _bins(run)


def _introduction(run: LabelledRun) -> Markup:
    if run.objective and not run.is_guessed:
        objective = f"Objective {run.objective}: {run.family.value}."
    elif run.objective:
        objective = f"Objective {run.objective}, which is not one of XGBoost's: taken for {run.family.value}."
    else:
        objective = f"The objective was not saved: by its labels and predictions taken for {run.family.value}."
    last = f" Labels and predictions of step {run.saved[-1].step:,}." if run.saved else ""
    return element("p", objective, last, class_="note")


# Each part ------------------------------------------------------------------------------------------------------------


def _labels(run: LabelledRun, known: Classified | None) -> Markup:
    if not run.saved:
        return _lacking()
    labels = run.saved[-1].labels
    if known is None:
        counts, edges = np.histogram(labels, bins=min(_BINS, max(1, len(np.unique(labels)))))
        skew = _skew(labels)
        advice = f"The labels are skewed (skewness {skew:.1f}): a logarithm of them may be learned more evenly."
        return joined(
            histogram("Labels", edges, [("labels", counts)], x="label"), element("p", advice) if abs(skew) > 2 else None
        )
    support = np.bincount(known.labels, minlength=known.count)
    order = np.argsort(-support, kind="stable")
    total = len(labels)
    rows = [((f"class {k}", f"{support[k]:,}", f"{support[k] / total:.1%}"), support[k] / support.max()) for k in order]
    few = [int(k) for k in order if support[k] < _FEW_LABELS * total / known.count]
    named = ", ".join(map(str, few[:8])) + (", ..." if len(few) > 8 else "")
    words = (
        f"Rare: class{'es' * (len(few) != 1)} {named}. Collect more, weight them, or judge by recall, not by accuracy."
    )
    return joined(
        _some_and_all("Labels by class", ("Class", "Labels", "Share"), rows, MOST_BARS),
        element("p", words) if few else None,
    )


def _skew(labels: Numbers) -> float:
    spread = float(labels.std())
    return float(np.mean(((labels - labels.mean()) / spread) ** 3)) if spread > 0 else 0.0


def _metrics(run: LabelledRun) -> Markup:
    if not run.metrics:
        return element("p", "No metric was saved. Give evals=[(rows, 'train'), (others, 'validation')] to XGBoost.")
    return joined(_metric(name, sets) for name, sets in run.metrics.items())


def _metric(name: str, sets: Mapping[str, tuple[NDArray[np.int64], Numbers]]) -> Markup:
    finite = {of_set: _finite(steps, values) for of_set, (steps, values) in sets.items()}
    lines = [Line(of_set, x, y) for of_set, (x, y) in finite.items() if len(x)][:MOST_LINES]
    broken = [of_set for of_set, (_, values) in sets.items() if not np.isfinite(values).all()]
    warning = element("p", f"{name} of {', '.join(broken)} is not finite at some rounds.") if broken else None
    if not lines:
        return joined(warning)
    best = _best(name, lines)
    marks = [(best.step, f"best: {best.of_set} {number(best.value)}")] if best else []
    return joined(
        curves(name, lines, x="round", y=name, marks=marks),
        warning,
        element("p", best.advice) if best and best.advice else None,
    )


def _finite(steps: NDArray[np.int64], values: Numbers) -> tuple[Numbers, Numbers]:
    inside = np.isfinite(values)
    return steps[inside].astype(np.float64), values[inside]


@dataclass(frozen=True)
class _Best:
    """The best round of a metric. `step` is the round, `advice` is "" where the last round is about as good."""

    of_set: str
    step: float
    value: float
    advice: str


def _best(name: str, lines: Sequence[Line]) -> _Best | None:
    """Return the best round of the set that is not trained on; None without such a set, or for an unknown metric."""
    others = [line for line in lines if not line.name.lower().startswith("train")]
    metric = name.partition("@")[0].lower()
    is_known = metric.startswith(_RISING) or metric.endswith(("loss", "error", "loglik", "deviance"))
    is_known = is_known or metric.startswith(("rms", "ma", "mphe", "quantile", "expectile", "merror"))
    if not others or not is_known:
        return None
    line = others[-1]
    rises = metric.startswith(_RISING)
    place = int(line.y.argmax() if rises else line.y.argmin())
    best, last = float(line.y[place]), float(line.y[-1])
    lost = abs(last - best) / (abs(best) or 1.0)
    advice = ""
    if place < len(line.y) - 1 and lost > _WORSE:
        rest = len(line.y) - 1 - place
        advice = (
            f"The {rest:,} rounds after round {line.x[place]:,.0f} made {line.name} {lost:.0%} worse: it learns "
            "its training rows too exactly. early_stopping_rounds ends there; a smaller max_depth or eta, or a larger "
            "min_child_weight or lambda, delays it."
        )
    return _Best(line.name, float(line.x[place]), best, advice)


def _importance(run: LabelledRun) -> Markup:
    if not run.importance:
        return element(
            "p", "No importance was saved: the collection feature_importance was not, or the model is linear."
        )
    kinds = [kind for kind in _KINDS if kind in run.importance]
    kinds += [kind for kind in run.importance if kind not in _KINDS]
    found = [_kind(kind, run.importance[kind]) for kind in kinds]
    return joined(
        element("p", "Shares of all features at the last saved step; in brackets at the first one.", class_="note"),
        found[0],
        *(folded(f"By {kind}", one) for kind, one in zip(kinds[1:], found[1:], strict=True)),
    )


def _kind(kind: str, scores: Mapping[str, tuple[float, float]]) -> Markup:
    in_order = sorted(scores.items(), key=lambda one: (-one[1][1], one[0]))
    if kind == AVERAGE_SHAP:
        in_order.sort(key=lambda one: (-abs(one[1][1]), one[0]))
        most = abs(in_order[0][1][1]) or 1.0
        shown = [((name, f"{last:+.3g}", f"({first:+.3g})"), abs(last) / most) for name, (first, last) in in_order]
        return _some_and_all(_KINDS[kind], ("Feature", "Mean", "At first"), shown, MOST_FEATURES)
    largest = in_order[0][1][1] or 1.0
    rows = [((name, f"{last:.1%}", f"({first:.1%})"), last / largest) for name, (first, last) in in_order]
    return _some_and_all(_KINDS.get(kind, kind), ("Feature", "Share", "At first"), rows, MOST_FEATURES)


def _matrix(run: LabelledRun, known: Classified | None) -> Markup:
    if known is None:
        return _no_classes(run)
    matrix = known.matrix
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    cut = f" A probability above {CUT} counts as class 1." if run.family is Family.BINARY else ""
    note = element(
        "p",
        f"Rows: the true class; columns: the predicted one; shares are of the row, each class's recall.{cut}",
        class_="note",
    )
    if known.count <= MOST_CELLS:
        return joined(note, matrix_slider(run, known, _cells(matrix, shares)))
    pairs = _confused(matrix)
    head = ("True class", "Predicted as", "Samples", "Share of the true class")
    rows = [(f"{i}", f"{j}", f"{matrix[i, j]:,}", f"{shares[i, j]:.1%}") for i, j in pairs[:MOST_BARS]]
    return joined(
        note,
        shades("Confusion", shares, rows="true class", columns="predicted class"),
        table(head, rows, "Most often mistaken") if rows else element("p", "Nothing is mistaken."),
    )


def _cells(matrix: NDArray[np.int64], shares: Numbers) -> Markup:
    head = element(
        "tr",
        element("th", "true \\ predicted", scope="col"),
        *(element("th", f"{k}", scope="col") for k in range(len(matrix))),
    )
    body = [
        element(
            "tr",
            element("th", f"{i}", scope="row"),
            *(
                element(
                    "td",
                    f"{matrix[i, j]:,}",
                    element("small", f" {shares[i, j]:.0%}"),
                    class_=f"share-{round(shares[i, j] * 5)}",
                )
                for j in range(len(matrix))
            ),
        )
        for i in range(len(matrix))
    ]
    return scrolled(
        element("table", element("thead", head), element("tbody", body), class_="confusion"), "Confusion matrix"
    )


def _confused(matrix: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the pairs of classes that are mistaken, the most often mistaken first."""
    others = matrix.copy()
    np.fill_diagonal(others, 0)
    order = np.argsort(-others, axis=None, kind="stable")[: int((others > 0).sum())]
    return [(int(at // len(matrix)), int(at % len(matrix))) for at in order]


def _classes(run: LabelledRun, known: Classified | None) -> Markup:
    if known is None:
        return _no_classes(run)
    scores = class_scores(known.matrix)
    accuracy = float((known.labels == known.classes).mean())
    averages = [(name, *(number(one) for one in three)) for name, three in scores.averages(accuracy).items()]
    commonest = scores.support.max() / scores.support.sum()
    order = np.argsort(np.where(scores.support > 0, scores.f1, np.inf), kind="stable")
    rows = [
        (
            (
                f"class {k}",
                _share(scores.precision[k]),
                _share(scores.recall[k]),
                _share(scores.f1[k]),
                f"{scores.support[k]:,}",
            ),
            float(scores.f1[k]),
        )
        for k in order
    ]
    words = f"Accuracy {accuracy:.1%}; naming the commonest class each time would have {commonest:.1%}."
    return joined(
        element("p", words),
        table(("Over", "Precision", "Recall", "F1"), averages),
        _some_and_all(
            "Each class, the worst F1 first", ("Class", "Precision", "Recall", "F1", "Labels"), rows, MOST_BARS
        ),
    )


def _share(value: float) -> str:
    return "none predicted" if np.isnan(value) else f"{value:.3f}"


def _recall_over_rounds(run: LabelledRun, known: Classified | None) -> Markup:
    if known is None:
        return _no_classes(run)
    recalls = np.full((len(run.saved), known.count), np.nan)
    for row, saved in enumerate(run.saved):
        one = classified(saved, run.family, run.objective)
        if one is not None and one.count <= known.count:
            recalls[row, : one.count] = class_scores(one.matrix).recall
    if len(run.saved) < 2:
        return element("p", "Labels and predictions were saved at one step only.")
    steps = np.array([saved.step for saved in run.saved], np.float64)
    came = [k for k in range(known.count) if np.isfinite(recalls[-1, k])]
    worst = sorted(came, key=lambda k: float(recalls[-1, k]))[:MOST_LINES]
    lines = [Line(f"class {k}", *_where_finite(steps, recalls[:, k])) for k in worst]
    more = (
        f"The {len(worst)} of {len(came)} classes with the least recall at the end." if len(came) > len(worst) else None
    )
    return joined(
        curves("Recall", [line for line in lines if len(line.x)], x="round", y="recall"),
        element("p", more, class_="note") if more else None,
    )


def _where_finite(x: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    inside = np.isfinite(y)
    return x[inside], y[inside]


def _cuts(run: LabelledRun, known: Classified | None) -> Markup:
    if known is None:
        return _no_classes(run)
    if known.scores is None:
        return element(
            "p", "Not applicable: the predictions are classes, not probabilities. multi:softprob gives those."
        )
    if known.scores.ndim == 2:
        return _one_against_others(known, known.scores)
    is_class = known.labels == 1
    found = cuts(is_class, known.scores)
    if not found.right[-1] or not found.wrong[-1]:
        return element("p", "Not applicable: all labels are of one class.")
    share = float(is_class.mean())
    means, shares, counts = calibration(is_class, known.scores)
    return joined(
        element(
            "p",
            f"Area below the ROC curve {found.area:.4f} (a guess has 0.5); average precision "
            f"{found.average_precision:.4f} (a guess has {share:.4f}).",
        ),
        curves(
            "ROC", [Line("all cuts", found.false_share, found.recall)],
            x="share of class 0 taken for class 1", y="share of class 1 that is found", diagonal=True,
        ),
        curves(
            "Precision and recall",
            [Line("all cuts", found.recall[1:], found.precision)],
            x="recall",
            y="precision",
        ),
        table(_CUT_WORDS, list(_cut_rows(is_class, known.scores)), "At some cuts"),
        cut_slider(is_class, known.scores),
        curves(
            "Calibration", [Line("tenths of the scores", means, shares)],
            x="mean predicted probability", y="share of class 1", diagonal=True,
        ),
        element(
            "p", "Below the diagonal the model is too sure of class 1. Samples in each tenth: ",
            ", ".join(f"{count:,}" for count in counts), class_="note",
        ),
        _scores_by_class(is_class, known.scores),
    )  # fmt: skip


def _cut_rows(is_class: NDArray[np.bool_], scores: Numbers) -> Iterator[tuple[str, ...]]:
    for cut in np.linspace(0.1, 0.9, 9):
        taken = scores >= cut
        right, count = int((taken & is_class).sum()), int(taken.sum())
        recall = right / int(is_class.sum())
        precision = right / count if count else float("nan")
        f1 = 2 * right / (count + int(is_class.sum()))
        yield f"{cut:.1f}", _share(precision), f"{recall:.3f}", f"{f1:.3f}", f"{count:,}"


def _scores_by_class(is_class: NDArray[np.bool_], scores: Numbers) -> Markup:
    edges = np.linspace(0, 1, _BINS // 2 + 1)
    counts = [(f"class {k}", np.histogram(scores[is_class == k], edges)[0]) for k in (0, 1)]
    return histogram("Predicted probability by true class", edges, counts, x="predicted probability of class 1")


def _one_against_others(known: Classified, scores: Numbers) -> Markup:
    support = np.bincount(known.labels, minlength=known.count)
    columns = min(scores.shape[1], known.count)
    found = [(k, cuts(known.labels == k, scores[:, k])) for k in range(columns) if 0 < support[k] < len(known.labels)]
    if not found:
        return element("p", "Not applicable: all labels are of one class.")
    found.sort(key=lambda one: one[1].area)
    lines = [Line(f"class {k}", one.false_share, one.recall) for k, one in found[: MOST_LINES // 2]]
    rows = [((f"class {k}", f"{one.area:.4f}", f"{one.average_precision:.4f}"), one.area) for k, one in found]
    mean = float(np.mean([one.area for _, one in found]))
    return joined(
        element(
            "p",
            f"Each class against all others: mean area below the ROC curve {mean:.4f}; the curves are the worst ones.",
        ),
        curves(
            "ROC", lines, x="share of others taken for the class", y="share of the class that is found", diagonal=True
        ),
        _some_and_all("Area below the ROC curve", ("Class", "Area", "Average precision"), rows, MOST_BARS),
    )


def _residuals(run: LabelledRun, known: Classified | None) -> Markup:
    why = _no_numbers(run)
    if why is not None:
        return why
    last = run.saved[-1]
    found = residuals(last)
    counts, edges = np.histogram(found, bins=_BINS)
    size, mean = float(np.abs(found).mean()), float(found.mean())
    root = float(np.sqrt(np.square(found).mean()))
    parts = np.quantile(found, (0.05, 0.5, 0.95))
    words = (
        f"Predicted minus true: mean {number(mean)}, median {number(parts[1])}, nine of ten from {number(parts[0])} to "
        f"{number(parts[2])}. Mean absolute error {number(size)}, root mean square error {number(root)}, "
        f"R² {number(r_squared(last))}."
    )
    bias = abs(mean) > size / 2
    one_sided = f"On average the model predicts too {'much' if mean > 0 else 'little'}: most errors have one sign."
    return joined(
        element("p", words),
        histogram("Residuals", edges, [("samples", counts)], x="predicted minus true"),
        element("p", one_sided) if bias else None,
        _predicted_and_true(last.labels, last.predictions),
    )


def _predicted_and_true(labels: Numbers, predictions: Numbers) -> Markup:
    low, high = float(min(labels.min(), predictions.min())), float(max(labels.max(), predictions.max()))
    if low == high:
        return joined()
    counts, _, _ = np.histogram2d(-predictions, labels, bins=60, range=[[-high, -low], [low, high]])
    title = f"Predicted and true, from {number(low)} to {number(high)}"
    return shades(title, counts / counts.max(), rows="predicted, the largest at the top,", columns="true")


def _bins(run: LabelledRun) -> Markup:
    why = _no_numbers(run)
    if why is not None:
        return why
    bins = label_bins(run.saved)
    names = [f"{number(a)} to {number(b)}" for a, b in zip(bins.edges[:-1], bins.edges[1:], strict=True)]
    last = bins.errors[-1]
    largest = float(np.nanmax(last)) or 1.0
    rows = [
        ((name, f"{count:,}", number(float(error)) if count else "no label"), float(error) / largest if count else 0.0)
        for name, count, error in zip(names, bins.count.tolist(), last.tolist(), strict=True)
    ]
    found = meters("Mean absolute error by label", ("Label", "Labels", "Error"), rows)
    if len(run.saved) < 2:
        return found
    steps = np.array([saved.step for saved in run.saved], np.float64)
    lines = [Line(name, *_where_finite(steps, bins.errors[:, place])) for place, name in enumerate(names)]
    known = [line for line in lines if len(line.x)]
    return joined(found, curves("Error by label over rounds", known, x="round", y="mean absolute error"))


# Shared ---------------------------------------------------------------------------------------------------------------


def _some_and_all(title: str, head: Sequence[str], rows: Sequence[tuple[Sequence[str], float]], most: int) -> Markup:
    """Return the first rows in the open, and the others folded up."""
    shown = meters(title, head, rows[:most])
    if len(rows) <= most:
        return shown
    rest = rows[most : most + MOST_FOLDED]
    left_out = len(rows) - most - len(rest)
    words = f"{len(rest):,} more" + (f"; {left_out:,} beyond are left out" if left_out else "")
    return joined(shown, folded(words, table(head, [cells for cells, _ in rest])))


def _lacking() -> Markup:
    return element(
        "p",
        "Labels and predictions were not saved together. Save both: ",
        element("code", 'save={"labels": 10, "predictions": 10}'),
        ".",
    )


def _no_classes(run: LabelledRun) -> Markup:
    if not run.saved:
        return _lacking()
    if run.family in {Family.BINARY, Family.CLASSES}:
        return element("p", "Not applicable: the labels or predictions are not class numbers from 0 to 999.")
    return element("p", f"Not applicable: the model answers with {_ANSWERS[run.family]}, not with classes.")


def _no_numbers(run: LabelledRun) -> Markup | None:
    if not run.saved:
        return _lacking()
    if run.family is not Family.NUMBERS:
        return element("p", f"Not applicable: the model answers with {_ANSWERS[run.family]}.")
    if run.saved[-1].predictions.ndim != 1:
        return element("p", "Not applicable: each sample has several predictions, and one label.")
    return None


_ANSWERS = {
    Family.BINARY: "a probability of one class",
    Family.CLASSES: "classes",
    Family.NUMBERS: "numbers",
    Family.RANKING: "scores that order samples within a group, on a scale of their own",
    Family.SURVIVAL: "a time or a risk, of which a label is only a bound",
}
