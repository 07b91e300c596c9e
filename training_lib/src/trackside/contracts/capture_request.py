"""What to save: collections, on which steps, and what of each tensor.

The names are smdebug's: a collection has a schedule for each mode (`save_interval`, `start_step`, `end_step`,
`save_steps`), may name further tensors or give regexes, and may ask for reductions beside or instead of the tensors.
Steps count within a mode from 0; those of TRAIN are optimizer steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from trackside.contracts.errors import did_you_mean
from trackside.contracts.fields import Fields, parse_json, to_json

VERSION = 1
DEFAULT_SAVE_INTERVAL = 500  # smdebug's own default
NEVER = 10**9  # an interval for "step 0 and then no more": longer than any training

MODES = ("TRAIN", "EVAL", "PREDICT", "GLOBAL")

# What every training has, and what is saved for a custom rule that does not say what it needs.
KNOWN_COLLECTIONS = ("losses", "weights", "biases", "gradients")
# Collections whose members an adapter knows, or a built-in regex.
BUILT_IN_COLLECTIONS = (
    *KNOWN_COLLECTIONS,
    "buffers",
    "optimizer_variables",
    "hyperparameters",
    "inputs",
    "outputs",
    "labels",
    "predictions",
    "metrics",
    "raw_gradients",
    "activation_gradients",
    "scalars",
    "model_inputs",
    "activations",
    "activation_inputs",
    "relu_outputs",
    "saturating_inputs",
)
ALL, DEFAULT = "all", "default"  # every tensor; what `include_regex` of the hook and the user's own tensors belong to

_REDUCTIONS = ("min", "max", "mean", "std", "variance", "sum", "prod")
_NORMS = ("l1_norm", "l2_norm")
# smdebug's tokens in its own order.
REDUCTIONS = (*_REDUCTIONS, *_NORMS, *(f"abs_{name}" for name in (*_REDUCTIONS, *_NORMS)))


@dataclass(frozen=True)
class Schedule:
    """On which steps a collection is saved: smdebug's rule, so `save_steps` adds to the interval.

    So does `save_seconds`: the first step that begins so long after the last saved one is saved too, within
    [start_step, end_step). For seconds alone, set `save_interval` to `NEVER`, or use `by_seconds`.
    """

    save_interval: int = DEFAULT_SAVE_INTERVAL
    start_step: int = 0
    end_step: int | None = None
    save_steps: tuple[int, ...] = ()
    save_seconds: float | None = None

    @classmethod
    def by_seconds(cls, save_seconds: float, *, start_step: int = 0, end_step: int | None = None) -> Schedule:
        """A schedule that follows the clock and no interval of steps."""
        return cls(NEVER, start_step, end_step, (), save_seconds)

    def is_due(self, step: int) -> bool:
        """True if `step` is in `save_steps`, or on the interval within [start_step, end_step), by no clock."""
        return step in self.save_steps or (self.is_within(step) and step % self.save_interval == 0)

    def is_within(self, step: int) -> bool:
        """True if `step` lies in [start_step, end_step)."""
        return self.start_step <= step and (self.end_step is None or step < self.end_step)


@dataclass(frozen=True)
class CollectionRequest:
    """One collection to save.

    `mode_schedules` replaces `schedule` for the modes it names. `reductions` are tokens of `REDUCTIONS`.
    `save_raw_tensor` None means: the tensor itself, unless reductions are asked for. `save_histogram` counts only where
    files for TensorBoard are written.
    """

    name: str
    schedule: Schedule = Schedule()
    include_regex: tuple[str, ...] = ()
    mode_schedules: tuple[tuple[str, Schedule], ...] = ()
    tensor_names: tuple[str, ...] = ()
    reductions: tuple[str, ...] = ()
    save_raw_tensor: bool | None = None
    save_shape: bool = False
    save_histogram: bool = True

    def schedule_for(self, mode: str) -> Schedule:
        """The schedule that holds in that mode."""
        return dict(self.mode_schedules).get(mode, self.schedule)

    @property
    def saves_raw_tensor(self) -> bool:
        """True if tensors are saved whole."""
        return not self.reductions if self.save_raw_tensor is None else self.save_raw_tensor


@dataclass(frozen=True)
class StatisticsRequest:
    """The always-on statistics.

    `budget` is the share of the step time that they may cost. The dear tier is measured on each of the first
    `dense_start_steps`, on the `dense_after_steps` that follow anything unusual, and otherwise at most every
    `dear_interval` steps, less often where the budget demands it.
    """

    enabled: bool = True
    budget: float = 0.02
    dear_interval: int = 10
    dense_start_steps: int = 20
    dense_after_steps: int = 10


@dataclass(frozen=True)
class CaptureRequest:
    """Everything the hook is asked to save.

    include_workers  "all": every rank writes its tensors; "one": rank 0 alone
    compiled         what a step that needs inputs or outputs of modules may do to a compiled model: "eager_step" runs
                     that step without the compiler, "params_only" never does and goes without them
    tensorboard      where files for TensorBoard go, a folder or s3://; "" for none
    """

    collections: tuple[CollectionRequest, ...] = (CollectionRequest("losses"),)
    statistics: StatisticsRequest = StatisticsRequest()
    include_workers: str = "all"
    compiled: str = "eager_step"
    tensorboard: str = ""

    def collection(self, name: str) -> CollectionRequest | None:
        """The request for the collection of that name, if there is one."""
        return next((c for c in self.collections if c.name == name), None)

    def saves_tensors(self, rank: int) -> bool:
        """True if the process of that rank writes tensors."""
        return rank == 0 or self.include_workers == "all"

    def merged_with(self, other: CaptureRequest) -> CaptureRequest:
        """Both requests at once.

        Where both name a collection, the finer schedule, all regexes, names and reductions hold. Of any other setting
        holds the one that is not the default; if neither is, this request's.
        """
        merged = {c.name: c for c in self.collections}
        for theirs in other.collections:
            ours = merged.get(theirs.name)
            merged[theirs.name] = _both(ours, theirs) if ours else theirs
        default = CaptureRequest()
        return CaptureRequest(
            tuple(merged.values()),
            statistics=self.statistics if self.statistics != default.statistics else other.statistics,
            include_workers=_chosen(self.include_workers, other.include_workers, default.include_workers),
            compiled=_chosen(self.compiled, other.compiled, default.compiled),
            tensorboard=_chosen(self.tensorboard, other.tensorboard, default.tensorboard),
        )

    def to_json(self) -> str:
        """One line of JSON, as it travels in the environment of a training job; what is default is left out."""
        default = CaptureRequest()
        document: dict[str, object] = {
            "version": VERSION,
            "collections": collections_document(self.collections),
        }
        statistics = _changed(self.statistics, default.statistics)
        if statistics:
            document["statistics"] = statistics
        for name in ("include_workers", "compiled", "tensorboard"):
            if getattr(self, name) != getattr(default, name):
                document[name] = getattr(self, name)
        return to_json(document)

    @classmethod
    def from_json(cls, text: str | bytes) -> CaptureRequest:
        """Reads `to_json`'s text. Errors: `ConfigurationError` with every problem at once."""
        subject = "The capture request"
        fields = Fields(parse_json(text, subject=subject), where="")
        fields.integer("version", VERSION)
        request = cls(
            fields.items("collections", read_collection),
            statistics=_read_statistics(_inner(fields, "statistics")),
            include_workers=_word(fields, "include_workers", ("all", "one")),
            compiled=_word(fields, "compiled", ("eager_step", "params_only")),
            tensorboard=fields.text("tensorboard", ""),
        )
        fields.reject_unknown()
        fields.finish(subject=subject)
        return request


