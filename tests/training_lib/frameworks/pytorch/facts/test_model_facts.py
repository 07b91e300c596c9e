"""What is found out of a training program, when it is told, and that training does not feel it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.capture.steps.step_engine import Position
from trackside.contracts.errors import StorageError
from trackside.contracts.model_facts import ModelFacts, ModuleFacts, ProgramFacts
from trackside.contracts.observations import (
    CLIPPINGS,
    COMPARED_WITH,
    HAS_EQUAL_ROWS,
    MIXES_SAMPLES,
    PROBABILITY,
    SCHEDULE,
    SEES_AHEAD,
    SEQUENCE,
    STATE,
    ScheduleFacts,
)
from trackside.contracts.run_layout import END_MARKER_KEY, model_facts_key, worker_end_key
from trackside.frameworks.pytorch.facts.detectors.parameters.first_values import has_equal_rows
from trackside.frameworks.pytorch.facts.model_facts import ModelFactsFile, _Found
from trackside.frameworks.pytorch.modules.roles import Role, role_of
from trackside.records.model_facts import MOST_REVISIONS, decode_facts, encode_facts
from trackside.rules.program.incomplete_resume import IncompleteResume
from trackside.storage.memory import MemoryStore
from trackside.trial.trial import Trial

torch.set_num_threads(1)


class Net(nn.Module):
    """A frozen embedding, tied weights, and a head that no optimizer holds."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.hidden = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Dropout(0.25))
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.embedding.weight
        self.forgotten = nn.Linear(7, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.forgotten(self.out(self.hidden(self.embedding(tokens))))


def train(steps: int = 3, before_step: Callable[[int, nn.Module], None] = lambda *_: None) -> None:
    torch.manual_seed(0)
    net = Net()
    trained = [*net.embedding.parameters(), *net.hidden.parameters()]
    optimizer = torch.optim.AdamW(trained, lr=0.01, weight_decay=0.1)
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        before_step(step, net)
        optimizer.zero_grad()
        loss = criterion(net(torch.randint(0, 7, (5,))), torch.randint(0, 3, (5,)))
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 0.5)
        optimizer.step()


def facts_of(capturing: Any, body: Callable[[], None], **collections: int) -> tuple[ModelFacts, ...]:
    with capturing(**(collections or {"losses": 100})) as store:
        body()
    trial = Trial(store, store)
    trial.refresh()
    assert not trial.damaged
    return trial.parts.facts.revisions("worker_0")


class Attentive(nn.Module):
    """Two layers of attention over five places, with a mask or without, and one that looks elsewhere."""

    def __init__(self, *, is_masked: bool) -> None:
        super().__init__()
        self.mask = nn.Transformer.generate_square_subsequent_mask(5) if is_masked else None
        block = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.across = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        found = self.blocks(values, mask=self.mask)
        return self.across(found, values, values)[0]


class Recurrent(nn.Module):
    """A recurrent layer."""

    def __init__(self, *, both_ways: bool) -> None:
        super().__init__()
        self.recurrent = nn.GRU(4, 2 if both_ways else 4, batch_first=True, bidirectional=both_ways)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.recurrent(values)[0]


class Convolved(nn.Module):
    """A convolution along a sequence."""

    def __init__(self, conv: nn.Conv1d, *, before: int = 0) -> None:
        super().__init__()
        self.conv, self.before = conv, before

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.conv(functional.pad(values.transpose(1, 2), (self.before, 0)))[..., :5].transpose(1, 2)


