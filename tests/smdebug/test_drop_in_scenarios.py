"""Hooks of the real smdebug and of the drop-in, side by side: the same steps, modes, names and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.smdebug.fuzz_drop_in import answers_of
from tests.smdebug.random_scenarios import KINDS, Scenario, scenario_of, surprises

pytest.importorskip("torch")

SEEDS = range(1000, 1016)
TRAIN, EVAL, PREDICT = (["mode", mode] for mode in ("TRAIN", "EVAL", "PREDICT"))
ALL: dict[str, Any] = {"save_all": True}
FOUR: dict[str, Any] = {"include_collections": KINDS}
BY_MODE = {"TRAIN": [2, 0, None, None], "EVAL": [2, 0, None, None], "PREDICT": [1, 0, None, None]}
TWO_HOOKS: list[list[Any]] = [["start", "a"], ["mode", "TRAIN", 0], ["start", "b"], ["mode", "TRAIN", 1]]
START: list[list[Any]] = [["start"], TRAIN]
CELL: list[list[Any]] = [*START, ["train", 3]]

# Scripts that once had other answers.
SCRIPTS: dict[str, Scenario] = {
    "evaluation, then prediction": {
        "hook": FOUR,
        "events": [*START, ["train", 2], EVAL, ["evaluate", 2], PREDICT, ["evaluate", 2], TRAIN, ["train", 2]],
    },
    "a schedule for each mode": {
        "hook": {**FOUR, "schedules": BY_MODE},
        "events": [*START, ["train", 3], EVAL, ["evaluate", 5], PREDICT, ["evaluate", 3], EVAL, ["evaluate", 4]],
    },
    "two hooks in turn": {"hook": ALL, "events": [*TWO_HOOKS, *[["train", 1, 0], ["train", 1, 1]] * 4]},
    "two hooks, and evaluations": {
        "hook": ALL,
        "events": [
            *TWO_HOOKS,
            *[["train", 1, 0], ["train", 1, 1]] * 2,
            ["mode", "EVAL", 0],
            ["mode", "EVAL", 1],
            *[["evaluate", 1, 0], ["evaluate", 1, 1]] * 2,
        ],
    },
    "a cell that runs again": {"hook": ALL, "events": [*CELL, ["remove"], *CELL, ["train", 2]]},
    "a cell that runs again elsewhere": {"hook": ALL, "events": [*CELL, ["start", "other"], TRAIN, ["train", 5]]},
    "a loss by functions in an evaluation": {
        "hook": ALL,
        "loss": "function_nll",
        "events": [["start"], TRAIN, ["train", 2], EVAL, ["evaluate", 2]],
    },
    "parameters that no optimizer holds": {"hook": FOUR, "optimizer": "head", "events": CELL},
    "gradients that are clipped": {"hook": FOUR, "clip": 0.01, "events": CELL},
    "gradients that are scaled": {"hook": FOUR, "loss_scale": 128.0, "events": CELL},
    "gradients that are never cleared": {"hook": FOUR, "clears": "never", "events": CELL},
    "the collection of all": {"hook": {"include_collections": ["all"]}, "optimizer": "adam", "events": CELL},
    "save_all": {
        "hook": ALL,
        "optimizer": "adam",
        "loss": "cross_entropy",
        "events": [["start"], TRAIN, ["train", 2], EVAL, ["evaluate", 1]],
    },
    "a regex for weights": {"hook": {"include_regex": [".*weight"]}, "optimizer": "adam", "events": CELL},
    "reductions": {"hook": {**FOUR, "reductions": {"reductions": ["mean"], "abs_norms": ["l2"]}}, "events": CELL},
    "scalars at all places": {
        "hook": FOUR,
        "events": [
            ["start"], ["scalar", "first", 5], TRAIN, ["train", 2], ["scalar", "between", 1.5], EVAL,
            ["scalar", "before", 2], ["evaluate", 2], ["scalar", "last", True],
        ],
    },
    "a training that goes on in EVAL": {
        "hook": FOUR,
        "events": [["start"], TRAIN, ["train", 2], EVAL, ["evaluate", 2], ["train", 2], ["evaluate", 1]],
    },
    "a training in EVAL that saves no gradients": {
        "hook": {"include_collections": ["gradients"], "schedules": [1, 2, 6, None]},
        "clears": "never",
        "events": [*START, ["train", 2], EVAL, ["train", 3], TRAIN, ["train", 3]],
    },
    "no mode is set": {"hook": FOUR, "events": [["start"], ["train", 3]]},
    "no optimizer": {"hook": FOUR, "optimizer": "none", "events": CELL},
    "a script that fails": {"hook": FOUR, "events": [*CELL, ["fail"]]},
}  # fmt: skip
# Rows of docs/smdebug-differences.md, each with the beginning of what the comparison must notice.
DEPARTURES: dict[str, tuple[Scenario, str]] = {
    "closures": ({"hook": FOUR, "optimizer": "lbfgs", "events": CELL}, "run 0: MSELoss_output_0 at 1"),
    "forward passes without a step": (
        {"hook": FOUR, "events": [*CELL, ["forward", 1], ["train", 1]]},
        "run 0: MSELoss_output_0 at 4",
    ),
    "a loss that is not registered": (
        {"hook": ALL, "loss": "cross_entropy", "registers_loss": False, "events": CELL},
        "run 0: CrossEntropyLoss_output_0 at 0",
    ),
    "norms of whole numbers": (
        {"hook": {**ALL, "reductions": {"norms": ["l2"]}}, "loss": "cross_entropy", "events": CELL},
        "raised: '', not 'RuntimeError: linalg",
    ),
    "norms of huge numbers": (
        {"hook": {**FOUR, "reductions": {"norms": ["l2"]}}, "loss_scale": 1e25, "events": [*START, ["train", 1]]},
        "run 0: gradient/Net_",
    ),
    "a scalar between the modes": (
        {"hook": FOUR, "events": [*CELL, EVAL, ["scalar", "between", 2], ["evaluate", 1]]},
        "run 0: scalar/between at 2: None",
    ),
    "a second hook for the same run": ({"hook": FOUR, "events": [*CELL, *CELL]}, "run 0: MSELoss_output_0 at 3"),
}


@pytest.fixture(scope="module")
def departures(smdebug_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What departs in each script: all of them are played in one process of each package."""
    scripts = {
        **SCRIPTS,
        **{name: scenario for name, (scenario, _) in DEPARTURES.items()},
        **{f"seed {seed}": scenario_of(seed) for seed in SEEDS},
    }
    whole = [{"loss": "mse", **scenario} for scenario in scripts.values()]
    answers = answers_of(whole, tmp_path_factory.mktemp("scenarios"), smdebug_python)
    return {
        name: surprises(scenario, *pair, knows_rows=name not in DEPARTURES)
        for name, scenario, pair in zip(scripts, whole, answers, strict=True)
    }


@pytest.mark.parametrize("name", [*SCRIPTS, *(f"seed {seed}" for seed in SEEDS)])
def test_both_hooks_save_the_same(departures: dict[str, list[str]], name: str) -> None:
    assert departures[name] == []


@pytest.mark.parametrize("name", DEPARTURES)
def test_a_departure_of_the_page_is_noticed(departures: dict[str, list[str]], name: str) -> None:
    assert any(each.startswith(DEPARTURES[name][1]) for each in departures[name]), departures[name]
