"""What stands for the rows of a pass: the same for the same rows, in any batch; nothing for what is no data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from trackside.frameworks.pytorch.statistics.rows_of_passes import rows_of

torch.set_num_threads(1)
ROWS, OTHERS = torch.arange(24.0).reshape(6, 4), torch.arange(100.0, 124.0).reshape(6, 4)
LINEAR, BARE, CONV, WORDS = nn.Linear(4, 2), nn.Linear(4, 2, bias=False), nn.Conv1d(1, 2, 3), nn.Embedding(200, 3)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(LINEAR, id="linear"),
        pytest.param(BARE, id="without a bias"),
        pytest.param(lambda x: CONV(x[:, None]), id="convolution"),
        pytest.param(lambda x: WORDS(x.long()), id="embedding"),
        pytest.param(lambda x: LINEAR(x).relu() @ torch.ones(2), id="more layers"),
    ],
)
def test_rows(use: Callable[[Tensor], Tensor]) -> None:
    some, all_of_them, others = (rows_of(use(x).sum()) for x in (ROWS[:3], torch.cat([OTHERS[:1], ROWS]), OTHERS))
    assert len(some) == 3
    assert some < all_of_them
    assert some.isdisjoint(others)


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lambda: LINEAR(ROWS.clone().requires_grad_()).sum(), id="rows with a gradient"),
        pytest.param(lambda: LINEAR.weight.square().sum(), id="no data"),
        pytest.param(lambda: torch.zeros(()), id="no graph"),
        pytest.param(lambda: None, id="no loss"),
        pytest.param(lambda: (LINEAR(ROWS).sum(),), id="several"),
    ],
)
def test_nothing(loss: Callable[[], object]) -> None:
    assert not rows_of(loss())


def test_rows_that_the_script_has_written_over() -> None:
    rows = ROWS.clone()
    loss = LINEAR(rows).sum()
    rows.zero_()
    with pytest.raises(RuntimeError):
        rows_of(loss)
