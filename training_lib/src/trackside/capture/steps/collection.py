"""Collections of each tensor (by smdebug's regexes, the user's own, the adapter), and the parts that are saved."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trackside.contracts.capture_request import (
    ALL,
    BUILT_IN_COLLECTIONS,
    KNOWN_COLLECTIONS,
    CaptureRequest,
    CollectionRequest,
)
from trackside.contracts.name_pattern import name_pattern

# smdebug 1.0.34, PyTorch; matched anywhere in the name (re.search).
BUILT_IN_REGEX = {
    "losses": r"[Ll]oss_(?!input).*output",
    "weights": r"^(?!gradient).*weight",
    "biases": r"^(?!gradient).*bias",
    "gradients": r"^gradient",
}
# The same for Keras, as smdebug 1.0.34 has its hook of TensorFlow: there a bias is a weight by its name.
KERAS_REGEX = {
    "losses": r"^(val_)?loss$",
    "weights": r"^(?!gradient)(.*/)?weights/(?!.*bias)",
    "biases": r"^(?!gradient)(.*/)?weights/.*bias",
    "gradients": r"^gradient",
}
# What belongs to a kind by the beginning of its name. smdebug has none of these.
PREFIXES = {
    "raw_gradients": "raw_gradient/",
    "activation_gradients": "activation_gradient/",
    "buffers": "buffer/",
    "optimizer_variables": "optimizer/",
    "hyperparameters": "hyperparameters/",
    "metrics": "metrics/",
    "scalars": "scalar/",
    "feature_importance": "feature_importance/",
    "trees": "trees/",
    "average_shap": "average_shap/",
    "full_shap": "full_shap/",
}
# Kinds that cost so much that only a request by their name gathers them.
ONLY_BY_NAME = frozenset({"raw_gradients", "activation_gradients", "average_shap", "full_shap"})
ANYTHING = frozenset(BUILT_IN_COLLECTIONS) - ONLY_BY_NAME
# The kinds of tensors that a hook of smdebug for PyTorch has.
OF_SMDEBUG = frozenset({*KNOWN_COLLECTIONS, "inputs", "outputs", "labels", "predictions"})

# smdebug: never reduced and no histograms.
NON_REDUCTION = frozenset({"losses", "metrics", "scalars"})

_NEEDS_OTHER_PREFIXES = frozenset(PREFIXES) | {ALL}


def kinds_of_name(tensor_name: str) -> frozenset[str]:
    """Return the kinds that a tensor of that name may be of. An adapter gathers tensors by kind."""
    for kind, prefix in PREFIXES.items():
        if tensor_name.startswith(prefix):
            return frozenset({kind})
    if tensor_name.startswith("gradient/"):
        return frozenset({"gradients"})
    if re.search(r"_output_\d+$", tensor_name):
        return frozenset({"losses", "outputs"})
    if re.search(r"_input_\d+$", tensor_name):
        return frozenset({"inputs", "labels", "predictions"})
    return frozenset({"weights", "biases"})


@dataclass(frozen=True)
class Saved:
    """The parts of one tensor that one step saves.

    - `is_raw`: the tensor itself
    - `reductions`: its reductions, by smdebug's tokens
    - `has_shape`: its shape
    - `histogram_of`: the collection that names its histogram; "" for no histogram
    """

    is_raw: bool = True
    reductions: tuple[str, ...] = ()
    has_shape: bool = False
    histogram_of: str = ""


class Membership:
    """The collections of each tensor, and the parts of it that are saved, each computed once per name."""

    def __init__(self, request: CaptureRequest, built_in: Mapping[str, str] | None = None) -> None:
        """Set the regexes: those of the request, and `built_in`; None for smdebug's, as it has them for PyTorch."""
        requested = {c.name: c for c in request.collections}
        built_in = _built_in_regexes(request) if built_in is None else built_in
        self.regexes: dict[str, tuple[str, ...]] = {
            name: _regexes(built_in.get(name, ""), requested.get(name))
            for name in dict.fromkeys((*KNOWN_COLLECTIONS, *requested))
        }
        self.requested = requested
        self._compiled = {name: [name_pattern(regex) for regex in regexes] for name, regexes in self.regexes.items()}
        self._known: dict[str, frozenset[str]] = {}
        self._saved: dict[tuple[str, frozenset[str]], Saved] = {}
        self._raw: dict[tuple[tuple[str, ...], frozenset[str]], bool] = {}

    def of(self, tensor_name: str) -> frozenset[str]:
        """Return the collections of `tensor_name`, without those that only an adapter knows."""
        known = self._known.get(tensor_name)
        if known is None:
            known = self._known[tensor_name] = frozenset(
                name for name, regexes in self._compiled.items() if any(r.search(tensor_name) for r in regexes)
            ) | {name for name, c in self.requested.items() if tensor_name in c.tensor_names}
        return known

    def saved(self, tensor_name: str, due: frozenset[str], collections: frozenset[str] = frozenset()) -> Saved:
        """Return the parts of the tensor that are saved on a step at which the collections `due` are due.

        smdebug's rule: everything that any of its due collections requests, once. `collections` are those that the
        adapter knows. A tensor in none of them was given by the user and is saved as it is.
        """
        if "scalars" in collections:  # the user's own number: smdebug writes it as it is
            return Saved()
        mine = (self.of(tensor_name) | collections) & due
        saved = self._saved.get((tensor_name, mine))
        if saved is None:
            requests = [c for name, c in self.requested.items() if name in mine]
            saved = self._saved[tensor_name, mine] = _union(requests) if requests else Saved()
        return saved

    def are_raw(self, names: tuple[str, ...], due: frozenset[str], collections: frozenset[str]) -> bool:
        """Return True if these tensors are saved, and no reductions of them. Arguments as of `saved`."""
        is_raw = self._raw.get((names, due))
        if is_raw is None:
            self._raw.clear()  # one row of a run at a time
            each = [self.saved(name, due, collections) for name in names]
            is_raw = all(saved.is_raw and not saved.reductions for saved in each)
            self._raw[names, due] = is_raw
        return is_raw


def _union(collections: Iterable[CollectionRequest]) -> Saved:
    is_raw = has_shape = False
    reductions: dict[str, None] = {}
    histogram_of = ""
    for collection in collections:
        is_reduced = collection.name not in NON_REDUCTION
        is_raw = is_raw or collection.saves_raw_tensor or not is_reduced
        if is_reduced:
            reductions.update(dict.fromkeys(collection.reductions))
            has_shape = has_shape or collection.save_shape
            histogram_of = histogram_of or (collection.name if collection.save_histogram else "")
    return Saved(is_raw, tuple(reductions), has_shape, histogram_of)


def _regexes(built_in: str, collection: CollectionRequest | None) -> tuple[str, ...]:
    own = collection.include_regex if collection else ()
    every = (".*",) if collection and collection.name == ALL else ()
    return tuple(dict.fromkeys(filter(None, (built_in, *every, *own))))


def _built_in_regexes(request: CaptureRequest) -> dict[str, str]:
    """Return smdebug's regexes. If a run also saves kinds that smdebug lacks, weights and biases exclude those."""
    prefixes = {name: f"^{prefix}" for name, prefix in PREFIXES.items()}
    is_original = all(c.name not in _NEEDS_OTHER_PREFIXES and not c.include_regex for c in request.collections)
    if is_original:
        return BUILT_IN_REGEX | prefixes
    others = "|".join(["gradient", *(p for p in PREFIXES.values())])
    excluding = {"weights": rf"^(?!{others}).*weight", "biases": rf"^(?!{others}).*bias"}
    return BUILT_IN_REGEX | excluding | prefixes
