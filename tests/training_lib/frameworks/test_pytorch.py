"""What the adapter captures, against values taken by hand; and that training never notices."""

from __future__ import annotations

import copy
import errno
import gc
import logging
import pickle
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.capture.session import SessionOptions
from trackside.contracts import run_layout
from trackside.contracts.errors import StorageError
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.frameworks.pytorch.losses.description import describe_loss
from trackside.frameworks.pytorch.saving.copying import copy_to_array
from trackside.storage.memory import MemoryStore

ALL = {"losses": 1, "weights": 1, "biases": 1, "gradients": 1}


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(6, 5)
        self.fc2 = nn.Linear(5, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.fc1(values)))


Batch = tuple[torch.Tensor, torch.Tensor]


def batches(count: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(4, 6, generator=generator), torch.randint(0, 3, (4,), generator=generator)) for _ in range(count)
    ]


def train(
    steps: int = 4,
    *,
    optimizer_class: type[torch.optim.Optimizer] = torch.optim.SGD,
    watch: Callable[[nn.Module, torch.Tensor], None] = lambda _model, _loss: None,
    **settings: Any,
) -> nn.Module:
    """An ordinary loop; `watch` sees the model and the loss right before the optimizer's step."""
    torch.manual_seed(0)
    model = Net()
    optimizer = optimizer_class(model.parameters(), **{"lr": 0.1, **settings})
    for values, labels in batches(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(values), labels)
        loss.backward()
        watch(model, loss)
        optimizer.step()
    return model


def by_hand(**settings: Any) -> tuple[list[dict[str, np.ndarray]], nn.Module]:
    """The oracle: what each step holds, noted by the loop itself with nothing of ours installed."""
    steps: list[dict[str, np.ndarray]] = []

    def note(model: nn.Module, loss: torch.Tensor) -> None:
        step = {"CrossEntropyLoss_output_0": np.array(loss.item(), np.float32)}
        for name, parameter in model.named_parameters():
            step[f"Net_{name}"] = parameter.detach().numpy().copy()
            assert parameter.grad is not None
            step[f"gradient/Net_{name}"] = parameter.grad.numpy().copy()
        steps.append(step)

    return steps, train(watch=note, **settings)


def assert_same(saved: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert saved.keys() == expected.keys()
    for name, value in expected.items():
        assert saved[name].dtype == value.dtype, name
        np.testing.assert_array_equal(saved[name], value, err_msg=name)


def names_of(run: dict[int, dict[str, np.ndarray]]) -> list[list[str]]:
    return [sorted(run[step]) for step in sorted(run)]


# Values and neutrality


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="sgd"),
        pytest.param({"momentum": 0.9}, id="momentum"),
        pytest.param({"optimizer_class": torch.optim.Adam, "lr": 0.01}, id="adam"),
        pytest.param({"optimizer_class": torch.optim.Adam, "lr": 0.01, "fused": True}, id="fused-adam"),
        pytest.param({"optimizer_class": torch.optim.AdamW, "lr": 0.01, "foreach": True}, id="foreach-adamw"),
    ],
)
def test_captures_exactly_and_changes_nothing(settings: dict[str, Any], capturing: Any, read_run: Any) -> None:
    expected, bare = by_hand(**settings)
    with capturing(**ALL) as store:
        hooked = train(**settings)
    run = read_run(store)
    assert sorted(run) == [0, 1, 2, 3]
    for step, tensors in enumerate(expected):
        assert_same(run[step], tensors)
    for a, b in zip(bare.parameters(), hooked.parameters(), strict=True):
        assert torch.equal(a, b)
    assert store.exists(run_layout.END_MARKER_KEY)


def test_the_schedule_decides(capturing: Any, read_run: Any) -> None:
    expected, _ = by_hand(steps=7)
    with capturing(losses=2, gradients=3) as store:
        train(steps=7)
    run = read_run(store)
    assert sorted(run) == [0, 2, 3, 4, 6]
    for step, tensors in run.items():
        wanted = {
            name: value
            for name, value in expected[step].items()
            if (step % 3 == 0 and name.startswith("gradient")) or (step % 2 == 0 and "Loss" in name)
        }
        assert_same(tensors, wanted)


