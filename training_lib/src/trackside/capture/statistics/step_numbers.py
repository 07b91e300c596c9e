"""The numbers that are recorded at every training step beside losses and tensors: each declared once, here.

To add one, add a line to `STEP_NUMBERS`. It is sampled at the end of every training step, whichever way the step took
through an adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trackside.capture.ground.values import Values
from trackside.contracts.run.recorded_names import (
    ATTENTION_AHEAD,
    ATTENTION_ENTROPY,
    ATTENTION_LOGIT,
    BACKWARD_PASSES,
    BACKWARD_SECONDS,
    BATCH,
    BATCH_NUMBER,
    BATCH_OF_ONE_ROW,
    BATCH_REPEATED,
    BATCHES_CLEARED,
    BATCHES_READY,
    BATCHES_WITHOUT_STEP,
    CAPTURE_SECONDS,
    CHOSEN_LENGTH,
    CLIPPING,
    DATA_PROCESSOR_WAIT_SECONDS,
    DATA_SECONDS,
    DOUBLE_BEGINS,
    EPOCH,
    EVALUATED_ROWS_OVERLAP,
    EVALUATED_ROWS_TRAINED_ON,
    EVALUATION_SECONDS,
    GRADIENTS_AGAINST_PREDICTIONS,
    GRADIENTS_KEPT,
    HELD_OUT_INPUTS_CHANGED,
    HELD_OUT_INPUTS_OWN_STATISTICS,
    HELD_OUT_LABELS_HIGHEST,
    HELD_OUT_LABELS_UNTRAINED,
    HELD_OUT_SCORE,
    LABELLED_ENDS,
    LABELLED_PADDING,
    LABELLED_PROMPTS,
    LABELLED_TOKENS,
    LARGE_TARGET_ERROR,
    LEAST_WEIGHT_OF_SPLIT,
    LOCAL_GRADIENT,
    LONGER_CHOSEN,
    LOST_UPDATES,
    MOST_TERMS,
    OPTIMIZER_SECONDS,
    ORDER_SEED_HIGH,
    ORDER_SEED_IS_FIRST,
    ORDER_SEED_LOW,
    PASSES_WITHOUT_STEP,
    PROCESSOR_WAIT_SECONDS,
    RAN_OUT,
    REJECTED_LENGTH,
    RESTED_STEPS,
    ROWS_CUT,
    ROWS_REPEATED,
    SAME_VIEWS,
    SECOND_DERIVATIVES_OVER_SLOPE,
    SECOND_DERIVATIVES_POSITIVE,
    SHORTER_CHOSEN,
    SKIPPED_BEFORE,
    SKIPPED_STEP,
    SMALL_TARGET_ERROR,
    STEP_SECONDS,
    STEP_WEIGHT,
    TARGET_PLACES,
    TARGET_SCALE,
    TOKEN_WEIGHTS,
    TURNED_TARGETS,
    UNLABELLED_ROWS,
    UNRELATED_NOISE,
    UNSPLIT_TREES,
    UNTRAINED_TOKENS,
    UPDATE_SIZE,
    VIEW_SPREAD,
    WITHOUT_GRADIENTS,
    loss_term,
    loss_term_guess,
)

MOST_CLIPPINGS = 4  # of one step

Key = tuple[str, str]  # name, statistic
NumberSampler = Callable[[dict[Key, "float | Values"]], None]  # adds numbers at the end of a step


@dataclass(frozen=True)
class StepNumber:
    """A number of a training step.

    Attributes:
        name: The name it is recorded under.
        statistic: The statistic of that name.
        meaning: What it is, for docs.
        read: Returns it at the end of a step. None if an adapter adds it while the step is open.
    """

    name: str
    statistic: str
    meaning: str
    read: Callable[[], float] | None = None

    @property
    def key(self) -> Key:
        """Name and statistic."""
        return self.name, self.statistic


def clipping_name(number: int) -> str:
    """Return the name of the clipping call with this number in a step, counted from 0."""
    return f"{CLIPPING}_{number}" if number else CLIPPING


STEP_NUMBERS: tuple[StepNumber, ...] = (
    StepNumber(GRADIENTS_KEPT, "mean", "1 where a step used the gradients of the one before again, else 0"),
    StepNumber(UPDATE_SIZE, "mean", "the change of all weights since it was last measured, over their size (a sample)"),
    StepNumber(
        BACKWARD_PASSES,
        "mean",
        "backward passes since the optimizer's step before, 1 where gradients came another way; the fewest of several "
        "optimizers",
    ),
    StepNumber(WITHOUT_GRADIENTS, "mean", "1 where no optimizer of the step had any gradient; not recorded elsewhere"),
    StepNumber(
        SKIPPED_STEP,
        "mean",
        "1 where an optimizer was called and skipped its step, else 0; recorded of fused ones and around such skips",
    ),
    StepNumber(SKIPPED_BEFORE, "mean", "steps that were skipped since the step before; not recorded where none was"),
    StepNumber(
        RESTED_STEPS,
        "mean",
        "training steps at rest right before this one, of which nothing is recorded; only at the first after a rest",
    ),
    StepNumber(
        PASSES_WITHOUT_STEP,
        "mean",
        "backward passes of the training since the run's newest step, once they are many more than a step has",
    ),
    StepNumber(
        BATCHES_WITHOUT_STEP,
        "mean",
        "batches of the training's DataLoader in a row that no backward pass used, once they are many",
    ),
    StepNumber(
        BATCHES_CLEARED,
        "mean",
        "batches of a DataLoader whose gradients were cleared before the step, which used those of the last one alone; "
        "not recorded where none was",
    ),
    StepNumber(
        BATCH, "mean", "a fingerprint of the newest batch of a DataLoader, below 2 ** 24: equal for equal batches"
    ),
    StepNumber(
        LOST_UPDATES, "mean", "share of half-precision elements with a gradient that the step left as they were"
    ),
    StepNumber(
        BATCH_NUMBER, "mean", "the number of the newest batch of a DataLoader in its pass over the data, from 0"
    ),
    StepNumber(EPOCH, "mean", "the pass over the data that the batch belongs to, from 0, counted by this process"),
    StepNumber(ORDER_SEED_HIGH, "mean", "the high 32 bits of the seed of a pass's order; with its first batch"),
    StepNumber(ORDER_SEED_LOW, "mean", "the low 32 bits of it"),
    StepNumber(
        ORDER_SEED_IS_FIRST, "mean", "1 where a generator of the script was seeded so before its first pass, else 0"
    ),
    StepNumber(
        BATCHES_READY,
        "mean",
        "batches of a DataLoader's workers that were ready when the newest was asked for; not recorded without workers",
    ),
    StepNumber(BATCH_OF_ONE_ROW, "mean", "1 where all rows of the newest batch were equal, else 0"),
    StepNumber(
        SAME_VIEWS,
        "mean",
        "1 where two passes of one model that the loss compares were the same, else 0; at steps with a look",
    ),
    StepNumber(
        VIEW_SPREAD,
        "mean",
        "1 less the squared length of the mean direction of the outputs of these passes: 0 where all samples have one",
    ),
    StepNumber(
        TURNED_TARGETS,
        "mean",
        "share of the samples with a dense target that fits once it is flipped or rotated, less what chance does",
    ),
    StepNumber(
        UNRELATED_NOISE,
        "mean",
        "1 where the target of a squared error is normal noise that no layer reads any of, else 0; at twelve looks",
    ),
    StepNumber(
        TARGET_SCALE,
        "mean",
        "of the columns of one target, the largest deviation over the smallest; at steps with a look",
    ),
    StepNumber(
        SMALL_TARGET_ERROR, "mean", "the squared error of the column of the smallest deviation over its variance"
    ),
    StepNumber(
        LARGE_TARGET_ERROR, "mean", "the squared error of the column of the largest deviation over its variance"
    ),
    StepNumber(
        BATCH_REPEATED, "mean", "1 where the newest batch came before, less than half of the data set ago, else 0"
    ),
    StepNumber(
        ROWS_REPEATED,
        "mean",
        "share of the rows that a DataLoader drew twice or more in a pass, while most of its data never came",
    ),
    StepNumber(
        LABELLED_TOKENS,
        "mean",
        "share of the tokens of a batch with a label, without padding; of causal language models, at steps with a look",
    ),
    StepNumber(LABELLED_PADDING, "mean", "share of the padding with a label; not recorded without padding"),
    StepNumber(
        LABELLED_ENDS, "mean", "share of the rows with a label on an end token; not recorded if that token is unknown"
    ),
    StepNumber(
        TARGET_PLACES,
        "mean",
        "places by which the targets of the loss are ahead of the tokens of a causal language model: 1 where they are "
        "the next ones, -1 where they are at no place up to 2; at steps with a look",
    ),
    StepNumber(DOUBLE_BEGINS, "mean", "share of the rows that begin with two begin tokens"),
    StepNumber(
        LABELLED_PROMPTS,
        "mean",
        "share of the rows with a label on their first token: what they begin with, a prompt mostly, is trained on",
    ),
    StepNumber(UNLABELLED_ROWS, "mean", "share of the rows without any label"),
    StepNumber(
        ROWS_CUT,
        "mean",
        "share of the rows as long as the longest of the run so far, without an end token among their last ones; not "
        "recorded of blocks of a stream",
    ),
    StepNumber(
        TOKEN_WEIGHTS,
        "mean",
        "the largest weight of a token in the loss of a step over the smallest, by its backward passes; at steps with "
        "several and a look",
    ),
    StepNumber(STEP_WEIGHT, "mean", "the sum of the weights of all tokens of that step: 1 for a mean over them"),
    StepNumber(CHOSEN_LENGTH, "mean", "tokens of a chosen answer of a batch of preferences; at steps with a look"),
    StepNumber(REJECTED_LENGTH, "mean", "tokens of a rejected one"),
    StepNumber(LONGER_CHOSEN, "mean", "share of the pairs whose chosen answer has more tokens"),
    StepNumber(SHORTER_CHOSEN, "mean", "share of those whose chosen answer has fewer"),
    StepNumber(
        UNTRAINED_TOKENS, "mean", "tokens of the batch whose embedding is frozen, and the mean of all, as of added ones"
    ),
    StepNumber(
        EVALUATED_ROWS_TRAINED_ON,
        "mean",
        "share of the rows of the evaluation before this step that the training had had, of its pass with the least",
    ),
    StepNumber(
        EVALUATED_ROWS_OVERLAP,
        "mean",
        "share of these rows, held out from a first pass that was seen whole, that begin and end within rows of it",
    ),
    StepNumber(
        HELD_OUT_INPUTS_CHANGED,
        "mean",
        "1 if the inputs of the evaluation before this step are others than in the one before it, whose labels are the "
        "same, else 0",
    ),
    StepNumber(
        HELD_OUT_INPUTS_OWN_STATISTICS,
        "mean",
        "share of the columns of its inputs with mean 0 and deviation 1 over all of it, of rows not trained on",
    ),
    StepNumber(
        HELD_OUT_LABELS_UNTRAINED,
        "mean",
        "share of its labels of classes below 1 % of the training's labels, of its pass with the least",
    ),
    StepNumber(HELD_OUT_LABELS_HIGHEST, "mean", "the highest of these classes, from 0; -1 without one"),
    StepNumber(
        HELD_OUT_SCORE,
        "mean",
        "the best score of held-out rows where none is better than a guess; with the last step of an estimator",
    ),
    StepNumber(
        RAN_OUT,
        "mean",
        "the limit of steps that ended the training before it had converged; 0 if the library warned without a limit",
    ),
    StepNumber(
        UNSPLIT_TREES, "mean", "share of the trees of a round of boosting that are a single leaf; of the first rounds"
    ),
    StepNumber(
        LEAST_WEIGHT_OF_SPLIT,
        "mean",
        "the least that the two sides of a split need by the settings, over what all rows have: weight, or number",
    ),
    StepNumber(
        GRADIENTS_AGAINST_PREDICTIONS,
        "mean",
        "share of the rows whose gradient of the script's own objective falls as the prediction rises, in the first "
        "rounds of a boosting; 0 where predictions move toward the labels",
    ),
    StepNumber(
        SECOND_DERIVATIVES_POSITIVE,
        "mean",
        "share of the rows whose second derivative of such an objective is positive",
    ),
    StepNumber(
        SECOND_DERIVATIVES_OVER_SLOPE,
        "mean",
        "median of these second derivatives over the slope of the gradient between two rounds; not where all are 1",
    ),
    StepNumber(
        ATTENTION_LOGIT, "mean", "the largest absolute attention logit of a sample of rows; at steps with a look"
    ),
    StepNumber(
        ATTENTION_ENTROPY, "mean", "entropy of attention over that of even attention, of the layer with the least"
    ),
    StepNumber(
        ATTENTION_AHEAD,
        "mean",
        "share of the rows of attention to the own sequence that may see the next place, of the layer with the most",
    ),
    StepNumber(
        LOCAL_GRADIENT,
        "l2",
        "the norm of this rank's own gradients of a sample of parameters, before they are averaged",
    ),
    *(
        StepNumber(name(number), statistic, meaning)
        for number in range(MOST_TERMS)
        for name, statistic, meaning in (
            (loss_term, "l2", "the norm of the gradient that a term of a summed loss sends into what its terms share"),
            (loss_term, "mean", "the value of the term before its weight"),
            (loss_term_guess, "mean", "what a constant answer to it would cost, from the targets of the batch"),
        )
    ),
    StepNumber(STEP_SECONDS, "mean", "seconds from the end of the step before to the end of this one"),
    StepNumber(DATA_SECONDS, "mean", "seconds of it in which a DataLoader was asked for a batch"),
    StepNumber(BACKWARD_SECONDS, "mean", "seconds of it in backward passes"),
    StepNumber(OPTIMIZER_SECONDS, "mean", "seconds of it in steps of optimizers"),
    StepNumber(CAPTURE_SECONDS, "mean", "seconds of it that Trackside took"),
    StepNumber(EVALUATION_SECONDS, "mean", "seconds of it in an evaluation"),
    StepNumber(
        PROCESSOR_WAIT_SECONDS,
        "mean",
        "seconds of it in which the training thread was ready and had no processor (Linux), in whatever phase",
    ),
    StepNumber(
        DATA_PROCESSOR_WAIT_SECONDS,
        "mean",
        "the part of this wait up to the newest batch, at most data_seconds; recorded if these are half a millisecond",
    ),
    *(
        StepNumber(clipping_name(number), statistic, meaning)
        for number in range(MOST_CLIPPINGS)
        for statistic, meaning in (
            ("mean", "the norm of all gradients before they were clipped"),
            ("max_norm", "the norm that they were clipped to"),
        )
    ),
)


class StepNumbers:
    """The numbers of the open training step.

    Attributes:
        added: Numbers that an adapter has added, by name and statistic. Only declared ones may be.

    Args:
        samplers: Functions that add numbers at the end of a step.
    """

    def __init__(self, samplers: Sequence[NumberSampler] = ()) -> None:
        self._samplers = samplers
        self.added: dict[Key, float | Values] = {}
        self._read = [(number.key, number.read) for number in STEP_NUMBERS if number.read is not None]

    def sample(self) -> dict[Key, float | Values]:
        """Return the numbers of the step that ends now, and begin those of the next."""
        found, self.added = self.added, {}
        for key, read in self._read:
            found[key] = float(read())
        for sampler in self._samplers:
            sampler(found)
        return found
