"""A run in memory of recorded numbers, saved values and facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trackside.contracts.model_facts import ModelFacts
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_facts, write_statistics, write_tensors
from trackside.trial.trial import Trial


def recorded_trial(
    numbers: Mapping[str, Mapping[str, Mapping[int, float]]],
    *,
    saved: Mapping[int, Mapping[str, Any]] | None = None,
    facts: ModelFacts | None = None,
) -> Trial:
    """Return a run that has ended: numbers by tensor, statistic and step, and saved values by step and tensor."""
    store, statistics = MemoryStore(), MemoryStore()
    write_facts(store, facts)
    write_collections(store)
    for step, tensors in (saved or {}).items():
        write_tensors(store, step, tensors)
    write_statistics(statistics, numbers)
    end_run(store)
    trial = Trial(store, statistics)
    trial.refresh()
    return trial
