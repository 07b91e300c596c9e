"""Many small files in one call: the compiled way and that of Python, which must be the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.errors import StorageError
from trackside.storage import files_at_once
from trackside.storage.local import LocalStore

Way = Callable[[Sequence[tuple[bytes, bytes]], Sequence[bytes]], int]

WAYS = [
    pytest.param(files_at_once._stored_by_python, id="python"),
    pytest.param(
        files_at_once.stored_files,
        id="compiled",
        marks=pytest.mark.skipif(
            files_at_once._compiled is None, reason="trackside-native is not installed: no C compiler was found"
        ),
    ),
]


def store(way: Way, folder: Path, files: Sequence[tuple[str, bytes]]) -> int:
    names = [(os.fsencode(folder / f"{name}.tmp"), os.fsencode(folder / name)) for name, _ in files]
    return way(names, [content for _, content in files])


def found(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=30, deadline=None)
@given(
    files=st.dictionaries(
        st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
            lambda name: name not in {".", ".."}
        ),
        st.binary(max_size=300),
        min_size=1,
        max_size=5,
    )
)
def test_all_files_have_their_bytes(
    way: Way, tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("files")
    assert store(way, folder, list(files.items())) == len(files)
    assert found(folder) == files


@pytest.mark.parametrize("way", WAYS)
def test_large_ones_and_nulls(way: Way, tmp_path: Path) -> None:
    files = [("a", b"\0" * 3_000_000), ("b", b""), ("c", bytes(range(256)))]
    assert store(way, tmp_path, files) == 3
    assert found(tmp_path) == dict(files)


@pytest.mark.parametrize("way", WAYS)
def test_a_folder_is_made_if_that_alone_is_missing(way: Way, tmp_path: Path) -> None:
    assert store(way, tmp_path, [("new/a", b"1"), ("new/b", b"2"), ("other/c", b"3")]) == 3
    assert found(tmp_path) == {"new/a": b"1", "new/b": b"2", "other/c": b"3"}
    assert store(way, tmp_path, [("one/two/a", b"1")]) == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_file_is_replaced_and_a_link_too(way: Way, tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"a longer content")
    outside = tmp_path / "outside"
    outside.write_bytes(b"untouched")
    (tmp_path / "link").symlink_to(outside)
    assert store(way, tmp_path, [("old", b"new"), ("link", b"linked")]) == 2
    assert found(tmp_path) == {"old": b"new", "link": b"linked", "outside": b"untouched"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "in_the_way", [pytest.param("b", id="a folder of its name"), pytest.param("b.tmp", id="a partial file of its name")]
)
def test_the_first_failure_ends_it(way: Way, tmp_path: Path, in_the_way: str) -> None:
    (tmp_path / in_the_way).mkdir()
    assert store(way, tmp_path, [("a", b"1"), ("b", b"2"), ("c", b"3")]) == 1
    assert found(tmp_path) == {"a": b"1"}, "nothing of the failed one, and none after it"


class TestPutMany:
    """The same as puts, one after another."""

    def test_stores_in_order(self, tmp_path: Path) -> None:
        together, alone = LocalStore(tmp_path / "together"), LocalStore(tmp_path / "alone")
        objects = [(f"index/{number // 3:09}/{number}.json", b"%d" % number) for number in range(10)]
        together.put("index/000000000/0.json", b"old")
        assert together.put_many(objects) == len(objects)
        for key, data in objects:
            alone.put(key, data)
        assert found(tmp_path / "together") == found(tmp_path / "alone")

    def test_a_new_store_is_left_to_put(self, tmp_path: Path) -> None:
        store = LocalStore(tmp_path / "not" / "there")
        assert store.put_many([("a/b", b"1")]) == 0
        assert not (tmp_path / "not").exists()

    def test_follows_no_linked_folder(self, tmp_path: Path) -> None:
        store = LocalStore(tmp_path / "run")
        store.put("a/b", b"1")
        (tmp_path / "outside").mkdir()
        (tmp_path / "run" / "linked").symlink_to(tmp_path / "outside")
        assert store.put_many([("a/c", b"2"), ("linked/d", b"3")]) == 1
        assert found(tmp_path / "outside") == {}

    def test_refuses_a_key_that_leads_out(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match="not a storage key"):
            LocalStore(tmp_path / "run").put_many([("../a", b"1")])
