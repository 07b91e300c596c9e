"""Read and write `checkpoints/<worker>.json`: the files to which a worker's script wrote checkpoints.

{"version": 1, "checkpoints": [{"step": 449, "path": "/runs/out/checkpoint-450/model.safetensors", "has_model": true}]}

Oldest first, each path once, with the step at which it was written last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run_layout import CHECKPOINTS_PREFIX, checkpoints_key
from trackside.records.untrusted_json import MOST_JSON_BYTES, UntrustedJson
from trackside.storage.store import Store

VERSION = 1
MOST_CHECKPOINTS = 256  # the newest ones


def encode_checkpoints(checkpoints: Sequence[Checkpoint]) -> bytes:
    """Return the file's content: the newest `MOST_CHECKPOINTS`."""
    listed = [vars(one) for one in checkpoints[-MOST_CHECKPOINTS:]]
    return json.dumps({"version": VERSION, "checkpoints": listed}).encode("ascii")


def decode_checkpoints(data: bytes, *, key: str) -> tuple[Checkpoint, ...]:
    """Return the checkpoints, oldest first. Unknown fields are ignored.

    Raises:
        RecordError: The file is no such list.
    """
    document = UntrustedJson.parse(data, key=key)
    if document.count("version") != VERSION:
        raise document.error(f"is of version {document.count('version')}; this Trackside reads {VERSION}")
    found = document.objects("checkpoints")[:MOST_CHECKPOINTS]
    return tuple(
        Checkpoint(each.count("step"), each.text("path"), each.boolean("has_model", default=True)) for each in found
    )


def read_checkpoints(store: Store, worker: str) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a worker, oldest first; () if it wrote none.

    Raises:
        RecordError: The file is damaged.
        StorageError: The store failed.
    """
    key = checkpoints_key(worker)
    try:
        return decode_checkpoints(store.get(key, length=MOST_JSON_BYTES + 1), key=key)
    except KeyNotFoundError:
        return ()


def checkpoint_workers(store: Store) -> tuple[str, ...]:
    """Return the workers with a list of checkpoints.

    Raises:
        StorageError: The store failed.
    """
    names = (key.removeprefix(CHECKPOINTS_PREFIX).removesuffix(".json") for key in store.list(CHECKPOINTS_PREFIX))
    return tuple(name for name in names if name and "/" not in name)
