"""Test what every framework adapter must do: inherit `AdapterContract` in a test module and write `train`.

    class TestMyAdapter(AdapterContract):
        loss_name, weight_name = "MSELoss", "Net_fc.weight"  # as the adapter names them

        def train(self, training, run, request): ...  # carries out the training, captured if `run` is not ""

The training is the same for all: a linear model without bias and plain gradient descent. What it must have saved and
recorded is computed here, from NumPy alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.run.profiling_request import ProfilingRequest, Window
from trackside.contracts.run_layout import RunLocation
from trackside.evaluation.backtest import backtest
from trackside.speed.performance.details import PYTHON, read_details
from trackside.storage.open_store import open_store
from trackside.trial.trial import Trial, open_trial

Array = NDArray[np.float64]

SINGLE = 1e-6  # statistics are stored in single precision
EVERY_STEP = StatisticsRequest(budget=1.0, dear_interval=1)
REQUEST = CaptureRequest(
    tuple(
        CollectionRequest(name, Schedule(every)) for name, every in (("losses", 1), ("weights", 2), ("gradients", 2))
    ),
    statistics=EVERY_STEP,
)


@dataclass(frozen=True)
class Training:
    """Least squares by plain gradient descent.

    Attributes:
        inputs: A batch for each step, of shape (steps, 4, 3).
        targets: Of shape (steps, 4, 1).
        weight: Where it starts, of shape (1, 3).
        learning_rate: What a gradient is multiplied by.
        evaluated_after: Steps after which the batch is evaluated once, in the mode EVAL.
    """

    inputs: Array
    targets: Array
    weight: Array = field(default_factory=lambda: np.array([[0.5, -1.0, 2.0]]))
    learning_rate: float = 0.1
    evaluated_after: frozenset[int] = frozenset()

    def expected(self) -> Iterator[Expected]:
        """Return what each training step is made of."""
        weight = self.weight
        for inputs, targets in zip(self.inputs, self.targets, strict=True):
            error = inputs @ weight.T - targets
            gradient = 2 * error.T @ inputs / error.size
            yield Expected(float(np.mean(error**2)), weight, gradient)
            weight = weight - self.learning_rate * gradient


@dataclass(frozen=True)
class Expected:
    """A training step: its loss, the weight that it used, and the gradient."""

    loss: float
    weight: Array
    gradient: Array


def training(steps: int, *, scale: float = 1.0, evaluated_after: tuple[int, ...] = ()) -> Training:
    """Return a training on random numbers.

    Args:
        steps: The number of optimizer steps.
        scale: A factor of inputs and targets: with a large one the loss explodes.
        evaluated_after: The steps after which the model is evaluated.
    """
    random = np.random.default_rng(7)
    inputs, targets = random.normal(size=(steps, 4, 3)), random.normal(size=(steps, 4, 1))
    return Training(inputs * scale, targets * scale, evaluated_after=frozenset(evaluated_after))


class AdapterContract:
    """Tests of the seam `trackside.frameworks.shared.adapter`."""

    loss_name = "MSELoss"
    weight_name = "fc.weight"
    tolerance = 1e-5  # relative; a framework may compute in single precision

    def train(self, training: Training, run: str, request: CaptureRequest) -> Array:
        """Carry out the training, and return the weight at its end.

        Args:
            training: What is trained, and how.
            run: Where the run lies; "" for a training that is not captured.
            request: What is captured.
        """
        raise NotImplementedError("write `train`: it carries out the training in the framework")

    def test_saves_what_the_training_used(self, tmp_path: Path) -> None:
        subject = training(6)
        self.train(subject, str(tmp_path), REQUEST)
        trial = open_trial(str(tmp_path))
        assert trial.steps() == tuple(range(6))
        for step, expected in enumerate(subject.expected()):
            self._same(trial, self.loss_name + "_output_0", step, np.array(expected.loss))
            if step % 2 == 0:
                self._same(trial, self.weight_name, step, expected.weight)
                self._same(trial, f"gradient/{self.weight_name}", step, expected.gradient)
            else:
                with pytest.raises(TensorNotSavedError):
                    trial.value(self.weight_name, step=step, worker=trial.workers[0])

    def test_records_statistics_of_every_step(self, tmp_path: Path) -> None:
        subject = training(6)
        self.train(subject, str(tmp_path), CaptureRequest((), statistics=EVERY_STEP))
        trial = open_trial(str(tmp_path))
        gradient = f"gradient/{self.weight_name}"
        for step, expected in enumerate(subject.expected()):
            sizes = np.abs(expected.gradient)
            for name, statistic, value in (
                (self.loss_name + "_output_0", "mean", expected.loss),
                (gradient, "l2", float(np.linalg.norm(expected.gradient))),
                (gradient, "abs_mean", float(sizes.mean())),
                (gradient, "abs_max", float(sizes.max())),
                (self.weight_name, "l2", float(np.linalg.norm(expected.weight))),
            ):
                recorded = self._recorded(trial, name, statistic)[step]
                assert recorded == pytest.approx(value, rel=max(self.tolerance, SINGLE)), (name, statistic)

    def test_the_training_is_the_same_without_it(self, tmp_path: Path) -> None:
        subject = training(8, evaluated_after=(3,))
        bare = self.train(subject, "", REQUEST)
        assert np.array_equal(self.train(subject, str(tmp_path), REQUEST), bare)

    def test_counts_the_steps_of_each_mode(self, tmp_path: Path) -> None:
        subject = training(4, evaluated_after=(1, 3))
        self.train(subject, str(tmp_path), REQUEST)
        trial = open_trial(str(tmp_path))
        assert [trial.mode_of(step) for step in trial.steps()] == ["TRAIN", "TRAIN", "EVAL", "TRAIN", "TRAIN", "EVAL"]
        assert len(trial.steps("EVAL")) == 2

    def test_ends_the_run(self, tmp_path: Path) -> None:
        self.train(training(2), str(tmp_path), REQUEST)
        assert open_trial(str(tmp_path)).has_ended

    def test_profiles_the_python_functions_of_the_requested_steps(self, tmp_path: Path) -> None:
        window = ProfilingRequest(python=Window(first_step=2, steps=3))
        self.train(training(8), str(tmp_path), replace(REQUEST, profiling=window))
        (functions,) = read_details(open_store(RunLocation(str(tmp_path)).profiles))
        assert (functions.kind, functions.first_step, functions.last_step) == (PYTHON, 2, 4)
        assert functions.rows

    def test_goes_on_with_a_run_that_was_left_open(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRACKSIDE_ENDED_BY", "somebody")
        for _ in range(2):
            self.train(training(3), str(tmp_path), REQUEST)
        trial = open_trial(str(tmp_path))
        assert trial.steps() == tuple(range(6))
        assert not trial.has_ended

    def test_creates_nothing_without_a_step(self, tmp_path: Path) -> None:
        run = tmp_path / "run"
        self.train(training(0), str(run), REQUEST)
        assert not run.exists()

    @pytest.mark.parametrize("run", ["ftp://host/run", "{file}/run"])
    def test_a_run_that_cannot_be_stored_costs_the_training_nothing(
        self, run: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "file"
        file.write_text("no folder")
        subject = training(3)
        bare = self.train(subject, "", REQUEST)
        with caplog.at_level(logging.WARNING):
            assert np.array_equal(self.train(subject, run.format(file=file), REQUEST), bare)
        assert any(record.getMessage().startswith("trackside: ") for record in caplog.records)

    @pytest.mark.parametrize(
        ("scale", "is_found"), [pytest.param(1e-6, True, id="tiny"), pytest.param(1, False, id="well")]
    )
    def test_is_judged_by_the_rules(self, scale: float, is_found: bool, tmp_path: Path) -> None:
        self.train(training(12, scale=scale), str(tmp_path), REQUEST)
        found = backtest(str(tmp_path), [RuleConfiguration("vanishing-gradient")], clock=lambda: 0.0)
        tensors = [finding.subject for verdict in found.issues for finding in verdict.findings]
        assert tensors == [f"gradient/{self.weight_name}"] * is_found

    def _same(self, trial: Trial, name: str, step: int, expected: Array) -> None:
        found = trial.value(name, step=step, worker=trial.workers[0])
        assert found.reshape(expected.shape) == pytest.approx(expected, rel=self.tolerance)

    def _recorded(self, trial: Trial, name: str, statistic: str) -> dict[int, float]:
        (column,) = trial.columns(name, statistic, last_step=10**9, mode="TRAIN")
        return dict(zip(column.steps.tolist(), column.values.tolist(), strict=True))
