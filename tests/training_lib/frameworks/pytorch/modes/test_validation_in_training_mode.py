"""An evaluation without `eval()` is counted and its losses are recorded; what only looks like one is not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import update_bn
from torch.utils.checkpoint import checkpoint

from trackside.contracts.model_facts import ProgramFacts
from trackside.contracts.observations import EVALUATION_LINE, TRAINING_MODE_EVALUATIONS
from trackside.records.model_facts import read_facts

torch.set_num_threads(1)
VALUES, LABELS = torch.arange(24.0).reshape(4, 6) / 10, torch.tensor([0, 1, 2, 1])


class Net(nn.Module):
    """With a dropout and a batch norm, which behave otherwise in training."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm, self.drop, self.out = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, values: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        scores = self.out(self.drop(self.norm(self.fc(values))))
        return scores if labels is None else {"loss": functional.cross_entropy(scores, labels), "scores": scores}


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))


def loss_of(model: nn.Module, values: torch.Tensor = VALUES) -> Any:
    return functional.cross_entropy(model(values), LABELS)


def program_facts(capturing: Any, between: Callable[[nn.Module], object], *, model: nn.Module | None = None,
                  every: int = 4, steps: int = 13) -> ProgramFacts:  # fmt: skip
    """The program's facts after a training in which `between(model)` is called after every so many steps."""
    model = model or Net()
    with capturing(losses=1) as store:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(steps):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            if (step + 1) % every == 0:
                between(model)
    return read_facts(store, "worker_0")[-1].program


def in_a_block(model: nn.Module) -> None:
    with torch.no_grad():
        for _ in range(2):
            loss_of(model)


@torch.no_grad()
def as_decorated(model: nn.Module) -> None:
    nn.CrossEntropyLoss()(model(VALUES), LABELS)


@torch.inference_mode()
def for_inference(model: nn.Module) -> None:
    loss_of(model)


def by_phase(model: nn.Module) -> None:
    with torch.set_grad_enabled(False):
        loss_of(model)


def block_per_batch(model: nn.Module) -> None:
    for _ in range(3):
        with torch.no_grad():
            loss_of(model)


@torch.no_grad()
def by_the_model(model: nn.Module) -> None:
    model(VALUES, LABELS)


@torch.no_grad()
def by_a_name_of_the_scripts_own(model: nn.Module) -> None:
    cross_entropy(model(VALUES), LABELS)


@torch.no_grad()
def of_probabilities(model: nn.Module) -> None:
    functional.nll_loss(model(VALUES).log_softmax(1), LABELS)


EVALUATIONS = [
    in_a_block, as_decorated, for_inference, by_phase, block_per_batch, by_the_model, by_a_name_of_the_scripts_own,
    of_probabilities,
]  # fmt: skip


@pytest.mark.parametrize("evaluate", EVALUATIONS, ids=lambda function: function.__name__)
def test_is_counted(capturing: Any, evaluate: Callable[[nn.Module], None]) -> None:
    facts = program_facts(capturing, evaluate)
    assert TRAINING_MODE_EVALUATIONS.of(facts) == 3
    assert EVALUATION_LINE.of(facts).startswith("test_validation_in_training_mode.py:")


@torch.no_grad()
def monte_carlo(model: nn.Module) -> None:
    mean = torch.stack([model(VALUES).softmax(1) for _ in range(5)]).mean(0)
    functional.nll_loss(mean.log(), LABELS)


@torch.no_grad()
def rollout(model: nn.Module) -> None:
    model(VALUES).argmax(1)


def targets_for_a_loss(model: nn.Module) -> None:
    with torch.no_grad():
        targets = model(VALUES).softmax(1)
    functional.mse_loss(model(VALUES).softmax(1), targets)  # with a graph, and no backward


@torch.no_grad()
def hard_examples(model: nn.Module) -> None:
    functional.cross_entropy(model(VALUES), LABELS, reduction="none").topk(2)


@torch.no_grad()
def momentum_teacher(model: nn.Module) -> None:
    loss_of(copy.deepcopy(model))


def estimated_statistics(model: nn.Module) -> None:
    update_bn([VALUES, VALUES], model)


def recomputed(model: nn.Module) -> None:
    checkpoint(lambda values: loss_of(model, values), VALUES.clone().requires_grad_(), use_reentrant=True)


def in_evaluation_mode(model: nn.Module) -> None:
    model.eval()
    with torch.no_grad():
        loss_of(model)
    model.train()


def only_dropout_trains(model: nn.Module) -> None:
    model.eval()
    model.get_submodule("drop").train()
    with torch.no_grad():
        loss_of(model)
    model.train()


