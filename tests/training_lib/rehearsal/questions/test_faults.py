"""Each probe on models with one fault, and on the same model without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.training_lib.rehearsal.models import (
    Attention,
    Experts,
    RunningMean,
    Square,
    Through,
    balanced,
    mixed,
    perceptron,
)
from tests.training_lib.rehearsal.rehearsing import (
    CLASSES,
    WIDTH,
    Loss,
    answer,
    classify,
    rehearse,
    sentences,
)
from trackside.contracts.run.check import Answer, Outcome
from trackside.rehearsal.questions import learnable_batch
from trackside.rehearsal.registry import all_probes

PROBES = {probe.name: probe for probe in all_probes()}


class WrongSquare(Square):
    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        (values,) = ctx.saved_tensors
        return values * gradients[0]


class SwappedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(one, two)
        return one * two

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        one, two = ctx.saved_tensors
        return one * gradients[0], two * gradients[0]


class Product(SwappedProduct):
    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        one, two = ctx.saved_tensors
        return two * gradients[0], one * gradients[0]


class PlainMean(RunningMean):
    """The mean lies in a plain attribute, which no checkpoint holds."""

    def __init__(self) -> None:
        super().__init__()
        del self._buffers["mean"]
        self.mean = torch.zeros(16)


class LeftOutMean(RunningMean):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(16), persistent=False)


class FrozenMean(RunningMean):
    """Training never updates the mean that evaluation takes away."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values - values.mean(0) if self.training else values - self.mean


class Hidden(nn.Module):
    """Layers in a plain list, which `eval` does not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Dropout(0.5)]

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layers[0](values)


class Forgetful(nn.Sequential):
    """A model with a `state_dict` that leaves the last layer out, and a loader that does not mind."""

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return {k: v for k, v in super().state_dict(*args, **kwargs).items() if not k.startswith("2")}

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        return super().load_state_dict(state_dict, strict=False)


def forgetful() -> nn.Module:
    torch.manual_seed(0)
    return Forgetful(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def negative(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return -classify(model, values, labels)


class CornerAtZero(torch.autograd.Function):
    """A right ReLU, which has no derivative at 0."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(values)
        return values.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        (values,) = ctx.saved_tensors
        return gradients[0] * (values > 0)


