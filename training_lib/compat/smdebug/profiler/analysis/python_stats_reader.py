"""Readers of the profiles of Python code: `framework/<framework>/<profiler>/<node>/<start>_<end>/python_stats`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from smdebug import not_offered
from smdebug.core.logger import get_logger
from smdebug.core.utils import is_s3
from smdebug.profiler.analysis.utils.python_profile_analysis_utils import StepPythonProfileStats
from smdebug.profiler.profiler_constants import (
    CPROFILE_NAME,
    CPROFILE_STATS_FILENAME,
    PYINSTRUMENT_HTML_FILENAME,
    PYINSTRUMENT_JSON_FILENAME,
    PYINSTRUMENT_NAME,
)
from trackside.storage.open_store import open_store

_PROFILERS = {
    CPROFILE_STATS_FILENAME: CPROFILE_NAME,
    PYINSTRUMENT_JSON_FILENAME: PYINSTRUMENT_NAME,
    PYINSTRUMENT_HTML_FILENAME: PYINSTRUMENT_NAME,
}


class PythonStatsReader:
    """A reader of the profiles in a folder."""

    def __init__(self, profile_dir: str) -> None:
        self.profile_dir = profile_dir

    def load_python_profile_stats(self) -> list[StepPythonProfileStats]:
        """Return the profiles, by their start. Other files are named in the log, and left out."""
        found = list(self._profiles())
        found.sort(key=lambda each: (each.start_time_since_epoch_in_micros, each.node_id))
        return found

    def _profiles(self) -> Iterator[StepPythonProfileStats]:
        """Yield the profiles below <framework>/<profiler>, or the folder <profiler> itself."""
        top = Path(self.profile_dir)
        for path in sorted(top.rglob("*")):
            if not path.is_file():
                continue
            parts = (top.parent.name, top.name, *path.relative_to(top).parts)[-5:]
            try:
                framework, _, node, moments, name = parts
                yield StepPythonProfileStats(framework, _PROFILERS[name], node, moments, str(path))
            except (ValueError, KeyError):
                get_logger().info(f"Unknown file {path} found, skipping...")


class LocalPythonStatsReader(PythonStatsReader):
    """A reader of the profiles in a local folder: `framework/<framework>/<profiler>`.

    Raises:
        NotADirectoryError: There is no such folder.
    """

    def __init__(self, profile_dir: str) -> None:
        super().__init__(_folder(profile_dir))


class S3PythonStatsReader(PythonStatsReader):
    """A reader of the profiles below an s3:// prefix, which it downloads into `<profile_dir>/python_stats`.

    Raises:
        NotADirectoryError: There is no such folder.
        ValueError: It is no s3:// prefix.
    """

    def __init__(self, profile_dir: str, s3_path: str) -> None:
        super().__init__(os.path.join(_folder(profile_dir), "python_stats"))
        is_remote, bucket, base = is_s3(s3_path)
        if not is_remote or bucket is None:
            raise ValueError(f"{s3_path!r} is no S3 path. Use s3://bucket/prefix.")
        self.bucket_name, self.prefix = bucket, os.path.join(base or "", "framework")

    def load_python_profile_stats(self) -> list[StepPythonProfileStats]:
        """Download the profiles in place of earlier ones, and return them."""
        shutil.rmtree(self.profile_dir, ignore_errors=True)
        store = open_store(f"s3://{self.bucket_name}/{self.prefix}")
        for key in store.list():
            if key.rpartition("/")[2] in _PROFILERS:
                path = Path(self.profile_dir, *key.split("/"))  # a store's keys hold no `..`
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(store.get(key))
        return super().load_python_profile_stats()


def _folder(path: str) -> str:
    if not os.path.isdir(path):
        raise NotADirectoryError(f"{path} is no folder.")
    return path


__getattr__ = not_offered.attribute_of(__name__)
