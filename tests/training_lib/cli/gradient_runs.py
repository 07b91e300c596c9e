"""Runs with one gradient, below the folder that a test works in."""

from __future__ import annotations

from trackside.contracts.run_layout import RunLocation
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

G, LOSS = "gradient/Net_fc.weight", "CrossEntropyLoss_output_0"


def write_run(name: str, gradients: list[float], *, ended: bool = True) -> None:
    """A gradient of these values, every ten steps, and a loss of 1."""
    store = LocalStore(RunLocation(f".trackside/runs/{name}").tensors)
    write_collections(store)
    for step, value in enumerate(gradients):
        write_tensors(store, 10 * step, {G: value, LOSS: 1.0})
    if ended:
        end_run(store)
