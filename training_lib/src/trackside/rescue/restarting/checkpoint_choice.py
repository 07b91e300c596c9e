"""The checkpoint to go back to, and the later ones that the script must not find: a choice of paths, without acting.

Scripts find their newest checkpoint by its name: `checkpoint-500` among folders, `step_500.pt` among files. So later
ones can be set aside if they differ from an earlier one in numbers only. A file that was written at the same step as
one of those, and has a name of its own (`last.pt`), gets the content of the good one. Others are not understood.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from trackside.contracts.run.checkpoint import Checkpoint, newest_before


@dataclass(frozen=True)
class Choice:
    """The files of a start from an earlier checkpoint.

    good     the file or folder of the good one
    step     the last step that had ended when it was written
    later    files and folders of later ones, to be set aside
    aliases  files among those, in whose place the good one is put
    """

    good: str
    step: int
    later: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


def choose(
    known: Sequence[Checkpoint],
    before: int,
    *,
    is_contradicted: Callable[[int], bool],
    tries: Mapping[str, int],
    most_tries: int,
) -> Choice | str:
    """Return the choice; a clause about the reason if none can be made.

    Args:
        known: All files of checkpoints, as they lie on the disk.
        before: The first step that may hold the fault.
        is_contradicted: Returns True if what rules found speaks against a checkpoint of this step.
        tries: Number of starts from each checkpoint so far.
        most_tries: Starts from one checkpoint.
    """
    steps = sorted({one.step for one in known if one.has_model and one.step < before}, reverse=True)
    is_tried = False
    for step in steps:
        good = newest_before(step + 1, known)
        if good is None or is_contradicted(step):
            continue
        found = _with_later(good, known)
        if isinstance(found, str) or tries.get(found.good, 0) < most_tries:
            return found
        is_tried = True
    return "the fault came again each time" if is_tried else "the script wrote no checkpoint that is known to be sound"


def with_newest(choice: Choice, known: Sequence[Checkpoint]) -> Choice:
    """Return the choice with the checkpoints that were written since. What has a name of its own stays as it is.

    Args:
        choice: What was chosen while the training still ran.
        known: All files of checkpoints, as they lie on the disk.
    """
    later, _ = _units(choice.step, known)
    return replace(choice, later=tuple(dict.fromkeys((*choice.later, *later.values()))))


def _with_later(good: Checkpoint, known: Sequence[Checkpoint]) -> Choice | str:
    whole = _unit(good.path, [one.path for one in known if one.step != good.step]) or good.path
    units, unnumbered = _units(good.step, known)
    numbered_steps = {one.step for one in known if one.path in units}
    for one in unnumbered:
        if one.step not in numbered_steps:
            return f"{one.path} was written over since, and the script would not find an earlier one"
    aliases = tuple(one.path for one in unnumbered)
    return Choice(whole, good.step, (*dict.fromkeys(units.values()), *aliases), aliases)


def _units(step: int, known: Sequence[Checkpoint]) -> tuple[dict[str, str], list[Checkpoint]]:
    """Return the later checkpoints of numbered series, by the path of each file, and the other later ones."""
    earlier = [one.path for one in known if one.step <= step]
    later = [one for one in known if one.step > step]
    units = {one.path: unit for one in later if (unit := _unit(one.path, earlier))}
    return units, [one for one in later if one.path not in units]


def _unit(path: str, earlier: Iterable[str]) -> str:
    """Return the file or folder of a numbered series that a path belongs to; "" if it belongs to none."""
    for other in sorted(earlier, key=lambda other: -len(posixpath.commonprefix([path, other]))):
        parts, others = path.split("/"), other.split("/")
        place = next((n for n, pair in enumerate(zip(parts, others, strict=False)) if pair[0] != pair[1]), -1)
        if place >= 0 and _without_numbers(parts[place]) == _without_numbers(others[place]):
            return "/".join(parts[: place + 1])
    return ""


def _without_numbers(name: str) -> str:
    return "".join("#" if is_number else "".join(some) for is_number, some in groupby(name, str.isdigit))


def place_aside(path: str, name: str) -> str:
    """Return the path to which a checkpoint is moved: beside it, on the same file system, out of a script's sight.

    Args:
        path: The file or folder.
        name: Of the run and the try.
    """
    folder, own = posixpath.split(path)
    return posixpath.join(folder, ".trackside-set-aside", name, own)


def place_before(aside: str) -> str:
    """Return the path that was given to `place_aside`."""
    folder, own = posixpath.split(aside)
    return posixpath.join(posixpath.dirname(posixpath.dirname(folder)), own)
