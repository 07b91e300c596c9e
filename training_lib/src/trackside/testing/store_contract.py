"""Tests that every store must pass: inherit `StoreContract` in a test module, and give the three fixtures.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self): ...       # an empty store
        @pytest.fixture
        def plant(self, store): ...  # function (key, bytes): puts an object there without the store
        @pytest.fixture
        def peek(self, store): ...   # function (key) -> bytes or None: looks without the store

Of a store whose objects can grow, inherit `AppendableStoreContract`, which has these tests and more.

`plant` and `peek` are back doors, so that a store that writes and reads wrongly in the same way is found out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from trackside.contracts.errors import KeyNotFoundError, StorageError
from trackside.storage.store import AppendableStore, Store, Version, get_if_changed, objects_of, put_parts

Plant = Callable[[str, bytes], None]
Peek = Callable[[str], "bytes | None"]

KEY = "index/000000000/000000000012_worker_0.json"

# In the order of their UTF-8 bytes, which is neither the order of a walk over folders nor that of letters.
ORDERED_KEYS = (
    "0",
    "Z/z",
    "a!",
    "a-b/x",
    "a.b",
    "a/0",
    "a/x",
    "a/x-/y",
    "a/x0",
    "a0",
    "ab/x",
    "b/c/d/e",
    "b/c0",
    "z",
    "é/x",
    "文",
    "😀",
)


class StoreContract:
    """Tests of the protocol `trackside.storage.store.Store`."""

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError("give a fixture `store`: an empty store")

    @pytest.fixture
    def plant(self, store: Store) -> Plant:
        raise NotImplementedError("give a fixture `plant`: puts an object there without the store")

    @pytest.fixture
    def peek(self, store: Store) -> Peek:
        raise NotImplementedError("give a fixture `peek`: looks at an object without the store")

    def test_is_a_store(self, store: Store) -> None:
        assert isinstance(store, Store)
        assert store.uri
        assert not store.uri.endswith("/")

    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(b"whole", id="bytes"),
            pytest.param(bytearray(b"whole"), id="bytearray"),
            pytest.param(memoryview(b"a whole one")[2:7], id="part of a memoryview"),
            pytest.param(b"", id="nothing"),
            pytest.param(bytes(range(256)) * 4096, id="one mebibyte"),
        ],
    )
    def test_put_stores_the_very_bytes(self, store: Store, peek: Peek, data: bytes | bytearray | memoryview) -> None:
        store.put(KEY, data)
        assert peek(KEY) == bytes(data)
        assert store.get(KEY) == bytes(data)

    @pytest.mark.parametrize(
        "parts",
        [
            pytest.param((), id="no part"),
            pytest.param((b"", memoryview(b"")), id="empty parts"),
            pytest.param((b"one ", memoryview(b"not two")[4:], b"", b" three"), id="small ones"),
            pytest.param([bytes([k]) * (k * 7_919) for k in range(40)], id="six mebibytes in unequal ones"),
            pytest.param((b"head", memoryview(bytes(range(256)) * 9_000), b"tail"), id="a large one"),
        ],
    )
    def test_put_of_parts_stores_what_they_are_together(
        self, store: Store, plant: Plant, peek: Peek, parts: Sequence[bytes | memoryview]
    ) -> None:
        plant(KEY, b"the old content")
        put_parts(store, KEY, parts)
        assert peek(KEY) == b"".join(parts)

    def test_put_replaces(self, store: Store, plant: Plant, peek: Peek) -> None:
        plant(KEY, b"the old and longer content")
        store.put(KEY, b"new")
        assert peek(KEY) == b"new"

    def test_put_keeps_its_own_copy(self, store: Store, peek: Peek) -> None:
        data = bytearray(b"before")
        store.put(KEY, data)
        data[:] = b"after!"
        assert peek(KEY) == b"before"

    def test_gets_what_others_stored(self, store: Store, plant: Plant) -> None:
        plant(KEY, b"planted")
        assert store.get(KEY) == b"planted"
        assert type(store.get(KEY)) is bytes

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [
            pytest.param(0, 4, b"0123", id="the beginning"),
            pytest.param(3, 4, b"3456", id="the middle"),
            pytest.param(6, None, b"6789", id="to the end"),
            pytest.param(6, 100, b"6789", id="beyond the end"),
            pytest.param(6, 2**62, b"6789", id="a length from a damaged file"),
            pytest.param(10, 5, b"", id="from the end on"),
            pytest.param(2**61, 5, b"", id="a start from a damaged file"),
            pytest.param(4, 0, b"", id="nothing"),
        ],
    )
    def test_get_a_range(self, store: Store, plant: Plant, start: int, length: int | None, expected: bytes) -> None:
        plant(KEY, b"0123456789")
        assert store.get(KEY, start=start, length=length) == expected

    def test_get_a_range_of_an_empty_object(self, store: Store, plant: Plant) -> None:
        plant(KEY, b"")
        assert store.get(KEY, start=0, length=10) == b""

    @pytest.mark.parametrize(("start", "length"), [(-1, 4), (0, -4)])
    def test_refuses_a_negative_range(self, store: Store, plant: Plant, start: int, length: int) -> None:
        plant(KEY, b"0123456789")
        with pytest.raises(StorageError, match="must be 0 or more"):
            store.get(KEY, start=start, length=length)

    @pytest.mark.parametrize("length", [None, 0, 7])
    def test_a_missing_key_is_named(self, store: Store, length: int | None) -> None:
        with pytest.raises(KeyNotFoundError) as caught:
            store.get(KEY, length=length)
        assert KEY in str(caught.value)
        assert store.uri in str(caught.value)

    def test_an_object_that_has_not_changed_is_not_got_again(self, store: Store, plant: Plant) -> None:
        plant(KEY, b"one")
        first = get_if_changed(store, KEY)
        assert first is not None
        assert first.data == b"one"
        assert type(first.data) is bytes
        assert first.tag
        for _ in range(2):
            assert get_if_changed(store, KEY, tag=first.tag) is None

    @pytest.mark.parametrize("is_planted", [True, False])
    def test_an_object_that_was_replaced_is_got_again(self, store: Store, plant: Plant, is_planted: bool) -> None:
        # Each of several quick replacements of one length has a tag of its own.
        tags = [""]
        for number in range(6):
            data = b"%02d" % number
            plant(KEY, data) if is_planted else store.put(KEY, data)
            newest = get_if_changed(store, KEY)
            assert newest is not None
            for tag in tags:
                assert get_if_changed(store, KEY, tag=tag) == Version(data, newest.tag)
            tags.append(newest.tag)
        assert len({*tags}) == len(tags)
        assert get_if_changed(store, KEY, tag=tags[-1]) is None

    def test_of_a_large_object_only_the_requested_part_is_read(self, store: Store, plant: Plant) -> None:
        plant(KEY, b"0123456789")
        found = get_if_changed(store, KEY, length=4)
        assert found is not None
        assert found.data == b"0123"
        assert get_if_changed(store, KEY, tag=found.tag, length=4) is None
        plant(KEY, b"")
        empty = get_if_changed(store, KEY, tag=found.tag, length=4)
        assert empty is not None
        assert empty.data == b""

    def test_the_tag_of_one_object_does_not_hold_for_another(self, store: Store, plant: Plant) -> None:
        plant("a/one", b"1")
        plant("a/two", b"2")
        one = get_if_changed(store, "a/one")
        assert one is not None
        two = get_if_changed(store, "a/two", tag=one.tag)
        assert two is not None
        assert two.data == b"2"

    @pytest.mark.parametrize("key", [KEY, "index", "index/000000000/000000000013_worker_0.json/deeper"])
    @pytest.mark.parametrize("tag", ["", "some tag"])
    def test_what_is_missing_has_not_stayed_the_same(self, store: Store, plant: Plant, key: str, tag: str) -> None:
        plant("index/000000000/000000000013_worker_0.json", b"x")
        with pytest.raises(KeyNotFoundError) as caught:
            get_if_changed(store, key, tag=tag)
        assert key in str(caught.value)

    def test_what_was_removed_is_missing(self, store: Store, plant: Plant) -> None:
        plant(KEY, b"x")
        found = get_if_changed(store, KEY)
        assert found is not None
        store.delete(KEY)
        with pytest.raises(KeyNotFoundError):
            get_if_changed(store, KEY, tag=found.tag)

    def test_exists(self, store: Store, plant: Plant) -> None:
        assert not store.exists(KEY)
        plant(KEY, b"")
        assert store.exists(KEY)
        assert not store.exists("index/000000000"), "a folder is no object"
        assert not store.exists(f"{KEY}/deeper")

    def test_delete(self, store: Store, plant: Plant, peek: Peek) -> None:
        plant(KEY, b"planted")
        store.delete(KEY)
        assert peek(KEY) is None
        assert not store.exists(KEY)
        store.delete(KEY)  # what is not there is no error

    def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        assert [*store.list()] == []
        assert [*store.list("index/", start_after="index/0")] == []

    def test_lists_in_the_order_of_bytes(self, store: Store, plant: Plant) -> None:
        assert [key.encode() for key in ORDERED_KEYS] == sorted(key.encode() for key in ORDERED_KEYS)
        for key in reversed(ORDERED_KEYS):
            plant(key, b"x")
        assert tuple(store.list()) == ORDERED_KEYS

    @pytest.mark.parametrize("prefix", ["a", "a/", "a/x", "a/x-/", "b/c", "é", "nothing", "a/x/"])
    def test_lists_by_prefix(self, store: Store, plant: Plant, prefix: str) -> None:
        for key in ORDERED_KEYS:
            plant(key, b"x")
        assert [*store.list(prefix)] == [key for key in ORDERED_KEYS if key.startswith(prefix)]

    def test_a_listing_with_sizes_has_those_of_the_objects(self, store: Store, plant: Plant) -> None:
        for key, size in (("a/one", 3), ("a/two", 0), ("b", 70_000)):
            plant(key, bytes(size))
        found = objects_of(store, "a")
        if found is not None:  # else the store lists keys alone
            assert [(one.key, one.size_bytes) for one in found] == [("a/one", 3), ("a/two", 0)]
            assert all(one.stored_at > 0 for one in objects_of(store) or ())

    @pytest.mark.parametrize("start_after", [*ORDERED_KEYS, "a/", "a/x-", "b", "b/c/d/e/f", "é/", "\U0010ffff"])
    def test_lists_after_a_key(self, store: Store, plant: Plant, start_after: str) -> None:
        for key in ORDERED_KEYS:
            plant(key, b"x")
        assert [*store.list(start_after=start_after)] == [key for key in ORDERED_KEYS if key > start_after]
        assert [*store.list("a", start_after=start_after)] == [
            key for key in ORDERED_KEYS if key.startswith("a") and key > start_after
        ]

    def test_partial_writes_never_appear(self, store: Store, plant: Plant) -> None:
        plant("a/whole", b"x")
        plant("a/partial.tmp", b"x")
        assert [*store.list()] == ["a/whole"]

    @pytest.mark.parametrize(
        "key",
        [
            pytest.param("", id="empty"),
            pytest.param("/etc/passwd", id="absolute"),
            pytest.param("../other", id="up at once"),
            pytest.param("a/../../other", id="up later"),
            pytest.param("a/./b", id="a dot"),
            pytest.param("a//b", id="an empty part"),
            pytest.param("a/", id="a folder"),
            pytest.param("a\0b", id="NUL"),
            pytest.param("..\\other", id="up on Windows"),
            pytest.param("a\udc80", id="no Unicode"),
            pytest.param("a/b.tmp", id="a partial write"),
        ],
    )
    def test_a_key_stays_inside(self, store: Store, key: str) -> None:
        with pytest.raises(StorageError, match="is not a storage key"):
            store.put(key, b"x")
        with pytest.raises(StorageError, match="is not a storage key"):
            store.get(key)
        with pytest.raises(StorageError, match="is not a storage key"):
            get_if_changed(store, key)
        with pytest.raises(StorageError, match="is not a storage key"):
            store.exists(key)
        with pytest.raises(StorageError, match="is not a storage key"):
            store.delete(key)

    @pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a//", "a\0"])
    def test_a_prefix_stays_inside(self, store: Store, prefix: str) -> None:
        with pytest.raises(StorageError, match="is not the beginning of a storage key"):
            store.list(prefix)

    def test_readers_see_whole_objects_while_others_write(self, store: Store) -> None:
        contents = (b"a" * 200_000, b"b" * 100_000)
        store.put(KEY, contents[0])
        failures: list[BaseException] = []

        def write(content: bytes) -> None:
            try:
                for _ in range(10):
                    store.put(KEY, content)
            except BaseException as error:  # noqa: BLE001 - a thread's error is handed to the test
                failures.append(error)

        writers = [threading.Thread(target=write, args=(content,)) for content in contents]
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            assert store.get(KEY) in contents
            assert [*store.list()] == [KEY]
        for writer in writers:
            writer.join()
        assert failures == []
        assert store.get(KEY) in contents


class AppendableStoreContract(StoreContract):
    """Tests of the protocol `trackside.storage.store.AppendableStore`."""

    @pytest.fixture
    def store(self) -> AppendableStore:
        raise NotImplementedError("give a fixture `store`: an empty store")

    def test_is_an_appendable_store(self, store: AppendableStore) -> None:
        assert isinstance(store, AppendableStore)

    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(b"whole", id="bytes"),
            pytest.param(bytearray(b"whole"), id="bytearray"),
            pytest.param(memoryview(b"a whole one")[2:7], id="part of a memoryview"),
            pytest.param(b"", id="nothing"),
            pytest.param(bytes(range(256)) * 4096, id="one mebibyte"),
        ],
    )
    def test_appends_the_very_bytes(
        self, store: AppendableStore, peek: Peek, data: bytes | bytearray | memoryview
    ) -> None:
        assert store.append(KEY, data) == 0
        assert peek(KEY) == bytes(data), "the first one creates the object"
        assert store.append(KEY, data) == len(data), "where it begins in the object"
        assert peek(KEY) == bytes(data) * 2
        assert store.get(KEY) == bytes(data) * 2

    def test_appends_to_an_existing_file(self, store: AppendableStore, plant: Plant, peek: Peek) -> None:
        plant("a/planted", b"planted")
        store.append("a/planted", b" and more")
        store.put(KEY, b"put")
        store.append(KEY, b" and more")
        assert peek("a/planted") == b"planted and more"
        assert peek(KEY) == b"put and more"

    def test_put_replaces_what_has_grown(self, store: AppendableStore, peek: Peek) -> None:
        store.append(KEY, b"long and")
        store.append(KEY, b" longer")
        store.put(KEY, b"new")
        store.append(KEY, b"er")
        assert peek(KEY) == b"newer"

    def test_a_growing_object_is_read_by_ranges(self, store: AppendableStore) -> None:
        pieces = [b"%d," % number for number in range(200)]
        position = 0
        for piece in pieces:
            store.append(KEY, piece)
            found = store.get(KEY, start=position, length=1000)
            assert found == piece
            assert type(found) is bytes
            position += len(found)
            assert store.get(KEY, start=position) == b""
        assert store.get(KEY) == b"".join(pieces)

    def test_what_was_read_does_not_grow(self, store: AppendableStore) -> None:
        store.append(KEY, b"before")
        found = store.get(KEY)
        store.append(KEY, b" and after")
        assert found == b"before"

    def test_a_growing_object_is_an_object(self, store: AppendableStore, peek: Peek) -> None:
        store.append(KEY, b"x")
        assert store.exists(KEY)
        assert [*store.list()] == [KEY], "no partial names"
        store.delete(KEY)
        assert peek(KEY) is None
        store.append(KEY, b"y")
        assert peek(KEY) == b"y"

    @pytest.mark.parametrize("key", ["", "/etc/passwd", "../other", "a//b", "a/", "a\0b", "a/b.tmp"])
    def test_append_stays_inside(self, store: AppendableStore, key: str) -> None:
        with pytest.raises(StorageError, match="is not a storage key"):
            store.append(key, b"x")

    def test_a_reader_sees_a_beginning_while_another_appends(self, store: AppendableStore) -> None:
        whole = b"".join(b"%09d;" % number for number in range(20_000))
        failures: list[BaseException] = []
        store.append(KEY, b"")

        def write() -> None:
            try:
                for start in range(0, len(whole), 1000):
                    store.append(KEY, whole[start : start + 1000])
            except BaseException as error:  # noqa: BLE001 - a thread's error is handed to the test
                failures.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        position = 0
        while position < len(whole) and (writer.is_alive() or store.get(KEY, start=position)):
            found = store.get(KEY, start=position, length=50_000)
            assert whole.startswith(found, position)
            position += len(found)
        writer.join()
        assert failures == []
        assert store.get(KEY) == whole
