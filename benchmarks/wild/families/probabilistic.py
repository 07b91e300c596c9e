"""Probabilistic models: Gaussian processes, variational inference and normalising flows."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family(
    "probabilistic",
    ("gpytorch", "botorch", "pyro-ppl", "nflows", "zuko", "normflows", "scikit-learn"),
    imports=("gpytorch", "sklearn.datasets", "pyro", "botorch", "zuko"),
)
DIABETES, MOONS = "sklearn's diabetes", "sklearn's two moons"


def _diabetes() -> tuple[Any, Any]:
    import torch
    from sklearn.datasets import load_diabetes
    from sklearn.preprocessing import StandardScaler

    inputs, targets = load_diabetes(return_X_y=True)
    targets = (targets - targets.mean()) / targets.std()
    return torch.tensor(StandardScaler().fit_transform(inputs)).float(), torch.tensor(targets).float()


def _moons(count: int = 2000) -> Any:
    import torch
    from sklearn.datasets import make_moons

    return torch.tensor(make_moons(count, noise=0.05)[0]).float()


@FAMILY.program("gpytorch", data=DIABETES)
def gpytorch_exact(seed: int) -> None:
    """An exact Gaussian process, its hyperparameters by full batches, as in the library's first tutorial."""
    import gpytorch
    import torch

    class Process(gpytorch.models.ExactGP):
        def __init__(self, inputs: Any, targets: Any, likelihood: Any) -> None:
            super().__init__(inputs, targets, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, inputs: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))

    inputs, targets = (column[:200] for column in _diabetes())
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(inputs, targets, likelihood)
    model.train()
    likelihood.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for _ in range(100):
        optimizer.zero_grad()
        loss = -marginal(model(inputs), targets)
        loss.backward()
        optimizer.step()


@FAMILY.program("gpytorch", data=DIABETES)
def gpytorch_variational(seed: int) -> None:
    """A sparse variational Gaussian process in batches."""
    import gpytorch
    import torch

    class Process(gpytorch.models.ApproximateGP):
        def __init__(self, points: Any) -> None:
            distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            super().__init__(
                gpytorch.variational.VariationalStrategy(self, points, distribution, learn_inducing_locations=True)
            )
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, inputs: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))

    inputs, targets = _diabetes()
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(inputs[:32].clone())
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), 64, shuffle=True)
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.02)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(targets))
    for _ in range(20):
        for batch, wanted in loader:
            optimizer.zero_grad()
            (-bound(model(batch), wanted)).backward()
            optimizer.step()


@FAMILY.program("botorch", data=DIABETES)
def botorch_fit(seed: int) -> None:
    """BoTorch fits a Gaussian process by Adam."""
    from botorch.models import SingleTaskGP
    from botorch.optim.fit import fit_gpytorch_mll_torch
    from gpytorch.mlls import ExactMarginalLogLikelihood

    inputs, targets = (column[:150].double() for column in _diabetes())
    model = SingleTaskGP(inputs, targets[:, None])
    fit_gpytorch_mll_torch(ExactMarginalLogLikelihood(model.likelihood, model), step_limit=100)


@FAMILY.program("botorch", data="made: a sum of squares")
def botorch_candidates(seed: int) -> None:
    """BoTorch fits a process by L-BFGS of SciPy and then improves candidates by Adam."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.generation.gen import gen_candidates_torch
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    inputs = torch.rand(20, 2, dtype=torch.double)
    targets = -((inputs - 0.4) ** 2).sum(1, keepdim=True)
    model = SingleTaskGP(inputs, targets)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    gain = LogExpectedImprovement(model, best_f=targets.max())
    gen_candidates_torch(torch.rand(8, 1, 2, dtype=torch.double), gain, lower_bounds=0.0, upper_bounds=1.0)


@FAMILY.program("pyro-ppl", data=DIABETES)
def pyro_regression(seed: int) -> None:
    """Pyro's SVI fits a Bayesian regression with an automatic guide; each parameter has an optimizer of its own."""
    import pyro
    import torch
    from pyro import distributions
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoDiagonalNormal
    from pyro.optim import Adam

    inputs, targets = _diabetes()

    def model(inputs: Any, targets: Any) -> None:
        weights = pyro.sample("weights", distributions.Normal(torch.zeros(10), 1.0).to_event(1))
        spread = pyro.sample("spread", distributions.HalfNormal(1.0))
        with pyro.plate("people", len(inputs)):
            pyro.sample("target", distributions.Normal(inputs @ weights, spread), obs=targets)

    pyro.clear_param_store()
    svi = SVI(model, AutoDiagonalNormal(model), Adam({"lr": 0.02}), loss=Trace_ELBO())
    for _ in range(200):
        svi.step(inputs, targets)


