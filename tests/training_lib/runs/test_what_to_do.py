from __future__ import annotations

import pytest

from tests.training_lib.local.verdicts import issue
from trackside.runs.what_to_do import steps_to_try

ZERO_GRAD = ("Call optimizer.zero_grad() in each step.", "Call optimizer.zero_grad() in each step, before backward.")
LOWER = (
    "Divide the learning rate by ten, or warm it up over the first steps.",
    "Lower the learning rate by a factor of ten, or warm it up over the first steps.",
)
STUCK = (LOWER[0], "If the loss rises, divide the learning rate by ten. If it never moved, multiply it by ten.")
CLIPPED = (
    "Clip the gradient norm (torch.nn.utils.clip_grad_norm_) and lower the learning rate.",
    "Clip the gradient by its norm before the optimizer step.",
    LOWER[1],
)
OTHERS = ("Replace sigmoid by ReLU.", "Normalise between layers.")
OPPOSITE = ("Divide the learning rate by ten.", "Multiply the learning rate by ten.")


@pytest.mark.parametrize(
    ("advice", "kept"),
    [
        pytest.param(ZERO_GRAD, ZERO_GRAD[:1], id="one-in-more-words"),
        pytest.param(LOWER, LOWER[:1], id="one-in-other-words"),
        pytest.param(STUCK, STUCK[:1], id="one-act-among-others"),
        pytest.param(CLIPPED, CLIPPED[:1], id="two-acts-in-one"),
        pytest.param(CLIPPED[1:], CLIPPED[1:], id="two-acts"),
        pytest.param(OPPOSITE, OPPOSITE, id="the-opposite"),
        pytest.param(OTHERS, OTHERS, id="another"),
    ],
)
def test_no_advice_twice(advice: tuple[str, ...], kept: tuple[str, ...]) -> None:
    assert steps_to_try(issue(what_to_do=advice), ()) == kept