def test_random_numbers_stay_the_users(capturing: Any) -> None:
    train()
    after_bare = torch.random.get_rng_state()
    with capturing(**ALL):
        train()
    assert torch.equal(torch.random.get_rng_state(), after_bare)


COUNTS_CALLS = """
import sys, torch, trackside
from pathlib import Path
from trackside.capture.session import SessionOptions
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.storage.memory import MemoryStore

never = CaptureRequest((CollectionRequest("losses", Schedule(10**6)),), statistics=StatisticsRequest(enabled=False))
environment = CaptureEnvironment("memory://run", never.to_json(), 0, 1)
PyTorchAdapter(environment, options=SessionOptions(open_store=lambda _: MemoryStore())).install()
ours = str(Path(trackside.__file__).parent)
calls = 0

def count(frame, event, _):
    global calls
    calls += event == "call" and frame.f_code.co_filename.startswith(ours)

model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = []
sys.setprofile(count)
for _ in range(460):
    calls = 0
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(torch.ones(2, 4)), torch.tensor([0, 1])).backward()
    optimizer.step()
    steps.append(calls)
sys.setprofile(None)
print(*steps)
"""


def test_an_idle_step_costs_few_calls() -> None:
    """Counted, for a clock says little on a busy machine: all Python functions of ours that a step runs through.

    In a process of its own, as a training is: here other tests' optimizers may still live, which are asked after.
    """
    answer = subprocess.run([sys.executable, "-c", COUNTS_CALLS], capture_output=True, text=True, check=True)
    steps = [int(count) for count in answer.stdout.split()]
    assert max(steps[:2]) > 100, "the first step is saved"
    idle = sorted(steps[410:])  # the training rests
    assert idle[len(idle) // 2] <= 6, idle


def test_uninstall_leaves_torch_as_it_was(capturing: Any) -> None:
    before = (torch.autograd.backward, torch.optim.Optimizer.__init__)
    with capturing(**ALL):
        assert torch.autograd.backward is not before[0]
    assert (torch.autograd.backward, torch.optim.Optimizer.__init__) == before


@pytest.mark.parametrize(
    "request_text",
    [
        pytest.param(None, id="captures"),
        pytest.param('{"collections": [{"name": "mine"}]}', id="refused"),  # an error refers to the frames it went by
    ],
)
def test_a_capture_that_has_ended_keeps_nothing_alive(
    request_text: str | None, request_json: Any, capturing: Any
) -> None:
    """Neither itself, with all that it holds, nor the script's model and optimizer."""
    with capturing(losses=1):
        train(1)  # has PyTorch's compiler loaded, which keeps all functions of torch that there are then, ours too
    text = request_json(**ALL) if request_text is None else request_text
    capture = PyTorchAdapter(
        CaptureEnvironment("memory://run", text, 0, 1), options=SessionOptions(open_store=lambda _: MemoryStore())
    )
    capture.install()
    model = train()
    capture.uninstall()
    ended, parameter = weakref.ref(capture), weakref.ref(model.fc1.weight)
    del capture, model
    gc.collect()
    assert parameter() is None
    assert ended() is None


def test_nothing_exists_before_the_first_optimizer_step(capturing: Any) -> None:
    threads = set(threading.enumerate())
    with capturing(**ALL) as store:
        model = Net()
        torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(1, 6)).sum().backward()
        assert set(threading.enumerate()) <= threads  # one of an earlier test may end just now
    assert not list(store.list())


# Losses

LOGITS = torch.tensor([[0.3, -1.0, 2.0], [1.5, 0.2, -0.1]], requires_grad=True)
TARGET = torch.tensor([2, 1])
FLOATS = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
CE = functional.cross_entropy(LOGITS, TARGET)
HALF_MSE = ((LOGITS - FLOATS) ** 2).mean()
SHARES = FLOATS / FLOATS.sum(1, keepdim=True)
SOFT_CE = functional.cross_entropy(LOGITS, SHARES)
SMOOTHED = functional.cross_entropy(LOGITS, TARGET, label_smoothing=0.1)
EACH_CE = functional.cross_entropy(LOGITS, TARGET, reduction="none")


