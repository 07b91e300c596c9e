# ruff: noqa: T201 - its answers are printed, as the original's are
"""Profiles of Python code, by step, time, mode and phase.

A profile of cProfile is read with `marshal`, which may crash the interpreter on a file made for it: open profiles of
runs that you trust.
"""

from __future__ import annotations

import json
import os
import pstats
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from smdebug import not_offered
from smdebug.profiler.analysis.python_stats_reader import (
    LocalPythonStatsReader,
    PythonStatsReader,
    S3PythonStatsReader,
)
from smdebug.profiler.analysis.utils.python_profile_analysis_utils import (
    PyinstrumentStepStats,
    StepPythonProfileStats,
    cProfileStats,
)
from smdebug.profiler.profiler_constants import CONVERT_TO_MICROSECS, CPROFILE_NAME, PYINSTRUMENT_NAME
from smdebug.profiler.python_profile_utils import PythonProfileModes, StepPhase, python_profile_mode_to_str
from trackside.speed.performance.profile import pandas_module


class PythonProfileAnalysis:
    """The profiles of a run.

    Args:
        local_profile_dir: The folder of the profiles; with `s3_path` the folder to download them into.
        s3_path: The run's profiles on S3.
    """

    name = ""

    def __init__(self, local_profile_dir: str = "/tmp/python_stats", s3_path: str | None = None) -> None:  # noqa: S108 - the old default
        self.python_stats_reader: PythonStatsReader = (
            S3PythonStatsReader(local_profile_dir, s3_path) if s3_path else LocalPythonStatsReader(local_profile_dir)
        )
        self.python_profile_stats: list[StepPythonProfileStats] = []
        self._refresh(True)

    def fetch_profile_stats_by_step(  # noqa: PLR0917 - the old signature
        self,
        start_step: float,
        end_step: float | None = None,
        mode: PythonProfileModes = PythonProfileModes.TRAIN,
        start_phase: StepPhase = StepPhase.STEP_START,
        end_phase: StepPhase = StepPhase.STEP_END,
        node_id: str = "any",
        refresh_stats: bool = True,
    ) -> Any:
        """Return the profiles from one step to another; `end_step` None is the same step."""
        last = start_step if end_step is None else end_step
        return self._fetched(
            lambda each: (
                each.in_step_interval(start_step, last, start_phase, end_phase)
                and each.has_start_and_end_mode(mode, mode)
            ),
            node_id,
            refresh_stats,
        )

    def fetch_profile_stats_by_time(
        self,
        start_time_since_epoch_in_secs: float,
        end_time_since_epoch_in_secs: float,
        node_id: str = "any",
        refresh_stats: bool = True,
    ) -> Any:
        """Return the profiles that overlap a range."""
        start, end = (
            seconds * CONVERT_TO_MICROSECS for seconds in (start_time_since_epoch_in_secs, end_time_since_epoch_in_secs)
        )
        return self._fetched(lambda each: each.in_time_interval(start, end), node_id, refresh_stats)

    def fetch_profile_stats_between_modes(
        self,
        start_mode: PythonProfileModes,
        end_mode: PythonProfileModes,
        node_id: str = "any",
        refresh_stats: bool = True,
    ) -> Any:
        """Return the profiles that began in one mode and ended in another."""
        return self._fetched(lambda each: each.has_start_and_end_mode(start_mode, end_mode), node_id, refresh_stats)

    def fetch_pre_step_zero_profile_stats(self, node_id: str = "any", refresh_stats: bool = True) -> Any:
        """Return the profile of the time before the first step."""
        return self._fetched(StepPythonProfileStats.has_pre_step_zero_profile_stats, node_id, refresh_stats)

    def fetch_post_hook_close_profile_stats(self, node_id: str = "any", refresh_stats: bool = True) -> Any:
        """Return the profile of the time after the hook was closed."""
        return self._fetched(StepPythonProfileStats.has_post_hook_close_profile_stats, node_id, refresh_stats)

    def list_profile_stats(self, refresh_stats: bool = True) -> Any:
        """Return a frame with a row a profile.

        Raises:
            ConfigurationError: pandas is not installed.
        """
        self._refresh(refresh_stats)
        pandas = pandas_module("list_profile_stats")
        if not self.python_profile_stats:
            print("No stats were found!")
            return pandas.DataFrame()
        frame = pandas.DataFrame([vars(each) for each in self.python_profile_stats])
        for column in ("start_mode", "end_mode"):
            frame[column] = frame[column].map(python_profile_mode_to_str)
        return frame

    def list_available_node_ids(self, refresh_stats: bool = True) -> list[str]:
        self._refresh(refresh_stats)
        return sorted({each.node_id for each in self.python_profile_stats})

    def _fetched(self, is_wanted: Callable[[StepPythonProfileStats], bool], node_id: str, refresh: bool) -> Any:
        """Return the wanted profiles of a node as one; `any` is the node of the first."""
        self._refresh(refresh)
        known = self.python_profile_stats
        node = known[0].node_id if known and node_id == "any" else node_id
        wanted = [each for each in known if each.node_id == node and is_wanted(each)]
        if wanted:
            return self._aggregate_stats(wanted)
        print("No stats were found for the requested interval!")
        return None

    def _refresh(self, is_wanted: bool) -> None:
        if is_wanted:
            found = self.python_stats_reader.load_python_profile_stats()
            self.python_profile_stats = [each for each in found if self.name in {"", each.profiler_name}]

    def _aggregate_stats(self, stats: Sequence[StepPythonProfileStats]) -> Any:
        return list(stats)


