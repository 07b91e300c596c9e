"""The evidence about causes: named questions about a run, each answered present, absent or unknown. Pure functions.

Four kinds have a row each in the table of weights (`causes.json`):

- the pieces of `PIECES`, answered from the facts and statistics of the run;
- `found:<rule>`, present for each rule with a standing issue;
- `shown:<cause>`, present for each cause that a rule supports with numbers of the run;
- `harm:<kind>`, present for each kind of harm that the run shows.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trackside.contracts.cause import Cause, Sign, Suspicion
from trackside.contracts.recorded_names import GRADIENTS_KEPT
from trackside.diagnosis.harm import Harm
from trackside.rules.diagnosis import (
    STILL,
    TRAINING_MODES,
    WILD,
    Evidence,
    chance_level,
    finite,
    grown,
    growth_before,
    has_gained,
    has_several_aims,
    learned_share,
    still_falls,
    training_losses,
    undefined_value,
)
from trackside.rules.evaluations import NEWEST, by_evaluation, is_no_better, training_of
from trackside.rules.guessing import best_guess, difference_of_labels, labels_of
from trackside.rules.labels import as_classes
from trackside.rules.medians import median, medians_of_rows
from trackside.trial.window import Window

FOUND, SHOWN, HARM = "found:", "shown:", "harm:"
Answer = str | bool | None
"""A clause with numbers, or True: present. False: absent. None: unknown."""

_GROWN, _SHRUNK = 3.0, 0.5  # norm of all weights, against its first
_VANISHED = 1e5  # times the smallest gradient norm of a layer
_FADED = 0.03  # of the gradient of the last layer
_VISIBLE = 1e-3  # relative update of the weights in a step that changes them visibly
_SUDDEN = 20.0  # times as large as usual
_HARDLY_ANYTHING = 0.02  # share of the gradient that clipping leaves
_GAIN = 0.05  # share of its size by which a loss must have fallen to have learned anything
_AT_GUESSING = 0.97  # share of the loss of a guess at which nothing has been learned
_NEWEST = 20
_WORSE = 1.1  # times the loss of guessing: an evaluation above it knows nothing of its labels
_FEWEST_AT_THE_END = 2  # evaluations of a run that has ended
_FEWEST_LABELS = 32
_LABELS_OF_A_CLASS = 20  # on average, from which on their absence is no accident
_MISSING, _ABOUT_EQUAL = 0.1, 0.33  # labels of the rarest class over those of the commonest
_FIRST_STEPS = 10
_EARLIEST = 3
_SMALL_STEP = 0.06  # relative update of the weights up to which the loss follows its slope
_A_FEW = 5
_DOWNHILL = 0.1  # share of its first value by which a loss that goes uphill has never fallen
_UPHILL = 1.5  # times the first loss
_FLAT = frozenset(["tanh", "sigmoid"])
_DEPENDS_ON_MODE = frozenset(["normalization", "dropout"])

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Known:
    """The measurements and facts of one window."""

    window: Window

    @cached_property
    def seen(self) -> Evidence:
        """The numbers that distinguish causes."""
        return Evidence(self.window)

    @property
    def has_facts(self) -> bool:
        """True if facts about the program were captured."""
        return self.window.facts is not None


@dataclass(frozen=True)
class Piece:
    """One piece of evidence.

    question  the text for docs and readers
    answer    returns the answer for a run
    supports  causes that it is expected to support, before anything is learned
    refutes   causes that are impossible where it is absent
    explains  causes that are only signs of its first supported cause where it is present
    outranks  causes that come after its first supported cause where it is present, however much speaks for them
    """

    question: str
    answer: Callable[[Known], Answer]
    supports: tuple[Cause, ...] = ()
    refutes: tuple[Cause, ...] = ()
    explains: tuple[Cause, ...] = ()
    outranks: tuple[Cause, ...] = ()


def _gradients_kept(known: Known) -> Answer:
    if not known.window.statistic(GRADIENTS_KEPT, "mean", mode=None):
        return None
    return "gradients of earlier steps are still there at each step" if known.seen.keeps_gradients else False


def _softmax_twice(known: Known) -> Answer:
    if not known.seen.losses:
        return None
    is_twice = any(loss.has_softmax_twice for loss in known.seen.losses)
    return "the loss gets probabilities, and takes a softmax itself" if is_twice else False


def _negative_loss(known: Known) -> Answer:
    if not known.seen.losses:
        return None
    is_negative = any(loss.is_built_in and loss.scale < 0 for loss in known.seen.losses)
    return "the loss is multiplied by a negative number before backward" if is_negative else False


def _in_no_optimizer(known: Known) -> Answer:
    facts = known.window.facts
    if facts is None or not facts.parameters:
        return None
    outside = sum(not parameter.optimizer for parameter in facts.parameters)
    return f"{outside} of {len(facts.parameters)} parameters are in no optimizer" if outside else False


def _left_out(known: Known) -> Answer:
    if not known.has_facts:
        return None
    outside = len(known.seen.outside_optimizers)
    return f"{outside} parameters get gradients and are in no optimizer" if outside else False


def _frozen(known: Known) -> Answer:
    facts = known.window.facts
    if facts is None or not facts.parameters:
        return None
    frozen = sum(not parameter.requires_grad for parameter in facts.parameters)
    return f"{frozen} of {len(facts.parameters)} parameters need no gradient" if frozen else False


def _decays(known: Known) -> Answer:
    if not known.has_facts:
        return None
    decay = known.seen.weight_decay
    return f"weight_decay is {decay:g}" if decay else False


def _decays_below_zero(known: Known) -> Answer:
    if not known.has_facts:
        return None
    decay = known.seen.weight_decay
    return f"weight_decay is {decay:g}, below zero: weights grow by it" if decay < 0 else False


def _shrunk_by_decay(known: Known) -> Answer:
    growth = known.seen.weight_growth
    if growth is None or not known.has_facts:
        return None
    return (
        f"weights shrank to {growth:.0%} of their size" if growth < _SHRUNK and known.seen.weight_decay > 0 else False
    )


def _weights_grew(known: Known) -> Answer:
    growth = known.seen.weight_growth
    if growth is None:
        return None
    return grown("weights", growth) if not growth <= _GROWN else False


def _low_precision(known: Known) -> Answer:
    if not known.has_facts:
        return None
    return "parts of it compute in float16" if known.seen.is_low_precision else False


def _clipped_away(known: Known) -> Answer:
    kept = known.seen.kept_by_clipping
    if kept is None:
        return False if known.has_facts else None
    return f"clipping leaves {kept:.2%} of the gradient" if kept < _HARDLY_ANYTHING else False


def _zero_gradients(known: Known) -> Answer:
    zeros = known.seen.zero_gradients
    if zeros is None:
        return None
    return f"{zeros:.0%} of the gradients are zero" if zeros > 0.5 else False


def _died(known: Known) -> Answer:
    return None if known.seen.zero_gradients is None else known.seen.had_gradients


def _died_by_steps(known: Known) -> Answer:
    zeros, ratio = known.seen.zero_gradients, known.seen.first_update_ratio
    if zeros is None or ratio is None:
        return None
    because = f"early steps changed weights by {ratio:.0%} of their size, and {zeros:.0%} of the gradients are zero"
    return because if zeros > 0.5 and known.seen.had_gradients and ratio > WILD else False


def _alike(known: Known) -> Answer:
    facts = known.window.facts
    if facts is None or not facts.parameters:
        return None
    alike = any(parameter.has_equal_rows for parameter in facts.parameters)
    return "all units of a layer started alike" if alike else False


def _spread(known: Known) -> Answer:
    spread = known.seen.gradient_spread
    if spread is None:
        return None
    return f"some layers get {spread:.1g} times the gradient of others" if spread > _VANISHED else False


def _fades(known: Known) -> Answer:
    facts = known.window.facts
    if facts is None:
        return None
    tables = {module.name for module in facts.modules if module.role == "embedding"}
    sizes = []
    for held in facts.parameters:
        if len(held.shape) < 2 or held.module in tables or not held.requires_grad:
            continue
        columns = known.window.statistic(held.gradient, "l2", mode=None)
        first = [median(column.values[:_NEWEST]) for column in columns if len(column.values) >= _NEWEST]
        if first and math.isfinite(first[0]):
            sizes.append(first[0] / math.sqrt(held.size))
    if len(sizes) < 2 or not sizes[-1] > 0:
        return None
    share = sizes[0] / sizes[-1]
    because = f"an element of the first layer gets {share:.2g} of the gradient of one of the last"
    return because if 0 < share < _FADED else False


def _goes_nowhere(known: Known) -> Answer:
    way = known.seen.way
    if way is None:
        return None
    because = f"no weight has moved more than {way[0]:.2g} of its size in {way[1]} steps"
    return because if known.seen.goes_nowhere else False


def _updates(above: float, below: float = math.inf) -> Callable[[Known], Answer]:
    def answer(known: Known) -> Answer:
        ratio = known.seen.update_ratio
        if ratio is None:
            return None
        shown = f"{ratio:.1%}" if ratio > _VISIBLE else f"{ratio:.2g}"
        return f"a step changes weights by {shown} of their size" if above <= ratio < below else False

    return answer


def _torn_at_first(known: Known) -> Answer:
    ratio = known.seen.first_update_ratio
    if ratio is None:
        return None
    return f"early steps changed weights by {ratio:.0%} of their size" if ratio > 0.5 else False


def _rate_collapsed(known: Known) -> Answer:
    if not known.seen.learning_rates:
        return None
    rate = known.seen.collapsed_rate
    return f"the learning rate fell from {rate[1]:.3g} to {rate[2]:.3g} by step {rate[0]}" if rate else False


def _rate_rose(known: Known) -> Answer:
    if not known.seen.learning_rates:
        return None
    rose = known.seen.risen_rate
    return f"the learning rate began at {rose[0]:.3g} and is {rose[1]:.3g} now" if rose else False


def _rate_varies(known: Known) -> Answer:
    rates = known.seen.learning_rates
    return any(np.ptp(column.values) > 0 for column in rates) if rates else None


def _loss_broke(known: Known) -> Answer:
    columns = training_losses(known.window)
    if not columns:
        return None
    return "the loss is not finite" if not all(np.isfinite(column.values[-1]) for column in columns) else False


def _broke_suddenly(known: Known) -> Answer:
    broken = [
        int(column.steps[np.argmax(~np.isfinite(column.values))])
        for column in training_losses(known.window)
        if not np.isfinite(column.values).all()
    ]
    if not broken:
        return False if training_losses(known.window) else None
    growth = growth_before(known.window, step=min(broken))
    if growth is None:
        return None
    return f"losses and gradients were as usual up to step {min(broken)}" if growth <= _SUDDEN else False


def _undefined(known: Known) -> Answer:
    return undefined_value(known.window) or (False if training_losses(known.window) else None)


def _loss_fell(known: Known) -> Answer:
    return has_gained(known.window, share=_GAIN) if training_losses(known.window) else None


def _loss_mostly_gone(known: Known) -> Answer:
    share = learned_share(known.window)
    return None if share is None else share > 0.5


def _loss_rose(known: Known) -> Answer:
    share = learned_share(known.window)
    if share is None:
        return None
    return "the loss is higher than at first" if share < -_GAIN else False


def _loss_falls(known: Known) -> Answer:
    return still_falls(known.window) if training_losses(known.window) else None


def _at_guessing(known: Known) -> Answer:
    for column in training_losses(known.window):
        guess = best_guess(known.window, column.tensor, worker=column.worker)
        losses = finite(column)[1]
        if guess is None or len(losses) < _NEWEST:
            continue
        now = median(losses[-_NEWEST:])
        return (
            f"the loss is {now:.3g}, and guessing costs {guess.loss:.3g}" if now > _AT_GUESSING * guess.loss else False
        )
    return None


def _worse_than_guessing(known: Known) -> Answer:
    window, answer = known.window, None
    trained = training_losses(window)
    for column in [c for n in window.tensors("losses") for c in window.statistic(n, "mean", mode="EVAL")]:
        training = training_of(column, trained)
        seen = by_evaluation(column, training) if training is not None else None
        if training is None or seen is None or len(seen.means) < (_FEWEST_AT_THE_END if window.is_last else NEWEST):
            continue
        guess = best_guess(window, training.tensor, worker=training.worker)
        facts = window.facts.loss(training.tensor) if window.facts else None
        level = guess.loss if guess is not None else chance_level(facts)
        if level is None:
            continue
        lowest = float(seen.means.min())
        is_worse = is_no_better(seen, guess) if guess is not None else lowest > _WORSE * level
        if not is_worse or not median(seen.training[-NEWEST:]) < level:
            return False
        answer = f"the validation loss was never below {lowest:.3g}, and guessing costs {level:.3g}"
    return answer


def _labels_differ(known: Known) -> Answer:
    window, answer = known.window, None
    for column in training_losses(window):
        trained, evaluated = (
            [batch.reshape(-1) for batch in labels_of(window, column.tensor, column.worker, modes=modes)]
            for modes in (TRAINING_MODES, ("EVAL",))
        )
        if min(sum(map(len, trained)), sum(map(len, evaluated))) < _FEWEST_LABELS:
            continue
        how = difference_of_labels(np.concatenate(trained), np.concatenate(evaluated))
        if how:
            return how
        answer = False
    return answer


def _unequal_classes(known: Known) -> Answer:
    """Return the class with the fewest labels; False if classes are about equal, None in between."""
    window, answer = known.window, None
    for column in training_losses(window):
        trained, evaluated = (
            [found for batch in batches if (found := as_classes(batch)) is not None]
            for batches in (
                labels_of(window, column.tensor, column.worker, modes=modes) for modes in (TRAINING_MODES, ("EVAL",))
            )
        )
        if not trained:
            continue
        labels = np.concatenate(trained)
        classes = np.unique(np.concatenate([labels, *evaluated]))
        counts = np.array([np.count_nonzero(labels == each) for each in classes])
        if len(labels) < _LABELS_OF_A_CLASS * len(classes):
            continue
        fewest = int(counts.argmin())
        if counts[fewest] < _MISSING * counts.max():
            return f"{counts[fewest]} of {len(labels):,} saved training labels are of class {classes[fewest]}"
        if counts[fewest] < _ABOUT_EQUAL * counts.max():
            return None
        answer = False
    return answer


def _classes(known: Known) -> Answer:
    window, answer = known.window, None
    for column in training_losses(window):
        for batch in labels_of(window, column.tensor, column.worker, modes=TRAINING_MODES):
            if batch.dtype.kind != "f" or as_classes(batch) is not None:
                return True
            answer = False
    return answer


def _never_a_gradient(known: Known) -> Answer:
    columns = [c for n in known.window.tensors("gradients") for c in known.window.statistic(n, "l2", mode=None)]
    if not columns or min(len(column.values) for column in columns) < _FIRST_STEPS:
        return None
    is_none = not any(column.values.any() for column in columns)
    return "each gradient has been zero at each step" if is_none else False


def _uphill(known: Known) -> Answer:
    window, columns = known.window, training_losses(known.window)
    updates = [c for name in window.tensors("weights") for c in window.statistic(name, "update_ratio", mode=None)]
    if not updates or not columns:
        return None
    ratio = median([float(column.values[:_EARLIEST].max()) for column in updates])
    if not ratio < _SMALL_STEP:
        return False
    for column in columns:
        losses = column.values
        if len(losses) < _FIRST_STEPS or not losses[0] > 0:
            return None
        first = median(losses[:_A_FEW])
        levels = medians_of_rows(losses[: len(losses) // _A_FEW * _A_FEW].reshape(-1, _A_FEW))
        if float(np.nanmin(levels)) < (1 - _DOWNHILL) * first or losses[-1] <= _UPHILL * first:
            return False
    return f"the loss rose from its first step on, by steps of {ratio:.1%} of the weights"


def _gradients_grew(known: Known) -> Answer:
    growth = known.seen.gradient_growth
    if growth is None:
        return None
    return grown("gradients", growth) if not growth <= 10 else False


def _several_optimizers(known: Known) -> Answer:
    return has_several_aims(known.window) if known.has_facts else None


def _flat_activations(known: Known) -> Answer:
    facts = known.window.facts
    return any(module.activation in _FLAT for module in facts.modules) if facts and facts.modules else None


def _relu(known: Known) -> Answer:
    facts = known.window.facts
    return any(module.activation == "relu" for module in facts.modules) if facts and facts.modules else None


def _mode_matters(known: Known) -> Answer:
    facts = known.window.facts
    return any(module.role in _DEPENDS_ON_MODE for module in facts.modules) if facts and facts.modules else None


PIECES: Mapping[str, Piece] = {
    "gradients-kept": Piece(
        "Gradients are not cleared between steps",
        _gradients_kept,
        (Cause.MISSING_ZERO_GRAD,),
        (Cause.MISSING_ZERO_GRAD,),
    ),
    "softmax-twice": Piece(
        "A softmax is applied twice", _softmax_twice, (Cause.DOUBLE_SOFTMAX,), (Cause.DOUBLE_SOFTMAX,)
    ),
    "negative-loss": Piece("A built-in loss is multiplied by a negative number", _negative_loss, (Cause.LOSS_SIGN,)),
    "in-no-optimizer": Piece(
        "A parameter is in no optimizer", _in_no_optimizer, (), (Cause.PARAMETERS_NOT_IN_OPTIMIZER,)
    ),
    "left-out": Piece(
        "A parameter with a gradient is in no optimizer", _left_out, (Cause.PARAMETERS_NOT_IN_OPTIMIZER,)
    ),
    "frozen": Piece("A parameter needs no gradient", _frozen, (Cause.FROZEN_PARAMETERS,)),
    "weight-decay": Piece("Weight decay is in use", _decays, (), (Cause.WEIGHT_DECAY_TOO_STRONG,)),
    "negative-weight-decay": Piece("Weight decay is below zero", _decays_below_zero, (Cause.WEIGHT_DECAY_TOO_STRONG,)),
    "weights-shrank": Piece(
        "Weights under weight decay shrank to less than half", _shrunk_by_decay, (Cause.WEIGHT_DECAY_TOO_STRONG,)
    ),
    "weights-grew": Piece(
        "Weights are more than three times as large as at first", _weights_grew, (Cause.LEARNING_RATE_TOO_HIGH,)
    ),
    "float16": Piece("Parts compute in float16", _low_precision, (), (Cause.PRECISION_OVERFLOW,)),
    "clipped-away": Piece("Clipping leaves less than 2 % of the gradient", _clipped_away, (Cause.CLIPPING_TOO_LOW,)),
    "zero-gradients": Piece(
        "Most gradients are zero",
        _zero_gradients,
        (Cause.DEAD_UNITS,),
        explains=(Cause.LEARNING_RATE_TOO_LOW, Cause.CLIPPING_TOO_LOW),
    ),
    "died-by-steps": Piece(
        "Most gradients are zero, were not at first, and early steps changed weights by a tenth",
        _died_by_steps,
        (Cause.LEARNING_RATE_TOO_HIGH,),
        explains=(Cause.DEAD_UNITS,),
    ),
    "gradients-died": Piece("A gradient is zero now and was not at first", _died),
    "never-a-gradient": Piece(
        "Each gradient was zero at each step",
        _never_a_gradient,
        (Cause.STEP_ORDER,),
        explains=(Cause.DEAD_UNITS, Cause.LEARNING_RATE_TOO_LOW),
    ),
    "units-alike": Piece("All units of a layer started alike", _alike, (Cause.SYMMETRIC_INITIALIZATION,)),
    "gradient-spread": Piece(
        "Some layers get 100,000 times the gradient of others", _spread, (Cause.VANISHING_GRADIENTS,)
    ),
    "gradient-fades": Piece(
        "An element of the first layer gets less than 3 % of the gradient of one of the last",
        _fades,
        (Cause.VANISHING_GRADIENTS,),
        explains=(Cause.WRONG_LABELS,),
    ),
    "goes-nowhere": Piece("No weight has moved visibly", _goes_nowhere, (Cause.LEARNING_RATE_TOO_LOW,)),
    "still-updates": Piece("A step hardly changes weights", _updates(0.0, 10 * STILL), (Cause.LEARNING_RATE_TOO_LOW,)),
    "visible-updates": Piece("A step changes weights by a thousandth to a tenth", _updates(_VISIBLE, WILD)),
    "wild-updates": Piece(
        "A step changes weights by a tenth and more", _updates(WILD), (Cause.LEARNING_RATE_TOO_HIGH,)
    ),
    "torn-at-first": Piece(
        "Early steps changed weights by half their size", _torn_at_first, (Cause.LEARNING_RATE_TOO_HIGH,)
    ),
    "rate-collapsed": Piece(
        "The learning rate collapsed long ago",
        _rate_collapsed,
        (Cause.LEARNING_RATE_SCHEDULE,),
        explains=(Cause.LEARNING_RATE_TOO_LOW,),
    ),
    "rate-rose": Piece(
        "The learning rate rose to a multiple without a warm-up",
        _rate_rose,
        (Cause.LEARNING_RATE_SCHEDULE,),
        explains=(Cause.LEARNING_RATE_TOO_HIGH,),
    ),
    "rate-varies": Piece("The learning rate varies", _rate_varies, (), (Cause.LEARNING_RATE_SCHEDULE,)),
    "loss-not-finite": Piece("The loss is not finite", _loss_broke),
    "broke-suddenly": Piece(
        "The loss became non-finite without growing before", _broke_suddenly, (Cause.NON_FINITE_DATA,)
    ),
    "undefined-value": Piece(
        "Numbers broke out of the blue at a step with a finite loss, or with data that cannot hold NaN",
        _undefined,
        (Cause.UNDEFINED_VALUE,),
        (Cause.UNDEFINED_VALUE,),
        explains=(Cause.NON_FINITE_DATA, Cause.LEARNING_RATE_TOO_HIGH, Cause.EXPLODING_GRADIENTS),
    ),
    "loss-fell": Piece("The loss has fallen by more than its noise", _loss_fell),
    "loss-mostly-gone": Piece("More than half of the loss is gone", _loss_mostly_gone),
    "loss-rose": Piece("The loss is higher than at first", _loss_rose),
    "loss-falls": Piece("The loss falls in the newer half of the steps", _loss_falls),
    "loss-of-guessing": Piece("The loss is that of a guess", _at_guessing),
    "worse-than-guessing": Piece(
        "Training is better than a guess, and no evaluation came near one",
        _worse_than_guessing,
        (Cause.WRONG_LABELS,),
        outranks=(Cause.OVERFITTING,),  # a few rows learned by heart look alike
    ),
    "labels-differ": Piece(
        "Labels of training and evaluation are of another size",
        _labels_differ,
        (Cause.WRONG_LABELS,),
        explains=(Cause.OVERFITTING,),  # classes that are rare in training alone differ as much
    ),
    "classes": Piece("Labels are classes", _classes, (), (Cause.CLASS_IMBALANCE,)),
    "unequal-classes": Piece(
        "Training labels of some class are missing, or far fewer than of others",
        _unequal_classes,
        (Cause.CLASS_IMBALANCE,),
        (Cause.CLASS_IMBALANCE,),
    ),
    "uphill": Piece(
        "The loss rose from its first step on, by small steps",
        _uphill,
        (Cause.LOSS_SIGN,),
        explains=(Cause.LEARNING_RATE_TOO_HIGH, Cause.EXPLODING_GRADIENTS, Cause.WRONG_LABELS),
    ),
    "gradients-grew": Piece(
        "Gradients are more than ten times as large as at first", _gradients_grew, (Cause.EXPLODING_GRADIENTS,)
    ),
    "several-optimizers": Piece("The program has several optimizers", _several_optimizers),
    "flat-activations": Piece("The model has tanh or sigmoid modules", _flat_activations),
    "relu": Piece("The model has ReLU modules", _relu),
    "depends-on-mode": Piece("The model has normalisation or dropout", _mode_matters, (), (Cause.TRAIN_EVAL_MODE,)),
}
"""Every piece of evidence that is answered from a run's facts and statistics."""


