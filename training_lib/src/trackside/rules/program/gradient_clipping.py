"""gradient-clipping: clipping leaves hardly anything of the gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.recorded_names import CLIPPING
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import Evidence, learned_share
from trackside.rules.medians import median
from trackside.rules.rule import Rule, parameter
from trackside.rules.shrinking import have_shrunk, norms_of_weights
from trackside.trial.window import Column, Window

_SLOW_UPDATES = 1e-4  # relative update of the weights in a step
_LEARNED = 0.3  # of the first loss
_ALWAYS = 0.95  # share of the steps
_ROUNDING = 1e-5  # relative difference of norms that were cut to the same size
_SHRUNK = 0.5  # norm of the weights over their first
_SAME, _SAME_OF_TENSOR = 0.19, 0.14  # shares of the steps; of 40 norms as they are, one is the usual one
SAME = "share of the steps, or of the tensors, with the very same norm of the gradient"


@dataclass(frozen=True)
class GradientClipping(Rule):
    """Clipping leaves hardly anything of the gradients.

    Why it matters:
        Clipping is a fuse for rare spikes. A limit far below the usual norm cuts every step, so that plain SGD crawls
        at a hundredth of the learning rate that was set, and each batch counts the same, however large its gradient is.

    How it decides:
        The hook records the norm n of all gradients before `clip_grad_norm_` cuts them to at most m.

        1. At each step, k = min(1, m / n) is the share of the gradient that clipping leaves.
        2. Over the newest `steps` steps (half of them at least), it fires where the median of k is below `share` and
           k < 1 at nearly every step (95 %).
        3. Clipping that hard is harmless where each optimizer divides by the size of the gradients (its groups have an
           `eps` or two betas: Adam, RMSprop and their like). Then it fires only where a step changes the weights by
           less than 1e-4. With others it is silent where the loss has lost 30 % of its first value, unless a step
           changes the weights by less than that.
        4. Clipping by value, and what a script does by hand, show in their result: the norm of all gradients is the
           usual one, to a hundred-thousandth, at a fifth of the newest `steps` steps, or that of a fifth of the tensors
           (two at least) is at one in seven. It fires where less than 30 % of the loss is gone, and a step changes the
           weights by less than 1e-4, or they shrink to half: a decay outweighs such gradients, and moves the weights.

        How often and how hard clipping bites stands in the finding. Amazon's Debugger has no such rule; its
        documentation names one, GradientClipping, without a description.

    What to do:
        Raise the limit to about the usual norm, so that few steps are cut, or leave clipping out.

    Example:
        ```python
        import numpy as np
        from trackside.rules.program.gradient_clipping import kept_shares

        shares = kept_shares(np.array([0.5, 2.0, 200.0]), limits=np.array([1.0, 1.0, 1.0]))
        assert shares.tolist() == [1.0, 0.5, 0.005]
        ```

    References:
        - Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks (2013): half to ten times
          the average norm as a limit.
    """

    rule_id = "gradient-clipping"
    code = "TS202"
    is_of_networks = True
    watches = ("gradients", "losses")
    save_interval = 500
    needs = ()
    paced = True
    patience = 2
    severity = Severity.WARNING
    since = "0.1"
    likely_causes = (Cause.CLIPPING_TOO_LOW, Cause.EXPLODING_GRADIENTS)
    shows_its_cause = True  # it fires where the training is slow, and nearly all of the gradient is cut off
    what_to_do = (
        "Raise the clipping limit to about the usual norm of the gradient, so that few steps are cut.",
        "If the norms are right and the limit is meant, use a larger learning rate instead.",
    )

    share: float = parameter(0.05, "share of the gradient that clipping must leave", minimum=0, maximum=1)
    steps: int = parameter(40, "newest steps that are looked at", minimum=2)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with gradients cut to almost nothing."""
        limits = {column.worker: column for column in window.statistic(CLIPPING, "max_norm", mode=None)}
        columns = [c for c in window.statistic(CLIPPING, "mean", mode=None) if c.worker in limits]
        found = [finding for c in columns if (finding := self._judge(window, c, limits[c.worker])) is not None]
        if found and _is_slow(window):
            return found
        return [] if found else self._unseen(window)

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return a limit that is too low, then exploding gradients."""
        lead = findings[0]
        if lead.measure == SAME:
            because = f"the gradients have the very same norm, step by step: {lead.statistics['norm']:.3g} now"
            return (Suspicion(Cause.CLIPPING_TOO_LOW, because),)
        because = f"a gradient of norm {lead.statistics['usual_norm']:.3g} is cut to {lead.statistics['limit']:.3g}"
        return (Suspicion(Cause.CLIPPING_TOO_LOW, because), Suspicion(Cause.EXPLODING_GRADIENTS))

    def _unseen(self, window: Window) -> list[Finding]:
        """Return one finding per worker with gradients that are cut where no hook sees it."""
        ratio, learned = Evidence(window).update_ratio, learned_share(window)
        is_slow = ratio is not None and ratio < _SLOW_UPDATES
        if not (is_slow or _shrink(window)) or (learned is not None and learned >= _LEARNED):
            return []
        by_worker: dict[str, list[NDArray[np.float64]]] = {}
        for panel in window.newest(tuple(window.tensors("gradients")), "l2", last=self.steps, mode=None):
            for worker, norms in zip(panel.workers, panel.newest, strict=True):
                if len(norms) >= self.steps:
                    by_worker.setdefault(worker, []).append(norms)
        return [
            Finding(
                subject="gradients",
                worker=worker,
                step=window.step,
                since_step=window.step,
                measure=SAME,
                observed=share,
                relation=">",
                threshold=_SAME,
                statistics={"norm": float(np.sqrt(sum(float(norms[-1]) ** 2 for norms in several)))},
            )
            for worker, several in by_worker.items()
            if (share := share_of_same(np.stack(several))) > _SAME
        ]

    def _judge(self, window: Window, norms: Column, limits: Column) -> Finding | None:
        steps, at_norms, at_limits = np.intersect1d(norms.steps, limits.steps, return_indices=True)
        steps = steps[-self.steps :]
        if len(steps) < self.steps // 2:
            return None
        before, limit = norms.values[at_norms][-self.steps :], limits.values[at_limits][-self.steps :]
        kept = kept_shares(before, limits=limit)
        usual_share = median(kept)
        if not usual_share < self.share or not float(np.mean(kept < 1)) >= _ALWAYS:
            return None
        facts = window.facts
        place = facts.program.clipping[0].line if facts and facts.program.clipping else ""
        return Finding(
            subject=CLIPPING,
            worker=norms.worker,
            step=window.step,
            since_step=int(steps[0]),
            measure="share of the gradient that clipping leaves",
            observed=usual_share,
            relation="<",
            threshold=self.share,
            statistics={
                "usual_norm": median(before),
                "limit": median(limit),
                "share_of_steps": float(np.mean(kept < 1)),
            },
            series=tuple([(int(step), float(value)) for step, value in zip(steps[-20:], kept[-20:], strict=True)]),
            place=place,
        )


def share_of_same(norms: NDArray[np.float64]) -> float:
    """Return the share of the steps with the usual norm of all gradients, or that of tensors with such steps, if more.

    One tensor alone may have few different gradients: the last bias, for a loss of signs. 0 where a norm is not finite,
    or all are zero. `norms`: shape (tensors, steps).
    """
    if not np.isfinite(norms).all() or not norms.any():
        return 0.0
    total = np.sqrt(np.square(norms).sum(axis=0, keepdims=True))
    are_same = [_share_at_usual(row) > _SAME_OF_TENSOR for row in norms if row.any()]
    of_tensors = sum(are_same) / len(are_same) if sum(are_same) > 1 else 0.0
    return max(_share_at_usual(total[0]), of_tensors)


def _share_at_usual(norms: NDArray[np.float64]) -> float:
    usual = median(norms)
    return float(np.mean(np.abs(norms - usual) <= _ROUNDING * usual)) if usual > 0 else 0.0


def kept_shares(norms: NDArray[np.float64], *, limits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of each gradient that a limit leaves, 0 to 1; `norms` before clipping, both of shape (n,)."""
    sound = np.where(np.isfinite(norms) & (norms > 0), norms, limits)
    return np.asarray(limits / np.maximum(sound, limits))


def _shrink(window: Window) -> bool:
    columns = norms_of_weights(window)
    return have_shrunk({c.tensor: float(c.values[-1] / c.values[0]) for c in columns}, share=_SHRUNK)


def _is_slow(window: Window) -> bool:
    learned, ratio = learned_share(window), Evidence(window).update_ratio
    if _are_free_of_scale(window.facts):
        return ratio is not None and ratio < _SLOW_UPDATES
    return learned is None or learned < _LEARNED or (ratio is not None and ratio < _SLOW_UPDATES)


def _are_free_of_scale(facts: ModelFacts | None) -> bool:
    """Return True if the steps of all optimizers are the same however small the gradients are."""
    optimizers = facts.optimizers if facts is not None else ()
    return bool(optimizers) and all(
        any("eps" in group or "betas_1" in group for group in optimizer.groups) for optimizer in optimizers
    )