@pytest.mark.parametrize(
    ("loss", "name", "true_value"),
    [
        pytest.param(CE, "CrossEntropyLoss", CE, id="cross-entropy"),
        pytest.param(CE / 4, "CrossEntropyLoss", CE, id="accumulation"),
        pytest.param(CE * 65536, "CrossEntropyLoss", CE, id="factor"),
        pytest.param(torch.tensor(65536.0) * (CE / 2), "CrossEntropyLoss", CE, id="amp-and-accumulation"),
        pytest.param((CE / 3).double(), "CrossEntropyLoss", CE, id="cast"),
        pytest.param(functional.nll_loss(LOGITS, TARGET), "NLLLoss", None, id="nll"),
        pytest.param(functional.mse_loss(LOGITS, FLOATS) / 2, "MSELoss", HALF_MSE, id="mse"),
        pytest.param(functional.huber_loss(LOGITS, FLOATS), "HuberLoss", None, id="huber"),
        pytest.param(functional.smooth_l1_loss(LOGITS, FLOATS), "SmoothL1Loss", None, id="smooth-l1"),
        pytest.param(
            nn.BCEWithLogitsLoss()(LOGITS, FLOATS), "BCEWithLogitsLoss", None, id="binary-cross-entropy-with-logits"
        ),
        pytest.param(functional.binary_cross_entropy(LOGITS.sigmoid(), FLOATS), "BCELoss", None, id="binary"),
        pytest.param(HALF_MSE, "loss", HALF_MSE, id="by-hand"),
        pytest.param(HALF_MSE / 2, "loss", HALF_MSE / 2, id="by-hand-keeps-its-own-factor"),
        pytest.param(HALF_MSE * 65536, "loss", HALF_MSE, id="by-hand-under-amp"),
        pytest.param(CE + 0.1 * HALF_MSE, "loss", CE + 0.1 * HALF_MSE, id="sum-of-two"),
        pytest.param(CE * CE, "loss", CE * CE, id="product-is-no-factor"),
        pytest.param(1 / CE, "loss", 1 / CE, id="reciprocal"),
        pytest.param(CE * 0, "loss", CE * 0, id="zero-cannot-be-undone"),
        pytest.param(-CE, "loss", -CE, id="negated"),
        pytest.param(functional.cross_entropy(LOGITS, SHARES), "CrossEntropyLoss", None, id="soft-labels"),
        pytest.param(functional.cross_entropy(LOGITS, SHARES) / 4, "CrossEntropyLoss", SOFT_CE, id="soft-accumulated"),
        pytest.param(SMOOTHED, "CrossEntropyLoss", SMOOTHED, id="smoothed-labels"),
        pytest.param(SMOOTHED * 1024 / 2, "CrossEntropyLoss", SMOOTHED, id="smoothed-labels-under-amp"),
        pytest.param(EACH_CE.mean() / 2, "CrossEntropyLoss", CE, id="mean-by-hand"),
        pytest.param(EACH_CE.sum() / 2, "CrossEntropyLoss", CE, id="a-sum-keeps-what-makes-it-the-mean"),
        pytest.param(EACH_CE.sum() / 2 * 256.0, "CrossEntropyLoss", CE, id="the-same-under-amp"),
        pytest.param(
            functional.cross_entropy(LOGITS, TARGET, reduction="sum") / 2, "CrossEntropyLoss", CE, id="hugging-face"
        ),
        pytest.param(functional.l1_loss(LOGITS, FLOATS) / 2, "L1Loss", (LOGITS - FLOATS).abs().mean(), id="l1"),
        pytest.param(functional.kl_div(LOGITS, SHARES, reduction="sum"), "loss", None, id="kl-divergence-is-not-told"),
        pytest.param(SMOOTHED + SMOOTHED, "loss", SMOOTHED + SMOOTHED, id="sum-of-two-smoothed"),
        pytest.param(LOGITS.exp().mean(), "loss", LOGITS.exp().mean(), id="a-mean-of-something"),
        pytest.param(torch.ones((), requires_grad=True), "loss", None, id="leaf"),
    ],
)
def test_names_and_scales_losses(loss: torch.Tensor, name: str, true_value: torch.Tensor | None) -> None:
    description = describe_loss(loss.grad_fn)
    assert description.name == name
    expected = loss if true_value is None else true_value
    np.testing.assert_allclose(loss.item() / description.scale, expected.item(), rtol=1e-6)


