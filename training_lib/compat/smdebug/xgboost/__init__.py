"""The names that XGBoost scripts import. XGBoost itself is imported with the hook: analysis does not need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smdebug import CollectionKeys, SaveConfig, SaveConfigMode, modes, not_offered
from smdebug.core.collection import Collection
from smdebug.trials import create_trial

if TYPE_CHECKING:
    from smdebug.core.singleton_utils import del_hook, set_hook
    from smdebug.xgboost.hook import Hook
    from smdebug.xgboost.singleton_utils import get_hook

__all__ = [
    "Collection",
    "CollectionKeys",
    "Hook",
    "SaveConfig",
    "SaveConfigMode",
    "create_trial",
    "del_hook",
    "get_hook",
    "modes",
    "set_hook",
]

_OF_THE_HOOK = frozenset({"Hook", "del_hook", "get_hook", "set_hook"})
_explain = not_offered.attribute_of(__name__)


def __getattr__(name: str) -> Any:
    if name in _OF_THE_HOOK:
        return not_offered.of_framework(f"smdebug.xgboost.{'hook' if name == 'Hook' else 'singleton_utils'}", name)
    return _explain(name)
