"""Which tensors a rule looks at, where the user says so: by collections, by regular expressions, or by both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from trackside.trial.window import Column, Window

EVERY_COLLECTION = (
    "losses", "weights", "biases", "gradients", "metrics", "inputs", "outputs", "labels", "predictions", "buffers",
    "activations", "activation_inputs", "relu_outputs", "saturating_inputs", "model_inputs", "default", "all",
)  # fmt: skip


def words(text: str) -> tuple[str, ...]:
    """The words of a list that is separated by commas or spaces."""
    return tuple(text.replace(",", " ").split())


def patterns(text: str) -> tuple[re.Pattern[str], ...]:
    """The regular expressions of a list that is separated by commas. Errors: `re.error`."""
    return tuple([re.compile(part.strip()) for part in text.split(",") if part.strip()])


def selected(
    window: Window, *, collection_names: str = "", tensor_regex: str = "", default: Sequence[str] = ()
) -> tuple[str, ...]:
    """The tensors of the collections and those whose name a regex finds, sorted; of `default` if neither is given."""
    collections = words(collection_names) or (() if tensor_regex.strip() else tuple(default))
    names = {name for collection in collections for name in window.tensors(collection)}
    regexes = patterns(tensor_regex)
    if regexes:
        everything = {name for collection in EVERY_COLLECTION for name in window.tensors(collection)}
        names |= {name for name in everything if any(regex.search(name) for regex in regexes)}
    return tuple(sorted(names))


def at_step(window: Window, names: Iterable[str], statistic: str) -> Iterator[Column]:
    """The columns of a statistic that have a value at `window.step`."""
    for name in names:
        for column in window.statistic(name, statistic):
            if column.steps[-1] == window.step:
                yield column
