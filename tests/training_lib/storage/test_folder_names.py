"""Names in folders: what is remembered, and that it never shows."""

import itertools
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.storage import folder_names
from trackside.storage.folder_names import FolderNames
from trackside.storage.local import LocalStore

TICK_MS = 90  # of the file system's clock as these tests play it: as coarse as we allow for, and a little


class Clock:
    """Ours and the file system's: the latter moves in ticks, and marks folders that have changed."""

    def __init__(self, root: Path, *, tick_ms: int = TICK_MS, whole_seconds: bool = False) -> None:
        self.ms = 0
        self._root, self._tick_ms = root, tick_ms
        now = time.time_ns()
        self._start_ns = now - now % 10**9 + (0 if whole_seconds else 7)
        self._marked: dict[str, int] = {}
        self.mark()

    def __call__(self) -> float:
        return self.ms / 1000

    def mark(self) -> None:
        """Gives all folders that have changed since the last mark this tick's time."""
        stamp = self._start_ns + self.ms // self._tick_ms * self._tick_ms * 10**6
        for folder, _, _ in os.walk(self._root):
            if self._marked.get(folder) != os.stat(folder).st_mtime_ns:
                os.utime(folder, ns=(stamp, stamp))
                self._marked[folder] = stamp


def a_second_a_look() -> Callable[[], float]:
    seconds = itertools.count()
    return lambda: float(next(seconds))


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    real_scandir = os.scandir

    def scandir(path: str) -> object:
        seen.append(os.path.basename(path))
        return real_scandir(path)

    monkeypatch.setattr("trackside.storage.folder_names.os.scandir", scandir)
    return seen


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    (run / "a").write_bytes(b"x")
    return run


def test_an_unchanged_folder_is_not_scanned_again(folder: Path, scans: list[str]) -> None:
    clock = Clock(folder)
    names = FolderNames(monotonic=clock)
    assert names.of(str(folder)) == ("a",)
    clock.ms = 100
    assert names.of(str(folder)) == ("a",)
    scans.clear()
    for clock.ms in range(150, 2000, 100):
        assert names.of(str(folder)) == ("a",)
    assert scans == []
    (folder / "b").write_bytes(b"x")
    clock.mark()
    assert names.of(str(folder)) == ("a", "b")


def test_changes_within_one_tick_are_seen(folder: Path) -> None:
    clock = Clock(folder)
    names = FolderNames(monotonic=clock)
    assert names.of(str(folder)) == ("a",)
    for clock.ms, name in ((0, "b"), (20, "c"), (89, "d")):
        (folder / name).write_bytes(b"x")
        clock.mark()
        assert names.of(str(folder))[-1] == name, "although the folder's time is still the same"
    clock.ms = 120
    assert names.of(str(folder)) == ("a", "b", "c", "d")


def test_stamps_of_whole_seconds_take_longer_to_settle(folder: Path, scans: list[str]) -> None:
    clock = Clock(folder, tick_ms=1000, whole_seconds=True)
    names = FolderNames(monotonic=clock)
    names.of(str(folder))
    clock.ms = 900
    names.of(str(folder))
    (folder / "b").write_bytes(b"x")
    clock.mark()
    assert names.of(str(folder)) == ("a", "b")
    clock.ms = 2100
    assert names.of(str(folder)) == ("a", "b")
    scans.clear()
    clock.ms = 2200
    assert names.of(str(folder)) == ("a", "b")
    assert scans == []


def test_a_file_system_that_does_not_tell_is_seen_after_five_seconds(folder: Path) -> None:
    names, now = FolderNames(monotonic=lambda: now), 0.0
    stamp = os.stat(folder).st_mtime_ns
    names.of(str(folder))
    now = 1.0
    names.of(str(folder))
    (folder / "b").write_bytes(b"x")
    os.utime(folder, ns=(stamp, stamp))
    now = 5.9
    assert names.of(str(folder)) == ("a",)
    now = 6.0
    assert names.of(str(folder)) == ("a", "b")


