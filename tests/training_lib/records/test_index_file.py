"""The index of a step."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.contracts.run_layout import event_key
from trackside.records import index_file
from trackside.records.index_file import Index, IndexDecoder, IndexEntry, ShapeEntry, decode_index, encode_index
from trackside.records.tfevents import decode_record

GOLDEN = Path(__file__).parent / "golden"
EVENT_KEY = event_key(12, "worker_0")
KEY = "index/000000000/000000000012_worker_0.json"


def test_writes_what_smdebug_wrote() -> None:
    golden = (GOLDEN / "index.json").read_bytes()
    assert encode_index(decode_index(golden, key=KEY)) == golden


def test_reads_what_smdebug_wrote() -> None:
    index = decode_index((GOLDEN / "index.json").read_bytes(), key=KEY)
    assert (index.mode, index.mode_step) == ("EVAL", 34)
    assert index.event_key == "events/000000001234/000000001234_worker_0.tfevents"
    assert index.shapes == (ShapeEntry("Net_fc1.bias", "Net_fc1.bias", (3,)),)
    events = (GOLDEN / "step.tfevents").read_bytes()
    for entry in index.entries:
        data = events[entry.start : entry.start + entry.length]
        assert decode_record(data, key="golden", offset=entry.start).name == entry.name
    assert len(index.entries) == 11


def test_names_that_are_not_ascii_are_escaped_as_smdebug_does() -> None:
    index = Index("TRAIN", 0, EVENT_KEY, (IndexEntry("größe", 0, 10),))
    assert b'"gr\\u00f6\\u00dfe"' in encode_index(index)
    assert decode_index(encode_index(index), key=KEY) == index


def test_only_shapes_need_no_event_file() -> None:
    index = Index("EVAL", 2, None, shapes=(ShapeEntry("fc/w", "orig", (1, 2)),))
    assert json.loads(encode_index(index)) == {
        "meta": {"mode": "EVAL", "mode_step": 2},
        "tensor_payload": [],
        "shape_payload": [{"tensorname": "fc/w", "originalname": "orig", "shape": [1, 2]}],
    }
    assert decode_index(encode_index(index), key=KEY) == index


def test_refuses_an_unknown_mode() -> None:
    with pytest.raises(ValueError, match="is not a mode"):
        encode_index(Index("train", 0, EVENT_KEY))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"more": 1}, id="a new section"),
        pytest.param({"shape_payload": None}, id="no shapes, as null"),
        pytest.param({"meta": {"mode": "TRAIN", "mode_step": 3, "event_file_name": EVENT_KEY, "x": 1}}, id="new meta"),
        pytest.param(
            {"tensor_payload": [{"tensorname": "a", "start_idx": 0, "length": 5, "crc": 1}]},
            id="a new field of an entry",
        ),
    ],
)
def test_passes_over_what_it_does_not_know(change: dict[str, Any]) -> None:
    document = good_document() | change
    assert decode_index(json.dumps(document).encode(), key=KEY) == Index(
        "TRAIN", 3, EVENT_KEY, (IndexEntry("a", 0, 5),)
    )


def good_document() -> dict[str, Any]:
    return {
        "meta": {"mode": "TRAIN", "mode_step": 3, "event_file_name": EVENT_KEY},
        "tensor_payload": [{"tensorname": "a", "start_idx": 0, "length": 5}],
        "shape_payload": [],
    }


def meta(**change: Any) -> bytes:
    document = good_document()
    return json.dumps(document | {"meta": document["meta"] | change}).encode()


def entry(**change: Any) -> bytes:
    document = good_document()
    return json.dumps(document | {"tensor_payload": [document["tensor_payload"][0] | change]}).encode()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        pytest.param(b"", "empty or not whole JSON", id="empty"),
        pytest.param(b'{"meta": {"mo', "empty or not whole JSON", id="cut"),
        pytest.param(b"{}{}", "Extra data", id="two documents in one"),
        pytest.param(b"\xff\xfe", "not UTF-8", id="no text"),
        pytest.param(b"[]", "a list, not an object", id="a list"),
        pytest.param(b"[" * 100_000, "not JSON that can be read", id="endless nesting"),
        pytest.param(
            meta(mode_step=0).replace(b'"mode_step": 0', b'"mode_step": ' + b"9" * 9999),
            "read|from 0 on",
            id="9999 digits",
        ),
        pytest.param(b"{}", "neither tensor_payload nor shape_payload", id="no payload"),
        pytest.param(b'{"tensor_payload": []}', "meta is null or missing", id="no meta"),
        pytest.param(b'{"meta": {}, "tensor_payload": []}', "has no mode", id="an empty meta"),
        pytest.param(meta(mode="train"), "none of TRAIN", id="a mode in small letters"),
        pytest.param(meta(mode=1), "a number, not a text", id="a mode as a number"),
        pytest.param(meta(mode_step=-2), "from 0 on", id="a negative step"),
        pytest.param(meta(mode_step=True), "from 0 on", id="a step that is true"),
        pytest.param(meta(mode_step=1.5), "not a whole number", id="half a step"),
        pytest.param(meta(event_file_name=None), "event_file_name", id="no event file"),
        pytest.param(meta(event_file_name="../../other/x.tfevents"), "no event file of this run", id="up"),
        pytest.param(meta(event_file_name="/etc/passwd"), "no event file of this run", id="absolute"),
        pytest.param(meta(event_file_name="s3://other/x"), "no event file of this run", id="another bucket"),
        pytest.param(meta(event_file_name=f"{EVENT_KEY}/../../x"), "no event file of this run", id="up later"),
        pytest.param(meta(event_file_name="events/1/1_w.tfevents"), "no event file of this run", id="a short step"),
        pytest.param(entry(start_idx=-1), "from 0 on", id="a negative start"),
        pytest.param(entry(length=2**63), "from 0 on", id="a length beyond any file"),
        pytest.param(entry(length="5"), "a text, not a whole number", id="a length as a text"),
        pytest.param(entry(tensorname=None), "not a text", id="no name"),
        pytest.param(json.dumps(good_document() | {"tensor_payload": {}}).encode(), "not a list", id="an object"),
        pytest.param(
            json.dumps(good_document() | {"tensor_payload": [1]}).encode(), r"\[0\] is a number", id="a number"
        ),
    ],
)
def test_a_damaged_index_is_told(data: bytes, what: str) -> None:
    with pytest.raises(RecordError, match=what) as caught:
        decode_index(data, key=KEY)
    assert KEY in str(caught.value)
    assert len(str(caught.value)) < 400, "what a file holds is not printed at length"


def test_says_where_the_json_breaks() -> None:
    with pytest.raises(RecordError) as caught:
        decode_index('{"größe": x}'.encode(), key=KEY)
    assert caught.value.offset == len('{"größe": '.encode())


counts = st.integers(0, 2**63 - 1)
entries = st.builds(IndexEntry, st.text(), counts, counts)
shapes = st.builds(ShapeEntry, st.text(), st.text(), st.lists(counts, max_size=3).map(tuple))
indexes = st.builds(
    Index,
    st.sampled_from(["TRAIN", "EVAL", "PREDICT", "GLOBAL"]),
    counts,
    st.builds(event_key, st.integers(0, 10**18 - 1), st.sampled_from(["worker_0", "_job-worker_replica-0"])),
    st.lists(entries, max_size=3).map(tuple),
    st.lists(shapes, max_size=3).map(tuple),
)


@settings(deadline=None)
@given(indexes)
def test_comes_back_as_it_was(index: Index) -> None:
    assert decode_index(encode_index(index), key=KEY) == index


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(["meta", "tensor_payload", "shape_payload"], json_values)))
def test_noise_never_crashes(document: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        decode_index(json.dumps(document).encode(), key=KEY)


Answer = Index | tuple[str, int, str]


def answer(decode: Any, data: bytes) -> Answer:
    """The index, or all that the error says."""
    try:
        return decode(data, key=KEY)  # type: ignore[no-any-return]  # one of the two decoders
    except RecordError as error:
        return error.key, error.offset, str(error)


class TestDecoder:
    """Of an `IndexDecoder`, the answers are those of `decode_index`."""

    def test_files_that_are_alike_share_their_entries(self) -> None:
        decoder = IndexDecoder()
        entries = (IndexEntry("a", 0, 5), IndexEntry("größe", 5, 7))
        shapes = (ShapeEntry("s", "original", (2, 3)),)
        indexes = [
            Index("TRAIN", 0, event_key(0, "worker_0"), entries, shapes),
            Index("EVAL", 3, event_key(12345, "_job-worker_replica-0"), entries, shapes),
            Index("TRAIN", 10**17, event_key(10**17, "worker_12"), entries, shapes),
        ]
        found = [decoder.decode(encode_index(index), key=KEY) for index in indexes]
        assert found == indexes
        assert all(index.entries is found[0].entries and index.shapes is found[0].shapes for index in found)
        other = decoder.decode(encode_index(Index("TRAIN", 0, EVENT_KEY, entries[:1], shapes)), key=KEY)
        assert other.entries == entries[:1]

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param((b'"TRAIN"', b'"train"'), id="no mode"),
            pytest.param((b'"TRAIN"', b'"WORD"'), id="a word for a mode"),
            pytest.param((b'"mode_step": 3', b'"mode_step": 03'), id="a leading zero"),
            pytest.param((b'"mode_step": 3', b'"mode_step": -3'), id="a negative step"),
            pytest.param((b'"mode_step": 3', b'"mode_step": 9223372036854775807'), id="the last step"),
            pytest.param((b'"mode_step": 3', b'"mode_step": 9223372036854775808'), id="a step beyond 63 bits"),
            pytest.param((b'"mode_step": 3', b'"mode_step": 3.0'), id="a fraction"),
            pytest.param((b"events/", b"../../events/"), id="up"),
            pytest.param((b"events/", b"/events/"), id="absolute"),
            pytest.param((b"events/", b"events//"), id="an empty part"),
            pytest.param((b".tfevents", b""), id="another file"),
            pytest.param((b"worker_0", b"w\\u00f6rker"), id="an escaped character"),
            pytest.param((b"worker_0", "wörker".encode()), id="no ASCII"),
            pytest.param((b"worker_0", b"\xff"), id="no UTF-8"),
            pytest.param((b"worker_0", b"w" * 2000), id="a long name"),
            pytest.param((b', "event_file_name": "' + EVENT_KEY.encode() + b'"', b""), id="no event file"),
            pytest.param((b'"mode_step": 3,', b'"mode_step": 3 ,'), id="a blank"),
            pytest.param((b'{"meta"', b' {"meta"'), id="a blank first"),
            pytest.param((b'{"meta"', b'\xef\xbb\xbf{"meta"'), id="a byte order mark"),
            pytest.param((b'{"meta"', b'[{"meta"'), id="a list"),
            pytest.param((b'"shape_payload": []}', b'"shape_payload": []'), id="cut"),
            pytest.param((b'"shape_payload": []}', b'"shape_payload": []}}'), id="more"),
            pytest.param((b'"shape_payload": []', b'"meta": {"mode": "EVAL", "mode_step": 7}'), id="a second meta"),
            pytest.param(
                (b'"shape_payload": []', b'"met\\u0061": ' + json.dumps(good_document()["meta"]).encode()),
                id="a second meta in disguise",
            ),
            pytest.param((b'"shape_payload": []', b'"meta": null'), id="a meta that is null after all"),
            pytest.param((b'"shape_payload": []', b'"tensor_payload": []'), id="a second payload"),
        ],
    )
    @pytest.mark.parametrize("knows", [pytest.param(True, id="known"), pytest.param(False, id="new")])
    def test_unusual_files_are_read_alike(self, change: tuple[bytes, bytes], knows: bool) -> None:
        good = json.dumps(good_document()).encode()
        changed = good.replace(*change)
        assert changed != good
        decoder = IndexDecoder()
        if knows:
            decoder.decode(good, key=KEY)
        for data in (changed, good, changed, changed.replace(b'"mode_step": 3', b'"mode_step": 4'), good):
            assert answer(decoder.decode, data) == answer(decode_index, data)

    def test_shapes_without_tensors_need_no_event_file(self) -> None:
        decoder = IndexDecoder()
        shapes = (ShapeEntry("fc/w", "orig", (1, 2)),)
        for index in (
            Index("EVAL", 2, None, shapes=shapes),
            Index("EVAL", 3, EVENT_KEY, shapes=shapes),
            Index("EVAL", 4, None, shapes=shapes),
        ):
            assert decoder.decode(encode_index(index), key=KEY) == index

    def test_does_not_remember_without_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        files = [encode_index(Index("TRAIN", 0, EVENT_KEY, (IndexEntry("a", n, 5),))) for n in range(100, 200)]
        monkeypatch.setattr(index_file, "_MOST_REMEMBERED_BYTES", 10 * len(files[0]))
        monkeypatch.setattr(index_file, "_LARGEST_REMEMBERED_BYTES", len(files[0]))
        decoder = IndexDecoder()
        for data in files * 2:
            assert decoder.decode(data, key=KEY) == decode_index(data, key=KEY)
        large = encode_index(Index("TRAIN", 0, EVENT_KEY, (IndexEntry("a" * 200, 0, 5),)))
        assert decoder.decode(large, key=KEY) == decode_index(large, key=KEY)
        remembered = [*decoder._remembered]
        assert sum(map(len, remembered)) == decoder._size_bytes <= 10 * len(files[0])
        assert [files[-1].endswith(rest) for rest in remembered] == [False] * (len(remembered) - 1) + [True]

    @settings(deadline=None, max_examples=300)
    @given(
        st.lists(
            st.tuples(
                st.integers(0, 2),
                st.lists(st.tuples(st.integers(0, 300), st.sampled_from(b'0179"{}[],:\\ aA/._-\xff\x00')), max_size=2),
            ),
            min_size=2,
            max_size=6,
        )
    )
    def test_damaged_files_are_read_alike(self, files: list[tuple[int, list[tuple[int, int]]]]) -> None:
        decoder = IndexDecoder()
        for mode_step, changes in files:
            index = Index("TRAIN", mode_step, EVENT_KEY, (IndexEntry("a", 0, 5),), (ShapeEntry("s", "s", (1,)),))
            data = bytearray(encode_index(index))
            for place, byte in changes:
                data[place % len(data)] = byte
            assert answer(decoder.decode, bytes(data)) == answer(decode_index, bytes(data))
