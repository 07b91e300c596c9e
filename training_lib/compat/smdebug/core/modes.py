"""What a step was for."""

from enum import Enum


class ModeKeys(Enum):
    """The numbers are those on disk. Steps that belong to no other mode are GLOBAL."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4
