"""The translation of CreateTrainingJob's `DebugHookConfig` into a capture request.

Everything in it is text. A key of the hook holds for every collection, one that begins with a mode (`eval.save_steps`)
for that mode. Of two keys the later in this order holds: built-in < hook < hook in a mode < collection < collection in
a mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trackside.contracts.capture_request import (
    ALL,
    BUILT_IN_COLLECTIONS,
    DEFAULT,
    DEFAULT_SAVE_INTERVAL,
    MODES,
    NEVER,
    REDUCTIONS,
    CaptureRequest,
    CollectionRequest,
    Schedule,
    StatisticsRequest,
)
from trackside.contracts.errors import Problem, did_you_mean
from trackside.contracts.name_pattern import name_pattern, problem_of
from trackside.documents.values import as_text, is_unset, note_unknown, read_boolean

DEFAULT_LOCAL_PATH = "/opt/ml/output/tensors"
MOST_COLLECTIONS = 20

_NUMBERS = ("save_interval", "start_step", "end_step")
_SAVE_KEYS = (*_NUMBERS, "save_steps")
_SCHEDULE_KEYS = (*_SAVE_KEYS, *(f"{mode.lower()}.{key}" for mode in MODES for key in _SAVE_KEYS))
_OF_TENSORS = ("include_regex", "reductions", "save_raw_tensor", "save_shape")
COLLECTION_KEYS = (*_OF_TENSORS, "save_histogram", *_SCHEDULE_KEYS)
HOOK_KEYS = (
    *_OF_TENSORS,
    "dry_run",
    "save_all",
    "include_workers",
    "export_tensorboard",
    "tensorboard_dir",
    *_SCHEDULE_KEYS,
)

# Collections of the original with tensors of TensorFlow 1.
ELSEWHERE = ("layers", "sm_metrics", "tensorflow_summaries")
_NEVER_REDUCED = frozenset({"losses", "metrics", "scalars"})


@dataclass
class HookReading:
    """The content of a `DebugHookConfig` during reading.

    problems        mistakes found so far
    notes           sentences about settings without a counterpart
    parameters      the hook's parameters
    collections     collections by name
    s3_output_path  the hook's output path; "" if none is given
    where           name of the document, for problems
    """

    problems: list[Problem]
    notes: list[str]
    parameters: Mapping[str, str] = field(default_factory=dict)
    collections: dict[str, CollectionRequest] = field(default_factory=dict)
    s3_output_path: str = ""
    where: str = "DebugHookConfig"

    def read(self, document: Any) -> None:
        """Read the whole document: `S3OutputPath`, `LocalPath`, `HookParameters`, `CollectionConfigurations`."""
        top = self._mapping(document, self.where)
        note_unknown(
            top,
            ("S3OutputPath", "LocalPath", "HookParameters", "CollectionConfigurations"),
            where=self.where,
            problems=self.problems,
        )
        self.s3_output_path = self._text(top.get("S3OutputPath"), f"{self.where}.S3OutputPath")
        local = self._text(top.get("LocalPath"), f"{self.where}.LocalPath")
        if local and local.rstrip("/") != DEFAULT_LOCAL_PATH:
            self.notes.append(f"The local path {local} is not used: tensors go to the run at once.")
        self._read_parameters(top.get("HookParameters"), f"{self.where}.HookParameters")
        entries = top.get("CollectionConfigurations") or ()
        if not isinstance(entries, (list, tuple)):
            self.problems.append(
                Problem(f"{self.where}.CollectionConfigurations", f"must be a list, but is {entries!r}.")
            )
            entries = ()
        self.read_collections(entries, where=f"{self.where}.CollectionConfigurations")
        if "losses" not in self.collections:  # the original saves them always
            self._add(CollectionRequest("losses", self._schedules({})["TRAIN"]))

    def read_collections(self, entries: Sequence[Any], *, where: str) -> None:
        """Add the collections of `[{"CollectionName": ..., "CollectionParameters": {...}}]`."""
        for k, entry in enumerate(entries):
            for collection in self.collection(entry, where=f"{where}[{k}]"):
                self._add(collection)

    def collection(self, entry: Any, *, where: str) -> list[CollectionRequest]:
        """Return the collection of an entry. If it can hold no tensor: none, and a note or a problem."""
        entry = self._mapping(entry, where)
        note_unknown(entry, ("CollectionName", "CollectionParameters"), where=where, problems=self.problems)
        name = self._text(entry.get("CollectionName"), f"{where}.CollectionName")
        if not name:
            self.problems.append(Problem(where, "has no CollectionName."))
            return []
        where = f"{where} ({name})"
        own = self._texts(entry.get("CollectionParameters"), where)
        note_unknown(own, COLLECTION_KEYS, where=where, problems=self.problems)
        regexes = self._regexes(own, where)
        if not regexes and not self._can_hold(name):
            return []
        schedules = self._schedules(own, where)
        usual = schedules["TRAIN"]
        reductions, is_raw, has_shape = self._reductions(own, where)
        if name in _NEVER_REDUCED:
            reductions, is_raw = (), True
        return [
            CollectionRequest(
                name,
                usual,
                include_regex=regexes,
                mode_schedules=tuple((mode, schedule) for mode, schedule in schedules.items() if schedule != usual),
                reductions=reductions,
                save_raw_tensor=None if is_raw == (not reductions) else is_raw,
                save_shape=has_shape,
                save_histogram=self._boolean(own, "save_histogram", where, default=True),
            )
        ]

    def request(self) -> CaptureRequest:
        """Return the capture request. As in the original, one worker writes unless `include_workers` is "all"."""
        workers = self.parameters.get("include_workers", "one").lower()
        if workers not in {"one", "all"}:
            self.problems.append(
                Problem(f"{self.where}.HookParameters.include_workers", f"must be one or all, but is {workers!r}.")
            )
        tensorboard = self.parameters.get("tensorboard_dir", "")
        return CaptureRequest(
            tuple(self.collections.values()),
            include_workers="all" if workers == "all" else "one",
            tensorboard=tensorboard,
        )

    def _read_parameters(self, raw: Any, where: str) -> None:
        self.parameters = self._texts(raw, where)
        note_unknown(self.parameters, HOOK_KEYS, where=where, problems=self.problems)
        schedule = self._schedules({}, where)["TRAIN"]
        if regexes := self._regexes(self.parameters, where):
            self._add(CollectionRequest(DEFAULT, schedule, include_regex=regexes))
        if self._boolean(self.parameters, "save_all", where):
            self._add(CollectionRequest(ALL, schedule))
        if self._boolean(self.parameters, "dry_run", where):
            self.notes.append("dry_run has no counterpart: leave TRACKSIDE_RUN out to save nothing.")
        if self._boolean(self.parameters, "export_tensorboard", where) and "tensorboard_dir" not in self.parameters:
            fix = "Give tensorboard_dir too, or a TensorBoardOutputConfig."
            self.problems.append(Problem(f"{where}.export_tensorboard", "says nothing of where the files go.", fix))

    def _can_hold(self, name: str) -> bool:
        if name in (*BUILT_IN_COLLECTIONS, ALL):
            return True
        if name == DEFAULT:
            self.notes.append(
                "The collection 'default' need not be requested: tensors that the script saves itself are always saved."
            )
        elif name in ELSEWHERE:
            self.notes.append(
                f"The collection {name!r} is left out: its tensors come from TensorFlow 1, "
                "which Trackside does not capture."
            )
        else:
            hint = did_you_mean(name, BUILT_IN_COLLECTIONS).removesuffix(".")
            near = f" {hint}" if hint.startswith("Did") else ""
            self.notes.append(
                f"The collection {name!r} is left out: it has no include_regex, so that no tensor belongs to it.{near}"
            )
        return False

    def _add(self, collection: CollectionRequest) -> None:
        known = self.collections.get(collection.name)
        if known is None:
            self.collections[collection.name] = collection
        else:
            merged = CaptureRequest((known,)).merged_with(CaptureRequest((collection,)))
            self.collections[collection.name] = merged.collections[0]

    def _schedules(self, own: Mapping[str, str], where: str = "") -> dict[str, Schedule]:
        return {mode: self._schedule(mode, own, where) for mode in MODES}

    def _schedule(self, mode: str, own: Mapping[str, str], where: str) -> Schedule:
        values: dict[str, int | None] = {}
        steps: tuple[int, ...] = ()
        for parameters, place in ((self.parameters, f"{self.where}.HookParameters"), (own, where)):
            for prefix in ("", f"{mode.lower()}."):
                for key in _NUMBERS:
                    if (text := parameters.get(prefix + key)) is not None:
                        values[key] = self._number(text, f"{place}.{prefix}{key}", 1 if key == "save_interval" else 0)
                if (text := parameters.get(f"{prefix}save_steps")) is not None:
                    numbers = [self._number(part, f"{place}.{prefix}save_steps", 0) for part in _parts(text)]
                    steps = tuple(number for number in numbers if number is not None)
        return Schedule(
            values.get("save_interval") or DEFAULT_SAVE_INTERVAL,
            values.get("start_step") or 0,
            values.get("end_step"),
            steps,
        )

    def _reductions(self, own: Mapping[str, str], where: str) -> tuple[tuple[str, ...], bool, bool]:
        """Return (tokens, True to save tensors whole, True to save shapes) of the collection, else of the hook."""
        is_own = any(key in own for key in ("reductions", "save_raw_tensor", "save_shape"))
        parameters, place = (own, where) if is_own else (self.parameters, f"{self.where}.HookParameters")
        tokens = []
        for token in _parts(parameters.get("reductions", "")):
            name = f"{token}_norm" if token in {"l1", "l2", "abs_l1", "abs_l2"} else token
            if name in REDUCTIONS:
                tokens.append(name)
            else:
                self._note(Problem(f"{place}.reductions", f"{token!r} is not known.", did_you_mean(token, REDUCTIONS)))
        is_raw = self._boolean(parameters, "save_raw_tensor", place, default=not tokens)
        return tuple(dict.fromkeys(tokens)), is_raw, self._boolean(parameters, "save_shape", place)

    def _regexes(self, parameters: Mapping[str, str], where: str) -> tuple[str, ...]:
        regexes = _parts(parameters.get("include_regex", ""))
        for regex in regexes:
            try:
                name_pattern(regex)
            except re.error as error:
                what = f"{regex!r} {problem_of(error)}."
                self._note(Problem(f"{where}.include_regex", what, "Commas part several."))
        return tuple(regexes)

    def _number(self, text: str, where: str, least: int) -> int | None:
        try:
            number = int(text)
        except ValueError:
            number = -1
        if number >= least:
            return number
        self._note(Problem(where, f"must be a whole number from {least} on, but is {text!r}."))
        return None

    def _boolean(self, parameters: Mapping[str, str], key: str, where: str, *, default: bool = False) -> bool:
        found = read_boolean(parameters.get(key), default=default)
        if found is None:
            self._note(Problem(f"{where}.{key}", f"must be true or false, but is {parameters[key]!r}."))
        return bool(found)

    def _note(self, problem: Problem) -> None:
        if problem not in self.problems:  # the hook's parameters are read again for each collection
            self.problems.append(problem)

    def _mapping(self, value: Any, where: str) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        if value is not None:
            self.problems.append(Problem(where, f"must be an object, but is {value!r}."))
        return {}

    def _texts(self, value: Any, where: str) -> dict[str, str]:
        found = {}
        for key, each in self._mapping(value, where).items():
            count = len(self.problems)
            text = self._text(each, f"{where}.{key}")
            if not is_unset(each) and len(self.problems) == count:
                found[str(key)] = text
        return found

    def _text(self, value: Any, where: str) -> str:
        try:
            return as_text(value) or ""
        except ValueError as error:
            self.problems.append(Problem(where, str(error)))
            return ""


def hook_document(capture: CaptureRequest, *, s3_output_path: str) -> tuple[dict[str, Any], list[str]]:
    """Return the `DebugHookConfig` for `capture`, and notes about settings that it cannot express."""
    notes = []
    if capture.statistics != StatisticsRequest():
        notes.append("The settings of the always-on statistics have no place in a DebugHookConfig.")
    if capture.compiled != CaptureRequest().compiled:
        notes.append("`compiled` has no place in a DebugHookConfig.")
    if capture.memory_mb:
        notes.append("`memory_mb` has no place in a DebugHookConfig.")
    hook = {"include_workers": capture.include_workers}
    if capture.tensorboard:
        hook["tensorboard_dir"] = capture.tensorboard
    entries = []
    for collection in capture.collections:
        schedules = (collection.schedule, *(schedule for _, schedule in collection.mode_schedules))
        if collection.tensor_names or any(s.save_seconds is not None for s in schedules):
            notes.append(f"{collection.name}: tensor_names and save_seconds have no place in a DebugHookConfig.")
        if collection.name == ALL:
            hook["save_all"] = "true"
            continue
        entries.append({"CollectionName": collection.name, "CollectionParameters": _parameters(collection)})
    document = {"S3OutputPath": s3_output_path, "HookParameters": hook, "CollectionConfigurations": entries}
    return document, notes


def _parameters(collection: CollectionRequest) -> dict[str, str]:
    parameters = dict(_schedule_parameters(collection.schedule, ""))
    for mode, schedule in collection.mode_schedules:
        parameters |= _schedule_parameters(schedule, f"{mode.lower()}.", beside=collection.schedule)
    for key in ("include_regex", "reductions"):
        if getattr(collection, key):
            parameters[key] = ",".join(getattr(collection, key))
    if collection.save_raw_tensor is not None:
        parameters["save_raw_tensor"] = str(collection.save_raw_tensor).lower()
    if collection.save_shape:
        parameters["save_shape"] = "true"
    if not collection.save_histogram:
        parameters["save_histogram"] = "false"
    return parameters


def _schedule_parameters(schedule: Schedule, prefix: str, *, beside: Schedule | None = None) -> dict[str, str]:
    """Return the parameters of a mode's schedule.

    `beside` is the schedule that holds without them: parameters in which the two differ must be written.
    """
    beside = beside or Schedule()
    values: dict[str, object] = {"save_interval": schedule.save_interval}
    if schedule.start_step or beside.start_step:
        values["start_step"] = schedule.start_step
    if schedule.end_step is not None:
        values["end_step"] = schedule.end_step
    elif beside.end_step is not None:
        values["end_step"] = NEVER
    if schedule.save_steps or beside.save_steps:
        values["save_steps"] = ",".join(map(str, schedule.save_steps))
    return {f"{prefix}{key}": str(value) for key, value in values.items()}


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def collection_documents(collections: Iterable[Any]) -> list[dict[str, Any]]:
    """Return documents for collections that are documents already, or objects with `name` and `parameters`."""
    found = []
    for each in collections:
        if isinstance(each, Mapping):
            found.append(dict(each))
            continue
        document = {"CollectionName": getattr(each, "name", None)}
        if getattr(each, "parameters", None) is not None:
            document["CollectionParameters"] = each.parameters
        found.append(document)
    return found
