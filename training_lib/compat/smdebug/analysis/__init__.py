"""Helpers for analysis scripts."""

from smdebug import not_offered

__getattr__ = not_offered.attribute_of(__name__)
