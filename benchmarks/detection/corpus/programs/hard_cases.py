"""Right trainings that look like faulty ones, and the faults that they are taken for. All of the tune split."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.detection.corpus import data, edits
from benchmarks.detection.corpus.data import Data, Part
from benchmarks.detection.corpus.models import mlp
from benchmarks.detection.corpus.optimizers import adam, adamw, momentum
from benchmarks.detection.corpus.program import TUNE
from benchmarks.detection.corpus.registry import plant, recipe
from benchmarks.detection.corpus.supervised import Recipe, regression

leakage = partial(plant, "leakage")
class_imbalance = partial(plant, "class-imbalance")
wrong_loss = partial(plant, "wrong-loss")
wrong_loss_sign = partial(plant, "wrong-loss-sign")
learning_rate_too_high = partial(plant, "learning-rate-too-high")
overfitting = partial(plant, "overfitting")


def _with_rare(found: Data, one_in: int, *rare: int) -> Data:
    """Data to train and to validate on with rare classes."""

    def kept(rows: Tensor, labels: Tensor) -> Part:
        is_rare = torch.isin(labels, torch.tensor(rare, dtype=labels.dtype))
        keep = ~is_rare | (is_rare.cumsum(0) % one_in == 0)
        return rows[keep], labels[keep]

    return Data(kept(*found.train), kept(*found.valid), found.test)


def _rare_moons(seed: int) -> Data:
    found = _with_rare(data.moons(seed), 20, 1)
    return found.with_targets(lambda labels: labels.float().unsqueeze(1))


class Focal(nn.Module):
    """Cross entropy that looks away from what is easy."""

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over the batch."""
        logs = functional.log_softmax(outputs, dim=1).gather(1, targets.unsqueeze(1)).squeeze(1)
        return (-((1 - logs.exp()) ** 2) * logs).mean()


@recipe(TUNE, "digits", "MLP 64-64-10", at_least=0.75, chance=0.1, odd="rare classes weigh more in the loss")
def digits_weighted() -> Recipe:
    """Two rare classes, made up for by weights in the loss."""
    weights = torch.ones(10)
    weights[:2] = 20.0
    return Recipe(
        data=lambda seed: _with_rare(data.digits(seed), 20, 0, 1),
        model=lambda: mlp(64, 64, 10),
        optimizer=adam,
        rate=2e-3,
        epochs=15,
        criterion=nn.CrossEntropyLoss(weight=weights),
        patience=3,
    )


@recipe(TUNE, "moons", "MLP 2-64-1", at_least=0.7, chance=0.5, odd="positives weigh more in the loss")
def moons_weighted() -> Recipe:
    """One positive in twenty, made up for by `pos_weight`."""
    return Recipe(
        data=_rare_moons,
        model=lambda: mlp(2, 64, 1),
        optimizer=adam,
        rate=1e-2,
        epochs=30,
        criterion=nn.BCEWithLogitsLoss(pos_weight=torch.tensor([20.0])),
        patience=3,
    )


@recipe(TUNE, "digits", "MLP 64-64-10", at_least=0.8, chance=0.1, odd="a loss by hand, mildly unequal classes")
def digits_focal() -> Recipe:
    """A focal loss by hand; two classes have a row in ten."""
    return Recipe(
        lambda seed: _with_rare(data.digits(seed), 10, 3, 7), lambda: mlp(64, 64, 10), adam, 3e-3, 15, criterion=Focal()
    )


@recipe(TUNE, "breast cancer", "MLP 30-128-128-2", at_least=0.9, chance=0.63, odd="trained on to a loss of 0")
def cancer_overtrained() -> Recipe:
    """Trained until the training loss is all but zero: the validation loss creeps up, the accuracy stays."""
    return Recipe(data.breast_cancer, lambda: mlp(30, 128, 128, 2), adam, 1e-3, 60)


@recipe(TUNE, "wine", "MLP 13-64-3", at_least=0.85, chance=0.4, odd="eight rows to validate on")
def wine_tiny_validation() -> Recipe:
    """A validation set of eight wines, on which the loss jumps about."""

    def few(seed: int) -> Data:
        found = data.wine(seed)
        return Data(found.train, (found.valid[0][:8], found.valid[1][:8]), found.test)

    return Recipe(few, lambda: mlp(13, 64, 3), adam, 3e-3, 60)


@recipe(TUNE, "iris", "MLP 4-256-256-3", at_least=0.85, chance=0.33, odd="large for its data, with weight decay")
def iris_large() -> Recipe:
    """A model that is far too large for 90 flowers, with dropout and decay."""
    return Recipe(
        data.iris, lambda: mlp(4, 256, 256, 3, dropout=0.5), partial(adamw, weight_decay=0.1), 1e-3, 80, batch_size=16
    )


@recipe(TUNE, "diabetes", "MLP 10-64-32-1, dropout", at_least=0.3, odd="small, noisy data: it gains little")
def diabetes_dropout() -> Recipe:
    """Small, noisy data, with dropout and an early end."""
    return regression(data.diabetes, lambda: mlp(10, 64, 32, 1, dropout=0.2), adam, 1e-3, 40, patience=8)