@torch.no_grad()
def moving_average(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.lerp_(parameter.detach(), 0.1)


NO_EVALUATIONS = [
    monte_carlo, rollout, targets_for_a_loss, hard_examples, momentum_teacher, estimated_statistics, recomputed,
    in_evaluation_mode, only_dropout_trains, moving_average,
]  # fmt: skip


@pytest.mark.parametrize("other", NO_EVALUATIONS, ids=lambda function: function.__name__)
def test_is_not_counted(capturing: Any, other: Callable[[nn.Module], None]) -> None:
    assert TRAINING_MODE_EVALUATIONS.of(program_facts(capturing, other)) == 0


def test_not_what_belongs_to_every_step(capturing: Any) -> None:
    assert TRAINING_MODE_EVALUATIONS.of(program_facts(capturing, in_a_block, every=1)) == 0


def test_not_a_loss_that_the_model_names_and_nothing_trains_on(capturing: Any) -> None:
    """As of a policy whose log-probabilities come with a loss: of the rollouts, and in training."""

    class Fused(Net):
        def forward(self, values: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
            scores = super().forward(values)
            return {"loss": -scores.log_softmax(1)[torch.arange(4), labels].mean(), "scores": scores}

    def counted(weight: float) -> int:
        model = Fused()
        with capturing(losses=1) as store:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for step in range(13):
                optimizer.zero_grad()
                found = model(VALUES, LABELS)
                named, objective = found["loss"], found["scores"].log_softmax(1)[:, 0].mean()
                del found
                (weight * named / 2 + objective if weight else objective).backward()
                del named
                optimizer.step()
                if (step + 1) % 3 == 0:
                    by_the_model(model)
        return TRAINING_MODE_EVALUATIONS.of(read_facts(store, "worker_0")[-1].program)

    assert (counted(0.0), counted(1.0)) == (1, 3)  # the first one is met before the model is seen in training


def test_not_where_nothing_behaves_otherwise(capturing: Any) -> None:
    assert TRAINING_MODE_EVALUATIONS.of(program_facts(capturing, in_a_block, model=plain())) == 0


def test_once_eval_is_called_nothing_is_counted_any_more(capturing: Any) -> None:
    calls: list[int] = []

    def first_rightly(model: nn.Module) -> None:
        (in_a_block if calls else in_evaluation_mode)(model)
        calls.append(1)

    assert TRAINING_MODE_EVALUATIONS.of(program_facts(capturing, first_rightly)) == 0


def test_the_last_evaluation_of_a_training_counts(capturing: Any) -> None:
    assert TRAINING_MODE_EVALUATIONS.of(program_facts(capturing, in_a_block, every=6, steps=12)) == 2


def recorded(
    capturing: Any,
    read_modes: Any,
    between: Callable[[nn.Module], object],
    *,
    model: Callable[[], nn.Module] = plain,
    every: int = 4,
    steps: int = 13,
) -> tuple[list[float], list[str]]:
    """Return the losses of the steps in mode EVAL of such a training, and the modes of all steps in their order."""
    trained = model()
    with capturing(losses=1) as store:
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
        for step in range(steps):
            optimizer.zero_grad()
            loss_of(trained).backward()
            optimizer.step()
            if (step + 1) % every == 0:
                between(trained)
    run = read_modes(store)
    evaluated = [
        float(value) for (mode, _), values in sorted(run.items()) if mode == "EVAL" for value in values.values()
    ]
    return evaluated, [mode for mode, _ in run]


@pytest.mark.parametrize(
    ("evaluate", "model"),
    [
        *((each, Net) for each in EVALUATIONS),
        *((each, plain) for each in EVALUATIONS if each is not by_the_model),  # `plain` computes no loss itself
    ],
    ids=lambda each: each.__name__,
)
def test_its_losses_are_recorded_as_those_of_an_evaluation(
    capturing: Any, read_modes: Any, evaluate: Callable[[nn.Module], None], model: Callable[[], nn.Module]
) -> None:
    torch.manual_seed(0)
    seen, modes = recorded(capturing, read_modes, evaluate, model=model)
    assert len(seen) in {3, 6, 9}  # three evaluations of one, two or three batches
    assert modes.count("TRAIN") == 13


def test_each_recorded_loss_is_the_scripts(capturing: Any, read_modes: Any) -> None:
    own: list[float] = []

    @torch.no_grad()
    def evaluate(model: nn.Module) -> None:
        own.extend(float(loss_of(model, values)) for values in (VALUES, VALUES + 1))

    seen, _ = recorded(capturing, read_modes, evaluate)
    assert seen == pytest.approx(own)
    assert len(own) == 6


def test_an_evaluation_after_the_last_step_is_recorded(capturing: Any, read_modes: Any) -> None:
    assert len(recorded(capturing, read_modes, as_decorated, every=6, steps=12)[0]) == 2


WITHOUT_EVAL = [other for other in NO_EVALUATIONS if other not in (in_evaluation_mode, only_dropout_trains)]


@pytest.mark.parametrize("other", WITHOUT_EVAL, ids=lambda function: function.__name__)
def test_no_loss_of_anything_else_is_recorded(
    capturing: Any, read_modes: Any, other: Callable[[nn.Module], None]
) -> None:
    assert recorded(capturing, read_modes, other, model=Net)[0] == []


def test_no_loss_of_every_step_is_recorded(capturing: Any, read_modes: Any) -> None:
    assert recorded(capturing, read_modes, in_a_block, every=1)[0] == []


HELD_OUT, BUFFER = VALUES + 1, VALUES + 2
WIDER = torch.cat([VALUES + 1, VALUES + 2])


@torch.no_grad()
def held_out(model: nn.Module) -> None:
    loss_of(model, HELD_OUT)


@torch.inference_mode()
def part_of_a_tensor(model: nn.Module) -> None:
    loss_of(model, WIDER[4:])


@torch.no_grad()
def in_batches(model: nn.Module) -> None:
    for values in WIDER.split(4):
        loss_of(model, values)


@torch.no_grad()
def of_the_training_batch(model: nn.Module) -> None:
    loss_of(model, VALUES)


@torch.no_grad()
def of_new_data(model: nn.Module) -> None:
    loss_of(model, torch.randn(4, 6))


@torch.no_grad()
def of_one_buffer(model: nn.Module) -> None:
    loss_of(model, BUFFER.normal_())


@pytest.mark.parametrize(
    ("evaluate", "batches"), [(held_out, 1), (part_of_a_tensor, 1), (in_batches, 2)], ids=lambda each: str(each)[:20]
)
def test_a_validation_of_every_step_is_recorded_now_and_then(
    capturing: Any, read_modes: Any, evaluate: Callable[[nn.Module], None], batches: int
) -> None:
    seen, modes = recorded(capturing, read_modes, evaluate, every=1, steps=24)
    assert len(seen) == 5 * batches  # of the third time and of each fifth after it
    assert modes.count("TRAIN") == 24


def test_a_validation_of_every_step_in_training_mode_is_counted(capturing: Any) -> None:
    assert TRAINING_MODE_EVALUATIONS.of(program_facts(capturing, held_out, every=1, steps=24)) == 3


@pytest.mark.parametrize(
    "other", [of_the_training_batch, of_new_data, of_one_buffer, *WITHOUT_EVAL], ids=lambda function: function.__name__
)
def test_nothing_else_of_every_step_is_taken_for_one(
    capturing: Any, read_modes: Any, other: Callable[[nn.Module], None]
) -> None:
    assert recorded(capturing, read_modes, other, model=Net, every=1, steps=24)[0] == []


def enter() -> list[object]:
    return [kind.__enter__ for kind in (torch.no_grad, torch.inference_mode, torch.set_grad_enabled)]


@pytest.mark.parametrize(
    ("evaluate", "model"),
    [
        pytest.param(in_evaluation_mode, Net, id="the-script-calls-eval"),
        pytest.param(in_evaluation_mode, plain, id="and-nothing-behaves-otherwise"),
    ],
)
def test_torch_is_as_it_was_when_nothing_more_can_be_learned(
    capturing: Any, evaluate: Callable[[nn.Module], None], model: Callable[[], nn.Module]
) -> None:
    before, trained = enter(), model()
    with capturing(losses=1):
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
        for step in range(10):
            loss_of(trained).backward()
            optimizer.step()
            if step == 0:
                assert enter() != before
            if step % 3 == 2:
                evaluate(trained)
        loss_of(trained).backward()
        assert enter() == before


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_switches_do_what_they_did(capturing: Any) -> None:
    model = Net()
    with capturing(losses=1):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loss_of(model).backward()
        optimizer.step()
        with torch.inference_mode():
            assert torch.is_inference_mode_enabled()
        with torch.inference_mode(False):
            assert torch.is_grad_enabled()
        assert torch.is_grad_enabled()
        with torch.no_grad():
            assert not torch.is_grad_enabled()
            with torch.enable_grad():
                assert torch.is_grad_enabled()
            model(VALUES)
            assert torch.jit.script(_scripted)(VALUES, LABELS) > 0
            traced = torch.jit.trace(lambda x: cross_entropy(x, LABELS), VALUES)  # type: ignore[no-untyped-call] # torch's
            assert traced(VALUES) > 0


def _scripted(values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return functional.cross_entropy(values, labels)


@torch.no_grad()
def accuracy(model: nn.Module) -> None:
    for values in WIDER.split(4):
        (model(values).argmax(1) == LABELS).sum().item()


@torch.no_grad()
def accuracy_of_all(model: nn.Module) -> None:
    model(HELD_OUT).argmax(1).eq(LABELS).float().mean()


@torch.no_grad()
def binary_accuracy(model: nn.Module) -> None:
    for values in WIDER.split(4):
        ((model(values)[:, 0] > 0).float() == (LABELS > 0).float()).sum()


@torch.no_grad()
def accuracy_of_lists(model: nn.Module) -> None:
    predicted: list[int] = []
    known: list[int] = []
    for values in WIDER.split(4):
        predicted += model(values).argmax(1).tolist()
        known += LABELS.tolist()


@torch.no_grad()
def accuracy_of_arrays(model: nn.Module) -> None:
    for values in WIDER.split(4):
        (model(values).argmax(1).cpu().numpy() == LABELS.numpy()).mean()


@torch.no_grad()
def error_rate(model: nn.Module) -> None:
    for values in WIDER.split(4):
        (model(values).argmax(1) != LABELS).sum()


METRICS = [accuracy, accuracy_of_all, binary_accuracy, accuracy_of_lists, accuracy_of_arrays, error_rate]


@pytest.mark.parametrize("evaluate", METRICS, ids=lambda function: function.__name__)
def test_an_accuracy_alone_is_counted(capturing: Any, evaluate: Callable[[nn.Module], None]) -> None:
    facts = program_facts(capturing, evaluate)
    assert TRAINING_MODE_EVALUATIONS.of(facts) >= 2
    assert EVALUATION_LINE.of(facts).startswith("test_validation_in_training_mode.py:")


@torch.no_grad()
def samples_of_fixed_noise(model: nn.Module) -> None:
    model(HELD_OUT).clamp(0, 1).numpy()


@torch.no_grad()
def classes_of_unlabelled_data(model: nn.Module) -> None:
    for values in WIDER.split(4):
        model(values).argmax(1).tolist()


def adapted_on_purpose(model: nn.Module) -> None:
    model.train()
    accuracy(model)


@torch.no_grad()
def monte_carlo_accuracy(model: nn.Module) -> None:
    for values in WIDER.split(4):
        mean = torch.stack([model(values).softmax(1) for _ in range(5)]).mean(0)
        (mean.argmax(1) == LABELS).sum()


@torch.no_grad()
def accuracy_of_the_batch(model: nn.Module) -> None:
    (model(VALUES).argmax(1) == LABELS).sum()


@torch.no_grad()
def accuracy_of_one_new_batch(model: nn.Module) -> None:
    (model(torch.randn(4, 6)).argmax(1) == LABELS).sum()


@torch.no_grad()
def ended_episodes(model: nn.Module) -> None:
    values = model(HELD_OUT).max(1).values
    values[LABELS == 1] = 0


def accuracy_in_evaluation_mode(model: nn.Module) -> None:
    model.eval()
    accuracy(model)
    model.train()


@pytest.mark.parametrize(
    "other",
    [
        samples_of_fixed_noise, classes_of_unlabelled_data, adapted_on_purpose, monte_carlo_accuracy,
        accuracy_of_the_batch, accuracy_of_one_new_batch, ended_episodes, accuracy_in_evaluation_mode,
    ],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_no_accuracy_is_not_counted(capturing: Any, other: Callable[[nn.Module], None]) -> None:
    assert TRAINING_MODE_EVALUATIONS.of(program_facts(capturing, other)) == 0


def test_an_accuracy_of_every_step_is_not_counted(capturing: Any) -> None:
    assert TRAINING_MODE_EVALUATIONS.of(program_facts(capturing, accuracy_of_one_new_batch, every=1)) == 0


@pytest.mark.parametrize("evaluate", METRICS, ids=lambda function: function.__name__)
def test_no_method_of_tensors_stays_replaced(capturing: Any, evaluate: Callable[[nn.Module], None]) -> None:
    program_facts(capturing, evaluate)
    assert not {"__eq__", "__ne__", "eq", "ne", "numpy", "tolist"} & set(vars(torch.Tensor))
