"""Lines in the user's own files: the place of a call, and how it is shown. Nothing is imported or run to find them."""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

MOST_FRAMES = 200

_started: list[str] = []  # the path of the script, once it was seen
_OURS = str(Path(os.path.abspath(__file__)).parents[2])  # trackside
_OLD_CELL = re.compile(r"<ipython-input-(\d+)-\w+>$")  # of IPython's terminal, and of kernels before ipykernel 6
_CELL_NAME = re.compile(r"In\[(\d+)\]")


class Place(NamedTuple):
    """A line of a file."""

    file: str
    line: int


def user_place() -> Place | None:
    """Return the innermost frame of the user's own code on the stack."""
    frame = sys._getframe(1)
    for _ in range(MOST_FRAMES):
        if is_user_file(frame.f_code.co_filename):
            return Place(absolute(frame.f_code.co_filename), frame.f_lineno)
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=4096)
def is_user_file(path: str) -> bool:
    """Return True for a cell of a notebook, and for a file that is neither installed, nor Python's, nor ours."""
    if _OLD_CELL.match(path):
        return True
    if path.startswith("<") or not path.endswith(".py"):
        return False
    absolute = os.path.abspath(path)
    if {"site-packages", "dist-packages"} & set(absolute.split(os.sep)):
        return False
    return not any(absolute.startswith(folder + os.sep) for folder in _installed_folders())


@functools.lru_cache(maxsize=1)
def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return (_OURS, *{os.path.abspath(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def script_path() -> str:
    """Return the path of the started script; "" in a notebook, or if it is no file of the user's.

    Python takes it from the main module as the script ends, before the facts of a short training are stored.
    """
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if isinstance(path, str):
        _started[:] = [os.path.abspath(path)]
    return _started[0] if _started and is_user_file(_started[0]) else ""


def shown(place: Place | None, script: str) -> str:
    """Return the place as "train.py:41", relative to the script's folder; "" for no place.

    A line of a notebook's cell is "In [7], line 3".
    """
    if place is None:
        return ""
    if cell := _cell_of(place.file):
        return f"In [{cell}], line {place.line}"
    folder = os.path.dirname(script)
    name = os.path.relpath(place.file, folder) if script else os.path.basename(place.file)
    return f"{name.replace(os.sep, '/')}:{place.line}"


def absolute(path: str) -> str:
    return path if path.startswith("<") else os.path.abspath(path)


def _cell_of(file: str) -> str:
    """Return the number of the newest cell with that code; "" for code that is no cell of this notebook."""
    if old := _OLD_CELL.match(file):
        return old[1]
    ipython = sys.modules.get("IPython")
    try:
        name = ipython.get_ipython().compile.format_code_name(file) if ipython is not None else None
    except AttributeError:  # no shell runs here, or one that does not name its cells
        return ""
    found = _CELL_NAME.fullmatch(name[1]) if name else None
    return found[1] if found else ""


script_path()  # as capture begins
