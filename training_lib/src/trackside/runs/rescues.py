"""The rescues of a run, read from its folder."""

from __future__ import annotations

from trackside.contracts.errors import ConfigurationError, KeyNotFoundError
from trackside.contracts.run.rescue import RescueRecord
from trackside.contracts.run_layout import RESCUE, STANDING_ISSUES_KEY
from trackside.storage.store import Store


def read_rescue(run: Store) -> RescueRecord | None:
    """Return the record of the first training process that has one; None if no training went back or refused to.

    Args:
        run: The store of the run's folder.
    """
    for key in sorted(run.list(f"{RESCUE}/")):
        if key.endswith(f"/{STANDING_ISSUES_KEY}"):
            continue
        try:
            return RescueRecord.from_json(run.get(key))
        except (KeyNotFoundError, ConfigurationError):
            continue
    return None
