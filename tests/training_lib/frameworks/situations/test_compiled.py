"""torch.compile: what is captured is what an eager run would save, and nothing is compiled more often because of us."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.contracts.capture_request import BUILT_IN_COLLECTIONS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it imports its compiler

STEPS = 7
WHAT_NEEDS_NO_EAGER_STEP = ("losses", "weights", "biases", "gradients")


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(6, 5)
        self.fc2 = nn.Linear(5, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.fc1(values)))


class Compiler:
    """A backend that counts its graphs."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        self.graphs += 1
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)


Step = Callable[[torch.Tensor, torch.Tensor], Any]
Build = Callable[[nn.Module, torch.optim.Optimizer, Any], Step]


def stepping(model: Callable[[torch.Tensor], torch.Tensor], optimizer: Any) -> Step:
    def step(values: torch.Tensor, labels: torch.Tensor) -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(values), labels).backward()
        optimizer.step()

    return step


def eager(model: nn.Module, optimizer: torch.optim.Optimizer, _backend: Any) -> Step:
    return stepping(model, optimizer)


def model_compiled(model: nn.Module, optimizer: torch.optim.Optimizer, backend: Any) -> Step:
    return stepping(torch.compile(model, backend=backend), optimizer)


def model_compiled_whole(model: nn.Module, optimizer: torch.optim.Optimizer, backend: Any) -> Step:
    return stepping(torch.compile(model, backend=backend, fullgraph=True), optimizer)


def compiled_in_place(model: nn.Module, optimizer: torch.optim.Optimizer, backend: Any) -> Step:
    model.compile(backend=backend)
    return stepping(model, optimizer)


def step_compiled(model: nn.Module, optimizer: torch.optim.Optimizer, backend: Any) -> Step:
    compiled: Step = torch.compile(stepping(model, optimizer), backend=backend)
    return compiled


def optimizer_compiled(model: nn.Module, optimizer: torch.optim.Optimizer, backend: Any) -> Step:
    step = torch.compile(optimizer.step, backend=backend, fullgraph=False)

    class Optimizer:
        zero_grad = staticmethod(optimizer.zero_grad)

    Optimizer.step = staticmethod(step)  # type: ignore[attr-defined] # a stand-in that only the loop above calls
    return stepping(model, Optimizer)


def train(build: Build, backend: Any = "aot_eager") -> nn.Module:
    torch.compiler.reset()
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = build(model, optimizer, backend)
    for _ in range(STEPS):
        step(torch.randn(4, 6), torch.randint(0, 3, (4,)))
    torch.compiler.reset()
    return model


def assert_close(saved: dict[int, dict[str, np.ndarray]], expected: dict[int, dict[str, np.ndarray]]) -> None:
    assert saved.keys() == expected.keys()
    for step, tensors in expected.items():
        assert {"CrossEntropyLoss_output_0", "Net_fc1.weight", "gradient/Net_fc2.bias"} <= tensors.keys()
        for name, value in tensors.items():
            np.testing.assert_allclose(saved[step][name], value, rtol=1e-5, atol=1e-6, err_msg=f"{step} {name}")


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(model_compiled, id="model"),
        pytest.param(model_compiled_whole, id="fullgraph"),
        pytest.param(compiled_in_place, id="module-compile"),
        pytest.param(optimizer_compiled, id="optimizer-step"),
    ],
)
@pytest.mark.parametrize(
    "collections",
    [
        pytest.param(WHAT_NEEDS_NO_EAGER_STEP, id="parameters-and-losses"),
        pytest.param(BUILT_IN_COLLECTIONS, id="everything"),
    ],
)
def test_values_are_those_of_an_eager_run_and_nothing_is_compiled_twice(
    build: Build, collections: tuple[str, ...], watching: Any
) -> None:
    bare, captured = Compiler(), Compiler()
    train(build, bare)
    with watching(**dict.fromkeys(WHAT_NEEDS_NO_EAGER_STEP, 3)) as expected:
        train(eager)
    with watching(**dict.fromkeys(collections, 3)) as saved:
        train(build, captured)
    assert captured.graphs == bare.graphs > 0
    assert sorted(saved()) == [0, 3, 6]
    assert_close(saved(), expected())


def test_a_step_compiled_as_a_whole(watching: Any) -> None:
    """Its loss is found where torch runs `backward` eagerly, as it does; the graphs are as many as the bare run's."""
    bare, captured = Compiler(), Compiler()
    train(step_compiled, bare)
    with watching(weights=3, biases=3, gradients=3) as expected:
        train(eager)
    with watching(weights=3, biases=3, gradients=3) as saved:
        train(step_compiled, captured)
    assert captured.graphs <= bare.graphs
    assert bare.graphs > 0
    assert sorted(saved()) == [0, 3, 6]
    for step, tensors in expected().items():
        for name, value in tensors.items():
            np.testing.assert_allclose(saved()[step][name], value, rtol=1e-5, atol=1e-6, err_msg=f"{step} {name}")


def test_the_users_own_stance_is_kept(watching: Any) -> None:
    compiler = Compiler()
    with watching(**dict.fromkeys(BUILT_IN_COLLECTIONS, 2)), torch.compiler.set_stance("force_eager"):
        train(model_compiled, compiler)
    assert compiler.graphs == 0
    train(model_compiled, compiler)
    assert compiler.graphs > 0


@pytest.mark.slow
def test_the_default_backend(watching: Any) -> None:
    with watching(**dict.fromkeys(WHAT_NEEDS_NO_EAGER_STEP, 3)) as expected:
        train(eager)
    with watching(**dict.fromkeys(BUILT_IN_COLLECTIONS, 3)) as saved:
        train(model_compiled, "inductor")
    assert_close(saved(), expected())
