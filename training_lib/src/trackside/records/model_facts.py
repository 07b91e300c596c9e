"""Read and write `model-facts/<worker>.json`: a worker's facts about its training program.

The file holds a list of revisions, oldest first: the facts when the first training step ended, and again whenever they
had changed. A section equal to that of the revision before is left out. Format: docs/formats/model-facts.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, partial
from typing import Any, TypeVar

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.model_facts import (
    LossFacts,
    ModelFacts,
    ModuleFacts,
    OptimizerFacts,
    ParameterFacts,
    ProgramFacts,
    Revisions,
)
from trackside.contracts.observations import Observation, Section, declared, without_defaults
from trackside.contracts.run_layout import MODEL_FACTS_PREFIX, model_facts_key
from trackside.records.untrusted_json import MOST_JSON_BYTES, UntrustedJson
from trackside.storage.store import Store

VERSION = 1
MOST_REVISIONS = 32
HEAD_BYTES = 64
MOST_BYTES = 8 << 20  # of a file; no further revision is added beyond it
_SECTIONS: Mapping[Section, type] = {
    "modules": ModuleFacts,
    "parameters": ParameterFacts,
    "optimizers": OptimizerFacts,
    "losses": LossFacts,
    "program": ProgramFacts,
}


def encode_facts(revisions: Sequence[ModelFacts], *, revision_count: int | None = None) -> bytes:
    """Return the file's content. A section equal to that of the revision before is left out.

    Args:
        revisions: The revisions, oldest first.
        revision_count: Number of revisions ever added, dropped ones included; None: the number of `revisions`. It
            stands in the first `HEAD_BYTES`, so that a reader sees news without reading more.
    """
    documents = []
    before: ModelFacts | None = None
    for facts in revisions:
        document: dict[str, object] = {"from_step": facts.from_step}
        for name in _SECTIONS:
            section = getattr(facts, name)
            if before is None or section != getattr(before, name):
                document[name] = _plain(section)
        documents.append(document)
        before = facts
    head = {"version": VERSION, "told": len(revisions) if revision_count is None else revision_count}
    return json.dumps({**head, "revisions": documents}, allow_nan=False).encode("ascii")


def decode_facts(data: bytes, *, key: str) -> Revisions:
    """Return the revisions, oldest first. Unknown fields are ignored.

    Raises:
        RecordError: The file holds no facts.
    """
    document = UntrustedJson.parse(data, key=key)
    if document.count("version") != VERSION:
        raise document.error(f"is of version {document.count('version')}; this Trackside reads {VERSION}")
    revisions: list[ModelFacts] = []
    for found in document.objects("revisions")[:MOST_REVISIONS]:
        before = revisions[-1] if revisions else ModelFacts()
        revision = ModelFacts(
            from_step=found.count("from_step"),
            modules=_section(found, "modules", ModuleFacts, before.modules),
            parameters=_section(found, "parameters", ParameterFacts, before.parameters),
            optimizers=_section(found, "optimizers", OptimizerFacts, before.optimizers),
            losses=_section(found, "losses", LossFacts, before.losses),
            program=_facts(found.object("program"), ProgramFacts) if found.has("program") else before.program,
        )
        if revisions and revision.from_step < before.from_step:
            raise found.error(f"has from_step = {revision.from_step}, below that of the one before")
        revisions.append(revision)
    return tuple(revisions)


def facts_workers(store: Store) -> tuple[str, ...]:
    """Return the workers that have stored facts, sorted.

    Raises:
        StorageError: The store failed.
    """
    names = (key.removeprefix(MODEL_FACTS_PREFIX).removesuffix(".json") for key in store.list(MODEL_FACTS_PREFIX))
    return tuple(sorted(name for name in names if name and "/" not in name))


def read_facts(store: Store, worker: str) -> Revisions:
    """Return the worker's facts so far, () if it has stored none.

    Raises:
        RecordError: The file cannot be read.
        StorageError: The store failed.
    """
    key = model_facts_key(worker)
    try:
        return decode_facts(store.get(key, length=MOST_JSON_BYTES + 1), key=key)
    except KeyNotFoundError:
        return ()


_T = TypeVar("_T")
_Reader = Callable[[UntrustedJson, str], object]
_FieldReader = tuple[str, _Reader, bool]


def _section(revision: UntrustedJson, name: str, kind: type[_T], before: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(_facts(found, kind) for found in revision.objects(name)) if revision.has(name) else before


def _document(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, without those equal to their default; dataclasses in them are objects, too."""
    kind: Any = type(value)
    document: dict[str, Any] = {
        name: part if isinstance(part, _PLAIN) else _plain(part)
        for name, default in _defaults_of(kind)
        if (part := getattr(value, name)) != default
    }
    if observed := document.pop("observed", None):
        document.update((each.name, _plain(part)) for each, part in without_defaults(observed).items())
    return document


