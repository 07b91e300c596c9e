"""The examples of each framework but PyTorch: the planted mistake is named, and the healthy twin meets silence.

Where a framework is not installed its example is skipped; `.ci/run` has an environment for each.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.patience import HANGS_SECONDS
from trackside.contracts.verdict import Outcome, Verdict
from trackside.environment import inherited

EXAMPLES = Path(__file__).parents[2] / "examples"
BY_CALLS = {"jax"}  # its example calls us


class Example(NamedTuple):
    """An example, its planted mistake, the rules that may name it, the packages that it needs, and Keras's backend."""

    folder: str
    fault: str
    rules: set[str]
    needs: tuple[str, ...]
    backend: str = "torch"


_UNSCALED = {"unnormalized-inputs", "loss-not-decreasing", "poor-weight-initialization"}
_DEEP = {"vanishing-gradient", "loss-not-decreasing"}
WITH_FAULTS = {
    "boosting": Example("boosting", "memorise", {"overfit"}, ("xgboost", "sklearn")),
    "lightgbm": Example("lightgbm", "memorise", {"overfit"}, ("lightgbm", "sklearn")),
    "catboost": Example("catboost", "memorise", {"overfit"}, ("catboost", "sklearn")),
    "sklearn": Example("sklearn", "unscaled", _UNSCALED, ("sklearn",)),
    "keras": Example("keras", "vanishing", _DEEP, ("keras", "torch", "sklearn")),
    "tensorflow": Example(
        "tensorflow", "rate", {"loss-not-decreasing", "weight-update-ratio"}, ("tensorflow", "sklearn"), "tensorflow"
    ),
    "keras-tensorflow": Example("keras", "vanishing", _DEEP, ("tensorflow", "sklearn"), "tensorflow"),
    "keras-jax": Example("keras", "vanishing", _DEEP, ("keras", "jax", "sklearn"), "jax"),
    "mxnet": Example("mxnet", "vanishing", _DEEP, ("mxnet", "sklearn")),
    "flax": Example("jax", "vanishing", _DEEP, ("flax", "optax", "sklearn")),
}


def _cases() -> list[Any]:
    cases = list[Any]()
    for name, example in WITH_FAULTS.items():
        missing = [each for each in example.needs if importlib.util.find_spec(each) is None]
        marks = [pytest.mark.skipif(bool(missing), reason=f"not installed here: {', '.join(missing)}")]
        healthy = example._replace(fault="none", rules=set())
        cases += [pytest.param(each, id=f"{name}-{each.fault}", marks=marks) for each in (example, healthy)]
    return cases


def test_each_example_is_held_to_its_verdict() -> None:
    others = {"demo", "digits", "finetuning", "rescue", "sagemaker"}  # of PyTorch, with tests of their own
    folders = {path.name for path in EXAMPLES.iterdir() if list(path.glob("*.py"))}
    assert {each.folder for each in WITH_FAULTS.values()} == folders - others


def test_the_readme_has_a_command_of_each_example() -> None:
    commands = re.findall(
        r"`examples/(\w+)/train\.py --fault (\w+)`", (EXAMPLES.parent / "README.md").read_text("utf-8")
    )
    assert set(commands) == {(each.folder, each.fault) for each in WITH_FAULTS.values()} | {("digits", "vanishing")}


@pytest.mark.parametrize("example", _cases())
def test_the_planted_mistake_is_named_and_nothing_else(tmp_path: Path, example: Example) -> None:
    script, fault, rules = EXAMPLES / example.folder / "train.py", example.fault, example.rules
    knows_us = "trackside" in script.read_text("utf-8").partition('"""\n\n')[2]
    assert knows_us is (example.folder in BY_CALLS)
    command = [sys.executable, "-m", "trackside", "run", "--", sys.executable, "-W", "ignore", str(script)]
    done = subprocess.run(
        [*command, "--fault", fault],
        cwd=tmp_path,
        env={**inherited(), "KERAS_BACKEND": example.backend, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert "% of the test" in done.stdout, done.stdout + done.stderr
    (verdicts,) = tmp_path.glob("**/rule-output/verdicts.jsonl")
    found = [Verdict.from_json(line) for line in verdicts.read_text("utf-8").splitlines()]
    issues = {one.rule_id for one in found if one.outcome is Outcome.ISSUE_FOUND}
    assert issues <= rules, json.dumps([one.message for one in found])
    assert bool(issues) is bool(rules)
