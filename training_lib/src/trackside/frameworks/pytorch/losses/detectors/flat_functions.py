"""Functions without a slope, between a loss and parameters that no other way leads to.

The gradient of `round`, `sign` or `floor` is zero: what lies behind is never trained, without any error. Where one
passes straight through, as in `x + (x.round() - x).detach()`, the function is no part of the graph. No value is read.
"""

from __future__ import annotations

from typing import Any

from trackside.contracts.observations import FLAT_FUNCTION
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.shared.detectors import sees

_MOST_NODES = 20_000  # of the graph; a larger one is not looked at
_MOST_NAMES = 8
_PARAMETER = "AccumulateGrad"
_FLAT = {
    "RoundBackward0": "round", "RoundBackward1": "round", "SignBackward0": "sign", "SgnBackward0": "sgn",
    "FloorBackward0": "floor", "CeilBackward0": "ceil", "TruncBackward0": "trunc",
}  # fmt: skip


@sees(FLAT_FUNCTION)
def flat_function(loss: SeenLoss) -> tuple[str, ...]:
    """Return the name of such a function and shapes of parameters behind it; () for none."""
    reached, flat = _walk([loss.end], set())
    reached -= set(flat)
    if not flat or len(reached) > _MOST_NODES:
        return ()
    found: list[str] = []
    name = ""
    for node in flat:
        behind, _ = _walk([node], reached, stops=False)
        lost = [each for each in behind if type(each).__name__ == _PARAMETER]
        if lost and not name:
            name = _FLAT[type(node).__name__]
        found += [str(tuple(each.variable.shape)) for each in lost]
        reached |= behind
    return (name, *found[:_MOST_NAMES]) if found else ()


def _walk(ends: list[Any], known: set[Any], *, stops: bool = True) -> tuple[set[Any], list[Any]]:
    """Return the nodes that a gradient gets to from these, without the known ones, and the flat ones that stop it."""
    seen, flat, order = set[Any](), list[Any](), list(ends)
    while order:
        node = order.pop()
        if node in seen or node in known:
            continue
        seen.add(node)
        if len(seen) > _MOST_NODES:
            break
        if stops and type(node).__name__ in _FLAT:
            flat.append(node)
            continue
        order += [following for following, _ in getattr(node, "next_functions", ()) if following is not None]
    return seen, flat
