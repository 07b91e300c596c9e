"""The one hook of a process, for scripts that import it from here."""

from __future__ import annotations

from typing import Any

from smdebug import not_offered
from smdebug.core import singleton_utils

del_hook, set_hook = singleton_utils.del_hook, singleton_utils.set_hook


def get_hook(json_config_path: str | None = None) -> Any:
    """Return the process's hook.

    If it has none: a new one by the configuration file if that exists, else None.
    """
    from smdebug.mxnet.hook import Hook

    return singleton_utils.get_hook(json_config_path=json_config_path, hook_class=Hook, create_if_not_exists=True)


__getattr__ = not_offered.attribute_of(__name__)