class Masked(nn.Conv1d):
    """A class of the script's own, which may mask its weights."""


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        pytest.param(lambda: Convolved(nn.Conv1d(4, 4, 3, padding=1)), {"conv"}, id="padded-on-both-sides"),
        pytest.param(lambda: Convolved(nn.Conv1d(4, 4, 3, padding="same")), {"conv"}, id="padded-by-name"),
        pytest.param(lambda: Convolved(nn.Conv1d(4, 4, 3, padding=2, dilation=2)), {"conv"}, id="dilated"),
        pytest.param(lambda: Convolved(nn.Conv1d(4, 4, 3), before=2), set(), id="padded-before"),
        pytest.param(lambda: Convolved(nn.Conv1d(4, 4, 3, padding=2)), set(), id="cut-at-the-end"),
        pytest.param(lambda: Convolved(nn.Conv1d(4, 4, 1)), set(), id="of-one-place"),
        pytest.param(lambda: Convolved(Masked(4, 4, 3, padding=1)), set(), id="of-a-class-of-its-own"),
        pytest.param(
            lambda: Attentive(is_masked=False), {"blocks.layers.0.self_attn", "blocks.layers.1.self_attn"}, id="no-mask"
        ),
        pytest.param(lambda: Attentive(is_masked=True), set(), id="a-mask"),
        pytest.param(lambda: Recurrent(both_ways=True), {"recurrent"}, id="both-ways"),
        pytest.param(lambda: Recurrent(both_ways=False), set(), id="forwards"),
    ],
)
def test_which_layers_see_later_places(capturing: Any, build: Callable[[], nn.Module], expected: set[str]) -> None:
    def body() -> None:
        net = build()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            functional.mse_loss(net(torch.randn(3, 5, 4)), torch.randn(3, 5, 4)).backward()
            optimizer.step()

    facts = facts_of(capturing, body, model_inputs=1)[-1]
    assert {module.name for module in facts.modules if SEES_AHEAD.of(module)} == expected


def test_what_a_program_is_made_of(capturing: Any) -> None:
    (facts,) = facts_of(capturing, train)
    assert [(m.name, m.type_name, m.role) for m in facts.modules] == [
        ("Net", "Net", ""),
        ("embedding", "Embedding", "embedding"),
        ("hidden", "Sequential", "container"),
        ("hidden.0", "Linear", "linear"),
        ("hidden.1", "LayerNorm", "normalization"),
        ("hidden.2", "ReLU", "activation"),
        ("hidden.3", "Dropout", "dropout"),
        ("out", "Linear", "linear"),
        ("forgotten", "Linear", "linear"),
    ]
    assert facts.modules[5].activation == "relu"
    assert PROBABILITY.of(facts.modules[6]) == 0.25
    assert (facts.modules[1].in_features, facts.modules[1].out_features) == (7, 4)
    owned = {p.name: p.optimizer for p in facts.parameters}
    assert {name for name, optimizer in owned.items() if not optimizer} == {
        "Net_forgotten.weight",
        "Net_forgotten.bias",
    }
    assert {p.name: p.tied_to for p in facts.parameters if p.tied_to} == {"Net_out.weight": "Net_embedding.weight"}
    (optimizer,) = facts.optimizers
    assert (optimizer.name, optimizer.hyperparameter("lr"), optimizer.hyperparameter("weight_decay")) == (
        "AdamW", 0.01, 0.1,
    )  # fmt: skip
    (loss,) = facts.losses
    assert (loss.name, loss.reduction, loss.class_count, loss.input_from) == (
        "CrossEntropyLoss_output_0", "mean", 3, "linear",
    )  # fmt: skip
    assert facts.program.framework == "pytorch"
    assert [(c.kind, c.limit) for c in CLIPPINGS.of(facts.program)] == [("norm", 0.5)]


def test_the_lines_of_the_script(capturing: Any) -> None:
    from pathlib import Path

    text = Path(__file__).read_text().splitlines()
    (facts,) = facts_of(capturing, train)

    def line(place: str) -> str:
        name, _, number = place.rpartition(":")
        assert name.endswith("test_model_facts.py")
        return text[int(number) - 1].strip()

    assert line(facts.modules[0].line) == "net = Net()"
    assert line(facts.modules[5].line).startswith("self.hidden = nn.Sequential(")
    assert line(facts.optimizers[0].line).startswith("optimizer = torch.optim.AdamW")
    assert line(facts.losses[0].line).startswith("loss = criterion(")
    assert line(facts.losses[0].backward_line) == "loss.backward()"
    assert line(CLIPPINGS.of(facts.program)[0].line).startswith("nn.utils.clip_grad_norm_")


