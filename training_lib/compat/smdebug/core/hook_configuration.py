"""The configuration of a hook, from arguments and collections or from a file, and its capture request.

The keys of the file and their order of precedence are smdebug's: built-in < hook < hook for one mode < collection
< collection for one mode. All problems of a file are listed at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from smdebug import not_offered
from smdebug.core.collection import DEFAULT_XGBOOST_COLLECTIONS, NON_REDUCTION_COLLECTIONS, Collection
from smdebug.core.config_constants import (
    CONFIG_COLLECTION_CONFIG_KEY,
    CONFIG_COLLECTION_NAME_KEY,
    CONFIG_COLLECTION_PARAMS_KEY,
    CONFIG_DRYRUN_KEY,
    CONFIG_HOOK_PARAMS_KEY,
    CONFIG_INCLUDE_REGEX_KEY,
    CONFIG_INCLUDE_WORKERS_KEY,
    CONFIG_OUTDIR_KEY,
    CONFIG_SAVE_ALL_KEY,
    DEFAULT_SAGEMAKER_OUTDIR,
    EXPORT_TENSORBOARD_KEY,
    TENSORBOARD_DIR_KEY,
)
from smdebug.core.modes import ModeKeys
from smdebug.core.reduction_config import ReductionConfig
from smdebug.core.save_config import SaveConfig, SaveConfigMode
from smdebug.exceptions import SMDebugValueError
from trackside.capture.steps.collection import BUILT_IN_REGEX
from trackside.contracts.capture_request import ALL, DEFAULT_SAVE_INTERVAL, CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.name_pattern import name_pattern, problem_of

_NUMBERS = ("save_interval", "start_step", "end_step")
_SCHEDULE_KEYS = frozenset(
    prefix + key
    for prefix in ("", *(f"{mode.name.lower()}." for mode in ModeKeys))
    for key in (*_NUMBERS, "save_steps")
)
CAPTURED = frozenset({*BUILT_IN_REGEX, *(ALL, "default"), "inputs", "outputs", "metrics", *DEFAULT_XGBOOST_COLLECTIONS})


@dataclass(frozen=True)
class HookConfiguration:
    """The content of a configuration file. None: absent from it."""

    out_dir: str
    include_collections: list[str] | None
    collections: tuple[Collection, ...]
    save_config: SaveConfig
    reduction_config: ReductionConfig | None
    include_regex: list[str] | None
    save_all: bool
    include_workers: str
    export_tensorboard: bool
    tensorboard_dir: str | None
    dry_run: bool


def read_configuration(document: Any, *, save_interval: int = DEFAULT_SAVE_INTERVAL) -> HookConfiguration:
    """Return the configuration in the content of a file.

    Args:
        document: The content, parsed.
        save_interval: The interval where the file names none.

    Raises:
        SMDebugValueError: The content is wrong. Lists every problem.
    """
    reader = _Reader(save_interval)
    top = reader.mapping(document, "The file")
    hook = reader.mapping(top.get(CONFIG_HOOK_PARAMS_KEY) or {}, CONFIG_HOOK_PARAMS_KEY)
    entries = top.get(CONFIG_COLLECTION_CONFIG_KEY)
    if entries is not None and not isinstance(entries, list):
        reader.note(CONFIG_COLLECTION_CONFIG_KEY, f"must be a list, but is {entries!r}.")
        entries = []
    collections = [reader.collection(each, hook, k) for k, each in enumerate(entries or ())]
    regexes = reader.texts(hook, CONFIG_INCLUDE_REGEX_KEY, CONFIG_HOOK_PARAMS_KEY)
    configuration = HookConfiguration(
        out_dir=reader.text(top, CONFIG_OUTDIR_KEY, "The file") or DEFAULT_SAGEMAKER_OUTDIR,
        include_collections=None if entries is None else [c.name for c in collections if c is not None],
        collections=tuple(c for c in collections if c is not None),
        save_config=reader.save_config([(hook, CONFIG_HOOK_PARAMS_KEY)]),
        reduction_config=reader.reductions(hook, CONFIG_HOOK_PARAMS_KEY),
        include_regex=reader.checked_regexes(regexes, CONFIG_HOOK_PARAMS_KEY) or None,
        save_all=reader.boolean(hook, CONFIG_SAVE_ALL_KEY, CONFIG_HOOK_PARAMS_KEY),
        include_workers=reader.text(hook, CONFIG_INCLUDE_WORKERS_KEY, CONFIG_HOOK_PARAMS_KEY) or "one",
        export_tensorboard=reader.boolean(hook, EXPORT_TENSORBOARD_KEY, CONFIG_HOOK_PARAMS_KEY),
        tensorboard_dir=reader.text(hook, TENSORBOARD_DIR_KEY, CONFIG_HOOK_PARAMS_KEY),
        dry_run=reader.boolean(hook, CONFIG_DRYRUN_KEY, CONFIG_HOOK_PARAMS_KEY),
    )
    if reader.problems:
        raise SMDebugValueError(str(ConfigurationError(reader.problems, subject="The hook's configuration")))
    return configuration


class _Reader:
    """A reader of a file's values that collects problems."""

    def __init__(self, save_interval: int) -> None:
        self.problems: list[Problem] = []
        self._save_interval = save_interval

    def note(self, where: str, what: str) -> None:
        problem = Problem(where, what)
        if problem not in self.problems:  # the hook's parameters are read again for each collection
            self.problems.append(problem)

    def mapping(self, value: Any, where: str) -> Mapping[str, Any]:
        if isinstance(value, dict):
            return value
        self.note(where, f"must be an object, but is {value!r}.")
        return {}

    def text(self, params: Mapping[str, Any], key: str, where: str) -> str | None:
        value = params.get(key)
        if value is None or isinstance(value, str):
            return value
        self.note(f"{where}: {key}", f"must be a text, but is {value!r}.")
        return None

    def texts(self, params: Mapping[str, Any], key: str, where: str) -> list[str]:
        """Return a list, or the parts of a text between commas."""
        value = params.get(key)
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return value
        return [part.strip() for part in (self.text(params, key, where) or "").split(",") if part.strip()]

    def checked_regexes(self, regexes: list[str], where: str) -> list[str]:
        for regex in regexes:
            try:
                name_pattern(regex)
            except re.error as error:
                self.note(f"{where}: {CONFIG_INCLUDE_REGEX_KEY}", f"{regex!r} {problem_of(error)}.")
        return regexes

    def boolean(self, params: Mapping[str, Any], key: str, where: str, *, default: bool = False) -> bool:
        value = params.get(key, default)
        if value in ("true", "True", "false", "False"):
            return value in ("true", "True")
        if not isinstance(value, bool):
            self.note(f"{where}: {key}", f"must be true or false, but is {value!r}.")
            return default
        return value

    def collection(self, entry: Any, hook: Mapping[str, Any], k: int) -> Collection | None:
        where = f"{CONFIG_COLLECTION_CONFIG_KEY}[{k}]"
        entry = self.mapping(entry, where)
        name = self.text(entry, CONFIG_COLLECTION_NAME_KEY, where)
        if not name:
            self.note(where, f"Must specify '{CONFIG_COLLECTION_NAME_KEY}' in JSON config.")
            return None
        where = f"{where} ({name})"
        params = self.mapping(entry.get(CONFIG_COLLECTION_PARAMS_KEY) or {}, where)
        is_scheduled = any(key in _SCHEDULE_KEYS for key in params)
        levels = [(hook, CONFIG_HOOK_PARAMS_KEY), (params, where)]
        return Collection(
            name,
            include_regex=self.checked_regexes(self.texts(params, CONFIG_INCLUDE_REGEX_KEY, where), where),
            save_config=self.save_config(levels) if is_scheduled else None,
            reduction_config=self.reductions(params, where),
            save_histogram=self.boolean(params, "save_histogram", where, default=True),
        )

    def reductions(self, params: Mapping[str, Any], where: str) -> ReductionConfig | None:
        """Return the reductions, or None if they are absent; `save_raw_tensor` or `save_shape` alone suffice."""
        if not any(key in params for key in ("reductions", "save_raw_tensor", "save_shape")):
            return None
        tokens = ",".join(self.texts(params, "reductions", where))
        is_raw = self.boolean(params, "save_raw_tensor", where, default=not tokens)
        has_shape = self.boolean(params, "save_shape", where)
        try:
            return ReductionConfig.from_dict({"reductions": tokens, "save_raw_tensor": is_raw, "save_shape": has_shape})
        except SMDebugValueError as error:
            self.note(f"{where}: reductions", str(error))
            return None

    def save_config(self, levels: list[tuple[Mapping[str, Any], str]]) -> SaveConfig:
        return SaveConfig({mode: self._of_mode(mode, levels) for mode in ModeKeys})

    def _of_mode(self, mode: ModeKeys, levels: list[tuple[Mapping[str, Any], str]]) -> SaveConfigMode:
        values: dict[str, Any] = {"save_interval": self._save_interval}
        for params, where in levels:
            for prefix in ("", f"{mode.name.lower()}."):
                values.update(
                    {key: self._number(params[prefix + key], f"{where}: {prefix}{key}") for key in _NUMBERS
                     if params.get(prefix + key) is not None}
                )  # fmt: skip
                if params.get(f"{prefix}save_steps") is not None:
                    values["save_steps"] = self._steps(params, f"{prefix}save_steps", where)
        return SaveConfigMode(**{key: value for key, value in values.items() if value is not None})

    def _number(self, value: Any, where: str) -> int | None:
        least = 1 if where.endswith("save_interval") else 0
        try:
            number = None if isinstance(value, (bool, float)) else int(value)
        except (TypeError, ValueError):
            number = None
        if number is None or number < least:
            self.note(where, f"must be a whole number from {least} on, but is {value!r}.")
            return None
        return number

    def _steps(self, params: Mapping[str, Any], key: str, where: str) -> list[int]:
        value = params[key]
        parts = value if isinstance(value, list) else str(value).split(",")
        numbers = [self._number(part, f"{where}: {key}") for part in parts if str(part).strip()]
        return [number for number in numbers if number is not None]


