"""The progress of each run of a training on spot capacity: smdebug's `metadata.json` beside the checkpoints.

SageMaker carries the checkpoint folder to the next instance, and with it this file. A JSON list, one object for each
time that the checkpoints changed, byte for byte as smdebug 1.0.34 writes it:

    [{"training-run": 1, "latest-global-step-saved": 10, "latest-global-step-seen": 12,
      "latest-mode-step": {"TRAIN": 12}}]

but on one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trackside.contracts.errors import RecordError
from trackside.records.modes import MODE_NUMBERS, checked_mode
from trackside.records.untrusted_json import UntrustedJson

STATES_KEY = "metadata.json"
TRAINING_RUN = "training-run"
LAST_SAVED_STEP = "latest-global-step-saved"
LAST_SEEN_STEP = "latest-global-step-seen"
MODE_STEPS = "latest-mode-step"

MOST_BYTES = 4 << 20  # thirty thousand checkpoints


@dataclass(frozen=True)
class TrainingState:
    """The progress of a training when its checkpoints changed.

    training_run     number of starts of the training, from 1
    last_seen_step   the step, counted over all modes
    last_saved_step  the last saved step, counted over all modes; None if none was saved
    mode_steps       the step within each mode
    """

    training_run: int
    last_seen_step: int
    last_saved_step: int | None = None
    mode_steps: Mapping[str, int] = field(default_factory=dict)


def encode_states(states: Iterable[TrainingState]) -> bytes:
    """Return the file's content, in the order given.

    Raises:
        ValueError: A mode is unknown.
    """
    return json.dumps([_as_json(state) for state in states]).encode("ascii")


def decode_states(data: bytes, *, key: str) -> tuple[TrainingState, ...]:
    """Return the states in the order of their steps: the last one is the point to continue from.

    Unknown fields are ignored.

    Raises:
        RecordError: It is no such file.
    """
    document = UntrustedJson({"states": _parsed(data, key)}, key=key, where="")
    return tuple(sorted(map(_state, document.objects("states")), key=lambda state: state.last_seen_step))


def _as_json(state: TrainingState) -> dict[str, object]:
    return {
        TRAINING_RUN: state.training_run,
        LAST_SAVED_STEP: state.last_saved_step,
        LAST_SEEN_STEP: state.last_seen_step,
        MODE_STEPS: {checked_mode(mode): step for mode, step in state.mode_steps.items()},
    }


def _parsed(data: bytes, key: str) -> object:
    if len(data) > MOST_BYTES:
        raise RecordError(key, MOST_BYTES, f"is larger than the {MOST_BYTES >> 20} MiB that are read of it")
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RecordError(key, error.start, "is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise RecordError(key, error.pos, f"is empty or not whole JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or endless nesting
        raise RecordError(key, 0, f"is not JSON that can be read: {error}") from error


def _state(document: UntrustedJson) -> TrainingState:
    steps = document.object(MODE_STEPS)
    for mode in steps.names():
        if mode not in MODE_NUMBERS:
            raise steps.error(f"has the mode {mode[:30]!r}, which is none of {', '.join(MODE_NUMBERS)}")
    return TrainingState(
        training_run=document.count(TRAINING_RUN),
        last_seen_step=document.count(LAST_SEEN_STEP),
        last_saved_step=document.count(LAST_SAVED_STEP) if document.has(LAST_SAVED_STEP) else None,
        mode_steps={mode: steps.count(mode) for mode in steps.names()},
    )
