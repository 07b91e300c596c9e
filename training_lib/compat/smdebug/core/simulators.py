"""Surroundings for tests of hooks: the files and variables of a SageMaker job, or of a script."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import TracebackType

from smdebug.core.config_constants import (
    CONFIG_FILE_PATH_ENV_STR,
    DEFAULT_SAGEMAKER_OUTDIR,
    DEFAULT_SAGEMAKER_TENSORBOARD_PATH,
    TENSORBOARD_CONFIG_FILE_PATH_ENV_STR,
)

_JOB = "TRAINING_JOB_NAME"


class SagemakerSimulator:
    """A context with the variables and files of a SageMaker job. They are removed at its end if `cleanup` is True."""

    def __init__(
        self,
        json_config_path: str = "/tmp/zcc_config.json",  # noqa: S108 - the old default
        tensorboard_dir: str = "/tmp/tensorboard",  # noqa: S108 - as above
        training_job_name: str = "sm_job",
        json_file_contents: str = "{}",
        cleanup: bool = True,
    ) -> None:
        self.out_dir = DEFAULT_SAGEMAKER_OUTDIR
        self.json_config_path, self.json_file_contents = json_config_path, json_file_contents
        self.tb_json_config_path = DEFAULT_SAGEMAKER_TENSORBOARD_PATH
        self.tensorboard_dir, self.training_job_name = tensorboard_dir, training_job_name
        self.cleanup = cleanup

    def __enter__(self) -> SagemakerSimulator:
        if self.cleanup:
            shutil.rmtree(self.out_dir, ignore_errors=True)
        Path(self.json_config_path).write_text(self.json_file_contents, "utf-8")
        board = Path(self.tb_json_config_path)
        shutil.rmtree(board.parent, ignore_errors=True)
        board.parent.mkdir(parents=True)
        board.write_text(json.dumps({"LocalPath": self.tensorboard_dir}), "utf-8")
        os.environ.update(self._variables())  # noqa: TID251 - it makes the surroundings of a job
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.cleanup:
            Path(self.json_config_path).unlink(missing_ok=True)
            Path(self.tb_json_config_path).unlink(missing_ok=True)
            for name in self._variables():
                os.environ.pop(name, None)  # noqa: TID251 - as above

    def _variables(self) -> dict[str, str]:
        return {
            CONFIG_FILE_PATH_ENV_STR: self.json_config_path,
            TENSORBOARD_CONFIG_FILE_PATH_ENV_STR: self.tb_json_config_path,
            _JOB: self.training_job_name,
        }


class ScriptSimulator:
    """A context with empty places for the run of a script, and for its files for TensorBoard."""

    def __init__(self, out_dir: str = "/tmp/test", tensorboard_dir: str | None = None) -> None:  # noqa: S108 - as above
        self.out_dir, self.tensorboard_dir = out_dir, tensorboard_dir

    def __enter__(self) -> ScriptSimulator:
        for folder in (self.out_dir, self.tensorboard_dir):
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.out_dir, ignore_errors=True)
