"""The numbers of the original's report: for every run, with the original's files beside them."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pytest

from docs.output_schemas import output_schema
from tests.training_lib.speed.rules.machines import gpus, loader, metric, steps
from trackside.documents.profiler_rules import PROFILER_RULES
from trackside.documents.rule_names import known_rule
from trackside.speed.performance.details import OPERATORS, PYTHON, Detail, TimeRow
from trackside.speed.profiler_report import profiler_report, store_profiler_report
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import WALL_TIME
from trackside.testing.rule_case import RuleCase

BUSY = [float(k % 100) for k in range(300)]
CASE = RuleCase(
    "",
    recorded=steps([0.02] * 200, data=[0.015] * 200),
    machine={
        **gpus([5.0] * 300, memory=[20.0] * 300, cpu=BUSY),
        **metric("memory", "MemoryUsedPercent", "Platform", [40.0, 60.0]),
    },
    speed=loader(0),
)


def report(case: RuleCase) -> dict[str, Any]:
    return profiler_report(case.trial, run="runs/one", now=WALL_TIME)


def test_has_its_schema() -> None:
    schema = output_schema("profile-report")
    for case in (CASE, RuleCase("nothing measured", {"Loss_output_0": {0: 1.0, 1: 1.0}}), RuleCase("empty")):
        store = MemoryStore()
        store_profiler_report(store, report(case))
        jsonschema.validate(json.loads(store.get("profiler-report.json")), schema)


def test_the_operators_of_a_window() -> None:
    rows = (
        TimeRow("MatMul", "", 20, 0.03, 0.03),
        TimeRow("Relu", "", 10, 0.01, 0.01),
        TimeRow("kernel", "", 10, 0.02, 0.02, is_on_device=True),
    )
    details = [
        Detail(OPERATORS, "worker_0", 10, 14, rows, "trace"),
        Detail(PYTHON, "worker_0", 20, 24, (TimeRow("fit", "train.py:3", 1, 1.0, 1.0),), "stats"),
    ]
    document = profiler_report(CASE.trial, run="runs/one", now=WALL_TIME, details=details)
    (found,) = document["operators"]
    assert (found["worker"], found["first_step"], found["last_step"]) == ("worker_0", 10, 14)
    assert [row["percent"] for row in found["rows"]] == [75.0, 25.0, None]
    jsonschema.validate({"schema_version": 1, **document}, output_schema("profile-report"))


def test_the_times_of_the_job() -> None:
    job = report(CASE)["job"]
    assert (job["start_time"], job["end_time"]) == (WALL_TIME, WALL_TIME + 299)
    found = [job[f"{part}_seconds"] for part in ("initialization", "training_loop", "finalization")]
    assert found == [1.0, 199.0, 99.0]
    assert sum(job[f"{part}_percent"] for part in ("initialization", "training_loop", "finalization")) == pytest.approx(
        100
    )


def test_percentiles_are_numpys() -> None:
    rows = {(row["metric"], row["device"]): row for row in report(CASE)["system"]}
    assert set(rows) == {("cpu", ""), ("gpu", "gpu0"), ("gpu memory", "gpu0"), ("cpu memory", "")}
    cpu = rows["cpu", ""]
    for name, share in (("p99", 99), ("p95", 95), ("p50", 50)):
        assert cpu[name] == np.percentile(BUSY, share)
    assert (cpu["min"], cpu["max"], cpu["samples"]) == (0.0, 99.0, 300)


def test_every_rule_of_the_original_is_found_clean_or_not_judged() -> None:
    rules = {rule["rule"]: rule for rule in report(CASE)["rules"]}
    tables = {"overall-framework-metrics", "overall-system-usage", "profiler-report"}
    assert rules.keys() == PROFILER_RULES.keys() - tables
    assert {rule_id for rule_id, rule in rules.items() if rule["state"] == "found"} == {
        "low-gpu-utilization",
        "dataloader",
    }
    assert rules["load-balancing"]["state"] == "not judged"
    assert rules["load-balancing"]["lacks"] == "two GPUs; the run has one"
    assert rules["step-outlier"]["state"] == "clean"


def test_the_original_s_files_lie_at_its_keys() -> None:
    store = MemoryStore()
    store_profiler_report(store, report(CASE))
    folder = f"ProfilerReport-{int(WALL_TIME)}/profiler-output/profiler-report"
    names = [key.removeprefix(f"{folder}/").removesuffix(".json") for key in store.list("ProfilerReport-")]
    assert len(names) == 9
    assert all(known_rule(name) for name in names)
    found = json.loads(store.get(f"{folder}/LowGPUUtilization.json"))
    assert set(found) == {"RuleTriggered", "Violations", "Details", "Datapoints", "RuleParameters"}
    assert (found["RuleTriggered"], found["Violations"], found["Datapoints"]) == (1, 1, 300)
    assert "threshold_p95:70.0" in found["RuleParameters"].split("\n")
    assert json.loads(store.get("profiler-report.json"))["run"] == "runs/one"
