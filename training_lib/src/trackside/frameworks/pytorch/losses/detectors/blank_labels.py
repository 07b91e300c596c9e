"""Labels of CTC with the number of its blank, which no label may have."""

from __future__ import annotations

from typing import Any

from trackside.contracts.observations import BLANK_LABELS
from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.graph_nodes import nodes_of
from trackside.frameworks.pytorch.saving.slabs import PLAIN_TYPES
from trackside.frameworks.shared.detectors import sees

_CTC = "CtcLossBackward0"
_MOST_NODES = 64  # between a sum of losses and its CTC


@sees(BLANK_LABELS)
def blank_labels(loss: SeenLoss) -> float:
    """Return the share of the labels that are the blank; 0 for any other loss.

    Raises:
        RuntimeError: The script has written over what the graph keeps.
    """
    node: Any = next((each for each in nodes_of(loss.end, _MOST_NODES) if type(each).__name__ == _CTC), None)
    labels = kept(node, "targets") if node is not None else None
    if labels is None or type(labels) not in PLAIN_TYPES or not labels.numel():
        return 0.0
    labels = labels.detach()
    if labels.dim() == 2:  # what lies beyond the length of a row is padding, often with the blank
        lengths = labels.new_tensor(list(node._saved_target_lengths))
        places = labels.new_tensor(range(labels.shape[1]))
        labels = labels[places[None] < lengths[:, None]]
    return float((labels == node._saved_blank).float().mean()) if labels.numel() else 0.0
