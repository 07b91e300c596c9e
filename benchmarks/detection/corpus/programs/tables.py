"""Classifiers of flowers, wines and tumours, and of points of two moons."""

from functools import partial

import torch
from torch import nn, optim

from benchmarks.detection.corpus import data, models
from benchmarks.detection.corpus.data import Data
from benchmarks.detection.corpus.models import mlp
from benchmarks.detection.corpus.optimizers import adam, adamw, cosine, drops, momentum, nesterov, sgd
from benchmarks.detection.corpus.program import REPORT, TUNE
from benchmarks.detection.corpus.registry import recipe
from benchmarks.detection.corpus.supervised import Recipe


@recipe(TUNE, "breast cancer", "logistic regression", at_least=0.92, chance=0.6)
def cancer_logistic() -> Recipe:
    """Logistic regression with plain SGD."""
    return Recipe(data.breast_cancer_binary, lambda: nn.Linear(30, 1), sgd, 0.1, 30, criterion=nn.BCEWithLogitsLoss())


@recipe(REPORT, "breast cancer", "MLP 30-32-16-1", at_least=0.92, chance=0.6)
def cancer_mlp() -> Recipe:
    """Two hidden layers with ReLU and Adam, one logit."""
    return Recipe(
        data.breast_cancer_binary, lambda: mlp(30, 32, 16, 1), adam, 2e-3, 30, criterion=nn.BCEWithLogitsLoss()
    )


@recipe(REPORT, "breast cancer", "MLP 30-24-24-24-2, tanh", at_least=0.92, chance=0.6)
def cancer_tanh() -> Recipe:
    """Three hidden layers with tanh, SGD with momentum."""
    return Recipe(data.breast_cancer, lambda: mlp(30, 24, 24, 24, 2, activation=nn.Tanh), momentum, 0.02, 25)


def _few_malignant(seed: int) -> Data:
    """One malignant tumour in twenty is left, in the training data."""
    found = data.breast_cancer_binary(seed)
    keep = (found.train[1][:, 0] == 1) | (torch.arange(len(found.train[1])) % 8 == 0)
    return found.with_train(lambda inputs, targets: (inputs[keep], targets[keep]))


@recipe(
    REPORT, "breast cancer", "MLP 30-16-1", at_least=0.88, chance=0.6, odd="imbalanced classes, handled by a weight"
)
def cancer_rare_weighted() -> Recipe:
    """One class is rare, and its errors weigh more."""
    return Recipe(
        data=_few_malignant,
        model=lambda: mlp(30, 16, 1),
        optimizer=adam,
        rate=3e-3,
        epochs=35,
        criterion=nn.BCEWithLogitsLoss(pos_weight=torch.tensor([0.12])),
    )


@recipe(REPORT, "breast cancer", "linear", at_least=0.92, chance=0.6, odd="hinge loss, exactly 0 for most")
def cancer_hinge() -> Recipe:
    """A linear support vector machine: hinge loss and weight decay."""
    return Recipe(
        data=data.breast_cancer,
        model=lambda: nn.Linear(30, 2),
        optimizer=partial(optim.SGD, weight_decay=1e-3),
        rate=0.02,
        epochs=25,
        criterion=nn.MultiMarginLoss(),
    )


@recipe(REPORT, "breast cancer", "residual MLP of 12 blocks", at_least=0.92, chance=0.6, odd="25 layers")
def cancer_deep_residual() -> Recipe:
    """A deep and narrow residual network."""
    return Recipe(data.breast_cancer, lambda: models.ResidualPerceptron(30, 16, 12, 2), adamw, 1e-3, 12, clip_norm=1.0)


@recipe(TUNE, "wine", "MLP 13-32-32-3", at_least=0.88, chance=0.4)
def wine_mlp() -> Recipe:
    """Two hidden layers with ReLU, SGD with momentum."""
    return Recipe(data.wine, lambda: mlp(13, 32, 32, 3), momentum, 0.03, 50, batch_size=16)


@recipe(
    REPORT, "wine", "softmax regression", at_least=0.88, chance=0.4, odd="a learning rate of 2, which is right for it"
)
def wine_large_rate() -> Recipe:
    """Softmax regression on all data at once, with a large learning rate."""
    return Recipe(data.wine, lambda: nn.Linear(13, 3), sgd, 2.0, 200, batch_size=200)


@recipe(REPORT, "wine", "MLP 13-24-24-3, batch normalisation", at_least=0.88, chance=0.4)
def wine_batchnorm() -> Recipe:
    """Batch normalisation between layers, Nesterov momentum."""
    return Recipe(data.wine, lambda: mlp(13, 24, 24, 3, norm=nn.BatchNorm1d), nesterov, 0.02, 45, batch_size=18)


@recipe(TUNE, "wine", "MLP 13-20-3, sigmoid", at_least=0.88, chance=0.4)
def wine_sigmoid() -> Recipe:
    """One hidden layer with sigmoid and Adam."""
    return Recipe(data.wine, lambda: mlp(13, 20, 3, activation=nn.Sigmoid), adam, 0.02, 40, batch_size=16)


@recipe(REPORT, "wine", "MLP 13-16-3", at_least=0.88, chance=0.4, odd="batches of 2: a very noisy loss")
def wine_tiny_batches() -> Recipe:
    """Batches of two examples."""
    return Recipe(data.wine, lambda: mlp(13, 16, 3), sgd, 0.02, 10, batch_size=2)


@recipe(REPORT, "iris", "MLP 4-3-3", at_least=0.85, chance=0.33, odd="27 parameters")
def iris_tiny() -> Recipe:
    """A very small network."""
    return Recipe(data.iris, lambda: mlp(4, 3, 3, activation=nn.Tanh), adam, 0.03, 50, batch_size=15)


@recipe(REPORT, "iris", "MLP 4-32-32-3, ELU", at_least=0.85, chance=0.33)
def iris_elu() -> Recipe:
    """ELU, and a learning rate that drops twice."""
    return Recipe(
        data=data.iris,
        model=lambda: mlp(4, 32, 32, 3, activation=nn.ELU),
        optimizer=momentum,
        rate=0.05,
        epochs=50,
        batch_size=10,
        schedule=drops(0.6, 0.85),
    )


@recipe(TUNE, "iris", "MLP 4-16-3", at_least=0.85, chance=0.33, odd="one batch is all there is: 300 epochs")
def iris_full_batch() -> Recipe:
    """All examples in each step."""
    return Recipe(data.iris, lambda: mlp(4, 16, 3), adam, 0.02, 250, batch_size=90)


@recipe(REPORT, "two moons", "MLP 2-32-32-2, SiLU", at_least=0.93, chance=0.5)
def moons_silu() -> Recipe:
    """Two inputs, SiLU, a cosine schedule."""
    return Recipe(data.moons, lambda: mlp(2, 32, 32, 2, activation=nn.SiLU), adam, 0.01, 20, schedule=cosine)


@recipe(TUNE, "two moons", "MLP 2-64-1", at_least=0.93, chance=0.5)
def moons_wide() -> Recipe:
    """One wide hidden layer and one logit."""
    return Recipe(
        data=lambda seed: data.moons(seed).with_targets(lambda labels: labels.float().unsqueeze(1)),
        model=lambda: mlp(2, 64, 1),
        optimizer=adam,
        rate=0.02,
        epochs=20,
        criterion=nn.BCEWithLogitsLoss(),
    )
