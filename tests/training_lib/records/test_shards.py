"""Notes of shards: written into a collections file, read back, and never trusted."""

from __future__ import annotations

import json

import pytest

from trackside.contracts.errors import RecordError
from trackside.records.collections_file import CollectionRecord, decode_collections, encode_collections
from trackside.records.shards import Shard, decode_shards

SHARDS = {"Net_weight": Shard((5, 6), (3, 0)), "Net_scalar": Shard((), ())}


def test_notes_come_back_and_the_collections_stay_what_they_were() -> None:
    records = [CollectionRecord("weights", include_regex=("weight",))]
    data = encode_collections(records, num_workers=2, shards=SHARDS)
    assert decode_shards(data, key="k") == SHARDS
    assert decode_collections(data, key="k") == decode_collections(encode_collections(records, num_workers=2), key="k")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(encode_collections([], num_workers=1), id="no-notes"),
        pytest.param(b'{"collections": {}}', id="no-meta"),
        pytest.param(b'{"collections": {}, "_meta": {"shards": null}}', id="null"),
    ],
)
def test_a_file_without_notes_has_none(data: bytes) -> None:
    assert decode_shards(data, key="k") == {}


@pytest.mark.parametrize(
    "shards",
    [
        pytest.param([], id="a-list"),
        pytest.param({"a": 1}, id="a-number"),
        pytest.param({"a": {"shape": [2], "offset": [0, 0]}}, id="other-dimensions"),
        pytest.param({"a": {"shape": [2], "offset": [3]}}, id="outside"),
        pytest.param({"a": {"shape": [-1], "offset": [0]}}, id="negative"),
        pytest.param({"a": {"shape": [1] * 65, "offset": [0] * 65}}, id="too-many-dimensions"),
    ],
)
def test_what_makes_no_sense_is_an_error(shards: object) -> None:
    with pytest.raises(RecordError):
        decode_shards(json.dumps({"collections": {}, "_meta": {"shards": shards}}).encode(), key="k")


def test_flat_parts_and_parts_of_no_box_keep_what_they_are() -> None:
    shards = {
        "Net_flat": Shard((5, 6), (19,), is_flat=True),
        "Net_sum": Shard((5, 6), (0, 0), placement="Partial(sum)"),
    }
    assert decode_shards(encode_collections([], num_workers=2, shards=shards), key="c") == shards


@pytest.mark.parametrize(
    "shard",
    [
        pytest.param(Shard((5, 6), (31,), is_flat=True), id="behind-the-end"),
        pytest.param(Shard((5, 6), (0, 0), is_flat=True), id="two-offsets-in-a-row"),
        pytest.param(Shard((5, 6), (0,)), id="one-offset-in-a-box"),
    ],
)
def test_a_part_outside_of_its_tensor_is_damage(shard: Shard) -> None:
    with pytest.raises(RecordError):
        decode_shards(encode_collections([], num_workers=2, shards={"x": shard}), key="c")
