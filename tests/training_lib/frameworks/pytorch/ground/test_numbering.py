"""The k of names, over steps that turn out to have ended earlier."""

from __future__ import annotations

import pytest

from trackside.frameworks.pytorch.ground.numbering import Numbering


def counted(*prefixes: str, numbering: Numbering) -> None:
    for prefix in prefixes:
        numbering.move_on("TRAIN", prefix, numbering.of("TRAIN", prefix) + 1)


@pytest.mark.parametrize(
    ("name", "renamed"),
    [
        pytest.param("fc_output_2", "fc_output_0", id="of-the-next-step"),
        pytest.param("activation_gradient/fc_output_3", "activation_gradient/fc_output_1", id="its-gradient"),
        pytest.param("fc_input_0", "fc_input_0", id="counted-from-0-already"),
        pytest.param("gradient/fc.weight", "gradient/fc.weight", id="not-numbered"),
        pytest.param("scalar/lr_2", "scalar/lr_2", id="a-scalar-of-the-users"),
    ],
)
def test_what_came_after_the_end_counts_from_0_in_the_next_step(name: str, renamed: str) -> None:
    numbering = Numbering()
    counted("fc_output_", "fc_output_", numbering=numbering)
    numbering.settle("TRAIN")
    counted("fc_output_", "fc_output_", "fc_input_", numbering=numbering)
    numbering.step_ended("TRAIN", keep_unsettled=True)
    assert numbering.renamed(name) == renamed
    assert (numbering.of("TRAIN", "fc_output_"), numbering.of("TRAIN", "fc_input_")) == (2, 1)
    numbering.step_ended("TRAIN")
    assert numbering.renamed(name) == name
    assert numbering.of("TRAIN", "fc_output_") == 0


def test_dropped_is_what_was_counted_since() -> None:
    numbering = Numbering()
    counted("fc_output_", numbering=numbering)
    numbering.settle("TRAIN")
    counted("fc_output_", "fc_input_", numbering=numbering)
    numbering.drop_unsettled("TRAIN")
    assert (numbering.of("TRAIN", "fc_output_"), numbering.of("TRAIN", "fc_input_")) == (1, 0)
    numbering.drop_unsettled("EVAL")
    assert numbering.of("EVAL", "fc_output_") == 0
