"""Several steps stored at once: what each of them costs alone (calls of the system, turns of the interpreter's lock)
is paid once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from trackside.capture.event_files import EventFiles
from trackside.capture.step_content import StepContent
from trackside.capture.step_tensors import StepTensors
from trackside.records.step_file import StepFiles
from trackside.storage.store import AppendableStore

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


@dataclass(frozen=True)
class EncodedStep:
    """A step that is ready to be stored.

    - `step`: the step, with its numbers in the run
    - `content`: the content of its files
    - `files`: its files
    - `is_stored`: True if both files are stored; False if at most its values are
    """

    step: StepTensors
    content: StepContent
    files: StepFiles
    is_stored: bool = False


Encode = Callable[[StepTensors, Place | None], EncodedStep]


class StepsAtOnce:
    """The steps that are stored, whole or in part, before they are saved one by one. For the writer thread."""

    def __init__(self, event_files: EventFiles, encode: Encode) -> None:
        self._event_files, self._encode = event_files, encode
        self._found: dict[int, EncodedStep] = {}

    def pop(self, step: int) -> EncodedStep | None:
        """Return a step with values that are stored, and forget it; None for any other."""
        return self._found.pop(step, None)

    def clear(self) -> None:
        """Forget all."""
        self._found.clear()

    def store(self, store: AppendableStore, steps: Sequence[StepTensors], *, with_indexes: bool) -> None:
        """Store as much of these steps as goes at once. An error of the store leaves the rest to `save`.

        Args:
            store: The store of the run.
            steps: The steps, with their numbers in the run.
            with_indexes: True if their indexes may be stored as well.
        """
        many = store if with_indexes and isinstance(store, ManyAtOnce) else None
        place = self._event_files.joint_place(steps)
        if place is not None:
            joint = self._appended(store, steps, place)
            has_indexes = many is not None and all(each.files.index_bytes for each in joint)
            self._note(joint, many.put_many([_index(each) for each in joint]) if many and has_indexes else 0)
        elif many is not None:
            alone = self._with_own_files(store, steps)
            parts = [part for each in alone for part in ((each.files.event_key, each.files.event_bytes), _index(each))]
            stored = many.put_many(parts) // 2
            self._note(alone[:stored], stored)

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

    def _note(self, encoded: Sequence[EncodedStep], stored: int) -> None:
        for place, each in enumerate(encoded):
            self._found[each.step.step] = replace(each, is_stored=place < stored)


def _index(encoded: EncodedStep) -> tuple[str, bytes]:
    return encoded.files.index_key, encoded.files.index_bytes
