"""Targets that are noise of which the model reads nothing, as where a diffusion model's noise was drawn once more.

A squared error keeps its target, or its difference, which is the target where nothing is learned; layers keep what they
read. If a target is standard normal noise, what the model reads has a part of it, else nothing can be learned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.graph_nodes import nodes_of
from trackside.frameworks.pytorch.saving.slabs import PLAIN_TYPES

MOST_NODES = 4000  # of a graph, nearest to its end, among which layers are looked for
MOST_LAYERS = 16
_NEAR_THE_END = 32  # nodes among which the error is looked for
_FEWEST_ROWS, _FEWEST_NUMBERS = 32, 256
_MOST_ROWS, _MOST_COLUMNS = 512, 64
_CERTAIN = 5.5  # standard errors of a correlation: the largest of 65,000 is below it by chance
_CLOSE = 4.0  # standard errors: of mean, variance and quartiles
_WHITE = 2.5  # standard errors of the correlation of neighbours
_QUARTILE = 0.6745  # of the standard normal distribution
_SMALLEST = 1e-12
_ERRORS = {"MseLossBackward0": "target", "SmoothL1LossBackward0": "target", "HuberLossBackward0": "target"}
_LINEAR = {"AddmmBackward0": "mat1", "MmBackward0": "self"}
_CONVOLUTIONS = {"ConvolutionBackward0", "MkldnnConvolutionBackward0", "CudnnConvolutionBackward0"}


def unrelated_noise(end: Any) -> torch.Tensor | None:
    """Return 1 if the target of a loss is standard normal noise that no layer reads any of, else 0.

    A tensor without dimensions; None without such a loss, or layers to compare its target with.

    Args:
        end: The last node of the loss.

    Errors: `RuntimeError` if the script has written over what the graph keeps.
    """
    noise = next(_targets(end), None)
    if noise is None or not _may_be_noise(noise):
        return None
    with torch.no_grad():
        noise = noise.detach().float()
        errors = [found for read in _read(end) if (found := _relation(read, noise)) is not None]
        return (_is_normal(noise) & (torch.stack(errors).max() < _CERTAIN)).float() if errors else None


def _targets(end: Any) -> Iterator[torch.Tensor]:
    """Yield targets of squared errors near the end of a graph, and differences that are squared by hand."""
    for node in nodes_of(end, _NEAR_THE_END):
        kind = node.name()
        is_square = kind == "PowBackward0" and node._saved_exponent == 2
        if kind in _ERRORS or is_square:
            found = kept(node, _ERRORS.get(kind, "self"))
            if found is not None:
                yield found


def _read(end: Any) -> Iterator[torch.Tensor]:
    """Yield what the layers of a model read, of the last ones first."""
    count = 0
    for node in nodes_of(end, MOST_NODES):
        kind = node.name()
        name = "input" if kind in _CONVOLUTIONS else _LINEAR.get(kind)
        found = kept(node, name) if name is not None and count < MOST_LAYERS else None
        if found is not None and type(found) in PLAIN_TYPES and found.is_floating_point():
            count += 1
            yield found.detach()


def _may_be_noise(noise: torch.Tensor) -> bool:
    is_wide = noise.dim() > 1 and len(noise) >= _FEWEST_ROWS and noise.numel() > len(noise)
    is_plain = type(noise) in PLAIN_TYPES and noise.is_floating_point()
    return is_wide and is_plain and noise.numel() >= _FEWEST_NUMBERS


def _is_normal(noise: torch.Tensor) -> torch.Tensor:
    """Return True for standard normal numbers without a relation to their neighbours, as far as moments show it.

    A mixture with data, as other targets of diffusion are, has one: neighbours in data are alike.
    """
    error = _CLOSE / math.sqrt(noise.numel())
    has_mean, has_variance = noise.mean().abs() < error, (noise.var() - 1).abs() < math.sqrt(2) * error
    inner = (noise.abs() < _QUARTILE).float().mean()
    is_normal = has_mean & has_variance & ((inner - 0.5).abs() < 0.5 * error)
    for axis in range(1, noise.dim()):
        count = noise.shape[axis] - 1
        if count:
            products = noise.narrow(axis, 0, count) * noise.narrow(axis, 1, count)
            is_normal &= products.mean().abs() < _WHITE / math.sqrt(products.numel())
    return is_normal


def _relation(read: torch.Tensor, noise: torch.Tensor) -> torch.Tensor | None:
    """Return the largest correlation of a column that is read with one of the noise, in standard errors.

    None if they have no rows in common.
    """
    if read.device != noise.device:
        return None
    if read.dim() > 2:
        if read.shape[:1] + read.shape[2:] != noise.shape[:1] + noise.shape[2:]:
            return None
        rows = max(1, _MOST_ROWS * _MOST_COLUMNS // read[0, 0].numel())
        return _largest(*(each[:rows, :_MOST_COLUMNS].transpose(0, 1).flatten(1).T for each in (read, noise)))
    if read.dim() < 2 or len(read) < _FEWEST_ROWS or noise.numel() % len(read):
        return None
    wide = noise.reshape(len(read), -1)[:_MOST_ROWS]
    read = read[:_MOST_ROWS]
    width = wide.shape[1]
    errors = [_largest(_some(read), _some(wide))]
    if width <= read.shape[1]:  # the noise itself, before or behind what else is read
        errors += [_largest(part.reshape(-1, 1), wide.reshape(-1, 1)) for part in (read[:, :width], read[:, -width:])]
    return torch.stack(errors).max()


def _some(table: torch.Tensor) -> torch.Tensor:
    return table[:, :: max(1, -(-table.shape[1] // _MOST_COLUMNS))]


def _largest(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the largest correlation of columns of two tables of equal length, in standard errors."""
    one, other = (each.float() - each.float().mean(0) for each in (one, other))
    one, other = (each / each.norm(dim=0).clamp(min=_SMALLEST) for each in (one, other))
    return (one.T @ other).abs().max() * math.sqrt(len(one))
