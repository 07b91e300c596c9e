"""Data sets that write into the rows that they keep; none that copy them, or keep others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.program.drifting_data import DriftingData

PASSES = 8
Change = Callable[[Any], Any]


class Rows(Dataset[Any]):
    """A data set that returns what `change` makes of a row of its store."""

    def __init__(self, store: Any, change: Change) -> None:
        self.mean, self.deviation = np.array(0.0), torch.tensor(1.0)  # no rows
        self.store, self.change, self.labels = store, change, torch.zeros(len(store))

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        return self.change(self.store[place]), self.labels[place]


def table() -> torch.Tensor:
    return torch.randn(24, 16, generator=torch.Generator().manual_seed(0)) + 2


def arrays() -> list[Any]:
    return list(table().numpy())


def cached() -> dict[int, Any]:
    return dict(enumerate(table()))


def noisier(row: Any) -> Any:
    row += 0.3 * torch.randn(16).numpy() if isinstance(row, np.ndarray) else 0.3 * torch.randn(16)
    return row


def smaller(row: Any) -> Any:
    row /= 3
    return row


def noisy_copy(row: Any) -> Any:
    return row + 0.3 * torch.randn(16)


def shifted_once(row: Any) -> Any:
    row -= row.mean()  # which changes nothing the second time but rounding
    return row


def kept(row: Any) -> Any:
    return row


def stand(_: Any, __: int) -> None:
    pass


def drawn_anew(data: Rows, _: int) -> None:
    data.store.copy_(torch.randn(24, 16) + torch.arange(16.0) * 9)


def noisy_anew(data: Rows, _: int) -> None:
    data.store.copy_(table() + 0.3 * torch.randn(24, 16))


def a_ring(data: Rows, number: int) -> None:
    data.store[(8 * number) % 24 :][:8] = torch.randn(8, 16) + 0.1 * number


@pytest.mark.parametrize(
    ("store", "change", "between", "expected"),
    [
        pytest.param(table, noisier, stand, "Rows.store", id="noise-in-place"),
        pytest.param(arrays, noisier, stand, "Rows.store", id="noise-in-arrays"),
        pytest.param(cached, noisier, stand, "Rows.store", id="noise-in-a-cache"),
        pytest.param(table, smaller, stand, "Rows.store", id="scaled-each-time"),
        pytest.param(arrays, smaller, stand, "Rows.store", id="arrays-scaled-each-time"),
        pytest.param(table, noisy_copy, stand, "", id="noise-in-a-copy"),
        pytest.param(cached, noisy_copy, stand, "", id="a-copy-from-a-cache"),
        pytest.param(table, kept, stand, "", id="as-they-are"),
        pytest.param(table, shifted_once, stand, "", id="prepared-at-the-first-fetch"),
        pytest.param(table, kept, drawn_anew, "", id="drawn-anew"),
        pytest.param(table, kept, noisy_anew, "", id="noisy-anew"),
        pytest.param(table, kept, a_ring, "", id="a-ring"),
    ],
)
@pytest.mark.parametrize("is_subset", [False, True], ids=["whole", "subset"])
def test_stores(
    store: Callable[[], Any], change: Change, between: Callable[[Rows, int], None], expected: str, is_subset: bool
) -> None:
    torch.manual_seed(0)
    seen, rows = DriftingData(Watch()), Rows(store(), change)
    data: Dataset[Any] = Subset(rows, range(24)) if is_subset else rows
    for number in range(PASSES):
        between(rows, number)
        iterator = iter(DataLoader(data, 4, shuffle=True))
        for place, batch in enumerate(iterator):
            if not place:
                before = torch.random.get_rng_state()
                seen.pass_met(iterator, batch)
                assert torch.equal(before, torch.random.get_rng_state())
    assert seen.of(Watch()) == expected
