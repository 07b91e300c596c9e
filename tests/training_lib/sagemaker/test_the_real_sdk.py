"""Against `sagemaker` 2.257.7, `sagemaker-core` 2.27.0 and `smdebug_rulesconfig` 1.0.1 themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest

import trackside.sagemaker as ours
from tests.training_lib.sagemaker.notebooks import NOTEBOOKS
from tests.training_lib.sagemaker.sdk_peer import facts, translated

# Ours may be left out, and there are more at the end.
MAY_BE_LEFT_OUT = {"image_uri", "instance_type", "volume_size_in_gb"}
MORE_OF_OURS = {"Rule.sagemaker": ["preset"], "ProfilerRule.sagemaker": ["rule_parameters"]}


@pytest.fixture(scope="module")
def mine() -> dict[str, Any]:
    return dict(json.loads(json.dumps(facts(ours))))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_sdks_own_objects_mean_the_same_as_ours(real: dict[str, Any], name: str) -> None:
    assert real["translated"][name] == json.loads(json.dumps(translated(ours, NOTEBOOKS[name])))


def test_every_name_is_here(real: dict[str, Any], mine: dict[str, Any]) -> None:
    assert set(real["facts"]["names"]) <= set(mine["names"])
    modules = {"actions", "debugger_rules", "profiler_rules"}  # the files of smdebug_rulesconfig
    assert set(real["facts"]["rule_config_names"]) - modules <= set(mine["rule_config_names"])


def test_every_constructor_takes_the_same(real: dict[str, Any], mine: dict[str, Any]) -> None:
    for name, signature in real["facts"]["signatures"].items():
        if name not in {"PythonProfiler", "cProfileTimer"}:  # enumerations
            assert mine["signatures"][name] == signature, name
    for name, signature in real["facts"]["constructors"].items():
        more = [[each, "None"] for each in MORE_OF_OURS.get(name, ())]
        is_custom = name.endswith("custom")
        wanted = [[n, "None" if is_custom and n in MAY_BE_LEFT_OUT else default] for n, default in signature]
        assert mine["constructors"][name] == wanted + more, name


def test_every_rule_configuration_is_the_same(real: dict[str, Any], mine: dict[str, Any]) -> None:
    assert real["facts"]["functions"].items() <= mine["functions"].items()
    assert real["facts"]["profiler_rules"].items() <= mine["profiler_rules"].items()


def test_what_is_sent_of_profiling_is_the_same_but_real_json(real: dict[str, Any], mine: dict[str, Any]) -> None:
    for name, wanted in real["facts"]["requests"].items():
        told = {key: _without_the_last_comma(value) for key, value in wanted.items()}
        assert mine["requests"][name] == told, name


def _without_the_last_comma(value: Any) -> Any:
    return value.replace(", }", "}") if isinstance(value, str) else value
