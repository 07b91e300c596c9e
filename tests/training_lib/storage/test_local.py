"""The store in a folder: the contract, and what only disks do."""

import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.errors import (
    AccessDeniedError,
    KeyNotFoundError,
    LocationNotFoundError,
    NotAFileError,
    StorageError,
    StorageUnavailableError,
)
from trackside.storage import local
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.testing.store_contract import KEY, AppendableStoreContract, Peek, Plant


class TestLocalStore(AppendableStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> LocalStore:
        return LocalStore(tmp_path / "run")  # not there yet: the first put creates it

    @pytest.fixture
    def plant(self, tmp_path: Path) -> Plant:
        def plant(key: str, data: bytes) -> None:
            path = tmp_path / "run" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

        return plant

    @pytest.fixture
    def peek(self, tmp_path: Path) -> Peek:
        def peek(key: str) -> bytes | None:
            path = tmp_path / "run" / key
            return path.read_bytes() if path.exists() else None

        return peek


def all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def fail_with(number: int) -> Callable[..., object]:
    def fail(*_args: object, **_more: object) -> object:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("call", "number", "expected"),
    [
        pytest.param("write", errno.ENOSPC, (StorageUnavailableError, "The disk is full"), id="disk full"),
        pytest.param(
            "replace", errno.ENOSPC, (StorageUnavailableError, "The disk is full"), id="disk full at the rename"
        ),
        pytest.param("write", errno.EDQUOT, (StorageUnavailableError, "quota"), id="quota"),
        pytest.param("write", errno.EIO, (StorageUnavailableError, "Input/output error"), id="broken disk"),
        pytest.param("open", errno.EMFILE, (StorageUnavailableError, "ulimit -n"), id="too many files"),
        pytest.param("open", errno.EACCES, (AccessDeniedError, "permissions"), id="no permission"),
        pytest.param("replace", errno.EPERM, (AccessDeniedError, "permissions"), id="not the owner"),
        pytest.param("open", errno.EROFS, (AccessDeniedError, "read-only"), id="read-only"),
    ],
)
def test_a_failed_put_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, expected: tuple[type[StorageError], str]
) -> None:
    kind, advice = expected
    store = LocalStore(tmp_path)
    store.put(KEY, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail_with(number))
        with pytest.raises(kind, match=advice) as caught:
            store.put(KEY, b"new and longer")
    assert caught.value.errno == number
    assert KEY in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert all_files(tmp_path) == [KEY], "nothing is left lying about"
    assert store.get(KEY) == b"old"
    store.put(KEY, b"new")
    assert store.get(KEY) == b"new", "the store works again once the disk does"


@pytest.mark.parametrize("folder", [pytest.param("new", id="one"), pytest.param("new/er", id="two")])
@pytest.mark.parametrize("write", [pytest.param("put", id="put"), pytest.param("append", id="append")])
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(errno.ENOSPC, (StorageUnavailableError, "The disk is full"), id="no room for a folder"),
        pytest.param(errno.EROFS, (AccessDeniedError, "read-only"), id="read-only"),
    ],
)
def test_a_folder_that_cannot_be_made(  # noqa: PLR0917 - pytest gives them by name
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
    write: str,
    number: int,
    expected: tuple[type[StorageError], str],
) -> None:
    kind, advice = expected
    store = LocalStore(tmp_path)
    store.put(KEY, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", fail_with(number))
        with pytest.raises(kind, match=advice) as caught:
            getattr(store, write)(f"{folder}/file", b"x")
    assert caught.value.errno == number
    getattr(store, write)(f"{folder}/file", b"x")
    assert all_files(tmp_path) == sorted([KEY, f"{folder}/file"])


def test_a_run_that_was_removed_is_made_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "run")
    for _ in range(2):
        store.put("a/b/c", b"x")
        store.append("a/b/d", b"x")
        assert [*store.list()] == ["a/b/c", "a/b/d"]
        assert store.get("a/b/d") == b"x"
        shutil.rmtree(tmp_path / "run")
    with pytest.raises(KeyNotFoundError):
        store.get("a/b/c")
    assert [*store.list()] == []


@pytest.mark.parametrize(
    ("call", "number", "expected"),
    [
        pytest.param("open", errno.EACCES, (AccessDeniedError, "permissions"), id="no permission"),
        pytest.param("write", errno.ENOSPC, (StorageUnavailableError, "The disk is full"), id="disk full"),
    ],
)
def test_a_failed_append_leaves_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, expected: tuple[type[StorageError], str]
) -> None:
    kind, advice = expected
    store = LocalStore(tmp_path)
    store.append(KEY, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail_with(number))
        with pytest.raises(kind, match=advice) as caught:
            store.append(KEY, b"more")
    assert caught.value.errno == number
    assert all_files(tmp_path) == [KEY]
    store.append(KEY, b" and new")
    assert store.get(KEY) == b"old and new"


