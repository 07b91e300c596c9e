"""What `sagemaker_debug_hook_config` is told: words, regexes, schedules, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sagemaker_debug_hook_config as smd
import torch
from torch import nn

from trackside.contracts.errors import ConfigurationError


def trained(*configs: tuple[str, dict[str, Any]], steps: int = 4, **config: Any) -> smd.Hook:
    """A hook that saw a training without a call of its own: steps end with the optimizer's."""
    collections = [smd.CollectionConfig(name=name, collection_parameters=parameters) for name, parameters in configs]
    with smd.Hook(smd.DebugHookConfig(collection_configs=collections, **config)) as hook:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(steps):
            nn.functional.mse_loss(model(torch.ones(1, 2)), torch.zeros(1, 1)).backward()
            optimizer.step()
    return hook


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(("losses", {}), {"MSELoss_output_0"}, id="name-of-a-collection"),
        pytest.param(("any", {"include": ["loss"]}), {"MSELoss_output_0"}, id="word"),
        pytest.param(("any", {"include": "loss"}), {"MSELoss_output_0"}, id="one-text"),
        pytest.param(("any", {"include": ["2_output"]}), {"2_output_0"}, id="part-of-a-name"),
        pytest.param(("any", {"include": [r"^[12]_output"]}), {"1_output_0", "2_output_0"}, id="regex"),
        pytest.param(
            ("any", {"include": ["0.bias", "("]}), {"Sequential_0.bias", "gradient/Sequential_0.bias"}, id="("
        ),
        pytest.param(("weights", {"include": ["loss"]}), {"MSELoss_output_0"}, id="include-outweighs-the-name"),
    ],
)
def test_include(config: tuple[str, dict[str, Any]], expected: set[str]) -> None:
    tensors = trained(config).get_tensors()
    assert set(tensors) == expected
    assert all(list(steps) == [0, 1, 2, 3] for steps in tensors.values())


def test_schedule() -> None:
    tensors = trained(("losses", {"save_interval": "2", "start_step": 1, "end_step": 6}), steps=8).get_tensors()
    assert list(tensors["MSELoss_output_0"]) == [2, 4]


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert trained(("losses", {})).get_tensors()
    assert list(tmp_path.iterdir()) == []


def test_memory_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    tensors = trained(("losses", {}), steps=50, memory_bytes=40).get_tensors()
    steps = list(tensors["MSELoss_output_0"])
    assert len(steps) <= 11
    assert (steps[0], steps[-1]) == (0, 49)
    assert "memory for tensors is full" in caplog.text


def test_nothing_is_asked_for() -> None:
    assert set(trained(("losses", {})).get_tensors()) == {"MSELoss_output_0"}
    assert trained(("losses", {})).get_profiler_data() == []
    assert trained(("profiler", {"profile_interval": 3})).get_tensors() == {}


def test_all_that_is_wrong_at_once() -> None:
    configs = [
        smd.CollectionConfig("tensors"),
        smd.CollectionConfig("a", {"include": [3]}),
        smd.CollectionConfig("b", {"include": ["x"], "save_intervall": 2, "start_step": -1}),
        smd.CollectionConfig("profiler", {"profile_interval": "often"}),
    ]
    with pytest.raises(ConfigurationError) as caught:
        smd.Hook(smd.DebugHookConfig(configs))
    assert len(caught.value.problems) == 5
    assert "Did you mean 'save_interval'?" in str(caught.value)


def test_hyperparameters_of_the_loop_do_not_change() -> None:
    """Times and tensors leave the training as it is."""
    results = []
    some: tuple[tuple[str, dict[str, Any]], ...] = (("profiler", {}), ("any", {"include": ["output", "gradients"]}))
    for configs in ((), some):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.Linear(4, 1))
        optimizer = torch.optim.Adam(model.parameters())
        hook = smd.Hook(smd.DebugHookConfig([smd.CollectionConfig(*config) for config in configs])) if configs else None
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()
        if hook:
            hook.close()
            assert hook.get_profiler_data()
        results.append([parameter.detach().clone() for parameter in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
