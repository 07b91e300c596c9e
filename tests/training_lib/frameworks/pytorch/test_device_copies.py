"""Copies that training does not wait for: over a link that takes as long as the test says; with CUDA where it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trackside.frameworks.pytorch import device_copies as module
from trackside.frameworks.pytorch.device_copies import Arrival, CudaLink, DeviceCopies, HostLink, can_be_sent


class Slow:
    """A link over which nothing comes before `deliver`."""

    def __init__(self, *, room: int = 10**9) -> None:
        self.room, self.asked = room, 0
        self.under_way: list[tuple[torch.Tensor, torch.Tensor, Late]] = []

    def memory(self, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor] | None:
        self.asked += 1
        if size > self.room:
            return None
        return torch.empty(size, dtype=torch.uint8, device=device), torch.empty(size, dtype=torch.uint8)

    def send(self, near: torch.Tensor, host: torch.Tensor) -> Arrival:
        late = Late()
        self.under_way.append((near, host, late))
        return late

    def deliver(self) -> None:
        near, host, late = self.under_way.pop(0)
        host.copy_(near)
        late.has_come = True


class Late:
    def __init__(self) -> None:
        self.has_come = False

    def is_here(self) -> bool:
        return self.has_come

    def wait(self) -> None:
        assert self.has_come


TENSORS = [
    pytest.param([torch.randn(3, 5)], id="one"),
    pytest.param([torch.randn(7), torch.randn(2, 3), torch.randn(())], id="several-and-a-scalar"),
    pytest.param([torch.randn(4, 6).t(), torch.randn(3, 4)[:, 1]], id="not-contiguous"),
    pytest.param([torch.randn(4).expand(3, 4)], id="expanded"),
    pytest.param([torch.empty(0, 3), torch.ones(1)], id="empty"),
    pytest.param([torch.arange(5), torch.tensor([True, False]), torch.ones(3, dtype=torch.int8)], id="whole-numbers"),
    pytest.param([torch.randn(5).double(), torch.randn(3).half(), torch.randn(2)], id="widths-mixed"),
    pytest.param([torch.randn(5).bfloat16(), torch.randn(3)], id="bfloat16"),
    pytest.param([torch.randn(5).to(torch.float8_e4m3fn)], id="float8"),
    pytest.param([torch.complex(torch.zeros(3), torch.randn(3)).conj().imag], id="negated"),
]


def expected(tensor: torch.Tensor) -> np.ndarray:
    wide = tensor.dtype in {torch.bfloat16, torch.float8_e4m3fn}
    return (tensor.float() if wide else tensor).clone().resolve_neg().numpy()


@pytest.mark.parametrize("tensors", TENSORS)
def test_values_are_those_of_their_moment_whenever_they_come(tensors: list[torch.Tensor]) -> None:
    tensors = [tensor.clone() if 0 not in tensor.stride() else tensor for tensor in tensors]
    values = [expected(tensor) for tensor in tensors]
    link = Slow()
    copies = DeviceCopies(link).copies(tensors)
    assert copies is not None
    for tensor in tensors:  # what an optimizer does next
        if 0 not in tensor.stride():
            tensor.zero_()
    assert not copies.arrival.is_here()
    link.deliver()
    assert copies.arrival.is_here()
    for array, value in zip(copies.arrays, values, strict=True):
        assert array.dtype == value.dtype
        np.testing.assert_array_equal(array, value)
        assert array.flags.c_contiguous


def test_gradients_are_not_kept_alive_and_no_graph_is() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    copies = DeviceCopies(HostLink()).copies([parameter * 2])
    assert copies is not None
    assert copies.arrays[0].tolist() == [2.0] * 3


def test_a_slab_on_its_way_or_held_is_not_used_again() -> None:
    link = Slow()
    device = DeviceCopies(link)
    first = device.copies([torch.full((4,), 1.0)])
    second = device.copies([torch.full((4,), 2.0)])
    assert first is not None
    assert second is not None
    assert device.copies([torch.full((4,), 3.0)]) is None
    link.deliver()
    assert device.copies([torch.full((4,), 3.0)]) is None  # it has come, but is still held
    view = first.arrays[0][1:3]
    del first
    assert device.copies([torch.full((4,), 3.0)]) is None  # by a view as well
    assert view.tolist() == [1.0, 1.0]
    del view
    third = device.copies([torch.full((4,), 3.0)])
    assert third is not None
    del second  # let go before it has come: still on its way
    assert device.copies([torch.full((4,), 4.0)]) is None
    link.deliver()
    link.deliver()
    assert third.arrays[0].tolist() == [3.0] * 4
    assert device.copies([torch.full((4,), 4.0)]) is not None
    assert link.asked == 2


def test_a_larger_set_takes_the_place_of_a_slab() -> None:
    link = Slow()
    device = DeviceCopies(link)
    for size in (4, 4000, 8000, 16, 8000):
        copies = device.copies([torch.full((size,), float(size))])
        assert copies is not None
        link.deliver()
        assert set(copies.arrays[0].tolist()) == {float(size)}
        del copies
    assert link.asked == 3
    device.forget()
    assert device.copies([torch.ones(3)]) is not None
    assert link.asked == 4


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    device = DeviceCopies(HostLink())
    assert device.copies([torch.ones(1000)]) is None
    assert device.copies([]) is None
    assert device.copies([torch.ones(100)]) is not None


def test_a_device_without_room_is_asked_once() -> None:
    link = Slow(room=10)
    device = DeviceCopies(link)
    for _ in range(3):
        assert device.copies([torch.ones(100)]) is None
    assert link.asked == 1


def test_without_a_gpu_the_host_is_the_device() -> None:
    device = DeviceCopies(HostLink())
    tensor = torch.arange(6.0)
    copies = device.copies([tensor])
    tensor.zero_()
    assert copies is not None
    assert copies.arrival.is_here()
    copies.arrival.wait()
    assert copies.arrays[0].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(torch.ones(3), id="on-the-host"),
        pytest.param(torch.ones(3, device="meta"), id="meta"),
        pytest.param(torch.eye(3).to_sparse(), id="sparse"),
    ],
)
def test_others_are_not_sent(tensor: torch.Tensor) -> None:
    assert not can_be_sent(tensor)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_on_a_gpu_the_training_stream_waits_for_nothing() -> None:
    device = DeviceCopies(CudaLink())
    values = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    assert device.copies([values]) is not None  # makes the memory, which waits
    for turn in range(1, 9):
        torch.cuda.set_sync_debug_mode("error")
        try:
            copies = device.copies([values, values[:7].bfloat16()])
            values += 1
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert copies is not None
        copies.arrival.wait()
        np.testing.assert_array_equal(copies.arrays[0], np.arange(1 << 20, dtype=np.float32) + turn - 1)
        del copies
