"""The end of a run, and other facts that the existence of a file shows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from smdebug import not_offered
from smdebug.analysis.utils import logger
from smdebug.core.access_layer.s3handler import DeleteRequest, S3Handler
from smdebug.core.utils import is_s3
from trackside.contracts.errors import KeyNotFoundError, LocationNotFoundError, StorageError
from trackside.contracts.run_layout import END_MARKER_KEY
from trackside.environment import OldNamesEnvironment
from trackside.storage.open_store import open_store

END_OF_JOB_FILENAME = END_MARKER_KEY
ENV_RULE_STOP_SIGNAL_FILENAME = "SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE"
DEFAULT_GRACETIME_FOR_RULE_STOP_SEC = 60


def training_has_ended(trial_prefix: str) -> None:
    """Mark the run as ended: nothing more will be written to it."""
    open_store(trial_prefix).put(END_MARKER_KEY, b"")


def has_training_ended(trial_prefix: str) -> bool:
    """Return True if the run is marked as ended."""
    return _exists(trial_prefix, END_MARKER_KEY)


def check_dir_exists(path: str) -> bool:
    """Return True if an ended run lies at `path`: a new one may not be written to it."""
    return has_training_ended(path)


def file_exists(file_path: str) -> bool:
    """Return True for an existing local file or folder, or an existing object or folder on S3."""
    on_s3, bucket, key = is_s3(file_path)
    if not on_s3:
        return os.path.exists(file_path)
    if key and _exists(f"s3://{bucket}", key):
        return True
    folder = f"{key.rstrip('/')}/" if key else ""
    return next(open_store(f"s3://{bucket}").list(folder), None) is not None


def delete_s3_prefixes(bucket: str, keys: str | list[str]) -> None:
    """Remove all objects with keys that begin with one of `keys`."""
    S3Handler.delete_prefixes([DeleteRequest(bucket, key) for key in ([keys] if isinstance(keys, str) else keys)])


def is_rule_signalled_gracetime_passed(trial_prefix: str, *, clock: Callable[[], float] = time.time) -> bool:
    """Return True if a rule on this run was asked to stop, and its time to do so is over.

    The variable SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE names a file in the run that holds the moment of that request, in
    whole seconds since the epoch. `rule_stop_grace_time_secs` is the time to stop (default 60). A file that cannot be
    read as such ends the rule.
    """
    environment = OldNamesEnvironment.read()
    if not environment.rule_stop_file:
        return False
    try:
        requested_at = int(open_store(trial_prefix).get(environment.rule_stop_file))
    except (KeyNotFoundError, LocationNotFoundError):
        return False
    except (StorageError, ValueError) as error:
        logger.info(f"{environment.rule_stop_file} does not say since when the rule is to stop, so it stops: {error}")
        return True
    return clock() > requested_at + environment.rule_stop_grace_seconds


def _exists(folder: str | os.PathLike[str], key: str) -> bool:
    try:
        return open_store(os.fspath(folder)).exists(key)
    except LocationNotFoundError:
        return False


__getattr__ = not_offered.attribute_of(__name__)
