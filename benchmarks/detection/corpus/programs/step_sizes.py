"""Steps of every size that are right, and steps that are far too small or too large. All of the tune split."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from benchmarks.detection.corpus import checkpoints, data, edits
from benchmarks.detection.corpus.data import Data
from benchmarks.detection.corpus.models import (
    Autoencoder,
    BagOfWords,
    ConvNet,
    Places,
    Recurrent,
    ResidualNet,
    Transformer,
    mlp,
)
from benchmarks.detection.corpus.optimizers import adam, adamw, by_step, momentum, nesterov, sgd, warmup_cosine
from benchmarks.detection.corpus.program import TUNE
from benchmarks.detection.corpus.registry import plant, recipe
from benchmarks.detection.corpus.supervised import Recipe, explained, regression

learning_rate_too_low = partial(plant, "learning-rate-too-low")
wrong_weight_decay = partial(plant, "wrong-weight-decay")
constant_inputs = partial(plant, "constant-inputs")
symmetric_initialisation = partial(plant, "symmetric-initialisation")
stalled_training = partial(plant, "stalled-training")


@recipe(TUNE, "digits", "MLP 64-768-768-10", at_least=0.9, chance=0.1, odd="very wide: weights hardly move")
def digits_very_wide() -> Recipe:
    """Layers so wide that little steps are enough."""
    return Recipe(data.digits, lambda: mlp(64, 768, 768, 10), momentum, 0.05, 8)


@recipe(TUNE, "digit images", "CNN 8-16, batch normalisation", at_least=0.9, chance=0.1)
def cnn_adamw() -> Recipe:
    """A convolutional network with AdamW and a warm-up."""
    return Recipe(
        data.digit_images, lambda: ConvNet(channels=(1, 8, 16), norm=True), adamw, 3e-3, 6, schedule=warmup_cosine(20)
    )


@recipe(TUNE, "waves", "GRU 1-32-1", at_least=0.85)
def waves_rmsprop() -> Recipe:
    """A recurrent network with RMSprop."""
    return regression(
        data.waves, lambda: Recurrent(nn.GRU, 1, 32, 1), optim.RMSprop, 2e-3, 8, criterion=nn.SmoothL1Loss()
    )


@recipe(TUNE, "reversal", "transformer 2 x 32", at_least=0.3, chance=0.125)
def reversal_warmup() -> Recipe:
    """A transformer with AdamW, a warm-up and a decay."""
    return Recipe(
        data=data.reversal,
        model=lambda: Transformer(8, length=6, causal=False),
        optimizer=adamw,
        rate=3e-3,
        epochs=14,
        schedule=warmup_cosine(40),
        criterion=Places(),
    )


@recipe(TUNE, "digits", "autoencoder 64-32-12", at_least=0.4)
def autoencoder_nadam() -> Recipe:
    """An autoencoder with GELU and NAdam."""
    return regression(
        data.reconstruction(data.digits), lambda: Autoencoder(64, 32, 12, activation=nn.GELU), optim.NAdam, 3e-3, 9
    )


@recipe(TUNE, "diabetes", "MLP 10-32-1", at_least=0.3)
def diabetes_adagrad() -> Recipe:
    """Regression with Adagrad and an absolute error."""
    return regression(
        data.diabetes, lambda: mlp(10, 32, 1, activation=nn.Tanh), optim.Adagrad, 0.03, 25, criterion=nn.L1Loss()
    )


@recipe(TUNE, "topics", "embeddings 800 x 24, linear", at_least=0.8, chance=0.25)
def topics_adagrad() -> Recipe:
    """Bags of words with a layer above them, Adam."""
    return Recipe(data.topic_words, lambda: BagOfWords(data.WORDS, 24, 4, hidden=16), adam, 5e-3, 10)


@recipe(TUNE, "breast cancer", "MLP 30-24-1", at_least=0.9, chance=0.63)
def cancer_nesterov() -> Recipe:
    """Two classes in one logit, Nesterov's momentum."""
    return Recipe(
        data=data.breast_cancer_binary,
        model=lambda: mlp(30, 24, 1, activation=nn.ELU),
        optimizer=nesterov,
        rate=0.02,
        epochs=15,
        criterion=nn.BCEWithLogitsLoss(),
    )


@recipe(TUNE, "Friedman", "MLP 10-48-48-1", at_least=0.7)
def friedman_own_units() -> Recipe:
    """Targets around 14 in their own units: most of the first loss is their mean."""
    return regression(
        data=lambda seed: data.friedman(seed).with_targets(lambda values: 5 * values + 14),
        model=lambda: mlp(10, 48, 48, 1),
        optimizer=adam,
        rate=3e-3,
        epochs=14,
    )


