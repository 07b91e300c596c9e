"""Exit codes that more than one layer returns. The table of all is in `docs/continuous-integration.md`."""

from __future__ import annotations

NOT_JUDGED = (
    8  # the training ended well, and rules did not judge it to its end; or a gate about a run without a verdict
)
TIME_IS_OVER = 9  # `trackside wait`: neither an issue nor the end came in time
ENDED_BADLY = 10  # `trackside wait`: the training failed, was interrupted or was killed, and no issue stands
