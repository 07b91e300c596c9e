"""The cost of a constant answer: what a loss of one batch would be if its predictions did not depend on the inputs.

From the targets that the node of the loss keeps: the variance of each target over the batch for a squared error, the
entropy of its mean for binary targets and for classes. A constant that fits this very batch is meant, so it is the
least that any answer costs that ignores the inputs. `GuessSoFar` asks for one constant for several batches.
"""

from __future__ import annotations

from typing import Any

import torch

from trackside.frameworks.pytorch.losses.description import LossDescription, describe_loss, inputs_in_graph

FEWEST_ROWS = 8
_MOST_ELEMENTS = 1 << 22
_MEAN, _SUM = 1, 2  # torch's enum of reductions
_LONGEST_WALK = 16
_FEWEST_POOLED = 16  # rows
_FEWEST_OF_A_CLASS = 5  # on average
_MOST_COLUMNS = 1 << 16
_BINARY = frozenset({"BCELoss", "BCEWithLogitsLoss"})
_OF_CLASSES = frozenset({"CrossEntropyLoss", "NLLLoss"})


def guess_of(loss: LossDescription) -> torch.Tensor | None:
    """Return that cost, one element, in the unit of the loss before its weight; None if it is unknown.

    Args:
        loss: A loss with the node that keeps its targets.
    """
    inputs = inputs_in_graph(loss.node)
    node: Any = loss.node
    if inputs is None or _is_weighted(node):
        return None
    targets = inputs.labels
    if targets.dim() == 0 or len(targets) < FEWEST_ROWS or targets.numel() > _MOST_ELEMENTS:
        return None
    with torch.no_grad():
        found = _of(loss.name, inputs.predictions, targets, inputs.ignored_label)
        if found is None:
            return None
        mean, elements = found
        return mean * elements if getattr(node, "_saved_reduction", None) == _SUM else mean


def _of(
    name: str, predictions: torch.Tensor, targets: torch.Tensor, ignored: int | None
) -> tuple[torch.Tensor, int] | None:
    """Return the mean cost, and the number of elements that it is a mean of."""
    if name == "MSELoss" and targets.shape == predictions.shape:
        return targets.float().var(0, correction=0).mean(), targets.numel()
    if name in _BINARY and targets.shape == predictions.shape:
        return _binary_entropy(targets.float().mean(0)), targets.numel()
    if name in _OF_CLASSES:
        counts = _counts(predictions, targets, ignored)
        if counts is not None and (total := int(counts.sum())) >= FEWEST_ROWS:
            return _entropy(counts / total), total
    return None


class GuessSoFar:
    """What one constant answer to all batches so far costs, as a mean over elements."""

    def __init__(self) -> None:
        self._key: tuple[str, tuple[int, ...]] | None = None  # the loss, and the shape of what is summed up
        self._rows = 0
        self._sums = self._squares = torch.zeros(0)
        self._first = torch.zeros(0)  # from which squares are taken

    def add(self, end: Any) -> torch.Tensor | None:
        """Take the targets of a batch, and return the cost, one element; None if it is not known, or not yet.

        Args:
            end: The last node of the loss.

        Raises:
            RuntimeError: The script has written over values that the graph keeps.
        """
        loss = describe_loss(end)
        inputs = inputs_in_graph(loss.node) if _is_loss_alone(end, loss.node) else None
        if inputs is None or _is_weighted(loss.node) or getattr(loss.node, "_saved_reduction", None) != _MEAN:
            return None
        predictions, targets = inputs.predictions, inputs.labels
        if targets.dim() == 0 or not 0 < targets.numel() <= _MOST_ELEMENTS:
            return None
        with torch.no_grad():
            if loss.name in _OF_CLASSES:
                return self._of_classes(loss.name, _counts(predictions, targets, inputs.ignored_label))
            if loss.name in {"MSELoss", *_BINARY} and targets.shape == predictions.shape:
                return self._of_numbers(loss.name, targets)
        return None

    def _of_classes(self, name: str, counts: torch.Tensor | None) -> torch.Tensor | None:
        if counts is None:
            return None
        self._begin((name, tuple(counts.shape)), counts)
        self._sums = self._sums + counts
        total, seen = int(self._sums.sum()), int(self._sums.count_nonzero())
        if total < max(_FEWEST_POOLED, _FEWEST_OF_A_CLASS * seen):
            return None
        return _entropy(self._sums / total) + (seen - 1) / (2 * total)  # a sample's entropy is too low by so much

    def _of_numbers(self, name: str, targets: torch.Tensor) -> torch.Tensor | None:
        values = targets.float().reshape(len(targets), -1)
        if values.shape[1] > _MOST_COLUMNS:
            return None
        self._begin((name, tuple(values.shape[1:])), values[0])
        self._rows += len(values)
        self._sums = self._sums + (values - self._first).sum(0)
        self._squares = self._squares + (values - self._first).square().sum(0)
        if self._rows < _FEWEST_POOLED:
            return None
        means = self._sums / self._rows
        if name in _BINARY:
            return _binary_entropy(self._first + means)
        return (self._squares / self._rows - means.square()).mean().clamp(min=0)

    def _begin(self, key: tuple[str, tuple[int, ...]], first: torch.Tensor) -> None:
        if self._key != key:
            self._key, self._rows, self._first = key, 0, first.clone()
            self._sums = self._squares = torch.zeros_like(first, dtype=torch.float32)


def _is_loss_alone(end: Any, loss: Any) -> bool:
    """Return True if nothing but factors lies behind the node of a loss: smoothed labels are a sum."""
    for _ in range(_LONGEST_WALK):
        if end is loss:
            return True
        following = [node for node, _ in getattr(end, "next_functions", ()) if node is not None]
        if len(following) != 1:
            return False
        end = following[0]
    return False


def _is_weighted(node: Any) -> bool:
    return any(getattr(node, name, None) is not None for name in ("_saved_weight", "_saved_pos_weight"))


def _counts(predictions: torch.Tensor, targets: torch.Tensor, ignored: int | None) -> torch.Tensor | None:
    """Return the number of labels of each class, shape (classes,); None if the targets are no class numbers."""
    if targets.is_floating_point() or predictions.dim() < 2:
        return None
    kept = targets[targets != ignored] if ignored is not None else targets.reshape(-1)
    if not len(kept) or bool((kept < 0).any()):
        return None
    return torch.bincount(kept.reshape(-1), minlength=predictions.shape[1]).float()


def _entropy(shares: torch.Tensor) -> torch.Tensor:
    terms: torch.Tensor = torch.special.xlogy(shares, shares)
    return -terms.sum()


def _binary_entropy(shares: torch.Tensor) -> torch.Tensor:
    shares = shares.clamp(0, 1)
    terms: torch.Tensor = torch.special.xlogy(shares, shares) + torch.special.xlogy(1 - shares, 1 - shares)
    return -terms.mean()
