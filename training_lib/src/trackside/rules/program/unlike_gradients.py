"""unlike-gradients: one rank's own gradients, before they are averaged, are unlike those of the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.run.recorded_names import LOCAL_GRADIENT
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.details import Details
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.constants import A_HANDFUL, FEWEST, VISIBLE
from trackside.situation.medians import median
from trackside.situation.replicas import norms_by_step, spread
from trackside.trial.window import Window


class Oddity(IntEnum):
    """A difference of the gradients of one rank. The numbers stand in verdicts."""

    NOT_FINITE = 0
    MISSING = 1
    OF_ANOTHER_SIZE = 2


_MEASURES = {
    Oddity.NOT_FINITE: "looks at which this rank's gradients are not finite",
    Oddity.MISSING: "looks at which this rank has no gradient",
    Oddity.OF_ANOTHER_SIZE: "this rank's gradients over those of the others",
}


@dataclass(frozen=True)
class Unlike(Details):
    """Details of a finding."""

    kind: Oddity = Oddity.NOT_FINITE


@dataclass(frozen=True)
class UnlikeGradients(PyTorchRule):
    """The gradients that one rank computes are unlike those of the other ranks.

    Why it matters:
        Data-parallel ranks average their gradients, and after it all are alike: a rank that reads wrong data, has no
        gradient, or divides by zero spoils the step of every rank, and nothing shows which one it was.

    How it decides:
        At few steps, the same ones on each rank, a hook on some 16 parameters measures g, the norm of this rank's own
        gradients, before they are averaged. It speaks only of ranks whose weights are copies of one another. A rank is
        named that

        1. has a g that is not finite while another's is finite, at any look, or
        2. has no gradient (g = 0) at each of the newest 3 looks, where others have one, or
        3. has a g of more than `times` the median of the others, or less than one in `times`, at each of the newest
           `looks` looks, and at each to the same side. With two ranks the one with the larger g is named.

        The first two are warnings, the third is a remark: ranks may have different data on purpose. Workers of which
        none shares weights (pipelines, tensor parallelism) are silent.

    Example:
        ```python
        import numpy as np
        from trackside.rules.program.unlike_gradients import odd_one

        norms = np.array([[1.0, 1.1, 0.9], [8.0, 9.0, 7.5], [1.2, 1.0, 1.0]])  # ranks x looks
        assert odd_one(norms, times=4) == 1
        assert odd_one(norms[[0, 2]], times=4) is None
        ```

    References:
        - PyTorch: DDP communication hooks, which a program may have for itself.
    """

    rule_id = "unlike-gradients"
    code = "TS222"
    watches = ("weights", "biases", "losses")
    escalates = True
    since = "0.1"
    likely_causes = (Cause.UNLIKE_RANKS,)
    shows_its_cause = True
    what_to_do = (
        "Print a batch and its loss on each rank.",
        "Give each rank the same data set, prepared alike, and another share of it (DistributedSampler).",
    )

    times: float = parameter(4.0, "norm of one rank's gradients over the median of the others", minimum=1)
    looks: int = parameter(8, "newest looks that must all show it", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for the rank that is unlike the others."""
        columns = window.statistic(LOCAL_GRADIENT, "l2", mode=None)
        if len(columns) < 2:
            return []
        steps, norms = norms_by_step(columns)
        if not len(steps) or not _are_copies(window):
            return []
        kind, at, ranks = self._odd(norms)
        return [self._finding(window, columns[rank].worker, steps, norms[rank], at, kind=kind) for rank in ranks]

    def _odd(self, norms: NDArray[np.float64]) -> tuple[Oddity, int, Sequence[int]]:
        """Return the kind of oddity, the index of the look since which it holds, and the ranks that show it."""
        broken = np.flatnonzero(~np.isfinite(norms).all(axis=0))
        if broken.size:
            at = int(broken[0])
            ranks = np.flatnonzero(~np.isfinite(norms[:, at])).tolist()
            return Oddity.NOT_FINITE, at, ranks if len(ranks) < len(norms) else []  # of all alike: another rule's
        newest, at = norms[:, -FEWEST:], norms.shape[1] - FEWEST
        if at >= 0 and (newest > 0).any(axis=0).all() and (newest == 0).all(axis=1).any():
            return Oddity.MISSING, at, np.flatnonzero((newest == 0).all(axis=1)).tolist()
        at = norms.shape[1] - self.looks
        odd = odd_one(norms[:, at:], times=self.times) if at >= 0 else None
        return Oddity.OF_ANOTHER_SIZE, at, [] if odd is None else [odd]

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a training by a single process."""
        return "one process trains, so nothing is averaged" if facts.program.world_size == 1 else ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: the rank, and what is wrong with its gradients."""
        lead = findings[0]
        what = ("are not finite", "are missing", f"are {lead.observed:.3g} times those of the other ranks in size")
        which = what[Unlike.of(lead).kind]
        return f"The gradients of {lead.worker} {which} before they are averaged, since step {lead.since_step}."

    def _finding(
        self,
        window: Window,
        worker: str,
        steps: NDArray[np.int64],
        norms: NDArray[np.float64],
        at: int,
        *,
        kind: Oddity,
    ) -> Finding:
        measure, observed, limit = _MEASURES[kind], float(len(steps) - at), 0.0
        if kind is Oddity.OF_ANOTHER_SIZE:
            columns = window.statistic(LOCAL_GRADIENT, "l2", mode=None)
            others = median(np.concatenate([c.values[-self.looks :] for c in columns if c.worker != worker]))
            observed = median(norms[-self.looks :]) / max(others, float(np.finfo(np.float64).tiny))
            limit = self.times if observed > 1 else 1 / self.times
        elif kind is Oddity.NOT_FINITE:
            observed = float(np.count_nonzero(~np.isfinite(norms)))
        return Finding(
            subject=LOCAL_GRADIENT,
            worker=worker,
            step=window.step,
            since_step=int(steps[at]),
            measure=measure,
            observed=observed,
            relation=">" if observed > limit else "<",
            threshold=limit,
            statistics=Unlike(kind).numbers(),
            series=tuple([(int(step), float(value)) for step, value in zip(steps[-20:], norms[-20:], strict=True)]),
            grade=Severity.INFO if kind is Oddity.OF_ANOTHER_SIZE else Severity.WARNING,
        )


