"""The collections of a run in each worker's file: names of their tensors, and schedules.

The file is smdebug's. Additions stand in `_meta`, which its readers ignore, because smdebug refuses a schedule with an
unknown field: `shards`, and schedules by the clock:

    "_meta": {"num_workers": 1, "save_seconds": {"weights": {"TRAIN": 60.0}}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trackside.contracts.capture_request import Schedule
from trackside.records.modes import MODE_NUMBERS
from trackside.records.shards import SHARDS, Shard, shards_document
from trackside.records.untrusted_json import UntrustedJson

SAVE_SECONDS = "save_seconds"
_SECTIONS = ("collections", "_meta")
_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True)
class ReductionRecord:
    """The form in which each tensor is saved; reductions in smdebug's spelling: "abs_mean"."""

    save_raw_tensor: bool = False
    reductions: tuple[str, ...] = ()
    save_shape: bool = False


@dataclass(frozen=True)
class CollectionRecord:
    """One collection. A tensor belongs to it if it is named, or if any of the regexes is found in its name.

    `schedules` maps modes to schedules; None stands for the hook's own, as in smdebug's file.
    """

    name: str
    include_regex: tuple[str, ...] = ()
    tensor_names: tuple[str, ...] = ()
    schedules: Mapping[str, Schedule | None] | None = None
    reduction: ReductionRecord | None = None
    save_histogram: bool = True


@dataclass(frozen=True)
class Collections:
    """The content of a collections file.

    collections  the collections
    num_workers  number of workers with a file of their own; a step is complete when all have saved it
    """

    collections: tuple[CollectionRecord, ...]
    num_workers: int = 1

    def named(self, name: str) -> CollectionRecord | None:
        """Return the collection of that name, or None."""
        return next((c for c in self.collections if c.name == name), None)


def encode_collections(
    collections: Iterable[CollectionRecord], *, num_workers: int, shards: Mapping[str, Shard] | None = None
) -> bytes:
    """Return the file's content in smdebug's format. `shards`, by tensor name, are an addition of ours."""
    records = tuple(collections)
    seconds = {c.name: by_mode for c in records if (by_mode := _seconds_document(c))}
    meta = {
        "num_workers": num_workers,
        **({SHARDS: shards_document(shards)} if shards else {}),
        **({SAVE_SECONDS: seconds} if seconds else {}),
    }
    document = {"collections": {c.name: _collection_document(c) for c in records}, "_meta": meta}
    return json.dumps(document).encode("ascii")


def decode_collections(data: bytes, *, key: str) -> Collections:
    """Return the content of a collections file. Unknown fields of a collection and of `_meta` are ignored.

    Raises:
        RecordError: The file is no collections file.
    """
    document = UntrustedJson.parse(data, key=key)
    unknown = [name for name in document.names() if name not in _SECTIONS]
    if unknown:
        raise document.error(f"has the section {unknown[0][:30]!r}, but only {' and '.join(_SECTIONS)} are known")
    named = document.object("collections")
    meta = document.object("_meta") if document.has("_meta") else None
    seconds = _read_seconds(meta) if meta and meta.has(SAVE_SECONDS) else {}
    return Collections(
        collections=tuple(
            _read_collection(name, named.object(name), seconds.get(name, _NOTHING)) for name in named.names()
        ),
        num_workers=max(1, meta.count("num_workers")) if meta and meta.has("num_workers") else 1,
    )


def _collection_document(collection: CollectionRecord) -> dict[str, Any]:
    schedules = collection.schedules
    return {
        "name": collection.name,
        "include_regex": list(collection.include_regex),
        "tensor_names": sorted(collection.tensor_names),
        "reduction_config": _reduction_document(collection.reduction),
        "save_config": None
        if schedules is None
        else {mode: _schedule_document(schedules.get(mode)) for mode in MODE_NUMBERS},
        "save_histogram": collection.save_histogram,
    }


def _reduction_document(reduction: ReductionRecord | None) -> dict[str, Any] | None:
    if reduction is None:
        return None
    return {
        "save_raw_tensor": reduction.save_raw_tensor,
        "reductions": ",".join(reduction.reductions),
        "save_shape": reduction.save_shape,
    }


def _schedule_document(schedule: Schedule | None) -> dict[str, Any] | None:
    if schedule is None:
        return None
    return {
        "save_interval": schedule.save_interval,
        "save_steps": list(schedule.save_steps),
        "start_step": schedule.start_step,
        "end_step": schedule.end_step,
    }


def _seconds_document(collection: CollectionRecord) -> dict[str, float]:
    schedules = collection.schedules or {}
    return {
        mode: schedule.save_seconds
        for mode in MODE_NUMBERS
        if (schedule := schedules.get(mode)) is not None and schedule.save_seconds is not None
    }


def _read_collection(name: str, fields: UntrustedJson, seconds: Mapping[str, float]) -> CollectionRecord:
    # Some versions of smdebug write `false` for no regexes.
    has_regexes = fields.is_list("include_regex")
    if "name" in fields.names():
        fields.text("name")  # the key above is what counts; old readers go by this one
    return CollectionRecord(
        name=name,
        include_regex=fields.texts("include_regex") if has_regexes else (),
        tensor_names=fields.texts("tensor_names"),
        schedules=_read_schedules(fields.object("save_config"), seconds) if fields.has("save_config") else None,
        reduction=_read_reduction(fields.object("reduction_config")) if fields.has("reduction_config") else None,
        save_histogram=fields.boolean("save_histogram", True),
    )


def _read_seconds(meta: UntrustedJson) -> dict[str, dict[str, float]]:
    """Return the seconds by collection and mode. Unknown modes are ignored."""
    named = meta.object(SAVE_SECONDS)
    return {
        name: {mode: modes.seconds(mode) for mode in MODE_NUMBERS if modes.has(mode)}
        for name in named.names()
        for modes in (named.object(name),)
    }


def _read_schedules(fields: UntrustedJson, seconds: Mapping[str, float]) -> dict[str, Schedule | None]:
    return {
        mode: replace(_read_schedule(fields.object(mode)), save_seconds=seconds.get(mode)) if fields.has(mode) else None
        for mode in MODE_NUMBERS
        if mode in fields.names()
    }


def _read_schedule(fields: UntrustedJson) -> Schedule:
    default = Schedule()
    return Schedule(
        save_interval=max(1, fields.count("save_interval")) if fields.has("save_interval") else default.save_interval,
        start_step=fields.count("start_step") if fields.has("start_step") else default.start_step,
        end_step=fields.count("end_step") if fields.has("end_step") else default.end_step,
        save_steps=fields.counts("save_steps"),
    )


def _read_reduction(fields: UntrustedJson) -> ReductionRecord:
    names = fields.text("reductions") if fields.has("reductions") else ""
    return ReductionRecord(
        save_raw_tensor=fields.boolean("save_raw_tensor", False),
        reductions=tuple(filter(None, names.split(","))),
        save_shape=fields.boolean("save_shape", False),
    )
