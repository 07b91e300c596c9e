"""Losses of evaluation, under the names of training, with no change to the script; and never where there is none."""

from __future__ import annotations

import copy
import gc
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside import open_trial

torch.set_num_threads(1)
VALUES, LABELS = torch.arange(24.0).reshape(4, 6) / 10, torch.tensor([0, 1, 2, 1])


class Net(nn.Module):
    """Gives scores."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.fc(values)


class WithLoss(Net):
    """Gives its own loss, in the shape it is told."""

    def __init__(self, shape: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, values: torch.Tensor) -> Any:
        scores = self.fc(values)
        return self.shape(functional.cross_entropy(scores, LABELS) + 1, scores)


class FocalLoss(nn.Module):
    """A loss of the user's own, on top of one of torch's."""

    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (1 - torch.exp(-functional.cross_entropy(scores, labels, reduction="none"))).mean()


class SumLoss(nn.Module):
    """A sum of two modules."""

    def __init__(self) -> None:
        super().__init__()
        self.ce, self.mse = nn.CrossEntropyLoss(), nn.MSELoss()

    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.ce(scores, labels) + self.mse(scores, torch.zeros_like(scores))


def learn(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model.train()
    optimizer.zero_grad()
    output = model(VALUES)
    loss = functional.cross_entropy(output, LABELS) if isinstance(output, torch.Tensor) else _first(output)
    loss.backward()
    optimizer.step()


def _first(output: Any) -> torch.Tensor:
    values = list(output.values()) if isinstance(output, dict) else list(output)
    return next(v for v in values if isinstance(v, torch.Tensor) and v.dim() == 0)


def trained(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    learn(model, optimizer)
    return optimizer


def evals(run: dict[tuple[str, int], dict[str, np.ndarray]]) -> list[list[str]]:
    return [sorted(tensors) for (mode, _), tensors in sorted(run.items()) if mode == "EVAL"]


def as_function(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, labels)  # looked up at the call


def taken_before(
    scores: torch.Tensor, labels: torch.Tensor, loss_of: Callable[..., torch.Tensor] = functional.cross_entropy
) -> torch.Tensor:
    return loss_of(scores, labels)  # as after `from torch.nn.functional import cross_entropy`


def smoothed(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, labels, label_smoothing=0.1)


def one_hot(labels: torch.Tensor) -> torch.Tensor:
    return functional.one_hot(labels, 3).float()


@pytest.mark.parametrize(
    ("loss_of", "name"),
    [
        pytest.param(nn.CrossEntropyLoss(), "CrossEntropyLoss", id="module"),
        pytest.param(as_function, "CrossEntropyLoss", id="function"),
        pytest.param(taken_before, "CrossEntropyLoss", id="function-taken-out-of-torch-before"),
        pytest.param(lambda s, y: functional.mse_loss(input=s, target=one_hot(y)), "MSELoss", id="by-keyword"),
        pytest.param(lambda s, y: functional.mse_loss(s, one_hot(y)), "MSELoss", id="mse"),
        pytest.param(lambda s, y: nn.L1Loss()(s, one_hot(y)), "L1Loss", id="l1"),
        pytest.param(lambda s, y: nn.BCEWithLogitsLoss()(s, one_hot(y)), "BCEWithLogitsLoss", id="binary-with-logits"),
        pytest.param(lambda s, y: nn.BCELoss()(s.sigmoid(), one_hot(y)), "BCELoss", id="binary"),
        pytest.param(lambda s, y: nn.HuberLoss()(s, one_hot(y)), "HuberLoss", id="huber"),
        pytest.param(lambda s, y: nn.SmoothL1Loss()(s, one_hot(y)), "SmoothL1Loss", id="smooth-l1"),
        pytest.param(smoothed, "CrossEntropyLoss", id="smoothed-labels"),
        pytest.param(lambda s, y: functional.cross_entropy(s, one_hot(y)), "CrossEntropyLoss", id="soft-labels"),
        pytest.param(lambda s, y: nn.KLDivLoss(reduction="sum")(s, one_hot(y)), "loss", id="kl"),
        pytest.param(
            lambda s, y: nn.NLLLoss()(functional.log_softmax(s, 1), y), "CrossEntropyLoss", id="nll-of-log-softmax"
        ),
        pytest.param(FocalLoss(), "loss", id="a-loss-of-ones-own"),
        pytest.param(SumLoss(), "loss", id="a-module-that-sums"),
        pytest.param(lambda s, y: functional.cross_entropy(s, y, reduction="sum"), "CrossEntropyLoss", id="sum"),
    ],
)
def test_evaluation_has_the_names_of_training(
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], name: str, capturing: Any, read_modes: Any
) -> None:
    with capturing(losses=1) as store:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model.train()
            loss_of(model(VALUES), LABELS).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                expected = loss_of(model(VALUES), LABELS).item()
    run = read_modes(store)
    assert sorted(run) == [("EVAL", 0), ("EVAL", 1), ("TRAIN", 0), ("TRAIN", 1)]
    assert {tuple(step) for (mode, _), step in run.items() if mode == "EVAL"} == {(f"{name}_output_0",)}
    assert all(next(iter(step)) == f"{name}_output_0" for step in run.values())  # of a sum the parts follow in training
    assert float(run["EVAL", 1][f"{name}_output_0"]) == pytest.approx(expected)


IGNORED = torch.tensor([0, -100, 2, 1])


@pytest.mark.parametrize(
    ("trained", "evaluated", "factor"),
    [
        pytest.param("mean", lambda s: functional.cross_entropy(s, LABELS, reduction="sum"), 1 / 4, id="function"),
        pytest.param("mean", lambda s: nn.CrossEntropyLoss(reduction="sum")(s, LABELS), 1 / 4, id="module"),
        pytest.param("divided", lambda s: functional.cross_entropy(s, LABELS, reduction="sum"), 1 / 4, id="divided"),
        pytest.param("mean", lambda s: functional.cross_entropy(s, IGNORED, reduction="sum"), 1 / 3, id="ignored"),
        pytest.param(
            "mean", lambda s: functional.nll_loss(s.log_softmax(1), LABELS, reduction="sum"), 1 / 4, id="likelihood"
        ),
        pytest.param(
            "mean", lambda s: functional.cross_entropy(s, one_hot(LABELS), reduction="sum"), 1 / 4, id="soft-labels"
        ),
        pytest.param("mean", lambda s: functional.cross_entropy(s, LABELS), 1.0, id="mean"),
        pytest.param("sum", lambda s: functional.cross_entropy(s, LABELS, reduction="sum"), 1.0, id="both-sums"),
        pytest.param("other", lambda s: functional.cross_entropy(s, LABELS, reduction="sum"), 1.0, id="another-loss"),
    ],
)
def test_a_sum_of_evaluation_is_recorded_as_the_mean_of_training(
    trained: str, evaluated: Callable[[torch.Tensor], torch.Tensor], factor: float, capturing: Any, read_modes: Any
) -> None:
    losses: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "mean": lambda s: functional.cross_entropy(s, LABELS),
        "divided": lambda s: functional.cross_entropy(s, LABELS, reduction="sum") / 4,
        "sum": lambda s: functional.cross_entropy(s, LABELS, reduction="sum"),
        "other": lambda s: functional.mse_loss(s, one_hot(LABELS)),
    }
    with capturing(losses=1) as store:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model.train()
            losses[trained](model(VALUES)).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                expected = evaluated(model(VALUES)).item() * factor
    (found,) = read_modes(store)["EVAL", 1].values()
    assert float(found) == pytest.approx(expected)


class Mapped(dict[str, Any]):
    """An output as Hugging Face gives it: a mapping with attributes."""

    @property
    def loss(self) -> Any:
        return self["loss"]


@pytest.mark.parametrize(
    ("shape", "has_loss"),
    [
        pytest.param(lambda loss, scores: Mapped(loss=loss, logits=scores), True, id="hugging-face"),
        pytest.param(lambda loss, scores: {"loss": loss, "scores": scores}, True, id="dict"),
        pytest.param(lambda loss, scores: (scores, loss), True, id="nanogpt"),
        pytest.param(lambda loss, scores: (scores, loss, loss), False, id="two-scalars-tell-nothing"),
    ],
)
def test_a_model_that_gives_its_loss(
    shape: Callable[[torch.Tensor, torch.Tensor], Any], has_loss: bool, capturing: Any, read_modes: Any
) -> None:
    with capturing(losses=1) as store:
        model = WithLoss(shape)
        trained(model)
        model.eval()
        with torch.no_grad():
            model(VALUES)
    # The model adds to its cross entropy, so in training this is a loss by hand.
    expected = ["loss_output_0"] if has_loss else ["CrossEntropyLoss_output_0"]
    assert evals(read_modes(store)) == [expected]


class WithDividedSum(Net):
    """Gives a sum over the rows divided by their number, as Hugging Face's models do for a Trainer."""

    def forward(self, values: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": functional.cross_entropy(self.fc(values), LABELS, reduction="sum") / len(LABELS)}


def test_a_loss_that_the_model_scales_has_one_name_in_both_modes(capturing: Any, read_modes: Any) -> None:
    """Issue 41."""
    with capturing(losses=1) as store:
        model = WithDividedSum()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(VALUES)["loss"].backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            expected = model(VALUES)["loss"].item()
    run = read_modes(store)
    assert float(run["EVAL", 0]["CrossEntropyLoss_output_0"]) == pytest.approx(expected)
    assert list(run["EVAL", 0]) == list(run["TRAIN", 0]) == ["CrossEntropyLoss_output_0"]


class WithPenalty(Net):
    """Gives scores, and a number beside them as it is told."""

    def __init__(self, number: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.number = number

    def forward(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.fc(values)
        return scores, self.number(scores)


def _entropy(scores: torch.Tensor) -> torch.Tensor:
    shares = scores.softmax(1)
    return (shares * shares.log()).sum(1).mean()


def _sum_of_entropies(scores: torch.Tensor) -> torch.Tensor:
    return (_entropy(scores) + _entropy(2 * scores)) / 2


@pytest.mark.parametrize(
    ("number", "loss_of", "is_loss"),
    [
        pytest.param(_entropy, lambda ce, penalty: ce - 0.001 * penalty, False, id="sparsity-of-TabNet"),
        pytest.param(_entropy, lambda ce, penalty: (penalty * 2 + ce) / 4, False, id="first-of-two-terms"),
        pytest.param(_sum_of_entropies, lambda ce, penalty: ce - 0.001 * penalty, False, id="a-sum-among-terms"),
        pytest.param(_sum_of_entropies, lambda _, penalty: penalty / 4, True, id="a-sum"),
        pytest.param(lambda scores: scores.detach().max(), lambda ce, _: ce, False, id="without-gradient"),
        pytest.param(_entropy, lambda _, penalty: penalty / 4, True, id="divided-for-accumulation"),
        pytest.param(
            lambda scores: functional.cross_entropy(scores, LABELS),
            lambda _, loss: loss + 0.001 * loss.detach().sqrt() * loss,
            True,
            id="a-loss-of-torch-among-terms",
        ),
    ],
)
def test_a_number_beside_the_output(
    number: Callable[[torch.Tensor], torch.Tensor],
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    is_loss: bool,
    capturing: Any,
    read_modes: Any,
) -> None:
    with capturing(losses=1) as store:
        model = WithPenalty(number)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model.train()
            scores, beside = model(VALUES)
            loss_of((scores * 1.5).log_softmax(1)[torch.arange(4), LABELS].mean().neg(), beside).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                model(VALUES)
    assert len(evals(read_modes(store))) == (3 if is_loss else 1)  # after the first one the model is seen in training


def test_a_training_call_without_a_backward_pass_is_not_held(capturing: Any) -> None:
    with capturing(losses=1, model_inputs=1):
        model = WithPenalty(_entropy)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        (model.fc.weight.sum() * 0).backward()
        optimizer.step()  # the first step: from here on the calls of the model are seen
        output = model(VALUES)
        held = weakref.ref(output[1])
        del output
        gc.collect()
        assert held() is None


def test_steps_of_evaluation_are_batches_and_may_have_several_losses(capturing: Any, read_modes: Any) -> None:
    with capturing(losses=1) as store:
        model, criterion = Net(), nn.CrossEntropyLoss()
        optimizer = trained(model)
        for _ in range(2):
            model.eval()
            with torch.inference_mode():
                for _ in range(3):
                    scores = model(VALUES)
                    criterion(scores, LABELS)
                    functional.mse_loss(scores, one_hot(LABELS))
                    criterion(scores, LABELS)
            learn(model, optimizer)
    run = read_modes(store)
    assert sorted(run) == [*(("EVAL", k) for k in range(6)), *(("TRAIN", k) for k in range(3))]
    names = ["CrossEntropyLoss_output_0", "CrossEntropyLoss_output_1", "MSELoss_output_0"]
    assert evals(run) == [names] * 6


def test_the_modes_have_schedules_of_their_own(capturing: Any, read_modes: Any) -> None:
    with capturing(losses=2) as store:
        model = Net()
        optimizer = trained(model)
        for _ in range(2):
            model.eval()
            with torch.no_grad():
                for _ in range(3):
                    functional.cross_entropy(model(VALUES), LABELS)
            learn(model, optimizer)
    assert sorted(read_modes(store)) == [*(("EVAL", k) for k in (0, 2, 4)), *(("TRAIN", k) for k in (0, 2))]


def test_a_training_step_under_way_survives_an_evaluation(capturing: Any, read_modes: Any) -> None:
    with capturing(losses=1, outputs=1) as store:
        model = Net()
        optimizer = trained(model)
        functional.cross_entropy(model(VALUES), LABELS).backward()
        model.eval()
        with torch.no_grad():
            functional.mse_loss(model(VALUES), one_hot(LABELS))
        model.train()
        functional.cross_entropy(model(VALUES), LABELS).backward()
        optimizer.step()
    run = read_modes(store)
    assert {"CrossEntropyLoss_output_0", "CrossEntropyLoss_output_1", "fc_output_0", "fc_output_1"} <= set(
        run["TRAIN", 1]
    )
    assert sorted(run["EVAL", 0]) == ["MSELoss_output_0", "Net_output_0", "fc_output_0"]


def _without_eval(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    with torch.no_grad():
        functional.cross_entropy(model(VALUES), LABELS)


def _of_another_model(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    other = nn.Linear(6, 3).eval()
    functional.cross_entropy(other(VALUES), LABELS)


def _called_without_a_loss(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model.eval()
    with torch.no_grad():
        model(VALUES)


def _a_loss_without_the_model(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model.eval()
    functional.mse_loss(VALUES, VALUES)


def _training_in_eval_mode(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model.eval()
    for _ in range(2):
        functional.cross_entropy(model(VALUES), LABELS).backward()
        optimizer.step()


def _after_eval_is_over(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model.eval()
    model.train()
    with torch.no_grad():
        functional.cross_entropy(model(VALUES), LABELS)


@pytest.mark.parametrize(
    "during",
    [
        pytest.param(_without_eval, id="no-grad-alone"),
        pytest.param(_of_another_model, id="another-model"),
        pytest.param(_called_without_a_loss, id="prediction"),
        pytest.param(_a_loss_without_the_model, id="a-loss-of-nothing"),
        pytest.param(_training_in_eval_mode, id="training-in-eval-mode"),
        pytest.param(_after_eval_is_over, id="over"),
    ],
)
def test_there_is_no_loss_of_evaluation(
    during: Callable[[nn.Module, torch.optim.Optimizer], None], capturing: Any, read_modes: Any
) -> None:
    with capturing(losses=1) as store:
        model = Net()
        optimizer = trained(model)
        during(model, optimizer)
        learn(model, optimizer)
    run = read_modes(store)
    assert evals(run) == []
    assert all(list(step) == ["CrossEntropyLoss_output_0"] for step in run.values())
    assert len(run) == (4 if during is _training_in_eval_mode else 2)


def test_evaluation_goes_on_being_seen_in_a_run_that_trains_in_eval_mode(capturing: Any, read_modes: Any) -> None:
    with capturing(losses=1) as store:
        model = Net()
        optimizer = trained(model)
        for _ in range(2):
            _training_in_eval_mode(model, optimizer)
            model.eval()
            with torch.no_grad():
                functional.cross_entropy(model(VALUES), LABELS)
    run = read_modes(store)
    assert [key for key in sorted(run) if key[0] == "EVAL"] == [("EVAL", 0), ("EVAL", 1)]
    assert len(run) == 7


@pytest.mark.parametrize(
    "copied",
    [
        pytest.param(copy.deepcopy, id="deep-copy"),
        pytest.param(torch.optim.swa_utils.AveragedModel, id="averaged"),
    ],
)
def test_an_average_of_the_weights_is_evaluated_too(
    copied: Callable[[nn.Module], nn.Module], capturing: Any, read_modes: Any
) -> None:
    with capturing(losses=1) as store:
        model = Net()
        average = copied(model)
        optimizer = trained(model)
        average.eval()
        with torch.no_grad():
            functional.cross_entropy(average(VALUES), LABELS)
        learn(model, optimizer)
    assert evals(read_modes(store)) == [["CrossEntropyLoss_output_0"]]


def test_a_model_never_called_at_its_root(capturing: Any, read_modes: Any) -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.Linear(6, 4), nn.Linear(4, 3)

    with capturing(losses=1) as store:
        model = Pair()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        functional.cross_entropy(model.decoder(model.encoder(VALUES)), LABELS).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                functional.cross_entropy(model.decoder(model.encoder(VALUES)), LABELS)
    assert evals(read_modes(store)) == [["CrossEntropyLoss_output_0"]] * 3


def test_what_the_modules_give_in_evaluation(capturing: Any, read_modes: Any) -> None:
    with capturing(outputs=1, labels=1, predictions=1, metrics=1, gradients=1) as store:
        model, criterion = Net(), nn.CrossEntropyLoss()
        trained(model)
        model.eval()
        with torch.no_grad():
            scores = model(VALUES)
            criterion(scores, LABELS)
    step = read_modes(store)["EVAL", 0]
    assert sorted(step) == [
        "CrossEntropyLoss_input_0", "CrossEntropyLoss_input_1", "Net_output_0", "fc_output_0", "metrics/accuracy",
    ]  # fmt: skip
    np.testing.assert_array_equal(step["CrossEntropyLoss_input_0"], scores.numpy())
    assert float(step["metrics/accuracy"]) == (scores.argmax(1) == LABELS).float().mean().item()


def test_a_rule_sees_both(capturing: Any, tmp_path: Any) -> None:
    """What an overfit rule needs: the losses of both modes under one name, with nothing said by the script."""
    from trackside.storage.local import LocalStore

    with capturing(LocalStore(tmp_path / "debug-output"), losses=1):
        model = Net()
        optimizer = trained(model)
        for _ in range(3):
            learn(model, optimizer)
            model.eval()
            with torch.no_grad():
                for _ in range(2):
                    functional.cross_entropy(model(VALUES), LABELS)
    trial = open_trial(str(tmp_path))
    steps = {mode: len(trial.tensor("CrossEntropyLoss_output_0", mode=mode).steps) for mode in ("TRAIN", "EVAL")}
    assert steps == {"TRAIN": 4, "EVAL": 6}


# Neutral and harmless


def _in_place() -> tuple[Any, ...]:
    functions = (functional.cross_entropy, functional.mse_loss)
    return nn.Module.__call__, nn.Module.train, *functions, *(function.__code__ for function in functions)


@pytest.fixture
def untouched() -> Iterator[None]:
    before = _in_place()
    names = set(vars(functional))
    yield
    assert _in_place() == before
    assert set(vars(functional)) == names


@pytest.mark.usefixtures("untouched")
def test_nothing_is_in_place_in_training(capturing: Any) -> None:
    call, function = nn.Module.__call__, functional.cross_entropy
    code, signature = function.__code__, inspect.signature(function)
    with capturing(losses=1):
        model = Net()
        optimizer = trained(model)
        model.eval()
        assert nn.Module.__call__ is not call
        assert function.__code__ is not code
        assert functional.cross_entropy is function
        assert inspect.signature(function) == signature
        model.train()
        assert (nn.Module.__call__, function.__code__) == (call, code)
        model.eval()
        model(VALUES)
        optimizer.step()
        assert (nn.Module.__call__, function.__code__) == (call, code)
        model.eval()


@pytest.mark.usefixtures("untouched")
def test_a_wrong_call_is_refused_in_the_same_words(capturing: Any) -> None:
    def said(call: Callable[[], Any]) -> str:
        with pytest.raises((TypeError, RuntimeError)) as caught:
            call()
        return f"{caught.type} {caught.value}"

    calls: list[Callable[[], Any]] = [
        lambda: functional.cross_entropy(VALUES),  # type: ignore[call-arg]
        lambda: functional.mse_loss(VALUES, VALUES, mean=True),  # type: ignore[call-arg]
        lambda: functional.cross_entropy(VALUES, LABELS.float()),
    ]
    bare = [said(call) for call in calls]
    with capturing(losses=1):
        model = Net()
        trained(model)
        model.eval()
        model(VALUES)
        assert [said(call) for call in calls] == bare


@pytest.mark.usefixtures("untouched")
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_scripting_survives_an_evaluation(capturing: Any) -> None:
    class Scripted(Net):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(self.fc(values), torch.tensor([0, 1, 2, 1]))

    def function(values: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(values, values + 1)

    with capturing(losses=1):
        model = Scripted()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(VALUES).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            assert torch.equal(torch.jit.script(model)(VALUES), model(VALUES))
            assert float(torch.jit.script(function)(VALUES)) == 1
            criterion = nn.CrossEntropyLoss()
            assert torch.equal(torch.jit.script(criterion)(VALUES, LABELS), criterion(VALUES, LABELS))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it imports its compiler
def test_a_compiled_model_is_compiled_no_more_often(capturing: Any, read_modes: Any) -> None:
    def run() -> tuple[int, list[float]]:
        torch.compiler.reset()
        graphs: list[Any] = []

        def backend(graph: Any, _inputs: Any) -> Any:
            graphs.append(graph)
            return graph.forward

        torch.manual_seed(0)
        model = WithLoss(lambda loss, scores: (scores, loss))
        called = torch.compile(model, backend=backend, fullgraph=True)
        criterion = torch.compile(as_function, backend=backend, fullgraph=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            called.train()
            for _ in range(2):
                scores, loss = called(VALUES)
                (loss + criterion(scores.detach(), LABELS)).backward()
                optimizer.step()
            called.eval()
            with torch.no_grad():
                for _ in range(2):
                    scores, loss = called(VALUES)
                    losses.append((loss + criterion(scores, LABELS)).item())
        return len(graphs), losses

    bare = run()
    with capturing(losses=1) as store:
        assert run() == bare
    # Of the other only a backend that calls PyTorch by name, as this one does, shows the loss.
    assert [set(names) - {"CrossEntropyLoss_output_0"} for names in evals(read_modes(store))] == [{"loss_output_0"}] * 6


def test_evaluation_changes_nothing(capturing: Any) -> None:
    def run() -> list[Any]:
        torch.manual_seed(0)
        model = nn.Sequential(Net(), nn.Dropout(0.5), nn.BatchNorm1d(3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        found: list[Any] = []
        for _ in range(3):
            learn(model, optimizer)
            model.eval()
            with torch.no_grad():
                found.append(functional.cross_entropy(model(VALUES), LABELS).item())
        return [*found, torch.random.get_rng_state().sum().item(), *(p.sum().item() for p in model.parameters())]

    bare = run()
    with capturing(losses=1, outputs=1, labels=1, metrics=1, buffers=1):
        assert run() == bare


def test_a_bug_of_ours_leaves_training_and_its_losses(
    capturing: Any, read_modes: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trackside.frameworks.pytorch.modes import validation_losses

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a bug")

    with capturing(losses=1) as store:
        model = Net()
        optimizer = trained(model)
        monkeypatch.setattr(validation_losses.ValidationLosses, "_value", broken)
        model.eval()
        with torch.no_grad():
            functional.cross_entropy(model(VALUES), LABELS)
        for _ in range(2):
            learn(model, optimizer)
    run = read_modes(store)
    assert sorted(run) == [("TRAIN", k) for k in range(3)]
    assert len([r for r in caplog.records if "a bug" in r.getMessage()]) == 1
