"""Labels of evaluations of classes that the training hardly has."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from trackside.contracts.run.recorded_names import HELD_OUT_LABELS_HIGHEST, HELD_OUT_LABELS_UNTRAINED
from trackside.trial.trial import Trial

torch.set_num_threads(1)
WIDTH = 8
Labels = torch.Tensor


def labelled(labels: Labels, *more: torch.Tensor) -> TensorDataset:
    rows = torch.randn(len(labels), WIDTH, generator=torch.Generator().manual_seed(len(labels)))
    return TensorDataset(rows, labels, *more)


def found(capturing: Any, training: Dataset[Any], evaluated: list[Dataset[Any]]) -> list[tuple[float, float]]:
    """Return the share and the highest class of each evaluation but the last."""
    torch.manual_seed(0)
    batches = DataLoader(training, batch_size=32, shuffle=True)
    with capturing(losses=100) as store:
        net = nn.Linear(WIDTH, 1)
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        for _ in range(3):
            net.train()
            for rows, *_ in batches:
                optimizer.zero_grad()
                net(rows).square().mean().backward()
                optimizer.step()
            net.eval()
            with torch.no_grad():
                for each in evaluated:
                    for rows, *_ in DataLoader(each, batch_size=50):
                        net(rows)
    trial = Trial(store, store)
    trial.refresh()
    shares, highest = (
        [value for column in trial.columns(name, "mean", last_step=10_000, mode="TRAIN") for value in column.values]
        for name in (HELD_OUT_LABELS_UNTRAINED, HELD_OUT_LABELS_HIGHEST)
    )
    return list(zip(shares, highest, strict=True))


SORTED = torch.arange(500) // 50
MIXED = torch.arange(500) % 10
RARE = torch.cat([MIXED, torch.tensor([10])])
FEW = torch.full((80,), 9)


@pytest.mark.parametrize(
    ("training", "evaluated", "share", "highest"),
    [
        pytest.param(SORTED[:400], [SORTED[400:]], 1.0, 9, id="sorted, and cut in two"),
        pytest.param(SORTED[:375], [SORTED[375:]], 0.8, 9, id="sorted, and cut within a class"),
        pytest.param(RARE, [torch.cat([MIXED[:75], torch.full((25,), 10)])], 0.25, 10, id="a class that hardly comes"),
        pytest.param(MIXED, [FEW], 0.0, -1, id="one of its classes"),
        pytest.param(MIXED[:400], [MIXED[400:]], 0.0, -1, id="mixed"),
        pytest.param(SORTED[:400], [SORTED[400:], MIXED], 0.2, 9, id="sorted, and all classes"),
        pytest.param(SORTED[:400], [SORTED[:200], SORTED[400:]], 0.0, -1, id="what was learned, and what comes next"),
        pytest.param(SORTED[:400], [SORTED[:400], SORTED[400:]], 1.0, 9, id="beside the training's own rows"),
        pytest.param(MIXED.to(torch.uint8), [FEW.to(torch.uint8)], 0.0, -1, id="in bytes"),
        pytest.param(SORTED[:400, None], [SORTED[400:, None]], 1.0, 9, id="columns"),
        pytest.param(torch.where(MIXED > 4, -100, MIXED), [MIXED[:80]], 0.5, 9, id="places that do not count"),
    ],
)
def test_the_share_of_labels_that_the_training_lacks(
    capturing: Any, training: Labels, evaluated: list[Labels], share: float, highest: int
) -> None:
    numbers = found(capturing, labelled(training), [labelled(each) for each in evaluated])
    assert numbers == [pytest.approx((share, highest))] * 2


@pytest.mark.parametrize(
    ("training", "evaluated"),
    [
        pytest.param(labelled(torch.arange(400)), labelled(torch.arange(400, 500)), id="numbers of rows"),
        pytest.param(labelled(SORTED[:400], MIXED[:400]), labelled(SORTED[400:], MIXED[400:]), id="two of each"),
        pytest.param(labelled(SORTED[:400].float()), labelled(SORTED[400:].float()), id="numbers to regress"),
        pytest.param(labelled(1000 + SORTED[:400]), labelled(1000 + SORTED[400:]), id="many classes"),
        pytest.param(labelled(MIXED), labelled(FEW[:20]), id="few labels"),
        pytest.param(TensorDataset(torch.randn(400, WIDTH)), labelled(FEW), id="a training without labels"),
    ],
)
def test_what_is_not_judged(capturing: Any, training: Dataset[Any], evaluated: Dataset[Any]) -> None:
    assert found(capturing, training, [evaluated]) == []
