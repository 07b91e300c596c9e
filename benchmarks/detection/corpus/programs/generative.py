"""Networks that make up examples: adversarial, variational, by a flow."""

import copy
import math

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from benchmarks.detection.corpus import data
from benchmarks.detection.corpus.models import mlp
from benchmarks.detection.corpus.program import REPORT, TUNE, Evaluation, Fault, Trained
from benchmarks.detection.corpus.registry import script


def _ring(count: int) -> Tensor:
    """Points near a circle."""
    angle = torch.rand(count) * 2 * math.pi
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(count, 2)


def _on_ring(points: Tensor) -> float:
    """How good made-up points are: the share near the circle, times the share of its eighths that have some."""
    near = (points.norm(dim=1) - 1).abs() < 0.25
    place = (torch.atan2(points[:, 1], points[:, 0]) / (2 * math.pi) * 8).round().long() % 8
    found = len(place[near].unique())
    return float(near.float().mean()) * found / 8


@script(
    REPORT,
    data="ring",
    model="GAN of two MLPs",
    at_least=0.12,
    odd="two losses that pull against each other and do not fall",
    faults=(
        Fault("learning-rate-too-high", "Both optimizers are given 0.5."),
        Fault("wrong-loss-sign", "The generator is trained to be found out.", layers=("generator",)),
    ),
)
def gan_ring(seed: int, fault: str) -> Trained:
    """A generator and a discriminator play against each other."""
    torch.manual_seed(seed)
    generator, discriminator = mlp(8, 64, 64, 2), mlp(2, 64, 64, 1, activation=nn.LeakyReLU)
    rate = 0.5 if fault == "learning-rate-too-high" else 1e-3
    of_generator = optim.Adam(generator.parameters(), lr=rate, betas=(0.5, 0.999))
    of_discriminator = optim.Adam(discriminator.parameters(), lr=rate, betas=(0.5, 0.999))
    wanted = 0.0 if fault == "wrong-loss-sign" else 1.0
    for _ in range(500):
        real, made = _ring(64), generator(torch.randn(64, 8))
        of_discriminator.zero_grad()
        logits = torch.cat([discriminator(real), discriminator(made.detach())])
        truth = torch.cat([torch.ones(64, 1), torch.zeros(64, 1)])
        functional.binary_cross_entropy_with_logits(logits, truth).backward()
        of_discriminator.step()
        of_generator.zero_grad()
        verdict = discriminator(made)
        functional.binary_cross_entropy_with_logits(verdict, torch.full_like(verdict, wanted)).backward()
        of_generator.step()
    return Trained(lambda: _on_ring(generator(torch.randn(1000, 8)).detach()))


@script(
    TUNE,
    data="digits",
    model="GAN of two MLPs, batch normalisation",
    at_least=0.3,
    odd="two losses that pull against each other and do not fall",
    faults=(Fault("learning-rate-too-high", "The generator's optimizer is given 1.0.", layers=("generator",)),),
)
def gan_digits(seed: int, fault: str) -> Trained:
    """Digits are made up; the score is how near their mean and deviation are to those of real ones."""
    torch.manual_seed(seed)
    real = data.digits(seed).train[0]
    generator = nn.Sequential(mlp(16, 64, 64, 64, norm=nn.BatchNorm1d), nn.Sigmoid())
    discriminator = mlp(64, 64, 32, 1, activation=nn.LeakyReLU, dropout=0.2)
    rate = 1.0 if fault == "learning-rate-too-high" else 2e-3
    of_generator = optim.Adam(generator.parameters(), lr=rate, betas=(0.5, 0.999))
    of_discriminator = optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    entropy = nn.BCEWithLogitsLoss()
    for _ in range(8):
        for rows in torch.randperm(len(real)).split(32):
            of_discriminator.zero_grad()
            made = generator(torch.randn(len(rows), 16))
            told_real, told_made = discriminator(real[rows]), discriminator(made.detach())
            loss = entropy(told_real, torch.full_like(told_real, 0.9)) + entropy(told_made, torch.zeros_like(told_made))
            loss.backward()
            of_discriminator.step()
            of_generator.zero_grad()
            verdict = discriminator(made)
            entropy(verdict, torch.ones_like(verdict)).backward()
            of_generator.step()

    def likeness() -> float:
        made = generator.eval()(torch.randn(1000, 16)).detach()
        misfit = (made.mean(0) - real.mean(0)).abs().mean() + (made.std(0) - real.std(0)).abs().mean()
        return 1 - float(misfit) / 0.3

    return Trained(likeness)