@FAMILY.program("pyro-ppl", data="sklearn's digits")
def pyro_variational_autoencoder(seed: int) -> None:
    """Pyro's SVI trains a variational autoencoder of digits."""
    import pyro
    import torch
    from pyro import distributions
    from pyro.infer import SVI, Trace_ELBO
    from pyro.optim import Adam
    from sklearn.datasets import load_digits

    images = (torch.tensor(load_digits(return_X_y=True)[0]).float() / 16).round()
    encoder = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Softplus(), torch.nn.Linear(64, 16))
    decoder = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Softplus(), torch.nn.Linear(64, 64))

    def model(batch: Any) -> None:
        pyro.module("decoder", decoder)
        with pyro.plate("images", len(batch)):
            code = pyro.sample("code", distributions.Normal(torch.zeros(len(batch), 8), 1.0).to_event(1))
            pyro.sample("image", distributions.Bernoulli(logits=decoder(code)).to_event(1), obs=batch)

    def guide(batch: Any) -> None:
        pyro.module("encoder", encoder)
        with pyro.plate("images", len(batch)):
            place, spread = encoder(batch).chunk(2, dim=1)
            pyro.sample("code", distributions.Normal(place, spread.exp()).to_event(1))

    svi = SVI(model, guide, Adam({"lr": 1e-3}), loss=Trace_ELBO())
    for _ in range(4):
        for batch in torch.utils.data.DataLoader(images, 32, shuffle=True):
            svi.step(batch)


def _fit_flow(parameters: Any, loss: Any, *, steps: int = 150, rate: float = 1e-3) -> None:
    import torch

    points = _moons()
    optimizer = torch.optim.Adam(parameters, lr=rate)
    for _ in range(steps):
        batch = points[torch.randint(0, len(points), (128,))]
        optimizer.zero_grad()
        loss(batch).backward()
        optimizer.step()


@FAMILY.program("nflows", data=MOONS)
def nflows_masked(seed: int) -> None:
    """A masked autoregressive flow of nflows learns two moons."""
    from nflows.distributions import StandardNormal
    from nflows.flows import Flow
    from nflows.transforms import CompositeTransform, MaskedAffineAutoregressiveTransform, ReversePermutation

    parts = []
    for _ in range(3):
        parts += [ReversePermutation(features=2), MaskedAffineAutoregressiveTransform(features=2, hidden_features=16)]
    flow = Flow(CompositeTransform(parts), StandardNormal([2]))
    _fit_flow(flow.parameters(), lambda batch: -flow.log_prob(batch).mean())


@FAMILY.program("zuko", data=MOONS)
def zuko_spline(seed: int) -> None:
    """A neural spline flow of zuko learns two moons."""
    import zuko

    flow = zuko.flows.NSF(features=2, transforms=2, hidden_features=(32, 32))
    _fit_flow(flow.parameters(), lambda batch: -flow().log_prob(batch).mean())


@FAMILY.program("normflows", data=MOONS)
def normflows_real_nvp(seed: int) -> None:
    """A RealNVP of normflows learns two moons; its last layers begin at zero."""
    import normflows
    import torch

    parts = []
    for number in range(6):
        network = normflows.nets.MLP([2, 32, 32, 2], init_zeros=True)
        other = normflows.nets.MLP([2, 32, 32, 2], init_zeros=True)
        mask = torch.tensor([1.0, 0.0] if number % 2 else [0.0, 1.0])
        parts.append(normflows.flows.MaskedAffineFlow(mask, network, other))
    model = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2), parts)
    _fit_flow(model.parameters(), model.forward_kld, rate=5e-4)
