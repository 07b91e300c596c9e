"""Parameters of profiler rules, and where the SDK and the documentation differ."""

from __future__ import annotations

import pytest

from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.documents.profiler_rules import (
    PROFILER_RULES,
    SCAN_INTERVAL,
    default_parameters,
    find_parameter,
    parameter_problems,
)
from trackside.documents.rule_names import CLASS_NAMES, DOCUMENTED_PARAMETERS, known_rule

OF_OUR_OWN = {"is_critical", "least_share", "least_wait", "milliseconds", "process_threshold"}


@pytest.mark.parametrize(
    ("rule_id", "different"),
    [
        ("batch-size", {"patience": (1000, 100)}),
        ("cpu-bottleneck", {"patience": (1000, 100)}),
        ("gpu-memory-increase", {"increase": (5, 10), "patience": (1000, 100), "window": (10, 500)}),
        ("io-bottleneck", {"gpu_threshold": (10, 70)}),
        ("load-balancing", {"patience": (1000, 10)}),
        ("low-gpu-utilization", {}),
        ("max-initialization-time", {}),
        ("overall-system-usage", {}),
        ("step-outlier", {"stddev": (3, 5)}),
        ("profiler-report", {}),
    ],
)
def test_where_the_defaults_differ(rule_id: str, different: dict[str, tuple[float, float]]) -> None:
    sdk, docs = default_parameters(rule_id, preset=AWS_SDK), default_parameters(rule_id, preset=AWS_DOCS)
    assert {name: (sdk[name], docs[name]) for name in sdk if sdk[name] != docs[name]} == different


def test_every_rule_of_amazons_has_its_parameters() -> None:
    known = [rule for name in CLASS_NAMES if (rule := known_rule(name))]
    assert {rule.rule_id for rule in known if rule.is_profiler_rule} == set(PROFILER_RULES)
    others = {rule.rule_id for rule in known if not rule.is_profiler_rule} - {"gradient-clipping"}  # our own
    assert others == set(DOCUMENTED_PARAMETERS)


@pytest.mark.parametrize("preset", [AWS_SDK, AWS_DOCS])
@pytest.mark.parametrize("rule_id", sorted(PROFILER_RULES.keys() & built_in_catalogue().rules.keys()))
def test_the_rules_have_the_original_s_parameters_and_defaults(rule_id: str, preset: str) -> None:
    described = built_in_catalogue().rules[rule_id].in_sense_of(preset)
    assert described is not None
    ours = {each.name: each.default or None for each in described.parameters if each.name not in OF_OUR_OWN}
    theirs = {
        name: value for name, value in default_parameters(rule_id, preset=preset).items() if name != SCAN_INTERVAL
    }
    assert ours == theirs
    own = {each.name: each.default for each in described.parameters if each.name in OF_OUR_OWN}
    assert own.pop("is_critical") is True, "the original's actions are for every issue"
    assert set(own.values()) <= {0}, "what is ours judges nothing in the original's sense"


def test_what_the_original_has_is_a_rule_or_a_table() -> None:
    tables = {"overall-framework-metrics", "overall-system-usage", "profiler-report"}
    assert PROFILER_RULES.keys() - built_in_catalogue().rules.keys() == tables


@pytest.mark.parametrize(
    ("name", "rule_id"),
    [
        ("HardwareUtilization", "low-gpu-utilization"),
        ("CPUUtilization", "cpu-bottleneck"),
        ("TfOperatorTime", "overall-framework-metrics"),
    ],
)
def test_names_of_older_notebooks(name: str, rule_id: str) -> None:
    found = known_rule(name)
    assert found is not None
    assert found.rule_id == rule_id


def test_every_default_is_a_good_value() -> None:
    for rule_id in PROFILER_RULES:
        for preset in (AWS_SDK, AWS_DOCS):
            texts = {n: str(v) for n, v in default_parameters(rule_id, preset=preset).items() if v is not None}
            assert parameter_problems(rule_id, texts, where="x") == []


@pytest.mark.parametrize(
    "name", ["CPUBottleneck_threshold", "cpubottleneck_threshold", "LowGPUUtilization_threshold", "opt_out_telemetry"]
)
def test_parameters_of_the_report(name: str) -> None:
    found = find_parameter("profiler-report", name)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "name", ["threshold", "CPUBottleneck", "Nothing_threshold", "CPUBottleneck_x", "ProfilerReport_x"]
)
def test_what_is_no_parameter_of_the_report(name: str) -> None:
    assert find_parameter("profiler-report", name) is None
