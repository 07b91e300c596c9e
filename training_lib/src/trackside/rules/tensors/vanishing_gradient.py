"""vanishing-gradient: the early layers of a network get no gradient to learn from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.model_facts import ModelFacts, ParameterFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import STILL, certain_causes, has_gained, training_losses, what_broke_units
from trackside.rules.guessing import best_guess
from trackside.rules.medians import median
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

SIZE, SHARE = "mean |gradient|", "share of the largest mean |gradient|"

_LEARNED = 0.1  # at most this share of the first loss is left: small gradients are what success looks like
_NOTHING_LEARNED = 0.9  # at least this share is left
_LOSSES_TO_AVERAGE = 5
_STANDS_STILL, _LOSSES_THAT_STAND_STILL = 0.95, 20  # share of the loss of a guess; newest losses
_GAIN = 0.05  # share of its size by which a loss must have fallen to have learned anything
_GREW, _FIRST_STEPS = 10.0, 100  # times its first, within so many steps
_GROWS = 4.0  # times what it was after half as many steps: faster than their square, it is on its way
_MOVES = 1e-5  # relative update of a weight, from which it comes a hundredth of its size in a thousand steps
_BY_DECAY = 3.0  # times the relative update by weight decay alone
_NEWEST = 3  # relative updates that stand for the present
_LONG = 100  # steps for which a side path must be quiet, or the first modules far behind
_FAR_BEHIND = 1e-4  # of the largest mean |gradient|
_STANDS = 1e-3  # of the largest relative update
_DECOUPLED = "decoupled_weight_decay"


@dataclass(frozen=True)
class VanishingGradient(Rule):
    """Gradients have become too small to move the weights.

    Why it matters:
        A layer whose gradient is a ten-millionth of its neighbour's does not learn: its weights stay what the random
        initialisation made them, however long the job runs. Nothing crashes, and the loss may even creep down a little,
        because the last layers still move. The usual cause is depth: each saturating activation (sigmoid, tanh)
        multiplies the gradient by a factor well below one on its way back, so that it shrinks geometrically towards the
        input.

    How it decides:
        At each step at which the always-on statistics measured gradients, or at which they were saved, for each worker:

        1. The size of a gradient tensor g is the mean of |g| over the entries of g that are not exactly zero. Entries
           that took no part in the step (rows of an embedding that no sample used, units a ReLU switched off) do
           not show how far a gradient travels. A tensor of zeros only, or a parameter without a gradient (frozen),
           takes no part at all and is never reported; the finding counts such tensors as `zero_gradients`.
        2. A tensor is quiet when its size < `threshold`, and a module is quiet when all its gradients are. A tiny
           gradient beside a sound one in the same module is mathematics, not a fault: a bias before batch
           normalisation, or the bias of an attention key, has the gradient 0 in theory and rounding noise in practice.
        3. Let M be the largest size of the step. A quiet module has vanished when it stays behind the rest: size <
           `relative_threshold` x M. Or else, if everything is quiet (M < `threshold`), when the run has learned
           nothing: over 90 % of its first loss is left.
        4. A run that is done is silent: with at most 10 % of the first loss left (median of the newest five), small
           gradients are what success looks like. Losses are used where the run saved them; without them, only the
           comparison with M decides.
        5. A gradient that grows fast has not vanished: one that is four times what it was after half as many steps, or
           in the first hundred steps ten times what it was at first. So it is behind gates and a last layer that begin
           at zero, and open.
        6. A small gradient that moves its weights has not vanished: the newest relative updates |w' - w| / |w| of a
           parameter of the module are at least 1e-5, and more than weight decay explains. Adam divides a gradient by
           its own size, so that a small one trains as fast as a large one, until it is far below `eps`. The attention
           logits of a narrow transformer begin near zero, and the gradients of its queries and keys with them.
           It has vanished all the same if it is that of the first modules and the run has learned nothing in 100 steps
           (the loss is that of a guess, or where none is known, has not fallen): Adam moves a weight by noise, too.
        7. A gradient that vanishes on its way leaves nothing for the layers before. If a module before the quiet one
           (in the order in which the model registers them) gets a sound gradient, the quiet one is a side path: it
           must be quiet for 100 steps, and is a warning then.
        8. Relative alone, a warning: no gradient is below `threshold`, but that of the first modules is below a
           ten-thousandth of the largest, and their weights stand still: they change by less than a millionth of their
           size per step, and by less than a thousandth of the change of others, after 100 steps.
        9. Three judged steps in a row must show a vanished gradient; a single quiet step raises no alarm.

        The smallest gradient leads. Amazon's VanishingGradient has the same `threshold` and reports every tensor whose
        mean |g|, zeros included, is below it. Except for point 8, the points only take findings away: whatever this
        rule reports, that one would report too.

    What to do:
        Look at the list of affected tensors first: if it begins at the input and ends somewhere in the middle, depth is
        the cause. Then change the activation, add normalisation or residual connections, or initialise to match the
        activation, in this order. If every layer is affected, look at the loss: it may be scaled down far too much, or
        the output may be saturated by inputs that were never normalised.

    Example:
        Ten layers of sigmoid: the gradient has lost nine orders of magnitude on its way to the first.

        ```python
        from trackside.rules.tensors.vanishing_gradient import vanished

        sizes = {"gradient/Net_0.weight": 4.7e-12, "gradient/Net_2.weight": 3.1e-8, "gradient/Net_20.weight": 0.021}
        found = vanished(sizes, threshold=1e-7, relative_threshold=1e-3)
        assert found == ("gradient/Net_0.weight", "gradient/Net_2.weight")

        converged = {name: 2e-8 for name in sizes}
        assert vanished(converged, threshold=1e-7, relative_threshold=1e-3, loss_left=0.001) == ()
        ```

    References:
        - Bengio, Simard, Frasconi: Learning long-term dependencies with gradient descent is difficult (1994).
        - Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks (2010).
        - Amazon SageMaker Debugger, built-in rule VanishingGradient: the parameter and its default.
    """

    rule_id = "vanishing-gradient"
    code = "TS117"
    is_of_networks = True
    watches = ("gradients",)
    save_interval = 100
    needs = ()
    severity = Severity.CRITICAL
    since = "0.1"
    patience = 3
    likely_causes = (Cause.VANISHING_GRADIENTS, Cause.SATURATED_UNITS)
    what_to_do = (
        "Replace sigmoid and tanh in the hidden layers by ReLU, GELU or SiLU.",
        "Add normalisation (BatchNorm, LayerNorm) or residual connections between the layers named above.",
        "Initialise to match the activation: Kaiming for ReLU, Xavier for tanh.",
    )

    threshold: float = parameter(1e-7, "mean |gradient| below which a gradient counts as quiet", minimum=0)
    relative_threshold: float = parameter(
        1e-3,
        "share of the step's largest mean |gradient| below which a quiet gradient has vanished",
        minimum=0,
        maximum=1,
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per gradient tensor and worker that has vanished at this step, smallest first."""
        gradients = window.tensors("gradients")
        means = window.at_step(gradients, "abs_mean").by_worker()
        zero_shares = window.at_step(gradients, "zero_share").by_worker() if means else {}
        findings = []
        for worker, of_worker in sorted(means.items()):
            shares = zero_shares.get(worker, {})
            sizes = {tensor: _size(mean, shares.get(tensor, 0.0)) for tensor, mean in of_worker.items()}
            findings += self._judge(window, worker, sizes)
        return sorted(findings, key=lambda finding: finding.observed)

    def advice(self, facts: ModelFacts | None) -> tuple[str, ...]:
        """Return the advice, without that of modules that the model has, or of activations that it has not."""
        if facts is None or not facts.modules:
            return self.what_to_do
        activations, normalisation, initial = self.what_to_do
        saturates = any(module.activation in ("sigmoid", "tanh") for module in facts.modules)
        is_normalised = any(module.role == "normalization" for module in facts.modules)
        fitting = ((activations, saturates), (normalisation, not is_normalised), (initial, True))
        return tuple(text for text, fits in fitting if fits)

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return CRITICAL if a gradient vanished on its way to the first layers, else WARNING."""
        is_certain = any(f.measure == SIZE and not f.statistics["is_side_path"] for f in findings)
        return Severity.CRITICAL if is_certain else Severity.WARNING

    def _judge(self, window: Window, worker: str, sizes: Mapping[str, float]) -> list[Finding]:
        loss_left = _loss_left(window, worker)
        quiet = vanished(
            sizes, threshold=self.threshold, relative_threshold=self.relative_threshold, loss_left=loss_left
        )
        if not quiet:
            return self._far_behind(window, worker, sizes, loss_left)
        moved = {_module(name) for name in quiet if _moves(window, name, worker=worker, size=sizes[name])}
        if moved and window.facts is not None and window.step >= _LONG and learns_nothing(window, worker):
            moved &= {_module(name) for name in side_paths(window.facts, sizes, quiet)}
        lasting = [name for name in quiet if _module(name) not in moved]
        aside = side_paths(window.facts, sizes, lasting)
        columns = [c for name in lasting for c in window.statistic(name, "abs_mean") if c.worker == worker]
        return [
            self._finding(window, column, sizes, is_side_path=column.tensor in aside)
            for column in columns
            if not grows(column) and (column.tensor not in aside or self._is_quiet_for_long(column))
        ]

    def _is_quiet_for_long(self, column: Column) -> bool:
        return int(column.steps[-1]) - _quiet_since(column, self.threshold) >= _LONG

    def _far_behind(
        self, window: Window, worker: str, sizes: Mapping[str, float], loss_left: float | None
    ) -> list[Finding]:
        """Return the findings for gradients of the first modules that are small beside the others alone."""
        limit = _FAR_BEHIND * _largest(sizes)
        names = vanished(sizes, threshold=limit, relative_threshold=1.0, loss_left=loss_left)
        if not names or window.facts is None or side_paths(window.facts, sizes, names):
            return []
        updates = _updates(window, [name for name, size in sizes.items() if size != 0], worker)
        fastest = max(updates.values(), default=0.0)
        most = min(STILL, _STANDS * fastest)
        columns = [c for name in names for c in window.statistic(name, "abs_mean") if c.worker == worker]
        if any(updates.get(column.tensor, math.inf) >= most or grows(column) for column in columns):
            return []
        return [
            replace(
                self._finding(window, column, sizes, is_side_path=False),
                measure=SHARE,
                observed=float(column.values[-1]) / _largest(sizes),
                threshold=_FAR_BEHIND,
                since_step=int(column.steps[0]),
            )
            for column in columns
            if column.values[-1] < limit and int(column.steps[-1] - column.steps[0]) >= _LONG
        ]

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return certain causes, then vanishing gradients, then broken units or saturation."""
        lead = findings[0]
        largest = lead.statistics["largest_mean_abs_gradient"]
        size = lead.observed * largest if lead.measure == SHARE else lead.observed
        because = f"{lead.subject} gets {size:.2g}, another {largest:.2g}"
        vanishing = Suspicion(Cause.VANISHING_GRADIENTS, because)
        second = what_broke_units(window) or Suspicion(Cause.SATURATED_UNITS)
        return (*certain_causes(window), vanishing, second)

    def _finding(self, window: Window, column: Column, sizes: Mapping[str, float], *, is_side_path: bool) -> Finding:
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=window.step,
            since_step=_quiet_since(column, self.threshold),
            measure=SIZE,
            observed=float(column.values[-1]),
            relation="<",
            threshold=self.threshold,
            statistics={
                "largest_mean_abs_gradient": _largest(sizes),
                "zero_gradients": float(sum(size == 0 for size in sizes.values())),
                "is_side_path": float(is_side_path),
            },
            series=column.series,
        )


