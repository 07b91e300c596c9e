"""The import names of the original smdebug, served by Trackside. Re-exports and small translations only.

`__version__` stays "1.0.34": scripts compare it to find smdebug's abilities, and these names have those of that
version. Trackside's own version is `trackside.__version__`.

Names that are not offered yet raise an ImportError with the reason and a replacement (see `not_offered`).
"""

from __future__ import annotations

from smdebug import not_offered
from smdebug.core.collection import CollectionKeys
from smdebug.core.modes import ModeKeys as modes  # noqa: N813 - the original's spelling
from smdebug.core.reduction_config import ReductionConfig
from smdebug.core.save_config import SaveConfig, SaveConfigMode

__version__ = "1.0.34"

__all__ = ["CollectionKeys", "ReductionConfig", "SaveConfig", "SaveConfigMode", "__version__", "modes"]

__getattr__ = not_offered.attribute_of(__name__)
not_offered.explain_missing_modules()
