"""A training at rest meets nothing of ours but a counter; a step of a burst is recorded as if all were watched."""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing.queues
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from torch.utils.data import DataLoader, TensorDataset, dataloader
from torch.utils.data._utils import fetch as fetching
from torch.utils.data._utils import pin_memory as pinning

import trackside
from trackside.capture.statistics import step_numbers
from trackside.capture.statistics.rest import LEAST_BURST
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.run.recorded_names import (
    BATCH_REPEATED,
    BATCHES_READY,
    DEAR_INTERVAL,
    NORMS_INTERVAL,
    OVERHEAD,
    PROCESSOR_WAIT_SECONDS,
    RESTED_STEPS,
    ROWS_REPEATED,
    STEP_SECONDS,
)
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.storage.local import LocalStore
from trackside.trial.recorded.recorded_statistics import RecordedStatistics

STEPS, FIRST, REST = 90, 21, 7  # no look into a graph is due right after the first ones
WATCHED = StatisticsRequest(budget=1.0, dear_interval=1, dense_start_steps=0, dense_after_steps=0)  # all, at each
LAST = 10**9
LOSS = ("CrossEntropyLoss_output_0", "mean", "TRAIN")
# What tells time, and what is of the batches before, which a rest makes unknown.
OTHERWISE = {BATCHES_READY, OVERHEAD, PROCESSOR_WAIT_SECONDS, RESTED_STEPS, BATCH_REPEATED, ROWS_REPEATED}

Key = tuple[str, str, str]
Recorded = dict[Key, dict[int, float]]


class Training:
    """A small training, step by step."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def loss(self) -> torch.Tensor:
        return functional.cross_entropy(self.model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))

    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()


class Scheduled(Training):
    def __init__(self) -> None:
        super().__init__()
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 5, 0.9)

    def step(self, number: int) -> None:
        super().step(number)
        self.schedule.step()


class Accumulating(Training):
    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        for _ in range(1 + number % 3):
            (self.loss() / 3).backward()
        self.optimizer.step()


class Clipped(Training):
    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


class Zeroed(Training):
    def step(self, number: int) -> None:
        self.optimizer.zero_grad(set_to_none=False)
        self.loss().backward()
        self.optimizer.step()


class Kept(Training):
    """Gradients are not cleared at every second step."""

    def step(self, number: int) -> None:
        if number % 2:
            self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()


class Evaluated(Training):
    def step(self, number: int) -> None:
        super().step(number)
        if number % 20 == 15:
            self.model.eval()
            with torch.no_grad():
                self.loss()
                self.loss()
            self.model.train()


class EvaluatedInTraining(Training):
    """Its validation calls no `eval()`."""

    def step(self, number: int) -> None:
        super().step(number)
        if number % 20 == 15:
            with torch.no_grad():
                self.loss()


class Frozen(Training):
    def step(self, number: int) -> None:
        super().step(number)
        if number == 40:
            for parameter in self.model[0].parameters():
                parameter.requires_grad_(False)
                parameter.grad = None


class Closures(Training):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.LBFGS(self.model.parameters(), lr=0.1, max_iter=2)

    def step(self, number: int) -> None:
        inputs, labels = torch.randn(8, 6), torch.randint(0, 3, (8,))

        def closure() -> torch.Tensor:
            self.optimizer.zero_grad()
            loss = functional.cross_entropy(self.model(inputs), labels)
            loss.backward()
            return loss

        self.optimizer.step(closure)


class Scaled(Training):
    """AMP's scaler on the CPU. At some turns a gradient is infinite, and the optimizer's step is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        self.scaler.scale(self.loss()).backward()
        if number in {30, 31, 57}:
            next(self.model.parameters()).grad.fill_(float("inf"))  # type: ignore[union-attr]
        self.scaler.step(self.optimizer)
        self.scaler.update()


class LeftOut(Training):
    """The script itself makes no step now and then."""

    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        if number % 9:
            self.optimizer.step()


