"""Helpers for analysis scripts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from smdebug import not_offered

logger = logging.getLogger("smdebug")


def no_refresh(trials: Any) -> Any:
    """Return a context in which a trial or a list of them looks for no news. Afterwards each is as before."""
    return _with_refresh(trials, False)


def refresh(trials: Any) -> Any:
    """Return a context in which a trial or a list of them looks for news. Afterwards each is as before."""
    return _with_refresh(trials, True)


@contextmanager
def _with_refresh(trials: Any, wanted: bool) -> Iterator[Any]:
    all_trials = trials if isinstance(trials, (list, tuple)) else [trials]
    before = [trial.dynamic_refresh for trial in all_trials]
    for trial in all_trials:
        trial.dynamic_refresh = wanted
    try:
        yield trials
    finally:
        for trial, was in zip(all_trials, before, strict=True):
            trial.dynamic_refresh = was


def parse_list_from_str(arg: str | list[str] | None, delimiter: str = ",") -> list[str]:
    """Return a list: `"a,b"` -> `["a", "b"]`; a list is itself; None and `""` are empty.

    Raises:
        TypeError: It is neither a text nor a list.
    """
    if arg is None or arg == "":
        return []
    if isinstance(arg, list):
        return arg
    if isinstance(arg, str):
        return arg.split(delimiter)
    raise TypeError(f"Expected a text or a list, not {type(arg).__name__}.")


def parse_bool(arg: Any, default: bool) -> bool:
    """Return True or False, also from the texts that SageMaker passes; None is `default`.

    Raises:
        ValueError: It is no spelling of true or false.
    """
    if arg is None:
        return default
    for truth, spellings in ((True, (True, "True", "true")), (False, (False, "False", "false"))):
        if arg in spellings:
            return truth
    raise ValueError(f"boolean argument expected, but found {arg}")


__getattr__ = not_offered.attribute_of(__name__)
