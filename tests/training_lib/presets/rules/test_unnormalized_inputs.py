"""unnormalized-inputs, as Amazon documents CheckInputImages: the mean of each channel over many images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.presets.rules.unnormalized_inputs import DocumentedUnnormalizedInputs, SeenImages, means_of_channels
from trackside.testing.fake_trial import WALL_TIME, fake_trial
from trackside.testing.rule_case import assert_finding

ROLE, MXNET, OWN = "Net_input_0", "hybridsequential0_input_0", "pictures"
COLLECTIONS = {"model_inputs": ("^Net_input",)}
CENTRED = np.tile([-1.0, 1.0], (300, 3, 2, 1))  # 300 images of 3 channels
BRIGHT = CENTRED + 0.5
ONE_BRIGHT = CENTRED + np.array([0.0, 0.0, 0.9])[:, None, None]


def fired(rule: DocumentedUnnormalizedInputs, tensors: dict[str, list[np.ndarray[Any, Any]]]) -> list[str]:
    """The tensors that were named, each step judged once; state is carried through its text."""
    trial = fake_trial({name: dict(enumerate(values)) for name, values in tensors.items()}, collections=COLLECTIONS)
    state, subjects = rule.start(), []
    for step in trial.steps():
        state, findings = rule.fold(rule.load(rule.dump(state)), trial.window(step, now=WALL_TIME))
        for finding in findings:
            assert_finding(finding, step=step)
            subjects.append(finding.subject)
    return subjects


RULE, NAMED = DocumentedUnnormalizedInputs(), DocumentedUnnormalizedInputs(regex="pictures")
LAST_AXIS = DocumentedUnnormalizedInputs(channel=3)
FIRES = [
    pytest.param(RULE, {ROLE: [BRIGHT, BRIGHT]}, [ROLE], id="not centred"),
    pytest.param(RULE, {ROLE: [ONE_BRIGHT, ONE_BRIGHT]}, [ROLE], id="one channel of three"),
    pytest.param(RULE, {MXNET: [BRIGHT, BRIGHT]}, [MXNET], id="under MXNet's name"),
    pytest.param(NAMED, {OWN: [BRIGHT, BRIGHT]}, [OWN], id="under a name of the user's own"),
    pytest.param(LAST_AXIS, {MXNET: [np.moveaxis(ONE_BRIGHT, 1, 3)] * 2}, [MXNET], id="channels last"),
    pytest.param(RULE, {MXNET: [np.full((600, 1, 2, 2), 255, np.uint8)]}, [MXNET], id="bytes"),
]
SILENT = [
    pytest.param(RULE, {ROLE: [CENTRED, CENTRED]}, [], id="centred"),
    pytest.param(RULE, {ROLE: [BRIGHT]}, [], id="too few images"),
    pytest.param(RULE, {OWN: [BRIGHT, BRIGHT]}, [], id="another name"),
    pytest.param(RULE, {MXNET: [BRIGHT, CENTRED - 0.4]}, [], id="centred over all batches"),
    pytest.param(RULE, {MXNET: [np.full((600, 12), 7)]}, [], id="tokens are no images"),
    pytest.param(LAST_AXIS, {ROLE: [np.moveaxis(CENTRED, 1, 3)] * 2}, [], id="channels last, centred"),
]


@pytest.mark.parametrize(("rule", "tensors", "subjects"), [*FIRES, *SILENT])
def test_rows(
    rule: DocumentedUnnormalizedInputs, tensors: dict[str, list[np.ndarray[Any, Any]]], subjects: list[str]
) -> None:
    assert fired(rule, tensors) == subjects


def test_as_many_silent_as_firing_rows() -> None:
    assert len(FIRES) == len(SILENT)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_the_mean_does_not_depend_on_how_images_are_batched(sizes: list[int]) -> None:
    means = np.arange(sum(sizes) * 2, dtype=float).reshape(-1, 2)
    seen, at = SeenImages(), 0
    for size in sizes:
        seen, at = seen.with_batch("images", means[at : at + size]), at + size
    assert seen.images == {"images": len(means)}
    assert np.array(seen.sums["images"]) == pytest.approx(means.sum(axis=0))


def test_another_number_of_channels_starts_anew() -> None:
    seen = SeenImages().with_batch("images", np.ones((4, 3))).with_batch("images", np.ones((2, 1)))
    assert (seen.images, seen.sums) == ({"images": 2}, {"images": (2.0,)})


def test_means_of_channels() -> None:
    batch = np.arange(24.0).reshape(2, 3, 2, 2)
    means = means_of_channels(batch, channel=1)
    assert means is not None
    assert means.tolist() == [[1.5, 5.5, 9.5], [13.5, 17.5, 21.5]]
    assert means_of_channels(batch, channel=4) is None
