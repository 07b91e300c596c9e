"""Frames, statistics and timelines of profiles."""

from __future__ import annotations

from smdebug import not_offered

__getattr__ = not_offered.attribute_of(__name__)
