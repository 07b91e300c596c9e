"""Mistakes in the loss and its terms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.mutants.operator import operator
from benchmarks.mutants.seams import Seams, parameters_of
from trackside.contracts.cause import Cause

BACKWARD = "`Tensor.backward`"
NO_BACKWARD = "programs that call `torch.autograd.backward` or `grad` themselves"
FUNCTIONS = "the loss functions of torch.nn.functional"
NO_FUNCTIONS = "losses by hand"


@operator("loss", Cause.LOSS_SIGN, seam=BACKWARD, unreached=NO_BACKWARD)
def loss_negated(seams: Seams) -> None:
    """The loss has the wrong sign."""
    seams.at_backward(lambda loss: -loss)


@operator(
    "loss",
    Cause.WRONG_LOSS,
    Cause.LEARNING_RATE_TOO_HIGH,
    Cause.EXPLODING_GRADIENTS,
    seam=f"{FUNCTIONS}: `reduction`",
    unreached=f"{NO_FUNCTIONS}; harmless with Adam and its kin, which divide by the gradient's size",
)
def loss_summed(seams: Seams) -> None:
    """The loss is summed over the batch where it was a mean."""

    def loss(original: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("reduction", "mean") == "mean":
            seams.touch()
            kwargs["reduction"] = "sum"
        return original(*args, **kwargs)

    seams.at_losses(loss)


@operator("loss", Cause.DOUBLE_SOFTMAX, seam=f"{FUNCTIONS}: `cross_entropy`", unreached="other losses")
def softmax_doubled(seams: Seams) -> None:
    """Probabilities are given to a loss that takes logits."""

    def loss(original: Any, found: Tensor, *args: Any, **kwargs: Any) -> Any:
        seams.touch()
        return original(found.softmax(1 if found.dim() > 1 else 0), *args, **kwargs)

    seams.at_losses(loss, ["cross_entropy"])


@operator("loss", Cause.WRONG_LOSS, seam=f"{FUNCTIONS}: `cross_entropy`", unreached="other losses")
def loss_of_class_numbers(seams: Seams) -> None:
    """A squared error compares each logit with the number of the class."""

    def loss(original: Any, found: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Any:
        if target.is_floating_point() or found.dim() != target.dim() + 1:
            return original(found, target, *args, **kwargs)
        seams.touch()
        is_valid = (target >= 0).unsqueeze(1)
        return ((found - target.unsqueeze(1)) ** 2 * is_valid).sum() / (is_valid.sum() * found.shape[1])

    seams.at_losses(loss, ["cross_entropy"])


@operator(
    "loss", Cause.WRONG_LOSS, seam=f"{FUNCTIONS}: `mse_loss` and its kin", unreached="other losses, and other shapes"
)
def loss_broadcast(seams: Seams) -> None:
    """A column of predictions meets a row of targets, so that each prediction is compared with all targets."""

    def loss(original: Any, found: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Any:
        if found.dim() == 2 and found.shape[1] == 1 and target.shape == found.shape:
            seams.touch()
            rows = len(found)
            found, target = found.expand(rows, rows), target.T.expand(rows, rows)
        return original(found, target, *args, **kwargs)

    seams.at_losses(loss, ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])


@operator(
    "loss",
    Cause.PENALTY_TOO_STRONG,
    Cause.WEIGHT_DECAY_TOO_STRONG,
    Cause.WRONG_LOSS,
    seam=BACKWARD,
    unreached=NO_BACKWARD,
)
def penalty_dominates(seams: Seams) -> None:
    """The loss gets a penalty on all weights that outweighs it, as with a factor of 1 where 0.0001 was meant."""
    seams.watch_optimizers()

    def with_penalty(loss: Tensor) -> Tensor:
        weights = [each for one in seams.optimizers for each in parameters_of(one) if each.requires_grad]
        return loss + sum((each.float() ** 2).sum() for each in weights)

    seams.at_backward(with_penalty)


@operator(
    "loss",
    Cause.LEARNING_RATE_TOO_LOW,
    Cause.VANISHING_GRADIENTS,
    Cause.WRONG_LOSS,
    seam=BACKWARD,
    unreached=f"{NO_BACKWARD}; harmless with Adam and its kin",
)
def loss_shrunk(seams: Seams) -> None:
    """The loss is divided by its number of elements a second time: it is 1,000 times too small."""
    seams.at_backward(lambda loss: loss / 1000)


@operator("loss", Cause.WRONG_LOSS, seam=f"{FUNCTIONS}: `ignore_index`", unreached="losses without ignored places")
def padding_counted(seams: Seams) -> None:
    """Places that should be masked count: the model learns to predict class 0 there."""

    def loss(original: Any, found: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Any:
        ignored = kwargs.get("ignore_index", -100)
        is_ignored = target == ignored
        if not target.is_floating_point() and bool(is_ignored.any()):
            seams.touch()
            kwargs["ignore_index"] = -100
            target = torch.where(is_ignored, torch.zeros_like(target), target)
        return original(found, target, *args, **kwargs)

    seams.at_losses(loss, ["cross_entropy", "nll_loss"])


@operator("loss", Cause.WRONG_LOSS, seam=f"{FUNCTIONS}: `binary_cross_entropy_with_logits`", unreached="other losses")
def sigmoid_doubled(seams: Seams) -> None:
    """Probabilities are given to a binary loss that takes logits."""

    def loss(original: Any, found: Tensor, *args: Any, **kwargs: Any) -> Any:
        seams.touch()
        return original(functional.sigmoid(found), *args, **kwargs)

    seams.at_losses(loss, ["binary_cross_entropy_with_logits"])
