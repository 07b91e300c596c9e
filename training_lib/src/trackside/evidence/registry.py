"""All questions, found by walking the package `questions`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from trackside.evidence import questions
from trackside.evidence.question import Question


@cache
def all_questions() -> Mapping[str, Question]:
    """Return the questions that have a row each in the table of weights, by name."""
    names = [found.name for found in pkgutil.iter_modules(questions.__path__, f"{questions.__name__}.")]
    found = [one for name in names for one in vars(importlib.import_module(name)).values()]
    return {one.name: one for one in found if isinstance(one, Question)}
