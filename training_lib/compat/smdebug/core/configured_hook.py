"""The common part of all frameworks' hooks: the configuration, and the singleton."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from smdebug import not_offered
from smdebug.core.collection import DEFAULT_PYTORCH_COLLECTIONS, Collection, checked_regexes
from smdebug.core.collection_manager import CollectionManager
from smdebug.core.config_constants import DEFAULT_SAVED_COLLECTIONS
from smdebug.core.hook_configuration import CAPTURED, capture_request, read_configuration, schedules_of
from smdebug.core.hook_utils import get_tensorboard_dir, verify_and_get_out_dir
from smdebug.core.json_config import get_json_config_as_dict, get_tensorboard_dir_from_json_config
from smdebug.core.modes import ModeKeys
from smdebug.core.reduction_config import ReductionConfig
from smdebug.core.save_config import SaveConfig, SaveConfigMode
from smdebug.core.singleton_utils import set_hook
from smdebug.core.state_store import StateStore
from smdebug.core.utils import flatten
from smdebug.exceptions import SMDebugTypeError, SMDebugValueError
from trackside.capture.steps.collection import BUILT_IN_REGEX
from trackside.contracts.capture_request import DEFAULT_SAVE_INTERVAL, CaptureRequest
from trackside.environment import CaptureEnvironment, OldNamesEnvironment

logger = logging.getLogger(__name__)


class ConfiguredHook:
    """A hook's configuration. The hook of a framework captures by it.

    Raises:
        RuntimeError: `out_dir` is missing.
        SMDebugRuntimeError: An ended run lies at `out_dir`.
        SMDebugTypeError: Arguments have wrong types. Several problems are listed at once.
    """

    collection_class: type[Collection] = Collection
    known_collections: Iterable[str] = frozenset(DEFAULT_PYTORCH_COLLECTIONS)
    saved_collections: Iterable[str] = tuple(DEFAULT_SAVED_COLLECTIONS)
    captured_collections: Iterable[str] = CAPTURED
    save_interval = DEFAULT_SAVE_INTERVAL

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        out_dir: str | os.PathLike[str] | None = None,
        export_tensorboard: bool = False,
        tensorboard_dir: str | None = None,
        dry_run: bool = False,
        reduction_config: ReductionConfig | None = None,
        save_config: SaveConfig | SaveConfigMode | dict[ModeKeys, SaveConfigMode] | None = None,
        include_regex: list[str] | str | None = None,
        include_collections: list[str] | None = None,
        save_all: bool = False,
        include_workers: str = "one",
        profiler_config_parser: object = None,
    ) -> None:
        problems: list[Exception] = []
        self.out_dir = _attempt(problems, lambda: _checked_out_dir(out_dir)) or ""
        wanted = SaveConfigMode(save_interval=self.save_interval) if save_config is None else save_config
        self.save_config: SaveConfig = _attempt(problems, lambda: SaveConfig.parse(wanted)) or SaveConfig()
        if not isinstance(reduction_config, (ReductionConfig, type(None))):
            wrong = f"reduction_config={reduction_config!r} must be a ReductionConfig."  # type: ignore[unreachable]  # untyped scripts
            problems.append(SMDebugTypeError(wrong))
        self.include_regex = _attempt(problems, lambda: checked_regexes(_texts("include_regex", include_regex)))
        names = _attempt(problems, lambda: _texts("include_collections", include_collections)) or []
        _raise_all(problems)
        self.reduction_config = reduction_config or ReductionConfig(save_raw_tensor=True)
        self.tensorboard_dir = get_tensorboard_dir(export_tensorboard, tensorboard_dir, self.out_dir)
        self.dry_run, self.save_all = dry_run, save_all
        self.save_all_workers = include_workers == "all"
        self.profiler_config_parser = profiler_config_parser
        self.state_store = _state_store()
        self.include_collections = list(dict.fromkeys([*self.saved_collections, *names]))
        self.collection_manager = CollectionManager()
        for name in sorted(self.known_collections):
            regexes = [BUILT_IN_REGEX[name]] if name in BUILT_IN_REGEX else []
            self.collection_manager.add(self.collection_class(name, include_regex=regexes))
        for name in self.include_collections:
            self.get_collection(name)
        if self.include_regex:
            self.get_collection("default").include(self.include_regex)
            self.include_collections.append("default")
        if save_all:
            self.get_collection("all").include(".*")
            self.include_collections.append("all")
        set_hook(self)

    # How a hook is made.

    @classmethod
    def create_from_json_file(cls, json_file_path: str | os.PathLike[str] | None = None) -> Any:
        """Return a hook by a configuration file: the given one, else SMDEBUG_CONFIG_FILE_PATH, else SageMaker's.

        No file is required in a job that Trackside watches from outside, for SageMaker need not have given it one.

        Raises:
            FileNotFoundError: The file does not exist.
            SMDebugValueError: The file is wrong. Lists every problem.
        """
        path = None if json_file_path is None else os.fspath(json_file_path)
        try:
            document = get_json_config_as_dict(path)
        except ValueError as error:
            raise SMDebugValueError(f"The hook's configuration is no JSON: {error}.") from error
        except FileNotFoundError:
            if path is not None or not CaptureEnvironment.read().run_uri:
                raise
            document = {}
        requested = read_configuration(document, save_interval=cls.save_interval)
        environment = OldNamesEnvironment.read()
        has_own_file = environment.is_sagemaker_job
        hook = cls(
            out_dir=requested.out_dir,
            export_tensorboard=requested.export_tensorboard and not has_own_file,
            tensorboard_dir=get_tensorboard_dir_from_json_config() if has_own_file else requested.tensorboard_dir,
            dry_run=requested.dry_run,
            reduction_config=requested.reduction_config,
            save_config=requested.save_config,
            include_regex=requested.include_regex,
            include_collections=requested.include_collections,
            save_all=requested.save_all,
            include_workers=requested.include_workers,
        )
        for collection in requested.collections:
            hook._take_over(collection)
        return hook

    def _take_over(self, requested: Collection) -> None:
        mine = self.get_collection(requested.name)
        mine.include(list(requested.include_regex))
        mine.save_config = requested.save_config
        mine.reduction_config = requested.reduction_config
        mine.save_histogram = requested.save_histogram

    # Collections.

    def add_collection(self, collection: Collection) -> None:
        """Add a collection, in place of one of its name.

        Raises:
            SMDebugTypeError: It is no `Collection`.
        """
        if not isinstance(collection, Collection):
            raise SMDebugTypeError(f"A Collection is needed, not a {type(collection).__name__}.")
        self.collection_manager.add(collection)

    def get_collection(self, name: str, create: bool = True) -> Collection:
        """Return the collection of that name; make it if it is missing and `create` is set.

        Raises:
            SMDebugError: It is missing, and `create` is False.
        """
        if create and name not in self.collection_manager.collections:
            self.collection_manager.add(self.collection_class(name))
        return self.collection_manager.get(name, create=create)

    def get_collections(self) -> dict[str, Collection]:
        """Return the collections by name."""
        return self.collection_manager.get_collections()

    def collections_to_save(self) -> list[Collection]:
        """Return the requested collections; all of them if `all` is requested."""
        known = self.get_collections()
        if "all" in self.include_collections:
            return list(known.values())
        return [self.get_collection(name) for name in sorted({*self.include_collections})]

    def has_default_hook_configuration(self, default_saved_collections: Iterable[str] = ()) -> bool:
        """Return True if only these collections are saved; by default, those that such a hook always saves."""
        return {*self.include_collections} == {*(default_saved_collections or self.saved_collections)}

    def has_default_configuration(self) -> bool:
        """Return True if nothing more is saved than such a hook always saves."""
        return self.has_default_hook_configuration()

    def _capture_request(self) -> CaptureRequest:
        """Return the capture request. A collection that could never hold a tensor is left out, with a warning."""
        request, empty = capture_request(
            self.collections_to_save(),
            save_config=self.save_config,
            reduction_config=self.reduction_config,
            include_workers="all" if self.save_all_workers else "one",
            tensorboard=self.tensorboard_dir or "",
            captured=self.captured_collections,
        )
        for name in empty:
            what = "trackside: Collection %s has not been configured: it has neither include_regex nor tensor_names."
            logger.warning(what, name)
        return request

    def _is_due(self, name: str, mode: str, mode_step: int) -> bool:
        """Return True if the collection is saved at that step. An unconfigured one follows the hook's schedule."""
        schedules = schedules_of(self.get_collection(name), self.save_config)
        return schedules[ModeKeys[mode]].is_due(mode_step)

    # A model that holds its hook can be copied and saved. The copy's hook is the same; one that was loaded is inert.

    def __getattr__(self, name: str) -> Any:
        reason = not_offered.reason_for_attribute(name)
        kind = type(self).__name__
        raise AttributeError(f"{kind!r} object has no attribute {name!r}." + (f" {reason}" if reason else ""))

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __deepcopy__(self, memo: Mapping[int, Any]) -> ConfiguredHook:
        return self

    def __copy__(self) -> ConfiguredHook:
        return self


