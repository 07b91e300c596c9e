"""feature-importance-overweight: a few features make up nearly all of a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, CALIBRATED
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import at_step, selected
from trackside.trial.window import Window


@dataclass(frozen=True)
class FeatureImportanceOverweight(Rule):
    """A few features make up nearly all of a boosted model.

    Why it matters:
        A model that uses three features of a hundred is often one that was given the answer: an id, a date, a
        column computed from the label. It does well until it is used.

    How it decides:
        On the importances that smdebug's hook saved of an XGBoost training (`feature_importance/weight/<feature>`;
        other kinds, such as gain, by `tensor_regex`), at each such step:

        1. s is the sum of the `nfeatures` largest importances over that of all.
        2. It fires where s > `threshold`.

        XGBoost leaves out features that no tree uses. A model that has no more than `nfeatures` of them fires: all
        it knows comes from them. It judges only where it was chosen. Amazon's FeatureImportanceOverweight is the same.

    Example:
        ```python
        from trackside.rules.models.feature_importance_overweight import share_of_largest

        assert share_of_largest({"f0": 8.0, "f1": 1.0, "f2": 1.0}, count=1) == 0.8
        ```

    References:
        - Kaufman, Rosset, Perlich: Leakage in data mining (2011).
        - Amazon SageMaker Debugger, built-in rule FeatureImportanceOverweight.
    """

    rule_id = "feature-importance-overweight"
    code = "TS304"
    presets = (CALIBRATED, AWS_DOCS, AWS_SDK)
    is_asked_for = True
    judges_until_found = True
    watches = ("feature_importance", "all")
    needs = (CollectionRequest("feature_importance", Schedule(10)),)
    since = "0.1"
    likely_causes = (Cause.DATA_LEAKAGE,)
    what_to_do = ("See whether the features named hold the label, or something that is known only afterwards.",)

    threshold: float = parameter(0.8, "share of the importance above which it fires", minimum=0, maximum=1)
    nfeatures: int = parameter(3, "largest importances that are summed up", minimum=1)
    tensor_regex: str = parameter(".*feature_importance/weight", "regexes of importances, separated by commas")

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker, of its most important feature."""
        found = []
        for worker, importances in self._importances(window).items():
            share = share_of_largest(importances, count=self.nfeatures)
            if share is not None and share > self.threshold:
                found.append(self._finding(window, worker, importances, share))
        return found

    def lacks(self, window: Window) -> str:
        """Name the missing input: importances."""
        return "" if self._importances(window) else "importances of features of XGBoost"

    def _importances(self, window: Window) -> dict[str, dict[str, float]]:
        """Return the importance of each feature, by worker."""
        found: dict[str, dict[str, float]] = {}
        for column in at_step(window, selected(window, tensor_regex=self.tensor_regex), "mean"):
            found.setdefault(column.worker, {})[column.tensor] = float(column.values[-1])
        return found

    def _finding(self, window: Window, worker: str, importances: Mapping[str, float], share: float) -> Finding:
        leading = sorted(importances, key=lambda name: (-importances[name], name))[: self.nfeatures]
        return finding_of(
            window,
            leading[0],
            f"share of the {self.nfeatures} most important features",
            share,
            above=self.threshold,
            worker=worker,
            statistics={name: importances[name] for name in leading[:20]},
        )


def share_of_largest(importances: Mapping[str, float], *, count: int) -> float | None:
    """Return the share of the `count` largest in the sum; None if no importance is above zero."""
    values = sorted([value for value in importances.values() if math.isfinite(value) and value > 0], reverse=True)
    return sum(values[:count]) / sum(values) if values else None
