"""The environment of this process."""

from __future__ import annotations

from smdebug import not_offered
from trackside.environment import OldNamesEnvironment


def is_sagemaker_job() -> bool:
    """Return True within a training job of SageMaker: the variable TRAINING_JOB_NAME is set."""
    return OldNamesEnvironment.read().is_sagemaker_job


__getattr__ = not_offered.attribute_of(__name__)
