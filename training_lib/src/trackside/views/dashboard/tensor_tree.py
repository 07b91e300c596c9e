"""The tensors of a run as a tree by the parts of their names, with a small curve at each leaf."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_PARTS = re.compile(r"[^/.]*[/.]?")
MOST_TOGETHER = 4  # tensors of a layer: layers with so few lie side by side in one branch
MOST_DEPTH = 12  # a longer name ends in one part: names are hostile text


@dataclass
class Branch:
    """Tensors that share the beginning of their names.

    path      that beginning
    words     what its heading shows of it
    tensors   tensors right in it, each with the rest of its name
    branches  longer beginnings
    """

    path: str = ""
    words: str = ""
    tensors: list[tuple[str, str]] = field(default_factory=list)
    branches: dict[str, Branch] = field(default_factory=dict)

    def count(self) -> int:
        """Return the number of tensors in it and below."""
        return len(self.tensors) + sum(branch.count() for branch in self.branches.values())

    def names(self) -> Iterator[str]:
        """Yield the tensors in it and below."""
        yield from (name for name, _ in self.tensors)
        for branch in self.branches.values():
            yield from branch.names()


def tree_of(names: Sequence[str]) -> Branch:
    """Return tensors as a tree, in the order of `names`; a branch with one branch and no tensor is one with it.

    Layers of few tensors lie together in the branch above them, so that many are seen at a look.
    """
    root = Branch()
    for name in names:
        parts = [part for part in _PARTS.findall(name) if part]
        *before, last = [*parts[:MOST_DEPTH], "".join(parts[MOST_DEPTH:])] if len(parts) > MOST_DEPTH else parts or [""]
        branch = root
        for part in before:
            branch = branch.branches.setdefault(part, Branch(f"{branch.path}{part}", part))
        branch.tensors.append((name, last))
    return _shortened(root)


def _shortened(branch: Branch) -> Branch:
    for part, one in branch.branches.items():
        branch.branches[part] = _shortened(_end_of_chain(one))
    small = {
        part: one for part, one in branch.branches.items() if not one.branches and len(one.tensors) <= MOST_TOGETHER
    }
    if len(small) > 1:
        branch.tensors += [(name, f"{one.words}{rest}") for one in small.values() for name, rest in one.tensors]
        branch.branches = {part: one for part, one in branch.branches.items() if part not in small}
    return branch


def _end_of_chain(branch: Branch) -> Branch:
    while not branch.tensors and len(branch.branches) == 1:
        (below,) = branch.branches.values()
        below.words = branch.words + below.words
        branch = below
    return branch


def marked_branches(root: Branch, marked: Mapping[str, object]) -> frozenset[str]:
    """Return the beginnings below which a tensor is marked."""
    return frozenset(branch.path for branch in _all_of(root) if any(name in marked for name in branch.names()))


def _all_of(branch: Branch) -> Iterator[Branch]:
    for one in branch.branches.values():
        yield one
        yield from _all_of(one)
