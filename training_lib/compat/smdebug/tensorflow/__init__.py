"""The names that TensorFlow scripts import. Keras itself is imported with the hook: analysis does not need it.

Sessions and estimators of TensorFlow 1 are not offered (see `not_offered`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smdebug import CollectionKeys, ReductionConfig, SaveConfig, SaveConfigMode, modes, not_offered
from smdebug.tensorflow.collection import Collection
from smdebug.trials import create_trial

if TYPE_CHECKING:
    from smdebug.core.singleton_utils import del_hook, set_hook
    from smdebug.tensorflow.keras import KerasHook
    from smdebug.tensorflow.singleton_utils import get_hook

__all__ = [
    "Collection",
    "CollectionKeys",
    "EstimatorHook",
    "KerasHook",
    "ReductionConfig",
    "SaveConfig",
    "SaveConfigMode",
    "SessionHook",
    "create_trial",
    "del_hook",
    "get_hook",
    "modes",
    "set_hook",
]

_OF_THE_HOOK = {"KerasHook": "keras", **dict.fromkeys(("del_hook", "get_hook", "set_hook"), "singleton_utils")}
_explain = not_offered.attribute_of(__name__)


def __getattr__(name: str) -> Any:
    if name in _OF_THE_HOOK:
        return not_offered.of_framework(f"smdebug.tensorflow.{_OF_THE_HOOK[name]}", name)
    return _explain(name)