def vanished(
    sizes: Mapping[str, float], *, threshold: float, relative_threshold: float, loss_left: float | None = None
) -> tuple[str, ...]:
    """Return the gradient tensors that have vanished, smallest first.

    sizes      mean |g| over the entries that are not zero, by gradient tensor of one worker and step (0 for only zeros)
    loss_left  share of the first loss that is left; None if unknown
    """
    if loss_left is not None and loss_left <= _LEARNED:
        return ()
    taking_part = {name: size for name, size in sizes.items() if size != 0}
    largest = _largest(taking_part)
    nothing_works = largest < threshold and loss_left is not None and loss_left > _NOTHING_LEARNED
    behind = math.inf if nothing_works else relative_threshold * largest
    loud = {_module(name) for name, size in taking_part.items() if not size < threshold}  # NaN is loud
    found = [name for name, size in taking_part.items() if _module(name) not in loud and size < behind]
    return tuple(sorted(found, key=lambda name: (sizes[name], name)))


def side_paths(facts: ModelFacts | None, sizes: Mapping[str, float], quiet: Sequence[str]) -> frozenset[str]:
    """Return the quiet gradients with a sound one in a module before theirs: what comes before them is reached.

    The order is that in which the model registers its parameters. Without facts there is no order, and no side path.

    facts  the facts about the program
    sizes  the size of each gradient of one worker and step, 0 for only zeros
    quiet  the gradients that are too small
    """
    if facts is None:
        return frozenset()
    order = {parameter.gradient: place for place, parameter in enumerate(facts.parameters)}
    still = {_module(name) for name in quiet}
    sound = [order[name] for name, size in sizes.items() if size != 0 and name in order and _module(name) not in still]
    first = min(sound, default=math.inf)
    return frozenset([name for name in quiet if order.get(name, -1) > first])


