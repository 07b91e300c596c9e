"""How much each class counts in a loss: its weight, and the class that does not count at all.

Reads the weights, once a run.
"""

from __future__ import annotations

from trackside.contracts.observations import CLASS_WEIGHTS, IGNORED_CLASS
from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.targets import shape_of
from trackside.frameworks.shared.detectors import sees

_MOST_CLASSES = 20
_OF_CLASSES = {"NllLossBackward0", "NllLoss2DBackward0"}
_OF_YES_AND_NO = "BinaryCrossEntropyWithLogitsBackward0"


@sees(CLASS_WEIGHTS)
def class_weights(loss: SeenLoss) -> tuple[float, ...]:
    """Return the weights of the classes; () without weights, or for too many classes.

    Raises:
        RuntimeError: The script has written over them.
    """
    kind = type(loss.node).__name__
    if kind in _OF_CLASSES:
        weights = kept(loss.node, "weight")
        return () if weights is None or weights.numel() > _MOST_CLASSES else tuple(weights.detach().tolist())
    if kind == _OF_YES_AND_NO:
        weight = kept(loss.node, "pos_weight")
        return () if weight is None or weight.numel() != 1 else (1.0, float(weight))
    return ()


@sees(IGNORED_CLASS)
def ignored_class(loss: SeenLoss) -> int:
    """Return the number of the class with labels that do not count; -1 for none."""
    if type(loss.node).__name__ not in _OF_CLASSES:
        return -1
    shape = shape_of(*loss.node.next_functions[0]) if loss.node.next_functions[0][0] is not None else ()
    ignored = getattr(loss.node, "_saved_ignore_index", -1)
    classes = shape[1 if len(shape) > 1 else 0] if shape else 0
    return ignored if isinstance(ignored, int) and 0 <= ignored < classes else -1