class Loaded(Training):
    """Passes over 13 batches of a DataLoader."""

    workers = 0

    def __init__(self) -> None:
        super().__init__()
        data = TensorDataset(torch.randn(104, 6), torch.randint(0, 3, (104,)))
        self.loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=self.workers)
        self.batches = self.endless()

    def endless(self) -> Iterator[Any]:
        while True:
            yield from self.loader

    def loss(self) -> torch.Tensor:
        inputs, labels = next(self.batches)
        return functional.cross_entropy(self.model(inputs), labels)


class Worked(Loaded):
    workers = 1


class Another(Training):
    """A second training begins later, with an optimizer of its own."""

    def step(self, number: int) -> None:
        if number == 50:
            self.__init__()  # type: ignore[misc]
        super().step(number)


class Two(Training):
    """Two optimizers, each with its own layer."""

    def __init__(self) -> None:
        super().__init__()
        first, last = self.model[0], self.model[2]
        self.optimizer = torch.optim.SGD(first.parameters(), lr=0.1)
        self.other = torch.optim.Adam(last.parameters(), lr=0.01)

    def step(self, number: int) -> None:
        self.other.zero_grad()
        super().step(number)
        self.other.step()


class KeptByOne(Two):
    """The gradients of the second optimizer are never cleared."""

    def step(self, number: int) -> None:
        Training.step(self, number)
        self.other.step()


class Turns(Two):
    """The second optimizer steps at each third turn, on a loss of its own."""

    def step(self, number: int) -> None:
        Training.step(self, number)
        if number % 3 == 2:
            self.other.zero_grad()
            self.loss().backward()
            self.other.step()


class OneUnused(Two):
    def step(self, number: int) -> None:
        Training.step(self, number)


class PerLayer(Training):
    """An optimizer for each parameter, as Pyro makes them."""

    def __init__(self) -> None:
        super().__init__()
        self.all = [torch.optim.SGD([parameter], lr=0.1) for parameter in self.model.parameters()]

    def step(self, number: int) -> None:
        self.model.zero_grad()
        self.loss().backward()
        for optimizer in self.all:
            optimizer.step()


class ScaledTwo(Two):
    """AMP's scaler leaves out steps of one optimizer, and of both."""

    def __init__(self) -> None:
        super().__init__()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        self.other.zero_grad()
        self.scaler.scale(self.loss()).backward()
        for layer, turns in (self.model[0], {30, 31, 57}), (self.model[2], {31, 44}):
            if number in turns:
                layer.weight.grad.fill_(float("inf"))  # type: ignore[union-attr]
        for optimizer in (self.optimizer, self.other):
            self.scaler.step(optimizer)
        self.scaler.update()


class _Calling(torch.optim.SGD):
    """Its `step` calls that of its class above, around which PyTorch puts its hooks, too."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


class CallingAbove(Training):
    def __init__(self) -> None:
        super().__init__()
        torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
        self.optimizer = _Calling(self.model.parameters(), lr=0.1, momentum=0.9)


class _Ahead(torch.optim.Optimizer):
    """A wrapper whose step is that of another optimizer, as SAM and Lookahead are."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure: Any = None) -> Any:
        return self.inner.step()


class Wrapped(Training):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = _Ahead(self.optimizer)


class Interrupted(Training):
    """Its optimizer raises within `step` now and then, and the script goes on."""

    class Optimizer(_Calling):
        raises = False

        def step(self, closure: Any = None) -> Any:
            super().step(closure)
            if self.raises:
                raise ArithmeticError

    def __init__(self) -> None:
        super().__init__()
        torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
        self.optimizer = self.Optimizer(self.model.parameters(), lr=0.1)

    def step(self, number: int) -> None:
        self.optimizer.raises = number in {5, 30, 47}  # type: ignore[attr-defined]
        with contextlib.suppress(ArithmeticError):
            super().step(number)


@contextmanager
def capturing(run: Path, request: CaptureRequest | None = None, *, rests: bool = True) -> Iterator[PyTorchAdapter]:
    request = request or CaptureRequest((), statistics=WATCHED)
    capture = PyTorchAdapter(CaptureEnvironment(str(run), request.to_json(), 0, 1))
    capture.install()
    capture.session.has_place_for_profiles = False  # no window opens by the clock
    capture.session.statistics.budget.share = 1e9  # a busy machine takes the same tiers
    rest = capture.session.rest
    rest.first_watched, rest.wanted, rest.longest_seconds = FIRST, lambda: REST if rests else 0, 1e9
    try:
        yield capture
    finally:
        capture.uninstall()


