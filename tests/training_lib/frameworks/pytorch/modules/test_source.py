"""Inputs and outputs of modules: the right values under the right names, on the right steps, and nothing else felt."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from trackside.frameworks.pytorch.modules import calls as module_calls

torch.set_num_threads(1)
IO = {"inputs": 1, "outputs": 1}
EVERYTHING = dict.fromkeys(
    (
        "losses", "weights", "biases", "gradients", "buffers", "optimizer_variables", "hyperparameters", "inputs",
        "outputs", "labels", "predictions", "metrics", "raw_gradients", "activation_gradients",
    ), 1
)  # fmt: skip


class Net(nn.Module):
    """Two layers and dropout."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.fc1 = nn.Linear(6, 5)
        self.drop = nn.Dropout(dropout)
        self.fc2 = nn.Linear(5, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.drop(torch.relu(self.fc1(values))))


def one_step(model: nn.Module, forward: Callable[[], torch.Tensor]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward().sum().backward()
    optimizer.step()


def train(steps: int = 4, *, dropout: float = 0.0, model: nn.Module | None = None) -> tuple[nn.Module, list[float]]:
    torch.manual_seed(0)
    model = model or Net(dropout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(steps):
        values, labels = torch.randn(4, 6), torch.randint(0, 3, (4,))
        optimizer.zero_grad()
        loss = criterion(model(values), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def outputs_of(step: dict[str, np.ndarray]) -> list[str]:
    return sorted(name for name in step if "_output_" in name or "_input_" in name)


# Values, names, steps


def test_the_first_step_has_its_inputs_and_outputs(capturing: Any, read_run: Any) -> None:
    with capturing(**IO) as store:
        model, values = Net(), torch.randn(4, 6)
        hidden = torch.relu(model.fc1(values)).detach()
        expected = model(values).detach()
        one_step(model, lambda: model(values))
    (step,) = read_run(store).values()
    assert outputs_of(step) == [
        "Net_input_0", "Net_output_0", "drop_input_0", "drop_output_0", "fc1_input_0", "fc1_output_0", "fc2_input_0",
        "fc2_output_0",
    ]  # fmt: skip
    np.testing.assert_array_equal(step["Net_input_0"], values.numpy())
    np.testing.assert_array_equal(step["Net_output_0"], expected.numpy())
    np.testing.assert_array_equal(step["fc2_input_0"], hidden.numpy())


@pytest.mark.parametrize(
    ("intervals", "steps"),
    [
        pytest.param({"outputs": 2}, [0, 2, 4], id="every-second"),
        pytest.param({"outputs": 3, "losses": 2}, [0, 3], id="beside-another-collection"),
        pytest.param({"losses": 1}, [], id="not-asked"),
        pytest.param({"gradients": 1, "weights": 2}, [], id="parameters-only"),
    ],
)
def test_the_schedule_decides(intervals: dict[str, int], steps: list[int], capturing: Any, read_run: Any) -> None:
    with capturing(**intervals) as store:
        train(5)
    assert [step for step, tensors in sorted(read_run(store).items()) if "fc1_output_0" in tensors] == steps


def test_nothing_is_in_place_when_nothing_is_due(capturing: Any) -> None:
    original = nn.Module.__call__
    seen: list[bool] = []

    class Looking(Net):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            seen.append(nn.Module.__call__ is original)
            return super().forward(values)

    with capturing(outputs=3, losses=1):
        model, _ = train(6, model=Looking())
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert seen == [False, True, True, False, True, True]
    assert nn.Module.__call__ is original


def test_without_module_collections_calls_are_never_touched(capturing: Any) -> None:
    original = nn.Module.__call__
    seen: set[bool] = set()

    class Looking(Net):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            seen.add(nn.Module.__call__ is original)
            return super().forward(values)

    with capturing(losses=1, weights=1, gradients=1):
        train(3, model=Looking())
    assert seen == {True}


@dataclass
class Structured:
    """An output of one's own."""

    scores: torch.Tensor
    rest: dict[str, torch.Tensor]


class Inner(nn.Module):
    """Takes a keyword, gives a structure."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, values: Any, *, scale: Any = None, flag: bool = True) -> Structured:
        return Structured(self.fc(values["x"]) * scale, {"b": values["x"] + 1, "a": values["x"] + 2})


class Outer(nn.Module):
    """Uses one module twice, and gives a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.act = nn.ReLU()

    def forward(self, values: torch.Tensor) -> tuple[torch.Tensor, None, list[torch.Tensor]]:
        out = self.inner({"x": values}, scale=torch.tensor(3.0))
        return self.act(out.scores), None, [self.act(out.rest["a"])]


def test_structures_keywords_and_repeated_calls(capturing: Any, read_run: Any) -> None:
    with capturing(**IO) as store:
        model, values = Outer(), torch.ones(1, 2)
        one_step(model, lambda: model(values)[0])
    (step,) = read_run(store).values()
    assert outputs_of(step) == sorted(
        [
            "Outer_input_0", "Outer_output_0", "Outer_output_1", "act_input_0", "act_input_1", "act_output_0",
            "act_output_1", "inner.fc_input_0", "inner.fc_output_0", "inner_input_0", "inner_input_1", "inner_output_0",
            "inner_output_1", "inner_output_2",
        ]
    )  # fmt: skip
    assert float(step["inner_input_1"]) == 3
    np.testing.assert_array_equal(step["inner_output_1"], [[2, 2]])
    np.testing.assert_array_equal(step["act_output_1"], [[3, 3]])


def test_an_input_is_what_it_was_before_the_module_wrote_over_it(capturing: Any, read_run: Any) -> None:
    with capturing(**IO) as store:
        model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True), nn.Linear(2, 1))
        with torch.no_grad():
            model[0].bias.copy_(torch.tensor([-100.0, 100.0]))
        one_step(model, lambda: model(torch.zeros(1, 2)))
    (step,) = read_run(store).values()
    np.testing.assert_array_equal(step["1_input_0"], [[-100, 100]])
    np.testing.assert_array_equal(step["1_output_0"], [[0, 100]])
    np.testing.assert_array_equal(step["0_output_0"], [[-100, 100]])


def test_accumulation_counts_on(capturing: Any, read_run: Any) -> None:
    with capturing(outputs=1) as store:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            for _ in range(3):
                model(torch.randn(1, 6)).sum().backward()
            optimizer.step()
    for step in read_run(store).values():
        assert {f"fc1_output_{k}" for k in range(3)} <= set(step)
        assert "fc1_output_3" not in step


def test_a_second_root_has_its_name_before_its_modules(capturing: Any, read_run: Any) -> None:
    with capturing(outputs=1) as store:
        first, second = Net(), nn.Sequential(nn.Linear(3, 2))
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
        second(first(torch.randn(2, 6))).sum().backward()
        optimizer.step()
    (step,) = read_run(store).values()
    assert {"Net_output_0", "fc1_output_0", "Sequential_output_0", "Sequential.0_output_0"} <= set(step)


def test_a_model_that_no_optimizer_trains_is_left_out(capturing: Any, read_run: Any) -> None:
    with capturing(outputs=1) as store:
        model, teacher = Net(), nn.Sequential(nn.Linear(6, 3))
        one_step(model, lambda: model(torch.ones(1, 6)) - teacher(torch.ones(1, 6)))
    (step,) = read_run(store).values()
    assert not [name for name in step if name.startswith(("Sequential", "0"))]
    assert "Net_output_0" in step


def test_modules_that_are_called_without_their_root(capturing: Any, read_run: Any) -> None:
    with capturing(outputs=1) as store:
        model = Net()
        one_step(model, lambda: model.fc2(model.fc1(torch.ones(1, 6))))
    (step,) = read_run(store).values()
    assert outputs_of(step) == ["fc1_output_0", "fc2_output_0"]


@pytest.mark.parametrize("use_reentrant", [pytest.param(True, id="reentrant"), pytest.param(False, id="other")])
def test_checkpointing_is_seen_once(use_reentrant: bool, capturing: Any, read_run: Any) -> None:
    class Checkpointed(Net):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.fc2(checkpoint(self.fc1, values, use_reentrant=use_reentrant))

    with capturing(outputs=1) as store:
        model = Checkpointed()
        one_step(model, lambda: model(torch.ones(1, 6, requires_grad=True)))
    (step,) = read_run(store).values()
    assert outputs_of(step) == ["Checkpointed_output_0", "fc1_output_0", "fc2_output_0"]


def test_selective_checkpointing_recomputes_what_it_should(capturing: Any) -> None:
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    def policy(_context: Any, op: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        is_kept = op in {torch.ops.aten.addmm.default, torch.ops.aten._to_copy.default, torch.ops.aten.clone.default}
        return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE

    def run() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Net()

        def contexts() -> Any:
            return create_selective_checkpoint_contexts(policy)

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            checkpoint(model, torch.randn(2, 6), use_reentrant=False, context_fn=contexts).sum().backward()
            optimizer.step()
        return [p.detach().clone() for p in model.parameters()]

    bare = run()
    with capturing(**EVERYTHING):
        hooked = run()
    assert all(torch.equal(a, b) for a, b in zip(bare, hooked, strict=True))


def test_functional_transformations_are_passed_over(
    capturing: Any, read_run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with capturing(**IO) as store:
        model = Net()
        parameters = {name: p.detach() for name, p in model.named_parameters()}

        def loss(parameters: Any, values: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(model, parameters, (values,)).sum()

        def step() -> torch.Tensor:
            torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, torch.randn(3, 1, 6))
            return model(torch.ones(1, 6))

        one_step(model, step)
    (step_,) = read_run(store).values()
    assert "fc2_output_0" in step_
    assert "fc2_output_1" not in step_
    assert not caplog.records


def test_data_parallel_is_its_module(capturing: Any, read_run: Any) -> None:
    with capturing(outputs=1) as store:
        model = nn.DataParallel(Net())
        one_step(model, lambda: model(torch.ones(2, 6)))
    (step,) = read_run(store).values()
    assert outputs_of(step) == ["Net_output_0", "drop_output_0", "fc1_output_0", "fc2_output_0"]


def test_a_replica_is_known_by_its_original(capturing: Any, read_run: Any) -> None:
    with capturing(outputs=1) as store:
        model = Net()
        replica = model.fc1._replicate_for_data_parallel()
        replica.weight, replica.bias = model.fc1.weight, model.fc1.bias
        one_step(model, lambda: replica(torch.ones(1, 6)))
    (step,) = read_run(store).values()
    assert outputs_of(step) == ["fc1_output_0"]


# Gradients of activations


def test_gradients_of_activations_on_request(capturing: Any, read_run: Any) -> None:
    expected: list[torch.Tensor] = []
    with capturing(activation_gradients=2) as store:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            hidden = model.fc1(torch.ones(1, 6))
            hidden.register_hook(lambda gradient: expected.append(gradient.clone()))  # type: ignore[no-untyped-call]
            model.fc2(hidden).sum().backward()
            optimizer.step()
    run = read_run(store)
    assert sorted(run) == [0, 2]
    assert sorted(run[0]) == ["activation_gradient/fc1_output_0", "activation_gradient/fc2_output_0"]
    np.testing.assert_array_equal(run[2]["activation_gradient/fc1_output_0"], expected[2].numpy())


def test_gradients_of_activations_are_not_gathered_unasked(capturing: Any, read_run: Any) -> None:
    with capturing(outputs=1, gradients=1) as store:
        train(2)
    assert not any(name.startswith("activation_gradient") for step in read_run(store).values() for name in step)


# Neutrality


@pytest.mark.parametrize("dropout", [pytest.param(0.0, id="plain"), pytest.param(0.5, id="dropout")])
def test_everything_captured_changes_nothing(dropout: float, capturing: Any) -> None:
    bare, bare_losses = train(5, dropout=dropout)
    state = torch.random.get_rng_state()
    with capturing(**EVERYTHING):
        hooked, losses = train(5, dropout=dropout)
    assert losses == bare_losses
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(bare.parameters(), hooked.parameters(), strict=True))


def test_no_graph_outlives_its_step(capturing: Any) -> None:
    with capturing(**EVERYTHING):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            output = model(torch.ones(1, 6))
            loss = functional.cross_entropy(output, torch.tensor([1]))
            loss.backward()
            optimizer.step()
            references = [weakref.ref(output), weakref.ref(loss)]
            del output, loss
            assert not any(reference() is not None for reference in references)
        reference = weakref.ref(model)
        del model, optimizer
        gc.collect()
        assert reference() is None


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_watched_model_is_copied_pickled_and_scripted_as_ever(capturing: Any) -> None:
    with capturing(**EVERYTHING):
        model = Net()
        torch.optim.SGD(model.parameters(), lr=0.1)  # from here on calls are seen
        twin = copy.deepcopy(model)
        pickled = pickle.dumps(model)
        assert b"trackside" not in pickled
        file = io.BytesIO()
        torch.save(model, file)
        assert b"trackside" not in file.getvalue()
        values = torch.ones(1, 6)
        scripted, traced = torch.jit.script(model), torch.jit.trace(model, values)
        graph = torch.fx.symbolic_trace(model)
        for other in (twin, pickle.loads(pickled), scripted, traced, graph):  # noqa: S301 - our own bytes
            assert torch.equal(other(values), model(values))


class Compiling:
    """A backend that counts what it is given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, _inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it imports its compiler
@pytest.mark.parametrize(
    ("compiled", "steps_seen"),
    [pytest.param("eager_step", [0, 3], id="eager-step"), pytest.param("params_only", [], id="params-only")],
)
@pytest.mark.parametrize("way", ["before", "after", "in-place", "whole-step"])
def test_compiled_models(way: str, compiled: str, steps_seen: list[int], capturing: Any, read_run: Any) -> None:
    def run(backend: Compiling) -> list[float]:
        torch.compiler.reset()
        torch.manual_seed(0)
        model: Any = Net()
        called = model
        if way == "before":
            called = torch.compile(model, backend=backend, fullgraph=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if way == "after":
            called = torch.compile(model, backend=backend, fullgraph=True)
        if way == "in-place":
            model.compile(backend=backend, fullgraph=True)

        def step(values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            loss = functional.cross_entropy(called(values), labels)
            if way != "whole-step":
                loss.backward()
            return loss

        if way == "whole-step":
            step = torch.compile(step, backend=backend, fullgraph=True)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = step(torch.randn(4, 6), torch.randint(0, 3, (4,)))
            if way == "whole-step":
                loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    bare, hooked = Compiling(), Compiling()
    expected = run(bare)
    with capturing(compiled=compiled, outputs=3) as store:
        losses = run(hooked)
    assert losses == expected
    assert (bare.graphs, hooked.graphs) == (1, 1)
    assert [step for step, tensors in sorted(read_run(store).items()) if "fc1_output_0" in tensors] == steps_seen
    assert sys.modules["torch._dynamo.eval_frame"]._stance.stance == "default"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it imports its compiler
def test_the_users_own_stance_comes_back(capturing: Any) -> None:
    frames = pytest.importorskip("torch._dynamo.eval_frame")
    with torch.compiler.set_stance("eager_on_recompile"), capturing(outputs=3):
        train(5)
        assert frames._stance.stance == "eager_on_recompile"
    with capturing(outputs=1):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.ones(1, 6)).sum().backward()
            optimizer.step()
        assert frames._stance.stance == "force_eager"
    assert frames._stance.stance == "default"


# Faults


class OddTensor(torch.Tensor):
    """Refuses to be looked at."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.detach:
            raise RuntimeError("do not touch")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_an_odd_tensor_costs_only_itself(capturing: Any, read_run: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Odd(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return values.as_subclass(OddTensor)

    with capturing(outputs=1) as store:
        model = nn.Sequential(nn.Linear(2, 2), Odd())
        for _ in range(2):
            one_step(model, lambda: model(torch.ones(1, 2)).as_subclass(torch.Tensor))
    run = read_run(store)
    assert [outputs_of(step) for step in run.values()] == [["0_output_0"]] * 2
    assert len([r for r in caplog.records if "do not touch" in r.getMessage()]) == 1


def test_a_bug_of_ours_switches_off_modules_alone(
    capturing: Any, read_run: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare, bare_losses = train(4)
    from trackside.frameworks.pytorch.modules import source as modules

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(modules, "flatten", broken)
    original = nn.Module.__call__
    with capturing(outputs=1, losses=1) as store:
        hooked, losses = train(4)
        assert nn.Module.__call__ is original
    assert losses == bare_losses
    assert all(torch.equal(a, b) for a, b in zip(bare.parameters(), hooked.parameters(), strict=True))
    assert [sorted(step) for step in read_run(store).values()] == [["CrossEntropyLoss_output_0"]] * 4
    (record,) = caplog.records
    assert "watching modules failed" in record.getMessage()


def test_the_users_exception_passes_and_the_next_call_is_seen(capturing: Any, read_run: Any) -> None:
    class Failing(Net):
        fails = True

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            if self.fails:
                raise KeyError("mine")
            return super().forward(values)

    with capturing(outputs=1) as store:
        model = Failing()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(KeyError, match="mine"):
            model(torch.ones(1, 6))
        model.fails = False
        model(torch.ones(1, 6)).sum().backward()
        optimizer.step()
    (step,) = read_run(store).values()
    assert "Failing_output_0" in step


def test_after_many_switches_the_replacement_stays_and_is_inert(
    capturing: Any, read_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_calls, "_MOST_SWITCHES", 2)
    original = nn.Module.__call__
    with capturing(outputs=2) as store:
        train(8)
        assert nn.Module.__call__ is not original
    assert [step for step, t in sorted(read_run(store).items()) if "fc1_output_0" in t] == [0, 2, 4, 6]
    assert nn.Module.__call__ is original


def test_what_comes_before_training_is_bounded(capturing: Any, read_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from trackside.frameworks.pytorch.saving import tensor_saver as saving

    monkeypatch.setattr(saving, "MOST_BYTES_BEFORE_TRAINING", 1000)
    with capturing(outputs=1) as store:
        model = nn.Sequential(nn.Linear(2, 100))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            model(torch.ones(1, 2))
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    (step,) = read_run(store).values()
    assert sum(value.nbytes for value in step.values()) <= 1000
