"""The memory that this process may still take. A copy that finds none would end the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

KEPT_FREE_BYTES = 256 << 20  # for the training itself, and for writing what was copied
LOOK_EVERY_BYTES = 64 << 20  # a look takes a tenth of a millisecond, a copy of so much a hundred times as long
_UNLIMITED_BYTES = 1 << 60  # a limit above it is none
_OF_PROCESS = {"Max data size": "VmData", "Max address space": "VmSize"}
_ADVICE = "Save fewer tensors, or reductions of them, or give the capture request a memory_mb"


def free_bytes(root: Path = Path("/")) -> int | None:
    """Return the bytes that are free: by the machine, by each limit of this container, and by those of this process.

    None where nothing is known. Memory that only caches files counts as free.

    Args:
        root: The folder that has `proc` and `sys`.
    """
    amounts = [_available(root), *(limit - used for limit, used in (*_limits(root), *_limits_of_process(root)))]
    return min((max(0, amount) for amount in amounts if amount is not None), default=None)


class MemoryRoom:
    """Decides whether copies fit into the free memory. It looks once for each 64 MiB of copies."""

    def __init__(self, free: Callable[[], int | None] = free_bytes) -> None:
        self._free = free
        self._unseen = 0  # bytes copied since the last look

    def lacks(self, size_bytes: int) -> str:
        """Return why another copy of this size does not fit; "" if it does.

        Args:
            size_bytes: The size of the copy.
        """
        free = self._seen(size_bytes)
        if free is None or size_bytes + KEPT_FREE_BYTES <= free:
            return ""
        return f"a copy of {_amount(size_bytes)} of tensors is due, and {_amount(free)} of memory are free. {_ADVICE}"

    def lacks_after(self, size_bytes: int) -> str:
        """Return why a copy of this size, which was made, cannot be kept; "" if it can.

        Args:
            size_bytes: The size of the copy.
        """
        free = self._seen(size_bytes)
        if free is None or free >= KEPT_FREE_BYTES:
            return ""
        return f"with its tensors {_amount(free)} of memory are free. {_ADVICE}"

    def _seen(self, size_bytes: int) -> int | None:
        """Return the free bytes if it is time to look; None if it is not, or if they are unknown."""
        self._unseen += size_bytes
        if self._unseen < LOOK_EVERY_BYTES:
            return None
        self._unseen = 0
        return self._free()


def _available(root: Path) -> int | None:
    for line in _read(root / "proc/meminfo").splitlines():
        name, _, amount = line.partition(":")
        if name == "MemAvailable" and amount.split()[:1] and amount.split()[0].isdigit():
            return 1024 * int(amount.split()[0])
    return None


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield the limit of each group of this process that has one, and the bytes in use that are no cache of files."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = Path(path.strip("/"))
        for folder in (group, *group.parents):  # a group may take no more than those around it
            limit, used = _number(_read(top / folder / names[0])), _number(_read(top / folder / names[1]))
            if limit is None or used is None or limit >= _UNLIMITED_BYTES:
                continue
            statistics = dict(
                line.split(" ", 1) for line in _read(top / folder / "memory.stat").splitlines() if " " in line
            )
            yield limit, used - (_number(statistics.get(names[2], "")) or 0)


def _limits_of_process(root: Path) -> Iterator[tuple[int, int]]:
    """Yield each limit of this process (`ulimit -d`, `ulimit -v`), and the bytes in use."""
    limits = _read(root / "proc/self/limits")
    found = [(limit, field) for name, field in _OF_PROCESS.items() if (limit := _named(name, limits)) is not None]
    status = _read(root / "proc/self/status") if found else ""
    for limit, field in found:
        yield limit, 1024 * (_named(field, status) or 0)


def _named(name: str, text: str) -> int | None:
    """Return the number behind a name at the start of a line; None if it has none."""
    for line in text.splitlines():
        if line.startswith(name):
            words = line.removeprefix(name).strip(": \t").split()
            return _number(words[0]) if words else None
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _amount(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB" if size_bytes >= 2**30 else f"{size_bytes / 2**20:.0f} MiB"
