"""Stores of runs in memory: apart from one another, and nothing else."""

from __future__ import annotations

import pytest

from trackside.contracts.errors import ConfigurationError
from trackside.imported.memory_runs import MemoryRuns


def test_each_location_has_a_store_of_its_own() -> None:
    stores = MemoryRuns()
    stores("memory://log/a/debug-output").put("x", b"1")
    assert list(stores("memory://log/a").list()) == ["debug-output/x"]
    assert list(stores("memory://log/b").list()) == list(MemoryRuns()("memory://log/a").list()) == []
    for other in ("runs/a", "s3://bucket/a", "memory://"):
        with pytest.raises(ConfigurationError, match="is not in memory"):
            stores(other)
