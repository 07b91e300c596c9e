"""The causes that a verdict may suspect: a closed list, so that verdicts of different rules can be compared.

Two rules that suspect the same cause of one run report one problem, and their findings are merged. The same holds for
a cause and its symptoms, by the evidence of both (`evaluation/results/verdicts.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from trackside.contracts.stored_fields import BOOLEAN, FINITE, TEXT, choice, computed, nullable, stored


class Cause(str, Enum):
    """A cause of trouble in a training. Each has a sentence in `EXPLANATIONS`."""

    LEARNING_RATE_TOO_HIGH = "learning-rate-too-high"
    LEARNING_RATE_TOO_LOW = "learning-rate-too-low"
    LEARNING_RATE_SCHEDULE = "learning-rate-schedule"
    VANISHING_GRADIENTS = "vanishing-gradients"
    EXPLODING_GRADIENTS = "exploding-gradients"
    CLIPPING_TOO_LOW = "clipping-too-low"
    DEAD_UNITS = "dead-units"
    SATURATED_UNITS = "saturated-units"
    BAD_INITIALIZATION = "bad-initialization"
    SYMMETRIC_INITIALIZATION = "symmetric-initialization"
    UNNORMALIZED_INPUTS = "unnormalized-inputs"
    CONSTANT_INPUTS = "constant-inputs"
    NON_FINITE_DATA = "non-finite-data"
    UNDEFINED_VALUE = "undefined-value"
    WRONG_LABELS = "wrong-labels"
    CLASS_IMBALANCE = "class-imbalance"
    DATA_ORDER = "data-order"
    DATA_LEAKAGE = "data-leakage"
    WRONG_LOSS = "wrong-loss"
    LOSS_SIGN = "loss-sign"
    DOUBLE_SOFTMAX = "double-softmax"
    MISSING_ZERO_GRAD = "missing-zero-grad"
    FROZEN_PARAMETERS = "frozen-parameters"
    PARAMETERS_NOT_IN_OPTIMIZER = "parameters-not-in-optimizer"
    WEIGHT_DECAY_TOO_STRONG = "weight-decay-too-strong"
    PRECISION_OVERFLOW = "precision-overflow"
    TRAIN_EVAL_MODE = "train-eval-mode"
    OVERFITTING = "overfitting"
    CONVERGED = "converged"
    REPLICAS_DIFFER = "replicas-differ"
    STALLED = "stalled"
    STEP_ORDER = "step-order"
    REPEATED_DATA = "repeated-data"
    RANDOM_EVALUATION = "random-evaluation"
    LOST_UPDATES = "lost-updates"
    INCOMPLETE_RESUME = "incomplete-resume"
    PENALTY_TOO_STRONG = "penalty-too-strong"
    DATA_CHANGED_IN_PLACE = "data-changed-in-place"
    SHARED_PARAMETERS = "shared-parameters"
    COLLAPSED_ROUTING = "collapsed-routing"
    SLOW_INPUT = "slow-input"
    SMALL_BATCHES = "small-batches"
    BUSY_HOST = "busy-host"
    BUSY_DISK = "busy-disk"
    KEPT_MEMORY = "kept-memory"
    UNEVEN_WORK = "uneven-work"
    THROTTLED = "throttled"
    SLOW_START = "slow-start"
    PAUSES = "pauses"
    SLOW_LINE = "slow-line"
    WEIGHTS_SET_BACK = "weights-set-back"
    INCOMPLETE_CHECKPOINT = "incomplete-checkpoint"
    MIXED_SAMPLES = "mixed-samples"
    OUTSIDE_AUTOCAST = "outside-autocast"
    UNBALANCED_TERMS = "unbalanced-terms"
    UNLIKE_RANKS = "unlike-ranks"
    STALE_COPY = "stale-copy"
    REVERSED_SELECTION = "reversed-selection"
    DROPOUT_TOO_STRONG = "dropout-too-strong"
    MOMENTUM_TOO_HIGH = "momentum-too-high"
    LARGE_BATCHES = "large-batches"
    REWARD_GAMED = "reward-gamed"
    UNINFORMATIVE_REWARD = "uninformative-reward"
    UNRELATED_REWARD = "unrelated-reward"
    ENTROPY_COLLAPSE = "entropy-collapse"
    ENTROPY_TOO_HIGH = "entropy-too-high"
    STALE_ROLLOUTS = "stale-rollouts"
    SAMPLER_DIFFERS = "sampler-differs"
    UNENDED_ANSWERS = "unended-answers"
    PREFERENCE_COLLAPSE = "preference-collapse"
    LABEL_MASK = "label-mask"
    UNTRAINED_TOKENS = "untrained-tokens"
    HIDDEN_LOSS = "hidden-loss"
    MIXED_DOCUMENTS = "mixed-documents"
    UNEVEN_ACCUMULATION = "uneven-accumulation"
    ADAPTER_SETTINGS = "adapter-settings"
    LENGTH_PREFERENCE = "length-preference"
    LOOPING_ANSWERS = "looping-answers"
    REFERENCE_FOLLOWS = "reference-follows"
    SPLITS_FORBIDDEN = "splits-forbidden"
    WRONG_AXIS = "wrong-axis"
    OWN_STATISTICS = "own-statistics"
    INVERTED_MASK = "inverted-mask"
    ANOTHER_MODEL = "another-model"
    COLLAPSED_VIEWS = "collapsed-views"
    MISPLACED_TARGETS = "misplaced-targets"
    TRAINED_TARGET = "trained-target"
    FLAT_FUNCTION = "flat-function"
    SORTED_SPLIT = "sorted-split"


@dataclass(frozen=True)
class Explanation:
    """A cause in the user's words.

    what  the cause, a clause without a full stop
    fix   the first thing to try
    """

    what: str
    fix: str


@dataclass(frozen=True)
class Sign:
    """A piece of evidence about the cause of an issue, present or absent. An unknown one is left out."""

    name: str = field(metadata=stored(TEXT, "The name of the piece of evidence, as in docs/causes.md."))
    is_present: bool = field(default=True, metadata=stored(BOOLEAN, "False: looked for, and absent.", name="present"))
    because: str = field(
        default="", metadata=stored(TEXT, "The numbers of this run behind it, a clause; may be empty.", optional=True)
    )


@dataclass(frozen=True)
class Suspicion:
    """A cause that a verdict suspects."""

    cause: Cause = field(metadata=stored(choice(Cause), "One of a closed list, so that rules can be compared."))
    because: str = field(
        default="", metadata=stored(TEXT, "The numbers of this run that support it, a clause; may be empty.")
    )
    probability: float | None = field(
        default=None,
        metadata=stored(
            nullable(FINITE),
            "The probability of this cause among all causes, if there is a fault; left out where it is unknown.",
            optional=True,
        ),
    )

    @property
    def explanation(self) -> Explanation:
        """The clause that names the cause, and the first thing to try."""
        return EXPLANATIONS[self.cause]

    @property
    @computed(TEXT, "The cause in words.")
    def what(self) -> str:
        """The cause in words."""
        return self.explanation.what


EXPLANATIONS = {
    Cause.LEARNING_RATE_TOO_HIGH: Explanation(
        "the learning rate is too high", "Divide the learning rate by ten, or warm it up over the first steps."
    ),
    Cause.LEARNING_RATE_TOO_LOW: Explanation(
        "the learning rate is too low", "Multiply the learning rate by ten, until the loss visibly falls."
    ),
    Cause.LEARNING_RATE_SCHEDULE: Explanation(
        "the learning-rate schedule changes the rate wrongly",
        "Print the rate at each step: is the scheduler stepped once per epoch or per batch, as it expects?",
    ),
    Cause.VANISHING_GRADIENTS: Explanation(
        "gradients shrink from layer to layer until nothing is left",
        "Replace sigmoid and tanh in the hidden layers by ReLU, GELU or SiLU.",
    ),
    Cause.EXPLODING_GRADIENTS: Explanation(
        "gradients grow from layer to layer or from step to step",
        "Clip the gradient norm (torch.nn.utils.clip_grad_norm_) and lower the learning rate.",
    ),
    Cause.CLIPPING_TOO_LOW: Explanation(
        "gradients are clipped so hard that hardly anything is left of them",
        "Raise the clipping threshold to about the usual norm of the gradient.",
    ),
    Cause.DEAD_UNITS: Explanation(
        "many units put out zero for every input and cannot learn",
        "Lower the learning rate, use Kaiming initialisation, or LeakyReLU or GELU instead of ReLU.",
    ),
    Cause.SATURATED_UNITS: Explanation(
        "many units sit at the flat ends of their activation",
        "Initialise smaller, normalise the inputs, or use ReLU instead of sigmoid and tanh.",
    ),
    Cause.BAD_INITIALIZATION: Explanation(
        "the weights were initialised at a wrong scale",
        "Initialise to match the activation: Kaiming for ReLU, Xavier for tanh.",
    ),
    Cause.SYMMETRIC_INITIALIZATION: Explanation(
        "weights started all alike, so that units learn the same", "Initialise weights at random, biases at zero."
    ),
    Cause.UNNORMALIZED_INPUTS: Explanation(
        "the inputs are not normalised", "Scale each input feature to mean 0 and deviation 1."
    ),
    Cause.CONSTANT_INPUTS: Explanation(
        "the inputs carry no information", "Look at a batch as the model gets it: is each row different?"
    ),
    Cause.NON_FINITE_DATA: Explanation(
        "the data hold NaN or infinity", "Check inputs and labels with torch.isfinite(batch).all() before training."
    ),
    Cause.UNDEFINED_VALUE: Explanation(
        "a root, norm, logarithm or quotient of zero has no value, or its derivative has none",
        "Add a small number below the root or division. torch.autograd.set_detect_anomaly(True) names the line.",
    ),
    Cause.WRONG_LABELS: Explanation(
        "the labels do not belong to the inputs", "Look at a few inputs beside their labels, after all shuffling."
    ),
    Cause.CLASS_IMBALANCE: Explanation(
        "the classes are very unequal in number", "Weight the classes in the loss, or sample them evenly."
    ),
    Cause.DATA_ORDER: Explanation(
        "batches come in an order that carries information", "Shuffle the training data (shuffle=True)."
    ),
    Cause.DATA_LEAKAGE: Explanation(
        "the inputs give the labels away, or training data are in the validation set",
        "Split before any processing, and look for a feature that holds the answer.",
    ),
    Cause.WRONG_LOSS: Explanation(
        "the loss does not fit the task or the model's output",
        "Check what the loss expects: logits or probabilities, shapes, class indices or vectors.",
    ),
    Cause.LOSS_SIGN: Explanation("the loss has the wrong sign", "Minimise the negative of what shall grow."),
    Cause.DOUBLE_SOFTMAX: Explanation(
        "softmax is applied before a loss that applies it itself", "Give the loss the logits: drop the softmax."
    ),
    Cause.MISSING_ZERO_GRAD: Explanation(
        "gradients are never cleared, so that each step adds to all before", "Call optimizer.zero_grad() in each step."
    ),
    Cause.FROZEN_PARAMETERS: Explanation(
        "parameters that should train are frozen, or no gradient reaches them",
        "Set requires_grad to True before the optimizer is built, and let nothing detach their output from the loss.",
    ),
    Cause.PARAMETERS_NOT_IN_OPTIMIZER: Explanation(
        "parameters that get gradients are in no optimizer", "Give the optimizer model.parameters() of the whole model."
    ),
    Cause.WEIGHT_DECAY_TOO_STRONG: Explanation(
        "weight decay outweighs the gradient", "Divide weight_decay by a hundred, or switch it off."
    ),
    Cause.PRECISION_OVERFLOW: Explanation(
        "values leave the range of the number format",
        "Use bfloat16 or float32, or scale the loss (torch.amp.GradScaler).",
    ),
    Cause.TRAIN_EVAL_MODE: Explanation(
        "the model is in the wrong mode: train() or eval()",
        "Call model.train() before each training epoch and model.eval() before each evaluation.",
    ),
    Cause.OVERFITTING: Explanation(
        "the model learns the training data by heart",
        "Stop at the best validation loss; then more data, or a model that can hold less of them.",
    ),
    Cause.CONVERGED: Explanation(
        "the training has got as far as it will get", "Stop here, or lower the learning rate for the last bit."
    ),
    Cause.REPLICAS_DIFFER: Explanation(
        "the workers' copies of the model drift apart",
        "Start all workers from the same weights, and change parameters only through the synchronised gradients.",
    ),
    Cause.STALLED: Explanation(
        "the training hangs",
        "Look at the process's stacks: py-spy dump --pid PID.",
    ),
    Cause.STEP_ORDER: Explanation(
        "zero_grad, backward and step are called in a wrong order or not equally often",
        "For each batch call zero_grad, backward and step once, in this order.",
    ),
    Cause.REPEATED_DATA: Explanation(
        "the same data come again and again instead of all data in turn",
        "Print a few elements of each batch: make the iterator once per epoch, and seed each worker otherwise.",
    ),
    Cause.RANDOM_EVALUATION: Explanation(
        "random functions or unused statistics make evaluations differ from the model",
        "Give dropout functions training=self.training, and evaluate the same batch twice: are the outputs equal?",
    ),
    Cause.LOST_UPDATES: Explanation(
        "updates are smaller than the rounding of the weights' number format, and are lost",
        "Keep weights in float32 (autocast computes in half precision), or raise the learning rate.",
    ),
    Cause.INCOMPLETE_RESUME: Explanation(
        "the checkpoint that the training goes on from holds the model's weights and not the rest of its state",
        "Save and load the state of the optimizer and of the schedule with the model's.",
    ),
    Cause.PENALTY_TOO_STRONG: Explanation(
        "a penalty on the weights outweighs the rest of the loss",
        "Print each term of the loss times its weight: divide the weight of the penalty by a hundred.",
    ),
    Cause.UNBALANCED_TERMS: Explanation(
        "one term of the loss is so large beside another that the other teaches the model nothing",
        "Reduce all terms alike: a sum over the batch beside a mean is too large by the number of elements.",
    ),
    Cause.UNLIKE_RANKS: Explanation(
        "one rank computes other gradients than the others, and spoils their average",
        "Print a batch, and its loss, on each rank: do they read the same data set, prepared alike?",
    ),
    Cause.MIXED_SAMPLES: Explanation(
        "an axis is mixed up: the samples of a batch influence one another",
        "Give the axis: log_softmax(scores, dim=1), batch_first=True; compare one sample alone with it in a batch.",
    ),
    Cause.OUTSIDE_AUTOCAST: Explanation(
        "layers are not covered by autocast, and compute in full precision",
        "Call these layers within `with torch.autocast(...)`.",
    ),
    Cause.STALE_COPY: Explanation(
        "a copy of the weights is used that nothing updates, or without the running statistics of its batch norms",
        "Update what is copied as the model trains: an average, a target network, casts (leave autocast each time).",
    ),
    Cause.ANOTHER_MODEL: Explanation(
        "another model is used than the one that is trained",
        "Make the model once, before the loop, and evaluate this one.",
    ),
    Cause.MISPLACED_TARGETS: Explanation(
        "targets are not flipped or rotated with their inputs",
        "Apply one draw of each geometric augmentation to the input and to its target.",
    ),
    Cause.TRAINED_TARGET: Explanation(
        "the loss sends gradients into its own target, or into the weight of a log-probability",
        "Compute targets and advantages without gradients: torch.no_grad(), or .detach().",
    ),
    Cause.FLAT_FUNCTION: Explanation(
        "a function without a slope, as round or sign, lets no gradient through to weights",
        "Pass gradients straight through: x + (x.round() - x).detach().",
    ),
    Cause.SORTED_SPLIT: Explanation(
        "the data were cut in the order in which they lie, and classes are on one side alone",
        "Shuffle before the split, or split each class alike: train_test_split(..., stratify=labels).",
    ),
    Cause.COLLAPSED_VIEWS: Explanation(
        "the model gives nearly the same for all samples, so that two views of one are alike for nothing",
        "Let no gradient pass to one of the two views (detach), or add a term that drives other samples apart.",
    ),
    Cause.DROPOUT_TOO_STRONG: Explanation(
        "dropout drops so many values that little is left to learn from",
        "Give the share to drop, not the share to keep: 0.1 to 0.5 are usual.",
    ),
    Cause.MOMENTUM_TOO_HIGH: Explanation(
        "momentum averages over more steps than the training has",
        "Take a momentum of 0.9: betas=(0.9, 0.999).",
    ),
    Cause.LARGE_BATCHES: Explanation(
        "a batch is the whole data set, and few steps are made",
        "Give the DataLoader a batch size: 32 to 256 rows are usual.",
    ),
    Cause.REVERSED_SELECTION: Explanation(
        "the best model is chosen by a number that is to go the other way",
        'Set mode="max" for an accuracy and "min" for a loss.',
    ),
    Cause.INCOMPLETE_CHECKPOINT: Explanation(
        "what is saved or loaded is not the model that trains",
        "Save model.state_dict() as it is, load it into a new model, and compare.",
    ),
    Cause.REWARD_GAMED: Explanation(
        "the policy earns its reward without doing what is wanted",
        "Read a few answers with a high reward, and mend the reward; stop at the best held-out reward.",
    ),
    Cause.UNINFORMATIVE_REWARD: Explanation(
        "the reward is the same for all answers to a prompt, so that nothing tells a good one from a bad one",
        "Call the reward function on a right and on a wrong answer by hand: does it parse what the model writes?",
    ),
    Cause.UNRELATED_REWARD: Explanation(
        "the rewards do not belong to the answers that they are given for",
        "Print prompts, answers and rewards of one step side by side: is their order the same?",
    ),
    Cause.ENTROPY_COLLAPSE: Explanation(
        "the policy has become certain of its answers before they are right",
        "Lower the learning rate, subtract the mean reward of each group, and clip high ratios less (clip-higher).",
    ),
    Cause.ENTROPY_TOO_HIGH: Explanation(
        "the policy is driven to answer by chance", "Lower the weight of the entropy in the objective."
    ),
    Cause.STALE_ROLLOUTS: Explanation(
        "the rollouts were made by weights of many updates ago",
        "Copy the weights to the sampler more often, or bound the age of a rollout that is trained on.",
    ),
    Cause.SAMPLER_DIFFERS: Explanation(
        "the sampler is another model than the trained one: its tokens have other probabilities there",
        "Compare the log-probabilities of one answer in both: same weights, temperature, precision and template?",
    ),
    Cause.UNENDED_ANSWERS: Explanation(
        "answers are cut off and never end",
        "Check the end token of the sampler (eos_token_id), and allow longer answers (max_completion_length).",
    ),
    Cause.PREFERENCE_COLLAPSE: Explanation(
        "the chosen answers become unlikely together with the rejected ones",
        "Lower the learning rate, raise beta, or add the likelihood of the chosen answers to the loss (rpo_alpha).",
    ),
    Cause.LABEL_MASK: Explanation(
        "the labels do not cover what the model is to write",
        "Print the tokens of one row beside its labels: prompt and padding -100, the answer and its end not.",
    ),
    Cause.UNTRAINED_TOKENS: Explanation(
        "the embeddings of added tokens are never trained",
        "Add the embeddings to modules_to_save, or the new rows to trainable_token_indices.",
    ),
    Cause.MIXED_DOCUMENTS: Explanation(
        "documents packed into one row see one another",
        "Leave the attention mask out where position_ids begin anew, or give one that keeps documents apart.",
    ),
    Cause.UNEVEN_ACCUMULATION: Explanation(
        "each backward pass of a step divides by its own number of tokens, or by none for all",
        "Sum the losses of the tokens, and divide by their number over all passes (num_items_in_batch).",
    ),
    Cause.ADAPTER_SETTINGS: Explanation(
        "the adapter is not the one that is trained, or has a scale without effect or far too large",
        "Print model.get_model_status(), and the scale: lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora.",
    ),
    Cause.LENGTH_PREFERENCE: Explanation(
        "the length of an answer alone says whether it is the chosen one",
        "Add pairs in which the chosen answer is the other one by length, or divide log-probabilities by length.",
    ),
    Cause.LOOPING_ANSWERS: Explanation(
        "answers say the same words over and over",
        "Read the answers with the highest reward; lower the learning rate, or take repeated words off the reward.",
    ),
    Cause.REFERENCE_FOLLOWS: Explanation(
        "the reference model is the trained one: it has its weights, or gets them at each step",
        "Copy the model before the training, or raise ref_model_sync_steps.",
    ),
    Cause.HIDDEN_LOSS: Explanation(
        "the trainer logs another number in place of a loss that is NaN or infinite",
        "Set logging_nan_inf_filter=False, and look at the first step named here.",
    ),
    Cause.WRONG_AXIS: Explanation(
        "an axis is taken for another one, by a softmax or by a view",
        "Turn axes by permute or transpose before a view, and take a softmax over the axis that is summed over.",
    ),
    Cause.INVERTED_MASK: Explanation(
        "the mask of attention is upside down: it covers the tokens, and leaves the padding",
        "Give key_padding_mask=(tokens == padding): in PyTorch, True is not read.",
    ),
    Cause.OWN_STATISTICS: Explanation(
        "held-out inputs are scaled by their own mean and deviation, and those of the training by theirs",
        "Take mean and deviation of the training data alone, and scale all other data by them.",
    ),
    Cause.SPLITS_FORBIDDEN: Explanation(
        "the settings allow trees no split on so few rows, or so little weight",
        "Lower min_child_weight and gamma (LightGBM: min_data_in_leaf and min_gain_to_split).",
    ),
    Cause.DATA_CHANGED_IN_PLACE: Explanation(
        "rows of the data set are changed in place, anew at each pass",
        "Copy a row before you change it: row = self.rows[i].clone(), or .copy() of NumPy.",
    ),
    Cause.SHARED_PARAMETERS: Explanation(
        "two optimizers step the same parameters",
        "Give each parameter to one optimizer: that of a generator gets generator.parameters() alone.",
    ),
    Cause.COLLAPSED_ROUTING: Explanation(
        "a router chooses few of its experts, and the others learn nothing",
        "Add a loss that balances the load of the experts, or raise its weight.",
    ),
    Cause.SLOW_INPUT: Explanation(
        "the training waits for its data",
        "Fetch batches in more DataLoader workers, or make the collate function cheaper.",
    ),
    Cause.SMALL_BATCHES: Explanation(
        "batches are too small to fill the GPU", "Double the batch size, and the learning rate with it."
    ),
    Cause.BUSY_HOST: Explanation(
        "the GPU waits for work of the processors",
        "Move preprocessing into DataLoader workers, and read values back from the GPU less often.",
    ),
    Cause.BUSY_DISK: Explanation(
        "the processors wait for a disk", "Copy the data to a local disk first, or read fewer and larger files."
    ),
    Cause.KEPT_MEMORY: Explanation(
        "memory of earlier steps is kept", "Append loss.item() to lists, not the loss, and empty caches that only grow."
    ),
    Cause.UNEVEN_WORK: Explanation(
        "one device gets more work than the others", "Give each rank batches of equal size, and compare their data."
    ),
    Cause.THROTTLED: Explanation(
        "the GPU lowers its clock against heat or a power limit",
        "Look at its cooling and its power limit: nvidia-smi -q -d PERFORMANCE.",
    ),
    Cause.SLOW_START: Explanation(
        "the time before the first step is long",
        "Load data while the model is built, and keep compiled models in a cache.",
    ),
    Cause.PAUSES: Explanation(
        "single steps take many times as long as the others",
        "Look at what runs only every so many steps: checkpoints, logging, garbage collection.",
    ),
    Cause.SLOW_LINE: Explanation(
        "a line of the loop holds up each step", "Look at the named line: do it less often, or outside of the loop."
    ),
    Cause.WEIGHTS_SET_BACK: Explanation(
        "the weights are set back to an earlier state while the training goes on",
        "Look for code that loads a checkpoint or copies weights inside of the loop: load once, before the first step.",
    ),
}

# Causes of lost time. They are read off measurements, and not ranked by the evidence of faults in the learning.
SPEED_CAUSES = frozenset(
    [
        Cause.SLOW_INPUT,
        Cause.SMALL_BATCHES,
        Cause.BUSY_HOST,
        Cause.BUSY_DISK,
        Cause.KEPT_MEMORY,
        Cause.UNEVEN_WORK,
        Cause.THROTTLED,
        Cause.SLOW_START,
        Cause.PAUSES,
        Cause.SLOW_LINE,
    ]
)
