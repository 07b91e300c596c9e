"""The logger `smdebug`."""

from __future__ import annotations

import logging
import sys
from collections import defaultdict

from smdebug import not_offered
from smdebug.core.config_constants import LOG_DUPLICATION_THRESHOLD
from trackside.environment import OldNamesEnvironment

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "off": logging.CRITICAL + 1,
}
_FORMAT = "[%(asctime)s.%(msecs)03d %(levelname)s %(filename)s:%(lineno)d] %(message)s"


class MaxLevelFilter(logging.Filter):
    """A filter that passes records below `level`."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self.level = level

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno < self.level


class DuplicateLogFilter:
    """A filter that passes each message three times."""

    def __init__(self) -> None:
        self.msgs: defaultdict[str, int] = defaultdict(int)
        self.repeat_threshold = LOG_DUPLICATION_THRESHOLD

    def filter(self, record: logging.LogRecord) -> bool:
        self.msgs[record.msg] += 1
        return self.msgs[record.msg] <= self.repeat_threshold


def get_logger(name: str = "smdebug") -> logging.Logger:
    """Return a logger. That of smdebug logs each message three times at most, at the level SMDEBUG_LOG_LEVEL.

    If the application has set up no logging, its messages go to the standard output.
    """
    logger = logging.getLogger(name)
    if name != "smdebug" or any(isinstance(each, DuplicateLogFilter) for each in logger.filters):
        return logger
    logger.addFilter(DuplicateLogFilter())
    logger.setLevel(_LEVELS.get(OldNamesEnvironment.read().log_level, logging.INFO))
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter(_FORMAT, "%Y-%m-%d %H:%M:%S"))
        logger.addHandler(handler)
    return logger


__getattr__ = not_offered.attribute_of(__name__)