def test_the_loss_of_accumulated_gradients_is_that_of_their_step(capturing: Any, read_run: Any) -> None:
    torch.manual_seed(0)
    model, expected = Net(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with capturing(losses=1, gradients=1) as store:
        for values, labels in batches(2):
            loss = functional.cross_entropy(model(values), labels)
            expected.append(loss.item())
            (loss / 2).backward()
        gradient = model.fc1.weight.grad
        assert gradient is not None
        accumulated = gradient.numpy().copy()
        optimizer.step()
    (step,) = read_run(store).values()
    assert float(step["CrossEntropyLoss_output_0"]) == pytest.approx(sum(expected) / 2)
    assert "CrossEntropyLoss_output_1" not in step
    np.testing.assert_array_equal(step["gradient/Net_fc1.weight"], accumulated)


def test_backward_of_a_vector_is_no_loss(capturing: Any, read_run: Any) -> None:
    with capturing(losses=1) as store:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        output = model(torch.ones(1, 6))
        output.backward(torch.ones_like(output))
        torch.autograd.backward([model(torch.ones(1, 6)).sum()], [torch.tensor(2.0)])
        optimizer.step()
    assert not read_run(store)


def test_backward_of_several_tensors(capturing: Any, read_run: Any) -> None:
    with capturing(losses=1) as store:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        output = model(torch.ones(1, 6))
        torch.autograd.backward(tensors=[output.sum(), functional.mse_loss(output, torch.zeros(1, 3))])
        optimizer.step()
    assert names_of(read_run(store)) == [["MSELoss_output_0", "loss_output_0"]]


# Optimizers of every kind


def test_clipped_gradients_are_what_the_optimizer_uses(capturing: Any, read_run: Any) -> None:
    with capturing(gradients=1) as store:
        train(steps=1, watch=lambda model, _: nn.utils.clip_grad_norm_(model.parameters(), 0.01))
    (step,) = read_run(store).values()
    assert np.sqrt(sum((g**2).sum() for g in step.values())) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("by_keyword", [pytest.param(False, id="positional"), pytest.param(True, id="keyword")])
def test_a_closure_is_captured_at_its_first_call(by_keyword: bool, capturing: Any, read_run: Any) -> None:
    def run(notes: list[dict[str, np.ndarray]]) -> nn.Module:
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
        for values, labels in batches(3):
            calls: list[float] = []

            def closure(values: torch.Tensor = values, labels: torch.Tensor = labels) -> torch.Tensor:
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(values), labels)
                loss.backward()
                if not calls:  # noqa: B023 - called within its own iteration only
                    gradient = model.fc2.weight.grad
                    assert gradient is not None
                    weight = model.fc2.weight.detach().numpy().copy()
                    notes.append({"loss": np.array(loss.item()), "w": weight, "g": gradient.numpy().copy()})
                calls.append(loss.item())  # noqa: B023
                return loss

            optimizer.step(closure=closure) if by_keyword else optimizer.step(closure)
            assert len(calls) > 1
        return model

    expected: list[dict[str, np.ndarray]] = []
    bare = run(expected)
    with capturing(**ALL) as store:
        hooked = run([])
    saved = read_run(store)
    assert sorted(saved) == [0, 1, 2]
    for step, notes in enumerate(expected):
        np.testing.assert_array_equal(saved[step]["Net_fc2.weight"], notes["w"])
        np.testing.assert_array_equal(saved[step]["gradient/Net_fc2.weight"], notes["g"])
        assert float(saved[step]["CrossEntropyLoss_output_0"]) == notes["loss"]
        assert "CrossEntropyLoss_output_1" not in saved[step]
    for a, b in zip(bare.parameters(), hooked.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_gan_steps_once_for_both(capturing: Any, read_run: Any) -> None:
    with capturing(losses=1, gradients=1) as store:
        generator, critic = nn.Sequential(nn.Linear(2, 3)), nn.Sequential(nn.Linear(3, 1))
        optimizers = [torch.optim.Adam(critic.parameters()), torch.optim.Adam(generator.parameters())]
        for _ in range(3):
            for optimizer in optimizers:
                optimizer.zero_grad()
                output = critic(generator(torch.ones(4, 2)))
                functional.binary_cross_entropy_with_logits(output, torch.ones(4, 1)).backward()
                optimizer.step()
    gradients = [f"gradient/{root}_0.{part}" for root in ("Sequential", "Sequential2") for part in ("bias", "weight")]
    losses = ["BCEWithLogitsLoss_output_0", "BCEWithLogitsLoss_output_1"]
    assert names_of(read_run(store)) == [sorted([*losses, *gradients])] * 3


def test_optimizers_made_while_the_first_step_is_made_are_of_that_step(capturing: Any, read_run: Any) -> None:
    """Pyro makes one for each parameter when it first meets it (issue 41)."""
    with capturing(losses=1, gradients=1) as store:
        model, held = nn.Sequential(nn.Linear(2, 1)), dict[str, torch.optim.Optimizer]()
        for _ in range(3):
            model.zero_grad()
            functional.mse_loss(model(torch.ones(4, 2)), torch.ones(4, 1)).backward()
            for name, parameter in model.named_parameters():
                if name not in held:
                    held[name] = torch.optim.SGD([parameter], lr=0.1)
                held[name].step()
    gradients = ["gradient/Sequential_0.bias", "gradient/Sequential_0.weight"]
    whole = ["MSELoss_output_0", *gradients]
    assert names_of(read_run(store)) == [["MSELoss_output_0", gradients[1]], whole, whole]


def test_an_optimizer_made_for_a_later_phase_makes_its_own_steps(capturing: Any, read_run: Any) -> None:
    with capturing(losses=1) as store:
        model = nn.Sequential(nn.Linear(2, 1))
        for _ in range(2):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                optimizer.zero_grad()
                functional.mse_loss(model(torch.ones(4, 2)), torch.ones(4, 1)).backward()
                optimizer.step()
    assert len(read_run(store)) == 4


def test_the_last_step_is_saved_though_one_optimizer_did_not_come(capturing: Any, read_run: Any) -> None:
    with capturing(weights=1) as store:
        first, second = Net(), Net()
        optimizer = torch.optim.SGD(first.parameters(), lr=0.1)
        other = torch.optim.SGD(second.parameters(), lr=0.1)
        optimizer.step()
        assert not read_run(store)
    del other
    assert names_of(read_run(store)) == [["Net_fc1.weight", "Net_fc2.weight"]]


def test_amp_scaler(capturing: Any, read_run: Any) -> None:
    expected, _ = by_hand(steps=2)
    with capturing(**ALL) as store:
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for values, labels in batches(2):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(values), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    run = read_run(store)
    for step, tensors in enumerate(expected):
        for name, value in tensors.items():
            np.testing.assert_allclose(run[step][name], value, rtol=1e-5, atol=1e-8, err_msg=name)


def test_amp_scaler_with_a_fused_optimizer_saves_true_gradients(capturing: Any, read_run: Any) -> None:
    expected, _ = by_hand(steps=1)
    with capturing(**ALL) as store:
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        values, labels = batches(1)[0]
        scaler.scale(functional.cross_entropy(model(values), labels)).backward()
        scaler.step(optimizer)
        scaler.update()
    (step,) = read_run(store).values()
    for name, value in expected[0].items():
        np.testing.assert_allclose(step[name], value, rtol=1e-5, atol=1e-8, err_msg=name)


def test_a_step_that_the_scaler_skips_does_not_count(capturing: Any, read_run: Any) -> None:
    with capturing(weights=1) as store:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for factor in (1.0, float("inf"), 1.0):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(1, 6)).sum() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
    assert sorted(read_run(store)) == [0, 1]


