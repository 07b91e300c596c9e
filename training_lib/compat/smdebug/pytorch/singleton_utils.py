"""The one hook of a process, for scripts that import it from here."""

from __future__ import annotations

from typing import Any

from smdebug import not_offered


def get_hook(json_config_path: str | None = None, create_if_not_exists: bool = False) -> Any:
    """Return the process's hook: see `smdebug.pytorch.get_hook`."""
    from smdebug.pytorch import hook

    return hook.get_hook(json_config_path, create_if_not_exists)


__getattr__ = not_offered.attribute_of(__name__)
