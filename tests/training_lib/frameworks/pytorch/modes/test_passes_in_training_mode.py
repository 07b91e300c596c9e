"""A pass over held-out data with gradients on, in training mode, is counted; passes of a training are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from trackside.contracts.observations import EVALUATION_LINE, TRAINING_MODE_EVALUATIONS
from trackside.records.model_facts import read_facts

torch.set_num_threads(1)
EPOCHS = 6


def data(seed: int, rows: int = 24) -> TensorDataset:
    random = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(rows, 6, generator=random), torch.randint(3, (rows,), generator=random))


def loader(seed: int, rows: int = 24) -> DataLoader[Any]:
    return DataLoader(data(seed, rows), 8)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


HELD_OUT, OTHER = loader(1), loader(2)
Epoch = Callable[[nn.Module, torch.optim.Optimizer, DataLoader[Any]], object]


def step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call] # torch's own omission
    optimizer.step()


def train(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> None:
    for values, labels in training:
        step(optimizer, functional.cross_entropy(model(values), labels))


def accuracy(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> float:
    train(model, optimizer, training)
    return sum(int((model(values).argmax(1) == labels).sum()) for values, labels in HELD_OUT) / 24


def loss(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> float:
    train(model, optimizer, training)
    return sum(functional.cross_entropy(model(values), labels).item() for values, labels in HELD_OUT)


def loss_module_and_accuracy(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> None:
    train(model, optimizer, training)
    for values, labels in HELD_OUT:
        scores = model(values)
        nn.CrossEntropyLoss()(scores, labels)
        (scores.argmax(1) == labels).float().mean()


def in_pairs(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> None:
    for (values, labels), (others, answers) in zip(training, OTHER, strict=True):
        first, second = model(values), model(others)
        step(optimizer, functional.cross_entropy(first, labels) + functional.cross_entropy(second, answers))


def with_unlabelled_data(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> None:
    unlabelled = iter(OTHER)
    for values, labels in training:
        guess = model(next(unlabelled)[0]).softmax(1)
        entropy = -(guess * guess.log()).sum(1).mean()
        step(optimizer, functional.cross_entropy(model(values), labels) + entropy)


def of_all_batches_at_once(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> None:
    step(optimizer, torch.stack([functional.cross_entropy(model(v), labels) for v, labels in training]).mean())


def several_guesses(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> None:
    train(model, optimizer, training)
    for values, labels in HELD_OUT:  # Monte-Carlo dropout
        mean = torch.stack([model(values).softmax(1) for _ in range(4)]).mean(0)
        functional.nll_loss(mean.log(), labels)


def a_look_at_the_data(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> None:
    torch.stack([values.mean() for values, _ in HELD_OUT]).mean()
    train(model, optimizer, training)


def statistics_alone(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> None:
    train(model, optimizer, training)
    for values, _ in HELD_OUT:
        model(values)


def in_eval_mode(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> None:
    model.train()
    train(model, optimizer, training)
    model.eval()
    for values, labels in HELD_OUT:
        functional.cross_entropy(model(values), labels)


def one_batch(model: nn.Module, optimizer: torch.optim.Optimizer, training: DataLoader[Any]) -> None:
    train(model, optimizer, training)
    for values, labels in DataLoader(HELD_OUT.dataset, 24):
        functional.cross_entropy(model(values), labels)


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))


def losses(epoch: Epoch, model: Callable[[], nn.Module]) -> Iterator[torch.Tensor]:
    torch.manual_seed(0)
    trained, training = model(), loader(0, 32 if epoch is train else 24)
    optimizer = torch.optim.SGD(trained.parameters(), 0.01)
    for _ in range(EPOCHS):
        epoch(trained, optimizer, training)
        yield torch.cat([parameter.detach().flatten() for parameter in trained.parameters()])


@pytest.mark.parametrize(
    ("epoch", "model", "expected"),
    [
        pytest.param(accuracy, net, 3, id="accuracy"),
        pytest.param(loss, net, 3, id="loss"),
        pytest.param(loss_module_and_accuracy, net, 3, id="loss-module-and-accuracy"),
        pytest.param(accuracy, plain, 0, id="a-model-with-one-behaviour"),
        pytest.param(train, net, 0, id="training-alone"),
        pytest.param(in_pairs, net, 0, id="two-data-sets-in-pairs"),
        pytest.param(with_unlabelled_data, net, 0, id="unlabelled-data"),
        pytest.param(of_all_batches_at_once, net, 0, id="one-backward-for-all-batches"),
        pytest.param(several_guesses, net, 0, id="several-guesses"),
        pytest.param(a_look_at_the_data, net, 0, id="a-look-at-the-data"),
        pytest.param(statistics_alone, net, 0, id="statistics-alone"),
        pytest.param(in_eval_mode, net, 0, id="in-eval-mode"),
        pytest.param(one_batch, net, 0, id="a-pass-of-one-batch"),
    ],
)
def test_passes(capturing: Any, epoch: Epoch, model: Callable[[], nn.Module], expected: int) -> None:
    unwatched = list(losses(epoch, model))
    with capturing(losses=1) as store:
        watched = list(losses(epoch, model))
    facts = read_facts(store, "worker_0")[-1].program
    assert TRAINING_MODE_EVALUATIONS.of(facts) == expected
    assert EVALUATION_LINE.of(facts).startswith("test_passes_in_training_mode.py:") == bool(expected)
    assert all(map(torch.equal, watched, unwatched))