# Models and parameters of every kind


def one_step(model: nn.Module, forward: Callable[[], torch.Tensor], **settings: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, **settings)
    forward().sum().backward()
    optimizer.step()


def test_a_frozen_parameter_has_a_weight_and_no_gradient(capturing: Any, read_run: Any) -> None:
    with capturing(**ALL) as store:
        model = Net()
        model.fc1.weight.requires_grad_(requires_grad=False)
        one_step(model, lambda: model(torch.ones(1, 6)))
    (step,) = read_run(store).values()
    assert "Net_fc1.weight" in step
    assert "gradient/Net_fc1.weight" not in step
    assert "gradient/Net_fc1.bias" in step


def test_sparse_gradients_become_dense(capturing: Any, read_run: Any) -> None:
    with capturing(**ALL) as store:
        model = nn.Sequential(nn.Embedding(5, 2, sparse=True))
        one_step(model, lambda: model(torch.tensor([1, 3, 3])))
    (step,) = read_run(store).values()
    np.testing.assert_array_equal(step["gradient/Sequential_0.weight"][:, 0], [0, 1, 0, 2, 0])


def test_bfloat16_is_saved_as_float32(capturing: Any, read_run: Any) -> None:
    with capturing(**ALL) as store:
        model = nn.Sequential(nn.Linear(2, 2)).bfloat16()
        expected = model[0].weight.detach().float().numpy().copy()
        one_step(model, lambda: model(torch.ones(1, 2, dtype=torch.bfloat16)))
    (step,) = read_run(store).values()
    np.testing.assert_array_equal(step["Sequential_0.weight"], expected)
    assert {value.dtype for value in step.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("dtype", "saved"),
    [
        pytest.param(torch.float16, np.float16, id="half"),
        pytest.param(torch.float64, np.float64, id="double"),
        pytest.param(torch.float8_e4m3fn, np.float32, id="float8"),
        pytest.param(torch.complex64, np.complex64, id="complex"),
        pytest.param(torch.int64, np.int64, id="integer"),
    ],
)
def test_copies_every_dtype(dtype: torch.dtype, saved: type) -> None:
    tensor = torch.ones(2, 2).to(dtype)
    array = copy_to_array(tensor)
    assert array.dtype == saved
    np.testing.assert_array_equal(array, np.ones((2, 2)))


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(torch.arange(6.0).reshape(2, 3).t(), id="transposed"),
        pytest.param(torch.arange(6.0)[::2], id="strided"),
        pytest.param(torch.arange(16.0).reshape(1, 2, 2, 4).to(memory_format=torch.channels_last), id="channels-last"),
        pytest.param(torch.tensor(3.0), id="scalar"),
        pytest.param(torch.tensor([1 + 2j]).conj(), id="conjugate-view"),
    ],
)
def test_copies_every_layout_and_shares_nothing(tensor: torch.Tensor) -> None:
    expected = np.array(tensor.tolist()).reshape(tensor.shape)
    array = copy_to_array(tensor)
    assert array.flags.c_contiguous
    assert not array.size or array.ctypes.data != tensor.data_ptr()
    np.testing.assert_array_equal(array, expected)


