"""The progress of a training on spot capacity when its checkpoints changed. The file is `records.state_file`'s."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smdebug import not_offered
from smdebug.analysis.utils import logger
from smdebug.core.config_constants import (
    CHECKPOINT_DIR_KEY,
    LATEST_GLOBAL_STEP_SAVED,
    LATEST_GLOBAL_STEP_SEEN,
    LATEST_MODE_STEP,
    METADATA_FILENAME,
    TRAINING_RUN,
)
from smdebug.exceptions import SMDebugRuntimeError
from trackside.contracts.errors import RecordError
from trackside.environment import OldNamesEnvironment
from trackside.records.state_file import MOST_BYTES, TrainingState, decode_states, encode_states
from trackside.storage.local import LocalStore

_UPLOADED = "sagemaker-uploaded"


class StateStore:
    """The states that earlier instances stored beside the checkpoints. New ones can be added.

    Without a configuration of checkpoints it has none. An unreadable file of states is ignored, with a warning: the
    training begins as a new one.
    """

    def __init__(self) -> None:
        self._checkpoint_dir = _checkpoint_folder(Path(OldNamesEnvironment.read().checkpoint_configuration))
        self._saved_states: list[TrainingState] = []
        self._others: list[Any] = []
        self._last_seen = _files_in(self._checkpoint_dir)
        if self._checkpoint_dir is not None:
            self._saved_states = _read(LocalStore(self._checkpoint_dir))

    def is_checkpoint_updated(self) -> bool:
        """Return True if checkpoints were added, removed or overwritten since the last call, or the construction."""
        seen = _files_in(self._checkpoint_dir)
        is_changed = seen != self._last_seen
        self._last_seen = seen
        return is_changed

    def get_last_saved_state(self) -> dict[str, Any] | None:
        """Return the state with the highest step, under its old names; None without states."""
        if not self._saved_states:
            return None
        return _as_old(max(self._saved_states, key=lambda state: state.last_seen_step))

    def update_state(self, ts_state: Mapping[str, Any]) -> None:
        """Add a state under its old names. A value of another kind is kept as it is, and is no state to readers.

        Raises:
            SMDebugRuntimeError: No checkpoints are configured.
            KeyError: The state lacks a name.
            StorageError: It cannot be stored.
        """
        if self._checkpoint_dir is None:
            raise SMDebugRuntimeError("No folder of checkpoints is configured, so that no state can be kept.")
        if not isinstance(ts_state, Mapping):
            self._others.append(ts_state)  # type: ignore[unreachable]  # untyped scripts
            self._store_all()
            return
        state = TrainingState(
            training_run=ts_state[TRAINING_RUN],
            last_seen_step=ts_state[LATEST_GLOBAL_STEP_SEEN],
            last_saved_step=ts_state[LATEST_GLOBAL_STEP_SAVED],
            mode_steps=dict(ts_state[LATEST_MODE_STEP]),
        )
        self._saved_states.append(state)
        self._store_all()

    def _store_all(self) -> None:
        content = encode_states(self._saved_states)
        if self._others:
            content = json.dumps([*json.loads(content), *self._others]).encode("utf-8")
        LocalStore(str(self._checkpoint_dir)).put(METADATA_FILENAME, content)


def _checkpoint_folder(configuration: Path) -> str | None:
    """Return the folder of checkpoints, or None.

    Raises:
        ValueError: The configuration is not JSON.
    """
    try:
        text = configuration.read_text("utf-8")
    except FileNotFoundError:
        return None
    folder = json.loads(text).get(CHECKPOINT_DIR_KEY)
    return None if folder is None else str(folder)


def _read(store: LocalStore) -> list[TrainingState]:
    if not store.exists(METADATA_FILENAME):
        return []
    try:
        return list(decode_states(store.get(METADATA_FILENAME, length=MOST_BYTES + 1), key=METADATA_FILENAME))
    except RecordError as error:
        logger.warning(f"The states of earlier instances in {store.uri} cannot be read, so this is a new run: {error}")
        return []


def _files_in(folder: str | None) -> list[tuple[str, int, int]]:
    """Return (path, bytes, time of change) of each checkpoint, sorted. Files may vanish during the walk."""
    found = []
    for below, _, names in os.walk(folder or ""):
        for name in names:
            path = os.path.join(below, name)
            if name == METADATA_FILENAME or _UPLOADED in name:
                continue
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue
            found.append((path, status.st_size, status.st_mtime_ns))
    return sorted(found)


def _as_old(state: TrainingState) -> dict[str, Any]:
    return {
        TRAINING_RUN: state.training_run,
        LATEST_GLOBAL_STEP_SAVED: state.last_saved_step,
        LATEST_GLOBAL_STEP_SEEN: state.last_seen_step,
        LATEST_MODE_STEP: dict(state.mode_steps),
    }


__getattr__ = not_offered.attribute_of(__name__)
