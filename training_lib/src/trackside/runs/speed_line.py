"""The line about a run's speed in the summary of `trackside run`. Light: it reads a file that the evaluator wrote."""

from __future__ import annotations

import json

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.run_layout import PERFORMANCE_KEY
from trackside.storage.store import Store

MOST_BYTES = 4 << 20


def speed_line(store: Store) -> str:
    """Return one line about what a run can win back; "" if that is little, or not known.

    Args:
        store: The store of rule output.

    Raises:
        StorageError: The store failed.
    """
    try:
        document = json.loads(store.get(PERFORMANCE_KEY, length=MOST_BYTES))
        worker = document["workers"][0]
        line = worker["can_win_back"]
    except (KeyNotFoundError, ValueError, KeyError, IndexError, TypeError):
        return ""
    return line if isinstance(line, str) else ""
