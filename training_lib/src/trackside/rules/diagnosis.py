"""Evidence in a run for rules that look for the cause behind a symptom. Pure functions of a window.

Every result may be None: an old run, or a run without always-on statistics, holds less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.model_facts import LossFacts, ParameterFacts
from trackside.contracts.recorded_names import CLIPPING, GRADIENTS_KEPT
from trackside.rules.medians import median
from trackside.trial.window import Column, Window

TRAINING_MODES = ("TRAIN", "GLOBAL")
STILL = 1e-6  # relative update of the weights in a step, below which hundreds of steps lead nowhere
WILD = 0.1  # above which a step replaces the weights rather than corrects them
SHORT_WAY = 0.09  # share of its own size that a weight must have come, at the least, for anything to be learned
_FEWEST_STEPS = 30  # fewest steps from which a way can be measured
_VISIBLE = 1e-3  # relative update of the weights that suggests too high a rate, if nothing else does
_AT_ONCE = 1.0  # in the first steps: nothing is left of the initialisation
_NEWEST = 10  # measurements that stand for "now"
_HARDLY_ANYTHING = 0.02  # share of the gradient that clipping leaves
_SHRUNK, _GROWN = 0.5, 3.0  # norm of all weights, against its first
_VANISHED = 1e5  # times the smallest gradient norm of a layer
_RISEN = 5.0  # times the first learning rate
_HALF_WAY = 0.25  # of the peak, after half of the steps to it
_SUDDEN = 20.0  # times as large as usual: what grew less than that broke out of the blue
_LOW_PRECISION = ("float16",)


@dataclass(frozen=True)
class Evidence:
    """The numbers of one window that distinguish causes."""

    window: Window

    @cached_property
    def update_ratio(self) -> float | None:
        """Median over weights of the newest relative updates |w' - w| / |w|."""
        ratios = [
            median(column.values[-_NEWEST:])
            for name in self.window.tensors("weights")
            for column in self.window.statistic(name, "update_ratio", mode=None)
        ]
        finite = [ratio for ratio in ratios if math.isfinite(ratio)]
        return median(finite) if finite else None

    @cached_property
    def way(self) -> tuple[float, int] | None:
        """The longest way of a weight, as a share of its size, and the number of steps it took.

        The way is the sum of the relative updates |w' - w| / |w| over all steps, interpolated between measurements: an
        upper bound, since steps to and fro add up too. Vectors, frozen weights, and weights that began at zero (with
        updates relative to nothing) are left out; None without any other.
        """
        ways = [
            found
            for name in self.window.tensors("weights")
            if _is_trained_matrix(self.window, name)
            for column in self.window.statistic(name, "update_ratio", mode=None)
            if (found := way_of(column)) is not None
        ]
        return max(ways, default=None)

    @cached_property
    def goes_nowhere(self) -> bool:
        """True if no weight has moved far enough to learn anything, though it had the steps for it."""
        return self.way is not None and self.way[1] >= _FEWEST_STEPS and 0 < self.way[0] < SHORT_WAY

    @cached_property
    def learning_rates(self) -> tuple[Column, ...]:
        """The learning rate of each parameter group, a column each."""
        names = [name for name in self.window.tensors("hyperparameters") if name.endswith("/lr")]
        return tuple([column for name in names for column in self.window.statistic(name, "mean", mode=None)])

    @cached_property
    def collapsed_rate(self) -> tuple[int, float, float] | None:
        """(first step, peak, now) of a learning rate that collapsed long ago; None without one."""
        for column in self.learning_rates:
            if (since := collapsed_at(column.values)) is not None:
                return int(column.steps[since]), float(column.values.max()), float(column.values[-1])
        return None

    @cached_property
    def risen_rate(self) -> tuple[float, float] | None:
        """(first, now) of a learning rate that rose to a multiple of its first value without a warm-up, else None."""
        for column in self.learning_rates:
            first, now = float(column.values[0]), float(column.values[-1])
            if 0 < _RISEN * first < now and not warms_up(column.values):
                return first, now
        return None

    @cached_property
    def keeps_gradients(self) -> bool:
        """True if gradients are not cleared between steps."""
        columns = self.window.statistic(GRADIENTS_KEPT, "mean", mode=None)
        return any(len(column.values) >= _NEWEST and column.values[-_NEWEST:].mean() > 0.9 for column in columns)

    @cached_property
    def zero_gradients(self) -> float | None:
        """The share of weights (by tensors) with a newest gradient of zeros only; None without gradients."""
        norms = [
            float(column.values[-_NEWEST:].max())
            for name in self.window.tensors("gradients")
            for column in self.window.statistic(name, "l2", mode=None)
        ]
        return sum(norm == 0 for norm in norms) / len(norms) if norms else None

    @cached_property
    def had_gradients(self) -> bool:
        """True if some gradient is all zeros now and was not at first."""
        return any(
            float(column.values[-_NEWEST:].max()) == 0 < float(column.values[0])
            for name in self.window.tensors("gradients")
            for column in self.window.statistic(name, "l2", mode=None)
        )

    @cached_property
    def first_update_ratio(self) -> float | None:
        """Median over weights of the first relative updates |w' - w| / |w| (the largest of the first ten)."""
        ratios = [
            float(column.values[:_NEWEST].max())
            for name in self.window.tensors("weights")
            for column in self.window.statistic(name, "update_ratio", mode=None)
        ]
        finite = [ratio for ratio in ratios if math.isfinite(ratio)]
        return median(finite) if finite else None

    @cached_property
    def gradient_spread(self) -> float | None:
        """The largest gradient norm of a weight over the smallest above zero, medians of the newest."""
        norms = [
            median(column.values[-_NEWEST:])
            for name in self._gradients_of_weights()
            for column in self.window.statistic(name, "l2", mode=None)
        ]
        sizes = [norm for norm in norms if math.isfinite(norm) and norm > 0]
        return max(sizes) / min(sizes) if len(sizes) > 1 else None

    def _gradients_of_weights(self) -> list[str]:
        of_weights = {
            f"gradient/{name}" for name in self.window.tensors("weights")
        }  # empty if gradients alone are saved
        names = self.window.tensors("gradients")
        return [name for name in names if name in of_weights or name.endswith("weight")]

    @cached_property
    def gradient_growth(self) -> float | None:
        """The present norm of all gradients over the first one, from medians of the newest and of the first values."""
        columns = [c for n in self.window.tensors("gradients") for c in self.window.statistic(n, "l2", mode=None)]
        if not columns or min(len(column.values) for column in columns) < 3 * _NEWEST:
            return None
        first, now = (
            math.hypot(*[median(column.values[part]) for column in columns])
            for part in (slice(_NEWEST), slice(-_NEWEST, None))
        )
        return now / first if first > 0 else None

    @cached_property
    def weight_growth(self) -> float | None:
        """The present norm of all weights over the first one."""
        columns = [c for name in self.window.tensors("weights") for c in self.window.statistic(name, "l2", mode=None)]
        first = math.hypot(*[float(column.values[0]) for column in columns])
        return math.hypot(*[float(column.values[-1]) for column in columns]) / first if first > 0 else None

    def too_high_a_rate(self) -> Suspicion:
        """Return the suspicion of a learning rate that is too high, with its evidence if any."""
        ratio, torn = self.update_ratio, _torn(self)
        if ratio is not None and math.isfinite(ratio) and ratio >= _VISIBLE:
            return Suspicion(Cause.LEARNING_RATE_TOO_HIGH, f"a step changes weights by {ratio:.1%} of their size")
        return torn or Suspicion(Cause.LEARNING_RATE_TOO_HIGH)

    @cached_property
    def kept_by_clipping(self) -> float | None:
        """The median share of the gradient's norm that clipping leaves; None without clipping."""
        facts = self.window.facts
        limits = [clip.limit for clip in facts.program.clipping if clip.kind == "norm"] if facts else []
        columns = self.window.statistic(CLIPPING, "mean", mode=None)
        if not limits or not columns:
            return None
        before = np.concatenate([column.values[-5 * _NEWEST :] for column in columns])
        before = before[np.isfinite(before) & (before > 0)]
        return median(min(limits) / np.maximum(before, min(limits))) if before.size else None

    @cached_property
    def losses(self) -> tuple[LossFacts, ...]:
        """Facts about the training's losses, from the hook."""
        facts = self.window.facts
        return facts.losses if facts is not None else ()

    @cached_property
    def is_low_precision(self) -> bool:
        """True if anything is computed in float16, with its largest number of 65,504."""
        facts = self.window.facts
        if facts is None:
            return False
        return facts.program.autocast_dtype in _LOW_PRECISION or any(
            p.dtype in _LOW_PRECISION for p in facts.parameters
        )

    @cached_property
    def outside_optimizers(self) -> tuple[ParameterFacts, ...]:
        """Parameters that get a gradient, look untrained, and belong to no optimizer."""
        facts = self.window.facts
        held = facts.parameters if facts is not None else ()
        return tuple([p for p in held if p.requires_grad and not p.optimizer and p.has_gradient and p.looks_untrained])

    @cached_property
    def weight_decay(self) -> float:
        """The largest weight decay of any parameter group by size; negative if it makes weights grow."""
        facts = self.window.facts
        groups = [group for optimizer in facts.optimizers for group in optimizer.groups] if facts else []
        return max((group.get("weight_decay", 0.0) for group in groups), key=abs, default=0.0)


