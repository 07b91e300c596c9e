"""The files of steps: encoded and stored one by one, or several steps at once.

What a step costs alone (calls of the system, turns of the interpreter's lock) is paid once for several.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, Protocol, runtime_checkable

from trackside.capture.steps.collection import Membership
from trackside.capture.steps.step_content import StepContent, content_of
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.event_files import EventFiles
from trackside.capture.writing.reduction_files import ReductionFiles
from trackside.records.step_file import StepFiles, append_step, encode_step, write_index, write_step
from trackside.storage.store import AppendableStore, Store

_MOST_BYTES = 1 << 20

Place = tuple[str, int]  # an event file and a byte in it


@runtime_checkable
class ManyAtOnce(Protocol):
    """A store that takes many small objects in one call."""

    def put_many(self, objects: Sequence[tuple[str, bytes]]) -> int:
        """Store small objects in their order. Return how many are stored: less than all after an error.

        Args:
            objects: Key and content of each.
        """


class EncodedStep(NamedTuple):
    """A step that is ready to be stored.

    - `step`: the step, with its numbers in the run
    - `content`: the content of its files
    - `files`: its files
    """

    step: StepTensors
    content: StepContent
    files: StepFiles


class StepWriter:
    """The writer of one worker's steps. For the writer thread.

    - `membership`: decides the parts of each tensor that are saved
    """

    def __init__(self, worker: str, membership: Membership) -> None:
        self._worker, self._membership = worker, membership
        self._event_files, self._reductions = EventFiles(worker), ReductionFiles()
        self._found: dict[int, EncodedStep] = {}

    def pop(self, step: int) -> EncodedStep | None:
        """Return a step of which `store_ahead` has stored the values alone, and forget it; None for any other."""
        return self._found.pop(step, None)

    def clear(self) -> None:
        """Forget what was stored ahead."""
        self._found.clear()

    def new_names(self, step: StepTensors) -> dict[str, frozenset[str]]:
        """Return new names of reduced tensors and of those in rows, with the collections that an adapter knows."""
        return self._reductions.new_names(step)

    def saves_rows(self, step: StepTensors) -> bool:
        """Return True if the rows of a step are saved as they are; False if any tensor of them is reduced."""
        return all(
            self._membership.are_raw(row.layout.record_names, step.due, row.layout.collections) for row in step.rows
        )

    def write(
        self, store: Store, growing: AppendableStore | None, step: StepTensors, ahead: EncodedStep | None
    ) -> EncodedStep:
        """Store what is missing of a step. Errors are those of the store.

        Args:
            store: The store of the run.
            growing: The same, if its files can grow.
            step: The step, with its numbers in the run.
            ahead: The step as `store_ahead` has stored it.
        """
        try:
            encoded = self._written(store, growing, step, ahead)
        except OSError:
            self._event_files.failed()
            raise
        self._event_files.stored(step, encoded.files)
        return encoded

    def _written(
        self, store: Store, growing: AppendableStore | None, step: StepTensors, ahead: EncodedStep | None
    ) -> EncodedStep:
        if ahead:
            write_index(store, ahead.files)
            return ahead
        place = self._event_files.place(growing, step) if growing else None
        if growing and place:
            encoded = self._encode(step, place)
            if append_step(growing, encoded.files):
                return encoded
        encoded = self._encode(step, None)
        write_step(store, encoded.files)
        return encoded

    def _encode(self, step: StepTensors, place: Place | None) -> EncodedStep:
        content = content_of(step, self._membership)
        files = encode_step(
            content.tensors,
            step=step.step,
            mode=step.mode,
            mode_step=step.mode_step,
            worker=self._worker,
            wall_time=step.wall_time,
            shapes=content.shapes,
            behind=place,
            wall_times=step.wall_times,
        )
        return EncodedStep(step, content, self._reductions.added(step, files))

    def store_ahead(
        self, store: AppendableStore, steps: Sequence[StepTensors], *, with_indexes: bool
    ) -> Sequence[EncodedStep]:
        """Store as much of these steps as goes at once. An error of the store leaves the rest to `write`.

        Args:
            store: The store of the run.
            steps: The steps, with their numbers in the run.
            with_indexes: True if their indexes may be stored as well.

        Returns:
            The first of the steps, of which both files are stored.
        """
        many = store if with_indexes and _takes_many(type(store)) else None
        place = self._event_files.joint_place(steps)
        if place is not None:
            joint = self._appended(store, steps, place)
            has_indexes = many is not None and all(each.files.index_bytes for each in joint)
            stored = many.put_many([_index(each) for each in joint]) if many and has_indexes else 0  # type: ignore[attr-defined] # it is one
            self._found = {each.step.step: each for each in joint[stored:]}
        elif many is not None:
            joint = self._with_own_files(store, steps)
            parts = [part for each in joint for part in ((each.files.event_key, each.files.event_bytes), _index(each))]
            stored = many.put_many(parts) // 2  # type: ignore[attr-defined] # it is one
        else:
            return ()
        for each in joint[:stored]:
            self._event_files.stored(each.step, each.files)
        return joint[:stored]

    def _appended(self, store: AppendableStore, steps: Sequence[StepTensors], place: Place) -> list[EncodedStep]:
        """Append the values of small steps to their event file. Return those that it took."""
        key, first = end = place
        found: list[EncodedStep] = []
        for step in steps:
            if not self._event_files.has_room(end[1]):
                break
            found.append(self._encode(step, end))
            end = key, found[-1].files.event_start + found[-1].files.event_size
        values = b"".join(part for each in found for part in each.files.event_parts)
        try:
            return found if store.append(key, values) == first else []
        except OSError:  # each of them is tried by itself, which raises the error
            self._event_files.failed()
            return []

    def _with_own_files(self, store: AppendableStore, steps: Sequence[StepTensors]) -> list[EncodedStep]:
        """Return the first steps that have event files of their own."""
        found: list[EncodedStep] = []
        room = _MOST_BYTES
        for step in steps:
            if room < 0 or not self._event_files.has_own_file(store, step):
                break
            encoded = self._encode(step, None)
            if not encoded.files.event_size:
                break
            room -= encoded.files.event_size
            found.append(encoded)
        return found


@cache  # Python looks at every name of a protocol each time
def _takes_many(kind: type) -> bool:
    return issubclass(kind, ManyAtOnce)


def _index(encoded: EncodedStep) -> tuple[str, bytes]:
    return encoded.files.index_key, encoded.files.index_bytes
