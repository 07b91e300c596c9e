"""Names of numbers that a run records of itself: capture writes them, rules and reports read them."""

from __future__ import annotations

import re

RECORDED = "trackside/"  # how all of them begin
LOGGED = "trackside/logged/"  # how those begin that the script or its trainer has logged

GRADIENTS_KEPT = "trackside/gradients_kept"
BACKWARD_PASSES = "trackside/backward_passes"
WITHOUT_GRADIENTS = "trackside/without_gradients"
SKIPPED_STEP = "trackside/skipped_step"
SKIPPED_BEFORE = "trackside/skipped_before"
RESTED_STEPS = "trackside/rested_steps"
BATCH = "trackside/batch"
BATCH_OF_ONE_ROW = "trackside/batch_of_one_row"
SAME_VIEWS = "trackside/same_views"
VIEW_SPREAD = "trackside/view_spread"
TURNED_TARGETS = "trackside/turned_targets"
UNRELATED_NOISE = "trackside/unrelated_noise"
TARGET_SCALE = "trackside/target_scale"
SMALL_TARGET_ERROR = "trackside/small_target_error"
LARGE_TARGET_ERROR = "trackside/large_target_error"
BATCH_REPEATED = "trackside/batch_repeated"
ROWS_REPEATED = "trackside/rows_repeated"
EVALUATED_ROWS_TRAINED_ON = "trackside/evaluated_rows_trained_on"
EVALUATED_ROWS_OVERLAP = "trackside/evaluated_rows_overlap"
HELD_OUT_INPUTS_CHANGED = "trackside/held_out_inputs_changed"
HELD_OUT_INPUTS_OWN_STATISTICS = "trackside/held_out_inputs_own_statistics"
HELD_OUT_LABELS_UNTRAINED = "trackside/held_out_labels_untrained"
HELD_OUT_LABELS_HIGHEST = "trackside/held_out_labels_highest"
HELD_OUT_SCORE = "trackside/held_out_score"
RAN_OUT = "trackside/ran_out"
UNSPLIT_TREES = "trackside/unsplit_trees"
LEAST_WEIGHT_OF_SPLIT = "trackside/least_weight_of_split"
GRADIENTS_AGAINST_PREDICTIONS = "trackside/gradients_against_predictions"
SECOND_DERIVATIVES_POSITIVE = "trackside/second_derivatives_positive"
SECOND_DERIVATIVES_OVER_SLOPE = "trackside/second_derivatives_over_slope"
LABELLED_TOKENS = "trackside/labelled_tokens"
LABELLED_PADDING = "trackside/labelled_padding"
LABELLED_ENDS = "trackside/labelled_ends"
TARGET_PLACES = "trackside/target_places"
DOUBLE_BEGINS = "trackside/double_begins"
LABELLED_PROMPTS = "trackside/labelled_prompts"
UNLABELLED_ROWS = "trackside/unlabelled_rows"
ROWS_CUT = "trackside/rows_cut"
TOKEN_WEIGHTS = "trackside/token_weights"  # noqa: S105 - a name
STEP_WEIGHT = "trackside/step_weight"
CHOSEN_LENGTH = "trackside/chosen_length"
REJECTED_LENGTH = "trackside/rejected_length"
LONGER_CHOSEN = "trackside/longer_chosen"
SHORTER_CHOSEN = "trackside/shorter_chosen"
UNTRAINED_TOKENS = "trackside/untrained_tokens"
LOST_UPDATES = "trackside/lost_updates"
PASSES_WITHOUT_STEP = "trackside/passes_without_step"
BATCHES_WITHOUT_STEP = "trackside/batches_without_step"
BATCHES_CLEARED = "trackside/batches_cleared"
CLIPPING = "trackside/clipping"
BATCH_NUMBER = "trackside/batch_number"
EPOCH = "trackside/epoch"
ORDER_SEED_HIGH = "trackside/order_seed_high"  # 32 bits each, which a float holds exactly
ORDER_SEED_LOW = "trackside/order_seed_low"
ORDER_SEED_IS_FIRST = "trackside/order_seed_is_first"
BATCHES_READY = "trackside/batches_ready"
ATTENTION_LOGIT = "trackside/attention_logit"
ATTENTION_ENTROPY = "trackside/attention_entropy"
ATTENTION_AHEAD = "trackside/attention_ahead"
LOCAL_GRADIENT = "trackside/local_gradient"
MOST_TERMS = 4  # of a summed loss whose gradients are measured
UPDATE_SIZE = "trackside/update_size"
OVERHEAD = "trackside/overhead_share"
NORMS_INTERVAL = "trackside/norms_interval"
DEAR_INTERVAL = "trackside/dear_interval"

