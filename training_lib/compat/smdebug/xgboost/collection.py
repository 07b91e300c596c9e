"""The collections of a hook for XGBoost."""

from smdebug import not_offered
from smdebug.core.collection_manager import CollectionManager as BaseCollectionManager


class CollectionManager(BaseCollectionManager):
    """The collections of a hook for XGBoost."""


__getattr__ = not_offered.attribute_of(__name__)