def _checked_out_dir(out_dir: str | os.PathLike[str] | None) -> str:
    given = None if out_dir is None else os.fspath(out_dir)
    if given is not None and CaptureEnvironment.read().run_uri:
        return str(Path(given).expanduser()) if "://" not in given else given  # nothing is written there
    return verify_and_get_out_dir(given)


def _state_store() -> StateStore | None:
    """Return the store of states, or None if the configuration of checkpoints cannot be read.

    A new run is better than no training.
    """
    try:
        return StateStore()
    except (OSError, ValueError) as error:
        what = "trackside: the configuration of checkpoints cannot be read, so steps count from 0 after a restart: %s."
        logger.warning(what, error)
        return None


def _texts(name: str, value: Any) -> list[str] | None:
    if value is None:
        return None
    texts = [value] if isinstance(value, str) else flatten(list(value)) if isinstance(value, Iterable) else [value]
    if not all(isinstance(each, str) for each in texts):
        raise SMDebugTypeError(f"{name}={value!r} must be a list of texts.")
    return list(texts)


def _attempt(problems: list[Exception], function: Any) -> Any:
    try:
        return function()
    except (RuntimeError, TypeError, ValueError) as error:
        problems.append(error)
        return None


def _raise_all(problems: list[Exception]) -> None:
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise type(problems[0])("\n".join(["The hook has several problems:", *(f"  - {each}" for each in problems)]))


__getattr__ = not_offered.attribute_of(__name__)
