"""The blog's notebook, letter by letter, but for the line that imports `sagemaker.debugger`."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from trackside.sagemaker import translate

SAMPLES = re.findall(r"```python\n(.*?)```", Path(__file__).with_name("the_blog.txt").read_text("utf-8"), re.DOTALL)


class Session:
    def default_bucket(self) -> str:
        return "my-bucket"


class Estimator:
    """What the real one would be given."""

    def __init__(self, **given: Any) -> None:
        self.given = {
            name: given[name] for name in ("rules", "debugger_hook_config", "profiler_config") if name in given
        }

    def fit(self, inputs: dict[str, str]) -> None:
        assert set(inputs) == {"train", "validation"}


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that stand when all cells have run; the SDK's session and estimator are stand-ins."""
    sdk, pytorch = types.ModuleType("sagemaker"), types.ModuleType("sagemaker.pytorch")
    vars(sdk).update(Session=Session, get_execution_role=lambda: "arn:aws:iam::123456789012:role/x", pytorch=pytorch)
    vars(pytorch).update(PyTorch=Estimator)
    monkeypatch.setitem(sys.modules, "sagemaker", sdk)
    monkeypatch.setitem(sys.modules, "sagemaker.pytorch", pytorch)
    names: dict[str, Any] = {}
    for sample in SAMPLES:
        exec(sample.replace("from sagemaker.debugger import", "from trackside.sagemaker import"), names)  # noqa: S102 - the notebook is what is tested
    return names


def test_there_are_three_cells_and_two_of_them_import() -> None:
    assert len(SAMPLES) == 3
    assert sum("from sagemaker.debugger import" in sample for sample in SAMPLES) == 2


def test_the_rules_and_the_hook(notebook: dict[str, Any]) -> None:
    found = translate(**notebook["estimator"].given)
    asked = {rule.rule_id: rule for rule in (*found.request.rules, *found.not_judged)}
    assert set(asked) == {
        "loss-not-decreasing",
        "overfit",
        "vanishing-gradient",
        "exploding-tensor",
        "weight-update-ratio",
    }
    wanted = {
        "loss-not-decreasing": {"collection_names": "losses", "num_steps": "10", "diff_percent": "0.1"},
        "overfit": {"patience": "5", "ratio_threshold": "0.1"},
        "vanishing-gradient": {"threshold": "1e-07"},
        "exploding-tensor": {"collection_names": "weights,gradients", "only_nan": "False"},
        "weight-update-ratio": {},
    }
    for rule_id, parameters in wanted.items():
        kept = asked[rule_id].parameters
        assert kept.items() <= parameters.items()
        for left_out in set(parameters) - set(kept):
            assert f"{asked[rule_id].name}: {left_out} is not used: Trackside's rule does without it." in found.notes
    for name, save_interval in (("losses", 10), ("weights", 100), ("gradients", 100)):
        collection = found.capture.collection(name)
        assert collection is not None
        assert collection.schedule.save_interval <= save_interval


def test_profiling(notebook: dict[str, Any]) -> None:
    found = translate(**notebook["profiled_estimator"].given)
    asked = {rule.rule_id: rule.parameters for rule in found.request.rules}
    assert list(asked) == ["low-gpu-utilization", "cpu-bottleneck", "io-bottleneck"]
    assert [rule.rule_id for rule in found.not_judged] == ["overall-system-usage"]
    assert {"threshold_p95": "70", "patience": "5"}.items() <= asked["low-gpu-utilization"].items()
    assert any(note.startswith("Never an issue") for note in found.notes)
    assert found.capture.machine_interval_ms == 500
