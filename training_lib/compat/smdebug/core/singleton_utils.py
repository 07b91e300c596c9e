"""The one hook of a process."""

from __future__ import annotations

import os
import weakref
from typing import Any

from smdebug import not_offered
from smdebug.exceptions import SMDebugTypeError
from trackside.environment import OldNamesEnvironment

_hook: Any = None
_made: weakref.WeakSet[Any] = weakref.WeakSet()  # all hooks of this process


def hooks_of(folder: str) -> list[Any]:
    """Return the hooks of this process that write to a folder or `s3://` prefix, and are not closed."""
    place = _absolute(folder)
    return [hook for hook in list(_made) if _absolute(hook.out_dir) == place and not hook.is_closed]


def made(hook: Any) -> None:
    """Note a hook that can write."""
    _made.add(hook)


def _absolute(folder: str) -> str:
    return folder.rstrip("/") if "://" in folder else os.path.realpath(os.path.expanduser(folder))


def set_hook(custom_hook: Any) -> None:
    """Set the process's hook.

    Raises:
        SMDebugTypeError: It is no hook.
    """
    global _hook  # noqa: PLW0603 - there is one in a process
    from smdebug.core.configured_hook import ConfiguredHook

    if not isinstance(custom_hook, ConfiguredHook):
        raise SMDebugTypeError(f"A hook is needed, not a {type(custom_hook).__name__}.")
    _hook = custom_hook


def del_hook() -> None:
    """Remove the process's hook. One that is not closed goes on."""
    global _hook  # noqa: PLW0603 - as above
    _hook = None


def get_hook(
    *,
    json_config_path: str | os.PathLike[str] | None = None,
    hook_class: Any = None,
    create_if_not_exists: bool = False,
) -> Any:
    """Return the process's hook.

    If it has none: a new one by the configuration file if one is requested and the file exists, else None.
    """
    if not OldNamesEnvironment.read().is_smdebug_used:
        return None
    if _hook is not None and (hook_class is None or isinstance(_hook, hook_class)):
        return _hook
    if hook_class is None or not (create_if_not_exists or json_config_path):
        return None
    try:
        return hook_class.create_from_json_file(json_config_path)
    except FileNotFoundError:
        return None


__getattr__ = not_offered.attribute_of(__name__)