@script(
    REPORT,
    data="ring",
    model="Wasserstein GAN, clipped weights",
    at_least=0.2,
    odd="losses below 0 that need not fall; weights held within 0.1 by force; 3 critic steps for each of the generator",
    faults=(Fault("learning-rate-too-low", "The generator's optimizer is given 1e-7.", layers=("generator",)),),
)
def gan_wasserstein(seed: int, fault: str) -> Trained:
    """A critic instead of a discriminator."""
    torch.manual_seed(seed)
    generator, critic = mlp(8, 64, 64, 2), mlp(2, 64, 64, 1)
    of_generator = optim.RMSprop(generator.parameters(), lr=1e-7 if fault == "learning-rate-too-low" else 1e-3)
    of_critic = optim.RMSprop(critic.parameters(), lr=2e-3)
    for _ in range(200):
        for _ in range(3):
            of_critic.zero_grad()
            made = generator(torch.randn(64, 8)).detach()
            (critic(made).mean() - critic(_ring(64)).mean()).backward()
            of_critic.step()
            with torch.no_grad():
                for weight in critic.parameters():
                    weight.clamp_(-0.1, 0.1)
        of_generator.zero_grad()
        (-critic(generator(torch.randn(64, 8))).mean()).backward()
        of_generator.step()
    return Trained(lambda: _on_ring(generator(torch.randn(1000, 8)).detach()))


