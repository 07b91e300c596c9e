"""Every observation beside those of losses has one detector; events reach it, and a failing one costs itself alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from trackside.capture.ground.guard import Guard
from trackside.contracts.observations import DECLARED, PROBABILITY, ROUNDS_BEFORE, SEES_AHEAD, SEQUENCE
from trackside.frameworks.pytorch.facts import detector, detectors
from trackside.frameworks.pytorch.facts.detector import EVENTS, ByKind, Detectors, Watch
from trackside.frameworks.shared.detectors import Detector, detectors_in

OF_TREES = {ROUNDS_BEFORE}
FOUND = detectors_in(detectors)
CLASSES = [found for found in FOUND if isinstance(found.detects, type)]


def test_each_observation_has_one_detector() -> None:
    seen = [observation for found in FOUND for observation in found.observations]
    assert len(seen) == len(set(seen))
    assert {*seen} == {each for each in DECLARED if each.about != "losses"} - OF_TREES


@pytest.mark.parametrize("found", CLASSES, ids=lambda found: found.detects.__name__)
def test_a_class_hears_only_events(found: Detector) -> None:
    assert len({each.about for each in found.observations}) == 1
    methods = {name for name in vars(found.detects) if not name.startswith("_")}
    assert methods <= {*EVENTS, "of", "kinds"}


def test_what_is_as_by_default_is_left_out() -> None:
    seen = Detectors(Watch(), Guard())
    assert seen.seen_of("modules", nn.Linear(2, 2)) == {}
    assert seen.seen_of("modules", nn.Dropout(0.25)) == {PROBABILITY: 0.25}
    assert seen.seen_of("program", seen.watch) == {}


def test_a_detector_hears_calls() -> None:
    seen, layer = Detectors(Watch(), Guard()), nn.LSTM(3, 4)
    for called in seen.called[nn.LSTM]:
        called(layer, (torch.zeros(5, 2, 3),), {})
    assert seen.seen_of("modules", layer) == {SEQUENCE: (5, 2)}


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        pytest.param((nn.RNNBase,), 1, id="of-a-class-above"),
        pytest.param((nn.LSTM, nn.Linear), 1, id="of-several"),
        pytest.param((nn.Module,), 1, id="of-all"),
        pytest.param((nn.Linear,), 0, id="of-another"),
        pytest.param((nn.LSTMCell,), 0, id="of-a-class-beside"),
        pytest.param((), 0, id="of-none"),
    ],
)
def test_calls_are_noted_by_the_class_of_the_module(kinds: tuple[type[nn.Module], ...], count: int) -> None:
    by_kind = ByKind([(kinds, print)])
    assert by_kind[nn.LSTM] == (print,) * count
    assert nn.LSTM in by_kind


def test_classes_beyond_a_bound_are_forgotten() -> None:
    by_kind = ByKind([((nn.Module,), print)])
    for number in range(2500):
        assert by_kind[type(f"Layer{number}", (nn.Module,), {})] == (print,)
    assert len(by_kind) <= 1000


class Failing:
    """A detector that fails at a call."""

    def __init__(self, watch: Watch) -> None:
        self.calls = 0

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.calls += 1
        raise ValueError(self.calls)

    def of(self, module: nn.Module) -> bool:
        raise KeyError(self.calls)


def test_a_failing_detector_costs_its_own_observation_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = next(found for found in FOUND if found.observations == (SEQUENCE,))
    monkeypatch.setattr(detector, "detectors_in", lambda _: (Detector((SEES_AHEAD,), Failing), kept))
    seen, layer = Detectors(Watch(), Guard()), nn.LSTM(3, 4)
    for _ in range(2):
        for called in seen.called[nn.LSTM]:
            called(layer, (torch.zeros(5, 2, 3),), {})
        assert seen.seen_of("modules", layer) == {SEQUENCE: (5, 2)}
    assert [record.getMessage() for record in caplog.records] == [
        "trackside: seeing sees_ahead failed and is no longer done, all else goes on: ValueError: 1."
    ]
