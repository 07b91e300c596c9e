"""Samples of a machine, as they lie in the files of a run."""

from __future__ import annotations

from trackside.contracts.run_layout import SYSTEM_PREFIX
from trackside.records.machine.machine_samples import SUFFIX
from trackside.records.machine.machine_samples_reader import decode_machine_samples
from trackside.records.machine.system_metrics_file import SystemSample, decode_system_metrics
from trackside.storage.store import Store


def samples_in(store: Store) -> list[SystemSample]:
    """All samples of a run's profiles, oldest first, those of single cores too."""
    found: list[SystemSample] = []
    for key in store.list(SYSTEM_PREFIX):
        decode = decode_machine_samples if SUFFIX in key else decode_system_metrics
        found += decode(store.get(key), key=key)
    return sorted(found, key=lambda sample: sample.timestamp)
