"""Copies lie in memory up to a limit, then in files without a name; without room for either, nobody writes anything."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from tests.training_lib.rescue import trainings
from tests.training_lib.rescue.trainings import Training, rescued
from trackside.contracts.run.rescue import RescueState
from trackside.rescue import room as room_module
from trackside.rescue.room import NoRoomError, Room

_TENSORS = [
    torch.arange(5.0),
    torch.ones(3, 2, dtype=torch.bfloat16),
    torch.tensor(7),
    torch.empty(0),
    torch.randn(3000, dtype=torch.float64),
]


@contextmanager
def _full_disk() -> Iterator[None]:
    """Let no file of this process be larger than a kilobyte, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("limit", [None, 0, 2**20], ids=["no limit", "all in a file", "within the limit"])
def test_copies_hold_what_is_written(limit: int | None, tmp_path: Path) -> None:
    found = Room(limit, tmp_path).like(_TENSORS)
    for copy, tensor in zip(found, _TENSORS, strict=True):
        copy.copy_(tensor)
    for copy, tensor in zip(found, _TENSORS, strict=True):
        assert copy.dtype == tensor.dtype
        assert torch.equal(copy, tensor)
    assert not list(tmp_path.iterdir())


def test_memory_that_is_let_go_counts_no_more(tmp_path: Path) -> None:
    room = Room(30_000, tmp_path / "no such folder")
    first = room.like(_TENSORS)
    with pytest.raises(NoRoomError, match="others have"):
        room.like(_TENSORS)
    del first
    assert room.like(_TENSORS)


def _is_in_memory(copies: list[torch.Tensor]) -> bool:
    """Return True if copies are tensors of their own, and not parts of a file."""
    return all(copy.untyped_storage().nbytes() == copy.nbytes for copy in copies)


@pytest.mark.parametrize(
    ("small", "in_memory"), [(0, [True, False, False]), (60_000, [True, True, False])], ids=["large", "small"]
)
def test_without_a_limit_one_copy_lies_in_memory_or_several_small_ones(
    small: int, in_memory: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_module, "_SMALL", small)
    room = Room(None, tmp_path)
    copies = [room.like(_TENSORS) for _ in in_memory]
    assert [_is_in_memory(each) for each in copies] == in_memory


def test_without_a_limit_copies_stay_in_memory_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_module, "_SMALL", 0)
    room = Room(None, tmp_path)
    with _full_disk():
        copies = [room.like(_TENSORS) for _ in range(3)]
    assert all(map(_is_in_memory, copies))


@pytest.mark.parametrize("bytes_each", [1 << 50, 1 << 60], ids=["petabyte", "exabyte"])
def test_a_copy_beyond_memory_and_disk_is_refused(bytes_each: int, tmp_path: Path) -> None:
    with pytest.raises(NoRoomError, match="MiB"):
        Room(None, tmp_path).like([torch.empty(1, dtype=torch.uint8).expand(bytes_each)])


def test_on_a_full_disk_nothing_is_left(tmp_path: Path) -> None:
    with _full_disk(), pytest.raises(NoRoomError, match="File too large"):
        Room(0, tmp_path).like(_TENSORS)
    assert not list(tmp_path.iterdir())


def test_a_training_goes_back_to_a_moment_in_a_file(tmp_path: Path) -> None:
    with rescued(tmp_path / "run", memory_mb=0) as record:
        training = Training(draws=False)
        training.run(trainings.broken_batch)
        found = record()
    assert found is not None
    assert found.is_rescued


def test_on_a_full_disk_a_training_is_as_without_rescue(tmp_path: Path) -> None:
    plain = Training(draws=False)
    plain.run(trainings.sound)
    with rescued(tmp_path / "run", memory_mb=0) as record:
        training = Training(draws=False)
        with _full_disk():
            training.run(trainings.sound)
        found = record()
    assert torch.equal(training.weights[-1], plain.weights[-1])
    assert found is not None
    assert found.state is RescueState.OFF
    assert "no moment can be kept" in found.reason
