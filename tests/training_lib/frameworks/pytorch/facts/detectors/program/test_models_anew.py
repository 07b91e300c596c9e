"""Models that live for one pass over the data each; silent for folds, searches, ensembles and one model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.program.models_anew import ModelsAnew

STEPS = 7  # of a pass


class Rows(torch.utils.data.Dataset[int]):
    """A data set."""


def trained(
    *,
    models: int,
    passes: int = 1,
    width: int = 4,
    wider: int = 0,
    rate: float = 1.0,
    folds: bool = False,
    keeps: bool = False,
    is_same: bool = False,
    loader: bool = True,
) -> int:
    now, kept, data = [0], [], Rows()
    seen = ModelsAnew(Watch(steps=lambda: now[0]))
    model: Any = nn.Linear(width, 2)
    for number in range(models):
        if number and not is_same:
            model = nn.Linear(width + wider * number, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * rate**number)
        kept += [model] if keeps else []
        data = Rows() if folds else data
        for _ in range(passes):
            if loader:
                seen.pass_met(SimpleNamespace(_dataset=data), None)
            for _ in range(STEPS):
                seen.before_step(optimizer)
                now[0] += 1
    return seen.of(Watch())


@pytest.mark.parametrize(
    ("program", "every"),
    [
        pytest.param({"models": 4}, STEPS, id="anew at each pass"),
        pytest.param({"models": 9, "width": 6}, STEPS, id="so for long"),
        pytest.param({"models": 3}, 0, id="three models"),
        pytest.param({"models": 1, "passes": 9}, 0, id="one model"),
        pytest.param({"models": 6, "is_same": True}, 0, id="an optimizer for each pass"),
        pytest.param({"models": 6, "passes": 2}, 0, id="several passes each"),
        pytest.param({"models": 6, "folds": True}, 0, id="a data set each"),
        pytest.param({"models": 6, "rate": 0.5}, 0, id="a search for a rate"),
        pytest.param({"models": 6, "wider": 2}, 0, id="a search for a width"),
        pytest.param({"models": 6, "keeps": True}, 0, id="an ensemble"),
        pytest.param({"models": 6, "loader": False}, 0, id="passes that are not seen"),
    ],
)
def test_models(program: dict[str, Any], every: int) -> None:
    assert trained(**program) == every
