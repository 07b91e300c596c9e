"""One line for a notebook, or for any place where the training is not a command of its own."""

from __future__ import annotations

from collections.abc import Mapping

from trackside.contracts.capture_request import CaptureRequest
from trackside.frameworks.pytorch.script.hook import Hook

_watching: dict[str, Hook] = {}  # by the run; one at most


def watch(run: str, *, save: CaptureRequest | Mapping[str, int] | None = None) -> Hook:
    """Capture every training of this process from now on into a run.

    For notebooks: torch may be imported and the model built already, and nothing else has to be changed. A second call
    for the same run, as when a cell is run twice, continues it; a call for another run ends the one before. The run
    ends with the process, or with `close()` of the returned hook.

    Args:
        run: A new folder, or `s3://bucket/prefix`.
        save: A whole request, or an interval of steps for each collection; by default losses, every 500 steps.

    Returns:
        The hook of the run.

    Raises:
        ConfigurationError: With every problem at once.

    Example:
        trackside.watch("runs/first", save={"losses": 1, "gradients": 100})
    """
    hook = _watching.get(run)
    if hook is not None and not hook.is_closed:
        return hook
    hook = Hook(run, save=save)
    for other in _watching.values():
        other.close()
    _watching.clear()
    _watching[run] = hook
    return hook
