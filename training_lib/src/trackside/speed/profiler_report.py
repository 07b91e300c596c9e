"""The numbers of SageMaker Debugger's ProfilerReport for one run, as a document and as its old files.

    rule-output/profiler-report.json                                            everything, with a schema
    rule-output/ProfilerReport-<start>/profiler-output/profiler-report/<Rule>.json    one rule each, as the original's

Every rule that the original's report has is judged at the last step of the run, whether or not the user chose it, and
its state is one of found, clean and not judged: a section that is missing would look like one that is clean.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import PROFILER_REPORT_KEY, old_report_key
from trackside.documents.profiler_rules import PROFILER_RULES
from trackside.documents.rule_names import RULE_IDS
from trackside.rules.catalogue import build_rules
from trackside.rules.rule import Rule
from trackside.speed.performance.details import OPERATORS, Detail
from trackside.speed.speed_rule import CPU, GPU, IO_WAIT, of_processors, step_times
from trackside.storage.store import Store
from trackside.trial.trial import Trial
from trackside.trial.window import Window

VERSION = 1  # of docs/schemas/profile-report.json
_PERCENTILES = {"p99": 99, "p95": 95, "p50": 50}
# Metric of the report -> its unit, and the dimension and the name of its samples; "" for any name
_METRICS = {
    "gpu": ("percent", GPU, ""),
    "gpu memory": ("percent", "GPUMemoryUtilization", ""),
    "cpu memory": ("percent", "Platform", "MemoryUsedPercent"),
    "network received": ("bytes a second", "Algorithm", "ReceiveBytesPerSecond"),
    "network sent": ("bytes a second", "Algorithm", "TransmitBytesPerSecond"),
    "disk read": ("bytes a second", "Disk", "DiskReadBytesPerSecond"),
    "disk written": ("bytes a second", "Disk", "DiskWriteBytesPerSecond"),
}


def profiler_report(trial: Trial, *, run: str, now: float, details: Sequence[Detail] = ()) -> dict[str, Any]:
    """Return the report of a run.

    Args:
        trial: The run, refreshed.
        run: Its location.
        now: The present, in seconds since the epoch.
        details: The newest profiles of its operators and functions.
    """
    window = _last_window(trial, now=now)
    return {
        "run": run,
        "job": _job(trial, window),
        "system": list(_system(window)),
        "steps": list(_steps(window)),
        "operators": [_operators(detail) for detail in details if detail.kind == OPERATORS],
        "rules": [_rule(rule, window) for rule in _reported_rules()],
    }


def store_profiler_report(rule_output: Store, document: Mapping[str, Any]) -> None:
    """Store the report, and the files of the original's.

    Args:
        rule_output: The store of the run's rule output.
        document: Result of `profiler_report`.

    Raises:
        StorageError: The store failed.
    """
    started_at = int(document["job"]["start_time"] or 0)
    for rule in document["rules"]:
        rule_output.put(old_report_key(rule["name"], started_at=started_at), _bytes(_as_the_original(rule)))
    rule_output.put(PROFILER_REPORT_KEY, _bytes({"schema_version": VERSION, **document}))


def _reported_rules() -> list[Rule]:
    """Return the rules of the original's report, with our defaults. The others of its names are tables here."""
    known = built_in_catalogue().rules
    chosen = tuple([RuleConfiguration(rule_id) for rule_id in PROFILER_RULES if rule_id in known])
    return [configured.rule for configured in build_rules(RuleRequest(chosen))]


def _last_window(trial: Trial, *, now: float) -> Window:
    return replace(trial.window(max(trial.recorded_through, 0), now=now), is_last=True)


