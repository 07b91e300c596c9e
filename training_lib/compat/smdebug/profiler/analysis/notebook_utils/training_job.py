"""A training job of SageMaker, and the readers of its profiles."""

# ruff: noqa: T201 - its answers are printed, as the original's are
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from smdebug import not_offered
from smdebug.profiler.algorithm_metrics_reader import S3AlgorithmMetricsReader
from smdebug.profiler.metrics_reader_base import MetricsReaderBase
from smdebug.profiler.system_metrics_reader import S3SystemMetricsReader
from trackside.aws_clients import SharedClient
from trackside.contracts.errors import RunNotFoundError

PAUSE_SECONDS = 10.0
_ENDED = ("Completed", "Failed", "Stopped")


class TrainingJob:
    """A training job of SageMaker.

    Args:
        training_job_name: Its name.
        region: Its region; None for boto3's own choice.
        client: A client of SageMaker; None for one of boto3's.
        sleep: Waits that many seconds.

    Raises:
        RunNotFoundError: The job has no profiler.
    """

    def __init__(
        self,
        training_job_name: str,
        region: str | None = None,
        *,
        client: Any = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.name, self._sleep = training_job_name, sleep
        self.sm_client = client or _client(region)
        self.profiler_config, self.profiler_s3_output_path = self.get_config_and_profiler_s3_output_path()
        self.system_metrics_reader: S3SystemMetricsReader | None = None
        self.framework_metrics_reader: S3AlgorithmMetricsReader | None = None

    def get_systems_metrics_reader(self) -> S3SystemMetricsReader | None:
        """Return the reader of samples, once `wait_for_sys_profiling_data_to_be_available` has been called."""
        return self.system_metrics_reader

    def get_framework_metrics_reader(self) -> S3AlgorithmMetricsReader | None:
        """Return the reader of timelines, once `wait_for_framework_profiling_data_to_be_available` has been called."""
        return self.framework_metrics_reader

    def get_sm_client(self) -> Any:
        return self.sm_client

    def get_config_and_profiler_s3_output_path(self) -> tuple[dict[str, Any], str]:
        """Return the configuration of the job's profiler, and the place of its profiles."""
        configuration = self.describe_training_job().get("ProfilerConfig") or {}
        if "S3OutputPath" not in configuration:
            raise RunNotFoundError(f"The job {self.name} has no profiler: there is no S3OutputPath in ProfilerConfig.")
        return configuration, f"{configuration['S3OutputPath'].rstrip('/')}/{self.name}/profiler-output"

    def wait_for_sys_profiling_data_to_be_available(self) -> None:
        """Wait until samples of a machine have been stored.

        Raises:
            RunNotFoundError: The job ended without any.
        """
        self.system_metrics_reader = S3SystemMetricsReader(self.profiler_s3_output_path)
        self._wait_for(self.system_metrics_reader, "system")

    def wait_for_framework_profiling_data_to_be_available(self) -> None:
        """Wait until a timeline has been stored.

        Raises:
            RunNotFoundError: The job ended without one.
        """
        self.framework_metrics_reader = S3AlgorithmMetricsReader(self.profiler_s3_output_path)
        self._wait_for(self.framework_metrics_reader, "framework")

    def describe_training_job(self) -> dict[str, Any]:
        return dict(self.sm_client.describe_training_job(TrainingJobName=self.name))

    def _wait_for(self, reader: MetricsReaderBase[Any], what: str) -> None:
        while not reader.get_timestamp_of_latest_available_file():
            status = self.describe_training_job().get("TrainingJobStatus")
            reader.refresh_event_file_list()
            if reader.get_timestamp_of_latest_available_file():
                break
            if status in _ENDED:
                where = self.profiler_s3_output_path
                raise RunNotFoundError(
                    f"The job {self.name} ended ({status}) without metrics of the {what} in {where}."
                )
            print(f"Profiler data from {what} not available yet; the job is {status}")
            self._sleep(PAUSE_SECONDS)
        print(f"Profiler data from {what} is available")


def _client(region: str | None) -> Any:
    if region is None:
        return SharedClient("sagemaker").get()
    import boto3  # comes with an extra

    return boto3.client("sagemaker", region_name=region)


__getattr__ = not_offered.attribute_of(__name__)
