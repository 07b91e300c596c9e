"""The modes of steps."""

from enum import Enum

from smdebug import not_offered


class ModeKeys(Enum):
    """A mode; the numbers are those on disk. Steps that belong to no other mode are GLOBAL."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4


ALLOWED_MODES = list(ModeKeys)
ALLOWED_MODE_NAMES = [mode.name for mode in ModeKeys]
MODE_STEP_PLUGIN_NAME = "mode_step"
MODE_PLUGIN_NAME = "mode"


def str_to_mode_keys(mode_str: str) -> ModeKeys:
    """Return the mode of that name in lower case.

    Raises:
        ValueError: There is none.
    """
    for mode in ModeKeys:
        if mode.name.lower() == mode_str:
            return mode
    raise ValueError(f"Invalid mode {mode_str!r}. Modes: {', '.join(mode.name.lower() for mode in ModeKeys)}.")


__getattr__ = not_offered.attribute_of(__name__)
