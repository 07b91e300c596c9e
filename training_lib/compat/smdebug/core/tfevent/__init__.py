"""The content of an event file's records."""

from smdebug import not_offered

__getattr__ = not_offered.attribute_of(__name__)
