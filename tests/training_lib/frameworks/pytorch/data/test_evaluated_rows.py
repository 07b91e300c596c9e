"""Rows of evaluations that were trained on: splits that are held back, and those that are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

from trackside.contracts.run.recorded_names import EVALUATED_ROWS_TRAINED_ON
from trackside.frameworks.pytorch.data.evaluated_rows import row_digests
from trackside.rules.data.evaluation_on_training_data import EvaluationOnTrainingData
from trackside.trial.trial import Trial

torch.set_num_threads(1)
Loader = DataLoader[Any]


def data(count: int = 160, *, seed: int = 3, width: int = 9) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(count, width, generator=generator)
    return TensorDataset(values, torch.randn(count, 1, generator=generator))


def shuffled(dataset: Dataset[Any], **named: Any) -> Loader:
    return DataLoader(dataset, batch_size=16, shuffle=True, **named)


def in_order(dataset: Dataset[Any]) -> Loader:
    return DataLoader(dataset, batch_size=20)


class Noisy(Dataset[Any]):
    """Rows with noise of their own at each access, as augmentation adds it."""

    def __init__(self, dataset: TensorDataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: int) -> Any:
        values, target = self.dataset[place]
        return values + torch.randn(9) / 10, target


def train(
    batches: Loader, evaluated: list[Loader], *, epochs: int = 3, late: bool = False, is_eval: bool = True
) -> None:
    """Train and evaluate in turn; `late`: the model goes into training mode after the first batch was fetched."""
    torch.manual_seed(0)
    net = nn.Linear(9, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for _ in range(epochs):
        if not late:
            net.train()
        for values, targets in batches:
            net.train()
            optimizer.zero_grad()
            functional.mse_loss(net(values), targets).backward()
            optimizer.step()
        net.train(not is_eval)
        for loader in evaluated:
            for values, _ in loader:
                with torch.no_grad():
                    net(values)


def same_loader() -> tuple[Loader, list[Loader]]:
    loader = shuffled(data())
    return loader, [loader]


KNOWN = [
    pytest.param(same_loader, id="the loader of the training"),
    pytest.param(lambda: (shuffled(data()), [in_order(data())]), id="another loader of equal data"),
    pytest.param(lambda: (shuffled(data()), [in_order(Subset(data(), range(60)))]), id="a part of them"),
    pytest.param(lambda: (shuffled(data(), num_workers=1), [in_order(data())]), id="fetched by a worker"),
    pytest.param(lambda: (shuffled(data()), [in_order(data()), in_order(data())]), id="twice"),
]
UNKNOWN = [
    pytest.param(lambda: (shuffled(data()), [in_order(data(seed=4))]), id="other data"),
    pytest.param(
        lambda: (shuffled(Subset(data(), range(100))), [in_order(Subset(data(), range(100, 160)))]), id="held back"
    ),
    pytest.param(lambda: (shuffled(data()), [in_order(data()), in_order(data(seed=4))]), id="training data and others"),
    pytest.param(
        lambda: (shuffled(data()), [in_order(ConcatDataset([data(40), data(40, seed=4)]))]), id="half of them"
    ),
    pytest.param(lambda: (shuffled(Noisy(data())), [in_order(Noisy(data()))]), id="augmented"),
]
UNJUDGED = [
    pytest.param(lambda: (shuffled(data()), []), id="no evaluation"),
    pytest.param(lambda: (shuffled(data()), [in_order(data(24))]), id="few rows"),
    pytest.param(
        lambda: (shuffled(ConcatDataset([data(40)] * 4)), [in_order(data(40))]),
        id="data with few different rows",
    ),
]


def shares(capturing: Any, given: Callable[[], tuple[Loader, list[Loader]]], **named: Any) -> tuple[list[float], bool]:
    """Return the share at each evaluation but the last, and whether the rule fires at the end."""
    with capturing(losses=100) as store:
        batches, evaluated = given()
        train(batches, evaluated, **named)
    trial = Trial(store, store)
    trial.refresh()
    columns = trial.columns(EVALUATED_ROWS_TRAINED_ON, "mean", last_step=10_000, mode="TRAIN")
    window = trial.window(200, now=0.0, newest_step_at=0.0)
    return [value for column in columns for value in column.values], bool(
        list(EvaluationOnTrainingData().check(window))
    )


@pytest.mark.parametrize("given", KNOWN)
def test_training_rows_are_known(capturing: Any, given: Callable[[], tuple[Loader, list[Loader]]]) -> None:
    assert shares(capturing, given) == ([1.0, 1.0], True)


@pytest.mark.parametrize("given", UNKNOWN)
def test_other_rows_are_silent(capturing: Any, given: Callable[[], tuple[Loader, list[Loader]]]) -> None:
    found, fires = shares(capturing, given)
    assert len(found) == 2
    assert all(share < 0.7 for share in found)
    assert not fires


@pytest.mark.parametrize("given", UNJUDGED)
def test_what_cannot_be_judged_has_no_share(capturing: Any, given: Callable[[], tuple[Loader, list[Loader]]]) -> None:
    assert shares(capturing, given) == ([], False)


def test_statistics_of_a_normalisation_are_no_evaluation(capturing: Any) -> None:
    assert shares(capturing, same_loader, is_eval=False) == ([], False)


def test_the_first_batch_of_the_training_is_no_evaluation(capturing: Any) -> None:
    found, fires = shares(capturing, lambda: (shuffled(data(160)), []), late=True)
    assert (found, fires) == ([], False)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(torch.randn(8, 6, 7), id="numbers"),
        pytest.param((torch.randint(0, 9, (8, 12)), torch.arange(8)), id="tokens and labels"),
        pytest.param({"image": torch.randn(8, 3, 20, 20).bfloat16(), "label": torch.arange(8)}, id="a mapping"),
        pytest.param(torch.randn(12, 8).T, id="not contiguous"),
    ],
)
def test_equal_rows_have_equal_digests_wherever_they_stand(batch: Any) -> None:
    order = torch.tensor([3, 1, 2, 0, 7, 6, 5, 4])

    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value[order]
        return {n: moved(v) for n, v in value.items()} if isinstance(value, dict) else tuple(map(moved, value))

    found = row_digests(batch, most=8)
    assert len(set(found)) == 8
    assert list(row_digests(moved(batch), most=8)) == [found[place] for place in order]


@pytest.mark.parametrize(
    "batch",
    [None, torch.tensor(3.0), torch.randn(1, 40), torch.randn(8, 7), (torch.randn(8, 9), torch.randn(7, 9))],
    ids=["nothing", "a number", "one row", "narrow rows", "rows of two counts"],
)
def test_no_digests(batch: Any) -> None:
    assert not row_digests(batch, most=8)


def test_rows_are_taken_evenly() -> None:
    batch = torch.randn(100, 9)
    every = row_digests(batch, most=100)
    assert list(row_digests(batch, most=32)) == list(every[::4])
