"""The memory of one step's tensors: those that are kept in it, those that go to a file, and those beyond all memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from trackside.capture.ground.free_memory import MemoryRoom
from trackside.capture.steps.arrival import Arrival
from trackside.capture.steps.spill import Spill, is_spilled


class StepMemory:
    """The bytes of an open step's tensors in memory.

    Args:
        room: Decides whether there is memory for one more copy.
        spill: Takes copies beyond the memory that a step may take.
    """

    __slots__ = ("_bytes", "_room", "_spill")

    def __init__(self, room: MemoryRoom, spill: Spill) -> None:
        self._room, self._spill, self._bytes = room, spill, 0

    def clear(self) -> None:
        """Begin again with nothing."""
        self._bytes = 0

    def note(self, arrays: Iterable[np.ndarray]) -> None:
        """Begin again with these arrays."""
        self._bytes = sum(array.nbytes for array in arrays if not is_spilled(array))

    def spills(self, size_bytes: int) -> bool:
        """Return True if copies of this size would take more memory than the step may, so that they lie in a file.

        Args:
            size_bytes: The size of the copies.
        """
        most = self._spill.most_bytes
        return most > 0 and self._bytes + size_bytes > most

    def kept(self, array: np.ndarray, arrivals: Sequence[Arrival]) -> tuple[np.ndarray, str]:
        """Return an array as the step keeps it, and why it cannot be kept; "" if it can.

        Values that are on their way cannot be moved; an adapter sends none of a step that spills.

        Args:
            array: The array.
            arrivals: Moments at which the step's arrays hold their values.
        """
        if is_spilled(array):
            return array, ""
        if self.spills(array.nbytes) and all(arrival.is_here() for arrival in arrivals):
            try:
                return self._spill.copy((array,), shape=array.shape, dtype=array.dtype), ""
            except OSError as error:
                return array, f"its copies take more memory than memory_mb allows, and no file takes them: {error}"
        self._bytes += array.nbytes
        return array, self._room.lacks_after(array.nbytes)
