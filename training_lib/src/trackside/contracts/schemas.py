"""JSON schemas (draft 2020-12) of a verdict and of our event, for readers without Trackside.

`docs/generate.py` writes them to the files beside this module. Names, kinds and descriptions are those that the
contract types declare.
"""

from __future__ import annotations

import json
from pathlib import Path

from trackside.contracts import event, verdict
from trackside.contracts.cause import Sign, Suspicion
from trackside.contracts.stored_fields import NUMBER_SCHEMA, Schema, object_schema

VERDICT_FILE = Path(__file__).with_name("verdict.schema.json")
EVENT_FILE = Path(__file__).with_name("event.schema.json")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def verdict_schema() -> Schema:
    """Return the schema of a line of `verdicts.jsonl`. A newer Trackside may add names."""
    definitions = {kind.__name__.lower(): object_schema(kind) for kind in (verdict.Finding, Suspicion, Sign)}
    return {
        "$schema": DIALECT,
        "$id": f"urn:trackside:verdict:{verdict.VERSION}",
        "title": "Verdict",
        "description": "The verdict of one rule on one run: a line of rule-output/verdicts.jsonl.",
        **object_schema(verdict.Verdict),
        "$defs": {**definitions, "number": NUMBER_SCHEMA},
    }


def event_schema() -> Schema:
    """Return the schema of the `detail` of our event on the bus: AWS's own names where AWS's events have the same."""
    schema = object_schema(event.RuleEvaluation)
    version = {"Version": {"const": event.VERSION, "description": "The version of this format."}}
    return {
        "$schema": DIALECT,
        "$id": f"urn:trackside:event:{event.VERSION}",
        "title": event.DETAIL_TYPE,
        "description": f"The detail of an event of the source `{event.SOURCE}` and this title as its detail type.",
        "type": "object",
        "required": [*version, *schema["required"]],
        "properties": {**version, **schema["properties"]},
        "$defs": {"number": NUMBER_SCHEMA},
    }


def as_file(schema: Schema) -> str:
    """Return the schema as the text of its file.

    Args:
        schema: The schema.
    """
    return f"{json.dumps(schema, indent=2)}\n"
