"""Rows that are left out: what loaders, samplers and streams give in their place, and how much of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler

import trackside
from tests.warm_python import WarmPython
from trackside.capture.ground.guard import Guard
from trackside.contracts.run.restart import LeftOut, Order
from trackside.environment import inherited
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.rescue import skipping
from trackside.rescue.drawn_batches import DrawnBatches, name_of

ROWS = 24


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(ROWS))


class Other(Numbers):
    """Another data set of the same length, such as that of an evaluation."""


def batches_of(loader: DataLoader[int], left_out: tuple[int, ...], fuse: Fuse | None = None) -> list[list[int]]:
    """Return the batches of a pass, with rows of `Numbers` left out."""
    order = Order("good", left_out=(LeftOut(name_of(Numbers()), left_out),))
    drawn = DrawnBatches(lambda: 0, fuse or Fuse(Guard(), "leaving out"), order)
    drawn.put_in()
    try:
        return [torch.as_tensor(batch).reshape(-1).tolist() for batch in loader]
    finally:
        drawn.take_out()


_LEFT_OUT: dict[str, tuple[int, ...]] = {
    "a row": (5,),
    "a batch": (8, 9, 10, 11),
    "the first batch": (0, 1, 2, 3),
    "the first two batches and more": (*range(9), 20),
    "the last batch": (20, 21, 22, 23),
}


@pytest.mark.parametrize("workers", [0, 2], ids=["here", "workers"])
@pytest.mark.parametrize("left_out", _LEFT_OUT.values(), ids=_LEFT_OUT)
def test_a_pass_keeps_its_batches_and_their_sizes(left_out: tuple[int, ...], workers: int) -> None:
    loader = DataLoader(Numbers(), batch_size=4, num_workers=workers)
    found = batches_of(loader, left_out)
    if left_out == _LEFT_OUT["the first two batches and more"]:  # rows of the second one stand for the first
        found = found[2:]
        assert len(found) == 4
    else:
        assert len(found) == 6
    assert {len(batch) for batch in found} == {4}
    assert not set(left_out) & {row for batch in found for row in batch}
    kept = {row for batch in found for row in batch}
    assert kept >= set(range(12, ROWS)) - set(left_out)


_SAME: dict[str, tuple[DataLoader[int], tuple[int, ...]]] = {
    "nothing is left out": (DataLoader(Numbers(), batch_size=4), ()),
    "all is left out": (DataLoader(Numbers(), batch_size=ROWS), tuple(range(ROWS))),
    "another data set": (DataLoader(Other(), batch_size=4), (5, 6)),
    "a stream without numbers": (DataLoader(Stream(), batch_size=4), (5, 6)),
}


@pytest.mark.parametrize(("loader", "left_out"), _SAME.values(), ids=_SAME)
def test_what_is_left_alone(loader: DataLoader[int], left_out: tuple[int, ...]) -> None:
    assert [row for batch in batches_of(loader, left_out) for row in batch] == list(range(ROWS))


def test_an_evaluation_is_left_alone() -> None:
    with torch.no_grad():
        found = batches_of(DataLoader(Numbers(), batch_size=4), (5, 6))
    assert found[1] == [4, 5, 6, 7]


def test_single_rows_and_names_of_rows() -> None:
    assert len(batches_of(DataLoader(Numbers(), batch_size=None), (5,))) == ROWS
    sampler: Any = [["a", "b"], ["c"]]
    names: Any = {"a": 1, "b": 2, "c": 3}
    assert batches_of(DataLoader(names, batch_sampler=sampler), (1,)) == [[1, 2], [3]]


def test_a_sampler_that_raises_does_so_once() -> None:
    class Failing:
        def __iter__(self) -> Iterator[list[int]]:
            yield [0, 1]
            raise ValueError("of the script")

        def __len__(self) -> int:
            return 2

    loader: DataLoader[int] = DataLoader(Numbers(), batch_sampler=Failing())  # type: ignore[arg-type] # a duck
    fuse = Fuse(Guard(), "leaving out")
    with pytest.raises(ValueError, match="of the script"):
        batches_of(loader, (0,), fuse)
    assert not fuse.is_blown


def test_a_sampler_of_batches_and_one_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order("good", left_out=(LeftOut(name_of(Numbers()), (4, 5, 6, 7, 9)),))
    monkeypatch.setattr(skipping, "order_of_environment", lambda: order)
    rows = SequentialSampler(Numbers())
    batches = trackside.SkippingSampler(BatchSampler(rows, 4, drop_last=False), Numbers())
    assert len(batches) == 6
    assert list(batches)[:3] == [[0, 1, 2, 3], [0, 1, 2, 3], [8, 8, 10, 11]]
    assert list(trackside.SkippingSampler(rows, Numbers())) == [
        row for row in range(ROWS) if row not in (4, 5, 6, 7, 9)
    ]
    assert list(trackside.SkippingSampler(rows, Other())) == list(range(ROWS))


def test_a_stream_leaves_out_batches_by_their_content(warm_python: WarmPython, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import torch, trackside\n"
        "from trackside.rescue.skipping import marks_in\n"
        "print([int(b['x'].sum()) for b in trackside.skipping({'x': torch.full((2,), n)} for n in range(4))])\n"
        "print(*marks_in(0, 0))\n"
    )
    plain = inherited()
    watched = {**plain, "TRACKSIDE_RESCUE": "1", "TRACKSIDE_RESCUE_MODE": "restart"}
    first = warm_python.run(tmp_path / "script.py", env=watched).stdout.splitlines()
    assert first[0] == "[0, 2, 4, 6]"
    (tmp_path / "order.json").write_text(Order("good", marks=tuple(first[1].split()[1:3])).to_json())
    again = warm_python.run(
        tmp_path / "script.py", env={**watched, "TRACKSIDE_LEAVE_OUT": str(tmp_path / "order.json")}
    ).stdout.splitlines()
    assert again[0] == "[0, 6]"
    assert warm_python.run(tmp_path / "script.py", env=plain).stdout.splitlines() == ["[0, 2, 4, 6]", ""]


def test_a_damaged_order_leaves_nothing_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skipping.order_of_environment.cache_clear()
    monkeypatch.setenv("TRACKSIDE_LEAVE_OUT", str(tmp_path / "order.json"))
    for text in ("", "{", "[1]"):
        (tmp_path / "order.json").write_text(text)
        assert skipping.order_of_environment() is None
        skipping.order_of_environment.cache_clear()
