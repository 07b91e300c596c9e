"""Which folders lie in a place, and at what cost in S3."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import StorageError
from trackside.runs.run_listing import KEYS_IN_A_PAGE, folders_in
from trackside.storage.memory import MemoryStore


class CountingStore(MemoryStore):
    """Counts listings, and the keys that they hand out."""

    def __init__(self) -> None:
        super().__init__()
        self.listings = 0
        self.keys = 0

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        self.listings += 1
        for key in super().list(prefix, start_after=start_after):
            self.keys += 1
            yield key


@pytest.mark.parametrize(
    ("keys", "folders"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(["readme.txt"], [], id="only a file"),
        pytest.param(["a/x", "a/y/z", "b/x"], ["a", "b"], id="folders"),
        pytest.param(["a/x", "a-1/x", "a0/x", "a.b/x"], ["a-1", "a.b", "a", "a0"], id="as S3 sorts them"),
    ],
)
def test_folders(keys: list[str], folders: list[str]) -> None:
    store = MemoryStore()
    for key in keys:
        store.put(key, b"")
    assert list(folders_in(store)) == folders


def test_a_long_run_costs_a_page_and_not_all_its_keys() -> None:
    store = CountingStore()
    for run in ("a", "b"):
        for step in range(3 * KEYS_IN_A_PAGE):
            store.put(f"{run}/debug-output/index/{step:012d}.json", b"")
    store.put("c/rule-request.json", b"")
    assert list(folders_in(store)) == ["a", "b", "c"]
    assert (store.listings, store.keys) == (3, 2 * KEYS_IN_A_PAGE + 1)


@given(st.sets(st.from_regex(r"[a-c0/.-]{1,6}", fullmatch=True), max_size=30))
def test_every_folder_once(names: set[str]) -> None:
    store = MemoryStore()
    kept = set()
    for name in names:
        try:
            store.put(name, b"")
        except StorageError:  # no key
            continue
        kept.add(name)
    expected = sorted({name.partition("/")[0] for name in kept if "/" in name})
    found = list(folders_in(store))
    assert sorted(found) == expected
    assert len(found) == len(set(found))
