"""An item of a DynamoDB table: plain values to and from the typed form of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.event import TrainingJob
from trackside.contracts.fields import Fields
from trackside.contracts.stored_fields import Kind, record_of

T = TypeVar("T", bound="TableRecord")

Item = Mapping[str, Mapping[str, Any]]


def write_item(values: Mapping[str, str | int | float | bool | None]) -> dict[str, dict[str, Any]]:
    """Return `{"status": {"S": "InProgress"}, ...}`. None is left out.

    Numbers must be finite; non-finite ones are stored as texts by the caller.
    """
    return {name: _write(value) for name, value in values.items() if value is not None}


def read_item(item: Item) -> Fields:
    """Return the fields of an item.

    Raises:
        ConfigurationError: A value has a type that `write_item` never writes.
    """
    return Fields({name: _read(name, typed) for name, typed in item.items()}, where="")


class TableRecord:
    """Base of a dataclass with stored fields that is an item. `item_name` is its name in errors."""

    item_name: ClassVar[str]

    @classmethod
    def from_item(cls: type[T], item: Item) -> T:
        """Read an item.

        Args:
            item: The item.

        Raises:
            ConfigurationError: With every problem of the item.
        """
        fields = read_item(item)
        record = record_of(cls, fields)
        fields.finish(subject=cls.item_name)
        return record


JOB = Kind(
    {"pk": {"type": "string"}, "name": {"type": "string"}},
    lambda fields, name, absent: TrainingJob(
        fields.text("name"), fields.text("pk"), continues=fields.text("continues", "")
    ),
    lambda job: {"name": job.name, "pk": job.arn, "continues": job.continues or None},
    is_flat=True,
)
"""The training job that an item is about. Its partition has all jobs of that name: see `TrainingJob.created_at`."""


def _write(value: str | int | float | bool) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, str):
        # JSON can carry half of a surrogate pair, UTF-8 cannot: a strange name must not hinder what follows from it.
        return {"S": value.encode("utf-8", "replace").decode("utf-8")}
    return {"N": repr(value)}


def _read(name: str, typed: Mapping[str, Any]) -> str | int | float | bool:
    ((kind, value),) = typed.items()
    if kind == "BOOL":
        return bool(value)
    if kind == "S":
        return str(value)
    if kind == "N":
        number = float(value)
        return int(number) if number.is_integer() else number
    raise ConfigurationError([Problem(name, f"is of DynamoDB's type {kind}.")], subject="The item")
