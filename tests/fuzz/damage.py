"""Damage to a run: to the bytes of its files, to the files themselves, to what a store says of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeAlias

from tests.fuzz.byte_damage import blind, knowing
from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.run_layout import TENSORS, event_key, index_key
from trackside.storage.store import Store

# What a document may raise that an earlier damage has changed.
_DAMAGED_ALREADY = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
_LARGE = (1 << 40, 17 << 30, 65 << 20)


@dataclass(frozen=True)
class Damage:
    """What was done, to which files (keys relative to the run), and whether a reader of all tensors must have told."""

    what: str
    keys: frozenset[str]
    must_report: str = ""  # the key, relative to the run, that must stand in `Trial.damaged`


@dataclass(frozen=True)
class Place:
    """Where to do damage: a run, one of its files and another, and a folder that no reader may be led into."""

    run: Path
    key: str
    other: str
    outside: Path


def damage_run(run: Path, outside: Path, random: Random) -> Damage:
    """Does one thing to the run that lies in the folder `run`. `outside` is a folder that it must not lead into."""
    keys = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file() or path.is_symlink())
    if not keys:
        return Damage("nothing left to damage", frozenset())
    place = Place(run, random.choice(keys), random.choice(keys), outside)
    kinds = random.choices(list(_KINDS), weights=[weight for weight, _ in _KINDS.values()])
    return _KINDS[kinds[0]][1](place, random)


class ShiftingStore:
    """A store whose objects vanish and change between one look and the next. `touched` are the keys that did."""

    def __init__(self, store: Store, random: Random, *, share: float) -> None:
        self._store, self._random, self._share = store, random, share
        self.touched: set[str] = set()

    @property
    def uri(self) -> str:
        return self._store.uri

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self._store.put(key, data)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        data = self._store.get(key, start=start, length=length)
        if self._random.random() >= self._share:
            return data
        self.touched.add(key)
        kind = self._random.choice(("gone", "short", "empty", "other"))
        if kind == "gone":
            raise KeyNotFoundError(f"{key} has vanished")
        if kind == "other":
            return blind(data, self._random)[0] if length is None else blind(data, self._random)[0][:length]
        return b"" if kind == "empty" else data[: self._random.randrange(len(data) + 1)]

    def exists(self, key: str) -> bool:
        return self._store.exists(key)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        for key in self._store.list(prefix, start_after=start_after):
            if self._random.random() < self._share and key.endswith((".json", ".tpi", ".tss", ".tfevents")):
                self.touched.add(key)
                continue
            yield key

    def delete(self, key: str) -> None:
        self._store.delete(key)


def _damage_bytes(place: Place, random: Random, *, is_knowing: bool) -> Damage:
    run, key = place.run, place.key
    path = run / key
    if not is_small_file(path):
        return Damage("too large to damage again", frozenset())
    data = path.read_bytes()
    changed = (knowing(key, data, random) if is_knowing else None) or blind(data, random)
    path.write_bytes(changed[0])
    # What a packed index says with its checksums right is believed: it may hide or move every step.
    keys = {key, f"{TENSORS}/"} if key.endswith(".tpi") and is_knowing else {key}
    if key.endswith(".tfevents") and is_knowing:
        _mend_index(run, key, changed[0])
    is_cut = key.endswith(".tfevents") and changed[0] == data[: len(changed[0])] and len(changed[0]) < len(data)
    return Damage(f"{key}: {changed[1]}", frozenset(keys), key if is_cut else "")


def _mend_index(run: Path, key: str, data: bytes) -> None:
    """Points the index at the records as they lie now, so that a reader gets as far as the change."""
    name = Path(key).name.removesuffix(".tfevents")
    found = [path for path in (run / TENSORS / "index").glob(f"*/{name}.json") if is_small_file(path)]
    with contextlib.suppress(*_DAMAGED_ALREADY):
        document = json.loads(found[0].read_bytes()) if found else {}
        start = 0
        for entry in document.get("tensor_payload", ()):
            if start + 8 > len(data):
                break
            (length,) = struct.unpack_from("<Q", data, start)
            entry["start_idx"], entry["length"] = start, length + 16
            start += length + 16
        if found:
            found[0].write_text(json.dumps(document), encoding="ascii")


def _move_index(place: Place, random: Random) -> Damage:
    """An index whose ranges overlap, lie elsewhere, or name what is not there."""
    run = place.run
    paths = sorted(filter(is_small_file, (run / TENSORS / "index").rglob("*.json")))
    if not paths:
        return Damage("no index to move", frozenset())
    path = random.choice(paths)
    with contextlib.suppress(*_DAMAGED_ALREADY):
        document = json.loads(path.read_bytes())
        entry = random.choice(document["tensor_payload"])
        size = random.choice((0, 1, 16, 2**20, 2**33, 2**34, 2**34 + 1, 2**40, 2**62, 2**63 - 1))
        entry[random.choice(("start_idx", "length"))] = size
        path.write_text(json.dumps(document), encoding="ascii")
        key = path.relative_to(run).as_posix()
        return Damage(f"{key}: {entry}", frozenset({key}))
    return Damage("no index to move", frozenset())


def _replace(place: Place, random: Random) -> Damage:
    """Something else stands where the file was."""
    run, key, outside = place.run, place.key, place.outside
    path = run / key
    kind = random.choice(
        ("link out", "relative link out", "loop", "dangling", "folder", "fifo", "socket", "device", "zero", "inside")
    )
    _unlink(path)
    canary = outside / f"canary{path.suffix}"
    if kind == "link out":
        path.symlink_to(canary)
    elif kind == "relative link out":
        path.symlink_to(os.path.relpath(canary, path.parent))
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "folder":
        (path / "below").mkdir(parents=True)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        _bind(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "inside":
        files = sorted(other for other in run.rglob(f"*{path.suffix}") if other.is_file() and other != path)
        path.symlink_to(random.choice(files) if files else "nowhere")
    elif not _make_zero_device(path):
        path.symlink_to("/dev/zero")
    keys = {key, f"{TENSORS}/"} if key.endswith(".tpi") and kind == "inside" else {key}
    is_gone = key.endswith(".tfevents") and kind != "inside"
    return Damage(f"{key} is a {kind}", frozenset(keys), key if is_gone else "")


def _replace_folder(place: Place, random: Random) -> Damage:
    """A link or a file stands where a folder was, or a link to a folder where nothing was."""
    run, key, outside = place.run, place.key, place.outside
    parents = [parent for parent in Path(key).parents if parent != Path()]
    if not parents:
        return Damage("the run itself stays", frozenset())
    folder = run / random.choice(parents)
    below = folder.relative_to(run).as_posix()
    kinds = ["loop", "file", "fifo", "gone", "link up beside", "link out beside"]
    # The parts of a run (tensors, statistics, rule output) may lie elsewhere behind a link, as a run itself may.
    kind = random.choice([*kinds, "link out", "link out"] if folder.parent != run else kinds)
    if kind.endswith("beside"):
        (folder / "000000099").symlink_to(run if kind == "link up beside" else outside, target_is_directory=True)
        return Damage(f"{below}/000000099 is a {kind}", frozenset({f"{below}/000000099"}))
    _unlink(folder)
    if kind == "link out":
        folder.symlink_to(outside, target_is_directory=True)
    elif kind == "loop":
        folder.symlink_to(folder.parent, target_is_directory=True)
    elif kind == "file":
        folder.write_bytes(b"")
    elif kind == "fifo":
        os.mkfifo(folder)
    return Damage(f"the folder {below} is a {kind}", frozenset({f"{below}/"}))


def _make_large(place: Place, random: Random) -> Damage:
    """Far more bytes than a reader should take: zeros that need no disk, or real JSON of some size."""
    run, key = place.run, place.key
    if not (run / key).is_file():
        return Damage("nothing to make large", frozenset())
    size = random.choice(_LARGE)
    with (run / key).open("r+b") as file:
        if random.random() < 0.3 and key.endswith(".json"):  # the costly one is rarer
            size = random.choice((1 << 20, 8 << 20))
            unit = random.choice((b"[],", b'"",', b"0,", b'{"a":1},', b'"\xf0\x9f\x98\x80",'))
            file.write(b'{"tensor_payload":[' + unit * (size // len(unit)) + b"0]}")
            file.truncate()
            return Damage(f"{key} is JSON of {size} bytes of {unit!r}", frozenset({key}))
        file.truncate(size)
    if key.endswith(".tfevents"):
        _point_into(run, key, random)
    return Damage(f"{key} is {size} bytes long, mostly a hole", frozenset({key}))


def _point_into(run: Path, key: str, random: Random) -> None:
    name = Path(key).name.removesuffix(".tfevents")
    for path in filter(is_small_file, (run / TENSORS / "index").glob(f"*/{name}.json")):
        with contextlib.suppress(*_DAMAGED_ALREADY):
            document = json.loads(path.read_bytes())
            document["tensor_payload"][0]["length"] = random.choice((1 << 33, 1 << 34, 1 << 30))
            path.write_text(json.dumps(document), encoding="ascii")


def _add(place: Place, random: Random) -> Damage:
    """A file that no writer made."""
    run = place.run
    step = random.choice((0, 5, 999_999_999_999, 2**63 - 1, 2**63, 10**19 - 1))
    worker = random.choice(
        ("worker_9", "worker_0", "a\nb", "__", "_job-worker_task-1", "ä" * 100, "\x1b[31m", "x.json")
    )
    meta = {"mode": "TRAIN", "mode_step": step, "event_file_name": event_key(0, "worker_0")}
    entries = [{"tensorname": "Net_fc1.weight", "start_idx": 0, "length": 64}]
    index = json.dumps({"meta": meta, "tensor_payload": entries, "shape_payload": []}).encode()
    files = {
        f"{TENSORS}/{index_key(step, worker)}": index,
        f"{TENSORS}/index/{random.choice(('000000000', '000000077', 'x'))}/{step:012d}_{worker}.json": index,
        f"{TENSORS}/{event_key(step, worker)}": random.randbytes(20),
        f"{TENSORS}/collections/000000000/{worker}_collections.json": random.choice(
            (b"", b"{}", b'{"collections": {}, "_meta": {"num_workers": 1000000}}')
        ),
        f"{TENSORS}/packed-index/{worker}/0000000000000-000000000000.tpi": random.randbytes(50),
        f"statistics/{worker}/0000000000000-000000000000-open.tss": random.randbytes(50),
        f"{TENSORS}/index/000000000/\udcff.json": b"{}",
        f"{TENSORS}/index/000000000/x.json.tmp": b"{",
        f"{TENSORS}/tensorboard/TRAIN/x.tfevents": b"x",
    }
    key = random.choice(sorted(files))
    path = run / key
    with contextlib.suppress(OSError):  # something stands in the way already
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[key])
    return Damage(f"{key!a} added", frozenset({key}))


def _add_many(place: Place, random: Random) -> Damage:
    """Thousands of tiny files."""
    run = place.run
    count = 2000
    keys = set()
    with contextlib.suppress(OSError):  # something stands in the way already
        for number in range(count):
            step = 10_000 + number
            key = f"{TENSORS}/{index_key(step, f'worker_{random.randrange(3)}')}"
            path = run / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"{}" if number % 2 else b"")
            keys.add(key)
    return Damage(f"{count} tiny index files added", frozenset(keys))


def _remove(place: Place, random: Random) -> Damage:
    _unlink(place.run / place.key)
    return Damage(f"{place.key} removed", frozenset({place.key}), place.key if place.key.endswith(".tfevents") else "")


def _exchange(place: Place, random: Random) -> Damage:
    """Two files in each other's place."""
    run, first, second = place.run, place.key, place.other
    one, other = run / first, run / second
    spare = run / "spare"
    with contextlib.suppress(OSError):  # one may lie below the other by now
        one.rename(spare)
        if other != one:
            other.rename(one)
        spare.rename(other)
    keys = {first, second, *([f"{TENSORS}/"] if first.endswith(".tpi") and second.endswith(".tpi") else [])}
    return Damage(f"{first} and {second} exchanged", frozenset(keys))


def is_small_file(path: Path) -> bool:
    """True if it can still be changed: an earlier damage may have put a link, a pipe or a terabyte there."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= 1 << 24


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
        shutil.rmtree(path, ignore_errors=True) if is_folder else path.unlink()


def _bind(path: Path) -> None:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as it:  # a path too long for a socket
        it.bind(str(path))


def _make_zero_device(path: Path) -> bool:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    except (OSError, AttributeError):  # only root may
        return False
    return True


_Do: TypeAlias = "Callable[[Place, Random], Damage]"
_KINDS: dict[str, tuple[int, _Do]] = {
    "blind": (30, partial(_damage_bytes, is_knowing=False)),
    "knowing": (45, partial(_damage_bytes, is_knowing=True)),
    "moved index": (10, _move_index),
    "replaced file": (14, _replace),
    "replaced folder": (5, _replace_folder),
    "large": (8, _make_large),
    "added": (10, _add),
    "removed": (5, _remove),
    "exchanged": (5, _exchange),
    "many": (1, _add_many),
}
