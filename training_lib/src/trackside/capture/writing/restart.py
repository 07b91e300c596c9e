"""The position at which a restarted process continues, from the state that a worker leaves in its run (spot capacity).

The state is stored with the first saved step and then at most every ten seconds, so a killed process may have come
further; the steps it saved since are found in the index. Steps that it made without saving any are made again.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from threading import Thread
from typing import TypeVar

from trackside.capture.steps.step_engine import GLOBAL, Position
from trackside.capture.steps.step_tensors import StepTensors
from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.contracts.run_layout import INDEX_PREFIX, STATE_PREFIX, index_key, parse_index_key, state_key
from trackside.records.index_file import decode_index
from trackside.records.state_file import TrainingState, decode_states, encode_states
from trackside.records.watermark import NOTHING_YET, Watermark
from trackside.storage.store import Store

MOST_INDEXES_READ = 64

T = TypeVar("T")
FindState = Callable[[], TrainingState | None]


def read_state(store: Store, worker: str | None) -> TrainingState | None:
    """Return the last state of the worker, advanced by the steps it saved afterwards; None if it has saved nothing.

    For the worker None: the furthest state of any worker. Errors: `OSError` of the store.
    """
    state = _stored_state(store, worker) if worker is not None else _furthest_state(store)
    start_after = index_key(state.last_saved_step, worker or "") if state and state.last_saved_step is not None else ""
    last_keys: deque[tuple[int, str]] = deque(maxlen=MOST_INDEXES_READ)
    for key in store.list(INDEX_PREFIX, start_after=start_after):
        found = parse_index_key(key)
        if found and worker in (None, found[1]):
            last_keys.append((found[0], key))
    if not last_keys:
        return state
    mode_steps = dict(state.mode_steps) if state else {}
    for _, key in last_keys:
        with contextlib.suppress(RecordError, KeyNotFoundError):  # a damaged file still has its step in its name
            index = decode_index(store.get(key), key=key)
            mode_steps[index.mode] = max(index.mode_step, mode_steps.get(index.mode, 0))
    last = last_keys[-1][0]
    seen = max(last, state.last_seen_step) if state else last
    return TrainingState(state.training_run if state else 1, seen, last, mode_steps)


def write_state(store: Store, worker: str, state: TrainingState) -> None:
    """Store the state. Errors: `OSError` of the store."""
    store.put(state_key(worker), encode_states([state]))


def position_after(state: TrainingState | None) -> Position:
    """Return the position to continue at: each count is the first step that was not seen."""
    if state is None:
        return Position()
    return Position(state.last_seen_step + 1, {mode: step + 1 for mode, step in state.mode_steps.items()})


def further(one: TrainingState | None, other: TrainingState | None) -> TrainingState | None:
    """Return two records of the same training merged: the higher of each count."""
    if one is None or other is None:
        return one or other
    saved = [state.last_saved_step for state in (one, other) if state.last_saved_step is not None]
    modes = {*one.mode_steps, *other.mode_steps}
    return TrainingState(
        training_run=max(one.training_run, other.training_run),
        last_seen_step=max(one.last_seen_step, other.last_seen_step),
        last_saved_step=max(saved, default=None),
        mode_steps={mode: max(state.mode_steps.get(mode, 0) for state in (one, other)) for mode in modes},
    )


def state_at(position: Position, *, training_run: int, last_saved_step: int | None) -> TrainingState:
    """Return the state of a process at this position, with at least one ended step."""
    ended = {mode: count - 1 for mode, count in (position.mode_steps or {}).items() if count}
    return TrainingState(training_run, position.step - 1, last_saved_step, ended)


def state_at_mark(mark: Watermark) -> TrainingState | None:
    """Return the state of a worker that has stored everything up to its watermark; None if that is nothing."""
    if mark.through == NOTHING_YET:
        return None
    return TrainingState(1, mark.through, mode_steps=mark.mode_steps)


def within_seconds(look: Callable[[], T], timeout_seconds: float) -> T | None:
    """Return the result of `look`, or None if it takes longer than the timeout. Errors: those of `look`.

    Training waits for this once, at its first step: a store that hangs must not hold it up for minutes.
    """
    found: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(look())
        except BaseException as error:  # noqa: BLE001 - raised again below, on the thread that asked
            errors.append(error)

    thread = Thread(target=run, name="trackside-look", daemon=True)
    thread.start()
    thread.join(timeout_seconds)
    if errors:
        raise errors[0]
    return found[0] if found else None


def moved_on(step: StepTensors, start: Position) -> StepTensors:
    """Return a step that was counted from 0 with its numbers in a run that had reached `start` before."""
    if start.step == 0:
        return step
    is_global = step.mode == GLOBAL
    mode_start = start.step if is_global else (start.mode_steps or {}).get(step.mode, 0)
    return replace(step, step=step.step + start.step, mode_step=step.mode_step + mode_start)


def added(position: Position, start: Position) -> Position:
    """Return the position of a run after a process that began at `start` has advanced by `position`."""
    mode_steps = dict(start.mode_steps or {})
    for mode, count in (position.mode_steps or {}).items():
        mode_steps[mode] = mode_steps.get(mode, 0) + count
    return Position(position.step + start.step, mode_steps)


def _furthest_state(store: Store) -> TrainingState | None:
    """Return the highest of each count over all workers.

    A step counts as saved by all once the slowest has saved it.
    """
    keys = [key for key in store.list(STATE_PREFIX) if key.endswith(".json")]
    states = [state for key in keys if (state := _state_in(store, key))]
    if not states:
        return None
    modes = {mode for state in states for mode in state.mode_steps}
    saved = [state.last_saved_step for state in states]
    return TrainingState(
        training_run=max(state.training_run for state in states),
        last_seen_step=max(state.last_seen_step for state in states),
        last_saved_step=None if None in saved else min(step for step in saved if step is not None),
        mode_steps={mode: max(state.mode_steps.get(mode, 0) for state in states) for mode in modes},
    )


def _stored_state(store: Store, worker: str) -> TrainingState | None:
    return _state_in(store, state_key(worker))


def _state_in(store: Store, key: str) -> TrainingState | None:
    try:
        states = decode_states(store.get(key), key=key)
    except (KeyNotFoundError, RecordError):  # what is damaged is found again in the index
        return None
    return states[-1] if states else None
