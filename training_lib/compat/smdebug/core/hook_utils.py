"""The output locations of a hook."""

from __future__ import annotations

import os

from smdebug import not_offered
from smdebug.core.access_layer.utils import check_dir_exists
from smdebug.core.utils import is_s3
from smdebug.exceptions import SMDebugRuntimeError


def verify_and_get_out_dir(out_dir: str | None) -> str:
    """Return the folder or s3:// prefix, with `~` expanded.

    Raises:
        RuntimeError: None is given.
        SMDebugRuntimeError: An ended run lies at it.
    """
    if out_dir is None:
        raise RuntimeError("out_dir is a required argument")
    expanded = out_dir if is_s3(out_dir)[0] else os.path.expanduser(out_dir)
    if check_dir_exists(expanded):
        raise SMDebugRuntimeError(f"The path:{expanded} holds a run that has ended. Write to another one.")
    return expanded


def get_tensorboard_dir(export_tensorboard: bool, tensorboard_dir: str | None, out_dir: str) -> str | None:
    """Return the folder of files for TensorBoard, or None for no files."""
    if tensorboard_dir is not None:
        return tensorboard_dir
    return os.path.join(out_dir, "tensorboard") if export_tensorboard else None


__getattr__ = not_offered.attribute_of(__name__)
