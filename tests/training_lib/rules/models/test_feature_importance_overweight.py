"""feature-importance-overweight: on the importances that smdebug's hook saves of XGBoost."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import Row, every_case
from trackside.rules.models.feature_importance_overweight import FeatureImportanceOverweight, share_of_largest
from trackside.testing.rule_case import Tensors

COLLECTIONS = {"feature_importance": ("^feature_importance/.*",)}
USUAL_RULE = FeatureImportanceOverweight()
GAIN = FeatureImportanceOverweight(tensor_regex="feature_importance/gain")
ONE = FeatureImportanceOverweight(nfeatures=1, threshold=0.5)


def importances(*values: float, kind: str = "weight") -> Tensors:
    """Those of the features f0, f1, ... at one round."""
    return {f"feature_importance/{kind}/f{k}": {0: value} for k, value in enumerate(values)}


FIRST, SECOND = "feature_importance/weight/f0", "feature_importance/weight/f1"
FIRES = [
    Row("three of six", importances(0.3, 0.3, 0.3, 0.05, 0.03, 0.02), fires=(FIRST,), collections=COLLECTIONS),
    Row("one of many", importances(0.05, *[0.9], *[0.01] * 5), fires=(SECOND,)),
    Row("two features at all", importances(0.5, 0.5), fires=(FIRST,)),
    Row("gain", importances(0.9, 0.1, kind="gain"), fires=("feature_importance/gain/f0",), rule=GAIN),
    Row("one of two", importances(0.6, 0.4), fires=(FIRST,), rule=ONE),
]
SILENT = [
    Row("even", importances(*[0.1] * 10), collections=COLLECTIONS),
    Row("the threshold itself", importances(3.0, 3.0, 2.0, 1.0, 1.0)),
    Row("no importances", {"train-rmse": {0: 1.0}}),
    Row("gain, where weight is looked at", importances(0.9, 0.1, kind="gain")),
    Row("half of two", importances(0.5, 0.5), rule=ONE),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


def test_without_importances_it_says_what_it_lacks() -> None:
    assert USUAL_RULE.lacks(SILENT[2].window)
    assert not USUAL_RULE.lacks(SILENT[0].window)


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=12), st.integers(1, 12))
def test_a_share_grows_with_the_count_up_to_all(values: list[float], count: int) -> None:
    given_importances = {str(k): value for k, value in enumerate(values)}
    share, more = (share_of_largest(given_importances, count=n) for n in (count, count + 1))
    assert share is not None
    assert more is not None
    assert 0 < share <= more <= 1 + 1e-12
    assert count < len(values) or math.isclose(share, 1)


def test_nothing_has_no_share() -> None:
    assert share_of_largest({"f0": 0.0, "f1": math.nan}, count=1) is None