def train(kind: type[Training], seen: Callable[[int], object] = lambda number: None) -> nn.Module:
    training = kind()
    for number in range(STEPS):
        training.step(number)
        seen(number)
    return training.model


def recorded(run: Path) -> Recorded:
    """Return {(name, statistic, mode): {step: value}}."""

    def refuse(error: Exception) -> None:
        raise error

    found = RecordedStatistics(LocalStore(RunLocation(str(run)).statistics), report=refuse)
    found.refresh()
    return {
        (tensor, statistic, mode): dict(zip(column.steps.tolist(), column.values.tolist(), strict=True))
        for tensor in found.tensors
        for statistic in found.statistics_of(tensor)
        for mode in ("TRAIN", "EVAL")
        for column in found.columns(tensor, statistic, last_step=LAST, mode=mode)
    }


RESTS = [
    pytest.param(Training, id="plain"),
    pytest.param(Scheduled, id="schedule"),
    pytest.param(Accumulating, id="accumulation"),
    pytest.param(Clipped, id="clipping"),
    pytest.param(Zeroed, id="gradients-zeroed-in-place"),
    pytest.param(Kept, id="gradients-kept"),
    pytest.param(Evaluated, id="evaluation"),
    pytest.param(EvaluatedInTraining, id="evaluation-in-training-mode"),
    pytest.param(Frozen, id="frozen-later"),
    pytest.param(Closures, id="closures"),
    pytest.param(Scaled, id="steps-that-amp-skips"),
    pytest.param(LeftOut, id="steps-left-out"),
    pytest.param(Loaded, id="loader"),
    pytest.param(Worked, id="loader-with-workers"),
    pytest.param(Another, id="another-training"),
    pytest.param(Two, id="two-optimizers"),
    pytest.param(KeptByOne, id="two-optimizers-gradients-of-one-kept"),
    pytest.param(Turns, id="two-optimizers-one-at-each-third-turn"),
    pytest.param(OneUnused, id="two-optimizers-one-never-steps"),
    pytest.param(PerLayer, id="an-optimizer-for-each-parameter"),
    pytest.param(ScaledTwo, id="two-optimizers-steps-that-amp-skips"),
    pytest.param(CallingAbove, id="a-step-that-calls-the-step-above"),
    pytest.param(Wrapped, id="a-step-that-calls-another-optimizers"),
    pytest.param(Interrupted, id="steps-that-raise"),
]


@pytest.mark.parametrize("kind", RESTS)
def test_a_burst_records_what_a_watched_training_does(kind: type[Training], tmp_path: Path) -> None:
    bare = train(kind)
    with capturing(tmp_path / "watched", rests=False) as capture:
        train(kind)
        assert not capture.session.rest.steps
        steps = capture.session.engine.position()
    with capturing(tmp_path / "rested") as capture:
        rested = train(kind)
        capture.steps.resting.end()
        at_rest = capture.session.rest.steps
        assert capture.session.engine.position() == steps
        assert capture.session.statistics.is_on
        assert not capture.session.guard.is_off
    for one, other in zip(bare.parameters(), rested.parameters(), strict=True):
        assert torch.equal(one, other)
    assert at_rest >= STEPS / 5
    expected, found = recorded(tmp_path / "watched"), recorded(tmp_path / "rested")
    differing = {
        (key, step): (value, expected.get(key, {}).get(step))
        for key, values in found.items()
        if key[0] not in OTHERWISE and not key[0].endswith("_seconds")
        for step, value in values.items()
        if expected.get(key, {}).get(step) != value
    }
    assert not differing
    losses = [*found[LOSS]]
    assert losses[: FIRST - 2] == [*expected[LOSS]][: FIRST - 2], "evaluations are among the first steps"
    assert {key: values for key, values in expected.items() if key[2] == "EVAL"} == {
        key: values for key, values in found.items() if key[2] == "EVAL"
    }
    of_each = [key for key, values in expected.items() if key[2] == "TRAIN" and {*expected[LOSS]} == {*values}]
    assert len(of_each) >= 2
    assert {key: [*found[key]] for key in of_each if key[0] not in OTHERWISE} == {
        key: losses for key in of_each if key[0] not in OTHERWISE
    }


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        pytest.param(CallingAbove, STEPS, id="a-step-that-calls-the-step-above"),
        pytest.param(Wrapped, STEPS, id="a-step-that-calls-another-optimizers"),
        pytest.param(Two, STEPS, id="two-optimizers"),
        pytest.param(PerLayer, STEPS, id="an-optimizer-for-each-parameter"),
        pytest.param(Closures, STEPS, id="closures"),
        pytest.param(Scaled, STEPS - 3, id="steps-that-amp-skips"),
        pytest.param(Interrupted, STEPS - 3, id="steps-that-raise"),
    ],
)
@pytest.mark.parametrize("rests", [True, False], ids=["rests", "watched"])
def test_the_number_of_steps(kind: type[Training], steps: int, rests: bool, tmp_path: Path) -> None:
    with capturing(tmp_path / "run", rests=rests) as capture:
        train(kind)
        capture.steps.resting.end()
        assert capture.session.engine.step == steps


