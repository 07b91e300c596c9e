"""The place of a loss's targets in the tokens that its model read: the next token, the same one, the one after next.

Cross entropy keeps its targets for the backward pass, and a loss that picks log-probabilities keeps their indices. They
are compared with the tokens of the newest batches, so that it does not matter who shifts: the model, a collator or the
script.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.graph_nodes import nodes_of
from trackside.frameworks.pytorch.losses.targets import LAYERS
from trackside.frameworks.pytorch.saving.slabs import PLAIN_TYPES

NEXT, UNKNOWN = 1.0, -1.0
_PLACES = 3  # ahead of a token, that are tried: itself, the next, the one after
_MOST_NODES = 256  # between a loss and the last layer of its model
_MOST_NODES_TO_TOKENS = 4000  # between a loss and the tables of embeddings of its model
_KEPT = {"NllLossBackward0": "target", "NllLoss2DBackward0": "target", "GatherBackward0": "index"}
_SAME, _OTHER = 0.99, 0.5  # shares of targets that are, and are not, at a place
_FEWEST_TARGETS = 8


def target_places(end: Any, batches: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Return the number of places by which the targets of a loss are ahead of the tokens, as a tensor of one number.

    1 if the targets of any part of it are the next tokens; -1 if they are at no place; None without targets.

    Args:
        end: The last node of the loss.
        batches: Tokens of the newest batches, one of which the loss is of: rows and places.

    Raises:
        RuntimeError: The script has written over what the graph keeps.
    """
    found = [place for targets in _targets(end) for tokens in batches if (place := _place(targets, tokens)) is not None]
    if not found:
        return None
    places = torch.stack(found)
    return torch.where((places == NEXT).any(), NEXT, places.max())


def tokens_of(end: Any) -> list[torch.Tensor]:
    """Return the whole numbers that tables of embeddings were asked for on the way to a loss, each rows and places.

    Raises:
        RuntimeError: The script has written over what the graph keeps.
    """
    found = list[torch.Tensor]()
    if next(_targets(end), None) is None:
        return found
    for node in nodes_of(end, _MOST_NODES_TO_TOKENS):
        tokens = kept(node, "indices") if type(node).__name__ == "EmbeddingBackward0" else None
        if tokens is None or type(tokens) not in PLAIN_TYPES:
            continue
        if tokens.dim() == 2 and tokens.shape[1] > _PLACES:
            found.append(tokens.detach())
    return found


def _targets(end: Any) -> Iterator[torch.Tensor]:
    """Yield the whole numbers that a loss is computed with, behind the last layer of its model."""
    seen, waiting = {end}, [end]
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        kind = type(node).__name__
        if kind in LAYERS:
            continue
        if kind in _KEPT and (targets := kept(node, _KEPT[kind])) is not None and not targets.is_floating_point():
            yield targets.detach()
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def _place(targets: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor | None:
    """Return the place of most targets; None where they do not stand in the rows of the tokens."""
    rows, width = tokens.shape
    places = targets.numel() // rows
    is_of_rows = targets.numel() % rows == 0 and width - _PLACES < places <= width and width > _PLACES
    if not is_of_rows or not has_memory(tokens):
        return None
    targets = targets.reshape(rows, places)
    tokens = tokens.to(targets.device, non_blocking=True)
    shares = []
    for ahead in range(_PLACES):
        size = min(places, width - ahead)
        own = targets[:, :size]
        counts = own >= 0
        same = ((own == tokens[:, ahead : ahead + size]) & counts).sum() / counts.sum().clamp(min=1)
        shares.append(torch.where(counts.sum() >= _FEWEST_TARGETS, same, 0.0))
    at = torch.stack(shares)
    best = at.argmax().float()
    is_sure = (at.max() > _SAME) & ((best == NEXT) | (at[int(NEXT)] < _OTHER))
    return torch.where(is_sure, best, UNKNOWN)
