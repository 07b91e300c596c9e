"""Operations on the way to a loss that join the samples of a batch: a view, a softmax or a norm along their axis.

The samples are as many as the rows of the predictions. Graphs of a program that joins rows on purpose, as messages
between nodes do, are left alone. No value is read.
"""

from __future__ import annotations

from typing import Any

from trackside.contracts.observations import JOINED_SAMPLES
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.graph_nodes import nodes_of
from trackside.frameworks.pytorch.losses.targets import shape_of
from trackside.frameworks.shared.detectors import sees

VIEW, SOFTMAX, NORM = "view", "softmax", "norm"
FEWEST = 4  # samples: fewer are as many as other things
_MOST_NODES = 1000
_LONGEST_WALK = 6
_VIEWS = {"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0"}
_SOFTMAX = {"SoftmaxBackward0", "LogSoftmaxBackward0"}
_NORMS = {"LinalgVectorNormBackward0", "NormBackward1"}
_BETWEEN_ROWS = (
    "IndexAdd", "ScatterAdd", "ScatterReduce", "IndexSelect", "IndexBackward", "Gather", "SparseMm", "SparseAddmm",
    "SegmentReduce",
)  # fmt: skip


@sees(JOINED_SAMPLES)
def joined_samples(loss: SeenLoss) -> str:
    """Return what joins samples; "" for nothing, and where the number of samples is unknown."""
    if loss.node is None:
        return ""
    shape = next((known for each in loss.node.next_functions if (known := shape_of(*each))), ())
    rows = shape[0] if len(shape) == 2 else 0
    nodes = list(_nodes(loss.node)) if rows >= FEWEST else []
    if any(_is_between_rows(node, rows) for node in nodes):
        return ""
    return next((found for node in nodes[1:] if (found := _joins(node, rows))), "")


def _joins(node: Any, rows: int) -> str:
    kind = type(node).__name__
    if kind in _VIEWS and _cuts_rows(getattr(node, "_saved_self_sym_sizes", ()), shape_of(node, 0), rows):
        return VIEW
    if kind in _SOFTMAX and _is_along_rows(node, shape_of(node, 0), rows):
        return SOFTMAX
    return NORM if kind == "DivBackward0" and _is_by_norm_of_rows(node, rows) else ""


def _cuts_rows(before: tuple[Any, ...], after: tuple[int, ...], rows: int) -> bool:
    """Return True if rows at the second axis become the first one without a transposition.

    Rows of groups, as of windows in each image, are whole again in such a view.
    """
    if len(before) < 3 or len(after) < 2 or not all(type(size) is int for size in before):
        return False
    is_second = before[0] > 1 and before[0] % rows != 0 and before[1] == rows
    return is_second and after[0] == rows and after[:2] != before[:2]


def _is_along_rows(node: Any, shape: tuple[int, ...], rows: int) -> bool:
    axis = node._saved_dim % (1 << 64)  # torch keeps a negative number as an unsigned one
    is_first = axis in {0, (1 << 64) - len(shape)}
    return is_first and len(shape) == 2 and shape[0] == rows and shape[1] not in {1, rows}


def _is_by_norm_of_rows(node: Any, rows: int) -> bool:
    """Return True if values are divided by their norms along the axis of the samples."""
    (divided, _), (norm, _) = node.next_functions
    for _ in range(_LONGEST_WALK):
        inputs = [following for following, _ in getattr(norm, "next_functions", ()) if following is not None]
        if type(norm).__name__ in _NORMS:
            axes = getattr(norm, "_saved_dim", ())
            shape = shape_of(node, 0)
            is_of_rows = list(axes) in ([0], [(1 << 64) - len(shape)], [-len(shape)]) if len(shape) == 2 else False
            return is_of_rows and shape[0] == rows and inputs == [divided]
        if len(inputs) != 1:
            return False
        norm = inputs[0]
    return False


def _is_between_rows(node: Any, rows: int) -> bool:
    kind = type(node).__name__
    if kind.startswith(_BETWEEN_ROWS):
        return True
    return kind == "MmBackward0" and tuple(getattr(node, "_saved_self_sym_sizes", ())) == (rows, rows)


def _nodes(end: Any) -> list[Any]:
    """Return the nodes of a graph, nearest first; [] of a larger one."""
    found = list(nodes_of(end, _MOST_NODES + 1))
    return found if len(found) <= _MOST_NODES else []
