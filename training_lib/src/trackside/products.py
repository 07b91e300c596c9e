"""Begin products from the core: by name, where a run asks for them. No room of the core imports a product."""

from __future__ import annotations

import importlib
from typing import Any

REHEARSAL = "trackside.rehearsal.rehearsal"  # in the training's process, for `trackside check`
RESCUE = "trackside.rescue.rescue"  # in the training's process, for `--rescue`


def product(name: str) -> Any:
    """Return the module of a product that the core begins.

    Args:
        name: One of the names above.
    """
    return importlib.import_module(name)
