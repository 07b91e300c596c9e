"""The modes of steps."""

from enum import Enum


class ModeKeys(Enum):
    """A mode; the numbers are those on disk. Steps that belong to no other mode are GLOBAL."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4