def warms_up(rates: NDArray[np.float64]) -> bool:
    """Return True if the rates rise to their peak in about a straight line, as in a warm-up.

    Half way to the peak a line is at a half of it, and so is half a cosine; exponential growth and jumps are far below.

    Args:
        rates: One rate per step, oldest first, shape (n,).
    """
    peak = int(np.argmax(rates >= 0.99 * rates.max()))
    return bool(rates[peak // 2] > _HALF_WAY * rates[peak])


def collapsed_at(rates: NDArray[np.float64], *, share: float = 1e-3, steps: int = 20) -> int | None:
    """Return the index from which on the rates stayed below `share` of their peak, if long enough ago; else None.

    Long enough: `steps` steps, and more than half as many as before. So a schedule that ends at zero at the end of the
    run does not count.

    Args:
        rates: One rate per step, oldest first, shape (n,).
        share: The share of the peak below which a rate has collapsed.
        steps: The fewest steps since the collapse.
    """
    peak = float(rates.max()) if len(rates) else 0.0
    if not peak > 0 or not rates[-1] < share * peak:
        return None
    since = int(np.flatnonzero(rates >= share * peak)[-1]) + 1
    after = len(rates) - since
    return since if after >= steps and 2 * after > since else None


def way_of(column: Column) -> tuple[float, int] | None:
    """Return (sum of the relative updates over all steps, number of steps); None with fewer than three finite values.

    Args:
        column: The relative updates of one weight.
    """
    steps, ratios = finite(column)
    if len(steps) < 3:
        return None
    between = (ratios[1:] + ratios[:-1]) / 2 * np.diff(steps)
    return float(ratios[0] + between.sum()), int(steps[-1] - steps[0]) + 1


def _is_trained_matrix(window: Window, name: str) -> bool:
    held = window.facts.parameter(name) if window.facts else None
    if held is not None and (len(held.shape) < 2 or not held.requires_grad):
        return False
    return all(column.values[0] > 0 for column in window.statistic(name, "l2", mode=None))


def training_losses(window: Window) -> tuple[Column, ...]:
    """Return the columns of the training losses (mode TRAIN, or GLOBAL if the script sets none), as recorded.

    Args:
        window: The window to read.
    """
    names = window.tensors("losses")
    for mode in TRAINING_MODES:
        columns = tuple([column for name in names for column in window.statistic(name, "mean", mode=mode)])
        if columns:
            return columns
    return ()


def learned_share(window: Window, *, newest: int = 20) -> float | None:
    """Return the largest share of its first value that a training loss has lost.

    Negative if it rose, -infinity for a loss that is not finite, None without a loss. The first value is the larger of
    the first loss and the median of the first `newest`; the present one is the median of the newest. Losses that are
    ever negative do not count.

    Args:
        window: The window to read.
        newest: The number of losses in a median.
    """
    shares = []
    for column in training_losses(window):
        losses = column.values
        if not np.isfinite(losses).all():
            return -math.inf
        if (losses < 0).any():
            continue
        start = max(float(losses[0]), median(losses[:newest]))
        shares.append(1 - median(losses[-newest:]) / start if start > 0 else 0.0)
    return max(shares, default=None)


def has_gained(window: Window, *, share: float) -> bool:
    """Return True if a training loss has fallen by more than `share` of its first size, and more than its noise.

    The loss at first and now are the medians of the first and of the newest quarter of the steps, 5 to 50 of each. The
    size is |the median| at first, or the deviation of the losses, whichever is larger, so that losses about zero count
    too.

    Args:
        window: The window to read.
        share: The share of the loss's size.
    """
    return any(_gain(finite(column)[1]) > share for column in training_losses(window))


def still_falls(window: Window) -> bool:
    """Return True if a training loss falls in the newer half of its steps, by more than its noise.

    Args:
        window: The window to read.
    """
    halves = [finite(column)[1] for column in training_losses(window)]
    return any(_gain(losses[len(losses) // 2 :]) > 0 for losses in halves)


def _gain(losses: NDArray[np.float64]) -> float:
    """Return the fall of losses as a share of their size, less twice its error; -inf for too few losses."""
    count = min(50, len(losses) // 4)
    if count < 5:
        return -math.inf
    first, now = losses[:count], losses[-count:]
    size = max(abs(median(first)), float(losses.std()))
    if not 0 < size < math.inf:
        return -math.inf
    error = math.hypot(error_of_median(first), error_of_median(now))
    return (float(median(first) - median(now)) - 2 * error) / size


def error_of_median(values: NDArray[np.float64]) -> float:
    """Return the standard error of the median of normal noise, from the median absolute deviation.

    Args:
        values: The values, shape (n,).
    """
    deviation = median(np.abs(values - median(values)))
    return 1.2533 * 1.4826 * deviation / math.sqrt(len(values))


def has_several_aims(window: Window) -> bool:
    """Return True for models that compete, or are trained in turns: no single loss must fall, no label is a class.

    Several optimizers that always step together, with one training loss, have one aim: they share the parameters of a
    model, each by its own algorithm.

    Args:
        window: The window to read.
    """
    if window.facts is None or len(window.facts.optimizers) < 2:
        return False
    if len({column.tensor for column in training_losses(window)}) > 1:
        return True
    steps: dict[str, set[tuple[str, bytes]]] = {}
    for optimizer in window.facts.optimizers:
        rates = window.statistic(f"hyperparameters/{optimizer.name}/group_0/lr", "mean", mode=None)
        steps[optimizer.name] = {(rate.worker, rate.steps.tobytes()) for rate in rates}
    return not all(steps.values()) or len({frozenset(some) for some in steps.values()}) > 1


def chance_level(loss: LossFacts | None) -> float | None:
    """Return the cross entropy of guessing, ln(classes); None if the loss is no mean cross entropy over known classes.

    Args:
        loss: The facts about a loss.
    """
    if loss is None or loss.class_count is None or loss.class_count < 2 or loss.reduction != "mean":
        return None
    return math.log(loss.class_count) if loss.type_name in {"CrossEntropyLoss", "NLLLoss"} else None


def certain_causes(window: Window) -> tuple[Suspicion, ...]:
    """Return mistakes of the program or its settings that are certain, whatever the symptom; mostly none.

    Args:
        window: The window to read.
    """
    seen = Evidence(window)
    found = _certain(seen)
    if (decay := _decay(seen)) is not None:
        found.append(decay)
    if (rise := seen.risen_rate) is not None:
        found.append(Suspicion(Cause.LEARNING_RATE_SCHEDULE, f"it began at {rise[0]:.3g} and is {rise[1]:.3g} now"))
    return tuple(found)


def why_nothing_is_learned(window: Window) -> tuple[Suspicion, ...]:
    """Return causes of a loss that does not fall, with numbers as evidence: certain ones, then measured ones.

    Args:
        window: The window to read.
    """
    seen = Evidence(window)
    return tuple(_certain(seen) + _measured(seen))


def why_it_moves_wildly(window: Window) -> tuple[Suspicion, ...]:
    """Return certain causes, else a learning rate with which most steps replace the weights; mostly none.

    Args:
        window: The window to read.
    """
    seen = Evidence(window)
    found = certain_causes(window)
    if found:
        return found
    if (first := seen.first_update_ratio) is not None and first > _AT_ONCE:
        return (Suspicion(Cause.LEARNING_RATE_TOO_HIGH, f"early steps changed weights by {first:.0%} of their size"),)
    if (ratio := seen.update_ratio) is not None and ratio > WILD:
        return (Suspicion(Cause.LEARNING_RATE_TOO_HIGH, f"a step changes weights by {ratio:.0%} of their size"),)
    return ()


def what_broke_units(window: Window) -> Suspicion | None:
    """Return a learning rate that is too high as the cause of broken units; None if the weights do not show it.

    Args:
        window: The window to read.
    """
    return _torn(Evidence(window))


def why_it_diverges(window: Window) -> tuple[Suspicion, ...]:
    """Return possible causes of numbers that grow without bound, likeliest first.

    Args:
        window: The window to read.
    """
    seen = Evidence(window)
    found = list(certain_causes(window))
    if seen.is_low_precision:
        found.append(Suspicion(Cause.PRECISION_OVERFLOW, "parts of it compute in float16"))
    found.append(seen.too_high_a_rate())
    return (*found, Suspicion(Cause.EXPLODING_GRADIENTS))


def why_it_breaks(window: Window, *, since: int) -> tuple[Suspicion, ...]:
    """Return possible causes of numbers that are not finite, likeliest first.

    Args:
        window: The window to read.
        since: The first step with such a number.
    """
    growth = growth_before(window, step=since)
    causes = why_it_diverges(window)
    if growth is None or growth > _SUDDEN:
        return causes
    if undefined := undefined_value(window):
        return (Suspicion(Cause.UNDEFINED_VALUE, undefined),)
    out_of_the_blue = Suspicion(Cause.NON_FINITE_DATA, f"losses and gradients were as usual up to step {since}")
    certain = [suspicion for suspicion in causes if suspicion.cause is Cause.PRECISION_OVERFLOW]
    rest = [suspicion for suspicion in causes if suspicion.cause is not Cause.PRECISION_OVERFLOW]
    return (*certain, out_of_the_blue, *rest)


def undefined_value(window: Window) -> str:
    """Return the evidence of a computation without a value, a clause; "" for none.

    Numbers broke out of the blue, and not by the data: the loss of the step was still finite and its gradients were
    not, or inputs and labels are whole numbers, which cannot hold NaN. In float16 they may have overflowed.

    Args:
        window: The window to read.
    """
    if Evidence(window).is_low_precision:
        return ""
    gradient, loss = _gradient_broke_at(window), _loss_broke_at(window)
    first = min((step for step in (gradient, loss) if step is not None), default=None)
    growth = growth_before(window, step=first) if first is not None else None
    if growth is None or growth > _SUDDEN:
        return ""
    if gradient is not None and (loss is None or gradient < loss) and _loss_is_known(window, gradient):
        return f"the loss of step {gradient} was finite, and its gradients were not"
    if first == loss and _data_are_whole_numbers(window):
        return f"the loss broke out of the blue at step {loss}, and inputs and labels are whole numbers"
    return ""


def _gradient_broke_at(window: Window) -> int | None:
    """Return the first step at which a gradient, or a weight after the step, was not finite; None if all were."""
    names = window.tensors("gradients")
    columns = [c for name in names for c in window.statistic(name, "l2", mode=None)]
    broken = [c.steps[~np.isfinite(c.values)] for c in columns]
    counts = [
        c for n in (*names, *window.tensors("weights")) for c in window.statistic(n, "nonfinite_count", mode=None)
    ]
    broken += [c.steps[c.values > 0] for c in counts]
    return min((int(steps[0]) for steps in broken if steps.size), default=None)


def _loss_broke_at(window: Window) -> int | None:
    broken = [column.steps[~np.isfinite(column.values)] for column in training_losses(window)]
    return min((int(steps[0]) for steps in broken if steps.size), default=None)


def _loss_is_known(window: Window, step: int) -> bool:
    return any((column.steps == step).any() for column in training_losses(window))


def _data_are_whole_numbers(window: Window) -> bool:
    """Return True if saved inputs and labels are all whole numbers; False also if either was never saved."""
    kinds: list[str] = []
    for collection in ("model_inputs", "labels"):
        found = [kind for name in window.tensors(collection) for kind in _kinds_of(window, name)]
        if not found:
            return False
        kinds += found
    return all(kind in "iub" for kind in kinds)


def _kinds_of(window: Window, name: str) -> list[str]:
    """Return the kinds of numbers of a tensor, as NumPy's letters, of the newest saved value of each worker."""
    kinds: list[str] = []
    for column in window.statistic(name, "mean", mode=None):
        try:
            kinds.append(window.value(name, worker=column.worker, step=int(column.steps[-1])).dtype.kind)
        except TensorNotSavedError:  # reductions only
            continue
    return kinds


def growth_before(window: Window, *, step: int) -> float | None:
    """Return the largest loss or gradient norm of the ten steps before `step`, over the median of all earlier ones.

    The largest quotient of all losses and gradients; None if fewer than three steps are known.

    Args:
        window: The window to read.
        step: The step.
    """
    names = [*((name, "mean") for name in window.tensors("losses")), *((n, "l2") for n in window.tensors("gradients"))]
    growths = []
    for name, statistic in names:
        for column in window.statistic(name, statistic, mode=None):
            sizes = np.abs(column.values[column.steps < step])
            sizes = sizes[np.isfinite(sizes)]
            usual = median(sizes[:-_NEWEST] if len(sizes) > 2 * _NEWEST else sizes[:1]) if len(sizes) > 2 else 0.0
            if usual > 0:
                growths.append(float(sizes[-_NEWEST:].max()) / usual)
    return max(growths, default=None)


def _certain(seen: Evidence) -> list[Suspicion]:
    """Return causes known from the program, not inferred from its numbers."""
    found = []
    if seen.keeps_gradients:
        found.append(Suspicion(Cause.MISSING_ZERO_GRAD, "gradients of earlier steps still stand at each step"))
    if any(loss.has_softmax_twice for loss in seen.losses):
        found.append(Suspicion(Cause.DOUBLE_SOFTMAX, "the loss gets probabilities, and takes a softmax itself"))
    if any(loss.is_built_in and loss.scale < 0 for loss in seen.losses):
        found.append(Suspicion(Cause.LOSS_SIGN, "the loss is multiplied by a negative number before backward"))
    if outside := seen.outside_optimizers:
        found.append(Suspicion(Cause.PARAMETERS_NOT_IN_OPTIMIZER, f"{len(outside)} parameters are in no optimizer"))
    return found


def _measured(seen: Evidence) -> list[Suspicion]:
    found = []
    if (rate := seen.collapsed_rate) is not None:
        found.append(Suspicion(Cause.LEARNING_RATE_SCHEDULE, f"{rate[1]:.3g} fell to {rate[2]:.3g} by step {rate[0]}"))
    if (kept := seen.kept_by_clipping) is not None and kept < _HARDLY_ANYTHING:
        found.append(Suspicion(Cause.CLIPPING_TOO_LOW, f"clipping leaves {kept:.2%} of the gradient"))
    if (zeros := seen.zero_gradients) is not None and zeros > 0.5:
        found += [Suspicion(Cause.DEAD_UNITS, f"{zeros:.0%} of the gradients are zero"), _behind_zeros(seen)]
    if (decay := _decay(seen)) is not None:
        found.append(decay)
    if (spread := seen.gradient_spread) is not None and spread > _VANISHED:
        found.append(Suspicion(Cause.VANISHING_GRADIENTS, f"some layers get {spread:.1g} times the gradient of others"))
    ratio = seen.update_ratio
    if seen.way is not None and seen.goes_nowhere:
        because = f"no weight has come more than {seen.way[0]:.2g} of its size in {seen.way[1]} steps"
        found.append(Suspicion(Cause.LEARNING_RATE_TOO_LOW, because))
    elif ratio is not None and ratio > WILD:
        found.append(Suspicion(Cause.LEARNING_RATE_TOO_HIGH, f"a step changes weights by {ratio:.0%} of their size"))
    elif torn := _torn(seen):  # beside weights that were thrown out any step is small
        found.append(torn)
    elif ratio is not None and ratio < 10 * STILL:
        found.append(Suspicion(Cause.LEARNING_RATE_TOO_LOW, f"a step changes weights by {ratio:.2g} of their size"))
    return found


def _torn(seen: Evidence) -> Suspicion | None:
    """Return a learning rate that is too high; None without a sign of it.

    The signs: early steps left little of the weights, or all steps together made them large.
    """
    first, growth = seen.first_update_ratio, seen.weight_growth
    if first is not None and first > _AT_ONCE / 2:
        return Suspicion(Cause.LEARNING_RATE_TOO_HIGH, f"early steps changed weights by {first:.0%} of their size")
    if growth is not None and growth > _GROWN and seen.weight_decay >= 0:
        return Suspicion(Cause.LEARNING_RATE_TOO_HIGH, grown("weights", growth))
    return None


def grown(what: str, times: float) -> str:
    """Return a clause about a growth.

    Args:
        what: The growing thing, in the plural.
        times: The size now over the size at first; may be infinite or NaN.
    """
    return f"{what} are {times:.3g} times as large as at first" if math.isfinite(times) else f"{what} are not finite"


def _behind_zeros(seen: Evidence) -> Suspicion:
    """Return the cause of zero gradients: units that started alike, died from a large step, or never were alive."""
    facts = seen.window.facts
    if facts is None or any(parameter.has_equal_rows for parameter in facts.parameters):
        return Suspicion(Cause.SYMMETRIC_INITIALIZATION)
    ratio = seen.first_update_ratio
    if seen.had_gradients and ratio is not None and ratio > WILD / 2:
        return Suspicion(Cause.LEARNING_RATE_TOO_HIGH, f"early steps changed weights by {ratio:.0%} of their size")
    return Suspicion(Cause.BAD_INITIALIZATION)


def _decay(seen: Evidence) -> Suspicion | None:
    """Return weight decay that left less than half of the weights, or that makes them grow; else None."""
    growth, decay = seen.weight_growth, seen.weight_decay
    if decay < 0:
        return Suspicion(Cause.WEIGHT_DECAY_TOO_STRONG, f"weight_decay is {decay:g}, below zero: weights grow by it")
    if growth is not None and decay > 0 and growth < _SHRUNK:
        return Suspicion(Cause.WEIGHT_DECAY_TOO_STRONG, f"weights shrank to {growth:.0%} of their size")
    return None


def finite(column: Column) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the steps and values of a column that are finite.

    Args:
        column: The column.
    """
    kept = np.isfinite(column.values)
    return column.steps[kept], column.values[kept]