class cProfileAnalysis(PythonProfileAnalysis):  # noqa: N801 - the old name
    """The profiles of cProfile."""

    name = CPROFILE_NAME

    def fetch_profile_stats_by_training_phase(
        self, node_id: str = "any", refresh_stats: bool = True
    ) -> dict[tuple[PythonProfileModes, PythonProfileModes], cProfileStats]:
        """Return the profiles of each pair of modes in which some began and ended."""
        self._refresh(refresh_stats)
        pairs = sorted({(each.start_mode, each.end_mode) for each in self.python_profile_stats})
        found = {pair: self.fetch_profile_stats_between_modes(*pair, node_id, False) for pair in pairs}
        return {pair: stats for pair, stats in found.items() if stats is not None}

    def fetch_profile_stats_by_job_phase(
        self, node_id: str = "any", refresh_stats: bool = True
    ) -> dict[str, cProfileStats]:
        """Return the profiles of `initialization`, `training_loop` and `finalization`."""
        found: dict[str, list[pstats.Stats]] = {"training_loop": []}
        for (start, end), stats in self.fetch_profile_stats_by_training_phase(node_id, refresh_stats).items():
            if start == PythonProfileModes.PRE_STEP_ZERO:
                phase = "initialization"
            else:
                phase = "finalization" if end == PythonProfileModes.POST_HOOK_CLOSE else "training_loop"
            found.setdefault(phase, []).append(stats.ps)
        return {phase: cProfileStats(pstats.Stats().add(*profiles)) for phase, profiles in found.items()}

    def _aggregate_stats(self, stats: Sequence[StepPythonProfileStats]) -> cProfileStats:
        return cProfileStats(pstats.Stats().add(*(each.stats_path for each in stats)))


class PyinstrumentAnalysis(PythonProfileAnalysis):
    """The profiles of pyinstrument."""

    name = PYINSTRUMENT_NAME

    def _aggregate_stats(self, stats: Sequence[StepPythonProfileStats]) -> list[PyinstrumentStepStats]:
        """Return one entry for each profile that has its data; "" stands for a page that is missing."""
        paths: dict[str, dict[str, str]] = defaultdict(dict)
        for each in stats:
            paths[os.path.dirname(each.stats_path)][os.path.splitext(each.stats_path)[1]] = each.stats_path
        return [
            PyinstrumentStepStats(of_step.get(".html", ""), json.loads(Path(of_step[".json"]).read_text("utf-8")))
            for of_step in paths.values()
            if ".json" in of_step
        ]


__getattr__ = not_offered.attribute_of(__name__)
