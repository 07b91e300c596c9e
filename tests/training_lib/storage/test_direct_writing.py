"""Large files past the page cache: the same bytes, whatever the file system takes, and not on a slow disk."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trackside.contracts.errors import StorageUnavailableError
from trackside.storage import direct_writing
from trackside.storage.direct_writing import LEAST_BYTES, DirectWriting
from trackside.storage.local import LocalStore

pytestmark = pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="Only Linux has such writes.")

SIZES = [LEAST_BYTES, LEAST_BYTES + 1, 2 * LEAST_BYTES - 1, 2 * LEAST_BYTES + 4096, 3 * LEAST_BYTES + 4095]


def content(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@pytest.fixture
def direct_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the writes past the page cache."""
    sizes: list[int] = []
    write = os.write

    def counted(descriptor: int, data: memoryview) -> int:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            sizes.append(len(data))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", counted)
    return sizes


def refusing(monkeypatch: pytest.MonkeyPatch, result: Callable[[int, int], int | OSError]) -> None:
    """Let `os.write` past the page cache return so many bytes, or fail: by number of the call and size."""
    calls = itertools.count()
    write = os.write

    def limited(descriptor: int, data: memoryview) -> int:
        if not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            return write(descriptor, data)
        found = result(next(calls), len(data))
        if isinstance(found, OSError):
            raise found
        return write(descriptor, data[:found]) if found else 0

    monkeypatch.setattr(os, "write", limited)


@pytest.mark.parametrize("size", SIZES)
def test_the_same_bytes_in_whole_and_in_parts(tmp_path: Path, size: int, direct_calls: list[int]) -> None:
    store, data = LocalStore(tmp_path), content(size)
    store.put("whole", data)
    view = memoryview(data)
    cuts = [0, 1, 70_000, 70_000, LEAST_BYTES // 2, size - 3, size]
    store.put_parts("parts", [view[a:b] for a, b in itertools.pairwise(cuts)])
    assert (tmp_path / "whole").read_bytes() == data == (tmp_path / "parts").read_bytes()
    assert sum(direct_calls) == 2 * (size - size % 4096)


def test_a_small_file_goes_through_the_page_cache(tmp_path: Path, direct_calls: list[int]) -> None:
    LocalStore(tmp_path).put("small", content(LEAST_BYTES - 1))
    assert not direct_calls


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(lambda call, size: OSError(errno.EINVAL, "refused"), id="refused at once"),
        pytest.param(lambda call, size: OSError(errno.EINVAL, "") if call == 1 else size, id="refused later"),
        pytest.param(lambda call, size: 1000 if call == 1 else size, id="short, between blocks"),
        pytest.param(lambda call, size: 8192, id="always short"),
    ],
)
def test_what_the_file_system_does_not_take_goes_through_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Callable[[int, int], int | OSError]
) -> None:
    store, data = LocalStore(tmp_path), content(3 * LEAST_BYTES + 77)
    refusing(monkeypatch, result)
    store.put("a", data)
    store.put("b", data)
    assert (tmp_path / "a").read_bytes() == data == (tmp_path / "b").read_bytes()


def test_a_file_system_without_such_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, *, is_direct: bool) -> None:
        raise OSError(errno.EINVAL, "no such flag here")

    monkeypatch.setattr(direct_writing, "_set_direct", refuse)
    store, data = LocalStore(tmp_path), content(2 * LEAST_BYTES)
    store.put("a", data)
    assert (tmp_path / "a").read_bytes() == data


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, lambda call, size: size if call < 1 else OSError(errno.ENOSPC, "full"))
    with pytest.raises(StorageUnavailableError, match="free some space"):
        LocalStore(tmp_path).put("a", content(3 * LEAST_BYTES))
    assert not list(tmp_path.iterdir())


def ticking(seconds: Iterator[float]) -> Callable[[], float]:
    return lambda: next(seconds)


@pytest.mark.parametrize(
    ("seconds", "is_direct"),
    [
        pytest.param([1.0, 1.0, 0.001], [True, True] + 8 * [False] + [True], id="slow twice: left alone for a while"),
        pytest.param([1.0, 0.001, 1.0, 0.001], [True, True, True, True], id="slow now and then"),
    ],
)
def test_a_slow_disk_is_left_to_the_page_cache(tmp_path: Path, seconds: list[float], is_direct: list[bool]) -> None:
    moments = itertools.chain.from_iterable((float(i) * 10, i * 10 + took) for i, took in enumerate(seconds))
    direct = DirectWriting(monotonic=ticking(iter(moments)))
    data = memoryview(content(LEAST_BYTES))
    found = []
    for number in range(len(is_direct)):
        with (tmp_path / f"{number}").open("wb", buffering=0) as file:
            found.append(direct.wants(len(data)) and direct.write(file.fileno(), [data]))
    assert found == is_direct


def test_a_second_thread_does_not_wait(tmp_path: Path) -> None:
    direct = DirectWriting()
    with direct._lock, (tmp_path / "a").open("wb", buffering=0) as file:
        assert not direct.write(file.fileno(), [memoryview(content(LEAST_BYTES))])
