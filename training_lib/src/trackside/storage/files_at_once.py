"""Many small files, stored by one call of compiled code, or by Python where that is not installed."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Sequence
from typing import Any

from trackside.compiled import declared, library

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def stored_files(names: Sequence[tuple[bytes, bytes]], contents: Sequence[bytes]) -> int:
    """Write each file under a partial name, then rename it, in order, until one fails. Make a missing folder.

    Of a file that fails nothing remains, and a file that stands there is replaced whole.

    Args:
        names: The partial path and the final one of each, in one folder.
        contents: The bytes of each.

    Returns:
        The number of files that are stored.
    """
    if _compiled is None:
        return _stored_by_python(names, contents)
    count = len(names)
    row = ctypes.c_char_p * count
    sizes = (ctypes.c_int64 * count)(*map(len, contents))
    partials, paths = zip(*names, strict=True)
    stored: int = _compiled(count, row(*partials), row(*paths), row(*contents), sizes)
    return stored


def _stored_by_python(names: Sequence[tuple[bytes, bytes]], contents: Sequence[bytes]) -> int:
    for place, ((partial, path), content) in enumerate(zip(names, contents, strict=True)):
        try:
            _store(partial, path, content)
        except OSError:
            return place
    return len(names)


def _store(partial: bytes, path: bytes, content: bytes) -> None:
    try:
        file = os.open(partial, _NEW, 0o666)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.dirname(partial))
        file = os.open(partial, _NEW, 0o666)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _loaded() -> Any:
    found = library()
    if found is None:
        return None
    number, place = ctypes.c_int64, ctypes.c_void_p
    return declared(found.trackside_store_files, number, place, place, place, place, result=number)


_compiled = _loaded()
