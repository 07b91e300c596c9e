"""The tensors that a rule reads by the user's settings: by collections, by regular expressions, or by both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.name_pattern import NamePattern, name_pattern
from trackside.trial.window import Column, Window

EVERY_COLLECTION = (
    "losses", "weights", "biases", "gradients", "metrics", "inputs", "outputs", "labels", "predictions", "buffers",
    "activations", "activation_inputs", "relu_outputs", "saturating_inputs", "model_inputs", "default", "all",
)  # fmt: skip


def words(text: str) -> tuple[str, ...]:
    """Return the words of a list separated by commas or spaces."""
    return tuple(text.replace(",", " ").split())


def patterns(text: str) -> tuple[NamePattern, ...]:
    """Return the regular expressions of a list separated by commas. A comma within brackets belongs to an expression.

    Errors: `re.error`.
    """
    return tuple([name_pattern(part) for part in _parts(text) if part])


def selected(
    window: Window, *, collection_names: str = "", tensor_regex: str = "", default: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the tensors in the collections, and those with a name that a regex finds, sorted.

    Without either, those of `default`. A regex finds any tensor of the run, whatever collection it was saved for.
    """
    collections = words(collection_names) or (() if tensor_regex.strip() else tuple(default))
    names = {name for collection in collections for name in window.tensors(collection)}
    if tensor_regex.strip():
        names.update(_found(window.tensors("all"), tensor_regex))
    return tuple(sorted(names))


def at_step(window: Window, names: Iterable[str], statistic: str) -> Iterator[Column]:
    """Yield the columns of a statistic that have a value at `window.step`."""
    for name in names:
        for column in window.statistic(name, statistic):
            if column.steps[-1] == window.step:
                yield column


@lru_cache(maxsize=64)  # called at every step, with the same names
def _found(names: tuple[str, ...], tensor_regex: str) -> tuple[str, ...]:
    """Return the names that any of the regexes finds."""
    regexes = patterns(tensor_regex)
    return tuple([name for name in names if any(regex.search(name) for regex in regexes)])


@dataclass(frozen=True)
class SavedValue:
    """A whole tensor as one worker saved it."""

    tensor: str
    worker: str
    value: NDArray[np.generic]


def values_at_step(window: Window, names: Iterable[str]) -> Iterator[SavedValue]:
    """Yield the whole tensors saved at `window.step`. Tensors with statistics only are left out."""
    for column in at_step(window, names, "mean"):
        try:
            yield SavedValue(column.tensor, column.worker, window.value(column.tensor, worker=column.worker))
        except TensorNotSavedError:
            continue


def _parts(text: str) -> Iterator[str]:
    """Yield the parts of the text between commas that are outside brackets."""
    start = depth = 0
    for place, letter in enumerate(text):
        if place and text[place - 1] == "\\":
            continue
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth <= 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()