def test_the_first_step_after_a_rest_says_how_many_were_not_seen(tmp_path: Path) -> None:
    with capturing(tmp_path / "run"):
        train(Training)
    found = recorded(tmp_path / "run")
    losses, gaps = [*found[LOSS]], found[RESTED_STEPS, "mean", "TRAIN"]
    assert gaps == {step: step - before - 1 for before, step in itertools.pairwise(losses) if step - before > 1}
    assert max(gaps.values()) == REST
    bursts = [step for step in gaps if step + LEAST_BURST < STEPS]
    assert all({step + place for place in range(LEAST_BURST)} <= {*losses} for step in bursts)
    assert [*found[STEP_SECONDS, "mean", "TRAIN"]] == losses[1:]


def test_a_look_into_a_graph_that_is_due_cuts_no_rest_short(tmp_path: Path) -> None:
    lasting = 9  # so that step 40, from which on one is due, is within a rest
    with capturing(tmp_path / "run") as capture:
        capture.session.rest.wanted = lambda: lasting
        train(Training)
    assert {*recorded(tmp_path / "run")[RESTED_STEPS, "mean", "TRAIN"].values()} == {lasting}


def _in_place() -> dict[str, object]:
    """Return what a step may meet of ours, by name."""
    classes = [
        (torch.autograd, "backward"),
        (nn.Module, "__call__"),
        (nn.utils, "clip_grad_norm_"),
        (nn.utils.clip_grad, "clip_grad_value_"),
        (dataloader._BaseDataLoaderIter, "__next__"),
        (dataloader._BaseDataLoaderIter, "_next_index"),
        (fetching._MapDatasetFetcher, "fetch"),
        (fetching._IterableDatasetFetcher, "fetch"),
        (pinning, "pin_memory"),
        (queue.Queue, "get"),
        (queue.Queue, "put"),
        (multiprocessing.queues.Queue, "get"),
        (multiprocessing.queues.SimpleQueue, "get"),
        (torch.optim.lr_scheduler.LRScheduler, "step"),
        (functional, "cross_entropy"),
        (functional, "dropout"),
        (functional, "scaled_dot_product_attention"),
    ]
    found: dict[str, object] = {f"{owner.__name__}.{name}": vars(owner)[name] for owner, name in classes}
    found |= {f"code of {name}": function.__code__ for name, function in found.items() if hasattr(function, "__code__")}
    found["hooks before an optimizer"] = len(_global_optimizer_pre_hooks)
    return found


def _hooks_of(model: nn.Module) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    of_modules = sum(len(vars(module)[kind]) for module in model.modules() for kind in kinds)
    of_parameters = sum(
        len(parameter._backward_hooks or ()) + len(parameter._post_accumulate_grad_hooks or ())
        for parameter in model.parameters()
    )
    return of_modules + of_parameters