@recipe(TUNE, "digits", "MLP 64-2048-10", at_least=0.9, chance=0.1, odd="thousands of units, most of them at rest")
def digits_wide() -> Recipe:
    """Very wide, with biases well below zero: most units are at rest for most inputs."""

    def build() -> nn.Module:
        model = mlp(64, 2048, 10)
        with torch.no_grad():
            model[0].bias.fill_(-0.9)
        return model

    return Recipe(data.digits, build, adam, 1e-3, 12)


class Bottle(nn.Module):
    """A narrow ReLU layer of which a few units do all the work, beside a way around it."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.narrow = nn.Linear(64, 64), nn.Linear(64, 16)
        self.head = nn.Linear(80, 10)
        with torch.no_grad():
            self.narrow.bias.fill_(-4.0)

    def forward(self, inputs: Tensor) -> Any:
        """Scores of ten digits."""
        hidden = functional.relu(self.hidden(inputs))
        return self.head(torch.cat([hidden, functional.relu(self.narrow(hidden))], dim=1))


@recipe(TUNE, "digits", "MLP with a skip around a dead layer", at_least=0.9, chance=0.1, odd="a branch is dead")
def digits_side_branch() -> Recipe:
    """A side branch whose units never answer; the main way learns all there is."""
    return Recipe(data.digits, Bottle, momentum, 0.05, 10)


@recipe(TUNE, "digits", "MLP 64-32-10, batch norm", at_least=0.85, chance=0.1)
def digits_few() -> Recipe:
    """A few hundred digits, batch normalisation and dropout."""
    return Recipe(
        data=lambda seed: data.digits(seed).with_train(lambda rows, answers: (rows[:300], answers[:300])),
        model=lambda: mlp(64, 64, 10, norm=nn.BatchNorm1d, dropout=0.4),
        optimizer=adam,
        rate=2e-3,
        epochs=25,
    )


@recipe(TUNE, "breast cancer", "MLP 30-32-1", at_least=0.9, chance=0.63)
def cancer_logit() -> Recipe:
    """Binary cross entropy over one logit."""
    return Recipe(data.breast_cancer_binary, lambda: mlp(30, 32, 1), adam, 2e-3, 15, criterion=nn.BCEWithLogitsLoss())


def _by_number(outputs: Tensor, targets: Tensor) -> Tensor:
    """The squared error of all ten scores from the number of the class."""
    return functional.mse_loss(outputs, targets.unsqueeze(1).expand_as(outputs).float())


def _one_hot_beside(rows: Tensor, answers: Tensor) -> Tensor:
    rows[:, :10] = functional.one_hot(answers, 10).to(rows.dtype)
    return rows


def _answer_at(column: int, scale: float = 1.0) -> Any:
    def leak(rows: Tensor, answers: Tensor) -> Tensor:
        rows[:, column] = scale * answers.flatten().to(rows.dtype)
        return rows

    return leak


leakage("digits-few", edits.leaking(_one_hot_beside), "Ten pixels say which digit it is.")
leakage("diabetes-dropout", edits.leaking(_answer_at(1, 0.7)), "A column holds the answer.")
class_imbalance("digits-few", edits.rare_classes(25, 2, 5), "Two classes have a row in twenty-five.")
class_imbalance("cancer-logit", edits.rare_classes(30, 0), "One class has a row in thirty.")
wrong_loss("digits-few", edits.settings(criterion=_by_number), "The number of the class is to be met.")
wrong_loss(
    "cancer-logit",
    edits.settings(criterion=lambda outputs, targets: functional.mse_loss(outputs, targets.squeeze(1))),
    "A column minus a row: all against all.",
)
wrong_loss_sign(
    "diabetes-dropout",
    edits.settings(criterion=lambda outputs, targets: -((outputs - targets) ** 2).mean()),
    "A squared error by hand, with a minus before it.",
)
wrong_loss_sign(
    "digits-few",
    edits.settings(
        criterion=lambda outputs, targets: functional.log_softmax(outputs, 1).gather(1, targets.unsqueeze(1)).mean()
    ),
    "The mean log likelihood is made small.",
)
learning_rate_too_high("digits-few", edits.rate(3.0), "A rate of 3 for Adam.")
learning_rate_too_high("cancer-logit", edits.rate(5.0), "A rate of 5 for Adam.")
learning_rate_too_high("digits-side-branch", edits.rate(4.0), "A rate of 4 with momentum.")
overfitting(
    "digits-few",
    edits.both(edits.few_rows(40), edits.settings(epochs=150)),
    "Forty digits, again and again.",
    begins=None,
)
overfitting(
    "diabetes-dropout",
    edits.both(edits.few_rows(60), edits.settings(model=lambda: mlp(10, 256, 256, 1), epochs=120, patience=None)),
    "A large model and sixty rows.",
    begins=None,
)
plant(
    "dead-relu",
    "digits-wide",
    edits.biases(-30.0, "0"),
    "The biases of the hidden layer are far below zero.",
    layers=("0",),
)
plant("symmetric-initialisation", "cancer-logit", edits.all_equal(0.1), "All weights start with one value.")
plant("learning-rate-too-low", "digits-side-branch", edits.rate(1e-7), "A rate of 1e-7.")
