"""Copies that training does not wait for: over a link that takes as long as the test says; with CUDA where it is."""

from __future__ import annotations

import gc
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.capture.steps.arrival import Arrival
from trackside.frameworks.pytorch.saving import device_copies as module
from trackside.frameworks.pytorch.saving import tensor_saver as saving
from trackside.frameworks.pytorch.saving.device_copies import CudaLink, DeviceCopies, can_be_sent, is_on_gpu


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

    def fetch(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Arrival]:
        host = torch.empty_like(tensor)
        return host, self.send(tensor.clone(), host)

    def fetch_now(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone()

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
    copies = DeviceCopies(link).together(tensors)
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
    link = Slow()
    copies = DeviceCopies(link).together([parameter * 2])
    assert copies is not None
    link.deliver()
    assert copies.arrays[0].tolist() == [2.0] * 3


def test_a_slab_on_its_way_or_held_is_not_used_again() -> None:
    link = Slow()
    device = DeviceCopies(link)
    first = device.together([torch.full((4,), 1.0)])
    second = device.together([torch.full((4,), 2.0)])
    assert first is not None
    assert second is not None
    assert device.together([torch.full((4,), 3.0)]) is None
    link.deliver()
    assert device.together([torch.full((4,), 3.0)]) is None  # it has come, but is still held
    view = first.arrays[0][1:3]
    del first
    assert device.together([torch.full((4,), 3.0)]) is None  # by a view as well
    assert view.tolist() == [1.0, 1.0]
    del view
    third = device.together([torch.full((4,), 3.0)])
    assert third is not None
    del second  # let go before it has come: still on its way
    assert device.together([torch.full((4,), 4.0)]) is None
    link.deliver()
    link.deliver()
    assert third.arrays[0].tolist() == [3.0] * 4
    assert device.together([torch.full((4,), 4.0)]) is not None
    assert link.asked == 2


def test_a_larger_set_takes_the_place_of_a_slab() -> None:
    link = Slow()
    device = DeviceCopies(link)
    for size in (4, 4000, 8000, 16, 8000):
        copies = device.together([torch.full((size,), float(size))])
        assert copies is not None
        link.deliver()
        assert set(copies.arrays[0].tolist()) == {float(size)}
        del copies
    assert link.asked == 3


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    device = DeviceCopies(Slow())
    assert device.together([torch.ones(1000)]) is None
    assert device.together([]) is None
    assert device.together([torch.ones(100)]) is not None


def test_a_device_without_room_is_asked_once() -> None:
    link = Slow(room=10)
    device = DeviceCopies(link)
    for _ in range(3):
        assert device.together([torch.ones(100)]) is None
    assert link.asked == 1


@pytest.mark.parametrize("tensors", TENSORS)
def test_one_by_one_they_are_the_same(tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        value, link = expected(tensor), Slow()
        (array,), arrival = DeviceCopies(link).one(tensor)
        assert arrival is not None
        assert not arrival.is_here()
        link.deliver()
        np.testing.assert_array_equal(array, value)
        assert array.dtype == value.dtype


def test_pinned_memory_of_single_tensors_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of a thousand million parameters once pinned 8 GB, which PyTorch keeps for good."""
    monkeypatch.setattr(module, "MOST_PINNED_BYTES", 1000)
    link = Slow()
    device = DeviceCopies(link)
    held = [device.one(torch.full((100,), float(k))) for k in range(4)]
    assert [copies.arrival is None for copies in held] == [False, False, True, True]
    assert [copies.arrays[0][0] for copies in held[2:]] == [2, 3]
    view = held[0].arrays[0][3:]
    held.clear()
    link.under_way.clear()
    gc.collect()
    waits = [device.one(torch.zeros(100)).arrival is None for _ in range(2)]
    assert waits == [False, False]
    held = [device.one(torch.zeros(100)) for _ in range(2)]
    assert [copies.arrival is None for copies in held] == [False, True]
    assert len(view) == 97


def test_a_scale_is_divided_out_on_the_device() -> None:
    link = Slow()
    (array,), _ = DeviceCopies(link).one(torch.tensor([3.0, -5.0]), scale=1024.0)
    link.deliver()
    assert array.tolist() == [3 / 1024, -5 / 1024]


@pytest.mark.parametrize(
    ("tensor", "is_sendable"),
    [
        pytest.param(torch.ones(3), True, id="dense"),
        pytest.param(nn.Parameter(torch.ones(3)), True, id="parameter"),
        pytest.param(torch.ones(3).bfloat16(), True, id="bfloat16"),
        pytest.param(torch.eye(3).to_sparse(), False, id="sparse"),
        pytest.param(torch.ones(3, dtype=torch.complex64), False, id="complex"),
    ],
)
def test_what_can_be_sent(tensor: torch.Tensor, is_sendable: bool) -> None:
    assert can_be_sent(tensor) is is_sendable
    assert not is_on_gpu(tensor)


class Stream:
    """A device's queue: a copy is made when somebody waits for it, of the values that were there when it was queued."""

    def __init__(self) -> None:
        self.waiting_threads: set[str] = set()
        self.sent = 0

    def memory(self, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.empty(size, dtype=torch.uint8), torch.full((size,), 0x7F, dtype=torch.uint8)

    def send(self, near: torch.Tensor, host: torch.Tensor) -> Arrival:
        self.sent += 1
        return Queued(self, near.clone(), host)

    def fetch(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Arrival]:
        host = torch.full_like(tensor, 77)
        return host, self.send(tensor, host)


class Queued:
    def __init__(self, stream: Stream, near: torch.Tensor, host: torch.Tensor) -> None:
        self.stream, self.near, self.host, self.has_come = stream, near, host, False

    def is_here(self) -> bool:
        return self.has_come

    def wait(self) -> None:
        self.stream.waiting_threads.add(threading.current_thread().name)
        self.host.copy_(self.near)
        self.has_come = True


class Broken(Stream):
    """The device fails with the third step."""

    def send(self, near: torch.Tensor, host: torch.Tensor) -> Arrival:
        queued = super().send(near, host)
        return Failed() if 3 < self.sent <= 6 else queued


class Failed:
    def is_here(self) -> bool:
        return False

    def wait(self) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")


def train(steps: int) -> list[dict[str, np.ndarray]]:
    """What its loop sees, step by step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    notes = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=False)  # writes over what may still be on its way
        hidden = model[0](inputs := torch.randn(8, 6))
        loss = functional.cross_entropy(model[1:](hidden), torch.arange(8) % 3)
        loss.backward()
        step = {"CrossEntropyLoss_output_0": loss.detach().numpy().copy(), "0_output_0": hidden.detach().numpy().copy()}
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            step[f"Sequential_{name}"] = parameter.detach().numpy().copy()
            step[f"gradient/Sequential_{name}"] = parameter.grad.numpy().copy()
        notes.append(step)
        optimizer.step()
        with torch.no_grad():
            inputs.zero_()
            hidden.zero_()
    return notes


EVERYTHING = dict.fromkeys(("losses", "weights", "biases", "gradients", "outputs", "optimizer_variables"), 1)


def test_a_training_never_waits_and_every_value_is_that_of_its_step(
    capturing: Any, read_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, expected = Stream(), train(5)
    monkeypatch.setattr(saving, "DeviceCopies", partial(DeviceCopies, stream, takes=can_be_sent))
    with capturing(**EVERYTHING) as store:
        train(5)
    run = read_run(store)
    assert sorted(run) == list(range(5))
    for step, values in enumerate(expected):
        for name, value in values.items():
            np.testing.assert_array_equal(run[step][name], value, err_msg=f"{step} {name}")
    assert stream.waiting_threads == {"trackside-writer"}
    assert 5 < stream.sent < 5 * len(run[4]), "weights and gradients go together"


def test_values_that_never_come_cost_their_steps_and_nothing_else(
    capturing: Any, read_run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(saving, "DeviceCopies", partial(DeviceCopies, Broken(), takes=can_be_sent))
    with capturing(losses=1, weights=1) as store:
        train(8)
    run = read_run(store)
    assert 0 in run
    assert 7 in run
    assert 0 < len(run) < 8
    assert "device-side assert" in caplog.text


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_on_a_gpu_the_training_stream_waits_for_nothing() -> None:
    device = DeviceCopies(CudaLink())
    values = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    assert device.together([values]) is not None  # makes the memory, which waits
    assert device.one(values) is not None
    for turn in range(1, 9):
        torch.cuda.set_sync_debug_mode("error")
        try:
            copies = device.together([values, values[:7].bfloat16()])
            single = device.one(values, scale=2.0)
            values += 1
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert copies is not None
        copies.arrival.wait()
        single.arrival.wait()
        np.testing.assert_array_equal(copies.arrays[0], np.arange(1 << 20, dtype=np.float32) + turn - 1)
        np.testing.assert_array_equal(single.arrays[0], copies.arrays[0] / 2)
        del copies
