"""Read and write `model-facts/<worker>.json`: a worker's facts about its training program.

The file holds a list of revisions, oldest first: the facts when the first training step ended, and again whenever they
had changed. A section equal to that of the revision before is left out. Format: docs/formats/model-facts.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.model_facts import (
    ClippingFacts,
    LossFacts,
    ModelFacts,
    ModuleFacts,
    OptimizerFacts,
    ParameterFacts,
    ProgramFacts,
    Revisions,
)
from trackside.contracts.run_layout import MODEL_FACTS_PREFIX, model_facts_key
from trackside.records.untrusted_json import MOST_JSON_BYTES, UntrustedJson
from trackside.storage.store import Store

VERSION = 1
MOST_REVISIONS = 32
HEAD_BYTES = 64
MOST_BYTES = 8 << 20  # of a file; no further revision is added beyond it


def encode_facts(revisions: Sequence[ModelFacts], *, told: int | None = None) -> bytes:
    """The file's content. A section that is as in the revision before is left out.

    `told`: how many revisions there ever were, by default these. It stands in the first `HEAD_BYTES`, so that a reader
    sees there whether there are news.
    """
    documents = []
    before: ModelFacts | None = None
    for facts in revisions:
        document: dict[str, object] = {"from_step": facts.from_step}
        for name, encode in _ENCODERS.items():
            section = getattr(facts, name)
            if before is None or section != getattr(before, name):
                document[name] = encode(section)
        documents.append(document)
        before = facts
    head = {"version": VERSION, "told": len(revisions) if told is None else told}
    return json.dumps({**head, "revisions": documents}, allow_nan=False).encode("ascii")


def decode_facts(data: bytes, *, key: str) -> Revisions:
    """The revisions, oldest first, passing over fields that are not known. Errors: `RecordError` if there are none."""
    document = UntrustedJson.parse(data, key=key)
    if document.count("version") != VERSION:
        raise document.error(f"is of version {document.count('version')}; this Trackside reads {VERSION}")
    revisions: list[ModelFacts] = []
    for found in document.objects("revisions")[:MOST_REVISIONS]:
        before = revisions[-1] if revisions else ModelFacts()
        revision = ModelFacts(
            from_step=found.count("from_step"),
            modules=_section(found, "modules", _module, before.modules),
            parameters=_section(found, "parameters", _parameter, before.parameters),
            optimizers=_section(found, "optimizers", _optimizer, before.optimizers),
            losses=_section(found, "losses", _loss, before.losses),
            program=_program(found.object("program")) if found.has("program") else before.program,
        )
        if revisions and revision.from_step < before.from_step:
            raise found.error(f"has from_step = {revision.from_step}, below that of the one before")
        revisions.append(revision)
    return tuple(revisions)


def facts_workers(store: Store) -> tuple[str, ...]:
    """The workers that have told what they are made of, sorted. Errors: `OSError` of the store."""
    names = (key.removeprefix(MODEL_FACTS_PREFIX).removesuffix(".json") for key in store.list(MODEL_FACTS_PREFIX))
    return tuple(sorted(name for name in names if name and "/" not in name))


def read_facts(store: Store, worker: str) -> Revisions:
    """What the worker has told so far, () if it has not.

    Errors: `RecordError` for a file that cannot be read; `OSError` of the store.
    """
    key = model_facts_key(worker)
    try:
        return decode_facts(store.get(key, length=MOST_JSON_BYTES + 1), key=key)
    except KeyNotFoundError:
        return ()


_T = TypeVar("_T")


def _section(
    revision: UntrustedJson, name: str, read: Callable[[UntrustedJson], _T], before: tuple[_T, ...]
) -> tuple[_T, ...]:
    return tuple(map(read, revision.objects(name))) if revision.has(name) else before


def _document(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, without those that are as by default."""
    return {f.name: part for f in fields(value) if (part := getattr(value, f.name)) != _default(f)}


