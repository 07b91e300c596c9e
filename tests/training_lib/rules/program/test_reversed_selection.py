"""reversed-selection: the best model is chosen, or the training stopped, by a number that is to go the other way."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.contracts.observations import SELECTIONS, SelectionFacts
from trackside.rules.program.reversed_selection import ReversedSelection, direction_of
from trackside.testing.rule_case import RuleCase

LOSS = {"Loss_output_0": {"mean": steady(1, 30)}}


def of(kind: str, monitor: str, mode: str) -> ModelFacts:
    return ModelFacts(program=ProgramFacts(observed={SELECTIONS: (SelectionFacts(kind, monitor, mode, "train.py:7"),)}))


def case(kind: str, monitor: str, mode: str, *, fires: bool = False) -> RuleCase:
    name = f"{kind} of {monitor} by {mode}"
    return RuleCase(name, recorded=LOSS, facts=of(kind, monitor, mode), fires=(kind,) if fires else ())


CASES = [
    case("EarlyStopping", "val_accuracy", "min", fires=True),
    case("ModelCheckpoint", "val/loss", "max", fires=True),
    case("ReduceLROnPlateau", "validation_loss", "max", fires=True),
    case("ReduceLROnPlateau", "val_acc", "min", fires=True),
    case("load_best_model_at_end", "eval_mse", "max", fires=True),
    case("EarlyStopping", "val_f1_score", "min", fires=True),
    case("EarlyStopping", "val_accuracy", "max"),
    case("ModelCheckpoint", "val/loss", "min"),
    case("load_best_model_at_end", "eval_f1", "max"),
    case("EarlyStopping", "val_adversarial_loss", "max"),
    case("EarlyStopping", "reward", "min"),
    case("ReduceLROnPlateau", "", "max"),
    RuleCase("nothing is chosen", recorded=LOSS, facts=ModelFacts()),
    RuleCase("no facts", recorded=LOSS),
]

test_cases = every_case(ReversedSelection(), CASES)


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("loss", "min"), ("Val_Loss", "min"), ("valid-rmse", "min"), ("epoch_error_rate", "min"), ("eval_wer", "min"),
        ("acc", "max"), ("val_sparse_categorical_accuracy", "max"), ("test/f1", "max"), ("top5_acc", "max"),
        ("neg_loss", ""), ("loss_accuracy", ""), ("dice_loss_weight", ""), ("score", ""), ("", ""), ("inaccuracy", ""),
    ],
)  # fmt: skip
def test_a_name_tells_its_direction_or_nothing(name: str, direction: str) -> None:
    assert direction_of(name) == direction
