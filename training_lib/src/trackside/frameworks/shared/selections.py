"""Callbacks and settings that choose the best state of a training by a number, and the way that number is to go.

They are recognised by their names and attributes, so that no library is imported: callbacks of Keras and Lightning, and
the arguments of a Trainer of transformers.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType
from typing import Any

from trackside.contracts.observations import SelectionFacts

MOST_FRAMES = 64
_KINDS = ("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau")
_TRAINERS = ("lightning.pytorch.trainer.", "pytorch_lightning.trainer.", "transformers.trainer")


def selections_of(callbacks: Iterable[Any], *, line: str = "") -> tuple[SelectionFacts, ...]:
    """Return the facts of the callbacks that choose by a number in a direction of the script's own.

    Args:
        callbacks: Callbacks of any kind.
        line: The line of the script that handed them over; "" if unknown.
    """
    return tuple(found for callback in callbacks if (found := _of_callback(callback, line)) is not None)


def of_running_trainer(frame: FrameType | None) -> tuple[SelectionFacts, ...]:
    """Return the facts of the Trainer of Lightning or transformers that runs on this stack; () without one.

    Args:
        frame: The innermost frame.
    """
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        if str(frame.f_globals.get("__name__")).startswith(_TRAINERS) and "self" in frame.f_code.co_varnames:
            trainer = frame.f_locals.get("self")
            found = selections_of(getattr(trainer, "callbacks", ())), _of_arguments(getattr(trainer, "args", None))
            if any(found):
                return (*found[0], *found[1])
        frame = frame.f_back
    return ()


def _of_callback(callback: Any, line: str) -> SelectionFacts | None:
    kind = next((base.__name__ for base in type(callback).__mro__ if base.__name__ in _KINDS), "")
    monitor, mode = getattr(callback, "monitor", None), getattr(callback, "mode", None)
    if not kind or not isinstance(monitor, str) or mode not in ("min", "max"):  # "auto" is decided by the name
        return None
    if not getattr(callback, "save_best_only", True) or getattr(callback, "save_top_k", 1) in (-1, 0):
        return None  # it saves them all, or none
    return SelectionFacts(kind, monitor, mode, line)


def _of_arguments(arguments: Any) -> tuple[SelectionFacts, ...]:
    metric = getattr(arguments, "metric_for_best_model", None)
    is_greater = getattr(arguments, "greater_is_better", None)
    if not isinstance(metric, str) or is_greater is None or not getattr(arguments, "load_best_model_at_end", False):
        return ()
    return (SelectionFacts("load_best_model_at_end", metric, "max" if is_greater else "min"),)
