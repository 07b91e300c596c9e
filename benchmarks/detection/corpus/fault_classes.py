"""The classes of planted faults, and by which causes a verdict that finds one names it rightly."""

from __future__ import annotations

from dataclasses import dataclass

from trackside.contracts.cause import Cause


@dataclass(frozen=True)
class FaultClass:
    """A kind of mistake.

    `causes`: those that name it rightly. More than one only where the numbers of a run cannot tell them apart, as they
    cannot tell weights that start too large from gradients that explode for it.
    """

    id: str
    summary: str
    causes: tuple[Cause, ...]


_CLASSES = (
    FaultClass(
        "learning-rate-too-high",
        "Steps so large that training diverges, jumps about or breaks its own units.",
        (Cause.LEARNING_RATE_TOO_HIGH,),
    ),
    FaultClass(
        "learning-rate-too-low",
        "Steps so small that nothing is learned in the time there is.",
        (Cause.LEARNING_RATE_TOO_LOW,),
    ),
    FaultClass(
        "vanishing-gradients",
        "What reaches the first layers is too small to train them.",
        (Cause.VANISHING_GRADIENTS, Cause.BAD_INITIALIZATION),
    ),
    FaultClass(
        "exploding-gradients",
        "Gradients grow from layer to layer, or from step to step, out of all proportion.",
        (Cause.EXPLODING_GRADIENTS, Cause.BAD_INITIALIZATION, Cause.LEARNING_RATE_TOO_HIGH),
    ),
    FaultClass(
        "dead-relu",
        "Most ReLU units answer 0 to every input and cannot come back.",
        (Cause.DEAD_UNITS, Cause.BAD_INITIALIZATION),
    ),
    FaultClass(
        "saturated-activations",
        "Sigmoid or tanh units sit where they are flat.",
        (Cause.SATURATED_UNITS, Cause.BAD_INITIALIZATION),
    ),
    FaultClass(
        "poor-initialisation",
        "Weights start far too large or far too small for the depth.",
        (Cause.BAD_INITIALIZATION, Cause.VANISHING_GRADIENTS, Cause.EXPLODING_GRADIENTS),
    ),
    FaultClass(
        "symmetric-initialisation",
        "Units of a layer start equal, zero or another constant, and stay equal.",
        (Cause.SYMMETRIC_INITIALIZATION,),
    ),
    FaultClass("unnormalised-inputs", "Inputs of very different or very large scales.", (Cause.UNNORMALIZED_INPUTS,)),
    FaultClass(
        "constant-inputs", "The inputs hold no information: the same for every example.", (Cause.CONSTANT_INPUTS,)
    ),
    FaultClass("shuffled-labels", "Labels that do not belong to their inputs.", (Cause.WRONG_LABELS,)),
    FaultClass("class-imbalance", "Some classes are so rare that the model ignores them.", (Cause.CLASS_IMBALANCE,)),
    FaultClass("wrong-loss", "A loss that does not fit the task or the output.", (Cause.WRONG_LOSS,)),
    FaultClass("wrong-loss-sign", "What should be made small is made large.", (Cause.LOSS_SIGN,)),
    FaultClass("double-softmax", "Probabilities are given to a loss that wants logits.", (Cause.DOUBLE_SOFTMAX,)),
    FaultClass(
        "missing-zero-grad", "Gradients are never cleared, so each step adds to all before.", (Cause.MISSING_ZERO_GRAD,)
    ),
    FaultClass(
        "frozen-layers", "Layers that should be trained are not, by a forgotten flag.", (Cause.FROZEN_PARAMETERS,)
    ),
    FaultClass(
        "parameters-not-in-optimizer",
        "The optimizer was not given all that should be trained.",
        (Cause.PARAMETERS_NOT_IN_OPTIMIZER,),
    ),
    FaultClass("overfitting", "The model learns its examples by heart.", (Cause.OVERFITTING,)),
    FaultClass(
        "stalled-training",
        "From some step on nothing is learned any more, though the loop goes on.",
        (Cause.PARAMETERS_NOT_IN_OPTIMIZER, Cause.FROZEN_PARAMETERS),
    ),
    FaultClass("nan-in-data", "A value that is no number comes with the data.", (Cause.NON_FINITE_DATA,)),
    FaultClass(
        "wrong-mode",
        "Dropout or batch normalisation in the wrong mode, while training or while evaluating.",
        (Cause.TRAIN_EVAL_MODE,),
    ),
    FaultClass(
        "wrong-weight-decay",
        "Decay that makes weights grow, or that leaves nothing of them.",
        (Cause.WEIGHT_DECAY_TOO_STRONG,),
    ),
    FaultClass("clipping-too-low", "Every gradient is cut to almost nothing.", (Cause.CLIPPING_TOO_LOW,)),
    FaultClass(
        "broken-schedule", "A learning-rate schedule that does what nobody wanted.", (Cause.LEARNING_RATE_SCHEDULE,)
    ),
    FaultClass(
        "data-order",
        "Examples come in an order that misleads: sorted, or the same few again and again.",
        (Cause.DATA_ORDER,),
    ),
    FaultClass("leakage", "What is to be foretold can be seen in the input.", (Cause.DATA_LEAKAGE,)),
    FaultClass(
        "precision-overflow",
        "Numbers outgrow a narrow floating-point type, or fall below it.",
        (Cause.PRECISION_OVERFLOW,),
    ),
)

FAULT_CLASSES = {fault_class.id: fault_class for fault_class in _CLASSES}
