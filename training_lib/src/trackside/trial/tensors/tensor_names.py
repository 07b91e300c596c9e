"""Names of the tensors of a run, and their collections."""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Mapping

from trackside.contracts.errors import did_you_mean
from trackside.trial.recorded.recorded import Recorded
from trackside.trial.steps.membership import Membership
from trackside.trial.steps.saved_step import Layout
from trackside.trial.steps.saved_tensors import REDUCTION_MARK, SavedTensors, base_name
from trackside.trial.steps.step_index import StepIndex

MOST_SETS_AT_HAND = 1024  # of tensors that were saved or recorded together


class TensorNames:
    """The tensors seen so far, saved or recorded, and the collections that they belong to."""

    def __init__(self, index: StepIndex, membership: Membership, recorded: Recorded, saved: SavedTensors) -> None:
        self._index, self._membership, self._recorded, self._saved = index, membership, recorded, saved
        self._version = (-1, -1)
        self._names: frozenset[str] = frozenset()
        self._saved_names: frozenset[str] = frozenset()
        self._sorted: tuple[str, ...] = ()
        self._reductions: frozenset[str] = frozenset()
        self._members: dict[tuple[str, int], tuple[str, ...]] = {}  # by collection and number of names
        self._first_steps: list[int] = []  # of each tensor, ascending
        self._by_first_step: tuple[str, ...] = ()  # the tensors, in that order
        self._first_steps_version = (-1, -1)
        self._collections_by_tensor: dict[str, list[str]] = {}
        self._collections_in: dict[Layout, frozenset[str]] = {}
        self._collections_of_tensors: dict[frozenset[str], frozenset[str]] = {}

    @property
    def version(self) -> tuple[int, int]:
        """A value that changes whenever the set of names may have changed."""
        return len(self._index.names), self._recorded.names_version

    def read_collections(self) -> None:
        """Read the collections files that are new."""
        if not self._membership.refresh():
            return
        self._members.clear()
        self._collections_by_tensor.clear()
        self._collections_in.clear()
        self._collections_of_tensors.clear()

    def all(self) -> tuple[str, ...]:
        """Return the names of all tensors, sorted."""
        recorded = self._recorded.tensors  # the first use of it changes the version
        version = len(self._index.first_steps), self._recorded.names_version  # `version`, looked up a few times a step
        if version != self._version:
            self._version = version
            self._reductions = frozenset(name for name in self._index.names if REDUCTION_MARK in name)
            self._saved_names = frozenset(map(base_name, self._index.names))
            self._names = self._saved_names.union(recorded)
            self._sorted = tuple(sorted(self._names))
            self._members.clear()
            self._collections_by_tensor.clear()
        return self._sorted

    def reductions(self) -> frozenset[str]:
        """Return the names of saved reductions."""
        self.all()
        return self._reductions

    def holds(self, name: str) -> bool:
        """Return True for the name of a tensor that was saved or recorded."""
        self.all()
        return name in self._names

    def is_saved(self, name: str) -> bool:
        """Return True for the name of a tensor of which a step saved values or reductions."""
        self.all()
        return name in self._saved_names

    def members(self, collection: str, last_step: int | None = None) -> tuple[str, ...]:
        """Return the tensors in a collection, sorted: all, or those with data at `last_step` or before."""
        names = self.all()
        if last_step is not None:
            self._sort_by_first_step()
        count = len(names) if last_step is None else bisect.bisect_right(self._first_steps, last_step)
        members = self._members.get((collection, count))
        if members is None:
            among = names if count == len(names) else self._by_first_step[:count]
            members = self._members[collection, count] = self._membership.members(collection, among)
        return members

    def collections(self) -> Mapping[str, tuple[str, ...]]:
        """Return the tensors of each collection that holds any."""
        found = {name: self.members(name) for name in sorted(self._membership.known())}
        return {name: tensors for name, tensors in found.items() if tensors}

    def is_collection(self, name: str) -> bool:
        """Return True for the name of a collection of this run."""
        return name in self._membership.known()

    def collections_in(self, layout: Layout) -> frozenset[str]:
        """Return the collections of the tensors that were saved at steps of this layout."""
        found = self._collections_in.get(layout)
        if found is None:
            found = self._collections_in[layout] = self.collections_among(self._saved.names_in(layout))
        return found

    def collections_among(self, tensors: frozenset[str]) -> frozenset[str]:
        """Return the collections that any of the tensors belongs to."""
        found = self._collections_of_tensors.get(tensors)
        if found is None:
            if len(self._collections_of_tensors) >= MOST_SETS_AT_HAND:
                self._collections_of_tensors.clear()
            known = self._membership.known()
            found = frozenset(name for name in known if self._membership.members(name, tensors))
            self._collections_of_tensors[tensors] = found
        return found

    def collections_of(self, tensor: str) -> tuple[str, ...]:
        """Return the collections that the tensor belongs to, sorted."""
        self.all()
        if not self._collections_by_tensor:
            for name in sorted(self._membership.known()):
                for member in self.members(name):
                    self._collections_by_tensor.setdefault(member, []).append(name)
        return tuple(self._collections_by_tensor.get(tensor, ()))

    def suggestion(self, wrong: str) -> str:
        """Return a sentence with the nearest names, else with a few: a run may hold thousands."""
        known = sorted(self._names)
        near = difflib.get_close_matches(wrong, known, n=3)
        if near:
            return f"Did you mean {' or '.join(map(repr, near))}?"
        if not known:
            return "It holds no tensor yet."
        rest = f" and {len(known) - 5} more: `trackside tensors` lists them" if len(known) > 5 else ""
        return f"It holds {', '.join(map(repr, known[:5]))}{rest}."

    def collection_suggestion(self, wrong: str) -> str:
        """Return a sentence with the names of collections that may be meant."""
        return did_you_mean(wrong, self._membership.known())

    def reason_not_saved(self, tensor: str, *, step: int, worker: str) -> str:
        """Return why no whole tensor of this step and worker exists."""
        missing = f"{tensor!r} was not saved at step {step} by {worker}."
        if not self.holds(tensor):
            return f"{missing} {did_you_mean(tensor, self._names)}"
        if any(base_name(name) == tensor for name in self._reductions) and tensor not in self._index.names:
            return f"{missing} The run holds its reductions only: read a statistic instead."
        return f"{missing} It was saved at other steps, or by other workers."

    def _sort_by_first_step(self) -> None:
        recorded = self._recorded.steps
        version = self._index.first_steps_version, recorded.first_steps_version if recorded is not None else 0
        if version == self._first_steps_version:
            return
        self._first_steps_version = version
        first_steps: dict[str, int] = dict(recorded.first_steps) if recorded is not None else {}
        for name, step in self._index.first_steps.items():
            tensor = base_name(name)
            first_steps[tensor] = min(step, first_steps.get(tensor, step))
        self._by_first_step = tuple(sorted(first_steps, key=lambda tensor: (first_steps[tensor], tensor)))
        self._first_steps = [first_steps[tensor] for tensor in self._by_first_step]
        self._members.clear()
