"""What to save: collections, and on which steps.

The names are smdebug's: a collection has a schedule (`save_interval`, `start_step`, `end_step`, `save_steps`) and
may name further tensors by regex. Steps count optimizer steps from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from trackside.contracts.fields import Fields, parse_json, to_json

VERSION = 1
DEFAULT_SAVE_INTERVAL = 500  # smdebug's own default

KNOWN_COLLECTIONS = ("losses", "weights", "biases", "gradients")


@dataclass(frozen=True)
class Schedule:
    """On which steps a collection is saved: smdebug's rule, so `save_steps` adds to the interval."""

    save_interval: int = DEFAULT_SAVE_INTERVAL
    start_step: int = 0
    end_step: int | None = None
    save_steps: tuple[int, ...] = ()

    def is_due(self, step: int) -> bool:
        """True if `step` is in `save_steps`, or on the interval within [start_step, end_step)."""
        if step in self.save_steps:
            return True
        within = self.start_step <= step and (self.end_step is None or step < self.end_step)
        return within and step % self.save_interval == 0


@dataclass(frozen=True)
class CollectionRequest:
    """One collection to save."""

    name: str
    schedule: Schedule = Schedule()
    include_regex: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaptureRequest:
    """Everything the hook is asked to save."""

    collections: tuple[CollectionRequest, ...] = (CollectionRequest("losses"),)

    def collection(self, name: str) -> CollectionRequest | None:
        """The request for the collection of that name, if there is one."""
        return next((c for c in self.collections if c.name == name), None)

    def merged_with(self, other: CaptureRequest) -> CaptureRequest:
        """Both requests at once. Where both name a collection, the finer interval and all regexes hold."""
        merged = {c.name: c for c in self.collections}
        for theirs in other.collections:
            ours = merged.get(theirs.name)
            merged[theirs.name] = _finer(ours, theirs) if ours else theirs
        return CaptureRequest(tuple(merged.values()))

    def to_json(self) -> str:
        """One line of JSON, as it travels in the environment of a training job."""
        return to_json({"version": VERSION, "collections": collections_document(self.collections)})

    @classmethod
    def from_json(cls, text: str) -> CaptureRequest:
        """Reads `to_json`'s text. Errors: `ConfigurationError` with every problem at once."""
        subject = "The capture request"
        fields = Fields(parse_json(text, subject=subject), where="")
        fields.integer("version", VERSION)
        collections = fields.items("collections", read_collection)
        fields.reject_unknown()
        fields.finish(subject=subject)
        return cls(collections)


def collections_document(collections: Iterable[CollectionRequest]) -> list[dict[str, object]]:
    """Plain JSON values, as `read_collection` reads them."""
    return [
        {
            "name": c.name,
            "save_interval": c.schedule.save_interval,
            **({"start_step": c.schedule.start_step} if c.schedule.start_step else {}),
            **({} if c.schedule.end_step is None else {"end_step": c.schedule.end_step}),
            **({"save_steps": list(c.schedule.save_steps)} if c.schedule.save_steps else {}),
            **({"include_regex": list(c.include_regex)} if c.include_regex else {}),
        }
        for c in collections
    ]


def read_collection(fields: Fields) -> CollectionRequest:
    """One collection of a request, with its problems noted in `fields`."""
    name = fields.text("name")
    schedule = Schedule(
        save_interval=fields.integer("save_interval", DEFAULT_SAVE_INTERVAL, minimum=1),
        start_step=fields.integer("start_step", 0, minimum=0),
        end_step=fields.optional_integer("end_step", minimum=0),
        save_steps=fields.integers("save_steps", (), minimum=0),
    )
    include_regex = fields.texts("include_regex", ())
    for pattern in include_regex:
        try:
            re.compile(pattern)
        except re.error as error:
            fields.problem("include_regex", f"{pattern!r} is not a regular expression: {error}.")
    if name and name not in KNOWN_COLLECTIONS and not include_regex:
        fields.problem(
            "include_regex",
            f"is missing: {name!r} is a collection of your own, so it must say which tensors belong to it.",
            f"The built-in collections are {', '.join(KNOWN_COLLECTIONS)}.",
        )
    fields.reject_unknown()
    return CollectionRequest(name=name, schedule=schedule, include_regex=include_regex)


def _finer(ours: CollectionRequest, theirs: CollectionRequest) -> CollectionRequest:
    a, b = ours.schedule, theirs.schedule
    end = None if a.end_step is None or b.end_step is None else max(a.end_step, b.end_step)
    schedule = Schedule(
        save_interval=min(a.save_interval, b.save_interval),
        start_step=min(a.start_step, b.start_step),
        end_step=end,
        save_steps=tuple(sorted({*a.save_steps, *b.save_steps})),
    )
    regexes = tuple(dict.fromkeys((*ours.include_regex, *theirs.include_regex)))
    return replace(ours, schedule=schedule, include_regex=regexes)


def capture_environment(run_uri: str, request: CaptureRequest) -> Mapping[str, str]:
    """The environment that switches capture on in a training job: add it to `Environment` of CreateTrainingJob."""
    return {"TRACKSIDE_RUN": run_uri, "TRACKSIDE_CAPTURE_REQUEST": request.to_json()}
