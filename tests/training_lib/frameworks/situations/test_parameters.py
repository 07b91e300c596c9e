"""Parameters that are shared, frozen, thawed, replaced or lazy; models that are never called whole, or copied."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

ALL = {"losses": 1, "weights": 1, "biases": 1, "gradients": 1}


class Autoencoder(nn.Module):
    """Its two halves are called, and it never is."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(4, 2)
        self.decoder = nn.Linear(2, 4)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: int = 4) -> None:
    optimizer.zero_grad()
    model(torch.arange(2.0 * inputs).reshape(2, inputs) / inputs).square().mean().backward()
    optimizer.step()


def test_a_module_used_twice_has_one_weight_and_the_sum_of_its_gradients(watching: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watching(**ALL) as saved:
        model(model(torch.ones(1, 3))).sum().backward()
        gradient = model[0].weight.grad
        assert gradient is not None
        expected = gradient.numpy().copy()
        optimizer.step()
    parts = {"Sequential_0.weight", "Sequential_0.bias"}
    assert saved()[0].keys() == parts | {f"gradient/{part}" for part in parts} | {"loss_output_0"}
    np.testing.assert_array_equal(saved()[0]["gradient/Sequential_0.weight"], expected)


def test_a_module_in_two_places_has_the_name_of_the_first(watching: Any) -> None:
    shared = nn.Linear(3, 3)
    model = nn.Sequential(shared, nn.ReLU(), shared)
    with watching(weights=1, gradients=1) as saved:
        step(model, torch.optim.SGD(model.parameters(), lr=0.1), 3)
    gradients = ["gradient/Sequential_0.bias", "gradient/Sequential_0.weight"]
    assert list(saved()[0]) == ["Sequential_0.weight", *gradients]


def test_two_models_that_share_a_part(watching: Any) -> None:
    """A parameter has one name: under the model that holds most of what its optimizer moves."""
    trunk = nn.Linear(3, 3)
    first, second = nn.Sequential(trunk, nn.Linear(3, 2)), nn.Sequential(trunk, nn.Linear(3, 1))
    optimizer = torch.optim.SGD([*first.parameters(), *second[1].parameters()], lr=0.1)
    with watching(weights=1) as saved:
        (first(torch.ones(1, 3)).sum() + second(torch.ones(1, 3)).sum()).backward()
        optimizer.step()
    assert list(saved()[0]) == ["Sequential2_1.weight", "Sequential_0.weight", "Sequential_1.weight"]


def test_a_parameter_that_thaws_has_a_gradient_from_then_on(watching: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    model[0].requires_grad_(requires_grad=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watching(weights=1, gradients=1) as saved:
        step(model, optimizer)
        model[0].requires_grad_(requires_grad=True)
        step(model, optimizer)
    frozen = "gradient/Sequential_0.weight"
    assert [frozen in tensors for tensors in saved().values()] == [False, True]
    assert all("Sequential_0.weight" in tensors for tensors in saved().values())


def test_parameters_replaced_after_the_optimizer_was_built(watching: Any) -> None:
    """What the optimizer holds is what trains, and so what is saved: a head that it does not know is not passed off."""
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watching(weights=1, gradients=1) as saved:
        step(model, optimizer)
        old = model[1].weight.detach().numpy().copy()
        model[1] = nn.Linear(3, 2)
        step(model, optimizer)
        optimizer.param_groups[0]["params"] = list(model.parameters())
        new = model[1].weight.detach().numpy().copy()
        step(model, optimizer)
    run = saved()
    np.testing.assert_array_equal(run[1]["Sequential_1.weight"], old)  # it still bears its name; nothing moves it
    assert "gradient/Sequential_1.weight" not in run[1]
    np.testing.assert_array_equal(run[2]["Sequential_1.weight"], new)
    assert "gradient/Sequential_1.weight" in run[2]


def test_lazy_parameters_are_there_once_they_have_a_shape(watching: Any) -> None:
    model = nn.Sequential(nn.LazyLinear(3))
    model(torch.ones(1, 4))
    with watching(weights=1) as saved:
        step(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert saved()[0]["Sequential_0.weight"].shape == (3, 4)


def test_a_model_that_is_never_called_whole_still_gives_the_names(watching: Any) -> None:
    model = Autoencoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watching(**ALL) as saved:
        functional.mse_loss(model.decoder(model.encoder(torch.ones(1, 4))), torch.ones(1, 4)).backward()
        optimizer.step()
    names = {f"Autoencoder_{half}.{part}" for half in ("encoder", "decoder") for part in ("weight", "bias")}
    assert saved()[0].keys() == names | {f"gradient/{name}" for name in names} | {"MSELoss_output_0"}


def test_several_models_of_one_optimizer(watching: Any) -> None:
    parts = nn.ModuleDict({"a": nn.Linear(4, 2)}), Autoencoder()
    optimizer = torch.optim.SGD([{"params": part.parameters()} for part in parts], lr=0.1)
    with watching(weights=1) as saved:
        parts[1].decoder(parts[0]["a"](torch.ones(1, 4))).sum().backward()
        optimizer.step()
    assert list(saved()[0]) == ["Autoencoder_decoder.weight", "Autoencoder_encoder.weight", "ModuleDict_a.weight"]


# Functional transforms, sparse gradients, small types


def test_torch_func(watching: Any) -> None:
    """Gradients from `torch.func`, of one batch and per sample, written to the parameters and stepped on."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss(parameters: dict[str, torch.Tensor], values: torch.Tensor) -> torch.Tensor:
        outputs = torch.func.functional_call(model, parameters, (values,))
        return functional.mse_loss(outputs, torch.zeros_like(outputs))

    expected = []
    with watching(**ALL) as saved:
        for _ in range(2):
            values, parameters = torch.randn(3, 4), {n: p.detach() for n, p in model.named_parameters()}
            whole = torch.func.grad(loss)(parameters, values)
            each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, values)
            torch.testing.assert_close(each["0.weight"].mean(0), whole["0.weight"])
            for name, parameter in model.named_parameters():
                parameter.grad = whole[name]
            expected.append(whole["0.weight"].numpy().copy())
            optimizer.step()
    assert list(saved()) == [0, 1]
    for number, tensors in saved().items():
        np.testing.assert_array_equal(tensors["gradient/Sequential_0.weight"], expected[number])


def test_sparse_gradients_with_the_optimizer_made_for_them(watching: Any) -> None:
    model = nn.Sequential(nn.EmbeddingBag(6, 2, sparse=True))
    optimizer = torch.optim.SparseAdam(model.parameters())
    with watching(weights=1, gradients=1) as saved:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.tensor([[1, 3, 3]])).sum().backward()
            optimizer.step()
    gradient = saved()[1]["gradient/Sequential_0.weight"]
    assert gradient.shape == (6, 2)
    assert np.flatnonzero(gradient[:, 0]).tolist() == [1, 3]


def test_bfloat16_parameters_gradients_and_loss(watching: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.Linear(3, 2)).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    with watching(**ALL) as saved:
        loss = functional.cross_entropy(model(torch.randn(5, 4, dtype=torch.bfloat16)), torch.tensor([0, 1, 0, 1, 1]))
        loss.backward()
        assert model[0].weight.grad is not None
        expected = model[0].weight.grad.float().numpy().copy()
        optimizer.step()
    np.testing.assert_array_equal(saved()[0]["gradient/Sequential_0.weight"], expected)
    assert float(saved()[0]["CrossEntropyLoss_output_0"]) == loss.item()


# Copies


def test_a_copy_of_the_model_takes_no_name_from_it(watching: Any) -> None:
    """An average or a target network, made before the first step and moved by hand."""
    model = nn.Sequential(nn.Linear(4, 2))
    average = copy.deepcopy(model)
    averaged = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watching(weights=1) as saved:
        for _ in range(2):
            step(model, optimizer)
            averaged.update_parameters(model)
            average.load_state_dict(model.state_dict())
    assert [list(tensors) for tensors in saved().values()] == [["Sequential_0.weight"]] * 2


def test_a_watched_model_is_copied_and_saved_as_any_other(watching: Any) -> None:
    """In the middle of training, between two captured steps: the copies are equal and train on by themselves."""
    model = nn.Sequential(nn.Linear(4, 2), nn.LayerNorm(2), nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    with watching(**ALL) as saved:
        step(model, optimizer)
        file, state = io.BytesIO(), io.BytesIO()
        torch.save(model, file)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, state)
        loaded = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
        twin, its_optimizer = copy.deepcopy((model, optimizer))
        for other in (loaded, twin):
            assert all(map(torch.equal, model.state_dict().values(), other.state_dict().values()))
        step(model, optimizer)
        step(twin, its_optimizer)
    optimizer.load_state_dict(torch.load(io.BytesIO(state.getvalue()))["optimizer"])
    assert b"trackside" not in file.getvalue() + state.getvalue()
    run = saved()
    assert list(run) == [0, 1, 2]  # the copy's optimizer was not there to be waited for
    np.testing.assert_array_equal(run[1]["Sequential_0.weight"], run[2]["Sequential2_0.weight"])
    assert not np.array_equal(run[0]["Sequential_0.weight"], run[1]["Sequential_0.weight"])
