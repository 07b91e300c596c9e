"""Losses that do not fit, and what a loop forgets."""

from functools import partial

from torch import Tensor
from torch.nn import functional

from benchmarks.detection.corpus.data import CHARACTERS
from benchmarks.detection.corpus.edits import ends_in_softmax, settings, softmax_before_loss, wrong_sign
from benchmarks.detection.corpus.models import Transformer
from benchmarks.detection.corpus.registry import plant

double_softmax = partial(plant, "double-softmax")
wrong_loss = partial(plant, "wrong-loss")
wrong_mode = partial(plant, "wrong-mode")

# The wrong loss


def _likelihood_of_logits(outputs: Tensor, answers: Tensor) -> Tensor:
    """NLLLoss wants logarithms of probabilities; given logits it falls without end."""
    return functional.nll_loss(outputs, answers)


def _broadcast(outputs: Tensor, answers: Tensor) -> Tensor:
    """A column against a row: every answer is compared with every output."""
    return ((outputs - answers.flatten()) ** 2).mean()


def _one_class_entropy(outputs: Tensor, answers: Tensor) -> Tensor:
    """Cross entropy over one single class: always 0."""
    return functional.cross_entropy(outputs, answers)


for program in ("digits-rmsprop", "digits-dropout", "cnn-plain", "iris-elu"):
    wrong_loss(program, settings(criterion=_likelihood_of_logits), "NLLLoss is given logits.")
for program in ("friedman-silu", "friedman-mlp", "diabetes-mlp", "waves-gru"):
    wrong_loss(program, settings(criterion=_broadcast), "A column minus a row: all against all.")
for program in ("moons-wide", "cancer-mlp"):
    wrong_loss(program, settings(criterion=_one_class_entropy), "Cross entropy over one single output.")

for program in ("wine-mlp", "waves-rnn", "cnn-plain", "cancer-tanh", "friedman-mlp", "topics-gru"):
    plant("wrong-loss-sign", program, wrong_sign(), "The loss has a minus before it.")

for program in ("digits-mlp", "digits-clipped", "cnn-plain", "digits-deep"):
    double_softmax(program, softmax_before_loss(), "softmax, then a loss that wants logits.")
double_softmax("digits-hardtanh", ends_in_softmax(), "The model ends in a softmax.")

# zero_grad

for program in (
    "digits-mlp",
    "autoencoder-plain",
    "cancer-tanh",
    "cnn-plain",
    "friedman-mlp",
    "waves-lstm",
    "topics-mlp",
):
    plant("missing-zero-grad", program, settings(clears_gradients=False), "`zero_grad` is never called.")

# Modes

for program in ("cnn-dropout", "digits-strong-dropout"):
    wrong_mode(program, settings(evaluates_in_evaluation_mode=False), "Evaluation without `eval()`.")
for program in ("resnet-small", "resnet-deep"):
    wrong_mode(program, settings(trains_in_training_mode=False), "Training without `train()`.")

# A transformer that sees the future


def _last_place(outputs: Tensor, answers: Tensor) -> float:
    """Only the last place has no future in the input."""
    return float((outputs[:, -1].argmax(1) == answers[:, -1]).float().mean())


plant(
    "leakage",
    "characters-transformer",
    settings(model=lambda: Transformer(CHARACTERS, length=24, tied=True, causal=False), metric=_last_place),
    "No causal mask: what is to be foretold can be seen.",
)
