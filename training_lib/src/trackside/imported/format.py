"""A format of logs: how its files are recognised, which of them make one run, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trackside.imported.log import Log, LogFile, Series

PRINTED = "printed lines"  # of which a file may be that nothing else recognises
Groups = dict[str, list[LogFile]]


def each_file(files: Sequence[LogFile]) -> Groups:
    """Return each file as a group of its own, by its name."""
    return {file.name: [file] for file in files}


def each_folder(files: Sequence[LogFile]) -> Groups:
    """Return the files of each folder as a group, by the folder's name; "." for the given folder itself."""
    found: Groups = {}
    for file in files:
        found.setdefault(file.name.rpartition("/")[0] or ".", []).append(file)
    return found


@dataclass(frozen=True)
class Format:
    """One format. A module of `imported.formats` holds one as `FORMAT`.

    name       the format, for users
    order      formats with a lower number are asked first; a file is of the first that recognises it
    is_ours    returns True for a file of this format, by its name or its first bytes; it may raise no error
    read       returns the logs in the files of one group; problems become `Log.damage`. A format whose files only grow
               adds to the series that it is given, from where it stopped; any other reads anew
    group      returns the files of each run by its name
    is_general  any text might be of it: such files of a folder count only if a loss is among their numbers
    """

    name: str
    order: int
    is_ours: Callable[[LogFile], bool]
    read: Callable[[str, Sequence[LogFile], Series], Iterable[Log]]
    group: Callable[[Sequence[LogFile]], Groups] = each_file
    is_general: bool = False
