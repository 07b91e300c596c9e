"""Values of parameters that are as a common initializer draws them."""

from __future__ import annotations

import torch

from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.shared.initial_draws import FEWEST_NUMBERS, MOST_NUMBERS, Moments, is_drawn

_MOST_ROWS = 32
_ORTHOGONAL = 1e-4  # of the rows' squared length


def looks_untrained(parameter: torch.Tensor) -> bool:
    """Return True for a matrix with values as a common initializer draws them.

    - uniform in +-1/sqrt(inputs), as PyTorch's own layers; of more numbers uniform within any bound (Xavier, Kaiming)
    - normal, whole or truncated at two deviations, with a deviation that is given as such (0.02), or follows from the
      inputs and outputs (Xavier, Kaiming, LeCun)
    - orthogonal

    A weight that was ever trained has left the bound, or lost that shape.
    """
    if not is_readable(parameter) or parameter.dim() < 2 or not parameter.is_floating_point():
        return False
    return _is_drawn(parameter) or _is_orthogonal(parameter)


def _is_drawn(parameter: torch.Tensor) -> bool:
    with torch.no_grad():
        numbers = parameter.detach().reshape(-1)[:MOST_NUMBERS].float()
        numbers = numbers[numbers != 0]  # the row of an embedding for padding is cleared
        count = numbers.numel()
        if count < FEWEST_NUMBERS:
            return False
        squares = numbers.square()
        moments = torch.stack([numbers.mean(), squares.mean(), squares.square().mean(), numbers.abs().max()]).tolist()
    return is_drawn(Moments(count, *moments), parameter.shape)


def _is_orthogonal(parameter: torch.Tensor) -> bool:
    """Return True for rows (or columns, if fewer) of equal length at right angles to each other."""
    with torch.no_grad():
        matrix = parameter.detach().reshape(parameter.shape[0], -1)
        if matrix.shape[0] > matrix.shape[1]:
            matrix = matrix.t()
        if matrix.numel() > MOST_NUMBERS * _MOST_ROWS:
            return False
        rows = matrix[:_MOST_ROWS].float()
        if len(rows) < 3:
            return False
        products = rows @ rows.t()
        lengths = products.diagonal()
        square = lengths.mean()
        off = (products - torch.diag(lengths)).abs().max()
        spread = (lengths - square).abs().max()
        return bool((square > 0) & (torch.maximum(off, spread) < _ORTHOGONAL * square))


def is_readable(parameter: torch.Tensor) -> bool:
    """Return True if a parameter is whole and dense, and has memory.

    Args:
        parameter: The parameter.
    """
    is_whole = parameter.layout == torch.strided and not hasattr(parameter, "to_local")
    return is_whole and has_memory(parameter)
