"""The members of a run's collections."""

from __future__ import annotations

import pytest

from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import write_collections
from trackside.trial.steps.membership import Membership


@pytest.mark.parametrize("has_file", [pytest.param(True, id="collections file"), pytest.param(False, id="no file yet")])
@pytest.mark.parametrize(
    ("names", "weights"),
    [
        pytest.param(["Net_fc.weight", "gradient/Net_fc.weight"], ["Net_fc.weight"], id="by its name"),
        pytest.param(["Net_U", "gradient/Net_U"], ["Net_U"], id="beside its gradient, whatever its name"),
        pytest.param(["Net_fc.bias", "gradient/Net_fc.bias"], [], id="the name of a bias"),
        pytest.param(["Net_U"], [], id="without a gradient"),
        pytest.param(["gradient/Net_U"], [], id="a gradient alone"),
        pytest.param(["relu_output_0", "Loss_output_0", "gradient/Net_U"], [], id="outputs"),
    ],
)
def test_a_weight_is_what_an_optimizer_holds(names: list[str], weights: list[str], has_file: bool) -> None:
    store = MemoryStore()
    if has_file:
        write_collections(store)
    membership = Membership(store, report=lambda error: None)
    membership.refresh()
    assert list(membership.members("weights", names)) == weights
    assert set(membership.members("gradients", names)) == {name for name in names if name.startswith("gradient/")}