def test_freezing_is_a_revision(capturing: Any) -> None:
    def freeze(step: int, net: nn.Module) -> None:
        if step == 10:
            net.hidden[0].weight.requires_grad_(False)  # type: ignore[index, union-attr] # a Sequential

    revisions = facts_of(capturing, lambda: train(25, freeze))
    states = [(r.from_step, r.parameter("Net_hidden.0.weight").requires_grad) for r in revisions]  # type: ignore[union-attr]
    assert states == [(0, True), (10, False)]


def test_the_next_fold_is_a_revision_at_its_first_step(capturing: Any) -> None:
    def folds() -> None:
        for steps in (13, 14, 15, 1):
            train(steps)

    revisions = facts_of(capturing, folds)
    assert [r.from_step for r in revisions] == [0, 13, 27, 42]
    assert [{p.name.partition("_")[0] for p in r.parameters if p.optimizer} for r in revisions][-1] >= {"Net4"}


def test_an_optimizer_made_at_each_step_is_looked_at_now_and_then(capturing: Any) -> None:
    net, values = nn.Linear(4, 1), torch.ones(2, 4)

    def each_step() -> None:
        for _ in range(600):
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            optimizer.zero_grad()
            net(values).sum().backward()
            optimizer.step()

    revisions = facts_of(capturing, each_step)
    assert sum(found.from_step < 100 for found in revisions) <= 20


def test_evaluation_mode_is_a_revision(capturing: Any) -> None:
    def forget(step: int, net: nn.Module) -> None:
        if step == 10:
            net.eval()

    revisions = facts_of(capturing, lambda: train(25, forget))
    assert [(r.from_step, r.modules[6].is_training) for r in revisions] == [(0, True), (10, False)]


def test_a_schedule_is_a_revision_when_it_is_first_stepped_alone(capturing: Any) -> None:
    def run() -> None:
        net = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=40)
        for _ in range(35):
            optimizer.zero_grad()
            net(torch.randn(4, 3)).pow(2).mean().backward()
            optimizer.step()
            schedule.step()

    never, stepped = (SCHEDULE.of(facts.optimizers[0]) for facts in facts_of(capturing, run))
    assert never == ScheduleFacts("OneCycleLR", 0.5)
    assert stepped == ScheduleFacts("OneCycleLR", 0.5, 1)


def test_two_models_against_each_other(capturing: Any) -> None:
    """Each freezes the other by turns, which is no revision: what counts is how its own optimizer finds it."""

    def run() -> None:
        makes, judges = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        of_makes, of_judges = torch.optim.SGD(makes.parameters(), 0.1), torch.optim.SGD(judges.parameters(), 0.1)
        criterion = nn.BCEWithLogitsLoss()
        for _ in range(25):
            judges.requires_grad_(True)
            of_judges.zero_grad()
            criterion(judges(makes(torch.randn(4, 2)).detach()), torch.zeros(4, 1)).backward()
            of_judges.step()
            judges.requires_grad_(False)
            of_makes.zero_grad()
            criterion(judges(makes(torch.randn(4, 2))), torch.ones(4, 1)).backward()
            of_makes.step()

    (facts,) = facts_of(capturing, run)
    assert all(p.requires_grad for p in facts.parameters)
    assert {p.optimizer for p in facts.parameters} == {"SGD", "SGD2"}
    assert [loss.name for loss in facts.losses] == ["BCEWithLogitsLoss_output_0", "BCEWithLogitsLoss_output_1"]


def test_without_statistics_there_are_facts_too(capturing: Any) -> None:
    (facts,) = facts_of(capturing, train, gradients=2)
    assert facts.parameters


def _scores() -> torch.Tensor:
    return nn.Linear(3, 4)(torch.randn(5, 3))