def collections_document(collections: Iterable[CollectionRequest]) -> list[dict[str, object]]:
    """Plain JSON values, as `read_collection` reads them."""
    return [_collection_document(collection) for collection in collections]


def read_collection(fields: Fields) -> CollectionRequest:
    """One collection of a request, with its problems noted in `fields`."""
    collection = CollectionRequest(
        name=fields.text("name"),
        schedule=_read_schedule(fields),
        include_regex=fields.texts("include_regex", ()),
        mode_schedules=_read_mode_schedules(_inner(fields, "modes")),
        tensor_names=fields.texts("tensor_names", ()),
        reductions=_read_reductions(fields),
        save_raw_tensor=fields.boolean("save_raw_tensor", False) if "save_raw_tensor" in fields else None,
        save_shape=fields.boolean("save_shape", False),
        save_histogram=fields.boolean("save_histogram", True),
    )
    for pattern in collection.include_regex:
        try:
            re.compile(pattern)
        except re.error as error:
            fields.problem("include_regex", f"{pattern!r} is not a regular expression: {error}.")
    is_own = bool(collection.name) and collection.name not in (*BUILT_IN_COLLECTIONS, ALL, DEFAULT)
    if is_own and not (collection.include_regex or collection.tensor_names):
        fields.problem(
            "include_regex",
            f"is missing: {collection.name!r} is a collection of your own, so it must say which tensors belong to it.",
            f"The built-in collections are {', '.join(BUILT_IN_COLLECTIONS)}.",
        )
    fields.reject_unknown()
    return collection


def capture_environment(run_uri: str, request: CaptureRequest) -> Mapping[str, str]:
    """The environment that switches capture on in a training job: add it to `Environment` of CreateTrainingJob."""
    return {"TRACKSIDE_RUN": run_uri, "TRACKSIDE_CAPTURE_REQUEST": request.to_json()}


def _read_schedule(fields: Fields) -> Schedule:
    save_seconds = fields.number("save_seconds") if "save_seconds" in fields else None
    if save_seconds is not None and not 0 < save_seconds < float("inf"):
        fields.problem("save_seconds", f"must be a number of seconds above 0, but is {save_seconds}.")
    return Schedule(
        save_interval=fields.integer(
            "save_interval", DEFAULT_SAVE_INTERVAL if save_seconds is None else NEVER, minimum=1
        ),
        start_step=fields.integer("start_step", 0, minimum=0),
        end_step=fields.optional_integer("end_step", minimum=0),
        save_steps=fields.integers("save_steps", (), minimum=0),
        save_seconds=save_seconds,
    )


