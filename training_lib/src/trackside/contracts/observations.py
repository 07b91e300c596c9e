"""Observations: facts about a training program beyond its structure, each declared once and detected by one file.

A rule reads one by its declaration, as in `MARGIN.of(loss)`. An adapter that cannot see it leaves it at its default.
The formats page, the file of model facts and its reader follow from what is declared here.

To add one: declare it below, with what it is about; detect it in a file of its own in `frameworks/pytorch`, in
`losses/detectors/` or `facts/detectors/` (`facts/detector.py` has the events); read it in a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

T = TypeVar("T")
Section = Literal["losses", "modules", "parameters", "optimizers", "program"]  # of the file of model facts


class Observed(Protocol):
    """Facts with observations: of each what was seen, without what is as by default."""

    @property
    def observed(self) -> Mapping[Observation[Any], Any]:
        """The values by observation."""


@dataclass(frozen=True)
class Observation(Generic[T]):
    """A fact that a detector sees.

    Attributes:
        name: Its key in the file of model facts.
        default: Its value where nobody has seen it.
        meaning: What a value says, with its unit.
        about: The section of the file whose facts have it.
        item: The type of the items of a tuple, or of a value that is None by default; else the type is the default's.
        since: The release that first stored it.
    """

    name: str
    default: T
    meaning: str
    about: Section = "losses"
    item: type[Any] | None = None
    since: str = "0.1.0"

    def __hash__(self) -> int:
        return hash(self.name)

    def of(self, facts: Observed) -> T:
        """Return the value for a loss, module, parameter, optimizer or program.

        Args:
            facts: The facts about it.
        """
        found: T = facts.observed.get(self, self.default)
        return found


@dataclass(frozen=True)
class ScheduleFacts:
    """The newest learning-rate schedule of an optimizer.

    type_name  its class
    highest    the highest rate that it names for the first parameter group; 0 if unknown
    calls      0 if the script has never stepped it, 1 if it has; above 1 the number of places by which it moves on at a
               time, at the least, where it does so again and again without a backward pass between
    length     its steps from the highest rate to the lowest, from where it goes up again (`T_max` of a cosine); 0 if it
               names none
    """

    type_name: str
    highest: float = 0.0
    calls: int = 0
    length: int = 0


@dataclass(frozen=True)
class ClippingFacts:
    """The clipping of gradients.

    kind   "norm" or "value"
    limit  the largest norm or value
    line   the line of the first call
    """

    kind: str
    limit: float
    line: str = ""


@dataclass(frozen=True)
class CheckpointFacts:
    """The content of the checkpoints that the script has written so far, compared with the models.

    path             the file with the altered ones, else the first one without the missing ones; "" for neither
    parameter_count  number of trained parameters of the models that are held
    missing          the first of those that no checkpoint has held
    missing_count    their number
    ends_early       the missing ones are the last of their model, as where a head is left out
    altered          the first of those saved with other values than the model had, while most were saved as they were
    altered_count    their number
    """

    path: str = ""
    parameter_count: int = 0
    missing: tuple[str, ...] = ()
    missing_count: int = 0
    ends_early: bool = False
    altered: tuple[str, ...] = ()
    altered_count: int = 0


@dataclass(frozen=True)
class LoadFacts:
    """A call of `load_state_dict` that had no effect.

    name     the first tensor of the state
    count    number of tensors in it
    is_own   they were the model's own, put back after steps of training; else all had names that the model has not
    line     the line of the call; "" if unknown
    """

    name: str
    count: int
    is_own: bool = False
    line: str = ""


@dataclass(frozen=True)
class SelectionFacts:
    """A callback or setting that chooses the best state, ends the training, or lowers the rate, by a number.

    kind     its class: "EarlyStopping"; for a setting its name: "load_best_model_at_end"
    monitor  the name of the number: "val_accuracy"; "" if unknown
    mode     "min" or "max": the way that number is to go
    line     the line of the script that handed it over; "" if unknown
    """

    kind: str
    monitor: str
    mode: str
    line: str = ""


@dataclass(frozen=True)
class AdapterFacts:
    """An adapter of PEFT, over the layers of the trained models that have it.

    name              its name: "default"
    layer_count       number of layers with it
    rank              its rank; the largest of its layers
    scaling           the factor of what it adds; the largest of its layers
    is_active         layers call it
    is_trained        an optimizer holds a parameter of it that requires a gradient
    is_merged         its product was added to the weights, and layers do not call it, as a step ended
    is_off            adapters were switched off as a step ended
    is_for_inference  it was loaded as one that is not to be trained
    """

    name: str
    layer_count: int
    rank: int
    scaling: float
    is_active: bool = False
    is_trained: bool = False
    is_merged: bool = False
    is_off: bool = False
    is_for_inference: bool = False


COMPARED_WITH = Observation(
    "compared_with",
    0,
    "number of targets that each prediction was compared with by broadcasting: n if n predictions and n targets became "
    "n times n (a column minus a row), k if k scores met the number of a class; 0 without broadcasting",
)
MARGIN = Observation(
    "margin",
    0.0,
    "amount by which one distance is to be smaller than another, for a triplet loss that is a mean; 0 for others",
)
LOWERS_LIKELIHOOD = Observation(
    "lowers_likelihood",
    False,
    "written by hand, and it adds chosen log-probabilities with a plus sign, alone or times non-negative values",
)
BEYOND_REACH = Observation(
    "beyond_reach",
    0.0,
    "share of the targets that the last function of the predictions cannot reach (a target below zero behind a ReLU); "
    "1 for scores of classes that can never be negative",
)
MIXES_SAMPLES = Observation(
    "mixes_samples",
    False,
    "the softmax before it is taken over the samples of a batch, not over the classes of each",
)
JOINED_SAMPLES = Observation(
    "joined_samples",
    "",
    'what joins the samples of a batch on the way to it, which has predictions for each: "view" (their axis is cut up '
    'without a transposition), "softmax" or "norm" (taken along their axis)',
)
OTHER_AXIS = Observation(
    "other_axis",
    0,
    "number of places along an axis over which a softmax makes weights, that are then summed over another axis by a "
    "product of matrices; 0 without one",
)
FLAT_FUNCTION = Observation[tuple[str, ...]](
    "flat_function",
    (),
    "the name of a function without a slope, and the shapes of parameters that it reaches only through such ones: "
    '("round", "(16, 8)"); at most eight, () for none',
    item=str,
)
MOVED_AXIS = Observation(
    "moved_axis",
    0,
    "number of places along an axis that a view on the way to it moves without a transposition, as (rows, channels, "
    "steps) to (rows, steps, channels); 0 without one",
)
TRAINED_SIGNAL = Observation(
    "trained_signal",
    "",
    'what gets a gradient and is to be a number: "target" (what data and a share of the model\'s own output for other '
    'inputs add up to) or "advantage" (data less the output of a layer of one unit, times a log-probability)',
)
SEVERAL_CLASSES = Observation(
    "several_classes",
    0.0,
    "of cross entropy given probabilities: share of the rows of targets, zeros and ones, with more than one one",
)
BLANK_LABELS = Observation(
    "blank_labels", 0.0, "of CTC: share of its labels that are the number of the blank, of the first loss that is seen"
)
LEAST_SHARE = Observation(
    "least_share",
    0.0,
    "the least that it can be over what equal scores cost, where its scores are cosines times a factor, or its labels "
    "are smoothed; 0 elsewhere",
)
LABEL_SMOOTHING = Observation(
    "label_smoothing", 0.0, "of cross entropy: share of each label that is spread over all classes"
)
TAKES_SCORES_FOR_PROBABILITIES = Observation(
    "takes_scores_for_probabilities",
    False,
    "it expects probabilities, and the layer before it has no activation",
)
DIVERGENCE_OF = Observation(
    "divergence_of",
    "",
    'what a Kullback-Leibler divergence in it was given in place of log-probabilities: "probabilities" or "scores"',
)
STEP_SHARE = Observation(
    "step_share",
    0.0,
    "largest share of the units of a tanh or sigmoid before it that samples drive to both of its flat ends",
)
DROPOUTS = Observation[tuple[float, ...]](
    "dropouts",
    (),
    "shares of the values that dropouts before it drop: the largest four, largest first",
    item=float,
)
CLASS_WEIGHTS = Observation[tuple[float, ...]](
    "class_weights",
    (),
    "weights of the classes in their order, of at most 20; of `pos_weight` those of no and yes; () for none",
    item=float,
)
IGNORED_CLASS = Observation(
    "ignored_class",
    -1,
    "number of the class whose labels do not count (`ignore_index`), if the predictions have such a class; else -1",
)

PROBABILITY = Observation[float | None](
    "probability", None, "probability of a dropout; left out for any other module", "modules", float
)
SEES_AHEAD = Observation(
    "sees_ahead",
    False,
    "its output at one position of a sequence depends on later positions: a bidirectional recurrent layer, a "
    "convolution padded on both sides, or attention over its own input without a mask",
    "modules",
)
STALE_STATE = Observation(
    "stale_state",
    "",
    'state that only training mode updates, used in eval mode as it began: "running statistics" or "spectral norm"',
    "modules",
)
SEQUENCE = Observation[tuple[int, ...]](
    "sequence",
    (),
    "steps and sequences of the first input of a recurrent layer or attention without `batch_first`, as it reads it",
    "modules",
    int,
)
ROWS_BY_PLACE = Observation(
    "rows_by_place",
    0,
    "number of rows of a batch to which a vector was added before it, another one for each place in the batch and the "
    "same at all places of a row, at three calls with other rows; 0 for none",
    "modules",
)
OTHER_ORDER = Observation(
    "other_order",
    "",
    "order of axes in which neighbours in its inputs are alike, at three calls in a row, where those of its own order "
    'are not: "rows, columns, channels", "steps, channels", "channels, steps", "steps, rows" or "rows, steps"; "" for '
    "none",
    "modules",
)
OWN_TRAIN_UNUSED = Observation(
    "own_train_unused", False, "its class has a `train` of its own, which nothing has called with True", "modules"
)
READS_PADDING = Observation(
    "reads_padding",
    0,
    "number of calls of attention whose mask of keys left one token alone, the same in all rows, and covered all "
    "others; of at most 3 calls of the model",
    "modules",
)
AUTOCAST = Observation(
    "autocast",
    "",
    'what a training under autocast made of a layer of matrix products: "half" if its output was in half precision; '
    '"bypassed" if it was float32 though autocast was on; "outside" if it was float32 with autocast off since before '
    "the outermost module was called",
    "modules",
)
CARRIED_STATE = Observation(
    "carried_state",
    0,
    "3 if a recurrent layer began, at three watched calls in a row, with a state of other sequences, while a "
    "DataLoader shuffled them; else 0",
    "modules",
)
STALE_CASTS = Observation(
    "stale_casts",
    0,
    "3 if it computed under autocast, at three watched calls in a row, with a cast of its weight that is not that of "
    "the present weight; else 0",
    "modules",
)

HAS_GRADIENT = Observation(
    "has_gradient", False, "it had a gradient at the end of the step at which it was examined", "parameters"
)
HAS_EQUAL_ROWS = Observation(
    "has_equal_rows",
    False,
    "all its rows were equal before the first step or at its end: its units started alike",
    "parameters",
)
LOOKS_UNTRAINED = Observation(
    "looks_untrained",
    False,
    "it is frozen or in no optimizer, and its values are as a common initializer draws them",
    "parameters",
)
HAS_CHANGED = Observation(
    "has_changed",
    False,
    "it is frozen or in no optimizer, and its values are others than when it was first seen",
    "parameters",
)

STATE = Observation(
    "state",
    "",
    '"loaded": it had a state before its first step in this process; "new": it had none and keeps one since; left out '
    "for an optimizer that keeps none",
    "optimizers",
)
SCHEDULE = Observation[ScheduleFacts | None](
    "schedule",
    None,
    "its newest learning-rate schedule: `type_name`, `highest` (the highest rate that it names for the first group; 0 "
    "if unknown), `calls` (0 until the script has stepped it, then 1; above 1 the number of places by which it moves "
    "on at a time) and `length` (its steps from the highest rate to the lowest, from where it goes up again; 0 for "
    "none)",
    "optimizers",
    ScheduleFacts,
)
STATE_LOST_EVERY = Observation(
    "state_lost_every",
    0,
    "steps between the last two looks that found its state emptied since the look before, or begins of optimizers of "
    "its class that took over its parameters and no state, once it was three times; 0 for never",
    "optimizers",
)
REUSED_GRADIENTS = Observation(
    "reused_gradients",
    0,
    "number of looks at a step by gradients that another optimizer had stepped by, without a backward pass between; "
    "counted to 3",
    "optimizers",
)
OPPOSED_GRADIENTS = Observation[float | None](
    "opposed_gradients",
    None,
    "mean cosine, over 8 looks, of the gradients by which it and another optimizer step a module that a loss is taken "
    "of, where it holds all parameters of the other one and more; left out without such a module",
    "optimizers",
    float,
)
OVERWRITTEN_COPIES = Observation(
    "overwritten_copies",
    0,
    "number of looks that found one of two parameters that were alike before its first step, both with a gradient, "
    "overwritten by the other one or an average with it since a step; counted to 3",
    "optimizers",
)

NEVER_HAD_GRADIENT = Observation(
    "never_had_gradient",
    False,
    "whether it has stepped for long, and none of its parameters had a gradient at any look before a step, though one "
    "requires it",
    "optimizers",
)

CLIPPINGS = Observation[tuple[ClippingFacts, ...]](
    "clipping",
    (),
    'the clippings of gradients: `kind` ("norm" or "value"), `limit`, `line` of the first call',
    "program",
    ClippingFacts,
)
TRAINING_MODE_EVALUATIONS = Observation(
    "training_mode_evaluations",
    0,
    "number of losses computed in training mode with gradients off, as an evaluation does; counted to 3, and 0 if it "
    "happens at every step",
    "program",
)
EVALUATION_LINE = Observation("evaluation_line", "", "line of the latest such call of the model", "program")
RANDOM_EVALUATIONS = Observation(
    "random_evaluations", 0, "number of calls of a model in eval mode with a live dropout; counted to 3", "program"
)
RANDOM_LINE = Observation("random_line", "", "line on the way to that dropout", "program")
STALE_COPY_EVALUATIONS = Observation(
    "stale_copy_evaluations",
    0,
    "number of calls in eval mode of a copy of the model (an average of its weights) whose parameters have changed, "
    "and whose running statistics are as they began; counted to 3",
    "program",
)
STALE_COPY_LINE = Observation("stale_copy_line", "", "line of the newest such call", "program")
STILL_COPY_EVALUATIONS = Observation(
    "still_copy_evaluations",
    0,
    "number of evaluations of a copy of the model that is as at the first step, while the model is not and is never "
    "evaluated itself; counted to 3",
    "program",
)
STILL_COPY_LINE = Observation("still_copy_line", "", "line of the newest such call", "program")
UNTRAINED_EVALUATIONS = Observation(
    "untrained_evaluations",
    0,
    "number of evaluations of a model of the trained one's class that nothing has trained, while the trained model is "
    "never evaluated; counted to 3",
    "program",
)
UNTRAINED_LINE = Observation("untrained_line", "", "line of the newest such call", "program")
MODEL_ANEW_EVERY = Observation(
    "model_anew_every",
    0,
    "steps of the life of a model, where at least three in a row were made anew, by an optimizer with the same "
    "settings, for one pass over the same data each, and are gone; 0 for others",
    "program",
)
STILL_TARGET_STEPS = Observation(
    "still_target_steps",
    0,
    "training steps in which a copy of the model that targets are computed with, of other inputs than the model's own, "
    "has never changed: the largest of 200, 1000, 5000 and 20000 that are reached; 0 without one",
    "program",
)
PADDED_TARGETS = Observation(
    "padded_targets",
    0.0,
    "share of the targets of cross entropy for each token that are of padding and count, in three watched calls; 0 for "
    "none",
    "program",
)
GIVEN_TARGETS = Observation(
    "given_targets",
    0,
    "3 if the tokens that a model embedded last, after others, were at three watched calls the targets of its cross "
    "entropy, each at its own place; else 0",
    "program",
)
SHARED_RANDOMNESS = Observation(
    "shared_randomness",
    "",
    "source of random numbers that are the same in all workers of a DataLoader: an attribute of its data "
    '("Crops.rng"), or "worker_init_fn"',
    "program",
)
DRAW_WEIGHTS = Observation(
    "draw_weights",
    0.0,
    "largest weight by which a DataLoader's WeightedRandomSampler draws rows over the smallest, of at most 20 "
    "different ones; 0 without one",
    "program",
)
DRIFTING_DATA = Observation(
    "drifting_data",
    "",
    'attribute of a data set ("Images.rows") with rows that each pass over the data changes in place: much like those '
    "of the pass before, and ever farther from the first ones, or ever larger or smaller, four times in a row",
    "program",
)
MIXED_DOCUMENTS = Observation(
    "mixed_documents",
    0,
    "number of calls of the model in which the positions of a row began anew, as those of documents packed into one, "
    "and its attention saw tokens of another document; counted to 3",
    "program",
)
ADAPTERS = Observation[tuple[AdapterFacts, ...]](
    "adapters",
    (),
    "the adapters of PEFT, as a step ended: `name`, `layer_count`, `rank`, `scaling` (the factor of what it adds), and "
    "whether it `is_active`, `is_trained`, `is_merged`, `is_off` (switched off), `is_for_inference` (loaded as one not "
    "to be trained)",
    "program",
    AdapterFacts,
)
ROUNDS_BEFORE = Observation(
    "rounds_before", 0, "number of rounds that a boosted model had before this training", "program"
)
CHECKPOINTS = Observation[CheckpointFacts | None](
    "checkpoints",
    None,
    "the content of the script's checkpoints: `path` of the first file in which something is missing or altered, "
    "`parameter_count` of the models that are held, `missing` and `missing_count` of those that no checkpoint has "
    "held, `ends_early` (these are the last of their model), `altered` and `altered_count` of those saved with other "
    "values than the model had; at most eight names each",
    "program",
    CheckpointFacts,
)
IDLE_LOAD = Observation[LoadFacts | None](
    "idle_load",
    None,
    "a load of a state without an effect: `name` of its first tensor, `count`, `is_own` (the model's own tensors were "
    "given to it), `line`",
    "program",
    LoadFacts,
)
SELECTIONS = Observation[tuple[SelectionFacts, ...]](
    "selections",
    (),
    "what chooses by a number in a direction of the script's own: `kind`, `monitor`, `mode`, `line`; of PyTorch's "
    "`ReduceLROnPlateau` those whose numbers have gone against it",
    "program",
    SelectionFacts,
)

DECLARED: tuple[Observation[object], ...] = tuple(
    each for each in list(globals().values()) if isinstance(each, Observation)
)


def without_defaults(values: Mapping[Observation[Any], Any]) -> dict[Observation[Any], Any]:
    """Return observed values without those that are as by default.

    Args:
        values: The values by observation.
    """
    return {each: value for each, value in values.items() if value != each.default}


def declared(about: Section) -> tuple[Observation[object], ...]:
    """Return the observations of a section, in the order of their declaration.

    Args:
        about: The section of the file of model facts.
    """
    return tuple(each for each in DECLARED if each.about == about)