class VariationalAutoencoder(nn.Module):
    """Encodes to a normal distribution, decodes a sample of it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(64, 8), nn.Linear(64, 8)
        self.decoder = mlp(8, 64, 64)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.encoder(rows)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        sample = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
        return self.decoder(sample), mean, log_variance


@script(
    REPORT,
    data="digits",
    model="variational autoencoder",
    at_least=0.4,
    odd="a loss of two parts, and random numbers within the model",
    faults=(
        Fault("wrong-loss-sign", "The divergence is subtracted.", layers=("mean", "log_variance")),
        Fault("missing-zero-grad", "`zero_grad` is never called."),
        Fault("learning-rate-too-high", "Adam is given 0.8."),
    ),
)
def vae_digits(seed: int, fault: str) -> Trained:
    """Digits by eight numbers with a normal distribution."""
    torch.manual_seed(seed)
    found = data.digits(seed)
    model = VariationalAutoencoder()
    optimizer = optim.Adam(model.parameters(), lr=0.8 if fault == "learning-rate-too-high" else 3e-3)
    sign = -1.0 if fault == "wrong-loss-sign" else 1.0

    def loss_of(rows: Tensor) -> Tensor:
        made, mean, log_variance = model(rows)
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean()
        loss: Tensor = functional.mse_loss(made, rows, reduction="none").sum(1).mean() + sign * 0.02 * divergence
        return loss

    step, history = 0, []
    for _ in range(10):
        model.train()
        total = 0.0
        for rows in found.train[0][torch.randperm(len(found.train[0]))].split(32):
            if fault != "missing-zero-grad":
                optimizer.zero_grad()
            loss = loss_of(rows)
            loss.backward()
            optimizer.step()
            step += 1
            total += loss.item() * len(rows)
        model.eval()
        with torch.no_grad():
            valid = loss_of(found.valid[0]).item()
        history.append(Evaluation(step, total / len(found.train[0]), valid))

    def explained() -> float:
        rows = found.test[0]
        with torch.no_grad():
            made = model.eval()(rows)[0]
        return float(1 - ((made - rows) ** 2).mean() / rows.var(0, unbiased=False).mean())

    return Trained(explained, tuple(history))


class Coupling(nn.Module):
    """Shifts and scales one coordinate by a function of the other."""

    def __init__(self, kept: int) -> None:
        super().__init__()
        self.kept = kept
        self.net = mlp(1, 32, 32, 2, activation=nn.Tanh)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        kept, changed = points[:, self.kept : self.kept + 1], points[:, 1 - self.kept : 2 - self.kept]
        scale, shift = self.net(kept).chunk(2, 1)
        scale = torch.tanh(scale) * 1.5
        moved = changed * scale.exp() + shift
        return torch.cat([kept, moved] if self.kept == 0 else [moved, kept], 1), scale[:, 0]


class Flow(nn.Module):
    """Six couplings in turn; answers the log-likelihood of points."""

    def __init__(self) -> None:
        super().__init__()
        self.couplings = nn.ModuleList(Coupling(number % 2) for number in range(6))

    def forward(self, points: Tensor) -> Tensor:
        total: Tensor = torch.zeros(len(points))
        for coupling in self.couplings:
            points, scale = coupling(points)
            total = total + scale
        likelihood: Tensor = total - 0.5 * (points**2).sum(1) - math.log(2 * math.pi)
        return likelihood


@script(
    REPORT,
    data="two moons, tenfold smaller",
    model="normalising flow of 6 couplings",
    at_least=2.6,
    chance=1.5,
    odd="a likelihood: the loss is below 0 from early on and falls without end",
    faults=(
        Fault("wrong-loss-sign", "The likelihood is made small."),
        Fault("learning-rate-too-high", "Adam is given 0.5."),
    ),
)
def flow_moons(seed: int, fault: str) -> Trained:
    """The density of two small moons, by maximum likelihood."""
    torch.manual_seed(seed)
    found = data.moons(seed).with_inputs(lambda points: (points - torch.tensor([0.5, 0.25])) / 10)
    model = Flow()
    optimizer = optim.Adam(model.parameters(), lr=0.5 if fault == "learning-rate-too-high" else 5e-3)
    sign = 1.0 if fault == "wrong-loss-sign" else -1.0
    step, history = 0, []
    for _ in range(20):
        model.train()
        for points in found.train[0][torch.randperm(len(found.train[0]))].split(32):
            optimizer.zero_grad()
            loss = sign * model(points).mean()
            loss.backward()
            optimizer.step()
            step += 1
        model.eval()
        with torch.no_grad():
            history.append(Evaluation(step, loss.item(), sign * model(found.valid[0]).mean().item()))

    def likelihood() -> float:
        with torch.no_grad():
            return float(model(found.test[0]).mean())

    return Trained(likelihood, tuple(history))


@script(
    TUNE,
    data="two moons",
    model="score network 3-64-64-2",
    at_least=0.15,
    odd="denoising at random levels: the loss is noisy and stays high",
    faults=(Fault("learning-rate-too-low", "Adam is given 1e-7."),),
)
def diffusion_moons(seed: int, fault: str) -> Trained:
    """A small diffusion model learns which noise was added."""
    torch.manual_seed(seed)
    found = data.moons(seed)
    model = mlp(3, 64, 64, 2, activation=nn.SiLU)
    kept = copy.deepcopy(model)
    optimizer = optim.Adam(model.parameters(), lr=1e-7 if fault == "learning-rate-too-low" else 3e-3)

    def misfit(of: nn.Module, points: Tensor) -> Tensor:
        level = torch.rand(len(points), 1)
        noise = torch.randn_like(points)
        told: Tensor = of(torch.cat([(1 - level).sqrt() * points + level.sqrt() * noise, level], 1))
        return functional.mse_loss(told, noise)

    for _ in range(20):
        for points in found.train[0][torch.randperm(len(found.train[0]))].split(32):
            optimizer.zero_grad()
            misfit(model, points).backward()
            optimizer.step()
            with torch.no_grad():
                for average, now in zip(kept.parameters(), model.parameters(), strict=True):
                    average.lerp_(now, 0.02)

    def share_found() -> float:
        with torch.no_grad():
            return 1 - float(misfit(kept, found.test[0].repeat(20, 1)))

    return Trained(share_found)
