"""Collections by role: what modules of a role take and give, and nothing else, in live and finished runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.trial.trial import Trial

torch.set_num_threads(1)


class Net(nn.Module):
    """One activation of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(3, 4)
        self.relu = nn.ReLU()
        self.tanh = nn.Tanh()
        self.gelu = nn.GELU()
        self.fc2 = nn.Linear(4, 2)
        self.softmax = nn.Softmax(-1)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.softmax(self.fc2(self.gelu(self.tanh(self.relu(self.fc1(values))))))


def captured(capturing: Any, *collections: str, model: Any = Net) -> Trial:
    with capturing(**dict.fromkeys(collections, 1)) as store:
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            functional.mse_loss(net(torch.randn(5, 3)), torch.randn(5, 2)).backward()
            optimizer.step()
    trial = Trial(store, store)
    trial.refresh()
    return trial


@pytest.mark.parametrize(
    ("collection", "names"),
    [
        pytest.param(
            "activations", {"relu_output_0", "tanh_output_0", "gelu_output_0", "softmax_output_0"}, id="activations"
        ),
        pytest.param(
            "activation_inputs", {"relu_input_0", "tanh_input_0", "gelu_input_0", "softmax_input_0"}, id="their inputs"
        ),
        pytest.param("relu_outputs", {"relu_output_0"}, id="ReLU"),
        pytest.param("saturating_inputs", {"tanh_input_0"}, id="tanh and sigmoid"),
        pytest.param("model_inputs", {"Net_input_0"}, id="the model's"),
    ],
)
def test_only_what_is_asked_for_is_saved(capturing: Any, collection: str, names: set[str]) -> None:
    trial = captured(capturing, collection)
    assert set(trial.tensor_names(collection=collection)) == names
    step = trial.steps()[0]
    for name in names:
        assert trial.value(name, step=step, worker="worker_0").shape[0] == 5
    saved = {name for name in trial.names if "_input_" in name or "_output_" in name} - {"MSELoss_output_0"}
    assert saved == names


def test_a_run_that_saved_all_outputs_answers_by_role(capturing: Any) -> None:
    trial = captured(capturing, "outputs")
    assert trial.tensor_names(collection="relu_outputs") == ("relu_output_0",)
    assert "fc1_output_0" in trial.tensor_names(collection="outputs")


@pytest.mark.parametrize("collection", ["activations", "activation_inputs", "relu_outputs", "saturating_inputs"])
def test_a_model_without_activations(capturing: Any, collection: str) -> None:
    assert captured(capturing, collection, model=lambda: nn.Linear(3, 2)).tensor_names(collection=collection) == ()


def test_the_inputs_of_a_model_in_a_wrapper(capturing: Any) -> None:
    trial = captured(
        capturing, "model_inputs", model=lambda: nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 2)))
    )
    assert trial.tensor_names(collection="model_inputs") == ("Sequential_input_0",)


@pytest.mark.parametrize(
    ("bridge", "names"),
    [
        pytest.param(lambda features: features, {"Sequential_input_0"}, id="trained features are no input"),
        pytest.param(lambda features: features.detach(), {"Sequential_input_0", "Linear_input_0"}, id="data are"),
        pytest.param(
            lambda features: features.detach().requires_grad_(),
            {"Sequential_input_0", "Linear_input_0"},
            id="data with a gradient of their own are",
        ),
    ],
)
def test_the_output_of_a_trained_module_is_no_input_of_the_program(
    capturing: Any, bridge: Any, names: set[str]
) -> None:
    with capturing(model_inputs=1) as store:
        body, head = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 2)
        optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            head(bridge(body(torch.randn(5, 3)))).square().mean().backward()
            optimizer.step()
    trial = Trial(store, store)
    trial.refresh()
    assert set(trial.tensor_names(collection="model_inputs")) == names


class Parts(nn.Module):
    """A model of which a script calls the parts, as the `training_step` of a LightningModule does."""

    def __init__(self) -> None:
        super().__init__()
        self.criterion = nn.MSELoss()
        self.flatten = nn.Flatten()
        self.body, self.head = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 2)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(values))


@pytest.mark.parametrize(
    ("predict", "names"),
    [
        pytest.param(lambda m, x: m.head(m.body(m.flatten(x))), {"body_input_0"}, id="its first part with weights"),
        pytest.param(lambda m, x: m.head(m.body(x).detach()), {"body_input_0"}, id="not what a part gave"),
        pytest.param(lambda m, x: m.body(x)[:, :2] + m.body(x)[:, 2:], {"body_input_0", "body_input_1"}, id="twice"),
        pytest.param(lambda m, x: m(x), {"Parts_input_0"}, id="a model that is called itself"),
    ],
)
def test_the_inputs_of_a_model_never_called_at_its_root(capturing: Any, predict: Any, names: set[str]) -> None:
    with capturing(model_inputs=1) as store:
        model = Parts()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model.criterion(predict(model, torch.randn(5, 3)), torch.zeros(5, 2)).backward()
            optimizer.step()
    trial = Trial(store, store)
    trial.refresh()
    assert set(trial.tensor_names(collection="model_inputs")) == names
