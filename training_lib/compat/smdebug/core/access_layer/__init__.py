"""Single files and objects, and the end marker of a run."""

from smdebug import not_offered
from smdebug.core.access_layer.file import TSAccessFile
from smdebug.core.access_layer.utils import (
    DEFAULT_GRACETIME_FOR_RULE_STOP_SEC,
    ENV_RULE_STOP_SIGNAL_FILENAME,
    check_dir_exists,
    has_training_ended,
    is_rule_signalled_gracetime_passed,
    training_has_ended,
)

__all__ = [
    "DEFAULT_GRACETIME_FOR_RULE_STOP_SEC",
    "ENV_RULE_STOP_SIGNAL_FILENAME",
    "TSAccessFile",
    "TSAccessS3",
    "check_dir_exists",
    "has_training_ended",
    "is_rule_signalled_gracetime_passed",
    "training_has_ended",
]

_unknown = not_offered.attribute_of(__name__)


def __getattr__(name: str) -> object:
    if name == "TSAccessS3":  # boto3 is an extra, and slow to import
        from smdebug.core.access_layer.s3 import TSAccessS3

        return TSAccessS3
    return _unknown(name)
