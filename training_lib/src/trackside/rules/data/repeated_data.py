"""repeated-data: the training gets the same data again and again instead of all data in turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.observations import SHARED_RANDOMNESS
from trackside.contracts.run.recorded_names import BATCH, BATCH_OF_ONE_ROW, BATCH_REPEATED, ROWS_REPEATED, SAME_VIEWS
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

_DRAWN = "share of rows drawn before in the same pass"
_VIEWS = "share of looks at which both views of a batch were the same"
WORKERS_ALIKE = "random numbers of the workers"
_SPREADS_DATA = frozenset({"DDP", "FSDP1", "FSDP2"})


_EVIDENCE = {
    "share of batches that came before": "the same batches come back long before the data set is through",
    _DRAWN: "the same rows come again and again, while most of the data set never come",
    _VIEWS: "the loss compares two views of a batch that are the same",
    "share of batches of equal rows": "all rows of a batch are equal",
    "share of batches that are the same on all ranks": "all ranks train on the same batches",
}


def _shared_randomness(known: Known) -> Answer:
    facts = known.window.facts
    is_shared = facts is not None and bool(known.findings) and known.lead.subject == WORKERS_ALIKE
    return f"every worker copies {SHARED_RANDOMNESS.of(facts.program)}" if is_shared and facts is not None else False


@dataclass(frozen=True)
class RepeatedData(Rule):
    """Batches or rows of the training data repeat.

    Why it matters:
        A loop that makes a new iterator for each batch gets the first batch each time. An iterable data set that does
        not divide itself gives every sample to each worker. A collator that goes wrong fills a batch with one sample.
        Ranks without a distributed sampler all train on the same batch. The loss falls in each case, often faster than
        it should, and the model has seen a fraction of the data. Contrastive learning compares two views of a batch:
        where both are the same one, there is nothing to become invariant to.

    How it decides:
        The hook takes a fingerprint of the batches that DataLoaders return, a few hundred elements of each tensor. Over
        the newest `steps` fingerprints of a worker it fires where

        1. at least `share` of the batches came before, less than half of the data set ago (of a data set without a
           length: from another worker, right before);
        2. at least `rows_share` of the batches consist of equal rows;
        3. all ranks of data-parallel training had the same batches, at `rows_share` of the steps;
        4. several workers copy one random generator of the data set, which it draws from for each sample, or a
           `worker_init_fn` seeds them all alike. This is read from the program, not from the batches;
        5. at least `drawn_share` of the rows that the sampler drew in a pass had been drawn in it before, and less than
           half of the data set came: with 0.7, each row more than three times, while most never come. A subset that
           is drawn in turn and a sampler with weights that come down to less are silent;
        6. in the newest `views` looks into the graph of the loss two passes of one model were the same in each linear
           layer and convolution, and their outputs meet in a product, a difference or a concatenation. Passes with
           dropout, and terms of a loss that use one model each, are silent.

        Batches of one row, data sets of fewer than four batches, a batch that is fetched once and used for ever, and
        data that are not read by a DataLoader are silent.

    Example:
        ```python
        import numpy as np
        from trackside.rules.data.repeated_data import share_of_newest

        assert share_of_newest(np.array([0.0, 1.0, 1.0, 1.0]), steps=2) == 1.0
        assert share_of_newest(np.array([1.0]), steps=2) is None  # too early to tell
        ```

    References:
        - PyTorch, `torch.utils.data`, "Multi-process data loading": workers and randomness, iterable data sets.
        - TrainCheck (OSDI 2025): a seed shared by workers, a batch that collapses to one sample.
    """

    rule_id = "repeated-data"
    code = "TS209"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    paced = True
    since = "0.1"
    likely_causes = (Cause.REPEATED_DATA,)
    suspects = (
        Suspect(Cause.REPEATED_DATA, _shared_randomness),
        *[Suspect(Cause.REPEATED_DATA, clause, (kind,)) for kind, clause in _EVIDENCE.items()],
        Suspect(Cause.REPEATED_DATA),
    )
    shows_its_cause = True
    what_to_do = (
        "Make the iterator once per epoch: for batch in loader, not next(iter(loader)) at each step.",
        "Divide the data among workers (get_worker_info) and ranks (DistributedSampler); seed each worker otherwise.",
        "Count the different row numbers that the sampler gives in a pass: they should be as many as it draws.",
        "Print the first rows of a batch behind the collate function: they should be different.",
        "Augment each view of a batch by a call of its own.",
    )

    steps: int = parameter(20, "newest fingerprints that are looked at", minimum=2)
    share: float = parameter(0.4, "share of batches that came before", minimum=0, maximum=1)
    rows_share: float = parameter(
        0.9, "share of batches of equal rows, or of equal batches on ranks", minimum=0, maximum=1
    )

    drawn_share: float = parameter(
        0.7, "share of rows that were drawn before in the same pass, while most never came", minimum=0, maximum=1
    )

    views: int = parameter(4, "newest looks into the graph at which two compared views were the same", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker and kind of repetition."""
        found = [*self._over(window, BATCH_REPEATED, "share of batches that came before", self.share)]
        found += self._over(window, BATCH_OF_ONE_ROW, "share of batches of equal rows", self.rows_share)
        found += self._over(window, ROWS_REPEATED, _DRAWN, self.drawn_share)
        found += [*self._over(window, SAME_VIEWS, _VIEWS, 1.0, steps=self.views)]
        return [*found, *self._on_ranks(window), *self._by_workers(window)]

    def lacks(self, window: Window) -> str:
        """Name the missing input: fingerprints of enough batches."""
        columns = window.statistic(BATCH, "mean", mode=None)
        if any(len(column.values) >= self.steps for column in columns) or not columns:
            return ""
        return f"{self.steps} batches of a DataLoader"

    def _over(self, window: Window, name: str, measure: str, limit: float, *, steps: int = 0) -> Iterable[Finding]:
        for column in window.statistic(name, "mean", mode=None):
            share = share_of_newest(column.values, steps=steps or self.steps)
            if share is not None and share >= limit and share > 0:
                yield self._finding(window, column, share=share, limit=limit, measure=measure, since=_begin(column))

    def _on_ranks(self, window: Window) -> list[Finding]:
        facts = window.facts
        if facts is None or facts.program.world_size < 2 or facts.program.data_parallel not in _SPREADS_DATA:
            return []
        columns = window.statistic(BATCH, "mean", mode=None)
        if len(columns) < facts.program.world_size:
            return []
        steps, are_equal = equal_batches(columns)
        share = share_of_newest(are_equal, steps=self.steps)
        if share is None or share < self.rows_share:
            return []
        measure = "share of batches that are the same on all ranks"
        since = int(steps[-self.steps])
        return [self._finding(window, columns[0], share=share, limit=self.rows_share, measure=measure, since=since)]

    def _by_workers(self, window: Window) -> list[Finding]:
        facts = window.facts
        if facts is None or not SHARED_RANDOMNESS.of(facts.program):
            return []
        return [
            finding_of(
                window,
                WORKERS_ALIKE,
                "random generators that all workers copy",
                1.0,
                above=0.0,
                since=facts.from_step,
            )
        ]

    def _finding(
        self, window: Window, column: Column, *, share: float, limit: float, measure: str, since: int
    ) -> Finding:
        return finding_of(
            window,
            column,
            measure,
            share,
            above=min(limit, float(np.nextafter(share, -1))),
            since=since,
            series=column.series if column.tensor != BATCH else (),
        )


def share_of_newest(values: NDArray[np.float64], *, steps: int) -> float | None:
    """Return the mean of the newest `steps` values; None with fewer values."""
    return float(np.mean(values[-steps:])) if len(values) >= steps else None


def equal_batches(columns: Sequence[Column]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the steps that all columns have, and 1 for each at which their values are equal, else 0."""
    steps = columns[0].steps
    for column in columns[1:]:
        steps = np.intersect1d(steps, column.steps, assume_unique=True)
    values = np.stack([column.values[np.searchsorted(column.steps, steps)] for column in columns])
    return steps, (values == values[:1]).all(axis=0).astype(np.float64)


def _begin(column: Column) -> int:
    """Return the step from which on the newest values are not zero for good, or the first with a one."""
    ones = np.flatnonzero(column.values > 0)
    return int(column.steps[ones[0]])
