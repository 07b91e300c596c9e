"""Mistakes in data, labels and the order of rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from benchmarks.mutants.operator import operator
from benchmarks.mutants.seams import Pair, Seams, is_training
from trackside.contracts.cause import Cause

INPUTS = "floating-point tensors that go into a model (above `Module.__call__` of the outermost module)"
NO_FLOATS = "models with tokens or indices alone as input, and models behind `torch.jit`"
LABELS = "the targets of the loss modules, and of the loss functions of torch.nn.functional"
NO_LABELS = "losses by hand, and targets that are no class numbers"
ORDER = "`torch.randperm` once an optimizer exists: RandomSampler, and orders that a script draws itself"
NO_ORDER = "rows drawn by `torch.randint`, NumPy or Python, and one batch of all rows"
BATCH = 32


@operator("data", Cause.UNNORMALIZED_INPUTS, seam=INPUTS, unreached=NO_FLOATS)
def inputs_unscaled(seams: Seams) -> None:
    """Inputs are 255 times too large, in training and in evaluation."""
    seams.at_calls(lambda _, values: values * 255)


@operator("data", Cause.CONSTANT_INPUTS, Cause.REPEATED_DATA, seam=INPUTS, unreached=NO_FLOATS, is_silent=True)
def inputs_constant(seams: Seams) -> None:
    """A batch holds its first row again and again, as from a collator that repeats one sample (transformers-34204)."""
    seams.at_calls(lambda _, values: values[:1].expand_as(values).clone(), is_meant=is_training)


@operator("data", seam=INPUTS, unreached=NO_FLOATS)
def inputs_noisy(seams: Seams) -> None:
    """Training inputs are drowned in noise of three times their own deviation."""

    def noisy(_module: nn.Module, values: Tensor) -> Tensor:
        noise = torch.randn(values.shape, generator=seams.random, dtype=torch.float32)
        return values + 3 * float(values.detach().float().std(correction=0)) * noise.to(values.dtype)

    seams.at_calls(noisy, is_meant=is_training)


@operator("data", Cause.NON_FINITE_DATA, seam=INPUTS, unreached=NO_FLOATS)
def inputs_nan(seams: Seams) -> None:
    """From the thirtieth training batch on one value is no number."""
    count = 0

    def spoilt(_module: nn.Module, values: Tensor) -> Tensor:
        nonlocal count
        count += 1
        if count < 30:
            return values
        values = values.clone()
        values.view(-1)[values.numel() // 2] = float("nan")
        return values

    seams.at_calls(lambda module, values: spoilt(module, values.contiguous()), is_meant=is_training)


@operator("data", Cause.CONSTANT_INPUTS, Cause.UNNORMALIZED_INPUTS, seam=INPUTS, unreached=NO_FLOATS, is_silent=True)
def inputs_lost(seams: Seams) -> None:
    """Every third training batch arrives as zeros, as from a broken transfer (pytorch-84803)."""
    count = 0

    def lost(_module: nn.Module, values: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return torch.zeros_like(values) if count % 3 == 0 else values

    seams.at_calls(lost, is_meant=is_training)


@operator("data", Cause.WRONG_LABELS, seam=INPUTS, unreached=NO_FLOATS)
def axes_mixed(seams: Seams) -> None:
    """Rows and columns of a training batch are mixed up by a `reshape` in place of a transposition."""

    def mixed(_module: nn.Module, values: Tensor) -> Tensor:
        return values.reshape(len(values), -1).T.reshape(values.shape) if values.dim() > 1 else values

    seams.at_calls(mixed, is_meant=is_training)


@operator("data", Cause.OVERFITTING, Cause.REPEATED_DATA, seam=ORDER, unreached=NO_ORDER)
def rows_removed(seams: Seams) -> None:
    """Only a twentieth of the training rows is ever drawn, at least 32."""
    seams.at_order(lambda order: order % min(len(order), max(BATCH, len(order) // 20)))


@operator("labels", Cause.WRONG_LABELS, seam=LABELS, unreached="losses by hand, and batches of one row")
def labels_shuffled(seams: Seams) -> None:
    """Targets of a training batch belong to other rows of it."""

    def shuffled(found: Tensor, target: Tensor) -> Pair | None:
        return (found, target[torch.randperm(len(target), generator=seams.random)]) if len(target) > 1 else None

    seams.at_pairs(shuffled)


def _classes(seams: Seams, change: Any) -> None:
    """Change class numbers at the losses that take them, with the number of classes; training alone."""

    def classes(found: Tensor, target: Tensor) -> Pair | None:
        is_classes = not target.is_floating_point() and found.dim() == target.dim() + 1
        return (found, torch.where(target >= 0, change(target, found.shape[1]), target)) if is_classes else None

    seams.at_pairs(classes, ("cross_entropy", "nll_loss", "multi_margin_loss"))


@operator("labels", Cause.WRONG_LABELS, seam=LABELS, unreached=NO_LABELS)
def labels_partly_wrong(seams: Seams) -> None:
    """Half of the training labels are drawn by lot."""

    def drawn(target: Tensor, classes: int) -> Tensor:
        other = torch.randint(classes, target.shape, generator=seams.random)
        is_wrong = torch.rand(target.shape, generator=seams.random) < 0.5
        return torch.where(is_wrong, other, target)

    _classes(seams, drawn)


@operator("labels", Cause.WRONG_LABELS, seam=LABELS, unreached=NO_LABELS)
def labels_off_by_one(seams: Seams) -> None:
    """Training labels count from another class than those of the evaluation."""
    _classes(seams, lambda target, classes: (target + 1) % classes)


@operator("labels", Cause.WRONG_LABELS, Cause.CLASS_IMBALANCE, seam=LABELS, unreached=NO_LABELS)
def classes_overlap(seams: Seams) -> None:
    """Most rows of the upper half of the classes carry the label of the first class."""

    def overlapping(target: Tensor, classes: int) -> Tensor:
        is_moved = (target >= classes // 2) & (torch.rand(target.shape, generator=seams.random) < 0.8)
        return torch.where(is_moved, torch.zeros_like(target), target)

    _classes(seams, overlapping)


@operator("labels", Cause.CLASS_IMBALANCE, seam=LABELS, unreached=NO_LABELS)
def class_dropped(seams: Seams) -> None:
    """Rows of the upper half of the classes are hardly ever trained on: 1 in 20 is left."""

    def kept(found: Tensor, target: Tensor) -> Pair | None:
        if target.is_floating_point() or target.dim() != 1 or found.dim() != 2:
            return None
        is_kept = (target < found.shape[1] // 2) | (torch.rand(target.shape, generator=seams.random) < 0.05)
        return (found[is_kept], target[is_kept]) if is_kept.any() else None

    seams.at_pairs(kept, ("cross_entropy", "nll_loss", "multi_margin_loss"))


@operator("sampler", Cause.DATA_ORDER, seam=ORDER, unreached=f"{NO_ORDER}; harmless where the data lie unsorted")
def rows_not_shuffled(seams: Seams) -> None:
    """Training rows come in the order in which they lie, in each epoch the same."""
    seams.at_order(lambda order: torch.arange(len(order), dtype=order.dtype))


@operator("sampler", Cause.REPEATED_DATA, Cause.OVERFITTING, seam=ORDER, unreached=NO_ORDER)
def batch_repeated(seams: Seams) -> None:
    """Each batch has the same 32 rows."""
    first: dict[int, Tensor] = {}

    def repeated(order: Tensor) -> Tensor:
        rows = first.setdefault(len(order), order[:BATCH].clone())
        return rows[torch.arange(len(order)) % len(rows)]

    seams.at_order(repeated)


@operator(
    "sampler",
    Cause.LARGE_BATCHES,
    Cause.LEARNING_RATE_TOO_LOW,
    seam="`DataLoader.__init__`: `batch_size`",
    unreached="programs without a DataLoader, and loaders with a batch sampler",
)
def batching_disabled(seams: Seams) -> None:
    """A batch is the whole data set, so that an epoch has one step."""

    def init(original: Any, loader: Any, dataset: Any, batch_size: Any = 1, *args: Any, **kwargs: Any) -> None:
        if batch_size and kwargs.get("batch_sampler") is None and hasattr(dataset, "__len__") and len(dataset):
            seams.touch()
            batch_size = len(dataset)
        original(loader, dataset, batch_size, *args, **kwargs)

    seams.wrap(DataLoader, "__init__", init)


@operator(
    "evaluation",
    Cause.DATA_LEAKAGE,
    seam="`DataLoader.__iter__`",
    unreached="programs with one DataLoader or none",
    is_silent=True,
)
def evaluation_on_training_data(seams: Seams) -> None:
    """An evaluation iterates over the training data."""
    training: list[Any] = []

    def iterate(original: Any, loader: Any) -> Any:
        if is_training():
            training[:] = [loader]
        elif training and training[0] is not loader:
            seams.touch()
            return original(training[0])
        return original(loader)

    seams.wrap(DataLoader, "__iter__", iterate)


@operator("evaluation", Cause.UNNORMALIZED_INPUTS, seam=INPUTS, unreached=NO_FLOATS, is_silent=True)
def evaluation_unscaled(seams: Seams) -> None:
    """Inputs of an evaluation are prepared in another way than those of the training: 255 times too large."""
    seams.at_calls(lambda _, values: values * 255, is_meant=lambda: not is_training())
