"""`sagemaker_debug_hook_config`: a hook that collects tensors and times for a local script.

    hook_config = DebugHookConfig(collection_configs=[
        CollectionConfig(name="tensors", collection_parameters={"include": ["loss", "gradients"]}),
        CollectionConfig(name="profiler", collection_parameters={"profile_interval": 10}),
    ])
    hook = Hook(hook_config)
    ...                           # hook.step() once in each pass of the loop
    tensors = hook.get_tensors()  # {name: {step: array}}

Nothing is registered: models are found by the optimizers that train them. Nothing is written, and memory is
bounded. No published package has this name; it is known from code that people copy.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from trackside.capture.place import Place
from trackside.capture.writing.kept_steps import MOST_BYTES, KeptSteps
from trackside.contracts.capture_request import (
    ALL,
    BUILT_IN_COLLECTIONS,
    CaptureRequest,
    CollectionRequest,
    Schedule,
)
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.name_pattern import PatternRefusedError, name_pattern, problem_of
from trackside.frameworks.pytorch.script.capture import ScriptedCapture
from trackside.frameworks.pytorch.steps.times import StepTimes, TimeRow

__all__ = ["CollectionConfig", "DebugHookConfig", "Hook", "TimeRow"]

logger = logging.getLogger(__name__)

PROFILER = "profiler"
_NUMBERS = {"save_interval": 1, "start_step": 0, "end_step": 0}
_TENSOR_KEYS = ("include", *_NUMBERS)
_PROFILER_KEYS = ("profile_interval",)
# Words that mean a whole collection. Anything else in `include` is looked for in the tensors' names.
_WORDS = {name: name for name in (*BUILT_IN_COLLECTIONS, ALL)} | {
    "loss": "losses",
    "weight": "weights",
    "bias": "biases",
    "gradient": "gradients",
    "grad": "gradients",
    "grads": "gradients",
    "input": "inputs",
    "output": "outputs",
    "activations": "outputs",
    "buffer": "buffers",
    "metric": "metrics",
}


@dataclass(frozen=True)
class CollectionConfig:
    """One collection to save.

    name                   "profiler" for times, any other for tensors
    collection_parameters  see below

    Parameters for times: `profile_interval`, in steps (1).

    Parameters for tensors: `include`, a list of names of collections ("loss", "gradients", ...), regexes, or parts of
    names (default: the collection that `name` names); `save_interval` (1), `start_step` (0) and `end_step`.
    """

    name: str
    collection_parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DebugHookConfig:
    """The collections, and the largest number of bytes of tensors in memory."""

    collection_configs: Iterable[CollectionConfig] = ()
    memory_bytes: int = MOST_BYTES


class Hook:
    """A hook that collects as configured, from the first call of a model on.

    A step ends when the script calls `step`; a first call at the beginning of the loop ends nothing. Without any call
    it ends with the optimizer's step. After the construction nothing raises into the training.

    Raises:
        ConfigurationError: The configuration is wrong. Lists every problem.
    """

    def __init__(self, hook_config: DebugHookConfig | None = None) -> None:
        config = hook_config or DebugHookConfig((CollectionConfig("losses"),))
        request, interval = _translated(config)
        self._kept = KeptSteps(most_bytes=config.memory_bytes, thinned=_warn_thinned)
        self._times = None if interval is None else StepTimes(interval)
        self._capture = ScriptedCapture(lambda: request, place=Place(), kept=self._kept, times=self._times)

    def step(self) -> None:
        """End the step here."""
        self._capture.end_step()

    def get_tensors(self) -> dict[str, dict[int, np.ndarray]]:
        """Return {name: {step: array}} of all ended steps and of the open one so far.

        When the tensors outgrow `memory_bytes`, every second step is dropped, and only every second, fourth, ... is
        kept from then on, with a warning. So the result spans the whole training evenly, and always has the latest
        step.
        """
        self._capture.flush()
        found = self._kept.tensors()
        for name, array in self._capture.now.open_tensors().items():
            found.setdefault(name, {})[self._capture.now.step] = array
        return found

    def get_profiler_data(self) -> list[TimeRow]:
        """Return the timed rows by start: (step, phase, module, start, duration, memory). The latest 100 000 rows.

        The steps are those of `get_tensors`.
        """
        return [] if self._times is None else self._times.rows()

    def close(self) -> None:
        """End the last step, and collect no more. Collected values stay available."""
        self._capture.close()

    def __enter__(self) -> Hook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _warn_thinned(stride: int) -> None:
    logger.warning("trackside: the memory for tensors is full, so only every %d. step that is saved is kept.", stride)


def _translated(config: DebugHookConfig) -> tuple[CaptureRequest, int | None]:
    """Return the capture request, and the number of steps between timed ones; None: no times."""
    problems: list[Problem] = []
    collections: dict[str, CollectionRequest] = {}
    interval: int | None = None
    for k, each in enumerate(config.collection_configs):
        where = f"collection_configs[{k}]"
        if not isinstance(each, CollectionConfig):
            problems.append(Problem(where, f"must be a CollectionConfig, but is {each!r}."))  # type: ignore[unreachable]  # untyped scripts
        elif each.name == PROFILER:
            _note_unknown(each, _PROFILER_KEYS, where, problems)
            interval = _number(each, "profile_interval", 1, where, problems)
        else:
            _note_unknown(each, _TENSOR_KEYS, where, problems)
            for collection in _collections(each, where, problems):
                known = collections.get(collection.name)
                merged = CaptureRequest((known,)).merged_with(CaptureRequest((collection,))) if known else None
                collections[collection.name] = merged.collections[0] if merged else collection
    if problems:
        raise ConfigurationError(problems, subject="The DebugHookConfig")
    return CaptureRequest(tuple(collections.values())), interval


def _collections(config: CollectionConfig, where: str, problems: list[Problem]) -> list[CollectionRequest]:
    end_step = config.collection_parameters.get("end_step")
    schedule = Schedule(
        _number(config, "save_interval", 1, where, problems),
        _number(config, "start_step", 0, where, problems),
        None if end_step is None else _number(config, "end_step", 0, where, problems),
    )
    include = config.collection_parameters.get("include")
    if include is None:
        if config.name in _WORDS:
            return [CollectionRequest(_WORDS[config.name], schedule)]
        problems.append(
            Problem(
                f"{where} ({config.name})",
                'has no "include", and its name is no collection.',
                f'{did_you_mean(config.name, sorted(_WORDS))} Or name tensors in "include".',
            )
        )
        return []
    words = [include] if isinstance(include, str) else include
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) and word for word in words):
        problems.append(Problem(f"{where}: include", f"must be a list of texts, but is {include!r}."))
        return []
    found = [CollectionRequest(_WORDS[word], schedule) for word in words if word in _WORDS]
    regexes = tuple(_as_regex(word, where, problems) for word in words if word not in _WORDS)
    if regexes:
        name = f"{config.name}_by_name" if config.name in _WORDS else config.name
        found.append(CollectionRequest(name, schedule, include_regex=regexes))
    return found


def _as_regex(word: str, where: str, problems: list[Problem]) -> str:
    try:
        name_pattern(word)
    except PatternRefusedError as error:
        problems.append(Problem(f"{where}: include", f"{word!r} {problem_of(error)}."))
    except re.error:
        return re.escape(word)
    return word


def _number(config: CollectionConfig, key: str, default: int, where: str, problems: list[Problem]) -> int:
    value = config.collection_parameters.get(key, default)
    least = 1 if key.endswith("interval") else 0
    try:
        number = int(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else -1
    except ValueError:
        number = -1
    if number >= least:
        return number
    problems.append(Problem(f"{where}: {key}", f"must be a whole number from {least} on, but is {value!r}."))
    return default or 1


def _note_unknown(config: CollectionConfig, known: tuple[str, ...], where: str, problems: list[Problem]) -> None:
    unknown = (key for key in config.collection_parameters if key not in known)
    problems += (Problem(f"{where}: {key}", "is not known.", did_you_mean(str(key), known)) for key in unknown)
