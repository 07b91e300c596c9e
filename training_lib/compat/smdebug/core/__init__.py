"""The parts of the original's `smdebug.core` that scripts import."""

from smdebug import not_offered

__getattr__ = not_offered.attribute_of(__name__)
