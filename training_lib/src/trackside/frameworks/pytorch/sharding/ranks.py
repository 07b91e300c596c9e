"""Which rank this process is, and how all ranks count on from the same step after an interruption.

What each rank finds in the run may differ, for they are killed at different moments. Rank 0 looks for all and tells the
others through the key-value store that `torch.distributed` has open anyway: no collective, nothing on a device.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from trackside.capture.session import Rank
from trackside.environment import CaptureEnvironment
from trackside.records.state_file import TrainingState, decode_states, encode_states

KEY = "trackside/earlier-state"
POLL_SECONDS = 0.02
WAIT_SECONDS = 8.0


def rank_of_this_process(environment: CaptureEnvironment) -> Rank:
    """Return which worker of how many this is: as `torch.distributed` knows it, else the environment."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    return Rank(environment.rank, environment.world_size)


def agreed(rank: Rank, find: Callable[[], TrainingState | None]) -> TrainingState | None:
    """What rank 0 finds, in every rank; what `find` finds where ranks cannot talk to each other.

    Errors: `OSError` of `find`, in rank 0; `TimeoutError`, an `OSError` too, where rank 0 has not told yet.
    """
    store = _key_value_store() if rank.of > 1 else None
    if store is None:
        return find()
    if rank.number == 0:
        state = find()
        store.set(KEY, encode_states([state] if state else []))
        return state
    deadline = time.monotonic() + WAIT_SECONDS
    while not store.check([KEY]):  # `get` alone would block whoever else uses the store
        if time.monotonic() > deadline:
            raise TimeoutError("rank 0 has not told yet where an earlier process of this run stopped")
        time.sleep(POLL_SECONDS)
    states = decode_states(bytes(store.get(KEY)), key=KEY)
    return states[-1] if states else None


def _key_value_store() -> Any:
    """The store of the default process group; None where there is none, or this PyTorch does not show it."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    find = getattr(distributed.distributed_c10d, "_get_default_store", None)
    store = find() if find else None
    if store is None or not hasattr(store, "check"):
        return None
    return store
