"""The nodes of a loss's graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def nodes_of(end: Any, most: int) -> Iterator[Any]:
    """Yield the nodes of a graph, nearest to its end first, and of a larger one no more than `most`.

    Args:
        end: The last node.
        most: A number of nodes, at least 1.
    """
    seen, order = {end}, [end]
    for node in order:
        yield node
        for following, _ in getattr(node, "next_functions", ()):
            if following is not None and following not in seen and len(order) < most:
                seen.add(following)
                order.append(following)
