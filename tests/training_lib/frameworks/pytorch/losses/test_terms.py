"""Terms of a summed loss: the gradient of each by itself, as torch.autograd.grad computes it, in one backward pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.frameworks.pytorch.losses.description import describe_loss
from trackside.frameworks.pytorch.losses.guess import guess_of
from trackside.frameworks.pytorch.losses.terms import TermGradients

Terms = list[torch.Tensor]


class Encoded(nn.Module):
    """A small variational autoencoder, and a trunk with two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.spread, self.decoder = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(3, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, spread = self.mean(x), self.spread(x)
        return self.decoder(mean + torch.ones_like(mean) * spread.exp()), mean, spread


def autoencoder(model: Encoded, x: torch.Tensor) -> tuple[Terms, Terms]:
    out, mean, spread = model(x)
    divergence = -0.5 * (1 + spread - mean**2 - spread.exp()).sum()
    return [functional.mse_loss(out, x), divergence], [mean, spread]


def heads(model: Encoded, x: torch.Tensor) -> tuple[Terms, Terms]:
    trunk = model.mean(x).relu()
    named = functional.cross_entropy(model.decoder(trunk), torch.arange(len(x)) % 6)
    return [named, 0.01 * functional.mse_loss(trunk, x[:, :3])], [trunk]


def penalty(model: Encoded, x: torch.Tensor) -> tuple[Terms, Terms]:
    named = functional.mse_loss(model.decoder(model.mean(x)), x)
    weights = [model.mean.weight, model.mean.bias, model.decoder.weight, model.decoder.bias]
    return [named, 0.1 * sum((w**2).sum() for w in weights)], weights  # type: ignore[list-item] # sum begins with 0


@pytest.mark.parametrize("case", [autoencoder, heads, penalty])
def test_each_gradient_is_that_of_its_term_alone(case: Callable[[Encoded, torch.Tensor], tuple[Terms, Terms]]) -> None:
    torch.manual_seed(0)
    model, x = Encoded(), torch.randn(12, 6)
    terms, shared = case(model, x)
    wanted = []
    for term in terms:
        gradients = torch.autograd.grad(term, shared, retain_graph=True, allow_unused=True)
        wanted.append(float(torch.cat([g.reshape(-1) for g in gradients if g is not None]).norm()))
    loss = terms[0] + terms[1]
    plain = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True, allow_unused=True)
    looked = TermGradients(loss.grad_fn, lambda function: function)
    loss.backward()
    assert [float(size) for size in looked.sizes() if size is not None] == pytest.approx(wanted, rel=1e-4)
    for parameter, gradient in zip(model.parameters(), plain, strict=True):  # the backward pass is the script's own
        assert gradient is None or torch.equal(parameter.grad, gradient)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lambda m, x: functional.mse_loss(m.mean(x), x[:, :3]), id="no-sum"),
        pytest.param(lambda m, x: m.mean(x).pow(2).mean() + m.spread(x).pow(2).mean(), id="nothing-shared"),
        pytest.param(lambda m, x: functional.cross_entropy(m.mean(x), torch.arange(12) % 3, label_smoothing=0.1),
                     id="smoothed-labels"),
    ],
)  # fmt: skip
def test_no_terms(loss: Callable[[Encoded, torch.Tensor], torch.Tensor]) -> None:
    assert TermGradients(loss(Encoded(), torch.randn(12, 6)).grad_fn, lambda function: function).terms == ()


@pytest.mark.parametrize(
    ("loss", "predictions", "targets"),
    [
        pytest.param(functional.mse_loss, (16, 3), torch.randn(16, 3), id="squares"),
        pytest.param(functional.binary_cross_entropy_with_logits, (16, 3), torch.rand(16, 3).round(), id="binary"),
        pytest.param(functional.cross_entropy, (16, 3), torch.randint(3, (16,)), id="classes"),
    ],
)
def test_a_guess_is_what_the_best_constant_costs(
    loss: Callable[..., torch.Tensor], predictions: tuple[int, int], targets: torch.Tensor
) -> None:
    constant = torch.zeros(predictions[1], requires_grad=True)
    optimizer = torch.optim.LBFGS([constant], max_iter=200)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        cost = loss(constant.expand(predictions), targets)
        cost.backward()
        return cost

    optimizer.step(closure)  # type: ignore[arg-type] # torch wants a float
    for reduction in ("mean", "sum"):
        found = loss(constant.expand(predictions), targets, reduction=reduction)
        guess = guess_of(describe_loss(found.grad_fn))
        assert guess is not None
        assert float(guess) == pytest.approx(found.item(), rel=1e-3)


@pytest.mark.parametrize(
    ("term", "is_penalty"),
    [
        pytest.param(lambda m, _: 0.1 * sum((w**2).sum() for w in m.parameters()), True, id="squares"),
        pytest.param(lambda m, _: m.mean.weight.abs().mean() + m.mean.bias.norm(), True, id="sizes-and-a-norm"),
        pytest.param(lambda m, _: (m.mean.weight - 1).square().sum(), True, id="distance-from-other-weights"),
        pytest.param(lambda m, x: m.mean(x).square().mean(), False, id="activations"),
        pytest.param(lambda m, x: (x @ m.mean.weight.T).abs().mean(), False, id="weights-times-inputs"),
        pytest.param(lambda m, _: m.mean.weight.softmax(0).square().sum(), False, id="a-function-of-weights"),
    ],
)
def test_a_penalty_on_weights_alone_costs_nothing(
    term: Callable[[Encoded, torch.Tensor], torch.Tensor], *, is_penalty: bool
) -> None:
    model, x = Encoded(), torch.randn(12, 6)
    loss = functional.mse_loss(model.decoder(model.mean(x)), x) + term(model, x)
    looked = TermGradients(loss.grad_fn, lambda function: function)
    guesses = [each.guess for each in looked.terms if each.name == "loss"]
    looked.sizes()
    assert guesses
    assert all((guess is not None and not guess.any()) is is_penalty for guess in guesses)
