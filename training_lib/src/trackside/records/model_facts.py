"""What a training program is made of: a JSON file of each worker, `model-facts/<worker>.json`.

Modules, parameters, optimizers, losses and settings, as they were found when the first training step ended, and again
whenever they had changed: a list of revisions, oldest first. A section that is as in the revision before is left out
of the file. Format: docs/formats/model-facts.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.run_layout import MODEL_FACTS_PREFIX, model_facts_key
from trackside.records.untrusted_json import MOST_JSON_BYTES, UntrustedJson
from trackside.storage.store import Store

VERSION = 1
MOST_REVISIONS = 32
HEAD_BYTES = 64
MOST_BYTES = 8 << 20  # of a file; no further revision is added beyond it

# What a module is for, as far as its type tells; "" for anything else.
ROLES = (
    "activation", "normalization", "dropout", "embedding", "convolution", "linear", "recurrent", "attention", "pooling",
    "loss", "container",
)  # fmt: skip
# Which activation: those of a family fail in the same way. "relu" passes nothing below zero and no gradient there,
# "leaky_relu" a little of both.
ACTIVATIONS = ("relu", "leaky_relu", "tanh", "sigmoid", "softmax", "log_softmax", "gelu", "silu", "other")


@dataclass(frozen=True)
class ModuleFacts:
    """One module of a trained model.

    name          as its tensors are named: `<name>_output_0`; the root goes by its class
    type_name     its class
    role          one of `ROLES`, or ""
    activation    one of `ACTIVATIONS` where the role is "activation", else ""
    is_training   its train/eval flag as an optimizer stepped
    in_features, out_features   as it says itself (channels of a convolution, rows and width of an embedding); or None
    line          "train.py:41", where it was created; "" where that is not known
    probability   of a dropout, else None
    sees_ahead    its answer at a place of a sequence depends on later places: a recurrent layer that reads both ways,
                  attention over its own input without a mask
    """

    name: str
    type_name: str
    role: str = ""
    activation: str = ""
    is_training: bool = True
    in_features: int | None = None
    out_features: int | None = None
    line: str = ""
    probability: float | None = None
    sees_ahead: bool = False


@dataclass(frozen=True)
class ParameterFacts:
    """One parameter of a trained model.

    name           as it is saved; its gradient is `gradient/<name>`
    module         the name of the module that holds it, as in `ModuleFacts.name`; "" if none does
    shape, dtype   of the whole parameter, where it is sharded too; "float32"
    requires_grad  as the optimizer that holds it stepped
    optimizer      the optimizer's word, as in `hyperparameters/<optimizer>/group_0/lr`; "" if none holds it
    group          its number there; 0 where there is no optimizer
    tied_to        the parameter that this one is another name of; such a name is never saved by itself
    is_sharded     the worker holds a part of it only
    has_gradient   it had one when it was looked at, at the end of a step
    has_equal_rows   as the first step ended, its rows were all the same: its units started alike
    looks_untrained  it is frozen or in no optimizer, and its values are as the framework's layers initialise them
    """

    name: str
    module: str
    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool = True
    optimizer: str = ""
    group: int = 0
    tied_to: str = ""
    is_sharded: bool = False
    has_gradient: bool = False
    has_equal_rows: bool = False
    looks_untrained: bool = False

    @property
    def gradient(self) -> str:
        """The name of its gradient."""
        return f"gradient/{self.name}"

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class OptimizerFacts:
    """One optimizer: its word as in `hyperparameters/<name>/group_0/lr`, its class, and where it was created.

    `groups`: the numbers and flags of each parameter group as they first were (true is 1.0; `betas` are `betas_0` and
    `betas_1`); `lr` is that of the first step. `parameter_count`: tensors.
    """

    name: str
    type_name: str
    line: str = ""
    groups: tuple[Mapping[str, float], ...] = ()
    parameter_count: int = 0

    def hyperparameter(self, key: str, *, group: int = 0) -> float | None:
        """A number of a group; None if there is none."""
        return self.groups[group].get(key) if group < len(self.groups) else None


@dataclass(frozen=True)
class LossFacts:
    """A scalar that `backward` was called on.

    name           of its tensor: `CrossEntropyLoss_output_0`
    type_name      torch's own class of loss that computes the same, "" for one by hand or a sum of several
    reduction      "mean", "sum", "none" (reduced by hand), or "" where that is not known
    scale          what it was multiplied by before `backward` (accumulation, AMP); negative: it is maximised
    input_from     what its predictions came out of: one of `ACTIVATIONS`, "linear", "other"; "" if not known
    input_shape    of its predictions; () if not known
    class_count    how many classes it tells apart; None for what is no classification
    line           where it was computed; "" if not known
    backward_line  where `backward` was called on it; "" if not known
    is_weighted    it was given weights of classes or samples (`weight`, `pos_weight`)
    is_broadcast   n predictions met n targets as n times n: a column less a row; or k scores the number of a class
    margin         by which one distance is to be smaller than another (a triplet loss that is a mean); None for others
    lowers_likelihood   by hand, and chosen log-probabilities enter it with a plus, alone or times what is not negative
    """

    name: str
    type_name: str = ""
    reduction: str = ""
    scale: float = 1.0
    input_from: str = ""
    input_shape: tuple[int, ...] = ()
    class_count: int | None = None
    line: str = ""
    backward_line: str = ""
    is_weighted: bool = False
    is_broadcast: bool = False
    margin: float | None = None
    lowers_likelihood: bool = False

    @property
    def is_built_in(self) -> bool:
        """True for a loss function of the framework."""
        return bool(self.type_name)

    @property
    def has_softmax_twice(self) -> bool:
        """True if probabilities went where scores belong: the loss takes a softmax itself."""
        return self.type_name == "CrossEntropyLoss" and self.input_from in {"softmax", "log_softmax", "sigmoid"}


@dataclass(frozen=True)
class ClippingFacts:
    """Gradients are clipped: `kind` "norm" or "value", at most `limit`; `line` is the first call's."""

    kind: str
    limit: float
    line: str = ""