def signs_of(window: Window) -> tuple[Sign, ...]:
    """Return the pieces of evidence in a window that are known, present or absent.

    A piece that cannot be answered, for whatever reason, counts as unknown: the verdict does not depend on it.

    Args:
        window: The run up to the judged step.
    """
    known = Known(window)
    return tuple(sign for name, piece in PIECES.items() if (sign := _sign(name, piece, known)) is not None)


def _sign(name: str, piece: Piece, known: Known) -> Sign | None:
    try:
        answer = piece.answer(known)
    except Exception:  # evidence is an extra: without it, the finding still holds
        _logger.debug("The evidence %s is unknown", name, exc_info=True)
        return None
    if answer is None:
        return None
    return Sign(name, bool(answer), answer if isinstance(answer, str) else "")


def signs_of_rules(opinions: Iterable[tuple[str, Sequence[Suspicion]]]) -> Iterator[Sign]:
    """Yield the evidence in standing issues: the rules that found them, and the causes that they support with numbers.

    Args:
        opinions: Each rule's id, with the causes that it suspects.
    """
    shown: dict[Cause, str] = {}
    for rule_id, suspicions in opinions:
        yield Sign(f"{FOUND}{rule_id}")
        for suspicion in suspicions:
            if suspicion.because:
                shown.setdefault(suspicion.cause, suspicion.because)
    for cause, because in shown.items():
        yield Sign(f"{SHOWN}{cause.value}", because=because)


