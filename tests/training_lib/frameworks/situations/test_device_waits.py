"""Where training would wait for a GPU, counted without one: on tensors that say they lie on a device.

They are CPU tensors in a wrapper that sees each operation. Their numbers leave it in three ways: as a Python number, by
a copy to the CPU, and as memory of NumPy. On a GPU each of these waits for all that was queued before; what we do on a
step must add none, except for a loss whose scale lies there too, and for numbers that go into names or decisions.
"""

from __future__ import annotations

import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map

import trackside
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.frameworks.pytorch.optimizers import by_hand
from trackside.frameworks.pytorch.optimizers.hand_looks import AGREED
from trackside.frameworks.pytorch.saving import tensor_saver as saving
from trackside.frameworks.pytorch.saving.device_copies import DeviceCopies

ALL = ("losses", "weights", "biases", "gradients", "optimizer_variables", "hyperparameters", "labels", "metrics")
STEPS = 12
NEVER_AGAIN = 1000
BATCH = 16
SKIPPED = 5  # the step of which AMP's gradients are not finite


class Far(torch.Tensor):
    """A CPU tensor that says it lies on a GPU. `waits` has how, and by which line, its numbers were asked for."""

    is_cpu = False  # type: ignore[assignment] # what the script and we go by
    is_cuda = True  # type: ignore[assignment]
    waits: ClassVar[list[str]] = []
    sent = 0  # numbers that were sent to the CPU without waiting

    @staticmethod
    def __new__(cls, near: torch.Tensor) -> Far:
        wrapper = torch.Tensor._make_wrapper_subclass
        return wrapper(cls, near.size(), strides=near.stride(), dtype=near.dtype, device="cpu")  # type: ignore[attr-defined, no-any-return, no-untyped-call] # torch's omission

    def __init__(self, near: torch.Tensor) -> None:
        self.near = near

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*tree_map(_near, args), **tree_map(_near, kwargs))
        name = func.overloadpacket.__name__
        if name in {"_local_scalar_dense", "equal"}:
            cls.wait(name)
            return result
        if name in {
            "nonzero",
            "masked_select",
            "_unique2",
            "_coalesce",
        }:  # what they give is as long as its numbers say
            cls.wait(name)
        if name == "_to_copy" and kwargs.get("device") is not None:
            cls.wait(name)
            return result
        if name == "copy_" and not isinstance(args[0], Far):
            if not (len(args) > 2 and args[2]) and not kwargs.get("non_blocking"):
                cls.wait(name)
            cls.sent += 1
            return args[0]
        return return_and_correct_aliasing(func, args, kwargs, tree_map(_far, result))

    @classmethod
    def wait(cls, operation: str) -> None:
        asked_by = [frame for frame in traceback.extract_stack() if frame.filename != __file__][-1]
        cls.waits.append(f"{operation} at {asked_by.filename}:{asked_by.lineno}")

    def cpu(self, *_: Any, **__: Any) -> torch.Tensor:
        self.wait("cpu")
        return self.near.clone()

    def tolist(self) -> Any:
        self.wait("tolist")
        return self.near.tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert a device's tensor to numpy")


def _near(value: Any) -> Any:
    return value.near if isinstance(value, Far) else value


def _is_far(value: object) -> bool:
    return isinstance(value, Far)


def _far(value: Any) -> Any:
    return Far(value) if isinstance(value, torch.Tensor) and not isinstance(value, Far) else value


def model_far_away() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                module._parameters[name] = nn.Parameter(Far(parameter.detach()))
    return model


