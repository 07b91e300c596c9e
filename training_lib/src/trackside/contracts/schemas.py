"""What a verdict and our event look like, as JSON schemas (draft 2020-12) for whoever reads them without Trackside.

Written to the files beside this module by `docs/generate.py`. The words of enums come from the contracts themselves.
"""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Any

from trackside.contracts import event, verdict
from trackside.contracts.action import Action
from trackside.contracts.cause import Cause

VERDICT_FILE = Path(__file__).with_name("verdict.schema.json")
EVENT_FILE = Path(__file__).with_name("event.schema.json")
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_OPTIONAL = frozenset({"place"})  # written only where there is something to say

Schema = dict[str, Any]


def verdict_schema() -> Schema:
    """A line of `verdicts.jsonl`. Readers pass over names that are not here: a newer Trackside may add some."""
    properties = {
        "version": {"const": verdict.VERSION, "description": "The version of this format."},
        "id": _text("The same for the same answer, however often it is said: take each only once."),
        "run": _text("The run's name."),
        "rule": _text("The rule's id, or the class of a rule of your own."),
        "configuration": _text("The name of the rule's configuration: the same rule may judge a run twice."),
        "outcome": _one_of(verdict.Outcome, 'What the rule says; "not-evaluated" is neither good news nor bad.'),
        "severity": _one_of(verdict.Severity, 'Only "critical" may stop a run.'),
        "step": _count("The step at which it was said."),
        "since_step": _count("The first step at which any finding held; `step` where there is none."),
        "message": _text("One sentence."),
        "detected_at": {"type": "number", "description": "When it was said, in seconds since 1970-01-01 UTC."},
        "affected": _count("How many subjects were found, named below or not."),
        "findings": _list({"$ref": "#/$defs/finding"}, f"The worst first, at most {verdict.MOST_FINDINGS}."),
        "what_to_do": _list({"type": "string"}, "Steps to try, best first."),
        "actions": _list({"enum": _words(Action)}, "What was asked to be done about it, and may be."),
        "tensor_key": _text("Where the leading finding's tensor lies, below the run's location; \"\" where none does."),
        "suspicions": _list({"$ref": "#/$defs/suspicion"}, "Likely causes, likeliest first."),
        "state": _one_of(verdict.State, "Whether an issue has come, or has gone again."),
        "occurrence": {"type": "integer", "minimum": 1, "description": "How often this rule has opened an issue."},
        "group": _text("The id of the verdict that was the first to tell of the same problem; its own, where it was."),
    }
    finding = {
        "subject": _text("What it is about, most often a tensor."),
        "worker": _text("Who saved it: `worker_0`."),
        "step": _count("The step at which it was judged."),
        "since_step": _count("The first step in a row at which it held."),
        "measure": _text("What was measured, and its unit."),
        "observed": _number("The measured value."),
        "relation": {"enum": ["<", ">"], "description": "How `observed` stands to `threshold`."},
        "threshold": _number("What it was compared with."),
        "statistics": {
            "type": "object",
            "additionalProperties": {"$ref": "#/$defs/number"},
            "description": "Further numbers about the subject at `step`.",
        },
        "series": _series("The evidence: [step, value] of the same measure, oldest first."),
        "place": _text("The line of the user's code that made the subject (`train.py:41`), where that is known."),
    }
    suspicion = {
        "cause": {"enum": _words(Cause), "description": "One of a closed list, so that rules can be compared."},
        "because": _text("The numbers of this run that speak for it; may be empty."),
        "what": _text("The cause in words."),
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:trackside:verdict:{verdict.VERSION}",
        "title": "Verdict",
        "description": "What one rule says about one run: a line of rule-output/verdicts.jsonl.",
        **_object(properties),
        "$defs": {"finding": _object(finding), "suspicion": _object(suspicion), "number": _NUMBER},
    }


def event_schema() -> Schema:
    """The `detail` of our event on the bus: AWS's own names for what AWS's events say too."""
    evidence = {
        "TensorName": _text('What was found first; "" where nothing was.'),
        "Worker": _text("Who saved it."),
        "Step": _count("The step at which it was judged."),
        "SinceStep": _count("The first step at which any finding held."),
        "Comparison": _text("`mean |gradient| 3.1e-12 < 1e-07`."),
        "Affected": _count("How many subjects were found."),
        "Statistics": {"type": "object", "additionalProperties": {"$ref": "#/$defs/number"}},
        "Series": _series("[step, value], oldest first.", most=event.MOST_EVIDENCE_POINTS),
        "TensorUri": _text("Where the tensor lies."),
    }
    properties = {
        "Version": {"const": event.VERSION, "description": "The version of this format."},
        "TrainingJobName": _text("The training job."),
        "TrainingJobArn": _text("The training job."),
        "RuleConfigurationName": _text("The name of the rule's configuration."),
        "RuleEvaluationJobArn": _text('The processing job that judged; "" where none did.'),
        "RuleEvaluationStatus": _one_of(event.RuleEvaluationStatus, "AWS's own words."),
        "StatusDetails": {**_text("The verdict's message."), "maxLength": event.MOST_STATUS_DETAILS},
        "LastModifiedTime": {"type": "integer", "description": "In milliseconds since 1970-01-01 UTC, as AWS's."},
        "Rule": _text("The rule's id."),
        "Severity": _one_of(verdict.Severity, 'Only "critical" may stop a run.'),
        "Actions": _list({"enum": _words(Action)}, "What was asked to be done about it, and may be."),
        "WhatToDo": _list({"type": "string"}, "Steps to try, best first."),
        "Run": _text("Where the run lies."),
        "Evidence": _object(evidence),
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:trackside:event:{event.VERSION}",
        "title": event.DETAIL_TYPE,
        "description": f"The detail of an event of the source `{event.SOURCE}` and this title as its detail type.",
        **_object(properties),
        "$defs": {"number": _NUMBER},
    }


def as_file(schema: Schema) -> str:
    """The schema as its file holds it."""
    return f"{json.dumps(schema, indent=2)}\n"


_NUMBER: Schema = {
    "oneOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}],
    "description": "A number; JSON has no words of its own for those that are not finite.",
}


def _object(properties: Schema) -> Schema:
    return {
        "type": "object",
        "required": [name for name in properties if name not in _OPTIONAL],
        "properties": properties,
    }


def _text(what: str) -> Schema:
    return {"type": "string", "description": what}


def _count(what: str) -> Schema:
    return {"type": "integer", "minimum": 0, "description": what}


def _number(what: str) -> Schema:
    return {"$ref": "#/$defs/number", "description": what}


def _list(item: Schema, what: str) -> Schema:
    return {"type": "array", "items": item, "description": what}


def _series(what: str, *, most: int | None = None) -> Schema:
    pair = [{"type": "integer", "minimum": 0}, {"$ref": "#/$defs/number"}]
    items = {"type": "array", "prefixItems": pair, "items": False, "minItems": 2}
    return {**_list(items, what), **({"maxItems": most} if most else {})}


def _one_of(words: type[Enum], what: str) -> Schema:
    return {"enum": _words(words), "description": what}


def _words(words: type[Enum]) -> list[str]:
    return [word.value for word in words]
