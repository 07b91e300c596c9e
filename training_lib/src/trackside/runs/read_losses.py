"""The last losses of a run that nobody judged, read from its statistics."""

from __future__ import annotations

import time

from trackside.contracts.errors import RunNotFoundError, TracksideError
from trackside.contracts.run.last_losses import LastLosses
from trackside.situation.losses.last_losses import last_losses
from trackside.trial.trial import open_trial


def read_losses(uri: str) -> LastLosses | TracksideError:
    """Return the last losses of a run, or why it cannot be read. A run that captured nothing has none.

    Args:
        uri: Its folder or s3:// prefix.
    """
    try:
        trial = open_trial(uri)
        last = trial.recorded_through
        return LastLosses() if last < 0 else last_losses(trial.window(last, now=time.time()))
    except RunNotFoundError:
        return LastLosses()
    except TracksideError as error:
        return error