def _read_mode_schedules(fields: Fields) -> tuple[tuple[str, Schedule], ...]:
    found = []
    for mode in MODES:
        if mode in fields:
            inner = _inner(fields, mode)
            found.append((mode, _read_schedule(inner)))
            inner.reject_unknown()
    fields.ignore(*MODES)
    fields.reject_unknown()
    return tuple(found)


def _read_reductions(fields: Fields) -> tuple[str, ...]:
    names = fields.texts("reductions", ())
    for name in names:
        if name not in REDUCTIONS:
            fields.problem("reductions", f"{name!r} is not known.", did_you_mean(name, REDUCTIONS))
    return tuple(dict.fromkeys(names))


def _read_statistics(fields: Fields) -> StatisticsRequest:
    default = StatisticsRequest()
    budget = fields.number("budget", default.budget)
    if not 0 < budget <= 1:
        fields.problem("budget", f"must be a share of the step time above 0 and up to 1, but is {budget}.")
    request = StatisticsRequest(
        enabled=fields.boolean("enabled", default.enabled),
        budget=budget,
        dear_interval=fields.integer("dear_interval", default.dear_interval, minimum=1),
        dense_start_steps=fields.integer("dense_start_steps", default.dense_start_steps, minimum=0),
        dense_after_steps=fields.integer("dense_after_steps", default.dense_after_steps, minimum=0),
    )
    fields.reject_unknown()
    return request


def _inner(fields: Fields, name: str) -> Fields:
    """The object of that name, an empty one if there is none; its problems are noted with those of `fields`."""
    where = ".".join(part for part in (fields.where, name) if part)
    return Fields(fields.mapping(name, {}), where=where, problems=fields.problems)


def _word(fields: Fields, name: str, words: tuple[str, ...]) -> str:
    word = fields.text(name, words[0])
    if word not in words:
        fields.problem(name, f"must be one of {', '.join(words)}, but is {word!r}.")
    return word


def _collection_document(collection: CollectionRequest) -> dict[str, object]:
    document: dict[str, object] = {"name": collection.name, **_schedule_document(collection.schedule)}
    for name in ("include_regex", "tensor_names", "reductions"):
        if getattr(collection, name):
            document[name] = list(getattr(collection, name))
    if collection.mode_schedules:
        document["modes"] = {mode: _schedule_document(schedule) for mode, schedule in collection.mode_schedules}
    if collection.save_raw_tensor is not None:
        document["save_raw_tensor"] = collection.save_raw_tensor
    if collection.save_shape:
        document["save_shape"] = True
    if not collection.save_histogram:
        document["save_histogram"] = False
    return document


def _schedule_document(schedule: Schedule) -> dict[str, object]:
    return {
        "save_interval": schedule.save_interval,
        **({"start_step": schedule.start_step} if schedule.start_step else {}),
        **({} if schedule.end_step is None else {"end_step": schedule.end_step}),
        **({"save_steps": list(schedule.save_steps)} if schedule.save_steps else {}),
        **({} if schedule.save_seconds is None else {"save_seconds": schedule.save_seconds}),
    }


def _changed(statistics: StatisticsRequest, default: StatisticsRequest) -> dict[str, object]:
    return {name: value for name, value in vars(statistics).items() if value != getattr(default, name)}


def _chosen(ours: str, theirs: str, default: str) -> str:
    return ours if ours != default else theirs


def _both(ours: CollectionRequest, theirs: CollectionRequest) -> CollectionRequest:
    modes = [m for m in MODES if m in dict(ours.mode_schedules) or m in dict(theirs.mode_schedules)]
    reductions = _united(ours.reductions, theirs.reductions)
    is_raw = ours.saves_raw_tensor or theirs.saves_raw_tensor
    return replace(
        ours,
        schedule=_finer(ours.schedule, theirs.schedule),
        include_regex=_united(ours.include_regex, theirs.include_regex),
        mode_schedules=tuple((m, _finer(ours.schedule_for(m), theirs.schedule_for(m))) for m in modes),
        tensor_names=_united(ours.tensor_names, theirs.tensor_names),
        reductions=reductions,
        save_raw_tensor=None if is_raw == (not reductions) else is_raw,
        save_shape=ours.save_shape or theirs.save_shape,
        save_histogram=ours.save_histogram and theirs.save_histogram,
    )


def _finer(a: Schedule, b: Schedule) -> Schedule:
    seconds = [s for s in (a.save_seconds, b.save_seconds) if s is not None]
    return Schedule(
        save_interval=min(a.save_interval, b.save_interval),
        start_step=min(a.start_step, b.start_step),
        end_step=None if a.end_step is None or b.end_step is None else max(a.end_step, b.end_step),
        save_steps=tuple(sorted({*a.save_steps, *b.save_steps})),
        save_seconds=min(seconds, default=None),
    )


def _united(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*ours, *theirs)))