def _job(trial: Trial, window: Window) -> dict[str, Any]:
    """Return the times of the job. Without samples of the machine it begins with the first step."""
    samples = list(of_processors(window, CPU).values())
    ends = [times for _, times in trial.parts.steps.times_by_worker().values() if len(times)]
    first, last = min((float(t[0]) for t in ends), default=None), max((float(t[-1]) for t in ends), default=None)
    start = min((float(s.times[0]) for s in samples), default=first)
    end = max([float(s.times[-1]) for s in samples] + ([last] if last is not None else []), default=None)
    duration = end - start if start is not None and end is not None else None
    parts = {
        "initialization": first - start if first is not None and start is not None else None,
        "training_loop": last - first if first is not None and last is not None else None,
        "finalization": end - last if last is not None and end is not None else None,
    }
    return {
        "start_time": start,
        "end_time": end,
        "job_duration_seconds": duration,
        **{f"{name}_seconds": seconds for name, seconds in parts.items()},
        **{
            f"{name}_percent": 100 * seconds / duration if seconds is not None and duration else None
            for name, seconds in parts.items()
        },
    }


def _system(window: Window) -> Iterator[dict[str, Any]]:
    """Yield a row for each machine and metric."""
    for metric, dimension in (("cpu", CPU), ("i/o wait", IO_WAIT)):
        for node, series in sorted(of_processors(window, dimension).items()):
            yield {"node": node, "metric": metric, "device": "", "unit": "percent", **_summary(series.values)}
    for metric, (unit, dimension, name) in _METRICS.items():
        for series in window.machine(dimension, name=name):
            device = series.name if dimension.startswith("GPU") else ""
            yield {"node": series.node, "metric": metric, "device": device, "unit": unit, **_summary(series.values)}


def _steps(window: Window) -> Iterator[dict[str, Any]]:
    """Yield a row for each worker: its step durations, and the seconds of each phase."""
    for times in step_times(window):
        yield {
            "worker": times.worker,
            "seconds": _summary(times.seconds),
            "phases": [
                {"name": name, "seconds": float(values.sum()), "percent": 100 * times.share_of(name)}
                for name, values in sorted(times.phases.items())
            ],
        }


def _operators(detail: Detail) -> dict[str, Any]:
    """Return the operators of one worker, the longest first: what OverallFrameworkMetrics and TfOperatorTime show."""
    total = sum(row.self_seconds for row in detail.rows if not row.is_on_device)
    return {
        "worker": detail.worker,
        "first_step": detail.first_step,
        "last_step": detail.last_step,
        "rows": [
            {
                "name": row.name,
                "calls": row.calls,
                "self_seconds": row.self_seconds,
                "total_seconds": row.total_seconds,
                "percent": 100 * row.self_seconds / total if total and not row.is_on_device else None,
                "is_on_device": row.is_on_device,
            }
            for row in detail.rows
        ],
    }


def _summary(values: NDArray[np.float64]) -> dict[str, float | int]:
    return {
        "max": float(values.max()),
        **{name: float(np.percentile(values, q)) for name, q in _PERCENTILES.items()},
        "min": float(values.min()),
        "mean": float(values.mean()),
        "samples": len(values),
    }


def _rule(rule: Rule, window: Window) -> dict[str, Any]:
    """Return the state of one rule at the last step."""
    findings = list(rule.check(window))
    lacks = "" if findings else rule.lacks(window)
    return {
        "rule": rule.rule_id,
        "name": RULE_IDS[rule.rule_id],
        "state": "found" if findings else "not judged" if lacks else "clean",
        "lacks": lacks,
        "description": rule.describe().summary,
        "recommendation": [str(one) for one in rule.what_to_do],
        "datapoints": _datapoints(rule, window),
        "parameters": {one.name: getattr(rule, one.name) for one in fields(rule)},
        "findings": [finding.to_dict() for finding in findings],
    }


def _datapoints(rule: Rule, window: Window) -> int:
    """Return the number of samples, or of steps, that the rule can see."""
    if rule.rule_id in {"step-outlier", "dataloader", "max-initialization-time"}:
        return sum(len(times.steps) for times in step_times(window))
    gpus = window.machine(GPU)
    return sum(len(series.values) for series in gpus or of_processors(window, CPU).values())


def _as_the_original(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report of one rule with the keys of the original's files."""
    return {
        "RuleTriggered": int(rule["state"] == "found"),
        "Violations": len(rule["findings"]),
        "Details": {finding["subject"]: finding for finding in rule["findings"]},
        "Datapoints": rule["datapoints"],
        "RuleParameters": "\n".join(f"{name}:{value}" for name, value in rule["parameters"].items()),
    }


def _bytes(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, allow_nan=False).encode("ascii")
