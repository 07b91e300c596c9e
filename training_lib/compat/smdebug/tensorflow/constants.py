"""Constants of the hook for TensorFlow."""

from smdebug import not_offered

TF_DEFAULT_SAVED_COLLECTIONS = ["losses", "metrics", "sm_metrics"]

__getattr__ = not_offered.attribute_of(__name__)
