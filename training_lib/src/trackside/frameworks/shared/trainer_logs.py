"""The numbers that the Trainer of transformers logs, and with it the trainers of TRL.

Each of them hands the numbers of a log to its callbacks, in one place. The library is recognised by its module, so that
it is not imported.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace

_MODULE = "transformers.trainer_callback"


def watch(logged: Callable[[Mapping[str, Any]], object]) -> Undo:
    """Pass on what trainers log from now on. Return the function that undoes it.

    Args:
        logged: Called with the numbers of each log, by the trainer's names. It must not raise.
    """
    handler = getattr(sys.modules.get(_MODULE), "CallbackHandler", None)
    if not isinstance(handler, type) or "on_log" not in vars(handler):
        return lambda: None

    def wrapped(original: Any) -> Any:
        @functools.wraps(original)
        def on_log(self: Any, *arguments: Any, **named: Any) -> Any:
            logs = named.get("logs", arguments[-1] if arguments else None)
            if isinstance(logs, Mapping):
                logged(logs)
            return original(self, *arguments, **named)

        return on_log

    return replace([(handler, "on_log")], wrapped)
