"""Dense targets that lie otherwise than their inputs: a flip or a rotation of one that the other did not get.

The first convolution keeps the input for the backward pass, the loss the target of the same place. How much of an
input's variance the target explains is compared with what the flipped and rotated target explains. Targets that have
little to do with what is bright fit anything now and then, so targets of other samples say what chance does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.graph_nodes import nodes_of
from trackside.frameworks.pytorch.saving.slabs import PLAIN_TYPES

MOST_NODES = 4000  # of a graph, nearest to its end, among which the convolution is looked for
_NEAR_THE_END = 32  # nodes among which the target is looked for
_FEWEST_ROWS, _MOST_ROWS = 4, 32
_SHORTEST, _LONGEST = 8, 32  # places along an axis that are compared
_MOST_CHANNELS, _MOST_CLASSES = 4, 32
_FITS, _TIMES = 0.1, 2.0  # explained share by which a turned target is ahead, and times that of the target as it is
_SMALLEST = 1e-12
_OF_PLACES = 4  # dimensions of pictures in a batch
_TARGETS = {
    "NllLoss2DBackward0", "MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0",
    "BinaryCrossEntropyBackward0", "BinaryCrossEntropyWithLogitsBackward0",
}  # fmt: skip
_CONVOLUTIONS = {"ConvolutionBackward0", "MkldnnConvolutionBackward0", "CudnnConvolutionBackward0"}


def turned_share(end: Any) -> torch.Tensor | None:
    """Return the share of a batch's samples with a target that fits once it is turned, less what chance does.

    A tensor without dimensions; None without pictures, and targets for all of their places.

    Args:
        end: The last node of the loss.

    Errors: `RuntimeError` if the script has written over what the graph keeps.
    """
    loss = _loss(end)
    convolution = None if loss is None else _convolution(end)
    if convolution is None:
        return None
    targets, pictures = kept(loss, "target"), kept(convolution, "input")
    if targets is None or pictures is None or not _belong_together(pictures, targets):
        return None
    step = max(1, -(-max(targets.shape[-2:]) // _LONGEST))
    if min(targets.shape[-2:]) < _SHORTEST * step:
        return None
    with torch.no_grad():
        some = pictures.detach()[:_MOST_ROWS, :_MOST_CHANNELS, ::step, ::step].float()
        return _share(some, _parts(targets.detach()[:_MOST_ROWS, ..., ::step, ::step]))


def _share(pictures: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
    as_it_is = _explained(pictures, parts)
    found, by_chance = (
        torch.stack([_explained(pictures, each) for each in _turned(some)]).amax(0)
        for some in (parts, parts.roll(1, 0))
    )
    least = torch.maximum(as_it_is + _FITS, _TIMES * as_it_is)
    return ((found >= least).float().mean() - (by_chance >= least).float().mean()).clamp(min=0)


def _turned(parts: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield flips and half turns, and of squares quarter turns and both transposes."""
    yield parts.flip(-1)
    yield parts.flip(-2)
    yield parts.flip((-2, -1))
    if parts.shape[-1] == parts.shape[-2]:
        turned = parts.transpose(-2, -1)
        yield turned
        yield turned.flip(-1)
        yield turned.flip(-2)
        yield turned.flip((-2, -1))


def _parts(targets: torch.Tensor) -> torch.Tensor:
    """Return what a target is made of, shape (rows, parts, height, width): the places of each class, or values."""
    if targets.dim() == _OF_PLACES:
        return targets[:, :_MOST_CLASSES].float()
    classes = torch.arange(_MOST_CLASSES, device=targets.device)
    return (targets[:, None] == classes[:, None, None]).float()


def _explained(pictures: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
    """Return the largest share of a channel's variance that a part explains, of each row: (rows,)."""
    channels, found = (each.flatten(2) for each in (pictures, parts))
    channels, found = (each - each.mean(-1, keepdim=True) for each in (channels, found))
    channels, found = (each / each.norm(dim=-1, keepdim=True).clamp(min=_SMALLEST) for each in (channels, found))
    explained: torch.Tensor = (channels @ found.transpose(1, 2)).square().amax((1, 2))
    return explained


def _belong_together(pictures: torch.Tensor, targets: torch.Tensor) -> bool:
    """Return True for pictures and targets of classes or values for each of their places."""
    if not {type(pictures), type(targets)} <= {*PLAIN_TYPES}:
        return False
    is_of_classes = targets.dim() == _OF_PLACES - 1 and not targets.is_floating_point()
    is_of_values = targets.dim() == _OF_PLACES and targets.is_floating_point()
    if not (is_of_classes or is_of_values) or pictures.dim() != _OF_PLACES or targets.device != pictures.device:
        return False
    return _FEWEST_ROWS <= len(targets) == len(pictures) and pictures.shape[-2:] == targets.shape[-2:]


def _loss(end: Any) -> Any:
    """Return the first node near the end of a graph that keeps a target for each prediction."""
    return next((node for node in nodes_of(end, _NEAR_THE_END) if node.name() in _TARGETS), None)


def _convolution(end: Any) -> Any:
    """Return the node of the convolution that reads data."""
    nodes = nodes_of(end, MOST_NODES)
    return next((node for node in nodes if node.name() in _CONVOLUTIONS and node.next_functions[0][0] is None), None)