def test_a_folder_much_older_than_its_files_is_not_believed(folder: Path) -> None:
    """As on a mount of S3, where it has the time of the mount for ever."""
    mounted = os.stat(folder).st_mtime_ns - 3600 * 10**9
    os.utime(folder, ns=(mounted, mounted))
    names = FolderNames(monotonic=a_second_a_look())
    for name in "bcdefgh":
        (folder / name).write_bytes(b"x")
        os.utime(folder, ns=(mounted, mounted))
        assert names.of(str(folder))[-1] == name


def test_links_may_come_to_lead_elsewhere(folder: Path, tmp_path: Path) -> None:
    names = FolderNames(monotonic=a_second_a_look())
    (tmp_path / "target").write_bytes(b"x")
    (folder / "link").symlink_to(tmp_path / "target")
    for _ in range(2):
        assert names.of(str(folder)) == ("a", "link")
    (tmp_path / "target").unlink()
    (tmp_path / "target").mkdir()
    assert names.of(str(folder)) == ("a",), "links to folders are not listed"


def test_a_folder_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    names = FolderNames(monotonic=a_second_a_look())
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(b"x")
        os.utime(tmp_path / name, ns=(10**18 + 7, 10**18 + 7))
        os.utime(tmp_path / name / name, ns=(10**18, 10**18))
    (tmp_path / "one").rename(tmp_path / "run")
    for _ in range(2):
        assert names.of(f"{tmp_path}/run") == ("one",)
    (tmp_path / "run").rename(tmp_path / "one")
    (tmp_path / "two").rename(tmp_path / "run")
    assert names.of(f"{tmp_path}/run") == ("two",)


def test_remembers_what_was_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scans: list[str]) -> None:
    monkeypatch.setattr(folder_names, "_MOST_NAMES", 30)
    folders = [tmp_path / name for name in "abc"]
    for place in folders:
        place.mkdir()
        for name in "12345":
            (place / name).write_bytes(b"x")
    clock = Clock(tmp_path)
    names = FolderNames(monotonic=clock)
    for clock.ms in (0, 500, 1000):  # to settle
        for place in folders[:2]:
            names.of(str(place))
    scans.clear()
    names.of(str(folders[0]))
    names.of(str(folders[2]))  # room for two
    names.of(str(folders[0]))
    assert scans == ["c"]
    names.of(str(folders[1]))
    assert scans == ["c", "b"]
    assert names._count == sum(map(folder_names._room, names._scans.values())) <= 30


def test_a_folder_that_is_gone(folder: Path) -> None:
    names = FolderNames()
    names.of(str(folder))
    shutil.rmtree(folder)
    with pytest.raises(FileNotFoundError):
        names.of(str(folder))


keys = st.lists(st.sampled_from(["a", "b", "c.tmp", "é"]), min_size=1, max_size=3).map("/".join)
changes = st.one_of(
    st.tuples(st.just("put"), keys),
    st.tuples(st.just("delete"), keys),
    st.tuples(st.just("folder"), keys),
    st.tuples(st.just("rename"), keys, keys),
    st.tuples(st.just("wait"), st.sampled_from([0, 1, 30, 90, 100, 150, 1000, 6000])),
    st.tuples(st.just("list"), keys | st.sampled_from(["", "a/", "a/b/", "b/"]), keys | st.just("")),
)


def change(run: Path, what: str, key: str, other: str = "") -> None:
    path = run / key
    try:
        if what == "put":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name("part.tmp").write_bytes(b"x")
            path.with_name("part.tmp").rename(path)
        elif what == "folder":
            path.mkdir(parents=True, exist_ok=True)
        elif what == "rename":
            path.rename(run / other)
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError:
        return  # nothing there, or something in the way


@settings(deadline=None, max_examples=150)
@given(st.lists(changes, min_size=5, max_size=40))
def test_lists_what_a_fresh_store_lists(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, ...]]
) -> None:
    run = tmp_path_factory.mktemp("run")
    clock = Clock(run)
    store = LocalStore(run, monotonic=clock)
    for what, *more in [*history, ("list", "", "")]:
        if what == "wait":
            clock.ms += int(more[0])
        elif what == "list":
            prefix, start_after = more
            fresh = [*LocalStore(run).list(prefix, start_after=start_after)]
            assert [*store.list(prefix, start_after=start_after)] == fresh
        else:
            change(run, what, *more)
            clock.mark()
