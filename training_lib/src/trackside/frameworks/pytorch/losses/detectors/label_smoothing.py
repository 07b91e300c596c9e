"""The smoothing of labels that cross entropy was given, read from the weights of its two terms."""

from __future__ import annotations

from trackside.contracts.observations import LABEL_SMOOTHING
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.smoothing import smoothing_of
from trackside.frameworks.shared.detectors import sees


@sees(LABEL_SMOOTHING)
def label_smoothing(loss: SeenLoss) -> float:
    """Return the share of each label that is spread over all classes; 0 for none."""
    return smoothing_of(loss.end) if loss.name == "CrossEntropyLoss" else 0.0
