"""The beginning of a training that is started again from its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from trackside.environment import RescueEnvironment
from trackside.local.training_process import TrainingProcess
from trackside.rescue.restarting.restart_folder import RestartFolder
from trackside.rescue.restarting.restarted_training import RestartedTraining
from trackside.rescue.restarting.restarts import Restarts


def restarted(
    start: Callable[[Mapping[str, str]], TrainingProcess],
    folder: Path,
    settings: RescueEnvironment,
    *,
    grace_seconds: float,
    monotonic: Callable[[], float],
) -> RestartedTraining:
    """Start a training that is started again where its numbers break.

    Args:
        start: Starts its process, with further variables.
        folder: The run.
        settings: Numbers of tries.
        grace_seconds: From the request to end to the kill.
        monotonic: Returns seconds.

    Raises:
        OSError: The command cannot be started.
    """
    restarts = Restarts(RestartFolder(folder), settings, monotonic=monotonic)
    return RestartedTraining(start, restarts, grace_seconds=grace_seconds, monotonic=monotonic)