def capture_request(
    collections: Iterable[Collection],
    *,
    save_config: SaveConfig,
    reduction_config: ReductionConfig,
    include_workers: str,
    tensorboard: str,
    captured: Iterable[str] = CAPTURED,
) -> tuple[CaptureRequest, list[str]]:
    """Return the capture request, and names of the user's own collections that could never hold a tensor.

    The `captured` ones hold tensors without any configuration.
    """
    requested, empty = [], []
    for collection in collections:
        own = tuple(regex for regex in collection.include_regex if regex != BUILT_IN_REGEX.get(collection.name))
        if not (own or collection.tensor_names or collection.name in captured):
            empty.append(collection.name)
            continue
        if collection.name in ("default", ALL) and not (own or collection.tensor_names):
            continue  # nothing but what the script gives it
        request = _scheduled(collection.name, schedules_of(collection, save_config))
        reductions = collection.reduction_config or reduction_config
        if collection.name in NON_REDUCTION_COLLECTIONS:
            reductions = ReductionConfig(save_raw_tensor=True)
        tokens = [token for token in reductions.to_json_dict()["reductions"].split(",") if token]
        requested.append(
            replace(
                request,
                include_regex=own,
                tensor_names=tuple(sorted(collection.tensor_names)),
                reductions=tuple(dict.fromkeys(tokens)),
                save_raw_tensor=reductions.save_raw_tensor,
                save_shape=reductions.save_shape,
                save_histogram=collection.save_histogram,
            )
        )
    workers = "all" if include_workers == "all" else "one"
    return CaptureRequest(tuple(requested), include_workers=workers, tensorboard=tensorboard), empty


def schedules_of(collection: Collection, save_config: SaveConfig) -> dict[ModeKeys, Schedule]:
    """Return the schedules of a collection; open settings are the hook's, then the defaults."""
    own = collection.save_config.mode_save_configs if collection.save_config else {}
    chosen = {mode: own.get(mode) or save_config.mode_save_configs[mode] or SaveConfigMode() for mode in ModeKeys}
    return {
        mode: Schedule(max(1, each.save_interval), each.start_step, each.end_step, tuple(each.save_steps))
        for mode, each in chosen.items()
    }


def _scheduled(name: str, schedules: Mapping[ModeKeys, Schedule]) -> CollectionRequest:
    usual = schedules[ModeKeys.TRAIN]
    others = tuple((mode.name, schedule) for mode, schedule in schedules.items() if schedule != usual)
    return CollectionRequest(name, usual, mode_schedules=others)


__getattr__ = not_offered.attribute_of(__name__)
