"""The configuration of the original's profiler: `profilerconfig.json`, which may change while the training goes on.

Nothing in it is run as code. Keys count in any case, and a path keeps its capitals.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from smdebug import not_offered
from smdebug.core.json_config import get_node_id_from_resource_config
from smdebug.core.logger import get_logger
from smdebug.core.modes import ModeKeys
from smdebug.core.utils import FRAMEWORK, is_first_process
from smdebug.profiler.profiler_config import ProfileRange, ProfilerConfig
from smdebug.profiler.profiler_constants import (
    BASE_FOLDER_DEFAULT,
    CLOSE_FILE_INTERVAL_DEFAULT,
    FILE_OPEN_FAIL_THRESHOLD_DEFAULT,
    MAX_FILE_SIZE_DEFAULT,
)
from smdebug.profiler.python_profile_utils import StepPhase, mode_keys_to_python_profile_mode
from smdebug.profiler.python_profiler import PythonProfiler
from trackside.contracts.run.profiling_request import object_of
from trackside.environment import OldNamesEnvironment


class LastProfilingStatus(Enum):
    """A state that the original logs once."""

    START = 1
    CONFIG_NOT_FOUND = 2
    INVALID_CONFIG = 3
    DEFAULT_ENABLED = 4
    PROFILER_DISABLED = 5
    PROFILER_ENABLED = 6
    DEFAULT_VALUES = 7
    DEFAULT_PYTHON_PROFILING = 8
    INVALID_DETAILED_PROFILING_CONFIG = 9
    INVALID_DATALOADER_PROFILING_CONFIG = 10
    INVALID_PYTHON_PROFILING_CONFIG = 11
    INVALID_DETAILED_CONFIG_FIELDS = 12
    INVALID_DATALOADER_CONFIG_FIELDS = 13
    INVALID_PYTHON_CONFIG_FIELDS = 14
    DETAILED_CONFIG_NOT_FOUND = 15
    INVALID_SMDATAPARALLEL_PROFILING_CONFIG = 16


class MetricsCategory(Enum):
    """A kind of metrics."""

    DETAILED_PROFILING = 1
    DATALOADER_PROFILING = 2
    PYTHON_PROFILING = 3
    SMDATAPARALLEL_PROFILING = 4


class ProfilingParametersField(Enum):
    """A key of the file, in lower case."""

    PROFILING_PARAMETERS = "profilingparameters"
    DISABLE_PROFILER = "disableprofiler"
    LOCAL_PATH = "localpath"
    FILE_MAX_SIZE = "rotatemaxfilesizeinbytes"
    FILE_CLOSE_INTERVAL = "rotatefilecloseintervalinseconds"
    FILE_OPEN_FAIL_THRESHOLD = "fileopenfailthreshold"
    DETAILED_PROFILING_CONFIG = "detailedprofilingconfig"
    DATALOADER_PROFILING_CONFIG = "dataloaderprofilingconfig"
    PYTHON_PROFILING_CONFIG = "pythonprofilingconfig"
    SMDATAPARALLEL_PROFILING_CONFIG = "smdataparallelprofilingconfig"


class ProfilerConfigParser:
    """The file at SMPROFILER_CONFIG_PATH, as `load_config` found it last.

    Attributes:
        config: Its content; None while the profiler is off.
        profiling_enabled: True while the profiler is on.
        python_profiler: The profiler of Python functions; None while they are not recorded.

    Args:
        framework: The framework, as in the paths of profiles.
    """

    def __init__(self, framework: FRAMEWORK | None = None) -> None:
        self.framework = framework
        self.config: ProfilerConfig | None = None
        self.profiling_enabled = False
        self.python_profiler: PythonProfiler | None = None
        self.logger = get_logger()
        self._text: str | None = ""
        self.load_config()

    def load_config(self) -> None:
        """Read the file. One that has not changed changes nothing: a range that has begun goes on."""
        path = Path(OldNamesEnvironment.read().profiler_configuration)
        try:
            text = path.read_text("utf-8", errors="replace")
        except OSError:
            text = None
        if text == self._text:
            return
        self._text, self.config = text, None
        if text is None:
            self.logger.info("Unable to find config at %s. Profiler is disabled.", path)
        else:
            try:
                self.config = self._read(text)
                self.logger.info("Using config at %s." if self.config else "%s disables the profiler.", path)
            except ValueError as error:
                self.logger.error("Error parsing config at %s: %s", path, error)
        self.profiling_enabled = self.config is not None
        self._check()
        if self.python_profiler is None or not self.python_profiler.is_profiling:
            self._renew_python_profiler()

    def should_save_metrics(
        self,
        metrics_category: MetricsCategory,
        current_step: int | str,
        metrics_name: str | None = None,
        current_time: float | None = None,
    ) -> bool:
        """Return True if metrics of this kind are wanted at this step, and of data loaders those of this name."""
        config = self.config
        if config is None:
            return False
        is_named = metrics_category is MetricsCategory.DATALOADER_PROFILING and metrics_name is not None
        if is_named and not config.dataloader_profiling_config.valid_metrics_name(str(metrics_name)):
            return False
        wanted: Mapping[MetricsCategory, ProfileRange] = {
            MetricsCategory.DETAILED_PROFILING: config.detailed_profiling_config,
            MetricsCategory.DATALOADER_PROFILING: config.dataloader_profiling_config,
            MetricsCategory.PYTHON_PROFILING: config.python_profiling_config,
            MetricsCategory.SMDATAPARALLEL_PROFILING: config.smdataparallel_profiling_config,
        }
        part = wanted.get(metrics_category)
        return part is not None and part.can_start_profiling(current_step, current_time)

    def write_tf_dataloader_flag(self, flag_filename: str) -> bool | None:
        """Leave a flag for AWS's fork of TensorFlow: <local_path>/<node>/<flag_filename>.

        Return True if this process left it, None if metrics of data loaders are not wanted.
        """
        if self.config is None or not self.config.dataloader_profiling_config.is_enabled():
            return None
        flag = os.path.join(self.config.local_path, get_node_id_from_resource_config() or "", flag_filename)
        try:
            return is_first_process(flag, is_dir=False)
        except OSError as error:
            self.logger.error("The flag %s cannot be written: %s", flag, error)
            return False

    def is_python_profiling_enabled(self) -> bool:
        return self.config is not None and self.config.python_profiling_config.is_enabled()

    def start_pre_step_zero_python_profiling(self) -> None:
        """Begin the profile of what comes before the first step."""
        if self.is_python_profiling_enabled() and self.python_profiler is not None:
            self.python_profiler.start_profiling(StepPhase.START)

    def handle_step_start_python_profiling(self, mode: ModeKeys, current_step: int) -> None:
        """End the profile that is open, and begin the next if this step is wanted."""
        self._handle(StepPhase.STEP_START, mode, current_step)

    def handle_forward_pass_end_python_profiling(self, mode: ModeKeys, current_step: int) -> None:
        """End the profile that is open, and begin the next if this step is wanted."""
        self._handle(StepPhase.FORWARD_PASS_END, mode, current_step)

    def handle_step_end_python_profiling(self, mode: ModeKeys, current_step: int) -> None:
        """End the profile that is open, and begin the next if this step is wanted."""
        self._handle(StepPhase.STEP_END, mode, current_step)

    def start_post_hook_close_python_profiling(self) -> None:
        """Begin the profile of what comes after the last step."""
        if self.is_python_profiling_enabled() and self.python_profiler is not None:
            self.python_profiler.start_profiling(StepPhase.END)

    def stop_post_hook_close_python_profiling(self) -> None:
        """End the profile of what comes after the last step."""
        if self.is_python_profiling_enabled() and self.python_profiler is not None:
            self.python_profiler.stop_profiling(StepPhase.END)

    def _handle(self, phase: StepPhase, mode: ModeKeys, step: int) -> None:
        python_mode = mode_keys_to_python_profile_mode(mode)
        if self.python_profiler is not None and self.python_profiler.is_profiling:
            self.python_profiler.stop_profiling(phase, end_mode=python_mode, end_step=step)
        self._renew_python_profiler()
        wanted = self.should_save_metrics(MetricsCategory.PYTHON_PROFILING, step)
        if wanted and self.python_profiler is not None:
            self.python_profiler.start_profiling(phase, start_mode=python_mode, start_step=step)

    def _renew_python_profiler(self) -> None:
        self.python_profiler = (
            PythonProfiler.get_python_profiler(self.config, self.framework)
            if self.config is not None and self.is_python_profiling_enabled()
            else None
        )

    def _read(self, text: str) -> ProfilerConfig | None:
        """Return the content of the file; None if it switches the profiler off.

        Raises:
            ValueError: It holds no configuration.
        """
        field = ProfilingParametersField
        document = object_of(json.loads(text))
        parameters = object_of(document.get(field.PROFILING_PARAMETERS.value))
        if str(document.get(field.DISABLE_PROFILER.value, False)).lower() == "true" or not parameters:
            return None
        return ProfilerConfig(
            str(parameters.get(field.LOCAL_PATH.value, BASE_FOLDER_DEFAULT)),
            int(self._number(parameters, field.FILE_MAX_SIZE, MAX_FILE_SIZE_DEFAULT)),
            self._number(parameters, field.FILE_CLOSE_INTERVAL, CLOSE_FILE_INTERVAL_DEFAULT),
            int(self._number(parameters, field.FILE_OPEN_FAIL_THRESHOLD, FILE_OPEN_FAIL_THRESHOLD_DEFAULT)),
            self._part(parameters, field.DETAILED_PROFILING_CONFIG),
            self._part(parameters, field.DATALOADER_PROFILING_CONFIG),
            self._part(parameters, field.PYTHON_PROFILING_CONFIG),
            self._part(parameters, field.SMDATAPARALLEL_PROFILING_CONFIG),
        )

    def _number(self, parameters: Mapping[str, Any], field: ProfilingParametersField, default: float) -> float:
        value = parameters.get(field.value, default)
        try:
            number = float(value)
            int(number)  # neither infinite nor no number
        except (TypeError, ValueError, OverflowError):
            self.logger.info("%s is %r, and no number. Its default holds: %s.", field.value, value, default)
            return float(default)
        return number

    def _part(self, parameters: Mapping[str, Any], field: ProfilingParametersField) -> dict[str, Any]:
        try:
            return object_of(parameters.get(field.value))
        except ValueError as error:
            self.logger.error("%s is not followed: %s", field.value, error)
            return {}

    def _check(self) -> None:
        """Log the mistakes in the parts, and switch off what the training rules out."""
        from smdebug.core.config_validator import ConfigValidator  # it needs this module

        ConfigValidator.validate_profiler_config(self)
        config = self.config
        if config is None:
            return
        for part in (
            config.detailed_profiling_config,
            config.dataloader_profiling_config,
            config.python_profiling_config,
            config.smdataparallel_profiling_config,
        ):
            if part.error_message is not None:
                self.logger.error("%s", part.error_message)


class _Kept:
    parser: ProfilerConfigParser | None = None


def get_profiler_config_parser(framework: FRAMEWORK) -> ProfilerConfigParser:
    """Return the parser of this process."""
    if _Kept.parser is None:
        _Kept.parser = ProfilerConfigParser(framework=framework)
    return _Kept.parser


def reset_profiler_config_parser() -> None:
    """Forget the parser of this process."""
    _Kept.parser = None


__getattr__ = not_offered.attribute_of(__name__)
