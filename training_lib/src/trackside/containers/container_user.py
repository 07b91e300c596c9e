"""The user of a rule container: root for a moment, then one without rights.

SageMaker gives a processing job folders that belong to root. A container that starts as another user cannot write its
exit message, so the images start as root, prepare that one file, and give all rights up before anything is read.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

_logger = logging.getLogger(__name__)


def leave_root(ml_root: Path, *, user: int) -> None:
    """Become `user` for good, with the exit message as a file of its own.

    Nothing happens for `user` 0 and in a process that is not root's.

    Args:
        ml_root: `/opt/ml`.
        user: The number of user and group.

    Raises:
        OSError: The process cannot become that user. It must not go on as root.
    """
    if not user or os.geteuid() != 0:
        return
    message = ml_root / "output" / "message"
    try:
        message.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(message, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            os.fchown(file, user, user)
        finally:
            os.close(file)
    except OSError as error:  # the message is a comfort: what matters is stored in the run
        _logger.warning("The exit message cannot be prepared: %s", error)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