LABELS, VALUES = torch.tensor([0, 1, 2, 3, 0]), torch.rand(5, 4)
CLASSES = LABELS.float().unsqueeze(1).expand(5, 4)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        pytest.param(
            lambda s: functional.cross_entropy(s, LABELS), ("CrossEntropyLoss", "linear", 4, 1.0), id="scores"
        ),
        pytest.param(
            lambda s: functional.cross_entropy(s.softmax(1), LABELS),
            ("CrossEntropyLoss", "softmax", 4, 1.0),
            id="twice",
        ),
        pytest.param(
            lambda s: functional.cross_entropy(s.log_softmax(1), LABELS),
            ("CrossEntropyLoss", "log_softmax", 4, 1.0),
            id="log-softmax twice",
        ),
        pytest.param(
            lambda s: functional.cross_entropy(s.softmax(1).view(5, 4).clone(), LABELS),
            ("CrossEntropyLoss", "softmax", 4, 1.0),
            id="twice, behind a view",
        ),
        pytest.param(
            lambda s: functional.cross_entropy(s, VALUES), ("CrossEntropyLoss", "linear", 4, 1.0), id="probabilities"
        ),
        pytest.param(
            lambda s: functional.cross_entropy(s.sigmoid(), VALUES),
            ("CrossEntropyLoss", "sigmoid", 4, 1.0),
            id="probabilities, sigmoid",
        ),
        pytest.param(
            lambda s: functional.nll_loss(s.log_softmax(1), LABELS),
            ("CrossEntropyLoss", "linear", 4, 1.0),
            id="NLL of log-softmax is cross entropy",
        ),
        pytest.param(lambda s: functional.nll_loss(s.softmax(1), LABELS), ("NLLLoss", "softmax", 4, 1.0), id="NLL"),
        pytest.param(
            lambda s: functional.nll_loss(s.softmax(1).log(), LABELS),
            ("NLLLoss", "log_softmax", 4, 1.0),
            id="NLL of log",
        ),
        pytest.param(lambda s: functional.mse_loss(s.relu(), VALUES), ("MSELoss", "relu", None, 1.0), id="MSE of ReLU"),
        pytest.param(lambda s: functional.mse_loss(s, VALUES), ("MSELoss", "linear", None, 1.0), id="MSE"),
        pytest.param(
            lambda s: functional.binary_cross_entropy_with_logits(s.sigmoid(), VALUES),
            ("BCEWithLogitsLoss", "sigmoid", None, 1.0),
            id="sigmoid twice",
        ),
        pytest.param(
            lambda s: functional.binary_cross_entropy(s.sigmoid(), VALUES), ("BCELoss", "sigmoid", None, 1.0), id="BCE"
        ),
        pytest.param(
            lambda s: -functional.cross_entropy(s, LABELS), ("CrossEntropyLoss", "linear", 4, -1.0), id="its sign"
        ),
        pytest.param(
            lambda s: functional.cross_entropy(s, LABELS) * -1, ("CrossEntropyLoss", "linear", 4, -1.0), id="times -1"
        ),
        pytest.param(
            lambda s: functional.cross_entropy(s, LABELS) / 4, ("CrossEntropyLoss", "linear", 4, 0.25), id="a quarter"
        ),
        pytest.param(lambda s: s.pow(2).mean(), ("", "", None, 1.0), id="by hand"),
        pytest.param(lambda s: -s.mean(), ("", "", None, -1.0), id="by hand, negative by design"),
    ],
)
def test_what_a_loss_is(capturing: Any, loss: Callable[[torch.Tensor], torch.Tensor], expected: Any) -> None:
    def run() -> None:
        net = nn.Linear(3, 4)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        loss(net(torch.randn(5, 3))).backward()
        optimizer.step()

    ((found,),) = [facts.losses for facts in facts_of(capturing, run)]
    assert (found.type_name, found.input_from, found.class_count, found.scale) == expected


