"""Checkpoints on the disk: a copy of the good one, later ones moved aside, and what points to them.

Nothing of the script's is deleted or written over. Each move can be made again after a crash in the middle.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from trackside.rescue.restarting.checkpoint_choice import place_aside, place_before

MOST_POINTER_BYTES = 4096  # of a file with the name of the newest checkpoint
_ROOM = 2  # times the size of a copy that must be free


def keep_copy(good: str, name: str) -> str:
    """Copy the good checkpoint, and return the place of the copy: a script that begins anew may write over its own.

    Args:
        good: A file or folder.
        name: Of the run and the try.

    Raises:
        OSError: There is no room, or the checkpoint is gone.
    """
    copy = place_of_copy(good, name)
    free, size = shutil.disk_usage(os.path.dirname(good)).free, _size(Path(good))
    if free < _ROOM * size:
        raise OSError(f"a copy of {good} needs {_ROOM} x {size >> 20} MiB, and {free >> 20} MiB are free")
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    try:
        if os.path.isdir(good):
            shutil.copytree(good, copy, symlinks=True)
        else:
            shutil.copy2(good, copy)
    except OSError:
        drop_copy(copy)
        raise
    return copy


def place_of_copy(good: str, name: str) -> str:
    """Return the place of the copy that `keep_copy` makes.

    Args:
        good: A file or folder.
        name: Of the run and the try.
    """
    return place_aside(good, f"{name}-good")


def restore(good: str, copy: str) -> None:
    """Put the good checkpoint back if the script has deleted it since. Errors: `OSError`.

    Args:
        good: The good checkpoint.
        copy: Our copy of it.
    """
    if os.path.lexists(good):
        return
    if os.path.isdir(copy):
        shutil.copytree(copy, good, symlinks=True)
    else:
        shutil.copy2(copy, good)


def drop_copy(copy: str) -> None:
    """Delete a copy of ours, if any is left."""
    if os.path.isdir(copy):
        shutil.rmtree(copy, ignore_errors=True)
    elif os.path.exists(copy):
        os.unlink(copy)
    _drop_empty(os.path.dirname(copy))


def make_places(asides: Iterable[str]) -> None:
    """Make the folders for later checkpoints, which shows whether they can be moved. Errors: `OSError`."""
    for aside in asides:
        os.makedirs(os.path.dirname(aside), exist_ok=True)
        if not os.access(os.path.dirname(place_before(aside)), os.W_OK | os.X_OK):
            raise PermissionError(f"{os.path.dirname(place_before(aside))} is not writable")


def move_aside(asides: Iterable[str], *, good: str, copy: str, aliases: Iterable[str]) -> None:
    """Move later checkpoints to their places, and let what points to them point to the good one. Errors: `OSError`.

    Args:
        asides: Their places; one that was moved before stays as it is.
        good: The good checkpoint.
        copy: Our copy of it.
        aliases: Files among them, in whose place the good one is put.
    """
    for aside in asides:
        before = place_before(aside)
        os.makedirs(os.path.dirname(aside), exist_ok=True)
        if os.path.lexists(before) and not os.path.lexists(aside):
            for pointer in _pointers_to(before):
                _turn(pointer, os.path.join(os.path.dirname(aside), pointer.name), before, good)
            os.rename(before, aside)
        if before in aliases and not os.path.lexists(before):
            shutil.copy2(copy, _partial(before))
            os.replace(_partial(before), before)


def _size(path: Path) -> int:
    files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
    return sum(each.stat().st_size for each in files)


def _pointers_to(checkpoint: str) -> list[Path]:
    """Return links to a checkpoint, and small files with nothing but its name or path, beside it."""
    path = Path(checkpoint)
    return [each for each in path.parent.iterdir() if each.name != path.name and _points_to(each, path)]


def _points_to(each: Path, checkpoint: Path) -> bool:
    if each.is_symlink():
        return os.path.realpath(each) == os.path.realpath(checkpoint)
    if not each.is_file() or each.stat().st_size > MOST_POINTER_BYTES:
        return False
    return each.read_bytes().strip() in (checkpoint.name.encode(), str(checkpoint).encode())


def _turn(pointer: Path, aside: str, before: str, good: str) -> None:
    """Replace what points to a checkpoint by what points to the good one, at once, and keep it aside."""
    partial = _partial(str(pointer))
    Path(partial).unlink(missing_ok=True)
    if not os.path.lexists(aside):
        os.link(pointer, aside, follow_symlinks=False)
    if pointer.is_symlink():
        target = os.readlink(pointer)
        os.symlink(good if os.path.isabs(target) else os.path.relpath(good, pointer.parent), partial)
    else:
        text = pointer.read_text()
        new = good if text.strip() == before else os.path.basename(good)
        Path(partial).write_text(text.replace(text.strip(), new))
    os.replace(partial, pointer)


def _partial(path: str) -> str:
    return f"{path}.trackside-partial"


def _drop_empty(folder: str) -> None:
    """Delete folders of ours that hold nothing."""
    for each in (folder, os.path.dirname(folder)):
        try:
            os.rmdir(each)
        except OSError:
            return
