"""The numbers that the Trainer of transformers logs, and with it the trainers of TRL.

Each of them hands the numbers of a log to its callbacks, in one place, and comes there through `Trainer.log`, where the
answers are that TRL's trainers have generated. The library is recognised by its modules, so that it is not imported.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace

_CALLBACKS, _TRAINER = "transformers.trainer_callback", "transformers.trainer"


def watch(logged: Callable[[Mapping[str, Any]], object], logging: Callable[[Any], object]) -> Undo:
    """Pass on what trainers log from now on. Return the function that undoes it.

    Args:
        logged: Called with the numbers of each log, by the trainer's names. It must not raise.
        logging: Called before a log of a training, with the trainer. It must not raise.
    """
    undo = _watch_trainers(logging)
    handler = getattr(sys.modules.get(_CALLBACKS), "CallbackHandler", None)
    if not isinstance(handler, type) or "on_log" not in vars(handler):
        return undo

    def wrapped(original: Any) -> Any:
        @functools.wraps(original)
        def on_log(self: Any, *arguments: Any, **named: Any) -> Any:
            logs = named.get("logs", arguments[-1] if arguments else None)
            if isinstance(logs, Mapping):
                logged(logs)
            return original(self, *arguments, **named)

        return on_log

    undo_callbacks = replace([(handler, "on_log")], wrapped)

    def undo_both() -> None:
        undo_callbacks()
        undo()

    return undo_both


def _watch_trainers(logging: Callable[[Any], object]) -> Undo:
    trainer = getattr(sys.modules.get(_TRAINER), "Trainer", None)
    if not isinstance(trainer, type) or "log" not in vars(trainer):
        return lambda: None

    def wrapped(original: Any) -> Any:
        @functools.wraps(original)
        def log(self: Any, logs: Any, *arguments: Any, **named: Any) -> Any:
            if isinstance(logs, Mapping) and not any(str(name).startswith("eval_") for name in logs):
                logging(self)
            return original(self, logs, *arguments, **named)

        return log

    return replace([(trainer, "log")], wrapped)
