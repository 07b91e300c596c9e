"""The rows of data that a backward pass is about, by what its graph keeps of them.

Layers that read data keep it for the backward pass: the input of a product or a convolution, the numbers of an
embedding. Rows with a gradient of their own, as those of an attack, are not data.
"""

from __future__ import annotations

from typing import Any

from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.graph_nodes import nodes_of
from trackside.frameworks.pytorch.saving.slabs import PLAIN_TYPES

_MOST_NODES = 500  # of the graph, nearest to the loss
_MOST_ROWS, _MOST_NUMBERS = 64, 32  # that stand for a batch, and for a row
_LAYERS = {  # kind -> place of the data among its inputs, and the name of what it keeps
    "AddmmBackward0": (1, "mat1"),
    "MmBackward0": (0, "self"),
    "ConvolutionBackward0": (0, "input"),
    "EmbeddingBackward0": (None, "indices"),
}


def rows_of(loss: Any) -> frozenset[bytes]:
    """Return what stands for each row of data in the graph of a loss; nothing where none is known.

    Args:
        loss: What `backward` is called on.

    Errors: `RuntimeError` if the script has written over what the graph keeps.
    """
    end = getattr(loss, "grad_fn", None)
    if end is None:
        return frozenset()
    found: set[bytes] = set()
    for node in nodes_of(end, _MOST_NODES):
        layer = _LAYERS.get(node.name())
        if layer is not None and (layer[0] is None or node.next_functions[layer[0]][0] is None):
            found |= _rows(kept(node, layer[1]))
    return frozenset(found)


def _rows(data: Any) -> set[bytes]:
    if type(data) not in PLAIN_TYPES or not data.is_cpu or data.dim() < 2 or data.numel() == 0:
        return set()
    some = data.detach()[:_MOST_ROWS].flatten(1)[:, :_MOST_NUMBERS].contiguous()
    return {row.numpy().tobytes() for row in (some.float() if some.is_floating_point() else some)}
