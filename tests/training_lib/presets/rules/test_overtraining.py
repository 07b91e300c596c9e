"""overtraining, as documented: a loss that has not improved for some saved steps."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import Row, every_case
from trackside.presets.rules.overtraining import DocumentedOvertraining, best_before

LOSS = "MSELoss_output_0"


def series(*losses: float) -> dict[str, dict[int, float]]:
    """Losses at every fifth step."""
    return {LOSS: {5 * k: loss for k, loss in enumerate(losses)}}


USUAL_RULE = DocumentedOvertraining()
SHORT = DocumentedOvertraining(patience_validation=3)
FIRES = [
    Row("five steps without a better one", series(2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0), fires=(LOSS,)),
    Row("better by less than delta", series(1.0, 0.999, 0.998, 0.997, 0.996, 0.995), fires=(LOSS,)),
    Row("rising", series(1.0, 1.1, 1.2, 1.3, 1.4, 1.5), fires=(LOSS,)),
    Row("no longer a number", series(1.0, *[float("nan")] * 5), fires=(LOSS,)),
    Row("ten evaluations", series(1.0, *[1.0] * 10), fires=(LOSS,), mode="EVAL"),
    Row("a patience of the user's own", series(1.0, 1.0, 1.0, 1.0), fires=(LOSS,), mode="EVAL", rule=SHORT),
]
SILENT = [
    Row("four steps without a better one", series(2.0, 1.0, 1.0, 1.0, 1.0)),
    Row("falling", series(1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)),
    Row("slowly, but by more than delta", series(1.0, 0.997, 0.995, 0.993, 0.991, 0.989)),
    Row("never a number", series(*[float("nan")] * 8)),
    Row("nine evaluations", series(1.0, *[1.0] * 9), mode="EVAL"),
    Row("predictions have no loss to improve", series(1.0, *[1.0] * 20), mode="PREDICT"),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=30), st.integers(1, 8), st.floats(0, 1))
def test_the_best_is_older_than_the_patience_and_beaten_by_none(
    losses: list[float], patience: int, delta: float
) -> None:
    best = best_before(np.array(losses), patience=patience, delta=delta)
    newest, earlier = losses[-patience:], losses[:-patience]
    if best is not None:
        assert losses[best] == min(earlier)
        assert min(newest) >= losses[best] - delta
    elif earlier:
        assert min(newest) < min(earlier) - delta