@cache
def _defaults_of(kind: Any) -> list[tuple[str, object]]:
    return [(f.name, _default(f)) for f in fields(kind)]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return _document(value) if is_dataclass(value) else value


_PLAIN = (str, int, float)  # values that JSON holds as they are


def _default(of: Field[Any]) -> object:
    return of.default_factory() if of.default_factory is not MISSING else of.default


def _facts(found: UntrustedJson, kind: Callable[..., _T]) -> _T:
    """Return the facts of a kind from JSON. Fields with a default may be absent; each is read by its annotation."""
    readers: list[_FieldReader] = _readers_of(kind)
    given = {name: read(found, name) for name, read, is_needed in readers if is_needed or found.has(name)}
    observers: list[tuple[Observation[object], _Reader]] = _observers_of(kind)
    if observers:
        given["observed"] = {each: read(found, each.name) for each, read in observers if found.has(each.name)}
    return kind(**given)


@cache
def _readers_of(kind: Any) -> list[_FieldReader]:
    """Return the name of each field, the reader of its value, and whether it has no default."""
    return [(f.name, _READERS[str(f.type)], _default(f) is MISSING) for f in fields(kind) if f.name != "observed"]


@cache
def _observers_of(kind: Any) -> list[tuple[Observation[object], _Reader]]:
    """Return the observations of facts of that kind, and the readers of their values."""
    sections = [section for section, of_section in _SECTIONS.items() if of_section is kind]
    return [(each, _reader_of(each)) for section in sections for each in declared(section)]


def _reader_of(observation: Observation[object]) -> _Reader:
    item = observation.item or type(observation.default)
    is_tuple = isinstance(observation.default, tuple)
    if is_dataclass(item):
        return partial(_all_facts if is_tuple else _one_fact, kind=item)
    return _READERS[f"tuple[{item.__name__}, ...]" if is_tuple else item.__name__]


def _one_fact(found: UntrustedJson, name: str, *, kind: Callable[..., object]) -> object:
    return _facts(found.object(name), kind)


def _all_facts(found: UntrustedJson, name: str, *, kind: Callable[..., object]) -> object:
    return tuple(_facts(each, kind) for each in found.objects(name))


def _numbers(found: UntrustedJson) -> dict[str, float]:
    return {key: found.number(key) for key in found.names()}


_READERS: Mapping[str, _Reader] = {
    "str": UntrustedJson.text,
    "bool": lambda found, name: found.boolean(name, False),
    "int": UntrustedJson.count,
    "int | None": UntrustedJson.count,
    "float": UntrustedJson.number,
    "tuple[int, ...]": UntrustedJson.counts,
    "tuple[float, ...]": UntrustedJson.numbers,
    "tuple[str, ...]": UntrustedJson.texts,
    "tuple[Mapping[str, float], ...]": lambda found, name: tuple(map(_numbers, found.objects(name))),
}
"""Annotation of a field -> reader of its value."""
