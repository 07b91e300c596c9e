"""replicas-differ: the workers' copies of one model are no longer the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.medians import median
from trackside.situation.replicas import norms_by_step, spread
from trackside.trial.window import Window


@dataclass(frozen=True)
class ReplicasDiffer(NetworkRule):
    """The copies of the model on several workers have drifted apart.

    Why it matters:
        Data-parallel workers hold copies of one model. Where one of them misses a synchronisation, starts from other
        weights or changes some by itself, each worker trains a model of its own. The average of their losses looks
        fine, and the checkpoint holds only one of them.

    How it decides:
        Each worker records the L2 norm of its weights now and then. Copies hold the same numbers, so their norms are
        the same too, up to the rounding of one sum.

        1. For each parameter that every worker holds whole (not sharded by FSDP or tensor parallelism), take the newest
           step at which all workers recorded its norm, and the one two measurements earlier.
        2. d = (largest - smallest) / largest over the workers. It has drifted where d > `tolerance` at both steps; the
           finding names the worker with the norm farthest from the median.
        3. A single worker, or workers that train models of other names, are silent.

        Workers that average their weights only now and then (local SGD) differ in between by design: leave this rule
        out there. Running means of normalisation layers are buffers, which differ in healthy runs, and are not looked
        at.

    Example:
        ```python
        import numpy as np
        from trackside.situation.replicas import spread

        assert spread(np.array([3.0, 3.0])) == 0.0
        assert spread(np.array([3.0, 3.3])) > 0.05
        ```

    References:
        - BLOOM training chronicles: layer norms of the ranks that differed were found by accident.
        - TrainCheck (OSDI 2025): consistency of replicas as an invariant.
    """

    rule_id = "replicas-differ"
    code = "TS210"
    watches = ("weights", "biases")
    patience = 2
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.REPLICAS_DIFFER,)
    shows_its_cause = True
    what_to_do = (
        "Start all workers from the same weights: wrap the model before the optimizer is built.",
        "Call the wrapped model, not the module inside it, and change weights on all workers alike.",
    )

    tolerance: float = parameter(
        1e-5, "relative difference of the norms of two copies above which they have drifted apart", minimum=0
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per parameter with copies that differ, the largest difference first."""
        names = tuple(_with_copies(window, (*window.tensors("weights"), *window.tensors("biases"))))
        found = [finding for name in names if (finding := self._judge(window, name)) is not None]
        return sorted(found, key=lambda finding: -finding.observed)

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a training by a single process."""
        return "one process trains, so there is no replica" if facts.program.world_size == 1 else ""

    def _judge(self, window: Window, name: str) -> Finding | None:
        columns = window.statistic(name, "l2", mode=None)
        if len(columns) < 2 or window.statistic(name, "is_sharded", last=1, mode=None):
            return None
        steps, norms = norms_by_step(columns)
        if len(steps) < 3:
            return None
        before, now = spread(norms[:, -3]), spread(norms[:, -1])
        if not min(before, now) > self.tolerance:
            return None
        spreads = [spread(column) for column in norms.T]
        same = [place for place, value in enumerate(spreads) if not value > self.tolerance]
        farthest = int(np.argmax(np.abs(norms[:, -1] - median(norms[:, -1]))))
        return finding_of(
            window,
            name,
            "relative difference of the copies' norms",
            now,
            above=self.tolerance,
            since=int(steps[same[-1] + 1 if same else 0]),
            worker=columns[farthest].worker,
            series=tuple([(int(step), value) for step, value in zip(steps[-20:], spreads[-20:], strict=True)]),
        )


def _with_copies(window: Window, names: tuple[str, ...]) -> list[str]:
    """Return the tensors that several workers measured."""
    panels = window.newest(names, "l2", last=1, mode=None)
    copies = Counter(name for panel in panels for name in panel.tensors)
    return [name for name in names if copies[name] > 1]