def grows(column: Column) -> bool:
    """Return True for a gradient of four times its value at half as many steps, or early ten times its first."""
    now = float(column.values[-1])
    known = column.values[column.values > 0]
    if column.steps[-1] < _FIRST_STEPS and known.size and now > _GREW * known[0]:
        return True
    half = int(np.searchsorted(column.steps, column.steps[-1] / 2, side="right")) - 1
    return half >= 0 and bool(now > _GROWS * column.values[half])


def learns_nothing(window: Window, worker: str) -> bool:
    """Return True if each training loss of a worker is that of a guess, or where none is known, has gained nothing.

    Args:
        window: The run up to the judged step.
        worker: The worker.
    """
    columns = [column for column in training_losses(window) if column.worker == worker]
    guesses = [best_guess(window, column.tensor, worker=worker) for column in columns]
    if None in guesses:
        return bool(columns) and not has_gained(window, share=_GAIN)
    newest = [median(column.values[-_LOSSES_THAT_STAND_STILL:]) for column in columns]
    levels = [_STANDS_STILL * guess.loss for guess in guesses if guess is not None]
    return bool(columns) and all(now > level for now, level in zip(newest, levels, strict=True))


def _moves(window: Window, gradient: str, *, worker: str, size: float) -> bool:
    """Return True if the parameter of this small gradient moves, by more than weight decay explains."""
    update = _updates(window, [gradient], worker).get(gradient, 0.0)
    if not update >= _MOVES:
        return False
    held = window.facts.parameter(gradient) if window.facts else None
    return held is None or not _decays(window, held, update=update, size=size)