def odd_one(norms: NDArray[np.float64], *, times: float) -> int | None:
    """Return the rank with norms all far above, or all far below, the median of the others; None without one.

    Args:
        norms: Norms by rank and look, shape (ranks, looks); finite.
        times: How far.
    """
    found: list[tuple[float, int]] = []
    for rank in range(len(norms)):
        others = np.median(np.delete(norms, rank, axis=0), axis=0)
        ratios = norms[rank] / np.maximum(others, np.finfo(np.float64).tiny)
        if (ratios > times).all() or (len(norms) > 2 and (ratios < 1 / times).all()):
            found.append((float(np.abs(np.log(np.maximum(ratios, 1e-30))).min()), rank))
    return max(found)[1] if found else None


def _are_copies(window: Window) -> bool:
    """Return True if the weights that several workers measured at one step are the same."""
    compared, facts = 0, window.facts
    names = [p.name for p in facts.parameters if not p.tied_to] if facts is not None else []
    for name in names or (*window.tensors("weights"), *window.tensors("biases")):
        columns = window.statistic(name, "l2", mode=None)
        if len(columns) < 2 or window.statistic(name, "is_sharded", last=1, mode=None):
            continue
        steps, norms = norms_by_step(columns)
        sound = np.flatnonzero(np.isfinite(norms).all(axis=0))
        if not len(steps) or not sound.size:
            continue
        if spread(norms[:, sound[-1]]) > VISIBLE:
            return False
        compared += 1
        if compared >= A_HANDFUL:
            break
    return compared > 0
