"""The rank of this process, and the step from which all ranks continue after an interruption.

Ranks may find different positions in the run, because they are killed at different moments. Rank 0 looks for all and
passes its result on through the key-value store that `torch.distributed` has open anyway: no collective, nothing on a
device.
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
    """Return the rank of this process and the number of ranks, from `torch.distributed`, else the environment."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    return Rank(environment.rank, environment.world_size)


def agreed(rank: Rank, find: Callable[[], TrainingState | None]) -> TrainingState | None:
    """Return the state that rank 0 finds, in every rank; the result of `find` if ranks have no common store.

    Errors: `OSError` of `find`, in rank 0; `TimeoutError`, an `OSError` too, if rank 0 has not stored it in time.
    """
    store = key_value_store() if rank.of > 1 else None
    if store is None:
        return find()
    if rank.number == 0:
        state = find()
        store.set(KEY, encode_states([state] if state else []))
        return state
    deadline = time.monotonic() + WAIT_SECONDS
    while not store.check([KEY]):  # `get` alone would block other users of the store
        if time.monotonic() > deadline:
            raise TimeoutError("rank 0 has not sent yet where an earlier process of this run stopped")
        time.sleep(POLL_SECONDS)
    states = decode_states(bytes(store.get(KEY)), key=KEY)
    return states[-1] if states else None


def key_value_store() -> Any:
    """Return the store of the default process group; None without one, or if this PyTorch does not show it."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    find = getattr(distributed.distributed_c10d, "_get_default_store", None)
    store = find() if find else None
    if store is None or not hasattr(store, "check"):
        return None
    return store
