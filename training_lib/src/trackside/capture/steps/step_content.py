"""Choose the content of a stored step: of each tensor its shape, its reductions, itself, by its due collections."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trackside.capture.steps.collection import Membership
from trackside.capture.steps.reduction import reduced
from trackside.capture.steps.step_tensors import StepTensors
from trackside.records.index_file import ShapeEntry

_NO_COLLECTIONS: frozenset[str] = frozenset()


class StepContent(NamedTuple):
    """The content of one stored step.

    Attributes:
        tensors: (name, value) of each tensor and each reduction.
        shapes: The shapes of tensors whose values are not stored.
        histogram_names: For each tensor with a histogram, the collection in the histogram's name.
    """

    tensors: list[tuple[str, np.ndarray]]
    shapes: list[ShapeEntry]
    histogram_names: dict[str, str]


def content_of(step: StepTensors, membership: Membership) -> StepContent:
    """Return the content to store of a step."""
    tensors: list[tuple[str, np.ndarray]] = []
    shapes: list[ShapeEntry] = []
    histogram_names: dict[str, str] = {}
    for name, value in step.tensors:
        saved = membership.saved(name, step.due, step.collections.get(name, _NO_COLLECTIONS))
        if saved.has_shape and not saved.is_raw:  # old readers lose sight of a value that has a shape entry too
            shapes.append(ShapeEntry(name, name, value.shape))
        if saved.reductions:
            tensors += reduced(name, value, saved.reductions)
        if saved.is_raw:
            tensors.append((name, value))
        if saved.histogram_of:
            histogram_names[name] = saved.histogram_of
    return StepContent(tensors, shapes, histogram_names)
