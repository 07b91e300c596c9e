"""The calls of the function that trains, where it fetches its batch itself: on TensorFlow and JAX.

JAX's function asks a Python iterator, whose waits are timed. TensorFlow's asks `tf.data` in its graph, which shows
nothing from outside. But `tf.data` counts the batches that it has returned: a thread that samples reads that count, and
the call has its batch once the count is that of the calls. Nothing is added to a graph or a data set.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from trackside.capture.ground.script_lines import is_user_file
from trackside.profiling.phase_clock import DATA, PhaseClock
from trackside.profiling.stack_sampler import Inside
from trackside.records.machine.performance_facts import QueueFacts
from trackside.thread_stacks import Stack, all_stacks

# The files that call the user's code for a batch on another thread: `tf.data`'s for Python, and workers of Keras.
_MAKERS = ("/script_ops.py", "/py_dataset_adapter.py")
_ENQUEUER = "_enqueuer_generator"  # the generator of Keras's own that `tf.data` asks, with nothing that reads ahead


class TimedBatches:
    """The batches of an iterator, with the waits for them as a phase of a clock."""

    def __init__(self, batches: Iterator[Any], clock: PhaseClock) -> None:
        self._batches, self._clock = batches, clock

    def __iter__(self) -> TimedBatches:
        return self

    def __next__(self) -> Any:
        before = self._clock.enter(DATA)
        try:
            return next(self._batches)
        finally:
            self._clock.leave(before)


class _Call:
    """A call of the function that trains."""

    def __init__(self, batches: weakref.ref[Any] | None, number: int) -> None:
        self.batches, self.number = batches, number


class TrainingCalls:
    """The calls of the function that trains; see `CompiledStep`. It begins and ends calls on the training's thread.

    Attributes:
        is_lost: True once the count of batches is not that of the calls (`steps_per_execution`), or none is kept.

    Args:
        clock: The clock of the training.
    """

    def __init__(self, clock: PhaseClock) -> None:
        self.is_lost = False
        self._clock = clock
        self._call: _Call | None = None
        self._batches: weakref.ref[Any] | None = None
        self._number = 0
        self._has_enqueuer = False
        self._data: Any = None  # the class of iterators of `tf.data`
        self._ready, self._looks, self._returned, self._make_seconds = 0, 0, 0, 0.0

    def timed(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Return the same batches, with the waits for them as a phase of the step."""
        return TimedBatches(batches, self._clock)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Enter a call with timed fetches."""
        self._call = _Call(None, 0)
        try:
            yield
        finally:
            self._call = None

    def begin(self, batches: Any) -> None:
        """Begin a call with an iterator of `tf.data`; anything else is none of the calls that train.

        Args:
            batches: The first argument of the call.
        """
        if self._data is None:
            self._data = sys.modules["tensorflow"].data.Iterator
        if not isinstance(batches, self._data):
            return
        if self._batches is None or self._batches() is not batches:
            self._batches, self._number = weakref.ref(batches), 0
        self._number += 1
        self._call = _Call(self._batches, self._number)

    def end(self) -> None:
        """End the call."""
        self._call = None

    def look(self) -> Inside | None:
        """Return the present work of the call; see `CompiledStep`."""
        call = self._call
        if call is None:
            return None
        if call.batches is None:
            return Inside.COMPUTES
        return Inside.UNKNOWN if self.is_lost else self._look_at(call, call.batches())

    def _look_at(self, call: _Call, batches: Any) -> Inside:
        try:
            returned = self._returned_by(batches) if batches is not None else None
        except Exception:  # noqa: BLE001 - a data set without a model, or another TensorFlow: unknown, and no harm
            return self._look_at_enqueuer()
        if self._call is not call or returned is None:
            return Inside.UNKNOWN  # it has ended meanwhile
        if returned not in (call.number - 1, call.number):
            self.is_lost = True
            return Inside.UNKNOWN
        return Inside.FETCHES if returned < call.number else Inside.COMPUTES

    def maker(self) -> Stack:
        """Return the stack of a thread that makes batches by the user's code; see `CompiledStep`."""
        for stack in all_stacks().values():
            files = [frame.f_code.co_filename for frame in stack]
            if any(file.endswith(_MAKERS) for file in files) and any(map(is_user_file, files[: _first_maker(files)])):
                return stack
        return []

    def queues(self) -> tuple[QueueFacts, ...]:
        """Return the facts about the newest iterator of `tf.data`; none without one."""
        if not self._looks:
            return ()
        make = self._make_seconds / self._returned if self._returned else 0.0
        return (QueueFacts("tf.data", "", self._returned, self._ready / self._looks, self._returned, make),)

    def _returned_by(self, batches: Any) -> int:
        """Return the number of batches that an iterator has returned, and note those that it has ready."""
        model = sys.modules["tensorflow"].data.experimental.get_model_proto(batches)
        root = model.nodes[model.output]
        returned = int(root.num_elements)
        first = model.nodes[root.inputs[0]] if root.inputs else root
        self._ready, self._looks = self._ready + int(first.buffered_elements), self._looks + 1
        self._returned = returned
        self._make_seconds = sum(node.processing_time for node in model.nodes.values()) / 1e9
        return returned

    def _look_at_enqueuer(self) -> Inside:
        """Look at a data set that Keras's own generator makes: `tf.data` keeps no count of it, and reads none ahead."""
        stacks = all_stacks().values()
        if any(frame.f_code.co_name.endswith(_ENQUEUER) for stack in stacks for frame in stack):
            self._has_enqueuer = True
            return Inside.FETCHES
        return Inside.COMPUTES if self._has_enqueuer else Inside.UNKNOWN


def _first_maker(files: list[str]) -> int:
    return next(number for number, file in enumerate(files) if file.endswith(_MAKERS))
