"""The k in names such as `fc1_output_<k>`: it counts the tensors of one name within a step."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBERED = re.compile(r"(?:activation_gradient/)?(?P<prefix>.+_)(?P<k>[0-9]+)")


class Numbering:
    """Counters by mode and by the part of the name before k.

    As in `OpenStep`, tensors counted since the last `settle` may turn out to belong to the next step, and then count
    from 0 in it.
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._settled: dict[str, dict[str, int]] = {}
        self._shift: dict[str, int] = {}

    def of(self, mode: str, prefix: str) -> int:
        """Return the next k."""
        counts = self._counts.get(mode)
        return counts.get(prefix, 0) if counts else 0

    def move_on(self, mode: str, prefix: str, k: int) -> None:
        """Make `k` the next one."""
        self._counts.setdefault(mode, {})[prefix] = k

    def counted(self, mode: str) -> Mapping[str, int]:
        """Return all counters of that mode, for `go_back`."""
        return dict(self._counts.get(mode, {}))

    def go_back(self, mode: str, counts: Mapping[str, int]) -> None:
        """Restore the counters of that mode."""
        self._counts[mode] = dict(counts)

    def settle(self, mode: str) -> None:
        """Mark the counters of that mode as the open step's own, as `OpenStep.settle`."""
        if mode in self._counts:
            self._settled[mode] = dict(self._counts[mode])

    def drop_unsettled(self, mode: str) -> None:
        """Restore the counters of the last `settle`, as `OpenStep.drop_unsettled`."""
        self._counts[mode] = dict(self._settled.get(mode, {}))

    def step_ended(self, mode: str, *, keep_unsettled: bool = False) -> None:
        """Reset the counters of that mode. Call it right before `StepEngine.end_step`, which takes `renamed`."""
        counts, settled = self._counts.pop(mode, {}), self._settled.pop(mode, {})
        self._shift = settled if keep_unsettled else {}
        if keep_unsettled:
            self._counts[mode] = {prefix: k - settled.get(prefix, 0) for prefix, k in counts.items()}

    def renamed(self, name: str) -> str:
        """Return the next step's name of a tensor that was counted to the last step and belongs to the next."""
        match = _NUMBERED.fullmatch(name) if self._shift else None
        shift = self._shift.get(match["prefix"], 0) if match else 0
        return f"{name[: match.start('k')]}{int(match['k']) - shift}" if match and shift else name
