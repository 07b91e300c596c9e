"""The collections of a run."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.capture_request import Schedule
from trackside.contracts.errors import RecordError
from trackside.records.collections_file import (
    CollectionRecord,
    Collections,
    ReductionRecord,
    decode_collections,
    encode_collections,
)

GOLDEN = Path(__file__).parent / "golden" / "collections.json"
BY_SECONDS = Path(__file__).parent / "golden" / "collections-by-seconds.json"
KEY = "collections/000000000/worker_0_collections.json"


def test_writes_what_smdebug_wrote() -> None:
    found = decode_collections(GOLDEN.read_bytes(), key=KEY)
    assert encode_collections(found.collections, num_workers=found.num_workers) == GOLDEN.read_bytes()


def test_reads_what_smdebug_wrote() -> None:
    found = decode_collections(GOLDEN.read_bytes(), key=KEY)
    assert [c.name for c in found.collections] == ["losses", "gradients"]
    assert found.num_workers == 1
    losses, gradients = found.named("losses"), found.named("gradients")
    assert losses == CollectionRecord("losses", ("[Ll]oss_(?!input).*output",), ("CrossEntropyLoss_output_0",))
    assert gradients is not None
    assert gradients.schedules == dict.fromkeys(["TRAIN", "EVAL", "PREDICT", "GLOBAL"], Schedule(save_interval=100))
    assert found.named("weights") is None


def test_schedules_by_the_clock_come_back() -> None:
    data = BY_SECONDS.read_bytes()
    found = decode_collections(data, key=KEY)
    losses, weights = found.collections
    assert losses.schedules == dict.fromkeys(["TRAIN", "EVAL", "PREDICT", "GLOBAL"], Schedule(1))
    assert weights.schedules == {
        "TRAIN": Schedule.by_seconds(60),
        "EVAL": Schedule(100, save_seconds=0.5),
        "PREDICT": None,
        "GLOBAL": None,
    }
    assert encode_collections(found.collections, num_workers=found.num_workers) == data


def test_the_sections_that_smdebug_reads_know_no_seconds() -> None:
    """It refuses a schedule with a field that it does not know."""
    data = json.loads(BY_SECONDS.read_bytes())
    assert "save_seconds" not in json.dumps(data["collections"])
    assert data["_meta"] == {"num_workers": 2, "save_seconds": {"weights": {"TRAIN": 60, "EVAL": 0.5}}}


def test_writes_the_document_of_the_contract() -> None:
    collection = CollectionRecord(
        "weights",
        include_regex=("weight$",),
        tensor_names=("b", "a"),
        schedules={"TRAIN": Schedule(10, start_step=5, end_step=50, save_steps=(7,))},
        reduction=ReductionRecord(save_raw_tensor=True, reductions=("min", "abs_l2_norm"), save_shape=True),
        save_histogram=False,
    )
    assert json.loads(encode_collections([collection], num_workers=4)) == {
        "collections": {
            "weights": {
                "name": "weights",
                "include_regex": ["weight$"],
                "tensor_names": ["a", "b"],
                "reduction_config": {"save_raw_tensor": True, "reductions": "min,abs_l2_norm", "save_shape": True},
                "save_config": {
                    "TRAIN": {"save_interval": 10, "save_steps": [7], "start_step": 5, "end_step": 50},
                    "EVAL": None,
                    "PREDICT": None,
                    "GLOBAL": None,
                },
                "save_histogram": False,
            }
        },
        "_meta": {"num_workers": 4},
    }


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"include_regex": False}, id="no regexes, as false"),
        pytest.param({"include_regex": None}, id="no regexes, as null"),
        pytest.param({"save_config": None}, id="the hook's schedule"),
        pytest.param({"reduction_config": None}, id="the hook's reductions"),
        pytest.param({"new": {"deep": 1}}, id="a new field"),
    ],
)
def test_is_tolerant_of(change: dict[str, Any]) -> None:
    document = {"collections": {"losses": {"name": "losses", "tensor_names": ["a"]} | change}}
    found = decode_collections(json.dumps(document).encode(), key=KEY)
    assert found == Collections((CollectionRecord("losses", tensor_names=("a",)),), num_workers=1)


def test_meta_may_hold_more() -> None:
    data = b'{"collections": {}, "_meta": {"num_workers": 3, "trackside_version": 1}}'
    assert decode_collections(data, key=KEY) == Collections((), num_workers=3)


def one(collection: Any) -> bytes:
    return json.dumps({"collections": {"losses": collection}}).encode()


def seconds(by_collection: Any) -> bytes:
    return json.dumps({"collections": {}, "_meta": {"save_seconds": by_collection}}).encode()


def test_seconds_of_what_is_not_there_are_passed_over() -> None:
    assert decode_collections(seconds({"gone": {"TRAIN": 3}}), key=KEY) == Collections(())
    assert decode_collections(seconds({"gone": {"FIT": "x"}}), key=KEY) == Collections(())


@pytest.mark.parametrize(
    ("data", "what"),
    [
        pytest.param(b"", "empty or not whole JSON", id="empty"),
        pytest.param(b'{"collections": {"los', "not whole JSON", id="cut"),
        pytest.param(b"{}", "collections is null or missing", id="no collections"),
        pytest.param(b'{"collections": [], "_meta": {}}', "collections is a list", id="a list"),
        pytest.param(b'{"collections": {}, "extra": 1}', "'extra'", id="a third section"),
        pytest.param(b'{"collections": {}, "_meta": {"num_workers": "2"}}', "num_workers", id="workers as a text"),
        pytest.param(b'{"collections": {}, "_meta": {"num_workers": -2}}', "num_workers", id="negative workers"),
        pytest.param(one(3), "collections.losses is a number", id="a number for a collection"),
        pytest.param(one({"include_regex": [1]}), "include_regex", id="a number for a regex"),
        pytest.param(one({"name": False}), "name = true or false, not a text", id="a flag for a name"),
        pytest.param(one({"tensor_names": "a"}), "a text, not a list", id="a text for names"),
        pytest.param(one({"save_config": {"TRAIN": {"save_interval": "x"}}}), "save_config.TRAIN", id="an interval"),
        pytest.param(one({"reduction_config": {"save_shape": 1}}), "reduction_config", id="a flag"),
        pytest.param(seconds([]), "save_seconds is a list", id="a list of seconds"),
        pytest.param(seconds({"losses": 3}), "save_seconds.losses is a number", id="seconds of no mode"),
        pytest.param(seconds({"losses": {"TRAIN": 0}}), "seconds above 0", id="no seconds"),
        pytest.param(seconds({"losses": {"TRAIN": True}}), "seconds above 0", id="a flag for seconds"),
        pytest.param(seconds({"losses": {"TRAIN": float("inf")}}), "seconds above 0", id="endless seconds"),
        pytest.param(seconds({"losses": {"TRAIN": 10**400}}), "seconds above 0", id="seconds that no float holds"),
    ],
)
def test_a_damaged_file_is_told(data: bytes, what: str) -> None:
    with pytest.raises(RecordError, match=what) as caught:
        decode_collections(data, key=KEY)
    assert KEY in str(caught.value)


counts = st.integers(0, 2**63 - 1)
schedules = st.builds(
    Schedule,
    st.integers(1, 2**63 - 1),
    counts,
    st.none() | counts,
    st.lists(counts, max_size=2).map(tuple),
    st.none() | st.floats(0, 1e9, exclude_min=True),
)
modes = ["TRAIN", "EVAL", "PREDICT", "GLOBAL"]
reductions = st.builds(
    ReductionRecord, st.booleans(), st.lists(st.sampled_from(["min", "abs_max"]), max_size=2).map(tuple), st.booleans()
)
collections = st.builds(
    CollectionRecord,
    st.text(),
    st.lists(st.text(), max_size=2).map(tuple),
    st.lists(st.text(), max_size=3).map(lambda names: tuple(sorted(names))),
    st.none() | st.fixed_dictionaries(dict.fromkeys(modes, st.none() | schedules)),
    st.none() | reductions,
    st.booleans(),
)


@settings(deadline=None)
@given(st.lists(collections, max_size=3, unique_by=lambda c: c.name), st.integers(1, 1000))
def test_comes_back_as_it_was(records: list[CollectionRecord], num_workers: int) -> None:
    data = encode_collections(records, num_workers=num_workers)
    assert decode_collections(data, key=KEY) == Collections(tuple(records), num_workers)
