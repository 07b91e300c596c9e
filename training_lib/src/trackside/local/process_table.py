"""The living processes with parent, group and birth, to signal a whole process family and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One living process. Two are the same if id and birth agree: ids are reused, and orphans change parents."""

    pid: int
    parent: int = field(compare=False)
    group: int = field(compare=False)
    born: str


def living_processes() -> Mapping[int, Process]:
    """Return every process that has not ended (zombies have), by id. Reads /proc on Linux, else calls `ps`."""
    found = _from_proc() if (PROC / "self" / "stat").exists() else _from_ps()
    return {process.pid: process for process in found}


def family(table: Mapping[int, Process], known: Iterable[int], *, group: int | None = None) -> frozenset[Process]:
    """Return the living ones of `known` and of `group`, with all their descendants."""
    known = set(known)
    found = {pid for pid, process in table.items() if pid in known or (group is not None and process.group == group)}
    while True:
        below = {pid for pid, process in table.items() if process.parent in found} - found
        if not below:
            return frozenset(table[pid] for pid in found)
        found |= below


def started_with(variable: str, value: str) -> tuple[int, ...]:
    """Return the ids of other living processes that were started with this environment variable.

    Only of processes of this user on this machine, and only where there is /proc.

    Args:
        variable: Name of the variable.
        value: Its value.
    """
    return tuple(pid for pid in living_processes() if pid != os.getpid() and variables_of(pid).get(variable) == value)


def variables_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; {} if it ended, is another user's, or without /proc.

    Args:
        pid: Its id.
    """
    try:
        content = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (text.partition("=") for text in content.decode(errors="surrogateescape").split("\0"))
    return {name: value for name, _, value in pairs if name}


def signal_all(processes: Iterable[Process], number: signal.Signals) -> None:
    """Send the signal to each process. One that ended in between is no error."""
    for process in processes:
        try:
            os.kill(process.pid, number)
        except (ProcessLookupError, PermissionError):  # ended, or changed its user: neither is ours to handle
            continue


def parse_stat(text: str) -> Process | None:
    """Return the process in a `/proc/<pid>/stat` line; None for a zombie. See proc(5)."""
    head, _, rest = text.rpartition(")")  # the name in brackets may itself hold brackets and blanks
    state, parent, group, *others = rest.split()
    if state in "ZX":
        return None
    return Process(pid=int(head.split(" ", 1)[0]), parent=int(parent), group=int(group), born=others[16])


def parse_ps(line: str) -> Process | None:
    """Return the process in a line of `ps -A -o pid=,ppid=,pgid=,stat=,lstart=`; None for a zombie."""
    pid, parent, group, state, born = line.split(None, 4)
    return None if state.startswith("Z") else Process(int(pid), int(parent), int(group), born.strip())


def _from_proc() -> list[Process]:
    found = []
    for folder in PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            process = parse_stat((folder / "stat").read_text(encoding="utf-8", errors="replace"))
        except (FileNotFoundError, ProcessLookupError):  # ended while we looked
            continue
        if process:
            found.append(process)
    return found


def _from_ps() -> list[Process]:
    command = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat=,lstart="]
    listing = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
    return [process for line in listing.splitlines() if line.strip() and (process := parse_ps(line))]
