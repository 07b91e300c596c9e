"""Names of numbers that a run records of itself: capture writes them, rules and reports read them."""

from __future__ import annotations

RECORDED = "trackside/"  # how all of them begin

GRADIENTS_KEPT = "trackside/gradients_kept"
BACKWARD_PASSES = "trackside/backward_passes"
WITHOUT_GRADIENTS = "trackside/without_gradients"
BATCH = "trackside/batch"
BATCH_OF_ONE_ROW = "trackside/batch_of_one_row"
BATCH_REPEATED = "trackside/batch_repeated"
LOST_UPDATES = "trackside/lost_updates"
PASSES_WITHOUT_STEP = "trackside/passes_without_step"
CLIPPING = "trackside/clipping"
BATCH_NUMBER = "trackside/batch_number"
EPOCH = "trackside/epoch"
UPDATE_SIZE = "trackside/update_size"
OVERHEAD = "trackside/overhead_share"
NORMS_INTERVAL = "trackside/norms_interval"
DEAR_INTERVAL = "trackside/dear_interval"
