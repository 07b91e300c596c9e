"""Copies into memory that is used again, and never while anybody holds what lies in it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from trackside.frameworks.pytorch.saving import slabs
from trackside.frameworks.pytorch.saving.slabs import (
    IDLE_SECONDS,
    MOST_SLABS,
    Slabs,
    is_dense,
    is_plain,
    kept_dtype,
    parts_of,
)

TENSORS = [
    torch.arange(6.0).reshape(2, 3),
    torch.tensor(7.0),
    torch.arange(5, dtype=torch.int64),
    torch.tensor([True, False, True]),
    torch.arange(4, dtype=torch.float16),
    torch.ones(3, dtype=torch.uint8),
    torch.empty(0),
    torch.tensor([float("nan"), float("inf"), -0.0]),
    torch.arange(12.0).reshape(3, 4).t(),
    torch.nn.Parameter(torch.randn(3, 3)),
    torch.tensor([1 + 2j, 3 - 4j]).conj().imag,  # whose sign is only noted
]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def place_of(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def copies(pool: Slabs, *tensors: torch.Tensor) -> list[np.ndarray]:
    arrays = pool.copies(tensors)
    assert arrays is not None
    return arrays


def test_copies_are_the_very_bits_in_c_order() -> None:
    pool = Slabs()
    for _ in range(2):
        for tensor, array in zip(TENSORS, copies(pool, *TENSORS), strict=True):
            expected = tensor.detach().contiguous().resolve_neg().numpy()
            assert array.tobytes() == expected.tobytes()
            assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
            assert array.flags.c_contiguous
            assert array.flags.aligned
            assert place_of(array) % 64 == 0


def test_a_copy_does_not_follow_its_tensor() -> None:
    tensor = torch.ones(4)
    (array,) = copies(Slabs(), tensor)
    tensor.zero_()
    assert array.tolist() == [1, 1, 1, 1]


def test_the_graph_and_the_versions_of_tensors_stay_as_they_are() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    loss = (weight * weight).sum()
    version = weight._version
    copies(Slabs(), weight, loss)
    assert weight._version == version
    loss.backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [2, 2, 2]


def test_memory_is_used_again_once_it_is_let_go() -> None:
    pool = Slabs()
    first = place_of(copies(pool, torch.ones(1000))[0])
    assert place_of(copies(pool, torch.zeros(1000))[0]) == first
    assert place_of(copies(pool, torch.zeros(10), torch.zeros(900))[0]) == first, "divided up in another way"


@pytest.mark.parametrize(
    "holding",
    [
        pytest.param(lambda array: array, id="the array"),
        pytest.param(lambda array: array[5:], id="a part of it"),
        pytest.param(lambda array: array[5:].reshape(5, 199).T[2], id="a view of a view"),
        pytest.param(lambda array: array.view(np.uint8), id="its bytes"),
        pytest.param(memoryview, id="a memoryview"),
        pytest.param(lambda array: array.data, id="its buffer"),
        pytest.param(lambda array: torch.from_numpy(array)[3:], id="a tensor"),
        pytest.param(lambda array: array.view(np.recarray), id="a view of another class"),
        pytest.param(lambda array: np.asarray(memoryview(array))[2:], id="an array of a memoryview"),
    ],
)
def test_memory_is_not_used_again_while_anything_in_it_is_held(holding: Callable[[np.ndarray], Any]) -> None:
    pool = Slabs()
    array, other = copies(pool, torch.ones(1000), torch.ones(3))
    held = holding(array)
    before = held.tolist()
    first = place_of(array)
    del array, other
    places = [place_of(copies(pool, torch.zeros(1000))[0]) for _ in range(4)]
    assert first not in places
    assert held.tolist() == before
    del held
    gc.collect()
    assert place_of(copies(pool, torch.zeros(1000))[0]) in {first, *places}


def test_no_more_memory_than_agreed_is_taken() -> None:
    pool = Slabs()
    held = [copies(pool, torch.full((100,), float(k)))[0] for k in range(MOST_SLABS)]
    assert pool.copies([torch.zeros(100)]) is None
    assert [array[0] for array in held] == [0, 1]
    held.pop()
    assert pool.copies([torch.zeros(100)]) is not None


def test_a_larger_set_takes_the_place_of_a_smaller_one() -> None:
    pool = Slabs()
    for size in (10, 1000, 100_000):
        held = copies(pool, torch.ones(size))[0]
        assert held.sum() == size
        assert pool.copies([torch.ones(size)]) is not None
        assert len(pool._slabs) <= MOST_SLABS


def test_a_set_larger_than_a_slab_may_be_has_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slabs, "MOST_BYTES", 1024)
    assert Slabs().copies([torch.ones(256), torch.ones(1)]) is None
    assert Slabs().copies([torch.ones(256)]) is not None


def test_nobody_waits_for_who_was_interrupted() -> None:
    """A signal handler that closes the run in the middle of a copy, by way of the writer thread."""
    pool = Slabs()
    held = copies(pool, torch.ones(10))[0]
    with pool._lock:
        assert pool.copies([torch.ones(10)]) is None
        pool.close()
        assert not pool.flush_if_due()
    assert pool.copies([torch.ones(10)]) is not None
    assert held.tolist() == [1] * 10


def test_idle_memory_is_let_go() -> None:
    clock = Clock()
    pool = Slabs(monotonic=clock)
    assert pool.due_in_seconds > IDLE_SECONDS
    held = copies(pool, torch.ones(10))[0]
    clock.now += IDLE_SECONDS / 2
    assert not pool.flush_if_due()
    assert pool.due_in_seconds == IDLE_SECONDS / 2
    clock.now += IDLE_SECONDS / 2
    assert pool.flush_if_due()
    assert pool._slabs == []
    assert held.tolist() == [1] * 10
    assert pool.copies([torch.ones(10)]) is not None


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        *(pytest.param(tensor, True, id=f"{tensor.dtype} {tuple(tensor.shape)}") for tensor in TENSORS),
        pytest.param(torch.ones(3).to_sparse(), False, id="sparse"),
        pytest.param(torch.ones(3, device="meta"), False, id="meta"),
        pytest.param(torch.ones(3, dtype=torch.bfloat16), False, id="bfloat16"),
        pytest.param(torch.ones(3, dtype=torch.complex64), False, id="complex"),
        pytest.param(torch.ones(3).as_subclass(type("Own", (torch.Tensor,), {})), False, id="a class of its own"),
    ],
)
def test_tells_plain_tensors(tensor: torch.Tensor, expected: bool) -> None:

    assert is_plain(tensor) is expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (1,), (5, 3), (2, 7)])
def test_parts_make_up_the_tensor(dtype: torch.dtype, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trackside.frameworks.pytorch.saving.slabs._PART_ELEMENTS", 4)
    tensor = torch.randn(shape).mul(3).to(dtype)
    assert is_dense(tensor)
    parts, kept = parts_of(tensor)
    found = np.concatenate([part.copy() for part in parts]).reshape(shape)
    assert found.dtype == kept
    assert np.array_equal(found, tensor.to(kept_dtype(dtype)).numpy())


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(torch.ones(4, 6)[:, ::2], id="not in C order"),
        pytest.param(torch.ones(3).to_sparse(), id="sparse"),
        pytest.param(torch.ones(3, dtype=torch.complex64), id="complex"),
        pytest.param(torch.ones(3).as_subclass(type("Own", (torch.Tensor,), {})), id="a class of its own"),
    ],
)
def test_others_are_copied_whole(tensor: torch.Tensor) -> None:
    assert not is_dense(tensor)