class _Denoiser(nn.Module):
    """An encoder and a decoder of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, 12, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(12, 1, 4, stride=2, padding=1)

    def forward(self, images: Tensor) -> Any:
        return self.up(functional.relu(self.down(images)))


@recipe(TUNE, "digit images", "convolutional autoencoder", at_least=0.5)
def images_reconstructed() -> Recipe:
    """Images, squeezed by a stride and blown up again."""
    return Recipe(
        data=data.reconstruction(data.digit_images),
        model=_Denoiser,
        optimizer=adam,
        rate=3e-3,
        epochs=9,
        criterion=nn.MSELoss(),
        metric=_explained_pixels,
    )


def _explained_pixels(outputs: Tensor, targets: Tensor) -> float:
    return explained(outputs.flatten(1), targets.flatten(1))


@recipe(
    TUNE,
    data="digits",
    model="MLP 64-64-64-10, from a checkpoint",
    at_least=0.85,
    chance=0.1,
    odd="fine-tuned with a rate of 1e-5",
)
def digits_fine_tuned() -> Recipe:
    """A network that was trained before goes on with a rate of 1e-5."""
    return Recipe(data.digits, checkpoints.digit_reader, adamw, 1e-5, 6, schedule=warmup_cosine(20))


def _by_value(found: Data) -> Data:
    return found.with_targets(lambda labels: labels.float().unsqueeze(1) / 3 - 1.5)


class _Reader(nn.Module):
    """What reads digits already, with a new last layer."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.body = checkpoints.digit_reader()[:-1]
        self.head = nn.Linear(64, outputs)

    def forward(self, rows: Tensor) -> Any:
        return self.head(self.body(rows))


def _with_slow_body(model: nn.Module) -> list[dict[str, Any]]:
    return [
        {"params": model.get_submodule("body").parameters(), "lr": 1e-6},
        {"params": model.get_submodule("head").parameters()},
    ]


@recipe(
    TUNE, "digits", "MLP from a checkpoint, new head", at_least=0.3, odd="a body with a rate of 1e-6 below a new head"
)
def digits_value_head() -> Recipe:
    """How large is the digit? By a network that told them apart before."""
    return regression(
        lambda seed: _by_value(data.digits(seed)), lambda: _Reader(1), adam, 1e-3, 8, parameters=_with_slow_body
    )


@recipe(TUNE, "digits", "MLP 64-64-10", at_least=0.6, chance=0.1, odd="slow, but it gets there")
def digits_slow() -> Recipe:
    """Plain SGD with a rate of 0.01: slow and steady."""
    return Recipe(data.digits, lambda: mlp(64, 64, 10), sgd, 0.01, 20)


@recipe(TUNE, "digits", "MLP 64-128-10", at_least=0.8, chance=0.1, odd="batches of a thousand, few steps")
def digits_huge_batch() -> Recipe:
    """Two steps an epoch."""
    return Recipe(data.digits, lambda: mlp(64, 128, 10), adam, 1e-3, 45, batch_size=540, schedule=warmup_cosine(10))


@recipe(
    TUNE,
    data="digit images",
    model="residual CNN 8 x 2",
    at_least=0.85,
    chance=0.1,
    odd="batch normalisation makes a rate of 1 right",
)
def resnet_large_rate() -> Recipe:
    """Normalised layers forgive large steps: their weights have no scale."""
    return Recipe(data.digit_images, lambda: ResidualNet(channels=8, blocks=2), sgd, 1.0, 5)


@recipe(TUNE, "Friedman", "MLP 10-16-1", at_least=0.02, odd="next to nothing can be foretold")
def friedman_of_noise() -> Recipe:
    """Targets of which nine tenths are noise: the loss hardly falls, and nothing is wrong."""

    def noisy(seed: int) -> Data:
        random = torch.Generator().manual_seed(seed)
        return data.friedman(seed).with_targets(
            lambda values: values + 2.5 * torch.randn(values.shape, generator=random)
        )

    return regression(noisy, lambda: mlp(10, 16, 1), adam, 2e-3, 12)


@recipe(
    TUNE,
    data="topics",
    model="sparse embeddings 800 x 64",
    at_least=0.7,
    chance=0.25,
    odd="a batch touches a few rows of a large table",
)
def topics_huge_table() -> Recipe:
    """SparseAdam on a table of which a batch reads a few rows."""

    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.EmbeddingBag(40 * data.WORDS, 8, mode="mean", sparse=True)
            self.register_buffer("reading", torch.randn(8, 4))

        def forward(self, passages: Tensor) -> Any:
            return self.table(passages) @ self.reading

    return Recipe(data.topic_words, Table, optim.SparseAdam, 0.02, 10)