def test_tied_weights_have_one_name(capturing: Any, read_run: Any) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(4, 3)
            self.output = nn.Linear(3, 4, bias=False)
            self.output.weight = self.embedding.weight

    with capturing(weights=1) as store:
        model = Tied()
        one_step(model, lambda: model.output(model.embedding(torch.tensor([1]))))
    assert names_of(read_run(store)) == [["Tied_embedding.weight"]]


def test_tensors_without_elements_are_left_out(capturing: Any, read_run: Any) -> None:
    with capturing(**ALL) as store:
        model = Net()
        model.register_parameter("empty_weight", nn.Parameter(torch.zeros(0, 3)))
        one_step(model, lambda: model(torch.ones(1, 6)) + model.empty_weight.sum())
    (step,) = read_run(store).values()
    assert "Net_fc1.weight" in step
    assert "Net_empty_weight" not in step


@pytest.mark.parametrize(
    ("wrap", "root"),
    [
        pytest.param(nn.Sequential, "Sequential_0.", id="a-real-parent-is-the-root"),
        pytest.param(nn.DataParallel, "Net_", id="data-parallel"),
        pytest.param(lambda net: torch.compile(net, backend="eager"), "Net_", id="compiled"),
        pytest.param(copy.deepcopy, "Net_", id="deep-copy"),
    ],
)
def test_the_root_gives_the_name(
    wrap: Callable[[nn.Module], nn.Module], root: str, capturing: Any, read_run: Any
) -> None:
    with capturing(weights=1) as store:
        model = wrap(Net())
        one_step(model, lambda: model(torch.ones(1, 6)))
    assert names_of(read_run(store)) == [[f"{root}fc1.weight", f"{root}fc2.weight"]]