@pytest.mark.parametrize(
    ("begin", "alike"),
    [
        pytest.param(lambda weight: weight.fill_(0.1), True, id="a constant, and random biases"),
        pytest.param(lambda weight: weight.copy_(torch.linspace(-1, 1, 3).expand(4, 3)), True, id="equal rows"),
        pytest.param(lambda weight: weight.zero_(), False, id="zeros"),
        pytest.param(lambda weight: weight, False, id="drawn"),
    ],
)
def test_units_that_start_alike_are_seen_before_the_first_step(capturing: Any, begin: Any, alike: bool) -> None:
    def run() -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        with torch.no_grad():
            begin(net[0].weight)
        optimizer = torch.optim.Adam(net.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            functional.mse_loss(net(torch.randn(5, 3)), torch.randn(5, 1)).backward()
            optimizer.step()
        assert not has_equal_rows(net[0].weight)

    first, *_ = facts_of(capturing, run)
    assert {p.name: HAS_EQUAL_ROWS.of(p) for p in first.parameters}["Sequential_0.weight"] is alike


@pytest.mark.parametrize(
    ("loss", "is_weighted", "compared_with"),
    [
        pytest.param(lambda s: functional.cross_entropy(s, LABELS, weight=torch.ones(4)), True, 0, id="classes"),
        pytest.param(
            lambda s: functional.binary_cross_entropy_with_logits(s, VALUES, pos_weight=torch.ones(4)),
            True,
            0,
            id="positives",
        ),
        pytest.param(
            lambda s: functional.cross_entropy(s, LABELS, weight=torch.ones(4)) / 2, True, 0, id="and a factor"
        ),
        pytest.param(lambda s: functional.cross_entropy(s, LABELS), False, 0, id="plain"),
        pytest.param(lambda s: functional.mse_loss(s, VALUES), False, 0, id="alike"),
        pytest.param(lambda s: functional.mse_loss(s[:, :1], torch.ones(5)), False, 5, id="a column and a row"),
        pytest.param(lambda s: functional.mse_loss(s, CLASSES), False, 4, id="the number of the class"),
        pytest.param(lambda s: functional.l1_loss(s, CLASSES + 0.5), False, 0, id="one target for all"),
        pytest.param(lambda s: (s[:, :1] - torch.ones(5)).pow(2).mean(), False, 5, id="by hand"),
        pytest.param(lambda s: (s[:, 0] - torch.ones(5, 1)).abs().mean(), False, 5, id="a row and a column"),
        pytest.param(lambda s: (s[:, :1] - s[:, 0]).pow(2).mean(), False, 0, id="all pairs of predictions"),
        pytest.param(lambda s: (s @ s.T).pow(2).mean(), False, 0, id="similarities"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_what_a_loss_is_given(capturing: Any, loss: Any, is_weighted: bool, compared_with: int) -> None:
    def run() -> None:
        net = nn.Linear(3, 4)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        loss(net(torch.randn(5, 3))).backward()
        optimizer.step()

    ((found,),) = [facts.losses for facts in facts_of(capturing, run)]
    assert (found.is_weighted, COMPARED_WITH.of(found)) == (is_weighted, compared_with)


@pytest.mark.parametrize(
    ("loss", "mixes"),
    [
        pytest.param(lambda s: functional.nll_loss(s.log_softmax(0), LABELS), True, id="over-the-batch"),
        pytest.param(lambda s: functional.nll_loss(s.log_softmax(-2), LABELS), True, id="counted-from-the-end"),
        pytest.param(lambda s: functional.nll_loss(s.softmax(0).log(), LABELS), True, id="logarithm-apart"),
        pytest.param(lambda s: functional.nll_loss(s[None].log_softmax(0)[0], LABELS), False, id="of-one"),
        pytest.param(lambda s: functional.nll_loss(s.log_softmax(1), LABELS), False, id="over-classes"),
        pytest.param(lambda s: functional.nll_loss(s.log_softmax(-1), LABELS), False, id="over-the-last"),
        pytest.param(lambda s: functional.nll_loss(s.T.log_softmax(0).T, LABELS), False, id="turned-round"),
        pytest.param(lambda s: functional.nll_loss(s[0].log_softmax(0), LABELS[0]), False, id="a-sample-alone"),
        pytest.param(
            lambda s: functional.nll_loss((s @ s.T).log_softmax(0), torch.arange(5)), False, id="pairs-both-ways"
        ),
        pytest.param(
            lambda s: functional.nll_loss(s.log_softmax(1).view(1, 5, 4)[0], LABELS), False, id="seen-otherwise"
        ),
        pytest.param(lambda s: functional.mse_loss(s.softmax(0), VALUES), False, id="weights-of-samples"),
        pytest.param(lambda s: functional.cross_entropy(s, LABELS), False, id="cross-entropy"),
    ],
)
def test_a_softmax_over_the_samples_of_a_batch(capturing: Any, loss: Any, mixes: bool) -> None:
    def run() -> None:
        net = nn.Linear(3, 4)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        loss(net(torch.randn(5, 3))).backward()
        optimizer.step()

    ((found,),) = [facts.losses for facts in facts_of(capturing, run)]
    assert MIXES_SAMPLES.of(found) is mixes


class Sequences(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(4, 2)

    def forward(self, values: torch.Tensor) -> Any:
        found = self.layer(values) if not isinstance(self.layer, nn.MultiheadAttention) else self.layer(*[values] * 3)
        return self.head((found[0] if isinstance(found, tuple) else found)[:, -1])


@pytest.mark.parametrize(
    ("layer", "sequence"),
    [
        pytest.param(lambda: nn.LSTM(4, 4), (6, 3), id="lstm"),
        pytest.param(lambda: nn.GRU(4, 4), (6, 3), id="gru"),
        pytest.param(lambda: nn.MultiheadAttention(4, 2), (6, 3), id="attention"),
        pytest.param(lambda: nn.LSTM(4, 4, batch_first=True), (), id="batch-first"),
        pytest.param(lambda: nn.MultiheadAttention(4, 2, batch_first=True), (), id="attention-batch-first"),
        pytest.param(lambda: nn.Linear(4, 4), (), id="no-sequence"),
    ],
)
def test_the_axes_that_a_layer_reads(capturing: Any, layer: Callable[[], nn.Module], sequence: tuple[int, ...]) -> None:
    def run() -> None:
        net = Sequences(layer())
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for count in (6, 5):
            functional.cross_entropy(net(torch.randn(count, 3, 4)), torch.zeros(count, dtype=torch.long)).backward()
            optimizer.step()

    found = facts_of(capturing, run, model_inputs=1)[-1]
    assert {m.name: SEQUENCE.of(m) for m in found.modules}["layer"] == sequence
    assert found.losses[0].input_shape == (6, 2)


@pytest.mark.parametrize(
    ("weight", "scale"),
    [pytest.param(0.5, 0.5, id="a-weight"), pytest.param(0.0, 1.0, id="none-yet: it is phased in")],
)
def test_the_parts_of_a_sum(capturing: Any, weight: float, scale: float) -> None:
    def run() -> None:
        net = nn.Linear(3, 4)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            scores = net(torch.randn(5, 3))
            loss = (
                functional.cross_entropy(scores, LABELS) + weight * functional.mse_loss(scores, VALUES) + scores.sum()
            )
            loss.backward()
            optimizer.step()

    (facts,) = facts_of(capturing, run)
    assert [(loss.name, loss.scale) for loss in facts.losses] == [
        ("loss_output_0", 1.0),
        ("CrossEntropyLoss_output_0", 1.0),
        ("MSELoss_output_0", scale),
    ]


class Swish(nn.Module):
    """An activation of the user's."""


class GELUActivation(nn.Module):
    """As another library calls it."""


class RMSNorm(nn.Module):
    """A normalization of the user's."""


class ReluctantLearner(nn.Module):
    """Begins like an activation, and is none."""


class Encoder(nn.Sequential):
    """A network."""


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        pytest.param(nn.ReLU(), Role("activation", "relu"), id="ReLU"),
        pytest.param(nn.ReLU6(), Role("activation", "relu"), id="ReLU6"),
        pytest.param(nn.LeakyReLU(), Role("activation", "leaky_relu"), id="leaky ReLU"),
        pytest.param(nn.Tanh(), Role("activation", "tanh"), id="tanh"),
        pytest.param(nn.Sigmoid(), Role("activation", "sigmoid"), id="sigmoid"),
        pytest.param(nn.GELU(), Role("activation", "gelu"), id="GELU"),
        pytest.param(nn.Softmax(-1), Role("activation", "softmax"), id="softmax"),
        pytest.param(Swish(), Role("activation", "silu"), id="a user's own"),
        pytest.param(GELUActivation(), Role("activation", "gelu"), id="another library's"),
        pytest.param(RMSNorm(), Role("normalization"), id="a user's own norm"),
        pytest.param(nn.BatchNorm2d(3), Role("normalization"), id="batch norm"),
        pytest.param(nn.Embedding(3, 3), Role("embedding"), id="embedding"),
        pytest.param(nn.Conv2d(1, 1, 1), Role("convolution"), id="convolution"),
        pytest.param(nn.LSTM(2, 2), Role("recurrent"), id="LSTM"),
        pytest.param(nn.MultiheadAttention(2, 1), Role("attention"), id="attention"),
        pytest.param(nn.MSELoss(), Role("loss"), id="a loss"),
        pytest.param(nn.MaxPool1d(2), Role("pooling"), id="pooling"),
        pytest.param(nn.Sequential(), Role("container"), id="a container"),
        pytest.param(Encoder(), Role(), id="a network that is a Sequential"),
        pytest.param(nn.Identity(), Role(""), id="nothing"),
        pytest.param(ReluctantLearner(), Role(), id="a name that begins alike"),
        pytest.param(Net(), Role(), id="a network"),
        pytest.param(nn.Flatten(), Role(), id="layout only"),
    ],
)
def test_roles(module: nn.Module, expected: Role) -> None:
    assert role_of(module) == expected


# The file.


def found(step: int, name: str = "Net") -> _Found:
    return _Found(step, [[("", nn.Linear, ModuleFacts(name, "Linear"))]], (), [], [], ProgramFacts())


class Failing(MemoryStore):
    """Storage that fails for a while."""

    failures = 0

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        if self.failures:
            self.failures -= 1
            raise StorageError("out of order")
        super().put(key, data)


def stored(store: MemoryStore) -> list[int]:
    return [facts.from_step for facts in decode_facts(store.get(model_facts_key("worker_0")), key="k")]


def test_a_failing_store_is_asked_again_later() -> None:
    now = [0.0]
    store = Failing()
    file = ModelFactsFile(lambda: store, worker="worker_0", start=Position, monotonic=lambda: now[0])
    store.failures = 2
    file.add(found(0))
    for _ in range(2):
        with pytest.raises(StorageError):
            file.flush_if_due()
        assert file.due_in_seconds > 0
        assert not file.flush_if_due()
        now[0] += file.due_in_seconds
    assert file.flush_if_due()
    assert stored(store) == [0]
    assert not file.flush_if_due()


def test_a_process_that_goes_on_adds_to_what_is_there() -> None:
    store = MemoryStore()
    store.put(model_facts_key("worker_0"), encode_facts([ModelFacts(0), ModelFacts(90)]))
    file = ModelFactsFile(lambda: store, worker="worker_0", start=lambda: Position(40))
    file.add(found(10))
    file.close()
    assert stored(store) == [0, 50]  # what came after the checkpoint did not come to pass


def test_a_damaged_file_is_replaced() -> None:
    store = MemoryStore()
    store.put(model_facts_key("worker_0"), b"{")
    file = ModelFactsFile(lambda: store, worker="worker_0", start=Position)
    file.add(found(0))
    file.close()
    assert stored(store) == [0]


def test_the_first_and_the_newest_revisions_are_kept() -> None:
    store = MemoryStore()
    file = ModelFactsFile(lambda: store, worker="worker_0", start=Position)
    for step in range(MOST_REVISIONS + 3):
        file.add(found(step, f"Net{step}"))
        file.flush()
    steps = stored(store)
    assert (len(steps), steps[0], steps[1], steps[-1]) == (MOST_REVISIONS, 0, 4, MOST_REVISIONS + 2)


def test_the_same_again_is_no_revision() -> None:
    store = MemoryStore()
    file = ModelFactsFile(lambda: store, worker="worker_0", start=Position)
    file.add(found(0))
    file.add(found(10))
    file.flush()
    assert stored(store) == [0]


def _steps(net: nn.Module, optimizer: torch.optim.Optimizer, *, count: int = 40) -> None:
    draw = torch.Generator().manual_seed(7)
    for _ in range(count):
        rows = torch.randn(16, 4, generator=draw)
        answers = rows.sum(1, keepdim=True)

        def closure(rows: torch.Tensor = rows, answers: torch.Tensor = answers) -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.mse_loss(net(rows), answers)
            loss.backward()
            return loss

        if isinstance(optimizer, torch.optim.LBFGS):
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()


def _killed(store: MemoryStore) -> MemoryStore:
    """Return the run as a killed process leaves it: without a mark of its end."""
    left = MemoryStore()
    for key in store.list(""):
        if key not in {END_MARKER_KEY, worker_end_key("worker_0")}:
            left.put(key, store.get(key))
    return left


@pytest.mark.parametrize(
    ("make", "loaded", "state", "is_lost"),
    [
        pytest.param(partial(torch.optim.Adam, lr=0.05), ("model",), "new", True, id="adam-model-alone"),
        pytest.param(partial(torch.optim.Adam, lr=0.05), ("model", "optimizer"), "loaded", False, id="adam-all"),
        pytest.param(partial(torch.optim.Adam, lr=0.05), (), "new", False, id="adam-anew"),
        pytest.param(partial(torch.optim.SGD, lr=0.05, momentum=0.9), ("model",), "new", True, id="momentum"),
        pytest.param(partial(torch.optim.SGD, lr=0.05), ("model",), "", False, id="no-state"),
        pytest.param(partial(torch.optim.LBFGS, lr=0.05, max_iter=2), ("model",), "new", True, id="closure"),
    ],
)
def test_what_a_process_resumes(capturing: Any, make: Any, loaded: tuple[str, ...], state: str, is_lost: bool) -> None:
    store, kept = MemoryStore(), dict[str, Any]()
    for process in range(2):
        torch.manual_seed(process)
        net = nn.Linear(4, 1)
        optimizer = make(net.parameters())
        for name, part in (("model", net), ("optimizer", optimizer)):
            if name in loaded and name in kept:
                part.load_state_dict(kept[name])
        store = _killed(store)
        with capturing(store, losses=100):
            _steps(net, optimizer)
        kept = copy.deepcopy({"model": net.state_dict(), "optimizer": optimizer.state_dict()})
    trial = Trial(store, store)
    trial.refresh()
    last = trial.parts.facts.revisions("worker_0")[-1]
    assert (last.program.resumed_at, [STATE.of(each) for each in last.optimizers]) == (40, [state])
    found = list(IncompleteResume().check(trial.window(79, now=0.0)))
    assert [finding.subject for finding in found] == ([type(optimizer).__name__] if is_lost else [])


# What training feels.


def test_training_computes_the_same(capturing: Any) -> None:
    def trained() -> list[np.ndarray]:
        state: list[np.ndarray] = []
        torch.manual_seed(0)
        train(6, lambda step, net: state.extend(p.detach().numpy().copy() for p in net.parameters()))
        return [*state, torch.rand(1).numpy()]

    plain = trained()
    with capturing(losses=2):
        watched = trained()
    assert all(np.array_equal(a, b) for a, b in zip(plain, watched, strict=True))


def test_looking_costs_little(capturing: Any) -> None:
    """1,000 modules: some milliseconds once. The bound is wide, for other processes share these cores."""
    net = nn.Sequential(*[nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(334)])
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    with capturing(losses=1000) as store:
        started = time.process_time()
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.randn(2, 2)).sum().backward()
            optimizer.step()
        assert time.process_time() - started < 5
    trial = Trial(store, store)
    trial.refresh()
    assert trial.model_facts is not None
    assert len(trial.model_facts.modules) == 1003