def _decays(window: Window, held: ParameterFacts, *, update: float, size: float) -> bool:
    """Return True if weight decay explains the updates of a parameter with gradients of this size."""
    optimizer = window.facts.optimizer(held.optimizer) if window.facts else None
    decay = abs(optimizer.hyperparameter("weight_decay", group=held.group) or 0.0) if optimizer else 0.0
    if not decay or optimizer is None:
        return False
    if optimizer.type_name != "AdamW" and not optimizer.hyperparameter(_DECOUPLED, group=held.group):
        weights = window.statistic(held.name, "l2", last=1, mode=None)  # the decay is a part of the gradient
        if weights and decay * float(weights[0].values[-1]) / math.sqrt(max(1, held.size)) > size:
            return True
    rates = window.statistic(f"hyperparameters/{held.optimizer}/group_{held.group}/lr", "mean", last=1, mode=None)
    return bool(rates) and update < _BY_DECAY * decay * float(rates[0].values[-1])


def _updates(window: Window, gradients: Sequence[str], worker: str) -> dict[str, float]:
    """Return the median of the newest relative updates of each gradient's parameter, where they are known."""
    names = tuple([name.removeprefix("gradient/") for name in gradients])
    return {
        f"gradient/{tensor}": median(newest)
        for panel in window.newest(names, "update_ratio", last=_NEWEST, mode=None)
        for tensor, of, newest in zip(panel.tensors, panel.workers, panel.newest, strict=True)
        if of == worker
    }


def _module(name: str) -> str:
    """Return the name without its last part: `gradient/Net_fc1.weight` -> `gradient/Net_fc1`.

    A parameter of the root keeps its name.
    """
    head, dot, _ = name.rpartition(".")
    return head if dot else name


def _largest(sizes: Mapping[str, float]) -> float:
    return max((size for size in sizes.values() if math.isfinite(size)), default=0.0)


def _size(mean: float, zero_share: float) -> float:
    """Return mean |g| over the entries that are not zero; over all if only a reduction was saved (a share of 0)."""
    if not 0 < mean < math.inf:
        return mean
    return mean / (1 - zero_share) if zero_share < 1 else mean


def _loss_left(window: Window, worker: str) -> float | None:
    """Return the largest share of its first value that a loss of this worker has left; None without such a loss."""
    columns = [c for name in window.tensors("losses") for c in window.statistic(name, "mean")]
    own = [c for c in columns if c.worker == worker] or columns
    shares = [
        float(median(c.values[-_LOSSES_TO_AVERAGE:]) / c.values[0])
        for c in own
        if math.isfinite(c.values[0]) and c.values[0] > 0
    ]
    return max((share for share in shares if math.isfinite(share)), default=None)


def _quiet_since(column: Column, threshold: float) -> int:
    """Return the first step of the streak, up to the newest, over which mean |g| was below the threshold."""
    loud = np.flatnonzero(~(column.values < threshold))
    return int(column.steps[min(loud[-1] + 1, len(column.steps) - 1) if loud.size else 0])
