"""All probes, found by walking the package `questions`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from trackside.rehearsal import questions
from trackside.rehearsal.probe import Probe


@cache
def all_probes() -> tuple[Probe, ...]:
    """Return one probe of each kind, in their order."""
    names = [found.name for found in pkgutil.iter_modules(questions.__path__, f"{questions.__name__}.")]
    kinds = [
        kind
        for name in names
        for kind in vars(importlib.import_module(name)).values()
        if inspect.isclass(kind)
        and issubclass(kind, Probe)
        and kind.__module__ == name
        and not inspect.isabstract(kind)
    ]
    return tuple(sorted((kind() for kind in kinds), key=lambda probe: (probe.place, probe.name)))
