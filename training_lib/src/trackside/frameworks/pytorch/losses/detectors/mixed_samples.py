"""A softmax over the samples of a batch, before a loss that takes it for one over the classes of each."""

from __future__ import annotations

from trackside.contracts.observations import MIXES_SAMPLES
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.targets import WHOLE, shape_of
from trackside.frameworks.shared.detectors import sees

_LONGEST_WALK = 16
_OF_CLASS_NUMBERS = {"NllLossBackward0", "NllLoss2DBackward0"}
_SOFTMAX = {"LogSoftmaxBackward0", "SoftmaxBackward0"}


@sees(MIXES_SAMPLES)
def mixes_samples(loss: SeenLoss) -> bool:
    """Return True if a softmax over the samples of a batch made the class probabilities that a loss was given.

    A square of scores, as of pairs in a batch, may well have one over its columns.
    """
    node = loss.node
    if type(node).__name__ not in _OF_CLASS_NUMBERS:
        return False
    found = node.next_functions[0]
    for _ in range(_LONGEST_WALK):
        if type(found[0]).__name__ not in WHOLE | {"LogBackward0"}:
            break
        found = found[0].next_functions[0]
    if type(found[0]).__name__ not in _SOFTMAX:
        return False
    shape = shape_of(*found)
    axis = found[0]._saved_dim % (1 << 64)  # torch keeps a negative number as an unsigned one
    is_first = axis == 0 or axis == (1 << 64) - len(shape)
    return is_first and len(shape) > 1 and shape[0] > 1 and shape[0] != shape[1]