def test_a_disk_that_fills_up_halfway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write, room = os.write, [10]

    def write(descriptor: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real_write(descriptor, data[: room[0]])
        room[0] -= written
        return written

    store = LocalStore(tmp_path)
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StorageUnavailableError, match="The disk is full"):
        store.put(KEY, b"more than ten bytes")
    assert all_files(tmp_path) == []
    room[0] = 1_000
    store.put(KEY, b"more than ten bytes")
    assert store.get(KEY) == b"more than ten bytes"


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real_write(descriptor, data[:3]))
    store = LocalStore(tmp_path)
    store.put(KEY, b"0123456789")
    store.append(KEY, b"abcde")
    assert (tmp_path / KEY).read_bytes() == b"0123456789abcde"


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system reads 2 GB at once and no more."""
    store = LocalStore(tmp_path)
    store.put(KEY, b"0123456789")
    real_read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, length: real_read(descriptor, min(length, 3)))
    assert store.get(KEY) == b"0123456789"
    assert store.get(KEY, start=1, length=7) == b"1234567"


@pytest.mark.parametrize("length", [pytest.param(None, id="whole"), pytest.param(2**40, id="a damaged length")])
def test_a_read_takes_no_more_memory_than_the_file(tmp_path: Path, length: int | None) -> None:
    store = LocalStore(tmp_path)
    store.put(KEY, bytes(1_000_000))
    tracemalloc.start()
    try:
        assert len(store.get(KEY, length=length)) == 1_000_000
        assert tracemalloc.get_traced_memory()[1] < 1_200_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [pytest.param(None, id="whole"), pytest.param(10, id="some bytes")])
def test_a_pipe_is_no_object_and_stops_nobody(tmp_path: Path, length: int | None) -> None:
    os.mkfifo(tmp_path / "pipe")
    store = LocalStore(tmp_path)
    with pytest.raises(KeyNotFoundError):
        store.get("pipe", length=length)
    assert not store.exists("pipe")
    assert [*store.list()] == []


@pytest.mark.parametrize("length", [None, 0, 10])
def test_a_folder_is_no_object(tmp_path: Path, length: int | None) -> None:
    store = LocalStore(tmp_path)
    store.put(KEY, b"x")
    for folder in ("index", "index/000000000"):
        with pytest.raises(KeyNotFoundError):
            store.get(folder, length=length)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="only Linux tells which descriptors are open")
def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put(KEY, b"x")
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        store.get(KEY)
        store.append("grows", b"x")
        with pytest.raises(KeyNotFoundError):
            store.get("index")
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_limit_that_the_kernel_enforces(tmp_path: Path) -> None:
    """No patching: the kernel refuses to let the file grow, as it does on a full disk."""
    script = """
        import resource, sys
        from trackside.contracts.errors import StorageError
        from trackside.storage.local import LocalStore
        store = LocalStore(sys.argv[1])
        store.put("a/b", b"old")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        try:
            store.put("a/b", bytes(100_000))
        except StorageError as error:
            print(type(error).__name__, error.errno, store.get("a/b"))
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert answer.stdout == f"StorageUnavailableError {errno.EFBIG} b'old'\n"
    assert all_files(tmp_path) == ["a/b"]


def test_a_writer_killed_in_the_middle_leaves_what_was_there(tmp_path: Path) -> None:
    script = """
        import os, signal, sys
        from trackside.storage.local import LocalStore
        store = LocalStore(sys.argv[1])
        store.put("a/b", b"old")
        real_write = os.write
        def write(descriptor, data):
            real_write(descriptor, data[:5])
            os.kill(os.getpid(), signal.SIGKILL)
        os.write = write
        store.put("a/b", b"0123456789")
    """
    answer = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], check=False)
    assert answer.returncode == -signal.SIGKILL
    store = LocalStore(tmp_path)
    assert store.get("a/b") == b"old"
    assert [*store.list()] == ["a/b"]
    assert len(all_files(tmp_path)) == 2, "the partial file is there, and no reader sees it"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/b", b"old")
    (tmp_path / "a").chmod(0)
    try:
        for attempt in (lambda: store.put("a/b", b"x"), lambda: store.get("a/b"), lambda: store.exists("a/b")):
            with pytest.raises(AccessDeniedError):
                attempt()
        with pytest.raises(AccessDeniedError):
            list(store.list())
    finally:
        (tmp_path / "a").chmod(0o700)


