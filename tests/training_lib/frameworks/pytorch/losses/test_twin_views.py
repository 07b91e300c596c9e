"""Two views of a batch that are the same: one graph compares two equal passes of one model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.training_lib.frameworks.pytorch.statistics.test_readings import capturing, column, opened
from trackside.contracts.capture_request import StatisticsRequest
from trackside.contracts.run.recorded_names import SAME_VIEWS
from trackside.frameworks.pytorch.losses.twin_views import views_of

torch.set_num_threads(1)
ROWS, WIDTH = 8, 6


def dense(*, rate: float = 0.0) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.Dropout(rate), nn.ReLU(), nn.Linear(16, 5))


def convolved() -> nn.Module:
    layers = nn.Conv1d(1, 4, 3, bias=False), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5, bias=False)
    return nn.Sequential(nn.Unflatten(1, (1, WIDTH)), *layers)


def info_nce(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    both = functional.normalize(torch.cat([one, two]), dim=1)
    return functional.cross_entropy(both @ both.T, torch.arange(2 * len(one)).roll(len(one)))


def product(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(one @ two.T, torch.arange(len(one)))


def distance(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    return (one - two + 1e-3).pow(2).sum(1).mean() + functional.mse_loss(one, two)


def two_terms(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """Answers and their entropy, each from a pass of its own, as of a policy: they meet as losses."""
    labels = torch.arange(len(one)) % 5
    return functional.cross_entropy(one, labels) + 0.1 * functional.softmax(two, 1).pow(2).sum()


def of_each_sample(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    labels = torch.arange(len(one)) % 5
    return (functional.cross_entropy(one, labels, reduction="none") - two.softmax(1).pow(2).sum(1)).mean()


def likeness(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    return -functional.cosine_similarity(one, two, dim=-1).mean()


def distinct(x: torch.Tensor) -> torch.Tensor:
    return x + 0.1 * torch.randn_like(x)


def same(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def views(model: nn.Module, compare: Any, second: Callable[[torch.Tensor], torch.Tensor]) -> float | None:
    torch.manual_seed(0)
    x = torch.randn(ROWS, WIDTH)
    found = views_of(compare(model(x), model(second(x))).grad_fn)
    return None if found is None else float(found.same)


@pytest.mark.parametrize(
    ("make", "compare"),
    [
        pytest.param(dense, info_nce, id="concatenated"),
        pytest.param(dense, product, id="a product"),
        pytest.param(convolved, product, id="convolutions and norms"),
        pytest.param(dense, distance, id="a distance"),
        pytest.param(dense, likeness, id="a cosine"),
    ],
)
def test_the_same_views_are_told_from_different_ones(make: Callable[[], nn.Module], compare: Any) -> None:
    torch.manual_seed(0)
    model = make()
    assert views(model, compare, same) == 1
    assert views(model, compare, distinct) == 0


def triplet(anchor: torch.Tensor, alike: torch.Tensor, unlike: torch.Tensor) -> torch.Tensor:
    return nn.TripletMarginLoss()(anchor, alike, unlike)


def with_labels(anchor: torch.Tensor, alike: torch.Tensor, again: torch.Tensor) -> torch.Tensor:
    """Views that are compared, and a further pass of the first for its labels."""
    return product(anchor, alike) + functional.cross_entropy(again, torch.arange(len(again)) % 5)


@pytest.mark.parametrize(
    ("compare", "second", "third", "wanted"),
    [
        pytest.param(triplet, same, distinct, 1.0, id="like an anchor is the anchor"),
        pytest.param(triplet, distinct, same, 1.0, id="unlike an anchor is the anchor"),
        pytest.param(triplet, distinct, distinct, 0.0, id="three passes that differ"),
        pytest.param(with_labels, distinct, same, 0.0, id="an anchor that is passed twice for two terms"),
        pytest.param(with_labels, same, distinct, 1.0, id="the same views beside another term"),
    ],
)
def test_of_three_passes_those_count_that_meet(compare: Any, second: Any, third: Any, wanted: float) -> None:
    torch.manual_seed(0)
    model, x = dense(), torch.randn(ROWS, WIDTH)
    found = views_of(compare(model(x), model(second(x)), model(third(x))).grad_fn)
    assert found is not None
    assert float(found.same) == wanted


def test_passes_that_drop_other_units_differ() -> None:
    assert views(dense(rate=0.5), info_nce, same) == 0


def one_layer() -> nn.Module:
    return nn.Linear(WIDTH, 5)


@pytest.mark.parametrize(
    ("make", "compare"),
    [
        pytest.param(dense, two_terms, id="two terms of a loss"),
        pytest.param(dense, of_each_sample, id="two losses of each sample"),
        pytest.param(one_layer, info_nce, id="one layer alone"),
    ],
)
def test_what_compares_no_two_passes_is_left_out(make: Callable[[], nn.Module], compare: Any) -> None:
    assert views(make(), compare, same) is None


def test_one_pass_is_left_out() -> None:
    assert views_of(functional.cross_entropy(dense()(torch.randn(8, WIDTH)), torch.arange(8) % 5).grad_fn) is None


def test_inputs_that_are_trained_are_left_out() -> None:
    """As of a physics-informed network, which asks its model for the same points twice."""
    points, model = torch.randn(8, WIDTH, requires_grad=True), dense()
    assert views_of(product(model(points), model(points)).grad_fn) is None


@pytest.mark.parametrize(("second", "wanted"), [(same, 1.0), (distinct, 0.0)])
def test_they_are_numbers_of_the_steps_with_a_look(tmp_path: Path, second: Any, wanted: float) -> None:
    with capturing(tmp_path, statistics=StatisticsRequest()):
        model = dense()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(22):
            x = torch.randn(ROWS, WIDTH)
            optimizer.zero_grad()
            info_nce(model(x), model(second(x))).backward()
            optimizer.step()
    assert column(opened(tmp_path), SAME_VIEWS, "mean") == dict.fromkeys([1, 5, 10, 15, 20], wanted)


@pytest.mark.parametrize("collapse", [0.0, 0.5, 1.0], ids=["as made", "half", "collapsed"])
def test_the_spread_is_that_of_the_outputs(collapse: float) -> None:
    torch.manual_seed(0)
    model, x = dense(), torch.randn(ROWS, WIDTH)
    with torch.no_grad():
        last = model[-1]  # type: ignore[index]
        last.weight *= 1 - collapse
        last.bias += collapse
    outputs = model(x)
    found = views_of(likeness(outputs, model(distinct(x))).grad_fn)
    directions = functional.normalize(outputs.detach(), dim=1)
    assert found is not None
    assert found.spread is not None
    assert float(found.spread) == pytest.approx(1 - float(directions.mean(0).square().sum()), abs=1e-5)
    assert (float(found.spread) < 1e-5) is (collapse == 1)


def test_the_spread_of_few_samples_and_of_layers_without_a_bias_is_unknown() -> None:
    torch.manual_seed(0)
    few, model = torch.randn(4, WIDTH), dense()
    found = [
        views_of(product(model(few), model(distinct(few))).grad_fn),
        views_of(product(*two_views(convolved())).grad_fn),
    ]
    assert [each is not None and each.spread is None for each in found] == [True, True]


def two_views(model: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(ROWS, WIDTH)
    return model(x), model(distinct(x))
