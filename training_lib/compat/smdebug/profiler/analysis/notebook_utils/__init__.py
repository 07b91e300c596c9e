"""Charts of profiles for notebooks, as static SVG."""

from __future__ import annotations

from smdebug import not_offered
from smdebug.profiler.analysis.notebook_utils.metrics_histogram import MetricsHistogram
from smdebug.profiler.analysis.notebook_utils.step_histogram import StepHistogram
from smdebug.profiler.analysis.notebook_utils.training_job import TrainingJob

__all__ = ["MetricsHistogram", "StepHistogram", "TrainingJob"]

__getattr__ = not_offered.attribute_of(__name__)
