"""Numbers to be foretold: how a disease goes on, how heavy a man is, functions that are known."""

import math

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from benchmarks.detection.corpus import data, edits
from benchmarks.detection.corpus.data import Data
from benchmarks.detection.corpus.models import mlp
from benchmarks.detection.corpus.optimizers import adam, adamw, cosine, decaying, momentum, sgd
from benchmarks.detection.corpus.program import REPORT, TUNE
from benchmarks.detection.corpus.registry import plant, recipe
from benchmarks.detection.corpus.supervised import Recipe, explained, regression


@recipe(TUNE, "diabetes", "linear regression", at_least=0.25)
def diabetes_linear() -> Recipe:
    """Linear regression with SGD."""
    return regression(data.diabetes, lambda: nn.Linear(10, 1), sgd, 0.02, 25)


@recipe(REPORT, "diabetes", "MLP 10-16-8-1", at_least=0.25)
def diabetes_mlp() -> Recipe:
    """A small network, weight decay, a short training."""
    return regression(data.diabetes, lambda: mlp(10, 16, 8, 1), adamw, 3e-3, 18, batch_size=16)


class _Normal(nn.Module):
    """Negative log-likelihood of a normal distribution of which mean and log deviation are said."""

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        mean, log_deviation = outputs[:, :1], outputs[:, 1:].clamp(-5, 3)
        return (log_deviation + 0.5 * ((targets - mean) / log_deviation.exp()) ** 2).mean()


def _of_the_mean(outputs: Tensor, targets: Tensor) -> float:
    return explained(outputs[:, :1], targets)


@recipe(REPORT, "Friedman", "MLP 10-48-48-2", at_least=0.7, odd="a likelihood: the loss goes below 0")
def friedman_likelihood() -> Recipe:
    """Mean and deviation of each value, by maximum likelihood."""
    return Recipe(
        data=data.friedman,
        model=lambda: mlp(10, 48, 48, 2, activation=nn.Tanh),
        optimizer=adam,
        rate=4e-3,
        epochs=14,
        criterion=_Normal(),
        metric=_of_the_mean,
    )


@recipe(REPORT, "diabetes", "MLP 10-12-1, Huber loss", at_least=0.2)
def diabetes_huber() -> Recipe:
    """Huber loss, softplus, a decaying rate."""
    return regression(
        data=data.diabetes,
        model=lambda: mlp(10, 12, 1, activation=nn.Softplus),
        optimizer=momentum,
        rate=0.01,
        epochs=25,
        schedule=decaying(0.995),
        criterion=nn.HuberLoss(),
    )


@recipe(
    REPORT,
    data="diabetes",
    model="MLP 10-64-64-1",
    at_least=0.2,
    odd="ends early: training stops when the validation loss no longer falls",
)
def diabetes_early_stopped() -> Recipe:
    """A network that would overfit, stopped in time."""
    return regression(data.diabetes, lambda: mlp(10, 64, 64, 1), adam, 1e-3, 40, batch_size=8, patience=3)


def _quantiles(outputs: Tensor, targets: Tensor) -> Tensor:
    shares = torch.tensor([0.1, 0.5, 0.9])
    missed = targets - outputs
    return torch.maximum(shares * missed, (shares - 1) * missed).mean()


@recipe(REPORT, "Friedman", "MLP 10-40-3, quantile loss", at_least=0.6, odd="three quantiles, a loss with corners")
def friedman_quantiles() -> Recipe:
    """The 10 %, 50 % and 90 % quantiles."""
    return Recipe(
        data=data.friedman,
        model=lambda: mlp(10, 40, 40, 3),
        optimizer=adam,
        rate=4e-3,
        epochs=14,
        criterion=_quantiles,
        metric=lambda outputs, targets: explained(outputs[:, 1:2], targets),
    )


@recipe(TUNE, "Linnerud", "MLP 3-24-24-3", at_least=0.3)
def linnerud_mlp() -> Recipe:
    """Three values at once, of few men."""
    return regression(data.linnerud, lambda: mlp(3, 24, 24, 3, activation=nn.Tanh), adam, 5e-3, 40)


@recipe(REPORT, "Friedman", "MLP 10-64-32-1", at_least=0.8)
def friedman_mlp() -> Recipe:
    """Two hidden layers with ReLU and momentum."""
    return regression(data.friedman, lambda: mlp(10, 64, 32, 1), momentum, 0.02, 12)