# Seconds of a step, and of the phases of it that occurred: profiling/phase_clock.py.
STEP_SECONDS = "trackside/step_seconds"
DATA_SECONDS = "trackside/data_seconds"
BACKWARD_SECONDS = "trackside/backward_seconds"
OPTIMIZER_SECONDS = "trackside/optimizer_seconds"
CAPTURE_SECONDS = "trackside/capture_seconds"
EVALUATION_SECONDS = "trackside/evaluation_seconds"
PROCESSOR_WAIT_SECONDS = "trackside/processor_wait_seconds"
DATA_PROCESSOR_WAIT_SECONDS = "trackside/data_processor_wait_seconds"


def loss_term(number: int) -> str:
    """Return the name of the numbers of a term of a summed loss, counted from 0 in the order of addition."""
    return f"trackside/loss_term_{number}"


def loss_term_guess(number: int) -> str:
    """Return the name of what a constant answer to this term would cost."""
    return f"trackside/loss_term_guess_{number}"


_PLAIN = {  # where the words of the name itself would not do
    GRADIENTS_KEPT: "gradients kept from the step before",
    WITHOUT_GRADIENTS: "steps without gradients",
    BATCH: "the batch",
    BATCH_OF_ONE_ROW: "a batch of one row over and over",
    SAME_VIEWS: "two views of one input that are the same",
    VIEW_SPREAD: "the spread of the outputs for two views",
    TURNED_TARGETS: "targets that lie otherwise than their inputs",
    UNRELATED_NOISE: "noise to predict that the model reads nothing of",
    TARGET_PLACES: "the places of the loss's targets",
    LABELLED_PROMPTS: "rows with a label on their first token",
    UNLABELLED_ROWS: "rows without a label",
    ROWS_CUT: "rows that were cut off",
    TOKEN_WEIGHTS: "the weights of tokens within a step",
    STEP_WEIGHT: "the weight of all tokens of a step",
    LONGER_CHOSEN: "pairs with the longer answer chosen",
    SHORTER_CHOSEN: "pairs with the shorter answer chosen",
    TARGET_SCALE: "the scales of the target's columns",
    SMALL_TARGET_ERROR: "the error of the target's small columns",
    LARGE_TARGET_ERROR: "the error of the target's large columns",
    BATCH_REPEATED: "a batch that came again",
    ROWS_REPEATED: "rows that came again",
    HELD_OUT_LABELS_UNTRAINED: "held-out labels of classes that the training lacks",
    HELD_OUT_LABELS_HIGHEST: "the highest of these classes",
    EVALUATED_ROWS_OVERLAP: "held-out rows that overlap with the training's",
    LOST_UPDATES: "updates lost to half precision",
    CLIPPING: "the clipping of gradients",
    ATTENTION_LOGIT: "the largest logit of attention",
    ATTENTION_ENTROPY: "the entropy of attention",
    LOCAL_GRADIENT: "the gradient of this process alone",
    UPDATE_SIZE: "the size of an update",
    RESTED_STEPS: "steps before this one that were not watched",
    OVERHEAD: "the share of the time that watching takes",
    NORMS_INTERVAL: "steps between two measured norms",
    DEAR_INTERVAL: "steps between two full measurements",
}
_NUMBERED = re.compile(r"(.+)_(\d+)")


def plain_name(name: str) -> str:
    """Return the name of a tensor for users: a number that the run records of itself is named in words.

    Args:
        name: The name of a tensor, or of such a number: `trackside/gradients_kept`.
    """
    if not name.startswith(RECORDED):
        return name
    if name.startswith(LOGGED):
        return f"the logged {name.removeprefix(LOGGED).replace('_', ' ')}"
    numbered = _NUMBERED.fullmatch(name)
    known, number = (numbered[1], f" {numbered[2]}") if numbered else (name, "")
    return f"{_PLAIN.get(known) or known.removeprefix(RECORDED).replace('_', ' ')}{number}"
