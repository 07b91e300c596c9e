"""unnormalized-inputs: what Amazon documents as CheckInputImages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.findings import finding_of
from trackside.rules.rule import FoldingRule, parameter
from trackside.rules.selection import EVERY_COLLECTION, selected, values_at_step
from trackside.trial.window import Window

_DEFAULT_REGEX = ".*hybridsequential0_input_0"  # the names of Amazon's own fork of MXNet
_ROLE = "model_inputs"


@dataclass(frozen=True)
class SeenImages:
    """The images so far, by tensor.

    images  number of images
    sums    sum of their means, by channel
    """

    images: Mapping[str, int] = field(default_factory=dict)
    sums: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def with_batch(self, tensor: str, means: NDArray[np.float64]) -> SeenImages:
        """Return these and further images.

        `means`: shape (images, channels); another number of channels starts anew.
        """
        before = self.sums.get(tensor, ())
        starts_anew = len(before) != means.shape[1]
        images = (0 if starts_anew else self.images.get(tensor, 0)) + len(means)
        sums = means.sum(axis=0) + (0.0 if starts_anew else np.array(before))
        return SeenImages({**self.images, tensor: images}, {**self.sums, tensor: tuple(sums.tolist())})


@dataclass(frozen=True)
class DocumentedUnnormalizedInputs(FoldingRule):
    """The mean of the input images, channel by channel, is far from zero.

    Documented, as CheckInputImages: after `threshold_samples` images, fires where |mean| of a channel is more than
    `threshold_mean`; `channel` is the axis of the channels. The text wants unit variance too, and has no parameter for
    it: it is not judged. The mean is that of all images since the first saved step. Images are tensors of four
    dimensions or more, the first of which counts them. Left at its default, `regex` means the inputs of the model,
    under any name; names that match count too. Images scaled to between 0 and 1 fire, and train well.
    """

    rule_id = "unnormalized-inputs"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = (CollectionRequest(_ROLE, Schedule(500)),)
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.UNNORMALIZED_INPUTS,)
    what_to_do = ("Subtract the training data's mean from the inputs, channel by channel.",)

    threshold_mean: float = parameter(0.2, "absolute mean of a channel above which it fires", minimum=0)
    threshold_samples: int = parameter(500, "images that must have come", minimum=1)
    regex: str = parameter(_DEFAULT_REGEX, "regexes of input images, separated by commas")
    channel: int = parameter(1, "axis of the channels in the shape of a batch", minimum=1)

    def start(self) -> SeenImages:
        """Return the state without an image."""
        return SeenImages()

    def fold(self, state: SeenImages, window: Window) -> tuple[SeenImages, Iterable[Finding]]:
        """Add the images of this step."""
        judged = {}
        for saved in values_at_step(window, self._names(window)):
            means = means_of_channels(saved.value, channel=self.channel)
            if means is not None:
                state, judged[saved.tensor] = state.with_batch(saved.tensor, means), saved.worker
        found = [self._judge(state, window, tensor, worker) for tensor, worker in judged.items()]
        return state, [finding for finding in found if finding is not None]

    def lacks(self, window: Window) -> str:
        """Name the missing input: images."""
        saved = values_at_step(window, self._names(window))
        has_images = any(means_of_channels(each.value, channel=self.channel) is not None for each in saved)
        return "" if has_images else f"{self.threshold_samples} input images"

    def _names(self, window: Window) -> tuple[str, ...]:
        return selected(window, collection_names=_ROLE if self.regex == _DEFAULT_REGEX else "", tensor_regex=self.regex)

    def _judge(self, seen: SeenImages, window: Window, tensor: str, worker: str) -> Finding | None:
        if seen.images[tensor] < self.threshold_samples:
            return None
        means = np.abs(np.array(seen.sums[tensor]) / seen.images[tensor])
        largest = float(np.max(means)) if np.isfinite(means).all() else math.inf
        if not largest > self.threshold_mean:
            return None
        return finding_of(
            window,
            tensor,
            "largest absolute mean of a channel",
            largest,
            above=self.threshold_mean,
            worker=worker,
            statistics={"images": float(seen.images[tensor])},
        )


def means_of_channels(batch: NDArray[np.generic], *, channel: int) -> NDArray[np.float64] | None:
    """Return the mean of each channel of each image, shape (images, channels); None for inputs that are no images."""
    if batch.ndim < 4 or channel >= batch.ndim or not batch.size or batch.dtype.kind not in "fiu":
        return None
    images = np.moveaxis(batch, channel, 1)
    flat = images.reshape(len(images), images.shape[1], -1).astype(np.float64)
    return np.asarray(flat.mean(axis=2), np.float64)
