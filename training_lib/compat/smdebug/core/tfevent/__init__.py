"""What lies within the records of an event file."""

from smdebug import not_offered

__getattr__ = not_offered.attribute_of(__name__)
