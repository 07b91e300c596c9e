"""one-batch-epochs: a batch is the whole data set, and a training of a few epochs has a few steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import BATCH_NUMBER, BATCH_REPEATED, EPOCH
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.aims import has_several_aims
from trackside.situation.losses.losses import learned_share, training_losses
from trackside.situation.medians import median
from trackside.trial.window import Column, Window

_SECOND_ORDER = frozenset({"LBFGS"})  # a step of theirs is many evaluations of one batch


@dataclass(frozen=True)
class Epochs(Details):
    """Details of a finding.

    passes  number of passes over the data
    gone    share of the loss that they took away
    """

    passes: int = 0
    gone: float = 0.0


@dataclass(frozen=True)
class OneBatchEpochs(Rule):
    """A batch holds the whole data set, and the few steps of a training are not enough.

    Why it matters:
        A batch size that is left out, set to the length of the data, or given to another argument makes each epoch one
        step. Twenty epochs are then twenty steps where a batch of 64 rows makes hundreds. Each step is exact and slow,
        the loss falls smoothly, and the model has learned next to nothing when the epochs are over.

    How it decides:
        When the run has ended, from the number of each batch in its pass over a DataLoader:

        1. Each batch was the first of its pass, of `fewest_passes` passes at least, and the data have less than four
           batches of this size.
        2. The batches have at least `least_rows` rows, by the input of the loss or the DataLoader.
        3. The run had at most `most_steps` steps.
        4. The training loss has lost less than `learned` of its first value, and was still falling: its median over the
           newest quarter of the steps is below that of the quarter before by more than `falling` of it.

        LBFGS, which wants whole data sets, and programs with several optimizers are left out.

    Example:
        ```python
        import numpy as np
        from trackside.rules.data.one_batch_epochs import is_falling

        assert is_falling(np.linspace(2.3, 2.1, 20), share=0.001)
        assert not is_falling(np.full(20, 2.3), share=0.001)
        ```

    References:
        - Humbatova et al.: Taxonomy of real faults in deep learning systems (ICSE 2020), "batching required".
        - Keskar et al.: On large-batch training for deep learning (ICLR 2017).
    """

    rule_id = "one-batch-epochs"
    code = "TS226"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    paced = True
    since = "0.1"
    likely_causes = (Cause.LARGE_BATCHES,)
    suspects = (Suspect(Cause.LARGE_BATCHES, "{passes:.0f} epochs had one batch each"),)
    shows_its_cause = True
    what_to_do = (
        "Give the DataLoader a batch size: 32 to 256 rows are usual.",
        "Count the steps of an epoch before a long run: len(loader).",
    )

    fewest_passes: int = parameter(4, "passes over the data, of one batch each", minimum=2)
    least_rows: int = parameter(128, "number of rows of a batch, below which the data are few", minimum=1)
    most_steps: int = parameter(100, "steps of a run, above which it may be meant", minimum=1)
    learned: float = parameter(0.5, "share of the first loss that must be gone for few steps to be right", maximum=1)
    falling: float = parameter(
        0.001, "decrease of the loss from a quarter of the steps to the next, as a share of it", minimum=0
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with one batch an epoch, if the ended run was too short for that."""
        losses = training_losses(window)
        if not window.is_last or not losses or has_several_aims(window) or not self._has_many_rows(window):
            return []
        longest = max(losses, key=lambda column: len(column.values))
        taken = int(window.rests(longest.worker).places(longest.steps)[-1]) + 1
        gone = learned_share(window, newest=max(1, taken // 4))
        if taken > self.most_steps or gone is None or gone >= self.learned:
            return []
        if not is_falling(longest.values, share=self.falling):
            return []
        return [
            finding_of(
                window,
                EPOCH,
                "batches an epoch",
                1.0,
                below=2.0,
                since=int(passes.steps[0]),
                worker=passes.worker,
                series=passes.series,
                statistics=Epochs(len(passes.values), gone).numbers(),
            )
            for passes in self._of_one_batch(window)
        ]

    def lacks(self, window: Window) -> str:
        """Name the missing input: batches of a DataLoader."""
        return "" if window.statistic(BATCH_NUMBER, "mean", mode=None) else "batches of a DataLoader"

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: the number of steps, and the share of the loss that they took away."""
        seen = Epochs.of(findings[0])
        return (
            f"Each batch held the whole data set: {seen.passes} epochs were as many steps, which took "
            f"{max(0.0, 100 * seen.gone):.0f} % of the loss away, and it was still falling."
        )

    def _has_many_rows(self, window: Window) -> bool:
        facts = window.facts
        if facts is None or any(each.type_name in _SECOND_ORDER for each in facts.optimizers):
            return False
        rows = [each.input_shape[0] for each in facts.losses if each.input_shape]
        rows += [loader.batch_size for speed in window.speed_facts.values() for loader in speed.loaders]
        return max(rows, default=0) >= self.least_rows

    def _of_one_batch(self, window: Window) -> list[Column]:
        """Return the number of the pass at each step, of each worker that never had a second batch of one."""
        numbers = {column.worker: column for column in window.statistic(BATCH_NUMBER, "mean", mode=None)}
        # It tells batches apart where the data have four and more: `next(iter(loader))` draws new ones each time.
        may_repeat = {column.worker for column in window.statistic(BATCH_REPEATED, "mean", mode=None)}
        return [
            passes
            for passes in window.statistic(EPOCH, "mean", mode=None)
            if passes.worker in numbers
            and passes.worker not in may_repeat
            and len(passes.values) >= self.fewest_passes
            and not numbers[passes.worker].values.any()
            and bool((np.diff(passes.values) > 0).all())
        ]


def is_falling(losses: NDArray[np.float64], *, share: float) -> bool:
    """Return True if the newest quarter of losses is lower than the quarter before.

    Args:
        losses: The losses, oldest first.
        share: The decrease that counts, as a share of the earlier median.
    """
    quarter = max(1, len(losses) // 4)
    before, now = losses[-2 * quarter : -quarter], losses[-quarter:]
    return len(before) > 0 and median(now) < (1 - share) * median(before)
