"""Evaluations in the right mode, in the wrong one, and in training mode on purpose. All of the tune split."""

import copy
from functools import partial

import torch
from torch import nn, optim
from torch.nn import functional

from benchmarks.detection.corpus import data, edits
from benchmarks.detection.corpus.models import ConvNet, mlp
from benchmarks.detection.corpus.optimizers import adamw, momentum
from benchmarks.detection.corpus.program import TUNE, Evaluation, Fault, Trained
from benchmarks.detection.corpus.registry import plant, recipe, script
from benchmarks.detection.corpus.supervised import Recipe


@recipe(TUNE, "wine", "MLP 13-48-48-3, batch norm, dropout", at_least=0.85, chance=0.4)
def wine_batch_norm() -> Recipe:
    """Two layers with batch norm and much dropout."""
    return Recipe(
        data.wine, lambda: mlp(13, 48, 48, 3, norm=nn.BatchNorm1d, dropout=0.7), momentum, 0.02, 25, batch_size=16
    )


@recipe(TUNE, "digits", "CNN of 2 convolutions, batch norm, dropout", at_least=0.85, chance=0.1)
def images_norm_dropout() -> Recipe:
    """Batch norm and dropout in one network, cosine schedule."""
    return Recipe(
        data.digit_images, lambda: ConvNet(norm=True, dropout=0.6), partial(adamw, weight_decay=0.01), 2e-3, 6
    )


@script(
    TUNE,
    data="digits",
    model="MLP 64-96-96-10, dropout",
    at_least=0.88,
    chance=0.1,
    odd="validated with dropout on: the mean over ten draws and their spread are what is wanted",
    faults=(Fault("wrong-mode", "The validation forgets `eval()`, and draws once."),),
)
def digits_monte_carlo(seed: int, fault: str) -> Trained:
    """Monte-Carlo dropout: how sure is the network?"""
    torch.manual_seed(seed)
    found = data.digits(seed)
    model = mlp(64, 96, 96, 10, dropout=0.5)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    step, history = 0, []
    for _ in range(15):
        total = 0.0
        for rows in torch.randperm(len(found.train[0])).split(32):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(found.train[0][rows]), found.train[1][rows])
            loss.backward()
            optimizer.step()
            step += 1
            total += loss.item() * len(rows)
        with torch.no_grad():
            if fault:
                valid = functional.cross_entropy(model(found.valid[0]), found.valid[1])
            else:
                draws = torch.stack([model(found.valid[0]).softmax(1) for _ in range(10)])
                valid = functional.nll_loss(draws.mean(0).log(), found.valid[1])
        history.append(Evaluation(step, total / len(found.train[0]), valid.item()))

    def share_right() -> float:
        model.train(bool(fault))
        with torch.no_grad():
            return float((model(found.test[0]).argmax(1) == found.test[1]).float().mean())

    return Trained(share_right, tuple(history))


@script(
    TUNE,
    data="digits, a tenth of it labelled",
    model="MLP 64-96-10 with batch norm, and its moving average",
    at_least=0.75,
    chance=0.1,
    odd="a teacher in training mode under no_grad, which is to be noisy; its agreement is no validation",
)
def digits_mean_teacher(seed: int, fault: str) -> Trained:
    """A student that agrees with the moving average of itself."""
    torch.manual_seed(seed)
    found = data.digits(seed)
    inputs, labels = found.train
    student = mlp(64, 96, 10, norm=nn.BatchNorm1d, dropout=0.1)
    teacher = copy.deepcopy(student)
    optimizer = optim.Adam(student.parameters(), lr=3e-3)
    known = len(inputs) // 4
    for step in range(300):
        some, any_rows = torch.randint(known, (32,)), torch.randint(len(inputs), (32,))
        with torch.no_grad():
            wanted = teacher(inputs[any_rows] + 0.1 * torch.randn(32, 64)).softmax(1)
            if step % 25 == 0:
                functional.cross_entropy(teacher(inputs[some]), labels[some]).item()
        optimizer.zero_grad()
        agreement = functional.mse_loss(student(inputs[any_rows]).softmax(1), wanted)
        (functional.cross_entropy(student(inputs[some]), labels[some]) + 2.0 * agreement).backward()
        optimizer.step()
        with torch.no_grad():
            for mine, its in zip(student.parameters(), teacher.parameters(), strict=True):
                its.lerp_(mine, 0.05)

    def share_right() -> float:
        student.eval()
        with torch.no_grad():
            return float((student(found.test[0]).argmax(1) == found.test[1]).float().mean())

    return Trained(share_right)


@script(
    TUNE,
    data="moons",
    model="GAN with batch norm in the generator",
    at_least=-1.2,
    chance=-3.0,
    odd="the generator makes samples in training mode under no_grad, for its adversary and to be looked at",
)
def gan_batch_norm(seed: int, fault: str) -> Trained:
    """A generator with batch norm, which is never put into evaluation mode."""
    torch.manual_seed(seed)
    found = data.moons(seed)
    real = found.train[0]
    generator, discriminator = mlp(6, 48, 2, norm=nn.BatchNorm1d), mlp(2, 48, 1, activation=lambda: nn.LeakyReLU(0.2))
    of_generator = optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.99))
    of_discriminator = optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.99))
    loss_of = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
    for step in range(300):
        with torch.no_grad():
            made = generator(torch.randn(64, 6))
        of_discriminator.zero_grad()
        some = real[torch.randint(len(real), (64,))]
        (loss_of(discriminator(some), ones) + loss_of(discriminator(made), zeros)).backward()
        of_discriminator.step()
        of_generator.zero_grad()
        loss_of(discriminator(generator(torch.randn(64, 6))), ones).backward()
        of_generator.step()
        if step % 50 == 49:
            with torch.no_grad():
                loss_of(discriminator(generator(torch.randn(64, 6))), ones).item()

    def nearness() -> float:
        generator.eval()
        with torch.no_grad():
            made = generator(torch.randn(500, 6))
            return -float(torch.cdist(made, real).min(1).values.mean())

    return Trained(nearness)


for _program in ("wine-batch-norm", "images-norm-dropout"):
    plant("wrong-mode", _program, edits.settings(evaluates_in_evaluation_mode=False), "Evaluation without `eval()`.")