def test_parameters_of_no_module_are_named_by_number(capturing: Any, read_run: Any) -> None:
    with capturing(**ALL) as store:
        a, b = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([a, b], lr=0.1)
        (a.sum() + b.sum()).backward()
        optimizer.step()
    gradients = ["gradient/Parameters_0.weight", "gradient/Parameters_1.weight"]
    assert names_of(read_run(store)) == [["Parameters_0.weight", "Parameters_1.weight", *gradients, "loss_output_0"]]


def test_a_parameter_added_later_is_found(capturing: Any, read_run: Any) -> None:
    with capturing(weights=1) as store:
        model = Net()
        optimizer = torch.optim.SGD(model.fc2.parameters(), lr=0.1)
        optimizer.step()
        optimizer.add_param_group({"params": list(model.fc1.parameters())})
        optimizer.step()
    assert names_of(read_run(store)) == [["Net_fc2.weight"], ["Net_fc1.weight", "Net_fc2.weight"]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it imports its compiler
def test_a_compiled_training_step_stays_whole(capturing: Any, read_run: Any) -> None:
    def run() -> nn.Module:
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(values: torch.Tensor, labels: torch.Tensor) -> None:
            optimizer.zero_grad()
            functional.cross_entropy(model(values), labels).backward()
            optimizer.step()

        compiled = torch.compile(step, backend="eager")
        for values, labels in batches(3):
            compiled(values, labels)
        torch.compiler.reset()
        return model

    bare = run()
    with capturing(**ALL) as store:
        hooked = run()
    saved = read_run(store)
    assert sorted(saved) == [0, 1, 2]
    assert all({"Net_fc1.weight", "gradient/Net_fc1.weight"} <= set(step) for step in saved.values())
    for a, b in zip(bare.parameters(), hooked.parameters(), strict=True):
        assert torch.equal(a, b)


# Faults: said once, and training is what it would have been


class OddParameter(nn.Parameter):
    """Refuses to be looked at."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.detach:
            raise RuntimeError("do not touch")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_an_odd_parameter_costs_only_itself(capturing: Any, read_run: Any, caplog: pytest.LogCaptureFixture) -> None:
    with capturing(weights=1) as store:
        model = Net()
        model.odd_weight = OddParameter(torch.ones(3))
        model.meta_weight = nn.Parameter(torch.ones(2, device="meta"))
        for _ in range(3):
            optimizer = torch.optim.SGD([p for n, p in model.named_parameters()], lr=0.1)
            model(torch.ones(1, 6)).sum().backward()
            optimizer.step()
    assert names_of(read_run(store)) == [["Net_fc1.weight", "Net_fc2.weight"]] * 3
    assert len(caplog.records) == 2
    assert "do not touch" in caplog.text
    assert "Net_meta_weight" in caplog.text


class FailingStore(MemoryStore):
    """A disk that is full for ever."""

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        raise StorageError(errno.ENOSPC, "No space left on device")


class BuggyStore(MemoryStore):
    """Fails with what no store may raise."""

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        raise ZeroDivisionError("a bug")


class EndedStore(MemoryStore):
    """Holds a run that has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.put(run_layout.END_MARKER_KEY, b"")


@pytest.mark.parametrize(
    ("store", "messages"),
    [
        pytest.param(EndedStore(), ["switched off.*has ended"], id="ended-run"),
        pytest.param(
            FailingStore(), ["step 0 could not be saved: .*No space left", "20 of 20 steps could not"], id="disk-full"
        ),
        pytest.param(BuggyStore(), ["switched off.*failed: ZeroDivisionError: a bug"], id="a-bug-of-ours"),
    ],
)
def test_storage_that_fails_changes_nothing_but_the_log(
    store: MemoryStore, messages: list[str], capturing: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bare = train(steps=20)
    with capturing(store, **ALL):
        hooked = train(steps=20)
    for a, b in zip(bare.parameters(), hooked.parameters(), strict=True):
        assert torch.equal(a, b)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    for pattern in messages:
        assert sum(bool(re.search(pattern, line)) for line in said) == 1, said
    assert len(said) <= len(messages) + 1


def test_the_users_exceptions_are_the_users(capturing: Any, caplog: pytest.LogCaptureFixture) -> None:
    with capturing(**ALL):
        model = Net()
        optimizer = torch.optim.LBFGS(model.parameters())

        def closure() -> float:
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            optimizer.step(closure)
        loss = model(torch.ones(1, 6)).sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    assert not caplog.records


def test_a_bad_request_is_one_line_and_no_capture(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    text = '{"collections": [{"name": "weigths"}, {"name": "losses", "save_interval": 0}]}'
    capture = PyTorchAdapter(
        CaptureEnvironment("memory://run", text, 0, 1), options=SessionOptions(open_store=lambda _: store)
    )
    capture.install()
    try:
        bare, hooked = (train(), train())
    finally:
        capture.uninstall()
    assert torch.equal(bare.fc1.weight, hooked.fc1.weight)
    (record,) = caplog.records
    assert "weigths" in record.getMessage()
    assert "save_interval" in record.getMessage()
    assert "\n" not in record.getMessage()
    assert not list(store.list())


def test_a_location_that_is_none_is_one_line(request_json: Any, caplog: pytest.LogCaptureFixture) -> None:
    capture = PyTorchAdapter(CaptureEnvironment("ftp://host/run", request_json(**ALL), 0, 1))
    capture.install()
    try:
        train()
    finally:
        capture.uninstall()
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "switched off, training goes on" in messages[0]
    assert "ftp" in messages[0]
    assert not [m for m in messages[1:] if "steps could not be saved" not in m]


@pytest.mark.parametrize(
    ("rank", "names"),
    [
        pytest.param(0, {"worker_0_collections.json", "training_job_end.ts"}, id="rank-0-ends-the-run"),
        pytest.param(1, {"worker_1_collections.json"}, id="rank-1"),
    ],
)
def test_each_rank_writes_as_its_own_worker(rank: int, names: set[str], request_json: Any) -> None:
    store = MemoryStore()
    environment = CaptureEnvironment("memory://run", request_json(losses=1), rank, 2)
    capture = PyTorchAdapter(
        environment,
        options=SessionOptions(open_store=lambda uri: store if uri.endswith("/debug-output") else MemoryStore()),
    )
    capture.install()
    try:
        train(steps=1)
    finally:
        capture.uninstall()
    event = f"000000000000_worker_{rank}"
    saved = {
        key.rsplit("/", 1)[-1]
        for key in store.list()
        if not key.startswith(("packed-index/", "state/", "model-facts/"))
    }
    assert saved == {*names, f"{event}.json", f"{event}.tfevents"}


def test_models_can_be_freed(capturing: Any) -> None:
    with capturing(**ALL):
        model: nn.Module | None = train()
        assert model is not None
        reference = weakref.ref(model.fc1.weight)
        model = None
        gc.collect()
        assert reference() is None


def test_models_and_optimizers_stay_picklable(capturing: Any) -> None:
    with capturing(**ALL):
        model = train()
        again = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own bytes
        pickle.dumps(torch.optim.SGD(model.parameters(), lr=0.1))
    assert torch.equal(again.fc1.weight, model.fc1.weight)
