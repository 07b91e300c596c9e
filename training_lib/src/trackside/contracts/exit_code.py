"""Exit codes that more than one layer returns. The table of all is in `docs/continuous-integration.md`."""

from __future__ import annotations

NOT_JUDGED = (
    8  # the training ended well, and rules did not judge it to its end; or a gate about a run without a verdict
)
