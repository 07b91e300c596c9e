"""The names that XGBoost scripts import for configuration and analysis.

Hooks are not offered yet (see `not_offered`).
"""

from smdebug import not_offered

__getattr__ = not_offered.attribute_of(__name__)
