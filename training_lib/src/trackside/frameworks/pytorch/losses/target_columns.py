"""Columns of one target in a squared error: how unlike they are in size, and what the model has learned of them.

The mean squared error of PyTorch keeps its predictions and targets for the backward pass. Columns that hold few
different values (one-hot, flags, sparse counts) are left out, and so is anything but rows of 2 to 32 columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from trackside.frameworks.pytorch.losses.attention import kept

MOST_NODES = 32  # from the end of the loss
FEWEST_ROWS, MOST_COLUMNS = 8, 32
_MOST_ALIKE = 0.2  # share of a column's values that equal its first
_OF_ROWS = 2  # dimensions


class ColumnNumbers(NamedTuple):
    """Numbers of the columns with the largest and the smallest deviation, each a tensor without dimensions.

    - `scale`: the largest deviation over the smallest; 1 where fewer than two columns count
    - `small_error`, `large_error`: the mean squared error of that column over its variance
    """

    scale: torch.Tensor
    small_error: torch.Tensor
    large_error: torch.Tensor


def column_numbers(end: Any) -> ColumnNumbers | None:
    """Return the numbers of the first squared error of rows in the graph of a loss; None without one.

    Args:
        end: The last node of the loss.

    Errors: `RuntimeError` if the script has written over what the graph keeps.
    """
    waiting, looked = [end], 0
    while waiting and looked < MOST_NODES:
        node = waiting.pop(0)
        looked += 1
        if node.name() == "MseLossBackward0":
            predictions, targets = kept(node, "self"), kept(node, "target")
            if predictions is not None and targets is not None and _is_of_rows(predictions, targets):
                return _numbers(predictions.detach().float(), targets.detach().float())
            continue
        waiting += [following for following, _ in node.next_functions if following is not None]
    return None


def _is_of_rows(predictions: torch.Tensor, targets: torch.Tensor) -> bool:
    if predictions.shape != targets.shape or targets.dim() != _OF_ROWS or not targets.is_floating_point():
        return False
    return len(targets) >= FEWEST_ROWS and 1 < targets.shape[1] <= MOST_COLUMNS


def _numbers(predictions: torch.Tensor, targets: torch.Tensor) -> ColumnNumbers:
    with torch.no_grad():
        variances = targets.var(0, correction=0)
        counts = ((targets == targets[:1]).float().mean(0) < _MOST_ALIKE) & (variances > 0)
        errors = (predictions - targets).square().mean(0) / torch.where(variances > 0, variances, 1.0)
        large = torch.where(counts, variances, 0.0).argmax()
        small = torch.where(counts, variances, torch.inf).argmin()
        is_pair = counts.sum() > 1
        ratio = torch.where(is_pair, variances[large] / torch.where(is_pair, variances[small], 1.0), 1.0)
        return ColumnNumbers(ratio.sqrt(), errors[small], errors[large])
