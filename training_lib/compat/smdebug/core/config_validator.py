"""Checks before and while a training is captured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smdebug import not_offered
from smdebug.core.logger import get_logger
from smdebug.core.utils import FRAMEWORK, check_smmodelparallel_training
from trackside.environment import OldNamesEnvironment

if TYPE_CHECKING:
    from smdebug.profiler.profiler_config_parser import ProfilerConfigParser

SupportedFrameworks = list(FRAMEWORK)


class ConfigValidator:
    """The checks of one framework. Trackside captures every version that has the functions it needs."""

    def __init__(self, framework_type: FRAMEWORK) -> None:
        self._framework_type = framework_type

    def validate_training_job(self) -> bool:
        """Return True if the training is captured: USE_SMDEBUG does not forbid it."""
        return OldNamesEnvironment.read().is_smdebug_used

    @staticmethod
    def validate_profiler_config(profiler_config_parser: ProfilerConfigParser) -> None:
        """Switch detailed profiling off where SageMaker's model parallel library divides the model, as the original."""
        config = profiler_config_parser.config
        if config is not None and check_smmodelparallel_training():
            config.detailed_profiling_config.disabled = True
            get_logger().warning("Detailed profiling for model parallel training job is disabled.")


def get_config_validator(framework: FRAMEWORK) -> ConfigValidator:
    """Return the checks of a framework."""
    return ConfigValidator(framework)


def reset_config_validator() -> None:
    """Do nothing: no answer about the configuration is kept."""


__getattr__ = not_offered.attribute_of(__name__)