@recipe(TUNE, "Friedman", "MLP 10-48-48-48-1, SiLU", at_least=0.8)
def friedman_silu() -> Recipe:
    """Three hidden layers with SiLU, AdamW and a cosine."""
    return regression(
        data=data.friedman,
        model=lambda: mlp(10, 48, 48, 48, 1, activation=nn.SiLU),
        optimizer=adamw,
        rate=4e-3,
        epochs=12,
        schedule=cosine,
        criterion=nn.L1Loss(),
    )


class _Sine(nn.Module):
    def forward(self, values: Tensor) -> Tensor:
        return torch.sin(values)


def _siren() -> nn.Module:
    model = mlp(1, 48, 48, 1, activation=_Sine)
    first, middle = model[0], model[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(middle, nn.Linear)
    with torch.no_grad():
        first.weight.uniform_(-12, 12)
        middle.weight.uniform_(-math.sqrt(6 / 48), math.sqrt(6 / 48))
    return model


def _wiggles(seed: int) -> Data:
    """600 points of a curve with many turns."""
    random = torch.Generator().manual_seed(seed)
    places = 2 * torch.rand(600, 1, generator=random) - 1
    return data.parts(places, torch.sin(12 * places) * torch.cos(5 * places), seed)


@recipe(REPORT, "curve", "SIREN 1-48-48-1", at_least=0.8, odd="sines for activations, first weights up to 12")
def curve_siren() -> Recipe:
    """A network of sines follows a curve with many turns."""
    return regression(_wiggles, _siren, adam, 2e-3, 30)


def _counts(seed: int) -> Data:
    """Counts with a mean that depends on three of five inputs."""
    random = torch.Generator().manual_seed(seed)
    rows = torch.randn(1200, 5, generator=random)
    mean = torch.exp(0.8 + 0.6 * rows[:, :1] - 0.5 * rows[:, 1:2] + 0.3 * torch.sin(3 * rows[:, 2:3]))
    return data.parts(rows, torch.poisson(mean, generator=random), seed)


@recipe(REPORT, "counts", "MLP 5-24-1, Poisson", at_least=0.4, odd="a loss that is negative from early on")
def counts_poisson() -> Recipe:
    """Poisson regression of counts."""
    return Recipe(
        data=_counts,
        model=lambda: mlp(5, 24, 1, activation=nn.Tanh),
        optimizer=adam,
        rate=0.01,
        epochs=12,
        criterion=nn.PoissonNLLLoss(),
        metric=lambda outputs, targets: explained(outputs.exp(), targets),
    )


class _Mixture(nn.Module):
    """Negative log-likelihood under three normal distributions of which all is said by the network."""

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        logits, mean, log_deviation = outputs.chunk(3, 1)
        deviation = log_deviation.clamp(-4, 2).exp()
        parts = torch.distributions.Normal(mean, deviation).log_prob(targets)
        return -torch.logsumexp(parts + functional.log_softmax(logits, 1), 1).mean()


def _two_branches(seed: int) -> Data:
    random = torch.Generator().manual_seed(seed)
    places = 2 * torch.rand(1200, 1, generator=random) - 1
    branch = torch.randint(2, (1200, 1), generator=random) * 2 - 1
    values = branch * (0.6 + 0.4 * places) + 0.05 * torch.randn(1200, 1, generator=random)
    return data.parts(places, values, seed)


@recipe(
    REPORT,
    data="two branches",
    model="mixture density MLP 1-32-32-9",
    at_least=-0.1,
    chance=-1.2,
    odd="a likelihood, negative at the end; plateaus before the branches part",
)
def branches_mixture() -> Recipe:
    """A mixture density network learns that there are two answers."""
    return Recipe(
        data=_two_branches,
        model=lambda: mlp(1, 32, 32, 9, activation=nn.Tanh),
        optimizer=adam,
        rate=5e-3,
        epochs=14,
        criterion=_Mixture(),
        metric=lambda outputs, targets: -float(_Mixture()(outputs, targets)),
    )


@recipe(TUNE, "diabetes", "MLP 10-8-1", at_least=0.2, odd="full batches and Rprop, which looks at signs only")
def diabetes_rprop() -> Recipe:
    """Resilient propagation on all data at once."""
    return regression(
        data.diabetes, lambda: mlp(10, 8, 1, activation=nn.Tanh), optim.Rprop, 1e-3, 120, batch_size=400, patience=8
    )


plant(
    "overfitting",
    "diabetes-rprop",
    edits.settings(patience=None),
    "Nobody ends it: the validation loss has been rising since the thirtieth step of 120.",
    begins=None,
)
