"""The opening of a trial."""

from __future__ import annotations

import os
from typing import Any

from smdebug import not_offered
from smdebug.trials.local_trial import LocalTrial
from smdebug.trials.s3_trial import S3Trial
from smdebug.trials.trial import Trial


def create_trial(
    path: str | os.PathLike[str],
    name: str | None = None,
    profiler: bool = False,
    output_dir: str = "/opt/ml/processing/outputs/",
    **kwargs: Any,
) -> Trial:
    """Return the trial of a local folder or an s3:// prefix. Waits until the run has stored its collections.

    Raises:
        MissingCollectionFiles: The run ended without its collections.
        StorageError: The run cannot be read.
        ImportError: `profiler` is set.
    """
    if profiler:
        raise not_offered.error_for("smdebug.trials.profiler_trial.ProfilerTrial")
    location = os.fspath(path).strip()
    if name is None:
        name = os.path.basename(location)
    if not location.lower().startswith("s3://"):
        return LocalTrial(name=name, dirname=location, **kwargs)
    bucket, _, prefix = location[len("s3://") :].partition("/")
    return S3Trial(name=name, bucket_name=bucket, prefix_name=prefix, **kwargs)


__getattr__ = not_offered.attribute_of(__name__)
