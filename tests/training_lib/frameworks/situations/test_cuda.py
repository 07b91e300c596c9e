"""CUDA tensors, where a GPU is: copies made while the device goes on are the values of their step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.contracts.capture_request import BUILT_IN_COLLECTIONS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

STEPS = 6
ALL = ("losses", "weights", "biases", "gradients")


def train(*, set_to_none: bool = True, notes: list[dict[str, np.ndarray]] | None = None, **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 8)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), **{"lr": 0.01, **settings})
    for _ in range(STEPS):
        loss = functional.cross_entropy(model(torch.randn(64, 512, device="cuda")), torch.arange(64).cuda() % 8)
        loss.backward()
        if notes is not None:
            step = {"CrossEntropyLoss_output_0": loss.detach().cpu().numpy()}
            for name, parameter in model.named_parameters():
                assert parameter.grad is not None
                step[f"Sequential_{name}"] = parameter.detach().cpu().numpy()
                step[f"gradient/Sequential_{name}"] = parameter.grad.cpu().numpy()
            notes.append(step)
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)  # frees or overwrites what may still be on its way
    torch.cuda.synchronize()
    return model


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="foreach"),
        pytest.param({"fused": True}, id="fused"),
        pytest.param({"set_to_none": False}, id="gradients-overwritten"),
    ],
)
def test_values_are_those_of_their_step_and_no_bit_changes(settings: dict[str, Any], watching: Any) -> None:
    notes: list[dict[str, np.ndarray]] = []
    bare = train(notes=notes, **settings)
    with watching(**dict.fromkeys(ALL, 1)) as saved:
        captured = train(**settings)
    for a, b in zip(bare.parameters(), captured.parameters(), strict=True):
        assert torch.equal(a, b)
    assert list(saved()) == list(range(STEPS))
    for step, expected in enumerate(notes):
        for name, value in expected.items():
            np.testing.assert_array_equal(saved()[step][name], value, err_msg=f"{step} {name}")


def test_training_on_a_stream_of_its_own(watching: Any) -> None:
    notes: list[dict[str, np.ndarray]] = []
    train(notes=notes)
    with watching(**dict.fromkeys(ALL, 1)) as saved, torch.cuda.stream(torch.cuda.Stream()):
        train()
    for step, expected in enumerate(notes):
        for name, value in expected.items():
            np.testing.assert_array_equal(saved()[step][name], value, err_msg=f"{step} {name}")


def test_idle_steps_do_not_wait_for_the_device(watching: Any) -> None:
    """`set_sync_debug_mode` raises where anything synchronises."""
    torch.manual_seed(0)
    model = nn.Linear(64, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    values = torch.randn(16, 64, device="cuda")
    with watching(**dict.fromkeys(ALL, 1000)):
        model(values).square().mean().backward()
        optimizer.step()  # the one that is captured
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(5):
                optimizer.zero_grad()
                model(values).square().mean().backward()
                optimizer.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_amp_on_the_device(watching: Any) -> None:
    torch.manual_seed(0)
    model = nn.Linear(64, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    losses = []
    with watching(**dict.fromkeys(ALL, 1)) as saved:
        for _ in range(3):
            with torch.autocast("cuda", torch.float16):
                loss = functional.mse_loss(model(torch.randn(16, 64, device="cuda")), torch.zeros(16, 8).cuda())
            losses.append(loss.item())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    found = [float(tensors["MSELoss_output_0"]) for tensors in saved().values()]
    np.testing.assert_allclose(found, losses, rtol=1e-3)


def test_a_training_step_recorded_as_a_graph_is_left_alone(watching: Any) -> None:
    """While a graph is recorded nothing may be copied to the CPU: the recording would be refused."""
    model = nn.Linear(64, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    values = torch.randn(16, 64, device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        model(values).square().mean().backward()
        optimizer.step()

    with watching(**dict.fromkeys(BUILT_IN_COLLECTIONS, 1)) as saved:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        before = model.weight.detach().clone()
        graph.replay()
        assert not torch.equal(model.weight, before)
    assert list(saved())[:3] == [0, 1, 2]
