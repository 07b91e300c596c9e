"""The one hook of a process, for scripts that import it from here."""

from __future__ import annotations

from typing import Any

from smdebug import not_offered
from smdebug.core import singleton_utils

del_hook, set_hook = singleton_utils.del_hook, singleton_utils.set_hook


def get_hook(
    hook_type: str | None = None, json_config_path: str | None = None, create_if_not_exists: bool = False
) -> Any:
    """Return the process's hook.

    If it has none: a new one by the configuration file if one is requested and the file exists, else None.

    Args:
        hook_type: "keras"; None for any hook that the process has, of which none is made.
        json_config_path: The configuration file.
        create_if_not_exists: True if a missing hook is made.

    Raises:
        NotOfferedError: The type is "session" or "estimator": those of TensorFlow 1.
    """
    if hook_type in ("session", "estimator"):
        raise not_offered.error_for(f"smdebug.tensorflow.{hook_type.title()}Hook")
    if hook_type != "keras":
        return singleton_utils.get_hook()
    from smdebug.tensorflow.keras import KerasHook

    return singleton_utils.get_hook(
        json_config_path=json_config_path, hook_class=KerasHook, create_if_not_exists=create_if_not_exists
    )


__getattr__ = not_offered.attribute_of(__name__)