@dataclass(frozen=True)
class ProgramFacts:
    """What holds for the whole program.

    script            the script's path as it was started; "" in a notebook
    framework, framework_version   "pytorch", "2.13.0"
    autocast_dtype    "float16", "bfloat16" where mixed precision computes in it; "" where it does not
    has_grad_scaler   a GradScaler steps the optimizer
    world_size        ranks
    is_compiled       torch.compile is in use
    data_parallel     "DDP", "FSDP1", "FSDP2", "DataParallel" or ""
    training_mode_evaluations   how often a loss was taken of a model in training mode with gradients off, as an
                      evaluation does; counted to 3, and 0 where it happens at every step
    evaluation_line   "train.py:88", where the model was called for the last of them
    """

    script: str = ""
    framework: str = ""
    framework_version: str = ""
    autocast_dtype: str = ""
    has_grad_scaler: bool = False
    world_size: int = 1
    is_compiled: bool = False
    data_parallel: str = ""
    clipping: tuple[ClippingFacts, ...] = ()
    training_mode_evaluations: int = 0
    evaluation_line: str = ""


@dataclass(frozen=True)
class ModelFacts:
    """What a training program is made of, from `from_step` on until the next revision."""

    from_step: int = 0
    modules: tuple[ModuleFacts, ...] = ()
    parameters: tuple[ParameterFacts, ...] = ()
    optimizers: tuple[OptimizerFacts, ...] = ()
    losses: tuple[LossFacts, ...] = ()
    program: ProgramFacts = field(default_factory=ProgramFacts)

    def module(self, name: str) -> ModuleFacts | None:
        """The module of that name."""
        return self._modules.get(name)

    def parameter(self, name: str) -> ParameterFacts | None:
        """The parameter of that name, or the one whose gradient has that name."""
        return self._parameters.get(name.removeprefix("gradient/"))

    def optimizer(self, name: str) -> OptimizerFacts | None:
        """The optimizer of that word."""
        return next((optimizer for optimizer in self.optimizers if optimizer.name == name), None)

    def loss(self, name: str) -> LossFacts | None:
        """The loss whose tensor has that name; of the k-th in a step that was not met by itself, the first's."""
        found = {loss.name: loss for loss in self.losses}
        return found.get(name) or found.get(f"{name.rpartition('_')[0]}_0")

    def module_of(self, tensor: str) -> ModuleFacts | None:
        """The module that a parameter, gradient, input or output belongs to."""
        parameter = self.parameter(tensor)
        if parameter is not None:
            return self.module(parameter.module)
        name = tensor.removeprefix("activation_gradient/")
        for side in ("_output_", "_input_"):
            before, found, number = name.rpartition(side)
            if found and number.isdigit():
                return self.module(before)
        return None

    @cached_property
    def _modules(self) -> dict[str, ModuleFacts]:
        return {module.name: module for module in self.modules}

    @cached_property
    def _parameters(self) -> dict[str, ParameterFacts]:
        return {parameter.name: parameter for parameter in self.parameters}


Revisions = tuple[ModelFacts, ...]


def at_step(revisions: Sequence[ModelFacts], step: int) -> ModelFacts | None:
    """The newest revision from `step` or before; before the first one, the first: a model exists before its facts."""
    earlier = [facts for facts in revisions if facts.from_step <= step]
    return earlier[-1] if earlier else next(iter(revisions), None)


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