def _default(of: Field[Any]) -> object:
    return of.default_factory() if of.default_factory is not MISSING else of.default


def _documents(values: Sequence[Any]) -> list[dict[str, Any]]:
    return [_document(value) for value in values]


def _program_document(program: ProgramFacts) -> dict[str, Any]:
    document = _document(program)
    if program.clipping:
        document["clipping"] = _documents(program.clipping)
    return document


_ENCODERS: Mapping[str, Callable[[Any], object]] = {
    "modules": _documents,
    "parameters": _documents,
    "optimizers": _documents,
    "losses": _documents,
    "program": _program_document,
}


def _text(found: UntrustedJson, name: str) -> str:
    return found.text(name) if found.has(name) else ""


def _count(found: UntrustedJson, name: str) -> int | None:
    return found.count(name) if found.has(name) else None


def _module(found: UntrustedJson) -> ModuleFacts:
    return ModuleFacts(
        name=found.text("name"),
        type_name=found.text("type_name"),
        role=_text(found, "role"),
        activation=_text(found, "activation"),
        is_training=found.boolean("is_training", True),
        in_features=_count(found, "in_features"),
        out_features=_count(found, "out_features"),
        line=_text(found, "line"),
        probability=found.number("probability") if found.has("probability") else None,
        sees_ahead=found.boolean("sees_ahead", False),
    )


def _parameter(found: UntrustedJson) -> ParameterFacts:
    return ParameterFacts(
        name=found.text("name"),
        module=_text(found, "module"),
        shape=found.counts("shape"),
        dtype=found.text("dtype"),
        requires_grad=found.boolean("requires_grad", True),
        optimizer=_text(found, "optimizer"),
        group=_count(found, "group") or 0,
        tied_to=_text(found, "tied_to"),
        is_sharded=found.boolean("is_sharded", False),
        has_gradient=found.boolean("has_gradient", False),
        has_equal_rows=found.boolean("has_equal_rows", False),
        looks_untrained=found.boolean("looks_untrained", False),
    )


def _optimizer(found: UntrustedJson) -> OptimizerFacts:
    return OptimizerFacts(
        name=found.text("name"),
        type_name=found.text("type_name"),
        line=_text(found, "line"),
        groups=tuple({key: group.number(key) for key in group.names()} for group in found.objects("groups")),
        parameter_count=_count(found, "parameter_count") or 0,
    )


def _loss(found: UntrustedJson) -> LossFacts:
    return LossFacts(
        name=found.text("name"),
        type_name=_text(found, "type_name"),
        reduction=_text(found, "reduction"),
        scale=found.number("scale") if found.has("scale") else 1.0,
        input_from=_text(found, "input_from"),
        input_shape=found.counts("input_shape"),
        class_count=_count(found, "class_count"),
        is_weighted=found.boolean("is_weighted", False),
        is_broadcast=found.boolean("is_broadcast", False),
        margin=found.number("margin") if found.has("margin") else None,
        lowers_likelihood=found.boolean("lowers_likelihood", False),
        line=_text(found, "line"),
        backward_line=_text(found, "backward_line"),
    )


def _program(found: UntrustedJson) -> ProgramFacts:
    return ProgramFacts(
        script=_text(found, "script"),
        framework=_text(found, "framework"),
        framework_version=_text(found, "framework_version"),
        autocast_dtype=_text(found, "autocast_dtype"),
        has_grad_scaler=found.boolean("has_grad_scaler", False),
        world_size=_count(found, "world_size") or 1,
        is_compiled=found.boolean("is_compiled", False),
        data_parallel=_text(found, "data_parallel"),
        clipping=tuple(
            ClippingFacts(clip.text("kind"), clip.number("limit"), _text(clip, "line"))
            for clip in found.objects("clipping")
        ),
        training_mode_evaluations=_count(found, "training_mode_evaluations") or 0,
        evaluation_line=_text(found, "evaluation_line"),
    )
