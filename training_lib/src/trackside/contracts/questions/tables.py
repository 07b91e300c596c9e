"""The tables of many runs: their columns and types."""

from __future__ import annotations

from collections.abc import Mapping

UNDATED = "1970-01-01"  # of a run without a time: a folder of tensors without statistics that nothing judged
DATE = "date"  # column that names the folders of Parquet files
PREFIX = "fleet"  # of the Parquet files in the deployment's bucket of runs
FIRST_DAY = "2026-01-01"  # that Athena looks for: each day since costs it a look

# Name of a column -> its type in Arrow. `run` and `date` join all tables.
TABLES: Mapping[str, Mapping[str, str]] = {
    "runs": {
        "run": "string",
        "date": "date32",
        "place": "string",
        "state": "string",
        "started_at": "timestamp",
        "ended_at": "timestamp",
        "seconds": "float64",
        "command": "string",
        "status": "int64",
        "stopped_by_trackside": "bool",
        "steps_saved": "int64",
        "issues": "int64",
        "worst": "string",
        "first_rule": "string",
        "layer_kind": "string",
        "first_cause": "string",
        "first_step": "int64",
        "judged": "bool",
        "framework": "string",
        "framework_version": "string",
        "precision": "string",
        "processes": "int64",
        "parameters": "int64",
        "last_loss": "float64",
        "last_evaluation_loss": "float64",
        "scheduler": "string",
        "job": "string",
        "node": "string",
        "job_user": "string",  # `user` alone is a word of SQL
        "array_index": "int64",
        "restarts": "int64",
    },
    "rules": {
        "run": "string",
        "date": "date32",
        "rule": "string",
        "rule_id": "string",
        "code": "string",
        "state": "string",
        "detail": "string",
        "steps_judged": "int64",
    },
    "findings": {
        "run": "string",
        "date": "date32",
        "rule": "string",
        "rule_id": "string",
        "code": "string",
        "problem": "string",
        "severity": "string",
        "state": "string",
        "since_step": "int64",
        "step": "int64",
        "recovered_at": "int64",
        "probability": "float64",
        "cause": "string",
        "subject": "string",
        "affected": "int64",
        "message": "string",
        "wants_stop": "bool",
        "detected_at": "timestamp",
    },
}

# The table of `trackside export --to parquet`, for all runs. Its date stands in the names of its folders alone.
STATISTICS = "statistics"
STATISTICS_COLUMNS: Mapping[str, str] = {
    "run": "string",
    "tensor": "string",
    "collection": "string",
    "worker": "string",
    "mode": "string",
    "step": "int64",
    "mode_step": "int64",
    "value": "float64",
    "mean": "float64",
    "std": "float64",
    "min": "float64",
    "max": "float64",
    "abs_mean": "float64",
    "abs_max": "float64",
    "l2": "float64",
    "zero_share": "float64",
    "nonfinite_count": "float64",
    "nan_count": "float64",
}
