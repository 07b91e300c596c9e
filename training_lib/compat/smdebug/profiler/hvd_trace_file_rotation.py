"""Horovod's timeline, in files that readers of profiles find, while Horovod writes it."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

from smdebug import not_offered
from smdebug.core.tfevent.timeline_file_writer import TimelineFileWriter
from smdebug.profiler.profiler_constants import CONVERT_TO_MICROSECS, HOROVODTIMELINE_SUFFIX
from trackside.environment import OldNamesEnvironment

if TYPE_CHECKING:
    from smdebug.profiler.profiler_config_parser import ProfilerConfigParser

LOOK_SECONDS = 15.0


class HvdTraceFileRotation:
    """Reads the file at HOROVOD_TIMELINE as it grows, and writes its events as timelines of the profiler.

    Horovod's times are of the monotonic clock; they become moments since the epoch.

    Attributes:
        enabled: True if Horovod writes a timeline, and the profiler is on.

    Args:
        profiler_config_parser: The configuration.
    """

    def __init__(self, profiler_config_parser: ProfilerConfigParser) -> None:
        self.hvd_file = OldNamesEnvironment.read().horovod_timeline
        self.enabled = bool(profiler_config_parser.profiling_enabled and self.hvd_file)
        if not self.enabled:
            return
        self._to_epoch = round((time.time() - time.monotonic()) * CONVERT_TO_MICROSECS)
        self._place = 0  # in the file
        self._is_begun = False
        self._phases: dict[Any, str] = {}
        self.tl_writer = TimelineFileWriter(profiler_config_parser, suffix=HOROVODTIMELINE_SUFFIX)
        self._is_over = threading.Event()
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Read the rest, and close the timeline."""
        if self.enabled:
            self._is_over.set()
            self._reader.join()
            self.tl_writer.close()

    def _follow(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(LOOK_SECONDS)
            try:
                self._read()
            except OSError:
                continue  # not yet there

    def _read(self) -> None:
        with open(self.hvd_file, "rb") as file:
            file.seek(self._place)
            for line in file:
                if not line.endswith(b"\n") and not self._is_over.is_set():
                    break  # Horovod is about to write the rest
                self._place += len(line)
                try:
                    event = json.loads(line.strip().strip(b"[],"))
                except ValueError:
                    continue
                if isinstance(event, dict):
                    self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        facts = event.get("args") or {}
        if event.get("ph") == "M":
            if "name" in facts:
                self._phases[event.get("pid")] = str(facts["name"])
            return
        if not isinstance(event.get("ts"), (int, float)):
            return
        start = round(event["ts"] + self._to_epoch)
        if not self._is_begun:
            self._is_begun = True
            self.tl_writer.count_from(start)
        scope = {"s": event["s"]} if "s" in event else {}
        self.tl_writer.write_trace_events(
            timestamp=start / CONVERT_TO_MICROSECS,
            training_phase=self._phases.get(event.get("pid"), ""),
            op_name=str(event.get("name", "")),
            phase=str(event.get("ph", "X")),
            duration=float(event.get("dur") or 0) / CONVERT_TO_MICROSECS,
            **{name: value for name, value in facts.items() if name not in _PARAMETERS},
            **scope,
        )


_PARAMETERS = {"timestamp", "training_phase", "op_name", "phase", "duration", "s"}

__getattr__ = not_offered.attribute_of(__name__)
