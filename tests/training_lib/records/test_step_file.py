"""Both files of a step."""

import numpy as np
import pytest

from trackside.contracts.errors import RecordError, StorageUnavailableError
from trackside.records.index_file import decode_index
from trackside.records.step_file import StepFiles, encode_step, fetch_record, fetch_records, write_step
from trackside.records.tfevents import decode_record
from trackside.storage.memory import MemoryStore


def encode(*names: str, step: int = 1234, size: int = 2) -> StepFiles:
    tensors = [(name, np.full(size, place, "f4")) for place, name in enumerate(names)]
    return encode_step(tensors, step=step, mode="TRAIN", mode_step=1200, worker="worker_0", wall_time=1.5)


def test_the_index_points_at_every_tensor() -> None:
    files = encode("a", "b", "c")
    assert files.event_key == "events/000000001234/000000001234_worker_0.tfevents"
    assert files.index_key == "index/000000001/000000001234_worker_0.json"
    index = decode_index(files.index_bytes, key=files.index_key)
    assert (index.mode, index.mode_step, index.event_key) == ("TRAIN", 1200, files.event_key)
    for place, entry in enumerate(index.entries):
        data = files.event_bytes[entry.start : entry.start + entry.length]
        found = decode_record(data, key=files.event_key, offset=entry.start)
        assert (found.name, found.value.tolist()) == (entry.name, [place, place])
    assert sum(entry.length for entry in index.entries) == len(files.event_bytes)


def test_leaves_out_what_has_no_elements() -> None:
    files = encode_step(
        [("empty", np.zeros(0)), ("full", np.ones(1))], step=0, mode="TRAIN", mode_step=0, worker="w", wall_time=1.0
    )
    assert [entry.name for entry in decode_index(files.index_bytes, key="k").entries] == ["full"]


class OrderedStore(MemoryStore):
    """Notes the order of puts; fails from the put of that number on."""

    def __init__(self, fail_at: int = 100) -> None:
        super().__init__()
        self.puts: list[str] = []
        self.fail_at = fail_at

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self.puts.append(key)
        if len(self.puts) > self.fail_at:
            raise StorageUnavailableError("The disk is full")
        super().put(key, data)


def test_the_index_comes_last() -> None:
    store, files = OrderedStore(), encode("a")
    write_step(store, files)
    assert store.puts == [files.event_key, files.index_key]
    assert store.get(files.event_key) == files.event_bytes
    assert store.get(files.index_key) == files.index_bytes


@pytest.mark.parametrize("fail_at", [0, 1])
def test_no_index_without_its_events(fail_at: int) -> None:
    store = OrderedStore(fail_at)
    with pytest.raises(StorageUnavailableError):
        write_step(store, encode("a"))
    assert [*store.list("index/")] == []


def test_a_step_without_tensors_is_no_file() -> None:
    store = MemoryStore()
    write_step(store, encode())
    write_step(store, encode("empty", size=0))
    assert [*store.list()] == []


def test_writing_a_step_again_replaces_it() -> None:
    store = MemoryStore()
    write_step(store, encode("a", "b"))
    write_step(store, encode("c"))
    assert store.get(encode("c").event_key) == encode("c").event_bytes
    assert len([*store.list()]) == 2


class CountingStore(MemoryStore):
    """Notes how many bytes were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int | None] = []

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self.asked.append(length)
        return super().get(key, start=start, length=length)


def test_a_large_record_is_fetched_in_two_requests_and_a_small_one_in_one() -> None:
    for size, requests in ((3 << 20, 2), (10, 1)):
        store, files = CountingStore(), encode("a", size=size)
        write_step(store, files)
        data = fetch_record(store, files.event_key, start=0, length=len(files.event_bytes))
        assert decode_record(data, key=files.event_key, offset=0).value.size == size
        assert len(store.asked) == requests


@pytest.mark.parametrize(
    ("content", "what"),
    [
        pytest.param(bytes(100), "checksum of a record's length", id="a hole"),
        pytest.param(encode("a").event_bytes, "only 0 are left", id="a small record"),
        pytest.param(b"", "only 0 are left", id="the end of the file"),
    ],
)
def test_of_what_the_index_calls_large_no_more_is_fetched_than_its_header(content: bytes, what: str) -> None:
    store = CountingStore()
    store.put("events/x", content)
    data = fetch_record(store, "events/x", start=0, length=1 << 34)
    assert store.asked == [12]
    with pytest.raises(RecordError, match=what):
        decode_record(data, key="events/x", offset=0)


def test_a_large_file_is_read_a_few_mib_at_a_time() -> None:
    store, sizes = CountingStore(), (1 << 20, 10, 3 << 20, 1 << 20, 7)
    tensors = [(f"t{place}", np.full(size, place, "f4")) for place, size in enumerate(sizes)]
    files = encode_step(tensors, step=0, mode="TRAIN", mode_step=0, worker="w", wall_time=1.5)
    write_step(store, files)
    found = [(record.name, record.value.size) for record in fetch_records(store, files.event_key)]
    assert found == [(f"t{place}", size) for place, size in enumerate(sizes)]
    assert max(length or 0 for length in store.asked) < 13 << 20, "the largest record"


@pytest.mark.parametrize(
    ("content", "offset", "what"),
    [
        pytest.param(bytes(9 << 20), 0, "checksum of a record's length", id="a hole"),
        pytest.param(
            (1 << 33).to_bytes(8, "little") + bytes(9 << 20), 0, "checksum of a record's", id="a made up length"
        ),
        pytest.param(
            encode("a").event_bytes * 2 + bytes(20), None, "checksum of a record's length", id="a hole behind"
        ),
        pytest.param(encode("a").event_bytes[:-1], 0, "are left", id="cut"),
    ],
)
def test_damage_is_told_with_its_place_in_the_file(content: bytes, offset: int | None, what: str) -> None:
    store = CountingStore()
    store.put("events/x", content)
    with pytest.raises(RecordError, match=what) as damage:
        [*fetch_records(store, "events/x")]
    assert damage.value.offset == (2 * len(encode("a").event_bytes) if offset is None else offset)
    assert max(length or 0 for length in store.asked) == 8 << 20


def test_an_empty_file_holds_nothing() -> None:
    store = CountingStore()
    store.put("events/x", b"")
    assert [*fetch_records(store, "events/x")] == []