@pytest.mark.parametrize(
    ("call", "attempt"),
    [
        pytest.param("stat", lambda store: store.exists(KEY), id="exists"),
        pytest.param("scandir", lambda store: [*store.list()], id="list"),
        pytest.param("unlink", lambda store: store.delete(KEY), id="delete"),
    ],
)
def test_no_permission_is_never_taken_for_absence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, attempt: Callable[[LocalStore], object]
) -> None:
    store = LocalStore(tmp_path)
    store.put(KEY, b"x")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail_with(errno.EACCES))
        with pytest.raises(AccessDeniedError):
            attempt(store)


def test_a_location_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    store = LocalStore(tmp_path / "file")
    for attempt in (lambda: store.put("a", b"x"), lambda: store.get("a"), lambda: list(store.list())):
        with pytest.raises(LocationNotFoundError, match="name a folder"):
            attempt()


def test_a_file_where_a_folder_is_needed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"x")
    store.put("b/c", b"x")
    for key in ("a/b", "b"):
        with pytest.raises(StorageError, match="A file stands where a folder is needed"):
            store.put(key, b"x")
    with pytest.raises(KeyNotFoundError):
        store.get("a/b")
    assert all_files(tmp_path) == ["a", "b/c"]


@pytest.mark.parametrize("has_writev", [True, False])
@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(0, 50), max_size=30), accepted=st.integers(1, 40))
def test_parts_are_written_whatever_the_system_takes_at_once(
    has_writev: bool, sizes: list[int], accepted: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With calls of 16 bytes and 3 parts, of which the system takes `accepted` bytes."""
    parts = [bytes([k + 1]) * size for k, size in enumerate(sizes)]
    real_write, asked = os.write, []

    def write(descriptor: int, data: bytes | memoryview) -> int:
        return real_write(descriptor, data[:accepted])

    def writev(descriptor: int, views: list[memoryview]) -> int:
        asked.append((len(views), sum(map(len, views))))
        return real_write(descriptor, b"".join(views)[:accepted])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_WRITTEN_AT_ONCE", 16)
        patch.setattr(local, "_MOST_GATHERED", 3)
        patch.setattr(local, "_CAN_GATHER", has_writev)
        patch.setattr(os, "write", write)
        patch.setattr(os, "writev", writev)
        folder = tmp_path_factory.mktemp("run")
        LocalStore(folder).put_parts("events/file", parts)
    assert (folder / "events" / "file").read_bytes() == b"".join(parts)
    assert all_files(folder) == ["events/file"]
    assert all(views <= 3 and size <= 16 for views, size in asked)


@pytest.mark.parametrize("call", ["write", "writev", "replace"])
def test_a_failed_put_of_parts_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"before")
    monkeypatch.setattr(os, call, fail_with(errno.ENOSPC))
    with pytest.raises(StorageUnavailableError, match="The disk is full"):
        store.put_parts("a", [b"x", bytes(3 << 20), b"y"])
    monkeypatch.undo()
    assert store.get("a") == b"before"
    assert all_files(tmp_path) == ["a"]


def test_a_put_of_parts_joins_nothing(tmp_path: Path) -> None:
    parts = [memoryview(bytes(1 << 20))] * 16
    store = LocalStore(tmp_path)
    tracemalloc.start()
    try:
        store.put_parts("a", parts)
        assert tracemalloc.get_traced_memory()[1] < 1 << 19
    finally:
        tracemalloc.stop()


def test_a_forked_process_does_not_share_partial_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    names = []
    monkeypatch.setattr(os, "replace", lambda partial, path: names.append(partial))
    for pid in (7, 7, 8):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        store._partial_count = itertools.count(len(names) % 2)
        store.put("a", b"x")
    assert len(set(names)) == 3


class TestLinks:
    @pytest.fixture
    def store(self, tmp_path: Path) -> LocalStore:
        (tmp_path / "outside" / "deep").mkdir(parents=True)
        (tmp_path / "outside" / "secret").write_bytes(b"secret")
        run = tmp_path / "run"
        (run / "inside").mkdir(parents=True)
        (run / "inside" / "file").write_bytes(b"ours")
        (run / "out").symlink_to(tmp_path / "outside")
        (run / "secret").symlink_to(tmp_path / "outside" / "secret")
        (run / "alias").symlink_to(run / "inside" / "file")
        (run / "loop").symlink_to(run)
        return LocalStore(run)

    @pytest.mark.parametrize("key", ["out/secret", "secret", "out/deep/new", "out"])
    def test_never_lead_out(self, store: LocalStore, tmp_path: Path, key: str) -> None:
        with pytest.raises(StorageError, match="leads out of it"):
            store.get(key)
        with pytest.raises(StorageError, match="leads out of it"):
            store.put(key, b"x")
        with pytest.raises(StorageError, match="leads out of it"):
            store.append(key, b"x")
        assert not store.exists(key)
        with pytest.raises(StorageError, match="leads out of it"):
            store.delete(key)
        with pytest.raises(StorageError, match="leads out of it"):
            store.list("out/")
        assert all_files(tmp_path / "outside") == ["secret"]

    @pytest.mark.parametrize("replaced", ["inside", "inside/deep"])
    def test_that_take_the_place_of_a_folder_in_use_never_lead_out(self, tmp_path: Path, replaced: str) -> None:
        clock = iter(range(1000))
        store, run, outside = LocalStore(tmp_path / "run", monotonic=lambda: next(clock)), tmp_path / "run", "outside"
        (tmp_path / outside / "deep").mkdir(parents=True)
        for key in ("deep/file", "file"):
            (tmp_path / outside / key).write_bytes(b"secret")
        for _ in range(2):
            store.put("inside/deep/file", b"ours")
            assert store.get("inside/deep/file") == b"ours"
        (run / replaced).rename(run / "moved")
        (run / replaced).symlink_to(tmp_path / outside)
        for attempt in (
            lambda: store.put("inside/deep/file", b"x"),
            lambda: store.append("inside/deep/file", b"x"),
            lambda: store.get("inside/deep/file"),
            lambda: store.delete("inside/deep/file"),
            lambda: store.list("inside/deep/"),
        ):
            with pytest.raises(StorageError, match="leads out of it"):
                attempt()
        assert not store.exists("inside/deep/file")
        assert {file.read_bytes() for file in (tmp_path / outside).rglob("file")} == {b"secret"}
        (run / replaced).unlink()
        (run / replaced).symlink_to(run / "moved")
        assert store.get("inside/deep/file") == b"ours", "a link within the run is followed"

    def test_within_the_run_are_read(self, store: LocalStore) -> None:
        assert store.get("alias") == b"ours"
        assert store.get("loop/inside/file") == b"ours"
        assert store.exists("loop/alias")
        assert [*store.list()] == ["alias", "inside/file", "secret"], "neither loops nor folders outside are walked"

    def test_the_location_itself_may_be_one(self, store: LocalStore, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "run")
        assert LocalStore(tmp_path / "link").get("inside/file") == b"ours"


def test_listing_after_a_key_does_not_walk_what_lies_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    for step in range(0, 20_000, 500):
        store.put(f"index/{step // 1000:09d}/{step:012d}_worker_0.json", b"x")
        store.put(f"events/{step:012d}/{step:012d}_worker_0.tfevents", b"x")
    opened: list[str] = []
    real_scandir = os.scandir

    def scandir(path: str) -> object:
        opened.append(str(path))
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert len([*store.list("index/", start_after="index/000000018/000000018500_worker_0.json")]) == 2
    assert len(opened) == 3, "index, its eighteenth thousand and its nineteenth"


def test_listing_is_lazy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    for place in range(50):
        store.put(f"events/{place:012d}/x", b"x")
    opened: list[str] = []
    real_scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (opened.append(path), real_scandir(path))[1])
    assert next(iter(store.list())) == "events/000000000000/x"
    assert len(opened) == 3


def test_passes_over_names_that_no_key_can_spell(tmp_path: Path) -> None:
    (tmp_path / "fine").write_bytes(b"x")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff")).write_bytes(b"x")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/folder\xff")).mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/folder\xff/fine")).write_bytes(b"x")
    assert [*LocalStore(tmp_path).list()] == ["fine"]


def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = LocalStore("run")
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.put("a", b"x")
    assert (tmp_path / "run" / "a").read_bytes() == b"x"


parts = st.text(alphabet="ab-.!0~é", min_size=1, max_size=3).filter(lambda part: part not in {".", ".."})
keys = st.lists(parts, min_size=1, max_size=4).map("/".join)


@settings(deadline=None)
@given(st.lists(keys, max_size=12), keys | st.just(""), keys | st.just(""))
def test_lists_as_the_store_in_memory_does(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], prefix: str, start_after: str
) -> None:
    local, memory = LocalStore(tmp_path_factory.mktemp("run")), MemoryStore()
    for name in names:
        try:
            local.put(name, b"x")
        except StorageError:
            continue  # "a" and "a/b" cannot both be files
        memory.put(name, b"x")
    assert [*local.list(prefix, start_after=start_after)] == [*memory.list(prefix, start_after=start_after)]


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("what", ["folder", "pipe", "ring", "link out"])
def test_what_bears_a_key_and_is_no_file_is_said_to_be_none(tmp_path: Path, what: str, start: int) -> None:
    path = tmp_path / "run" / "x"
    path.parent.mkdir()
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path if what == "link out" else path)
    store = LocalStore(path.parent)
    with pytest.raises(NotAFileError, match=r"link|no file"):
        store.get("x", start=start, length=10)


def test_a_ring_of_links_hinders_no_listing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("index/a", b"x")
    (tmp_path / "index" / "b").symlink_to("b")
    assert [*store.list()] == ["index/a", "index/b"]
