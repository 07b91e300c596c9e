"""The names that MXNet scripts import for configuration and analysis.

Hooks are not offered yet (see `not_offered`).
"""

from smdebug import CollectionKeys, ReductionConfig, SaveConfig, SaveConfigMode, modes, not_offered
from smdebug.trials import create_trial

__all__ = ["CollectionKeys", "ReductionConfig", "SaveConfig", "SaveConfigMode", "create_trial", "modes"]

__getattr__ = not_offered.attribute_of(__name__)