def test_nothing_of_ours_is_in_place_at_rest(tmp_path: Path) -> None:
    before = _in_place()
    at_rest, watched = [], []
    with capturing(tmp_path / "run") as capture:
        training = Training()
        for number in range(STEPS):
            training.step(number)
            if capture.session.rest.is_on:
                at_rest.append(_in_place())
                assert not _hooks_of(training.model)
                assert not training.optimizer._optimizer_step_pre_hooks  # type: ignore[attr-defined]
                assert len(_global_optimizer_post_hooks) == 1
            else:
                watched.append(_in_place())
    assert at_rest
    assert all(found == before for found in at_rest)
    assert all(found["torch.autograd.backward"] is not before["torch.autograd.backward"] for found in watched)
    assert len({found["torch.autograd.backward"] for found in watched}) == 1
    assert {found["hooks before an optimizer"] for found in watched} == {1}
    assert _in_place() == before


def test_a_library_that_has_wrapped_ours_ends_all_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands above ours calls it at rest, too: it would add to steps that nobody counts."""
    original = torch.autograd.backward
    with capturing(tmp_path / "run") as capture:
        ours = torch.autograd.backward
        torch.autograd.backward = functools.wraps(ours)(functools.partial(ours))
        try:
            train(Training)
            assert not capture.session.rest.steps
        finally:
            torch.autograd.backward = original
    assert len(recorded(tmp_path / "run")[LOSS]) == STEPS


@pytest.mark.parametrize(
    ("every", "rests"), [pytest.param(40, True, id="seldom"), pytest.param(1, False, id="at-each-step")]
)
def test_a_step_that_saves_and_the_one_before_are_watched(every: int, rests: bool, tmp_path: Path) -> None:
    saved_at = Schedule(every)
    collections = CollectionRequest("losses", saved_at), CollectionRequest("biases", saved_at)
    request = CaptureRequest(collections, statistics=WATCHED)
    with capturing(tmp_path / "run", request) as capture:
        capture.session.rest.wanted = lambda: 1000
        train(Training)
        assert (capture.session.rest.steps > 0) is rests
    losses = recorded(tmp_path / "run")[LOSS]
    saved = trackside.open_trial(str(tmp_path / "run")).tensor("CrossEntropyLoss_output_0", mode="TRAIN").steps
    assert [*saved] == [*range(0, STEPS, every)]
    assert {*saved, *[step - 1 for step in saved if step]} <= {*losses}


def saved_losses(run: Path) -> dict[tuple[str, str], dict[int, float]]:
    trial = trackside.open_trial(str(run))
    return {
        (name, mode): {step: float(tensor.value(step)) for step in tensor.steps}
        for name in trial.tensor_names(collection="losses")
        for mode in ("TRAIN", "EVAL")
        for tensor in [trial.tensor(name, mode=mode)]
    }


@pytest.mark.parametrize("statistics", [True, False], ids=["beside-statistics", "alone"])
@pytest.mark.parametrize("kind", RESTS)
def test_losses_of_each_step_are_saved_at_rest_too(kind: type[Training], statistics: bool, tmp_path: Path) -> None:
    statistics_request = WATCHED if statistics else StatisticsRequest(enabled=False)
    request = CaptureRequest((CollectionRequest("losses", Schedule(1)),), statistics=statistics_request)
    with capturing(tmp_path / "watched", request, rests=False):
        train(kind)
    with capturing(tmp_path / "rested", request) as capture:
        train(kind)
        capture.steps.resting.end()
        assert capture.session.rest.steps > 0 or kind not in {Training, Clipped, Evaluated, Loaded, Scaled}
        assert not capture.session.guard.is_off
    assert saved_losses(tmp_path / "rested") == saved_losses(tmp_path / "watched")


def test_without_statistics_all_between_two_saves_is_rest(tmp_path: Path) -> None:
    request = CaptureRequest((CollectionRequest("weights", Schedule(30)),), statistics=StatisticsRequest(enabled=False))
    with capturing(tmp_path / "run", request) as capture:
        capture.session.rest.wanted = capture.session.rest._wanted
        train(Training)
        assert capture.session.rest.steps > STEPS / 2
        assert capture.session.engine.step == STEPS
    trial = trackside.open_trial(str(tmp_path / "run"))
    assert [*trial.tensor("Sequential_0.weight", mode="TRAIN").steps] == [0, 30, 60]


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda training, capture: training.model.eval(), id="evaluation"),
        pytest.param(lambda training, capture: torch.optim.SGD(training.model.parameters(), lr=0.1), id="an-optimizer"),
        pytest.param(
            lambda training, capture: torch.compile(training.model),
            id="the-compiler",
            marks=pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),  # of PyTorch's own import
        ),
    ],
)
def test_what_is_to_be_seen_ends_a_rest(happens: Callable[[Any, Any], object], tmp_path: Path) -> None:
    with capturing(tmp_path / "run") as capture:
        training = Training()
        for number in range(FIRST + 2):
            training.step(number)
        assert capture.session.rest.is_on
        happens(training, capture)
        assert not capture.session.rest.is_on


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda training: training.model.train(), id="train-without-eval"),
        pytest.param(lambda training: training.model.state_dict(), id="a-state"),
        pytest.param(lambda training: functional.cross_entropy(torch.zeros(1, 3), torch.tensor([0])), id="a-loss"),
        pytest.param(lambda training: list(DataLoader([1, 2, 3])), id="a-pass-over-other-data"),
    ],
)
def test_all_else_leaves_it(happens: Callable[[Any], object], tmp_path: Path) -> None:
    with capturing(tmp_path / "run") as capture:
        training = Training()
        for number in range(FIRST + 2):
            training.step(number)
        happens(training)
        assert capture.session.rest.is_on


def test_an_exception_of_the_script_at_rest_is_the_scripts(tmp_path: Path) -> None:
    def interrupt(number: int) -> None:
        if number == FIRST + 2:
            raise ArithmeticError

    with capturing(tmp_path / "run") as capture:
        with pytest.raises(ArithmeticError):
            train(Training, interrupt)
        assert capture.session.rest.is_on
        train(Another)
        assert not capture.session.guard.is_off


def test_two_trainings_in_two_threads(tmp_path: Path) -> None:
    models: list[nn.Module] = []
    with capturing(tmp_path / "run") as capture:
        train(Training)
        threads = [threading.Thread(target=lambda: models.append(train(Training))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not capture.session.guard.is_off
        assert capture.session.engine.step > STEPS  # of the two at least one
    assert len(models) == 2


def test_a_number_that_is_declared_is_recorded_at_every_watched_step(tmp_path: Path) -> None:
    declared = {number.key for number in step_numbers.STEP_NUMBERS}
    declared |= {(name, "mean") for name in (OVERHEAD, NORMS_INTERVAL, DEAR_INTERVAL)}
    with capturing(tmp_path / "run"):
        train(Clipped)
    found = {(name, statistic) for name, statistic, _ in recorded(tmp_path / "run") if name.startswith("trackside/")}
    assert {("trackside/gradients_kept", "mean"), ("trackside/clipping", "mean")} <= found <= declared


SCRIPT = """
import os, signal, sys, torch
from tests.training_lib.frameworks.pytorch.steps import test_resting as here
from pathlib import Path
with here.capturing(Path(sys.argv[1])) as capture:
    training = here.Training()
    for number in range(here.FIRST + 4):
        training.step(number)
    assert capture.session.rest.is_on
    {end}
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, id="sigterm"),
        pytest.param("sys.exit(3)", 3, id="exit"),
        pytest.param(
            "child = os.fork()\n    if not child:\n"
            "        [training.optimizer.step() for _ in range(9)]\n        os._exit(0)\n"
            "    os.waitpid(child, 0); sys.exit(3)",
            3,
            id="fork",
        ),
    ],
)
def test_a_process_that_ends_at_rest_stores_its_end(end: str, code: int, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(end=end), str(tmp_path / "run")], check=False)
    assert done.returncode == code
    assert [*recorded(tmp_path / "run")[LOSS]] == [*range(FIRST)]
    assert trackside.open_trial(str(tmp_path / "run")).has_ended
    assert os.listdir(tmp_path) == ["run"]


def test_a_run_that_was_killed_at_rest_goes_on_from_there(tmp_path: Path) -> None:
    end = "capture.flush(60); os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", SCRIPT.format(end=end), str(tmp_path / "run")], check=False)
    with capturing(tmp_path / "run") as capture:
        train(Training)
        position = capture.session.engine.position()
    steps = STEPS + FIRST + 4
    assert (position.step, position.mode_steps) == (steps, {"TRAIN": steps})
