"""Questions about the program and its settings, each answered present, absent or unknown. Pure functions."""

from __future__ import annotations

from collections.abc import Callable

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ParameterFacts
from trackside.contracts.observations import FLAT_FUNCTION, TRAINING_MODE_EVALUATIONS
from trackside.contracts.run.recorded_names import GRADIENTS_KEPT
from trackside.evidence.question import Answer, Known, question
from trackside.situation.aims import has_several_aims

_FLAT = frozenset(["tanh", "sigmoid"])
_DEPENDS_ON_MODE = frozenset(["normalization", "dropout"])


@question(supports=(Cause.MISSING_ZERO_GRAD,), refutes=(Cause.MISSING_ZERO_GRAD,))
def gradients_kept(known: Known) -> Answer:
    """The gradients are not cleared between steps."""
    if not known.window.statistic(GRADIENTS_KEPT, "mean", mode=None):
        return None
    return "gradients of earlier steps are still there at each step" if known.seen.keeps_gradients else False


@question(supports=(Cause.DOUBLE_SOFTMAX,), refutes=(Cause.DOUBLE_SOFTMAX,))
def softmax_twice(known: Known) -> Answer:
    """A softmax is applied twice."""
    if not known.seen.losses:
        return None
    is_twice = any(loss.has_softmax_twice for loss in known.seen.losses)
    return "the loss gets probabilities, and takes a softmax itself" if is_twice else False


@question(supports=(Cause.LOSS_SIGN,))
def negative_loss(known: Known) -> Answer:
    """A built-in loss is multiplied by a negative number."""
    if not known.seen.losses:
        return None
    is_negative = any(loss.is_built_in and loss.scale < 0 for loss in known.seen.losses)
    return "the loss is multiplied by a negative number before backward" if is_negative else False


@question(refutes=(Cause.PARAMETERS_NOT_IN_OPTIMIZER,))
def in_no_optimizer(known: Known) -> Answer:
    """A parameter is in no optimizer."""
    return _share_of_parameters(known, lambda parameter: not parameter.optimizer, "are in no optimizer")


@question(supports=(Cause.PARAMETERS_NOT_IN_OPTIMIZER,))
def left_out(known: Known) -> Answer:
    """A parameter with a gradient is in no optimizer."""
    if not known.has_facts:
        return None
    outside = len(known.seen.outside_optimizers)
    return f"{outside} parameters get gradients and are in no optimizer" if outside else False


@question(supports=(Cause.FROZEN_PARAMETERS,))
def frozen(known: Known) -> Answer:
    """A parameter needs no gradient."""
    return _share_of_parameters(known, lambda parameter: not parameter.requires_grad, "need no gradient")


@question(refutes=(Cause.WEIGHT_DECAY_TOO_STRONG,))
def weight_decay(known: Known) -> Answer:
    """Weight decay is in use."""
    if not known.has_facts:
        return None
    decay = known.seen.weight_decay
    return f"weight_decay is {decay:g}" if decay else False


@question(supports=(Cause.WEIGHT_DECAY_TOO_STRONG,))
def negative_weight_decay(known: Known) -> Answer:
    """Weight decay is below zero."""
    if not known.has_facts:
        return None
    decay = known.seen.weight_decay
    return f"weight_decay is {decay:g}, below zero: weights grow by it" if decay < 0 else False


@question(refutes=(Cause.PRECISION_OVERFLOW,))
def float16(known: Known) -> Answer:
    """A part computes in float16."""
    if not known.has_facts:
        return None
    return "parts of it compute in float16" if known.seen.is_low_precision else False


@question()
def several_optimizers(known: Known) -> Answer:
    """The program has several optimizers."""
    return has_several_aims(known.window) if known.has_facts else None


@question()
def flat_activations(known: Known) -> Answer:
    """The model has tanh or sigmoid modules."""
    facts = known.window.facts
    return any(module.activation in _FLAT for module in facts.modules) if facts and facts.modules else None


@question()
def relu(known: Known) -> Answer:
    """The model has ReLU modules."""
    facts = known.window.facts
    return any(module.activation == "relu" for module in facts.modules) if facts and facts.modules else None


@question(refutes=(Cause.TRAIN_EVAL_MODE,))
def depends_on_mode(known: Known) -> Answer:
    """The model has normalisation or dropout."""
    facts = known.window.facts
    return any(module.role in _DEPENDS_ON_MODE for module in facts.modules) if facts and facts.modules else None


@question(refutes=(Cause.TRAIN_EVAL_MODE,))
def perhaps_wrong_mode(known: Known) -> Answer:
    """A layer that depends on the mode was in evaluation mode at a step, or was evaluated in training mode."""
    facts = known.window.facts
    if facts is None or not facts.modules:
        return None
    of_modes = [module.is_training for module in facts.modules if module.role in _DEPENDS_ON_MODE]
    return not all(of_modes) or TRAINING_MODE_EVALUATIONS.of(facts.program) > 0


def _share_of_parameters(known: Known, is_meant: Callable[[ParameterFacts], bool], words: str) -> Answer:
    facts = known.window.facts
    if facts is None or not facts.parameters:
        return None
    count = sum(map(is_meant, facts.parameters))
    return f"{count} of {len(facts.parameters)} parameters {words}" if count else False


@question(
    supports=(Cause.FLAT_FUNCTION,),
    explains=(Cause.VANISHING_GRADIENTS, Cause.DEAD_UNITS, Cause.FROZEN_PARAMETERS, Cause.LEARNING_RATE_TOO_LOW),
)
def flat_functions(known: Known) -> Answer:
    """A function without a slope stands before weights."""
    facts = known.window.facts
    if facts is None or not facts.losses:
        return None
    names = [FLAT_FUNCTION.of(loss)[:1] for loss in facts.losses]
    return f"no gradient gets through {names[0][0]} to weights behind it" if all(names) else False
