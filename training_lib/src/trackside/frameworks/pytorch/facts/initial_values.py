"""Evidence of a parameter's initialization in its values: a few rows or numbers of each, read once."""

from __future__ import annotations

import math

import torch

_MOST_NUMBERS = 1 << 16
_TOLERANCE = 0.05  # of the deviation of a uniform distribution, seen from some thousand numbers
_FEWEST_NUMBERS = 64
_FULL = 0.9  # of the bound that the largest of so many numbers reaches


def has_equal_rows(parameter: torch.Tensor) -> bool:
    """Return True for a matrix with equal first two rows and last row: units that started alike, and stay so.

    False for a tensor without values here. Reads three rows; on a device it waits for them.
    """
    if not _is_readable(parameter) or parameter.dim() < 2 or parameter.shape[0] < 3 or parameter[0].numel() < 2:
        return False
    with torch.no_grad():
        rows = parameter.detach()
        return torch.equal(rows[0], rows[1]) and torch.equal(rows[0], rows[-1])


def looks_untrained(parameter: torch.Tensor) -> bool:
    """Return True for a matrix that still looks as PyTorch's own layers initialise it: uniform in +-1/sqrt(fan_in).

    No number lies beyond that bound, the largest comes near it, and the root mean square is that of a uniform
    distribution. A weight that was ever trained has left the bound, or lost that shape.
    """
    if not _is_readable(parameter) or parameter.dim() < 2 or not parameter.is_floating_point():
        return False
    size = parameter.numel()
    if size < _FEWEST_NUMBERS:
        return False
    units = [parameter.shape[0] / gates for gates in (1, 3, 4)]  # the rows of GRU and LSTM belong to several gates
    bounds = [1 / math.sqrt(fan) for fan in (size / parameter.shape[0], *units)]
    with torch.no_grad():
        numbers = parameter.detach().reshape(-1)[:_MOST_NUMBERS].float()
        largest, square = float(numbers.abs().max()), float(numbers.square().mean())
    return any(_is_uniform(largest, math.sqrt(square), bound) for bound in bounds)


def _is_uniform(largest: float, root_mean_square: float, bound: float) -> bool:
    expected = bound / math.sqrt(3)
    is_within = _FULL * bound < largest <= bound * (1 + 1e-4)
    return is_within and abs(root_mean_square - expected) < _TOLERANCE * expected


def _is_readable(parameter: torch.Tensor) -> bool:
    return parameter.layout == torch.strided and not parameter.is_meta and not hasattr(parameter, "to_local")
