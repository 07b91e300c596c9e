"""Constants of the hook for XGBoost."""

from smdebug import not_offered

INCREASING_METRICS_REGEX = "^[a-zA-z]+-(auc|map)$"  # metrics that are no losses, as it was spelt

__getattr__ = not_offered.attribute_of(__name__)
