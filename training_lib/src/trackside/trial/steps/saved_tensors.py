"""The steps that hold each tensor: the index of each step, sorted by tensor and worker."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from trackside.trial.steps.saved_step import Layout, SavedStep
from trackside.trial.steps.selection import Selection, StepRange
from trackside.trial.steps.step_index import StepIndex

REDUCTION_MARK = "smdebug/reductions/"


@dataclass(eq=False)
class _Group:
    """The steps of one worker and mode with one layout: their places in the index, and the first of them."""

    layout: Layout
    names: frozenset[str]
    worker: str
    mode: str
    first_step: int
    places: array[int] = field(default_factory=lambda: array("q"))

    def may_hold(self, selection: Selection) -> bool:
        return selection.mode in {None, self.mode} and selection.worker in {None, self.worker}


class SavedTensors:
    """The saved tensors of complete steps. New steps of the index are sorted in on request."""

    def __init__(self, index: StepIndex) -> None:
        self._index = index
        self._sorted = self._replaced = 0
        self._groups: dict[tuple[Layout, str, str], _Group] = {}
        self._names: dict[Layout, frozenset[str]] = {}

    def names_in(self, layout: Layout) -> frozenset[str]:
        """Return the tensors saved at steps of this layout, including those with reductions only."""
        names = self._names.get(layout)
        if names is None:
            names = self._names[layout] = frozenset(map(base_name, layout.records))
        return names

    def names(self, selection: Selection) -> frozenset[str]:
        """Return the tensors that the selection holds."""
        groups = (group for group in self._all_groups() if group.may_hold(selection))
        layouts = {group.layout for group in groups if self._holds_any(group, selection)}
        return frozenset[str]().union(*map(self.names_in, layouts))

    def saved(self, tensor: str, selection: Selection | None = None) -> tuple[SavedStep, ...]:
        """Return the steps and workers with the tensor, or with reductions of it, in the order found."""
        selection, last = selection or Selection(), self._index.last_complete
        if last is None:
            return ()
        chosen = [group.places for group in self._groups_of(tensor, selection)]
        places: Iterable[int] = chosen[0] if len(chosen) == 1 else sorted(place for some in chosen for place in some)
        arrivals, steps = self._index.arrivals, selection.steps
        found = (arrivals[place] for place in places)
        if steps == StepRange():
            return tuple(saved for saved in found if saved.step <= last and self._holds(saved, tensor))
        return tuple(s for s in found if s.step <= last and s.step in steps and self._holds(s, tensor))

    def workers(self, tensor: str, selection: Selection) -> tuple[str, ...]:
        """Return the workers that saved the tensor, sorted."""
        groups = self._groups_of(tensor, selection)
        return tuple(sorted({group.worker for group in groups if self._holds_any(group, selection)}))

    def newest(self, record: str, selection: Selection) -> SavedStep | None:
        """Return the last selected step that holds exactly this record; None without one."""
        last = self._index.last_complete
        newest: SavedStep | None = None
        for group in self._all_groups():
            if last is None or record not in group.layout.records or not group.may_hold(selection):
                continue
            arrivals = (self._index.arrivals[place] for place in reversed(group.places))
            found = next((s for s in arrivals if s.step <= last and selection.covers(s)), None)
            if found is not None and record in found.layout.records and (newest is None or found.step > newest.step):
                newest = found
        return newest

    def _all_groups(self) -> Iterable[_Group]:
        arrivals = self._index.arrivals
        if self._replaced != self._index.replaced:
            self._sorted, self._replaced = 0, self._index.replaced
            self._groups.clear()
        for place in range(self._sorted, len(arrivals)):
            saved = arrivals[place]
            key = (saved.layout, saved.mode, saved.worker)
            group = self._groups.get(key)
            if group is None:
                names = self.names_in(saved.layout)
                group = self._groups[key] = _Group(saved.layout, names, saved.worker, saved.mode, saved.step)
            group.places.append(place)
            group.first_step = min(group.first_step, saved.step)
        self._sorted = len(arrivals)
        return self._groups.values()

    def _groups_of(self, tensor: str, selection: Selection) -> list[_Group]:
        return [group for group in self._all_groups() if tensor in group.names and group.may_hold(selection)]

    def _holds_any(self, group: _Group, selection: Selection) -> bool:
        """Return True if one of the group's steps is complete and selected."""
        last, steps = self._index.last_complete, selection.steps
        if last is None:
            return False
        if group.first_step <= last and (steps == StepRange() or group.first_step in steps):
            return True
        return any((s := self._index.arrivals[p].step) <= last and s in steps for p in group.places)

    def _holds(self, saved: SavedStep, tensor: str) -> bool:
        """Return False if the step was read again and no longer holds the tensor."""
        return tensor in self.names_in(saved.layout)


def base_name(name: str) -> str:
    """Return the tensor of a reduction; any other name unchanged.

    Example: `smdebug/reductions/abs_mean/fc.weight` -> `fc.weight`.
    """
    _, mark, reduced = name.partition(REDUCTION_MARK)
    return reduced.partition("/")[2] if mark else name
