"""Names of numbers that a run records of itself: capture writes them, rules and reports read them."""

from __future__ import annotations

GRADIENTS_KEPT = "trackside/gradients_kept"
CLIPPING = "trackside/clipping"
UPDATE_SIZE = "trackside/update_size"
OVERHEAD = "trackside/overhead_share"
NORMS_INTERVAL = "trackside/norms_interval"
DEAR_INTERVAL = "trackside/dear_interval"
