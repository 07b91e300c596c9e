"""The hook's configuration file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from smdebug import not_offered
from smdebug.core.config_constants import (
    CONFIG_COLLECTION_CONFIG_KEY,
    CONFIG_COLLECTION_NAME_KEY,
    CONFIG_OUTDIR_KEY,
    DEFAULT_RESOURCE_CONFIG_FILE,
)
from smdebug.exceptions import SMDebugValueError
from trackside.environment import OldNamesEnvironment


def get_json_config_as_dict(json_config_path: str | None) -> dict[str, Any]:
    """Return the content of a file; without a path, of SMDEBUG_CONFIG_FILE_PATH, else of SageMaker's file.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: It is not JSON.
    """
    path = OldNamesEnvironment.read().hook_configuration if json_config_path is None else json_config_path
    content: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
    return content


def get_include_collections(params_dict: dict[str, Any]) -> list[str] | None:
    """Return the names of a configuration's collections; None if it has no list of them.

    Raises:
        SMDebugValueError: A collection has no name.
    """
    collections = params_dict.get(CONFIG_COLLECTION_CONFIG_KEY)
    if collections is None:
        return None
    if any(CONFIG_COLLECTION_NAME_KEY not in each for each in collections):
        raise SMDebugValueError(f"Must specify '{CONFIG_COLLECTION_NAME_KEY}' in JSON config.")
    return [each[CONFIG_COLLECTION_NAME_KEY] for each in collections]


def create_hook_from_json_config(hook_cls: Any, json_config_path: str | None, default_values: object = None) -> Any:
    """Return a hook of that class by `create_from_json_file`. `default_values` is ignored."""
    return hook_cls.create_from_json_file(json_config_path)


def get_tensorboard_dir_from_json_config() -> str | None:
    """Return the folder of a SageMaker job's files for TensorBoard; None if it has none.

    Raises:
        ValueError: The file is not JSON.
    """
    path = Path(OldNamesEnvironment.read().tensorboard_configuration)
    if not path.exists():
        return None
    folder = json.loads(path.read_text("utf-8")).get(CONFIG_OUTDIR_KEY)
    return None if folder is None else str(folder)


def get_node_id_from_resource_config() -> str | None:
    """Return the name of this machine in its SageMaker job: algo-1; None elsewhere."""
    try:
        host = json.loads(Path(DEFAULT_RESOURCE_CONFIG_FILE).read_text("utf-8")).get("current_host")
    except (OSError, ValueError, AttributeError):
        return None
    return None if host is None else str(host)


__getattr__ = not_offered.attribute_of(__name__)
