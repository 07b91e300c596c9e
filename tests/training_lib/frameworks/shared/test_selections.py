"""What chooses by a number, of libraries that are not imported for it: stand-ins have their names and attributes."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from trackside.contracts.observations import SelectionFacts
from trackside.frameworks.shared.selections import of_running_trainer, selections_of


class EarlyStopping:
    def __init__(self, monitor: Any, mode: Any, **more: Any) -> None:
        self.monitor, self.mode = monitor, mode
        self.__dict__.update(more)


class ModelCheckpoint(EarlyStopping):
    pass


class Patient(EarlyStopping):
    """A class of the script's own."""


class Progress:
    monitor, mode = "val_loss", "max"


SEEN = [
    pytest.param(EarlyStopping("val_loss", "max"), "EarlyStopping", id="early stopping"),
    pytest.param(Patient("val_loss", "min"), "EarlyStopping", id="a class made of it"),
    pytest.param(ModelCheckpoint("acc", "min", save_best_only=True), "ModelCheckpoint", id="the best alone"),
    pytest.param(ModelCheckpoint("acc", "min", save_top_k=1), "ModelCheckpoint", id="the best one"),
]
UNSEEN = [
    pytest.param(EarlyStopping("val_loss", "auto"), id="the library decides"),
    pytest.param(ModelCheckpoint("acc", "min", save_best_only=False), id="all are kept, Keras"),
    pytest.param(ModelCheckpoint("acc", "min", save_top_k=-1), id="all are kept, Lightning"),
    pytest.param(ModelCheckpoint(None, "min", save_top_k=1), id="no number"),
    pytest.param(Progress(), id="another callback"),
]


@pytest.mark.parametrize(("callback", "kind"), SEEN)
def test_callbacks_with_a_direction_are_read(callback: Any, kind: str) -> None:
    found = selections_of([Progress(), callback], line="train.py:3")
    assert found == (SelectionFacts(kind, callback.monitor, callback.mode, "train.py:3"),)


@pytest.mark.parametrize("callback", UNSEEN)
def test_callbacks_without_one_are_left_out(callback: Any) -> None:
    assert selections_of([callback]) == ()


def within(module: str, trainer: Any) -> tuple[SelectionFacts, ...]:
    """Return what is found in a call from a method of that module."""
    names: dict[str, Any] = {"__name__": module, "look": lambda: of_running_trainer(sys._getframe())}
    exec("def fit(self):\n    return look()", names)  # noqa: S102 - a function of another module
    found = names["fit"](trainer)
    assert isinstance(found, tuple)
    return found


def arguments(metric: Any, is_greater: Any, *, loads: bool = True) -> Any:
    return SimpleNamespace(metric_for_best_model=metric, greater_is_better=is_greater, load_best_model_at_end=loads)


LIGHTNING, TRANSFORMERS = "lightning.pytorch.trainer.trainer", "transformers.trainer"
STOPS = SimpleNamespace(callbacks=[EarlyStopping("val_loss", "max")])


@pytest.mark.parametrize(
    ("module", "trainer", "found"),
    [
        pytest.param(LIGHTNING, STOPS, [("EarlyStopping", "val_loss", "max")], id="lightning"),
        pytest.param(
            TRANSFORMERS,
            SimpleNamespace(args=arguments("eval_mse", True)),
            [("load_best_model_at_end", "eval_mse", "max")],
            id="transformers",
        ),
        pytest.param(
            TRANSFORMERS, SimpleNamespace(args=arguments("loss", False, loads=False)), [], id="none is loaded"
        ),
        pytest.param(TRANSFORMERS, SimpleNamespace(args=arguments(None, None)), [], id="no number"),
        pytest.param("train", STOPS, [], id="another module"),
        pytest.param(LIGHTNING, SimpleNamespace(callbacks=[]), [], id="no callbacks"),
    ],
)
def test_the_running_trainer_is_found_on_the_stack(
    module: str, trainer: Any, found: list[tuple[str, str, str]]
) -> None:
    assert [(each.kind, each.monitor, each.mode) for each in within(module, trainer)] == found
