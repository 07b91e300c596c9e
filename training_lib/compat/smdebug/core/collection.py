"""Groups of tensors that are saved and analysed together. Pure data, JSON both ways."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from smdebug import not_offered
from smdebug.core.modes import ModeKeys
from smdebug.core.reduction_config import ReductionConfig
from smdebug.core.save_config import SaveConfig, SaveConfigMode
from smdebug.exceptions import SMDebugTypeError, SMDebugValueError
from trackside.contracts.name_pattern import name_pattern, problem_of


class CollectionKeys:
    """Collection names as constants: `CollectionKeys.LOSSES == "losses"`."""

    DEFAULT = "default"
    ALL = "all"
    INPUTS = "inputs"
    OUTPUTS = "outputs"
    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    LOSSES = "losses"
    BIASES = "biases"
    LAYERS = "layers"
    SM_METRICS = "sm_metrics"
    OPTIMIZER_VARIABLES = "optimizer_variables"
    TENSORFLOW_SUMMARIES = "tensorflow_summaries"

    METRICS = "metrics"
    HYPERPARAMETERS = "hyperparameters"
    PREDICTIONS = "predictions"
    LABELS = "labels"
    FEATURE_IMPORTANCE = "feature_importance"
    AVERAGE_SHAP = "average_shap"
    FULL_SHAP = "full_shap"
    TREES = "trees"


_EVERYWHERE = {"all", "default"}
DEFAULT_PYTORCH_COLLECTIONS = {*_EVERYWHERE, "weights", "biases", "gradients", "losses"}
DEFAULT_MXNET_COLLECTIONS = set(DEFAULT_PYTORCH_COLLECTIONS)
DEFAULT_TF_COLLECTIONS = {
    *DEFAULT_PYTORCH_COLLECTIONS,
    "metrics",
    "inputs",
    "outputs",
    "layers",
    "sm_metrics",
    "optimizer_variables",
}
DEFAULT_XGBOOST_COLLECTIONS = {
    *_EVERYWHERE,
    "hyperparameters",
    "predictions",
    "labels",
    "feature_importance",
    "average_shap",
    "full_shap",
    "trees",
}

# What a hook does with collections of numbers, and of summaries that TensorFlow makes.
SCALAR_COLLECTIONS = {"losses", "metrics", "feature_importance", "average_shap", "sm_metrics"}
SUMMARIES_COLLECTIONS = {"tensorflow_summaries"}
NON_REDUCTION_COLLECTIONS = SCALAR_COLLECTIONS | SUMMARIES_COLLECTIONS
NON_HISTOGRAM_COLLECTIONS = SCALAR_COLLECTIONS | SUMMARIES_COLLECTIONS
SM_METRIC_COLLECTIONS = {"losses", "metrics", "sm_metrics"}


def checked_regexes(regexes: list[str] | None) -> list[str] | None:
    """Return the regexes.

    Raises:
        SMDebugValueError: Some are no regular expressions. Lists each.
    """
    problems = []
    for regex in regexes or ():
        try:
            name_pattern(regex)
        except re.error as error:
            problems.append(f"{regex!r} {problem_of(error)}.")
    if problems:
        raise SMDebugValueError("\n".join(problems))
    return regexes


class Collection:
    """A named group of tensors.

    A tensor belongs to it if it is named, or if any of the regexes is found in its name.
    """

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        name: str,
        include_regex: list[str] | None = None,
        tensor_names: list[str] | set[str] | None = None,
        reduction_config: ReductionConfig | None = None,
        save_config: SaveConfig | dict[ModeKeys, SaveConfigMode] | None = None,
        save_histogram: bool = True,
    ) -> None:
        self.name = name
        self.include_regex = [] if include_regex is None else include_regex
        self.tensor_names = tensor_names
        self.reduction_config = reduction_config
        self.save_config = save_config
        self.save_histogram = save_histogram

    @property
    def tensor_names(self) -> set[str]:
        return self._tensor_names

    @tensor_names.setter
    def tensor_names(self, tensor_names: list[str] | set[str] | None) -> None:
        if not isinstance(tensor_names, (list, set, type(None))):
            raise SMDebugTypeError(f"tensor_names can only be a list or a set, not {type(tensor_names).__name__}.")
        self._tensor_names = tensor_names if isinstance(tensor_names, set) else set(tensor_names or ())

    @property
    def reduction_config(self) -> ReductionConfig | None:
        return self._reduction_config

    @reduction_config.setter
    def reduction_config(self, reduction_config: ReductionConfig | None) -> None:
        if not isinstance(reduction_config, (ReductionConfig, type(None))):
            raise SMDebugTypeError(f"reduction_config={reduction_config!r} must be a ReductionConfig.")
        self._reduction_config = reduction_config

    @property
    def save_config(self) -> SaveConfig | None:
        return self._save_config

    @save_config.setter
    def save_config(self, save_config: SaveConfig | dict[ModeKeys, SaveConfigMode] | None) -> None:
        if isinstance(save_config, dict):
            save_config = SaveConfig(mode_save_configs=save_config)
        if not isinstance(save_config, (SaveConfig, type(None))):
            raise SMDebugTypeError(f"save_config={save_config!r} must be a SaveConfig, or a dict of SaveConfigMode.")
        self._save_config = save_config

    def include(self, t: str | list[Any]) -> None:
        """Add a regex, or several.

        Raises:
            SMDebugTypeError: It is neither a regex nor a list.
            SMDebugValueError: It is no regular expression.
        """
        if isinstance(t, list):
            for each in t:
                self.include(each)
        elif isinstance(t, str):
            self.include_regex += checked_regexes([t]) or []
        else:
            raise SMDebugTypeError(f"Only a regex or a list of them can be included, not {type(t).__name__}.")

    def has_tensor_name(self, tname: str) -> bool:
        return tname in self._tensor_names

    def add_tensor_name(self, tname: str) -> None:
        self._tensor_names.add(tname)

    def remove_tensor_name(self, tname: str) -> None:
        self._tensor_names.discard(tname)

    def to_json_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "include_regex": self.include_regex,
            "tensor_names": sorted(self._tensor_names),
            "reduction_config": self._reduction_config.to_json_dict() if self._reduction_config else None,
            "save_config": self._save_config.to_json_dict() if self._save_config else None,
            "save_histogram": self.save_histogram,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_json_dict())

    @classmethod
    def from_dict(cls, params: Mapping[str, Any]) -> Collection:
        if not isinstance(params, dict):
            raise SMDebugValueError(f"params={params!r} must be a dict.")
        return cls(
            name=params.get("name"),  # type: ignore[arg-type]  # the original takes None too
            include_regex=params.get("include_regex") or [],
            tensor_names=set(params.get("tensor_names") or ()),
            reduction_config=ReductionConfig.from_dict(params.get("reduction_config")),
            save_config=SaveConfig.from_dict(params.get("save_config")),
            save_histogram=params.get("save_histogram", True),
        )

    @classmethod
    def from_json(cls, json_str: str) -> Collection:
        return cls.from_dict(json.loads(json_str))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Collection):
            return NotImplemented
        return self.to_json_dict() == other.to_json_dict()

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return str(self.to_json_dict())

    def __repr__(self) -> str:
        return f"<class Collection: name={self.name}>"


__getattr__ = not_offered.attribute_of(__name__)
