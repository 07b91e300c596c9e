"""Sliders of the report on a model: the cut of a classifier, and the saved step of its confusion matrix.

A slider is hidden until the script of the page shows it; the tables beside it are readable without.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from trackside.views.report.charts.markup import Markup, element
from trackside.views.report.model.classification import Classified, classified
from trackside.views.report.model.labelled import LabelledRun

CUTS = 99  # from 0.01 to 0.99

Numbers = NDArray[np.float64]


def cut_slider(is_class: NDArray[np.bool_], scores: Numbers) -> Markup:
    """Return a slider of the cut from which a score counts as class 1.

    Args:
        is_class: True for samples of class 1, of shape (n,).
        scores: Of shape (n,), from 0 to 1.
    """
    places = np.arange(1, CUTS + 1) / (CUTS + 1)
    found = [[int((scores >= cut).sum()), int((is_class & (scores >= cut)).sum())] for cut in places]
    return element(
        "div",
        element(
            "label",
            "A score counts as class 1 from ",
            element("input", type="range", min=1, max=CUTS, value=(CUTS + 1) // 2),
        ),
        element("output", aria_live="polite"),
        class_="slider",
        hidden=True,
        data_cuts=json.dumps(found, separators=(",", ":")),
        data_positive=int(is_class.sum()),
        data_samples=len(is_class),
    )


def matrix_slider(run: LabelledRun, last: Classified, cells: Markup) -> Markup:
    """Return a confusion matrix with a slider of the saved steps; without one for a single step.

    Args:
        run: The saved labels and predictions.
        last: Those of the last step.
        cells: The matrix of the last step as a table.
    """
    known = [(one.step, classified(one, run.family, run.objective)) for one in run.saved]
    found = [(step, one.matrix.tolist()) for step, one in known if one is not None and one.count == last.count]
    if len(found) < 2:
        return cells
    slider = element(
        "label",
        "At saved step ",
        element("input", type="range", min=0, max=len(found) - 1, value=len(found) - 1),
        " ",
        element("output", f"{found[-1][0]:,}", aria_live="polite"),
        class_="stepper",
        hidden=True,
    )
    return element(
        "div",
        cells,
        slider,
        class_="stepped",
        data_steps=json.dumps([step for step, _ in found]),
        data_matrices=json.dumps([matrix for _, matrix in found], separators=(",", ":")),
    )
