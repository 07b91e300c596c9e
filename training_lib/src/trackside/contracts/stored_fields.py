"""Declare each field of a contract type once: JSON both ways, schema, table item and docs table follow.

    @dataclass(frozen=True)
    class Finding:
        subject: str = field(metadata=stored(TEXT, "What it is about, most often a tensor."))
        place: str = field(default="", metadata=stored(TEXT, "The line of the user's code.", optional=True))

        @property
        @computed(TEXT, "The name and the place.")
        def title(self) -> str: ...

    document_of(finding)          the values as JSON holds them
    record_of(Finding, fields)  a finding from JSON; all problems at once are noted in `fields`
    object_schema(Finding)        its JSON schema
    field_table(Finding)          rows of a table in Markdown

Fields without a declaration are not stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from enum import Enum
from functools import cache
from typing import Any, ClassVar, TypeVar

from trackside.contracts.fields import Fields, parse_json, to_json, write_number

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
E = TypeVar("E", bound=Enum)
D = TypeVar("D", bound="StoredDocument")
Schema = dict[str, Any]

REQUIRED = None  # the value of `Fields` for "no default"
MOST_WORDS_IN_TABLE = 6  # longer enumerations are listed in the schema only
_METADATA = "trackside.stored"


class Kind:
    """The form of a value in JSON. Plain classes here: each dataclass would cost a millisecond of every start.

    schema   its JSON schema, without a description; of a flattened kind: the properties by name
    read     takes the fields, a name and the value where the name is absent (`REQUIRED`: a problem)
    write    returns the value as JSON holds it
    is_flat  the value takes several names of the object that holds it, and `write` returns an object
    required of a flattened kind: the names that are never left out
    """

    __slots__ = ("is_flat", "read", "required", "schema", "write")

    def __init__(
        self,
        schema: Mapping[str, Any],
        read: Callable[[Fields, str, Any], Any],
        write: Callable[[Any], Any] = lambda value: value,
        *,
        is_flat: bool = False,
        required: Sequence[str] | None = None,
    ) -> None:
        self.schema, self.read, self.write, self.is_flat = schema, read, write, is_flat
        self.required = tuple(schema) if required is None else tuple(required)


class StoredField:
    """One declared field.

    attribute    its name in Python
    kind         the form of its value
    description  for the schema and the docs
    name         its name in JSON
    absent       its value where JSON has no such name; `REQUIRED`: a problem
    default      the value that is left out of JSON if `is_optional`
    is_read      False for a computed field, which is written only
    """

    __slots__ = ("absent", "attribute", "default", "description", "is_optional", "is_read", "kind", "name")

    def __init__(
        self,
        attribute: str,
        kind: Kind,
        description: str,
        *,
        name: str,
        absent: Any,
        default: Any,
        is_optional: bool,
        is_read: bool,
    ) -> None:
        self.attribute, self.kind, self.description, self.name = attribute, kind, description, name or attribute
        self.absent, self.default, self.is_optional, self.is_read = absent, default, is_optional, is_read


def stored(
    kind: Kind, description: str = "", *, name: str = "", absent: Any = MISSING, optional: bool = False
) -> dict[str, Any]:
    """Return the metadata of a dataclass field that is stored.

    Args:
        kind: The form of its value.
        description: For the schema and the docs.
        name: Its name in JSON, if it is not the attribute's.
        absent: Its value where JSON has no such name: by default the field's own default; `REQUIRED`: a problem.
        optional: Left out where it has its default. A new field of an existing format must be optional.
    """
    return {_METADATA: (kind, description, name, absent, optional)}


def computed(kind: Kind, description: str = "", *, name: str = "", optional: bool = False) -> Callable[[F], F]:
    """Mark the function of a property as stored: its value is written for readers, and not read. None is left out."""

    def mark(function: F) -> F:
        vars(function)[_METADATA] = (kind, description, name, optional)
        return function

    return mark


def document_of(record: Any) -> dict[str, Any]:
    """Return the stored fields of a dataclass as JSON holds them."""
    document: dict[str, Any] = {}
    for declared in stored_fields(type(record)):
        value = getattr(record, declared.attribute)
        if declared.is_optional and value == declared.default:
            continue
        if declared.kind.is_flat:
            document.update(declared.kind.write(value))
        else:
            document[declared.name] = declared.kind.write(value)
    return document


def record_of(kind: type[T], fields: Fields) -> T:
    """Return an instance of the dataclass `kind`. Mistakes become problems of `fields`; unknown names are ignored."""
    return kind(
        **{
            declared.attribute: declared.kind.read(fields, declared.name, declared.absent)
            for declared in stored_fields(kind)
            if declared.is_read
        }
    )


def object_schema(kind: type) -> Schema:
    """Return the JSON schema of a dataclass with stored fields."""
    properties: Schema = {}
    required: list[str] = []
    for declared in stored_fields(kind):
        if declared.kind.is_flat:
            properties.update(declared.kind.schema)
            required += declared.kind.required
            continue
        described = {"description": declared.description} if declared.description else {}
        properties[declared.name] = {**declared.kind.schema, **described}
        if not declared.is_optional:
            required.append(declared.name)
    return {"type": "object", "required": required, "properties": properties}


def field_table(kind: type) -> str:
    """Return a table of the stored fields in Markdown."""
    rows = [f"| `{name}` | {_meaning(schema)} |" for name, schema in object_schema(kind)["properties"].items()]
    return "\n".join(["| name | meaning |", "|---|---|", *rows])


def _meaning(schema: Schema) -> str:
    words = schema.get("enum") or schema.get("items", {}).get("enum", ())
    listed = f"{', '.join(f'`{word}`' for word in words)}. " if 0 < len(words) <= MOST_WORDS_IN_TABLE else ""
    return f"{listed}{schema.get('description', '')}".replace("|", "\\|")


class StoredDocument:
    """Base of a dataclass with declared fields that is a JSON document of its own.

    document_name     its name in errors (default: that of the class)
    document_version  version of its form, written first; None: it has none, or declares it as a field
    """

    document_name: ClassVar[str] = ""
    document_version: ClassVar[int | None] = None

    def to_json(self) -> str:
        """Return one line of JSON."""
        version = {} if self.document_version is None else {"version": self.document_version}
        return to_json({**version, **document_of(self)})

    @classmethod
    def from_json(cls: type[D], text: str | bytes) -> D:
        """Return the document in a text that `to_json` wrote. Names that a newer version added are ignored.

        Args:
            text: The JSON.

        Raises:
            ConfigurationError: The text is wrong. Lists every problem.
        """
        subject = cls.document_name or cls.__name__
        fields = Fields(parse_json(text, subject=subject), where="")
        found = record_of(cls, fields)
        fields.finish(subject=subject)
        return found


def stored_fields(kind: Any) -> tuple[StoredField, ...]:
    """Return the declared fields of a dataclass in their order, then the computed ones."""
    return _stored_fields(kind)


@cache
def _stored_fields(kind: Any) -> tuple[StoredField, ...]:
    return (*_declared(kind), *_computed(kind))


def _declared(kind: Any) -> Iterator[StoredField]:
    for each in dataclasses.fields(kind):
        if _METADATA not in each.metadata:
            continue
        form, description, name, absent, optional = each.metadata[_METADATA]
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        if absent is MISSING:
            absent = REQUIRED if default is MISSING else default
        yield StoredField(
            each.name,
            form,
            description,
            name=name,
            absent=absent,
            default=default,
            is_optional=optional,
            is_read=True,
        )


def _computed(kind: Any) -> Iterator[StoredField]:
    found = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    for attribute, value in found.items():
        if isinstance(value, property) and _METADATA in vars(value.fget):
            form, description, name, optional = vars(value.fget)[_METADATA]
            yield StoredField(
                attribute,
                form,
                description,
                name=name,
                absent=None,
                default=None,
                is_optional=optional,
                is_read=False,
            )


NUMBER_SCHEMA: Schema = {
    "oneOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}],
    "description": "A number; JSON has no words of its own for those that are not finite.",
}
"""The definition `number`, for the schemas that refer to it."""
_A_NUMBER = {"$ref": "#/$defs/number"}


def integer(*, minimum: int | None = None) -> Kind:
    """Return the kind of a whole number. `minimum` is for the schema only: readers are lenient."""
    return Kind({"type": "integer", **({} if minimum is None else {"minimum": minimum})}, Fields.integer)


def at_least(minimum: int) -> Kind:
    """Return the kind of a whole number that readers refuse below `minimum`."""
    return Kind(
        {"type": "integer", "minimum": minimum},
        lambda fields, name, absent: fields.integer(name, absent, minimum=minimum),
    )


TEXT = Kind({"type": "string"}, Fields.text)
TEXTS = Kind({"type": "array", "items": {"type": "string"}}, Fields.texts, list)
BOOLEAN = Kind({"type": "boolean"}, Fields.boolean)
INTEGER = integer()
COUNT = integer(minimum=0)
NUMBER = Kind(_A_NUMBER, Fields.number, write_number)
FINITE = Kind({"type": "number"}, Fields.number)  # such as a moment or a duration in seconds
NUMBERS = Kind(
    {"type": "object", "additionalProperties": _A_NUMBER},
    lambda fields, name, absent: fields.numbers(name),
    lambda values: {key: write_number(value) for key, value in sorted(values.items())},
)


def nullable(kind: Kind) -> Kind:
    """Allow None: written as null, read from null or from an absent name."""
    return Kind(
        {"oneOf": [kind.schema, {"type": "null"}]},
        lambda fields, name, absent: kind.read(fields, name, absent) if fields.has(name) else None,
        lambda value: None if value is None else kind.write(value),
    )


def if_given(kind: Kind) -> Kind:
    """Read an absent name as None. Null is a problem."""

    def read(fields: Fields, name: str, absent: Any) -> Any:
        if name in fields:
            return kind.read(fields, name, REQUIRED)
        fields.ignore(name)
        return None

    return Kind(kind.schema, read, kind.write)


def constant(value: int) -> Kind:
    """Return the kind of a whole number with one value, such as a version."""
    return Kind({"const": value}, Fields.integer)


def choice(words: type[E]) -> Kind:
    """Return the kind of one value of an enumeration."""
    return Kind(
        {"enum": [word.value for word in words]},
        lambda fields, name, absent: fields.choice(name, words, absent),
        lambda value: value.value,
    )


def word(*words: str) -> Kind:
    """Return the kind of a text that is one of `words`, the first by default."""

    def read(fields: Fields, name: str, absent: Any) -> str:
        found = fields.text(name, words[0])
        if found not in words:
            fields.problem(name, f"must be one of {', '.join(words)}, but is {found!r}.")
        return found

    return Kind({"enum": [*words]}, read)


def choices(words: type[E]) -> Kind:
    """Return the kind of a list of values of an enumeration, each once. None is written as an empty list."""
    return Kind(
        {"type": "array", "items": {"enum": [word.value for word in words]}},
        lambda fields, name, absent: fields.choices(name, words, absent),
        lambda values: [value.value for value in values or ()],
    )


def series(*, most: int | None = None) -> Kind:
    """Return the kind of (step, value) pairs, oldest first. Of more than `most`, the newest are written."""
    pair = [{"type": "integer", "minimum": 0}, _A_NUMBER]
    items = {"type": "array", "prefixItems": pair, "items": False, "minItems": 2}
    return Kind(
        {"type": "array", "items": items, **({"maxItems": most} if most else {})},
        lambda fields, name, absent: fields.series(name),
        lambda values: [[step, write_number(value)] for step, value in values[-most if most else 0 :]],
    )


def records(kind: type) -> Kind:
    """Return the kind of a list of dataclasses with stored fields. The schema refers to a definition of that name."""
    return Kind(
        {"type": "array", "items": {"$ref": f"#/$defs/{kind.__name__.lower()}"}},
        lambda fields, name, absent: fields.items(
            name, lambda item: record_of(kind, item), required=absent is REQUIRED
        ),
        lambda values: [document_of(value) for value in values],
    )


def record(kind: type) -> Kind:
    """Return the kind of a dataclass with stored fields. An absent one is read as an empty object."""

    def read(fields: Fields, name: str, absent: Any) -> Any:
        return record_of(kind, fields.inner(name))

    return Kind(object_schema(kind), read, document_of)


def closed_record(kind: type) -> Kind:
    """Return the kind of a dataclass with stored fields, in which an unknown name is a problem."""

    def read(fields: Fields, name: str, absent: Any) -> Any:
        inner = fields.inner(name)
        found: Any = record_of(kind, inner)
        inner.reject_unknown()
        return found

    return Kind(object_schema(kind), read, document_of)


def flat_record(kind: type) -> Kind:
    """Return the kind of a dataclass with stored fields that are written into the enclosing object."""
    schema = object_schema(kind)
    return Kind(
        schema["properties"],
        lambda fields, name, absent: record_of(kind, fields),
        document_of,
        is_flat=True,
        required=schema["required"],
    )
