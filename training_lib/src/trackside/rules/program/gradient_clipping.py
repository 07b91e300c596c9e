"""gradient-clipping: clipping leaves hardly anything of the gradients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.observations import CLIPPINGS
from trackside.contracts.run.recorded_names import CLIPPING
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.constants import (
    ALL_BUT_A_FEW,
    CUT_TO_ONE_SIZE,
    CUT_TO_ONE_SIZE_OF_TENSOR,
    HARDLY_VISIBLE,
    LEARNED,
    ROUNDING_OF_NORMS,
    SHRUNK,
)
from trackside.situation.losses.losses import learned_share
from trackside.situation.measurements import Evidence
from trackside.situation.medians import median
from trackside.situation.weight_updates import have_shrunk, norms_of_weights
from trackside.trial.window import Column, Window

SAME = "share of the steps, or of the tensors, with the very same norm of the gradient"
_KEPT = "share of the gradient that clipping leaves"


@dataclass(frozen=True)
class GradientClipping(NetworkRule):
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
    watches = ("gradients", "losses")
    patience = 2
    since = "0.1"
    likely_causes = (Cause.CLIPPING_TOO_LOW, Cause.EXPLODING_GRADIENTS)
    suspects = (
        Suspect(Cause.CLIPPING_TOO_LOW, "the gradients have the very same norm, step by step: {norm:.3g} now", (SAME,)),
        Suspect(Cause.CLIPPING_TOO_LOW, "a gradient of norm {usual_norm:.3g} is cut to {limit:.3g}", (_KEPT,)),
        Suspect(Cause.EXPLODING_GRADIENTS, only=(_KEPT,)),
    )
    shows_its_cause = True
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

    def _unseen(self, window: Window) -> list[Finding]:
        """Return one finding per worker with gradients that are cut where no hook sees it."""
        ratio, learned = Evidence(window).update_ratio, learned_share(window)
        is_slow = ratio is not None and ratio < HARDLY_VISIBLE
        if (
            _are_free_of_scale(window.facts)
            or not (is_slow or _shrink(window))
            or (learned is not None and learned >= LEARNED)
        ):
            return []
        by_worker: dict[str, list[NDArray[np.float64]]] = {}
        for panel in window.newest(tuple(window.tensors("gradients")), "l2", last=self.steps, mode=None):
            for worker, norms in zip(panel.workers, panel.newest, strict=True):
                if len(norms) >= self.steps:
                    by_worker.setdefault(worker, []).append(norms)
        return [
            finding_of(
                window,
                "gradients",
                SAME,
                share,
                above=CUT_TO_ONE_SIZE,
                worker=worker,
                statistics={"norm": float(np.sqrt(sum(float(norms[-1]) ** 2 for norms in several)))},
            )
            for worker, several in by_worker.items()
            if (share := share_of_same(np.stack(several))) > CUT_TO_ONE_SIZE
        ]

    def _judge(self, window: Window, norms: Column, limits: Column) -> Finding | None:
        steps, at_norms, at_limits = np.intersect1d(norms.steps, limits.steps, return_indices=True)
        steps = steps[-self.steps :]
        if len(steps) < self.steps // 2:
            return None
        before, limit = norms.values[at_norms][-self.steps :], limits.values[at_limits][-self.steps :]
        kept = kept_shares(before, limits=limit)
        usual_share = median(kept)
        if not usual_share < self.share or not float(np.mean(kept < 1)) >= ALL_BUT_A_FEW:
            return None
        facts = window.facts
        place = CLIPPINGS.of(facts.program)[0].line if facts and CLIPPINGS.of(facts.program) else ""
        return finding_of(
            window,
            CLIPPING,
            _KEPT,
            usual_share,
            below=self.share,
            since=int(steps[0]),
            worker=norms.worker,
            series=tuple([(int(step), float(value)) for step, value in zip(steps[-20:], kept[-20:], strict=True)]),
            statistics={
                "usual_norm": median(before),
                "limit": median(limit),
                "share_of_steps": float(np.mean(kept < 1)),
            },
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
    are_same = [_share_at_usual(row) > CUT_TO_ONE_SIZE_OF_TENSOR for row in norms if row.any()]
    of_tensors = sum(are_same) / len(are_same) if sum(are_same) > 1 else 0.0
    return max(_share_at_usual(total[0]), of_tensors)


def _share_at_usual(norms: NDArray[np.float64]) -> float:
    usual = median(norms)
    return float(np.mean(np.abs(norms - usual) <= ROUNDING_OF_NORMS * usual)) if usual > 0 else 0.0


def kept_shares(norms: NDArray[np.float64], *, limits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of each gradient that a limit leaves, 0 to 1; `norms` before clipping, both of shape (n,)."""
    sound = np.where(np.isfinite(norms) & (norms > 0), norms, limits)
    return np.asarray(limits / np.maximum(sound, limits))


def _shrink(window: Window) -> bool:
    columns = norms_of_weights(window)
    return have_shrunk({c.tensor: float(c.values[-1] / c.values[0]) for c in columns}, share=SHRUNK)


def _is_slow(window: Window) -> bool:
    learned, ratio = learned_share(window), Evidence(window).update_ratio
    if _are_free_of_scale(window.facts):
        return ratio is not None and ratio < HARDLY_VISIBLE
    return learned is None or learned < LEARNED or (ratio is not None and ratio < HARDLY_VISIBLE)


def _are_free_of_scale(facts: ModelFacts | None) -> bool:
    """Return True if the steps of all optimizers are the same however small the gradients are."""
    optimizers = facts.optimizers if facts is not None else ()
    return bool(optimizers) and all(
        any("eps" in group or "betas_1" in group for group in optimizer.groups) for optimizer in optimizers
    )
