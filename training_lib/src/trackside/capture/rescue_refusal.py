"""A note in the run that its training never goes back, where the user has asked for that."""

from __future__ import annotations

import sys
from collections.abc import Callable

from trackside.contracts.run.rescue import RescueRecord, RescueState
from trackside.contracts.run_layout import RESCUE
from trackside.environment import RescueEnvironment
from trackside.storage.store import Store

_ROOM = "trackside.frameworks.pytorch.rescue.rescue"  # loaded with PyTorch, if the user has asked for it
_REASON = "only trainings by PyTorch, and by Keras on it, go back"


def refuse_rescue(open_folder: Callable[[str], Store], worker: str) -> None:
    """Store a refusal if this process was asked for rescues and has nothing that makes them.

    Args:
        open_folder: Opens the store of a folder of the run.
        worker: Name of this worker.

    Raises:
        StorageError: It cannot be stored.
    """
    if RescueEnvironment.read().is_on and _ROOM not in sys.modules:
        folder, key = open_folder(RESCUE), f"{worker}.json"
        if not any(folder.list(key)):  # else of another process of the run, which may go back
            folder.put(key, RescueRecord(RescueState.REFUSED, _REASON).to_json().encode())
