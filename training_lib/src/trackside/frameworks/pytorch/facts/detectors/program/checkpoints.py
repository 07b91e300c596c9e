"""The content of the script's checkpoints, compared with the models."""

from __future__ import annotations

from trackside.contracts.observations import CHECKPOINTS, CheckpointFacts
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.shared.detectors import sees


@sees(CHECKPOINTS)
def checkpoints(watch: Watch) -> CheckpointFacts | None:
    """Return the comparison of all checkpoints so far; None before the first."""
    return None if watch.checkpoints is None else watch.checkpoints.facts()