for _program, _rates in {
    "digits-very-wide": (1e-6, 1e-5, 1e-4),
    "cnn-adamw": (1e-7, 1e-6, 1e-5),
    "waves-rmsprop": (1e-7, 1e-6, 1e-5),
    "reversal-warmup": (1e-7, 1e-6, 1e-5),
    "autoencoder-nadam": (1e-7, 1e-6),
    "diabetes-adagrad": (1e-6, 1e-5),
    "topics-adagrad": (1e-7, 2e-6),
    "cancer-nesterov": (1e-7, 1e-5),
    "friedman-own-units": (1e-8, 1e-6, 1e-5),
    "images-reconstructed": (1e-8, 1e-6),
    "resnet-large-rate": (1e-5, 1e-4),
}.items():
    for _rate in _rates:
        learning_rate_too_low(_program, edits.rate(_rate), f"The rate is {_rate:g}.", name=f"rate-{_rate:g}")

for _program, _rate in {
    "digits-very-wide": 5.0,
    "cnn-adamw": 1.0,
    "waves-rmsprop": 0.5,
    "reversal-warmup": 0.3,
    "autoencoder-nadam": 1.0,
    "diabetes-adagrad": 30.0,
    "topics-adagrad": 3.0,
    "cancer-nesterov": 20.0,
    "friedman-own-units": 3.0,
    "images-reconstructed": 1.0,
}.items():
    plant("learning-rate-too-high", _program, edits.rate(_rate), f"The rate is {_rate:g}.")

learning_rate_too_low(
    "digits-slow",
    edits.both(edits.rate(1e-3), edits.settings(schedule=by_step(lambda step, steps: 1e-3 + 1e-3 * step / steps))),
    "A rate that warms up for ever, from 1e-6 to 2e-6.",
    name="endless-warmup",
)
learning_rate_too_low(
    "digits-huge-batch",
    edits.both(edits.settings(schedule=None), edits.rate(1e-12)),
    "A rate below what float32 can add to a weight.",
    name="below-rounding",
)
wrong_weight_decay("digits-very-wide", edits.optimizer(weight_decay=0.5), "A weight decay of 0.5.")
wrong_weight_decay("waves-rmsprop", edits.optimizer(weight_decay=0.5), "A weight decay of 0.5.")
wrong_weight_decay("reversal-warmup", edits.optimizer(weight_decay=30.0), "A weight decay of 30.")
wrong_weight_decay("topics-adagrad", edits.optimizer(weight_decay=1.0), "A weight decay of 1.")


def _constant_rows(rows: Tensor) -> Tensor:
    return rows[:1].expand_as(rows).clone()


for _program in ("topics-adagrad", "reversal-warmup", "waves-rmsprop", "cancer-nesterov", "autoencoder-nadam"):
    constant_inputs(_program, edits.inputs(_constant_rows), "Every row is the first one.")
constant_inputs("topics-huge-table", edits.inputs(torch.zeros_like), "Every word is unknown.")
constant_inputs("cnn-adamw", edits.inputs(lambda rows: torch.full_like(rows, 0.5)), "Grey images.")

for _program in ("cnn-adamw", "reversal-warmup", "autoencoder-nadam", "topics-adagrad"):
    symmetric_initialisation(_program, edits.all_equal(0.03), "Every weight starts at 0.03.")
symmetric_initialisation("images-reconstructed", edits.all_equal(0.0), "Every parameter starts at 0.", name="zeros")
symmetric_initialisation(
    "digits-very-wide",
    edits.weights(partial(nn.init.constant_, val=0.01), "0", "2"),
    "The hidden layers start at a constant.",
)
symmetric_initialisation(
    "friedman-own-units",
    edits.both(edits.weights(partial(nn.init.zeros_), "0", "2"), edits.biases(0.0, "0", "2")),
    "The hidden layers start at 0.",
)
symmetric_initialisation("diabetes-adagrad", edits.all_equal(0.0), "Every parameter starts at 0.", name="zeros")
stalled_training("cnn-adamw", edits.copied_model(0), "After epoch 1 a copy is trained.", begins=34)
stalled_training("reversal-warmup", edits.frozen_after(0), "All matrices are frozen after epoch 1.", begins=30)
stalled_training("waves-rmsprop", edits.frozen_after(0), "All matrices are frozen after epoch 1.", begins=23)
