"""The capture request: collections to save, their steps, and the form in which each tensor is saved.

The names are smdebug's: a collection has a schedule for each mode (`save_interval`, `start_step`, `end_step`,
`save_steps`), may name further tensors or give regexes, and may ask for reductions beside or instead of the tensors.
Steps count within a mode from 0; those of TRAIN are optimizer steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from trackside.contracts.errors import did_you_mean
from trackside.contracts.fields import Fields, parse_json, to_json
from trackside.contracts.name_pattern import name_pattern, problem_of
from trackside.contracts.run.profiling_request import ProfilingRequest
from trackside.contracts.stored_fields import (
    BOOLEAN,
    REQUIRED,
    TEXT,
    TEXTS,
    Kind,
    at_least,
    closed_record,
    document_of,
    flat_record,
    if_given,
    nullable,
    object_schema,
    record_of,
    stored,
    word,
)

VERSION = 1
DEFAULT_SAVE_INTERVAL = 500  # smdebug's own default
NEVER = 10**9  # an interval for "step 0 and then no more": longer than any training

MODES = ("TRAIN", "EVAL", "PREDICT", "GLOBAL")

# Collections of every training; saved for a custom rule without collections of its own.
KNOWN_COLLECTIONS = ("losses", "weights", "biases", "gradients")
# Collections with members that an adapter or a built-in regex determines.
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
    "feature_importance",
    "trees",
    "average_shap",
    "full_shap",
    "raw_gradients",
    "activation_gradients",
    "scalars",
    "model_inputs",
    "rows",
    "activations",
    "activation_inputs",
    "relu_outputs",
    "saturating_inputs",
)
ALL, DEFAULT = "all", "default"  # every tensor; tensors of the hook's `include_regex`, and the user's own

_REDUCTIONS = ("min", "max", "mean", "std", "variance", "sum", "prod")
_NORMS = ("l1_norm", "l2_norm")
# smdebug's tokens in its own order.
REDUCTIONS = (*_REDUCTIONS, *_NORMS, *(f"abs_{name}" for name in (*_REDUCTIONS, *_NORMS)))


def _read_interval(fields: Fields, name: str, absent: int) -> int:
    return fields.integer(name, NEVER if "save_seconds" in fields else absent, minimum=1)


def _read_seconds(fields: Fields, name: str, absent: None) -> float:
    seconds = fields.number(name)
    if not 0 < seconds < float("inf"):
        fields.problem(name, f"must be a number of seconds above 0, but is {seconds}.")
    return seconds


def _read_reductions(fields: Fields, name: str, absent: Iterable[str]) -> tuple[str, ...]:
    reductions = fields.texts(name, absent)
    for reduction in reductions:
        if reduction not in REDUCTIONS:
            fields.problem(name, f"{reduction!r} is not known.", did_you_mean(reduction, REDUCTIONS))
    return tuple(dict.fromkeys(reductions))


def _read_budget(fields: Fields, name: str, absent: float) -> float:
    budget = fields.number(name, absent)
    if not 0 < budget <= 1:
        fields.problem(name, f"must be a share of the step time above 0 and up to 1, but is {budget}.")
    return budget


_STEP = at_least(0)
_STEPS = Kind(
    {"type": "array", "items": _STEP.schema},
    lambda fields, name, absent: fields.integers(name, absent, minimum=0),
    list,
)
_INTERVAL = Kind({"type": "integer", "minimum": 1}, _read_interval)
_SECONDS = if_given(Kind({"type": "number", "exclusiveMinimum": 0}, _read_seconds))
_REDUCTION_NAMES = Kind({"type": "array", "items": {"enum": [*REDUCTIONS]}}, _read_reductions, list)
_BUDGET = Kind({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, _read_budget)


@dataclass(frozen=True)
class Schedule:
    """The steps on which a collection is saved.

    As in smdebug, `save_steps` adds to the interval. So does `save_seconds`.

    save_interval  steps between saves; `NEVER` for a schedule by seconds alone (see `by_seconds`)
    start_step     first step of the interval
    end_step       first step after the interval; None: no end
    save_steps     further steps to save, inside or outside [start_step, end_step)
    save_seconds   least time between saves in seconds: the first step in [start_step, end_step) that begins so long
                   after the last saved one is saved too
    """

    save_interval: int = field(default=DEFAULT_SAVE_INTERVAL, metadata=stored(_INTERVAL))
    start_step: int = field(default=0, metadata=stored(_STEP, optional=True))
    end_step: int | None = field(default=None, metadata=stored(nullable(_STEP), optional=True))
    save_steps: tuple[int, ...] = field(default=(), metadata=stored(_STEPS, optional=True))
    save_seconds: float | None = field(default=None, metadata=stored(_SECONDS, optional=True))

    @classmethod
    def by_seconds(cls, save_seconds: float, *, start_step: int = 0, end_step: int | None = None) -> Schedule:
        """Return a schedule that follows the clock only.

        Args:
            save_seconds: Least time between two saves, in seconds.
            start_step: First step that may be saved.
            end_step: First step that is no longer saved; None: no end.
        """
        return cls(NEVER, start_step, end_step, (), save_seconds)

    def is_due(self, step: int) -> bool:
        """Return True if `step` is in `save_steps` or on the interval. The clock is not considered.

        Args:
            step: Step within the mode, from 0.
        """
        return step in self.save_steps or (self.is_within(step) and step % self.save_interval == 0)

    def is_within(self, step: int) -> bool:
        """Return True if `step` lies in [start_step, end_step).

        Args:
            step: Step within the mode, from 0.
        """
        return self.start_step <= step and (self.end_step is None or step < self.end_step)


def _read_mode_schedules(fields: Fields, name: str, absent: object) -> tuple[tuple[str, Schedule], ...]:
    modes = fields.inner(name)
    found = tuple((mode, _SCHEDULE.read(modes, mode, REQUIRED)) for mode in MODES if mode in modes)
    modes.ignore(*MODES)
    modes.reject_unknown()
    return found


_SCHEDULE = closed_record(Schedule)
_MODE_SCHEDULES = Kind(
    {"type": "object", "properties": dict.fromkeys(MODES, _SCHEDULE.schema)},
    _read_mode_schedules,
    lambda schedules: {mode: document_of(schedule) for mode, schedule in schedules},
)


@dataclass(frozen=True)
class CollectionRequest:
    """One collection to save.

    name              one of `BUILT_IN_COLLECTIONS`, or a collection of the user's own
    schedule          the steps, in modes without a schedule of their own
    include_regex     regular expressions for names of tensors
    mode_schedules    (mode, schedule), in place of `schedule`
    tensor_names      further tensors by name
    reductions        tokens of `REDUCTIONS`
    save_raw_tensor   True: save the tensor itself; None: only if no reductions are requested
    save_shape        True: save the shape
    save_histogram    True: write histograms, where files for TensorBoard are written
    """

    name: str = field(metadata=stored(TEXT))
    schedule: Schedule = field(default=Schedule(), metadata=stored(flat_record(Schedule)))
    include_regex: tuple[str, ...] = field(default=(), metadata=stored(TEXTS, optional=True))
    mode_schedules: tuple[tuple[str, Schedule], ...] = field(
        default=(), metadata=stored(_MODE_SCHEDULES, name="modes", optional=True)
    )
    tensor_names: tuple[str, ...] = field(default=(), metadata=stored(TEXTS, optional=True))
    reductions: tuple[str, ...] = field(default=(), metadata=stored(_REDUCTION_NAMES, optional=True))
    save_raw_tensor: bool | None = field(default=None, metadata=stored(if_given(BOOLEAN), optional=True))
    save_shape: bool = field(default=False, metadata=stored(BOOLEAN, optional=True))
    save_histogram: bool = field(default=True, metadata=stored(BOOLEAN, optional=True))

    def schedule_for(self, mode: str) -> Schedule:
        """Return the schedule of a mode.

        Args:
            mode: One of `MODES`.
        """
        return dict(self.mode_schedules).get(mode, self.schedule)

    @property
    def saves_raw_tensor(self) -> bool:
        """True if tensors are saved whole."""
        return not self.reductions if self.save_raw_tensor is None else self.save_raw_tensor


def collections_document(collections: Iterable[CollectionRequest]) -> list[dict[str, object]]:
    """Return plain JSON values, as `read_collection` reads them.

    Args:
        collections: Collections of a capture request or of a rule.
    """
    return [document_of(collection) for collection in collections]


def read_collection(fields: Fields) -> CollectionRequest:
    """Return one collection of a request.

    Args:
        fields: Fields of its JSON object; mistakes are added to their problems.
    """
    collection = record_of(CollectionRequest, fields)
    for pattern in collection.include_regex:
        try:
            name_pattern(pattern)
        except re.error as error:
            fields.problem("include_regex", f"{pattern!r} {problem_of(error)}.")
    is_own = bool(collection.name) and collection.name not in (*BUILT_IN_COLLECTIONS, ALL, DEFAULT)
    if is_own and not (collection.include_regex or collection.tensor_names):
        fields.problem(
            "include_regex",
            f"is missing: {collection.name!r} is a collection of your own, so it must say which tensors belong to it.",
            f"The built-in collections are {', '.join(BUILT_IN_COLLECTIONS)}.",
        )
    fields.reject_unknown()
    return collection


_COLLECTIONS = Kind(
    {"type": "array", "items": object_schema(CollectionRequest)},
    lambda fields, name, absent: fields.items(name, read_collection),
    collections_document,
)


@dataclass(frozen=True)
class StatisticsRequest:
    """The settings of the always-on statistics.

    enabled             False: no statistics
    budget              largest share of the step time that they may cost, above 0 and up to 1
    dear_interval       steps between measurements of the dear tier; more where the budget demands it
    dense_start_steps   number of first steps, on each of which the dear tier is measured
    dense_after_steps   number of steps after anything unusual, on each of which the dear tier is measured
    """

    enabled: bool = field(default=True, metadata=stored(BOOLEAN, optional=True))
    budget: float = field(default=0.02, metadata=stored(_BUDGET, optional=True))
    dear_interval: int = field(default=10, metadata=stored(at_least(1), optional=True))
    dense_start_steps: int = field(default=20, metadata=stored(_STEP, optional=True))
    dense_after_steps: int = field(default=10, metadata=stored(_STEP, optional=True))


@dataclass(frozen=True)
class CaptureRequest:
    """Everything that capture saves in one run.

    collections      the collections to save
    statistics       settings of the always-on statistics
    include_workers  "all": every rank writes its tensors; "one": rank 0 alone
    compiled         the treatment of a compiled model at a step that needs inputs or outputs of modules: "eager_step"
                     runs that step without the compiler, "params_only" goes without them
    tensorboard      folder or s3:// prefix for TensorBoard files; "" for none
    machine_interval_ms  milliseconds between two samples of the machine, which the training process has taken; 0: none
    memory_mb        MiB of memory that the copies of one step may take; what is beyond lies in a file on the disk until
                     it is stored, and training waits for the disk; 0: no limit
    profiling        the steps to profile in detail
    """

    collections: tuple[CollectionRequest, ...] = field(
        default=(CollectionRequest("losses"),), metadata=stored(_COLLECTIONS, absent=REQUIRED)
    )
    statistics: StatisticsRequest = field(
        default=StatisticsRequest(), metadata=stored(closed_record(StatisticsRequest), optional=True)
    )
    include_workers: str = field(default="all", metadata=stored(word("all", "one"), optional=True))
    compiled: str = field(default="eager_step", metadata=stored(word("eager_step", "params_only"), optional=True))
    tensorboard: str = field(default="", metadata=stored(TEXT, optional=True))
    machine_interval_ms: int = field(default=0, metadata=stored(_STEP, optional=True))
    memory_mb: int = field(default=0, metadata=stored(_STEP, optional=True))
    profiling: ProfilingRequest = field(
        default=ProfilingRequest(), metadata=stored(closed_record(ProfilingRequest), optional=True)
    )

    def collection(self, name: str) -> CollectionRequest | None:
        """Return the request for one collection, or None.

        Args:
            name: Name of the collection.
        """
        return next((c for c in self.collections if c.name == name), None)

    def saves_tensors(self, rank: int) -> bool:
        """Return True if the process of that rank writes tensors.

        Args:
            rank: Rank of the process, from 0.
        """
        return rank == 0 or self.include_workers == "all"

    def merged_with(self, other: CaptureRequest) -> CaptureRequest:
        """Return the union of two requests.

        For a collection in both, the finer schedule and all regexes, names and reductions hold. For any other setting
        the value that is not the default holds; if neither is the default, this request's.

        Args:
            other: The request to add.
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
            machine_interval_ms=self.machine_interval_ms or other.machine_interval_ms,
            memory_mb=self.memory_mb or other.memory_mb,
            profiling=self.profiling if self.profiling != default.profiling else other.profiling,
        )

    def to_json(self) -> str:
        """Return one line of JSON for the environment of a training job. Default values are left out."""
        return to_json({"version": VERSION, **document_of(self)})

    @classmethod
    def from_json(cls, text: str | bytes) -> CaptureRequest:
        """Return the request in a text that `to_json` wrote.

        Args:
            text: The JSON.

        Raises:
            ConfigurationError: The text is wrong. Lists every problem at once.
        """
        subject = "The capture request"
        fields = Fields(parse_json(text, subject=subject), where="")
        fields.integer("version", VERSION)
        request = record_of(cls, fields)
        fields.reject_unknown()
        fields.finish(subject=subject)
        return request


def capture_environment(run_uri: str, request: CaptureRequest) -> Mapping[str, str]:
    """Return the variables that switch capture on: add them to `Environment` of CreateTrainingJob.

    Args:
        run_uri: Location of the run.
        request: Collections and statistics to save.
    """
    return {"TRACKSIDE_RUN": run_uri, "TRACKSIDE_CAPTURE_REQUEST": request.to_json()}


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
