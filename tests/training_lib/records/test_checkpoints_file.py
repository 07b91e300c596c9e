"""The list of checkpoints: a round trip, the golden file, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run_layout import checkpoints_key
from trackside.records.checkpoints_file import (
    MOST_CHECKPOINTS,
    checkpoint_workers,
    decode_checkpoints,
    encode_checkpoints,
    read_checkpoints,
)
from trackside.storage.memory import MemoryStore

GOLDEN = Path(__file__).parent / "golden" / "checkpoints.json"
LIST = (Checkpoint(449, "/out/checkpoint-450/model.safetensors"), Checkpoint(499, "/out/Größe.pt", has_model=False))

lists = st.lists(st.builds(Checkpoint, st.integers(0, 2**53), st.text(max_size=30), st.booleans()), max_size=9)


def test_version_1_never_changes() -> None:
    assert decode_checkpoints(GOLDEN.read_bytes(), key="k") == LIST
    assert encode_checkpoints(LIST) == GOLDEN.read_bytes()


@given(lists)
def test_a_list_survives(listed: list[Checkpoint]) -> None:
    assert decode_checkpoints(encode_checkpoints(listed), key="k") == tuple(listed)


def test_only_the_newest_are_kept() -> None:
    listed = [Checkpoint(step, str(step)) for step in range(MOST_CHECKPOINTS + 5)]
    assert decode_checkpoints(encode_checkpoints(listed), key="k") == tuple(listed[5:])


def test_fields_that_are_not_known_are_passed_over() -> None:
    data = GOLDEN.read_bytes().replace(b'"step": 449', b'"step": 449, "bytes": 3').replace(b"{", b'{"later": [], ', 1)
    assert decode_checkpoints(data, key="k") == LIST


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version": 2, "checkpoints": []}',
        b'{"version": 1, "checkpoints": [{"step": -1, "path": "a"}]}',
        b'{"version": 1, "checkpoints": [{"step": 1, "path": 7}]}',
        b"\xff",
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError, match="k, byte"):
        decode_checkpoints(data, key="k")


def test_each_worker_has_its_own() -> None:
    store = MemoryStore()
    assert (checkpoint_workers(store), read_checkpoints(store, "worker_0")) == ((), ())
    store.put(checkpoints_key("worker_1"), encode_checkpoints(LIST))
    assert (checkpoint_workers(store), read_checkpoints(store, "worker_1")) == (("worker_1",), LIST)
