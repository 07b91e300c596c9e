"""The kinds of timelines."""

from __future__ import annotations

from typing import Any

from smdebug import not_offered
from smdebug.profiler.profiler_constants import TF_METRICS_PREFIX
from smdebug.profiler.trace_event_file_parser import TraceEvent, TraceEventParser


class SMProfilerEvents(TraceEventParser):
    """Timelines of the training itself."""

    def __init__(self, type: str = "PythontimelineMetrics") -> None:  # noqa: A002 - the old name
        super().__init__(type=type)


class TensorboardProfilerEvents(TraceEventParser):
    """Timelines of TensorFlow's profiler."""

    def __init__(self) -> None:
        super().__init__(type="TFProfilerMetrics")

    def get_complete_op_events(self, tracefile: str) -> list[tuple[TraceEvent, str]]:
        """Return the events of a file that AWS's marks name, each with its phase."""
        self.read_events_from_file(tracefile)
        return [(event, phase) for event in self._trace_events if event.event_args and (phase := _marked_phase(event))]

    def get_training_info(self, tracefile: str) -> dict[str, list[list[Any]]]:
        """Return [name, start, duration] of the marked events of a file, by phase."""
        found: dict[str, list[list[Any]]] = {phase: [] for phase in _MARKED}
        for event, phase in self.get_complete_op_events(tracefile):
            found[phase].append([event.event_name, event.start_time, event.duration])
        return found


class HorovodProfilerEvents(TraceEventParser):
    """Timelines of Horovod."""

    def __init__(self) -> None:
        super().__init__(type="HorovodMetrics")


class SMDataParallelProfilerEvents(TraceEventParser):
    """Timelines of smdistributed.dataparallel."""

    def __init__(self) -> None:
        super().__init__(type="SMDataParallelMetrics")


_MARKED = ("ForwardPass", "ComputeGradient", "ApplyGradient")


def _marked_phase(event: TraceEvent) -> str | None:
    name, _, _ = event.event_name.partition("/")
    phase = name.removeprefix(TF_METRICS_PREFIX)
    return phase if phase in _MARKED and phase != name else None


__getattr__ = not_offered.attribute_of(__name__)
