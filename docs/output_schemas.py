"""The shapes of what commands print with `--format json`; `docs/generate.py` writes them as JSON schemas.

A name that ends in "?" may be missing. Kinds are words of `KINDS`, lists of one kind, and objects. A newer Trackside
may add names, so that readers leave alone what they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS: Mapping[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "count": {"type": "integer", "minimum": 0},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "seconds": {"type": "number"},
    "number": {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]},
    "share": {"type": "number", "minimum": 0, "maximum": 1},
    "bottleneck": {
        "enum": [
            "input-bound",
            "copy-bound",
            "host-bound",
            "compute-bound",
            "communication-bound",
            "straggler rank",
            "memory creep",
            "balanced",
            "hang",
            "incomplete",
        ]
    },
    "file outcome": {"enum": ["written", "updated", "current", "left as it is"]},
    "end of wait": {"enum": ["issue", "end", "timeout"]},
    "gate verdict": {"enum": ["within", "slower", "undecided", "not comparable"]},
    "severity": {"enum": ["info", "warning", "critical"]},
    "rule state": {"enum": ["Issue", "Recovered", "OK", "Running", "Not enough data", "Not applicable", "Error"]},
    "run state": {"enum": ["running", "finished", "failed", "stopped", "lost", "ended", "open"]},
    "issue state": {"enum": ["standing", "recovered", "opened"]},
    "report state": {"enum": ["found", "clean", "not judged"]},
    "check state": {"enum": ["ok", "note", "problem"]},
    "probe outcome": {"enum": ["ok", "fault", "could not try", "does not apply"]},
    "rule status": {"enum": ["InProgress", "NoIssuesFound", "IssuesFound", "Error", "Stopping", "Stopped"]},
    "life cycle": {"enum": ["preview", "stable", "deprecated"]},
    "code": {"type": "string", "pattern": "^(TS[1-9][0-9]{2})?$"},
    "object": {"type": "object"},
    "any": {},
}

VERDICT = {
    "rule": "text",
    "code?": "code",
    "configuration": "text",
    "severity": "severity",
    "outcome": "text",
    "message": "text",
    "step": "count",
    "detected_at": "seconds",
    "group": "text",
    "findings": [{"subject": "text", "observed": "number", "threshold": "number", "step": "count", "place?": "text"}],
    "what_to_do": ["text"],
}
PROBLEM = {
    "group": "text",
    "severity": "severity",
    "state": "issue state",
    "recovered_at": "count or null",
    "probability": "share or null",
    "rule": "text",
    "code": "code",
    "message": "text",
    "since_step": "count",
    "place": "text",
    "source": "text",
    "repair": {
        "place": "object or null",
        "subject": "text",
        "measure": "text",
        "observed": "number or null",
        "relation": "text",
        "expected": "number or null",
        "setting": "text",
        "value": "number or null",
        "proposed": "number or null",
        "change": "text",
        "edits": [{"line": "count", "old": "text", "new": "text"}],
    },
    "what_to_do": ["text"],
    "cause_unknown": "boolean",
    "causes": ["object"],
    "also_found": ["text"],
}
JUDGED = {
    "is_judged": "boolean",
    "why_not": "text",
    "command": "text",
    "found_nothing": "count",
    "with_issue": "count",
    "recovered": "count",
    "lacked_data": "count",
    "do_not_apply": "count",
    "failed": "count",
}
RUN = {
    "run": "text",
    "has_ended": "boolean",
    "steps_saved": "count",
    "state": "run state",
    "exit_code": "count or null",
    "signal": "text or null",
    "judged": JUDGED,
    "rescued": "boolean",
    "rescue": "object or null",
    "folder": "text or null",
    "rules": [{"name": "text", "rule": "text", "state": "rule state", "detail": "text", "steps_judged": "count"}],
    "problems": [PROBLEM],
    "findings": [VERDICT],
}
LOG = {
    "name": "text",
    "source": "text",
    "format": "text",
    "columns": "object",
    "counted": "text",
    "interval": "count",
    "rows": "count",
    "evaluations": "count",
    "last_step": "integer",
    "rows_merged": "count",
    "may_hide_nan": "boolean",
    "reservations": ["text"],
    "rules_left_out": ["text"],
    "to_ask_them": "text",
}
PARAMETER = {
    "name": "text",
    "kind": "text",
    "default": "any",
    "help": "text",
    "minimum": "number or null",
    "maximum": "number or null",
}
RULE = {
    "rule": "text",
    "code": "code",
    "summary": "text",
    "severity": "severity",
    "since": "text",
    "life_cycle": "life cycle",
    "watches": ["text"],
    "save_interval": "count",
    "parameters": [PARAMETER],
}
VALUE = {"tensor": "text", "step": "count", "worker": "text", "mode": "text", "shape": ["count"], "dtype": "text"}
SPEED = {
    "worker": "text",
    "bottleneck": "bottleneck",
    "headline": "text",
    "can_win_back": "text",
    "steps": "count",
    "seconds": "seconds",
    "step_seconds": "seconds",
    "phases": [{"name": "text", "seconds": "seconds", "share": "number", "steps": "count"}],
    "causes": [
        {
            "kind": "bottleneck",
            "headline": "text",
            "share": "share",
            "seconds": "seconds",
            "where": "text",
            "change": "text",
            "step_seconds_after": "seconds",
            "lines": [{"place": "text", "function": "text", "code": "text", "share": "share", "library": "text"}],
            "price_an_hour": "number or null",
        }
    ],
    "missing": ["text"],
    "notes": ["text"],
    "machine": {
        "cpu_percent": "number or null",
        "io_wait_percent": "number or null",
        "training_cpu_percent": "number or null",
        "memory_percent": "number or null",
        "gpu_percent": "number or null",
        "disk_wait_percent": "number or null",
        "samples": "count",
    },
}
DETAIL = {
    "kind": "text",
    "worker": "text",
    "first_step": "count",
    "last_step": "count",
    "rows": [
        {
            "name": "text",
            "place": "text",
            "calls": "count",
            "self_seconds": "seconds",
            "total_seconds": "seconds",
            "is_on_device": "boolean",
        }
    ],
    "file": "text",
}
SUMMARY = {
    "max": "number",
    "p99": "number",
    "p95": "number",
    "p50": "number",
    "min": "number",
    "mean": "number",
    "samples": "count",
}
PARTS_OF_A_JOB = ("initialization", "training_loop", "finalization")
REMOVED = {
    "removed": "boolean",
    "runs": [{"name": "text", "uri": "text", "state": "run state", "age_seconds": "seconds", "size_bytes": "count"}],
}
EVALUATION = {
    "rule": "text",
    "status": "rule status",
    "severity": "severity",
    "since_step": "integer",
    "details": "text",
    "comparison": "text",
    "at": "seconds",
}
STATUSES = {
    "DebugRuleEvaluationStatuses": [
        {
            "RuleConfigurationName": "text",
            "RuleEvaluationStatus": "rule status",
            "RuleEvaluationJobArn?": "text",
            "StatusDetails?": "text",
            "LastModifiedTime": "text",
        }
    ]
}
AS_AWS_HAS_IT = ("aws-rules",)  # the shape of DescribeTrainingJob, without a version of ours
RUN_STEP = {
    "run": "text",
    "milliseconds": "number",
    "quantile": "number",
    "error": "number",
    "steps": "count",
    "of": "count",
    "is_calm": "boolean",
    "waiting": "number or null",
}
GATE = {
    "verdict": "gate verdict",
    "limit": "number",
    "change": "number or null",
    "low": "number or null",
    "high": "number or null",
    "before": [RUN_STEP],
    "after": [RUN_STEP],
    "reasons": ["text"],
    "notes": ["text"],
}
BUCKETS = {
    "first": ["integer"],
    "last": ["integer"],
    "low": ["number"],
    "mean": ["number"],
    "high": ["number"],
    "count": ["count"],
    "is_broken": ["boolean"],
}
REPORT = {
    **RUN,
    "name": "text",
    "trackside_version": "text",
    "generated_at": "seconds",
    "state": "run state",
    "verdict": "text",
    "key_numbers": "object",
    "first_step": "integer or null",
    "last_step": "integer or null",
    "workers": ["text"],
    "curves": [{"section": "text", "title": "text", **BUCKETS}],
    "maps": [
        {
            "section": "text",
            "title": "text",
            "rows": ["text"],
            "edges": ["integer"],
            "values": "any",
            "left_out": "count",
        }
    ],
    "distributions": [
        {
            "tensor": "text",
            "worker": "text",
            "steps": ["integer"],
            "quantile_levels": ["share"],
            "quantiles": "any",
            "edges": ["number"],
            "counts": "any",
            "zeros": ["count"],
            "broken": ["count"],
            "size": "count",
            "left_out": "count",
            "sizes": [{"title": "text", **BUCKETS}],
        }
    ],
    "speed": [
        {
            "worker": "text",
            "bottleneck": "bottleneck",
            "headline": "text",
            "steps": "count",
            "seconds": "seconds",
            "phases": [{"name": "text", "seconds": "seconds", "share": "number", "steps": "count"}],
        }
    ],
    "incidents": [
        {
            "group": "text",
            "first_step": "integer",
            "last_step": "integer",
            "since_step": "integer",
            "signals": [
                {
                    "tensor": "text",
                    "statistic": "text",
                    "left_at": "integer or null",
                    "before": "number",
                    "after": "number",
                    "steps": ["integer"],
                    "values": ["number"],
                }
            ],
            "stayed": "count",
            "batches": ["object"],
            "weights_saved_at": "integer or null",
            "checkpoint": "any",
        }
    ],
    "model": "any",
    "sections": [{"section": "text", "texts": ["text"], "tables": "any"}],
}
OUTPUTS: Mapping[str, Mapping[str, Any]] = {
    "findings": RUN,
    "report": REPORT,
    "runs": {
        "runs": [
            {
                "name": "text",
                "uri": "text",
                "state": "run state",
                "started_at": "seconds or null",
                "command": ["text"],
                "steps_saved": "count",
                "issues": "count",
                "recovered": "count",
                "worst_severity": "severity or null",
                "judged": "boolean",
                "not_judged": "text",
                "exit_code": "count or null",
                "signal": "text or null",
                "scheduler": "text or null",
                "job": "text or null",
                "node": "text or null",
                "user": "text or null",
                "array_index": "count or null",
                "restarts": "count",
            }
        ]
    },
    "tensors": {
        "run": "text",
        "has_ended": "boolean",
        "tensors": [
            {
                "name": "text",
                "collections": ["text"],
                "shape": "any",
                "dtype": "any",
                "steps": "count",
                "last_step": "any",
                "workers": ["text"],
            }
        ],
        "damaged": ["text"],
    },
    "stats": {
        "run": "text",
        "has_ended": "boolean",
        "statistics": [
            {"tensor": "text", "worker": "text", "statistic": "text", "steps": ["count"], "values": ["number"]}
        ],
        "damaged": ["text"],
    },
    "profile": {"run": "text", "workers": [SPEED], "details": [DETAIL]},
    "profile-report": {
        "run": "text",
        "job": {
            "start_time": "seconds or null",
            "end_time": "seconds or null",
            "job_duration_seconds": "seconds or null",
            **{f"{part}_seconds": "seconds or null" for part in PARTS_OF_A_JOB},
            **{f"{part}_percent": "number or null" for part in PARTS_OF_A_JOB},
        },
        "system": [{"node": "text", "metric": "text", "device": "text", "unit": "text", **SUMMARY}],
        "steps": [
            {
                "worker": "text",
                "seconds": SUMMARY,
                "phases": [{"name": "text", "seconds": "seconds", "percent": "number"}],
            }
        ],
        "operators": [
            {
                "worker": "text",
                "first_step": "count",
                "last_step": "count",
                "rows": [
                    {
                        "name": "text",
                        "calls": "count",
                        "self_seconds": "seconds",
                        "total_seconds": "seconds",
                        "percent": "number or null",
                        "is_on_device": "boolean",
                    }
                ],
            }
        ],
        "rules": [
            {
                "rule": "text",
                "name": "text",
                "state": "report state",
                "lacks": "text",
                "description": "text",
                "recommendation": ["text"],
                "datapoints": "count",
                "parameters": "object",
                "findings": ["object"],
            }
        ],
    },
    "values": {
        "run": "text",
        "values": "any",
        **{f"{name}?": kind for name, kind in VALUE.items()},
    },
    "rules-list": {"rules": [RULE]},
    "rules-show": RULE,
    "rules-run": {"runs": [RUN]},
    "judge": {"runs": [{**RUN, "log": LOG}], "without_loss": ["text"]},
    "rules-test": {
        "runs": [
            {
                "run": "text",
                "last_step": "integer",
                "stop_step": "count or null",
                "saved_steps": "count",
                "judged": "object",
                "crashed": ["text"],
                "findings": [VERDICT],
            }
        ]
    },
    "doctor": {
        "problems": "count",
        "checks": [{"name": "text", "state": "check state", "found": "text", "fix": "text", "commands": ["text"]}],
    },
    "config-show": {
        "file": "text or null",
        "settings": [{"setting": "text", "value": "any", "source": "text"}],
        "rules": ["text"],
    },
    "query": {"rows": ["object"]},
    "compare": {
        "a": "text",
        "b": "text",
        "step_time?": GATE,
        "facts": ["any"],
        "losses": [
            {
                "name": "text",
                "steps": "count",
                "first": "count or null",
                "last": "count or null",
                "differs_from": "count or null",
                "parts_from": "count or null",
            }
        ],
        "only_a": ["text"],
        "only_b": ["text"],
        "steps_a": "count",
        "steps_b": "count",
        "speed_a": "text",
        "speed_b": "text",
        "phases": [{"phase": "text", "a": "seconds or null", "b": "seconds or null"}],
        "is_judged_a": "boolean",
        "is_judged_b": "boolean",
        "recovered_a": "object",
        "recovered_b": "object",
        "issues_a": "object",
        "issues_b": "object",
        "issues_both": "object",
        "cure": "object or null",
    },
    "wait": {
        "ended_by": "end of wait",
        "cursor": "count",
        "run": "text",
        "state": "run state",
        "exit_code": "count or null",
        "signal": "text or null",
        "steps_saved": "count",
        "judged": JUDGED,
        "folder": "text or null",
        "problems": [PROBLEM],
    },
    "init": {"files": [{"path": "text", "outcome": "file outcome", "reason": "text"}]},
    "rm": REMOVED,
    "prune": REMOVED,
    "check": {
        "run": "text",
        "steps": "count",
        "exit_code": "count",
        "judged": "boolean",
        "not_judged": "text",
        "probes": [
            {
                "probe": "text",
                "outcome": "probe outcome",
                "observed": "text",
                "where": "text",
                "what": "text",
                "what_to_do": ["text"],
                "seconds": "seconds",
            }
        ],
        "findings": [VERDICT],
    },
    "drill": {
        "job": "text",
        "account": "text",
        "region": "text",
        "passed": "boolean",
        "fault_at": "seconds or null",
        "hops": [{"hop": "text", "at": "seconds", "seconds_since_fault": "seconds or null", "detail": "text"}],
        "missing": [{"hop": "text", "why": "text", "look_at": "text"}],
        "cleaned": ["text"],
        "not_removed": ["text"],
    },
    "aws-status": {
        "table": "text",
        "jobs": [
            {
                "job": "text",
                "arn": "text",
                "state": "text",
                "secondary_state": "text",
                "created_at": "seconds",
                "ended_at": "seconds or null",
                "failure_reason": "text",
                "run": "text",
                "continues": "text or null",
                "goes_on_as": "text or null",
                "rules": "object",
            }
        ],
    },
    "aws-verdicts": {
        "arn": "text",
        "state": "text or null",
        "row": [{"job": "text", "state": "text or null", "follow_up": "text or null"}],
        "rules": [
            {
                **EVALUATION,
                "finding_count": "count",
                "first_found_at": "seconds or null",
                "last_found_at": "seconds or null",
            }
        ],
        **STATUSES,
        "history": [EVALUATION],
        "decisions": [
            {
                "outcome": "text",
                "finding": "text",
                "at": "seconds",
                "reason": "text",
                "event_id": "text",
                "most_seconds_spared": "seconds",
                "instances": "text",
                "most_money_spared": "number",
            }
        ],
        "veto": "object or null",
    },
    "aws-rules": STATUSES,
    "aws-redrive": {"queues": [{"function": "text", "dead_letters": "count", "redriven": "boolean"}]},
}


def output_schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of what a command prints: `findings`, `rules-list`, ..."""
    version = {} if name in AS_AWS_HAS_IT else {"schema_version": "version"}
    shape = {**version, **OUTPUTS[name]}
    return {
        "$schema": DIALECT,
        "$id": f"urn:trackside:output:{name}:1",
        "title": f"trackside {name.replace('-', ' ')}{'' if name in AS_AWS_HAS_IT else ' --format json'}",
        **_schema(shape),
    }


def _schema(shape: Any) -> dict[str, Any]:
    if isinstance(shape, list):
        return {"type": "array", "items": _schema(shape[0])}
    if isinstance(shape, Mapping):
        names = {name.removesuffix("?"): kind for name, kind in shape.items()}
        required = [name for name in shape if not name.endswith("?")]
        return {
            "type": "object",
            "required": required,
            "properties": {name: _schema(kind) for name, kind in names.items()},
        }
    if shape == "version":
        return {"const": 1, "description": "The version of this format."}
    kind, or_null, _ = str(shape).partition(" or null")
    return {"anyOf": [KINDS[kind], {"type": "null"}]} if or_null else dict(KINDS[kind])
