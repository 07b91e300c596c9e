"""What is captured of each run of the corpus: what the rules ask for, and every loss."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.detection.presets import rules_of
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import PRESETS, RuleRequest

ALL_KINDS = ("weights", "biases", "gradients", "inputs", "outputs", "labels", "predictions")


def capture_request(*, interval: int | None = None, budget: float = 1.0) -> CaptureRequest:
    """What the rules of all presets ask for, every loss, and with `interval` all kinds of tensors so often besides.

    `budget` is what the always-on statistics may cost, as a share of the time. By default it does not bind: a corpus is
    to say the same on every machine, and the steps of these small networks take less time than any measurement.
    """
    merged = CaptureRequest((CollectionRequest("losses", Schedule(1)),), statistics=StatisticsRequest(budget=budget))
    for preset in PRESETS:
        merged = merged.merged_with(built_in_catalogue().capture_request(RuleRequest(rules_of(preset))))
    if interval is not None:
        kinds = tuple(CollectionRequest(name, Schedule(interval)) for name in ALL_KINDS)
        merged = merged.merged_with(CaptureRequest(kinds))
    # Sorted: stored runs are found by this request, whatever the order of the rules that ask for the same.
    return replace(merged, collections=tuple(sorted(merged.collections, key=lambda collection: collection.name)))