def times_two(function: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda values: function.apply(values, values + 2)


def no_momentum() -> nn.Module:
    return perceptron(nn.BatchNorm1d(16, momentum=0.0), nn.ReLU())


def frozen(*places: int) -> nn.Module:
    """Return a model of a wide layer, a norm and a last layer, with those at `places` of them frozen."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 64), nn.LayerNorm(64), nn.Linear(64, CLASSES))
    for place in places:
        model[place].requires_grad_(requires_grad=False)
    return model


def loaded(model: nn.Module) -> nn.Module:
    """Return a model with weights of its last layer that no initializer draws."""
    with torch.no_grad():
        last = [*model.children()][-1].weight
        last.copy_(last.sign() * last.abs() ** 3)
    return model


FAULTS = {
    "evaluation-repeats": {
        "functional-dropout": lambda: perceptron(Through(functional.dropout)),
        "a-plain-list": lambda: perceptron(Hidden()),
    },
    "output-depends-on-input": {
        "times-zero": lambda: perceptron(Through(lambda values: values * 0)),
        "dead": lambda: perceptron(Through(lambda values: torch.relu(values - 1e6))),
        "flat": lambda: perceptron(Through(lambda values: 1 + values * 1e-7)),
    },
    "samples-are-independent": {
        "softmax-over-samples": lambda: perceptron(Through(lambda values: values * torch.softmax(values, 0))),
        "mean-over-samples": lambda: perceptron(Through(lambda values: values - values.mean(0))),
        "no-running-statistics": lambda: perceptron(nn.BatchNorm1d(16, track_running_stats=False)),
        "mixed-axes": lambda: perceptron(Through(lambda values: values.T.reshape(values.shape))),
    },
    "evaluation-statistics-follow": {"no-momentum": no_momentum, "own": lambda: perceptron(FrozenMean(), nn.ReLU())},
    "checkpoint-comes-back": {
        "plain-attribute": lambda: perceptron(PlainMean(), nn.ReLU()),
        "not-persistent": lambda: perceptron(LeftOutMean(), nn.ReLU()),
        "own-state-dict": forgetful,
    },
    "custom-backward-is-right": {
        "factor": lambda: perceptron(Through(WrongSquare.apply)),
        "order-of-arguments": lambda: perceptron(Through(times_two(SwappedProduct))),
    },
    "gradients-reach-parameters": {
        "detached": lambda: perceptron(nn.ReLU(), Through(torch.Tensor.detach)),
        "data": lambda: perceptron(Through(lambda values: values.data)),
        "frozen-last-layer": lambda: frozen(2),
        "without-gradients": lambda: perceptron(Through(lambda values: torch.tensor(values.tolist()))),
    },
}

FIXED = {
    "evaluation-repeats": lambda: perceptron(nn.Dropout(0.5)),
    "output-depends-on-input": lambda: perceptron(Through(lambda values: values * 0.01)),
    "samples-are-independent": lambda: perceptron(Through(lambda values: values * torch.softmax(values, 1))),
    "evaluation-statistics-follow": lambda: perceptron(nn.BatchNorm1d(16), RunningMean()),
    "checkpoint-comes-back": lambda: perceptron(RunningMean(), nn.ReLU()),
    "custom-backward-is-right": lambda: perceptron(Through(Square.apply), Through(times_two(Product))),
    "gradients-reach-parameters": lambda: perceptron(nn.ReLU()),
}


def asked(name: str, model: nn.Module, **how: Any) -> Answer:
    return answer(rehearse(model, **how), PROBES[name])


@pytest.mark.parametrize(
    ("probe", "build"),
    [pytest.param(probe, build, id=f"{probe}-{k}") for probe, rows in FAULTS.items() for k, build in rows.items()],
)
def test_names_the_fault(probe: str, build: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    found = asked(probe, build())
    assert found.outcome is Outcome.FAULT, found
    assert found.what
    assert found.what_to_do


@pytest.mark.parametrize(("probe", "build"), [pytest.param(*pair, id=pair[0]) for pair in FIXED.items()])
def test_is_silent_once_it_is_cured(probe: str, build: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    found = asked(probe, build())
    assert found.outcome is Outcome.OK, found


class Wide(nn.Module):
    """A model in double precision, with outputs that differ in the ninth digit."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES).double()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return 1 + 1e-9 * self.layer(values.double())


class Branched(nn.Module):
    """A model with a layer of dead units beside a way around it."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.words = nn.Embedding(99, 99)
        self.way, self.branch, self.head = nn.Linear(WIDTH, 32), nn.Linear(32, units), nn.Linear(32 + units, CLASSES)
        nn.init.constant_(self.branch.bias, -99.0)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        on = functional.relu(self.way(values))
        scores: torch.Tensor = self.head(torch.cat([on, functional.relu(self.branch(on))], dim=1))
        return scores + 0 * self.words.weight.sum()


@pytest.mark.parametrize(
    ("probe", "build", "outcome"),
    [
        pytest.param("output-depends-on-input", lambda: perceptron(Through(lambda values: 2000 + values * 2e-3)),
                     Outcome.OK, id="far-from-zero"),
        pytest.param("output-depends-on-input", Wide, Outcome.OK, id="double"),
        pytest.param("gradients-reach-parameters", lambda: Branched(3), Outcome.OK, id="a-small-branch-is-dead"),
        pytest.param("gradients-reach-parameters", lambda: Branched(64), Outcome.FAULT, id="most-is-dead"),
        pytest.param("gradients-reach-parameters", lambda: frozen(0), Outcome.OK, id="a-frozen-first-layer"),
        pytest.param("gradients-reach-parameters", lambda: frozen(0, 2), Outcome.OK, id="frozen-but-for-a-norm"),
        pytest.param("gradients-reach-parameters", lambda: loaded(frozen(2)), Outcome.OK, id="a-last-layer-of-its-own"),
    ],
)  # fmt: skip
def test_a_small_difference_is_one(probe: str, build: Callable[[], nn.Module], outcome: Outcome) -> None:
    torch.manual_seed(0)
    found = asked(probe, build())
    assert found.outcome is outcome, found


@pytest.mark.parametrize(
    ("probe", "build", "where"),
    [
        pytest.param(
            "evaluation-repeats", lambda: perceptron(Through(functional.dropout)), "Sequential.1", id="dropout"
        ),
        pytest.param(
            "samples-are-independent", FAULTS["samples-are-independent"]["mixed-axes"], "Sequential.1", id="axes"
        ),
        pytest.param("evaluation-statistics-follow", no_momentum, "Sequential.1.running_mean", id="statistics"),
        pytest.param("checkpoint-comes-back", lambda: perceptron(PlainMean()), "Sequential.1.mean", id="checkpoint"),
        pytest.param(
            "custom-backward-is-right", lambda: perceptron(Through(WrongSquare.apply)), "WrongSquare", id="backward"
        ),
        pytest.param(
            "gradients-reach-parameters",
            lambda: perceptron(Through(torch.Tensor.detach)),
            "Sequential.0.weight",
            id="cut",
        ),
    ],
)
def test_names_the_place(probe: str, build: Callable[[], nn.Module], where: str) -> None:
    assert where in asked(probe, build()).where


def test_a_corner_is_no_wrong_backward() -> None:
    """Inputs of exactly 0, as a ReLU returns them, lie at the corner of the next one."""
    found = asked("custom-backward-is-right", perceptron(nn.ReLU(), Through(CornerAtZero.apply)))
    assert (found.outcome, "right at" in found.observed) == (Outcome.OK, True)


def saturated(model: nn.Module) -> nn.Module:
    """Return a model whose outputs are its signs, as those of one that is sure of its answers hardly change."""
    return nn.Sequential(model, Through(lambda values: values.sign() + 0 * values))


@pytest.mark.parametrize(
    ("model", "outcome"),
    [
        pytest.param(Attention, Outcome.OK, id="positions"),
        pytest.param(lambda: Attention(positions=False), Outcome.FAULT, id="none"),
        pytest.param(lambda: Attention(reads_first=True), Outcome.OK, id="positions, the first token read"),
        pytest.param(
            lambda: Attention(positions=False, reads_first=True), Outcome.FAULT, id="none, the first token read"
        ),
        pytest.param(lambda: Attention(positions=False, pooled=False), Outcome.FAULT, id="none, by token"),
        pytest.param(lambda: Attention(positions=False, causal=True), Outcome.OK, id="a causal mask orders"),
        pytest.param(lambda: saturated(Attention(reads_first=True)), Outcome.OK, id="positions, saturated outputs"),
        pytest.param(
            lambda: saturated(Attention(positions=False, reads_first=True)), Outcome.FAULT, id="none, saturated outputs"
        ),
    ],
)
def test_attention_needs_an_order(model: Callable[[], nn.Module], outcome: Outcome) -> None:
    def loss(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        found = model(values)
        return functional.cross_entropy(found if found.ndim == 2 else found.mean(1), labels)

    torch.manual_seed(0)
    assert asked("order-matters", model(), loss=loss, batches=sentences()).outcome is outcome


@pytest.mark.parametrize(
    ("build", "loss", "rate", "what"),
    [
        pytest.param(lambda: perceptron(nn.ReLU()), classify, 1e-2, "", id="right"),
        pytest.param(lambda: perceptron(nn.ReLU()), classify, 1e-3, "", id="low: AdamW shows that it can be learned"),
        pytest.param(lambda: perceptron(nn.ReLU()), classify, 1e-7, "leaves the loss", id="none-to-speak-of"),
        pytest.param(lambda: perceptron(nn.ReLU()), classify, -1.0, "raises the loss", id="uphill"),
        pytest.param(
            lambda: perceptron(Through(lambda values: values * 0), nn.Linear(16, 16, bias=False)),
            lambda model, values, labels: model(values).sum() * 0 + 1,
            1e-2,
            "does not lower",
            id="constant",
        ),
        pytest.param(
            lambda: perceptron(nn.ReLU()),
            lambda model, values, labels: functional.softmax(model(values)[:, :1], 1).sum(),
            1e-2,
            "does not lower",
            id="softmax-over-one-entry",
        ),
    ],
)
def test_one_batch_is_learnable(build: Callable[[], nn.Module], loss: Loss, rate: float, what: str) -> None:
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=abs(rate), maximize=rate < 0)
    found = asked("one-batch-is-learnable", model, loss=loss, optimizer=optimizer)
    assert (found.outcome is Outcome.FAULT, what in found.what) == (bool(what), True), found


def test_a_loss_with_the_wrong_sign_is_learnable_without_end() -> None:
    """A loss below zero may be meant (a likelihood), so the sign is the rules' to judge."""
    assert asked("one-batch-is-learnable", perceptron(nn.ReLU()), loss=negative).outcome is Outcome.OK


class SmallDifference(nn.Module):
    """A small difference of large numbers, which half precision loses."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        large, weights = 3e4 * values, torch.eye(WIDTH)[:, :CLASSES] + 1 / 3
        with torch.autocast("cpu", enabled=False):
            whole = torch.mm(large, weights)
        return self.layer(values) + torch.mm(large, weights) - whole


@pytest.mark.parametrize(
    ("build", "outcome"),
    [
        pytest.param(lambda: perceptron(nn.ReLU()), Outcome.OK, id="right"),
        pytest.param(SmallDifference, Outcome.FAULT, id="a small difference of large numbers"),
    ],
)
def test_mixed_precision(build: Callable[[], nn.Module], outcome: Outcome) -> None:
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    assert asked("mixed-precision-agrees", model, loss=mixed, optimizer=optimizer).outcome is outcome


def test_does_not_apply() -> None:
    subject = rehearse(perceptron(nn.ReLU()))
    for name in ("order-matters", "custom-backward-is-right", "mixed-precision-agrees", "evaluation-statistics-follow"):
        assert answer(subject, PROBES[name]).outcome is Outcome.DOES_NOT_APPLY


@pytest.mark.parametrize(
    ("seconds", "rate", "outcome"),
    [
        pytest.param(0.0, 1e-5, Outcome.NOT_TRIED, id="the-time-was-up"),
        pytest.param(25.0, 1e-5, Outcome.FAULT, id="enough-steps"),
    ],
)
def test_an_attempt_of_two_steps_accuses_nobody(
    monkeypatch: pytest.MonkeyPatch, seconds: float, rate: float, outcome: Outcome
) -> None:
    # Issue 41: on a busy machine two steps of AdamW made a fault of a right script of transformers.
    monkeypatch.setattr(learnable_batch, "_MOST_SECONDS", seconds)
    monkeypatch.setattr(learnable_batch, "_REFERENCE_RATES", (rate,))
    model = perceptron(nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    found = asked("one-batch-is-learnable", model, optimizer=optimizer)
    assert found.outcome is outcome
    assert "--probe-seconds" in found.observed or outcome is Outcome.FAULT


@pytest.mark.parametrize(
    ("is_gate_cut", "outcome"),
    [pytest.param(True, Outcome.FAULT, id="cut"), pytest.param(False, Outcome.OK, id="right")],
)
def test_a_model_is_probed_whose_loss_takes_what_a_module_keeps(is_gate_cut: bool, outcome: Outcome) -> None:
    torch.manual_seed(0)
    found = asked("gradients-reach-parameters", Experts(is_gate_cut=is_gate_cut), loss=balanced)
    assert (found.outcome, "gate" in found.where) == (outcome, is_gate_cut), found
