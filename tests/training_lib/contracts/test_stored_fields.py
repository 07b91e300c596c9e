"""A field of a contract type is declared once: JSON both ways, schema, table and the problems of readers follow."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import Enum

import pytest
from jsonschema import Draft202012Validator

from trackside.contracts.errors import ConfigurationError
from trackside.contracts.fields import Fields
from trackside.contracts.stored_fields import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    REQUIRED,
    TEXT,
    choice,
    computed,
    document_of,
    field_table,
    flat_record,
    object_schema,
    record,
    record_of,
    records,
    stored,
    stored_fields,
)
from trackside.contracts.verdict import Outcome, Severity, Verdict

PLAIN = Verdict("digits", "rule", "mine", Outcome.ISSUE_FOUND, Severity.CRITICAL, 7, "Odd.", 1.5)


@dataclass(frozen=True)
class WithConfidence(Verdict):
    confidence: float = field(default=1.0, metadata=stored(NUMBER, "How sure the rule is, 0 to 1.", optional=True))


def of_wider_type(**values: object) -> WithConfidence:
    return WithConfidence.from_json(json.dumps({**json.loads(PLAIN.to_json()), **values}))


def test_a_new_field_of_a_verdict_is_one_declaration() -> None:
    sure = replace(of_wider_type(), confidence=0.5)
    assert json.loads(sure.to_json()) == {**json.loads(PLAIN.to_json()), "confidence": 0.5}
    assert WithConfidence.from_json(sure.to_json()) == sure
    assert object_schema(WithConfidence)["properties"]["confidence"]["description"] == "How sure the rule is, 0 to 1."
    assert "| `confidence` | How sure the rule is, 0 to 1. |" in field_table(WithConfidence)
    with pytest.raises(ConfigurationError, match="confidence: must be a number"):
        of_wider_type(confidence="very")


def test_lines_from_before_a_new_field_are_read_and_stay_valid() -> None:
    assert of_wider_type().confidence == 1.0
    assert of_wider_type().to_json() == PLAIN.to_json()
    assert "confidence" not in object_schema(WithConfidence)["required"]


class Colour(str, Enum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True)
class Signal:
    colour: Colour = field(metadata=stored(choice(Colour), "Red | green."))
    name: str = field(default="", metadata=stored(TEXT, absent=REQUIRED))
    is_lit: bool = field(default=True, metadata=stored(BOOLEAN, name="lit", optional=True))
    tested: int = 0

    @property
    @computed(TEXT, "For people.")
    def title(self) -> str:
        return f"{self.name} is {self.colour.value}"


@dataclass(frozen=True)
class Track:
    number: int = field(metadata=stored(INTEGER))
    main: Signal = field(default=Signal(Colour.GREEN, "m"), metadata=stored(record(Signal)))
    others: tuple[Signal, ...] = field(default=(), metadata=stored(records(Signal)))


@dataclass(frozen=True)
class Station:
    platform: Track = field(metadata=stored(flat_record(Track)))
    city: str = field(default="", metadata=stored(TEXT))


def read(kind: type, document: object) -> object:
    fields = Fields(document, where="")
    found: object = record_of(kind, fields)
    fields.finish(subject="The test")
    return found


@pytest.mark.parametrize(
    ("signal", "document"),
    [
        pytest.param(
            Signal(Colour.RED, "A"), {"colour": "red", "name": "A", "title": "A is red"}, id="default-left-out"
        ),
        pytest.param(
            Signal(Colour.GREEN, "B", is_lit=False),
            {"colour": "green", "name": "B", "lit": False, "title": "B is green"},
            id="other-name",
        ),
    ],
)
def test_what_is_written_is_what_is_read(signal: Signal, document: dict[str, object]) -> None:
    assert document_of(signal) == document
    assert read(Signal, document) == signal
    Draft202012Validator({**object_schema(Signal), "additionalProperties": False}).validate(document)


def test_a_field_that_is_not_declared_is_not_stored() -> None:
    assert "tested" not in document_of(Signal(Colour.RED, tested=3))
    assert [each.attribute for each in stored_fields(Signal)] == ["colour", "name", "is_lit", "title"]


def test_records_lie_in_records() -> None:
    station = Station(Track(7, Signal(Colour.RED, "A"), (Signal(Colour.GREEN, "B", is_lit=False),)), "Bern")
    document = document_of(station)
    assert set(document) == {"number", "main", "others", "city"}
    assert document["main"]["name"] == "A"
    assert read(Station, json.loads(json.dumps(document))) == station


def test_every_problem_is_named_at_once_with_its_place() -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(Station, {"number": "7", "main": {"colour": "blue"}, "others": [{"colour": "red"}, 3]})
    assert [problem.where for problem in raised.value.problems] == [
        "number",
        "main.colour",
        "main.name",
        "others[0].name",
        "others[1]",
        "others[1].colour",
        "others[1].name",
    ]


def test_a_bar_does_not_break_the_table() -> None:
    assert "| `colour` | `red`, `green`. Red \\| green. |" in field_table(Signal)