def signs_of_harm(harms: Mapping[Harm, str]) -> Iterator[Sign]:
    """Yield the harm of a run as evidence.

    Args:
        harms: The kinds of harm, each with its evidence.
    """
    for harm, because in harms.items():
        yield Sign(f"{HARM}{harm.value}", because=because)


def supported_by(name: str) -> tuple[Cause, ...]:
    """Return the causes that a present piece of evidence is expected to support, before anything is learned.

    Args:
        name: The name of the piece.
    """
    if name.startswith(SHOWN):
        return (Cause(name.removeprefix(SHOWN)),)
    return PIECES[name].supports if name in PIECES else ()


def refuted_by(signs: Iterable[Sign]) -> frozenset[Cause]:
    """Return the causes that absent evidence makes impossible.

    Args:
        signs: The known evidence.
    """
    absent = [PIECES[sign.name] for sign in signs if not sign.is_present and sign.name in PIECES]
    return frozenset(cause for piece in absent for cause in piece.refutes)


def outranked_by(signs: Iterable[Sign]) -> Mapping[Cause, Cause]:
    """Return the causes that present evidence places after another one, with that other one.

    Args:
        signs: The known evidence.
    """
    present = [PIECES[sign.name] for sign in signs if sign.is_present and sign.name in PIECES]
    return {cause: piece.supports[0] for piece in present for cause in piece.outranks}


def explained_by(signs: Iterable[Sign]) -> Mapping[Cause, Cause]:
    """Return the causes that present evidence shows to be signs of another one, with that other one.

    A cause that is a sign itself is followed to what it is a sign of.

    Args:
        signs: The known evidence.
    """
    present = [PIECES[sign.name] for sign in signs if sign.is_present and sign.name in PIECES]
    explained = {cause: piece.supports[0] for piece in present for cause in piece.explains}
    found = {}
    for sign, cause in explained.items():
        way = [sign, cause]
        while way[-1] in explained and len(way) <= len(explained):
            way.append(explained[way[-1]])
        if way[-1] not in explained:  # else they explain one another
            found[sign] = way[-1]
    return found
