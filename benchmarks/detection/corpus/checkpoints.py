"""A network that was trained before, as a checkpoint from elsewhere would be."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.detection.corpus import data
from benchmarks.detection.corpus.models import mlp


def digit_reader() -> nn.Sequential:
    """A MLP 64-64-64-10 that reads nine digits of ten right."""
    model = mlp(64, 64, 64, 10)
    model.load_state_dict(_weights())
    return model


@cache
def _weights() -> Mapping[str, Tensor]:
    """Trained by hand: no optimizer, for nothing of this belongs to a run."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = mlp(64, 64, 64, 10)
        inputs, targets = data.digits(0).train
        parameters = list(model.parameters())
        for _ in range(100):
            gradients = torch.autograd.grad(functional.cross_entropy(model(inputs), targets), parameters)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.sub_(0.4 * gradient)
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def warm() -> None:
    """Makes it, so that processes forked from here share it."""
    _weights()