def batch(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    return Far(torch.randn(BATCH, 8, generator=generator)), Far(torch.randint(0, 4, (BATCH,), generator=generator))


class Arrival:
    """An event of the device that has come when it is asked for the third time; to wait for it is a wait."""

    def __init__(self) -> None:
        self.asked = 0

    def record(self, _stream: Any) -> None:
        pass

    def query(self) -> bool:
        self.asked += 1
        return self.asked > 2

    def synchronize(self) -> None:
        Far.wait("synchronize")


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    """What of CUDA's runtime is called on such tensors, which a PyTorch without CUDA does not have."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: None)
    monkeypatch.setattr(torch.cuda, "Event", Arrival)


Training = Callable[[int], None]


def plain() -> Training:
    model = model_far_away()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(number: int) -> None:
        inputs, labels = batch(number)
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def with_amp() -> Training:
    model = model_far_away()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler._scale = Far(torch.tensor(1024.0))
    scaler._growth_tracker = Far(torch.tensor(0, dtype=torch.int32))

    def step(number: int) -> None:
        inputs, labels = batch(number)
        optimizer.zero_grad()
        scaler.scale(functional.cross_entropy(model(inputs), labels)).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


class FusedSGD(torch.optim.SGD):
    """A fused optimizer with a flag from AMP that lies on the device, as the gradients that it was found in."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, _far(value) if name == "found_inf" else value)


def with_amp_and_a_fused_optimizer() -> Training:
    """The optimizer divides by the scale itself, and gets the flag by which it changes nothing."""
    model = model_far_away()
    optimizer = FusedSGD(model.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler._scale = Far(torch.tensor(1024.0))
    scaler._growth_tracker = Far(torch.tensor(0, dtype=torch.int32))

    def step(number: int) -> None:
        inputs, labels = batch(number)
        optimizer.zero_grad()
        inputs = inputs * float("inf") if number == SKIPPED else inputs
        scaler.scale(functional.cross_entropy(model(inputs), labels)).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def with_amp_and_accumulation() -> Training:
    model = model_far_away()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler._scale = Far(torch.tensor(1024.0))
    scaler._growth_tracker = Far(torch.tensor(0, dtype=torch.int32))

    def step(number: int) -> None:
        optimizer.zero_grad()
        for part in range(2):
            inputs, labels = batch(2 * number + part)
            scaler.scale(functional.cross_entropy(model(inputs), labels) / 2).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    return step


def with_evaluation() -> Training:
    model = model_far_away()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss()

    def step(number: int) -> None:
        inputs, labels = batch(number)
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            for _ in range(2):
                functional.cross_entropy(model(inputs), labels)
        model.train()

    return step


def with_a_rate_on_the_device() -> Training:
    model = model_far_away()
    optimizer = torch.optim.SGD(model.parameters(), lr=Far(torch.tensor(0.01)))  # type: ignore[arg-type] # it takes one

    def step(number: int) -> None:
        inputs, labels = batch(number)
        optimizer.zero_grad()
        functional.mse_loss(model(inputs).mean(1), labels.float(), reduction="sum").backward()
        optimizer.step()

    return step


def with_gradients_never_cleared() -> Training:
    model = model_far_away()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(number: int) -> None:
        inputs, labels = batch(number)
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def with_gradients_cleared_by_their_data() -> Training:
    model = model_far_away()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(number: int) -> None:
        inputs, labels = batch(number)
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.data.zero_()
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def with_two_optimizers_that_keep_gradients() -> Training:
    model = model_far_away()
    first, second = ([*part.parameters()] for part in (model[0], model[2]))  # type: ignore[index] # a Sequential
    optimizers = [torch.optim.SGD(part, lr=0.01) for part in (first, second)]

    def step(number: int) -> None:
        inputs, labels = batch(number)
        functional.cross_entropy(model(inputs), labels).backward()
        for optimizer in optimizers:
            optimizer.step()

    return step


def with_frozen_layers() -> Training:
    model = model_far_away()
    for parameter in model[0].parameters():  # type: ignore[index] # a Sequential
        parameter.requires_grad = False
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(number: int) -> None:
        inputs, labels = batch(number)
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def without_an_optimizer(update: Callable[[Any], None]) -> Training:
    model = model_far_away()

    def step(number: int) -> None:
        inputs, labels = batch(number)
        functional.cross_entropy(model(inputs), labels).backward()
        for parameter in model.parameters():
            update(parameter)
            parameter.grad = None

    return step


def counted(parameter: Any) -> None:
    """Write to a parameter so that PyTorch counts it."""
    with torch.no_grad():
        parameter.sub_(0.01 * parameter.grad)


def uncounted(parameter: Any) -> None:
    """Write to a parameter behind PyTorch's back."""
    parameter.near.data.sub_(0.01 * parameter.grad.near)


@contextmanager
def captured(
    location: object, *, every: int, collections: tuple[str, ...] = ALL, statistics: StatisticsRequest
) -> Iterator[None]:
    requests = tuple(CollectionRequest(name, Schedule(every)) for name in collections)
    request = CaptureRequest(requests, statistics=statistics)
    capture = PyTorchAdapter(CaptureEnvironment(str(location), request.to_json(), 0, 1))
    capture.install()
    try:
        yield
    finally:
        capture.uninstall()


OFF = StatisticsRequest(enabled=False)
EVERYTHING_EVERY_STEP = StatisticsRequest(budget=1.0)
TRAININGS = [
    pytest.param(plain, id="plain"),
    pytest.param(with_amp, id="amp"),
    pytest.param(with_amp_and_a_fused_optimizer, id="amp-and-a-fused-optimizer"),
    pytest.param(with_amp_and_accumulation, id="amp-and-accumulation"),
    pytest.param(with_evaluation, id="evaluation"),
    pytest.param(with_a_rate_on_the_device, id="rate-on-the-device"),
    pytest.param(with_gradients_never_cleared, id="gradients-never-cleared"),
    pytest.param(with_gradients_cleared_by_their_data, id="gradients-cleared-by-their-data"),
    pytest.param(with_two_optimizers_that_keep_gradients, id="two-optimizers-that-keep-gradients"),
]


def waits_of(training: Callable[[], Training], capture: Any) -> list[list[str]]:
    """What was waited for in each step beyond what the same training waits for without us."""
    torch.set_num_threads(1)
    runs: list[list[Counter[str]]] = []
    for context in (nullcontext(), capture):
        runs.append([])
        with context:
            step = training()
            for number in range(STEPS):
                Far.waits = []
                step(number)
                runs[-1].append(Counter(Far.waits))
    return [list((with_us - bare).elements()) for bare, with_us in zip(*runs, strict=True)]


@pytest.mark.parametrize("statistics", [pytest.param(OFF, id="off"), pytest.param(EVERYTHING_EVERY_STEP, id="on")])
@pytest.mark.parametrize("training", TRAININGS)
def test_idle_steps_wait_for_nothing(training: Callable[[], Training], statistics: Any, tmp_path: Any) -> None:
    waits = waits_of(training, captured(tmp_path / "run", every=NEVER_AGAIN, statistics=statistics))
    assert waits[1:] == [[]] * (STEPS - 1)
    assert waits[0]  # it is saved


def test_frozen_parameters_are_waited_for_once_all_together(tmp_path: Any) -> None:
    """At three steps of a run their values are compared with the first ones."""
    waits = waits_of(with_frozen_layers, captured(tmp_path / "run", every=NEVER_AGAIN, statistics=OFF))
    assert [len(of_step) for of_step in waits[1:]] == [0] * 9 + [1] + [0] * (STEPS - 11)
    assert "first_values.py" in waits[10][0]


@pytest.mark.parametrize(
    ("update", "looks"),
    [pytest.param(counted, 0, id="counted"), pytest.param(uncounted, AGREED, id="uncounted")],
)
def test_updates_by_hand_are_waited_for_until_they_are_known(
    update: Callable[[Any], None], looks: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    copier = partial(DeviceCopies, FarLink(), takes=_is_far)
    monkeypatch.setattr(by_hand, "DeviceCopies", copier)
    training = partial(without_an_optimizer, update)
    run = captured(tmp_path / "run", every=NEVER_AGAIN, collections=("losses",), statistics=OFF)
    waits = waits_of(training, run)
    asked = [number for number, of_step in enumerate(waits) if any("hand_looks.py" in each for each in of_step)]
    assert len([number for number in asked if number > 3]) <= looks
    assert not [number for number in asked if number > 3 + looks]
    assert len(trackside.open_trial(str(tmp_path / "run")).steps()) == 1


class FarLink:
    """What a GPU has: copies that are queued, and come later. Nothing here makes the training wait for them."""

    def memory(self, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        return Far(torch.empty(size, dtype=torch.uint8)), torch.empty(size, dtype=torch.uint8)

    def send(self, near: torch.Tensor, host: torch.Tensor) -> Queued:
        host.copy_(near, non_blocking=True)
        return Queued(near, host)

    def fetch(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Queued]:
        host = torch.empty(tensor.shape, dtype=tensor.dtype)
        return host, self.send(tensor, host)

    def fetch_now(self, tensor: torch.Tensor) -> torch.Tensor:
        raise AssertionError("training waits")


class Queued:
    def __init__(self, near: torch.Tensor, host: torch.Tensor) -> None:
        self.near, self.host = _near(near).clone(), host

    def is_here(self) -> bool:
        return True

    def wait(self) -> None:
        assert threading.current_thread() is not threading.main_thread(), "training waits"
        self.host.copy_(self.near)


@pytest.mark.parametrize(
    ("training", "collections"),
    [
        pytest.param(plain, ("losses", "weights", "biases", "gradients", "outputs", "labels"), id="plain"),
        pytest.param(plain, ("optimizer_variables",), id="optimizer-state"),
        pytest.param(with_amp, ("weights", "gradients", "inputs"), id="amp"),
        pytest.param(with_amp_and_a_fused_optimizer, ("weights",), id="amp-and-a-fused-optimizer"),
        pytest.param(with_amp_and_a_fused_optimizer, ("gradients",), id="gradients-of-a-fused-optimizer"),
        pytest.param(with_evaluation, ("weights", "biases"), id="evaluation"),
        pytest.param(with_a_rate_on_the_device, ("losses", "predictions"), id="rate-on-the-device"),
        pytest.param(plain, ("metrics",), id="accuracy"),
        pytest.param(with_evaluation, ("metrics",), id="accuracy-of-evaluation"),
        pytest.param(with_gradients_never_cleared, ("gradients",), id="gradients-never-cleared"),
    ],
)
def test_saved_steps_wait_for_nothing_either(
    training: Callable[[], Training], collections: tuple[str, ...], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "DeviceCopies", partial(DeviceCopies, FarLink(), takes=_is_far))
    run = tmp_path / "run"
    waits = waits_of(training, captured(run, every=1, collections=collections, statistics=EVERYTHING_EVERY_STEP))
    assert waits[1:] == [[]] * (STEPS - 1)
    trial = trackside.open_trial(str(run))
    assert len(trial.steps(mode="TRAIN")) == STEPS
    assert not trial.damaged


def test_losses_are_waited_for_on_the_steps_that_save_them_only(tmp_path: Any) -> None:
    capture = captured(tmp_path / "run", every=4, collections=("losses",), statistics=EVERYTHING_EVERY_STEP)
    waits = waits_of(with_amp, capture)
    assert [number for number, each in enumerate(waits) if each] == [0, 4, 8]


def test_what_came_late_is_what_it_was(tmp_path: Any) -> None:
    """AMP's factor is divided out on the host, once both numbers are there; one copy a step brings all of them.

    One more brings the norms of the last look at the weights, at the end.
    """
    run, sent = tmp_path / "run", Far.sent
    waits = waits_of(with_amp, captured(run, every=1, collections=("losses",), statistics=EVERYTHING_EVERY_STEP))
    assert all(waits)
    trial = trackside.open_trial(str(run))
    read_at_once = [float(saved.value) for series in trial.tensors(collection="losses") for saved in series]
    (late,) = trial.columns("CrossEntropyLoss_output_0", "mean", last_step=STEPS, mode="TRAIN")
    assert 0.5 < late.values.mean() < 3
    np.testing.assert_allclose(late.values, read_at_once, rtol=1e-6)
    assert Far.sent - sent == STEPS + 1


def test_a_fused_optimizer_s_scale_and_skips_come_late_and_are_what_they_were(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scale is divided out on the device; the flag of the step that was skipped is counted once it has arrived."""
    monkeypatch.setattr(saving, "DeviceCopies", partial(DeviceCopies, FarLink(), takes=_is_far))
    runs = {}
    for training in (with_amp_and_a_fused_optimizer, with_amp):
        run = tmp_path / training.__name__
        waits_of(training, captured(run, every=1, collections=("gradients",), statistics=OFF))
        runs[training] = trackside.open_trial(str(run))
    fused, plain_amp = runs[with_amp_and_a_fused_optimizer], runs[with_amp]
    (skips,) = [tensor for tensor in fused.tensors() if tensor.name == "scalar/amp_skipped_steps"]
    ((counted, count),) = [(saved.step, saved.value.item()) for saved in skips]
    assert SKIPPED < counted < STEPS
    assert count == 1
    names = sorted(tensor.name for tensor in plain_amp.tensors(collection="gradients"))
    assert len(names) == 4
    for name in names:
        for step in range(SKIPPED):  # until the two trainings differ: one of them has an infinite batch
            expected, found = plain_amp.tensor(name).value(step), fused.tensor(name).value(step)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_a_loss_of_evaluation_is_read_on_the_steps_that_save_it_only(tmp_path: Any) -> None:
    run = tmp_path / "run"
    waits = waits_of(with_evaluation, captured(run, every=8, collections=("losses",), statistics=OFF))
    assert [number for number, each in enumerate(waits) if each] == [0, 4, 8]  # EVAL 0, 8, 16 beside TRAIN 0, 8
    trial = trackside.open_trial(str(run))
    assert len(trial.steps(mode="EVAL")) == 3


def test_the_wrapper_counts_each_way_out() -> None:
    """Else the tests above could not fail."""
    ways: tuple[Callable[[torch.Tensor], Any], ...] = (
        float, bool, int, torch.Tensor.item, torch.Tensor.nonzero, lambda t: t.cpu(), lambda t: t.tolist(),
        lambda t: t.to("cpu", copy=True), lambda t: torch.empty(()).copy_(t), lambda t: torch.equal(t, t),
    )  # fmt: skip
    for how in ways:
        Far.waits = []
        how(Far(torch.tensor(1.0)))
        assert Far.waits, how
    Far.waits = []
    torch.empty(()).copy_(Far(torch.tensor(1.0)) * 2, non_blocking=True)
    assert not Far.waits
