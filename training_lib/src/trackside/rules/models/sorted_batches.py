"""sorted-batches: batches of one class each, in an order that misleads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.rule import FoldingRule, parameter
from trackside.situation.aims import has_several_aims
from trackside.situation.labels import SeenLabels, with_labels_of
from trackside.trial.window import Window


@dataclass(frozen=True)
class SortedBatches(FoldingRule):
    """Training data come sorted by class, so that each batch teaches one class and the next unlearns it.

    Why it matters:
        Files are often sorted by class. Without shuffling, each batch pulls the model to one answer; the loss of a
        batch is low for the wrong reason and jumps with each new class.

    How it decides:
        On the class labels of the training batches that were saved:

        1. b is the mean share of the commonest class within a batch, over the newest `batches` batches (of at least 4
           labels each), and a the share of the commonest class over all of them. Shuffled batches have b a little above
           a.
        2. It fires where b - a > `excess`: batches are far purer than the data.

        Programs with several optimizers are left out: the two halves of a GAN label whole batches as real or made.
        Tasks whose batches hold one class on purpose (some contrastive losses) are for leaving this rule out.

    Example:
        ```python
        from trackside.rules.models.sorted_batches import purity_excess

        sorted_by_class = [(step, 1.0, str(step // 5)) for step in range(10)]
        assert purity_excess(sorted_by_class, common=0.5) == 0.5
        shuffled = [(step, 0.6, "0") for step in range(10)]
        assert abs(purity_excess(shuffled, common=0.5) - 0.1) < 1e-9
        ```

    References:
        - Bengio: Practical recommendations for gradient-based training of deep architectures (2012), section 2.1.1.
    """

    rule_id = "sorted-batches"
    code = "TS305"
    is_of_networks = True
    watches = ("labels",)
    save_interval = 10
    needs = (CollectionRequest("labels", Schedule(10, end_step=401)),)
    since = "0.1"
    patience = 2
    likely_causes = (Cause.DATA_ORDER,)
    shows_its_cause = True
    what_to_do = (
        "Shuffle the training data in each epoch: DataLoader(..., shuffle=True).",
        "If the data are a stream, shuffle them in a buffer of many classes.",
    )

    excess: float = parameter(
        0.35, "purity of batches over that of the data, above which it fires", minimum=0, maximum=1
    )
    batches: int = parameter(6, "newest saved batches that are looked at", minimum=2)

    def start(self) -> SeenLabels:
        """Return the state without a label."""
        return SeenLabels()

    def fold(self, state: SeenLabels, window: Window) -> tuple[SeenLabels, Iterable[Finding]]:
        """Add the labels of this step."""
        if has_several_aims(window):
            return state, []
        seen = with_labels_of(state, window)
        newest = seen.batches[-self.batches :]
        if len(newest) < self.batches or len(seen.counts) < 2:
            return seen, []
        common = max(seen.counts.values()) / seen.samples
        excess = purity_excess(newest, common=common)
        if not excess > self.excess:
            return seen, []
        finding = finding_of(
            window,
            window.tensors("labels")[0],
            "purity of batches over that of the data",
            excess,
            above=self.excess,
            since=newest[0][0],
            series=tuple([(step, share) for step, share, _ in newest[-20:]]),
            statistics={"classes": float(len(seen.counts)), "commonest_class": common},
        )
        return seen, [finding]

    def lacks(self, window: Window) -> str:
        """Name the missing input: labels."""
        return "" if window.tensors("labels") else f"the class labels of {self.batches} batches"


def purity_excess(batches: Iterable[tuple[int, float, str]], *, common: float) -> float:
    """Return the mean share of a batch's commonest class, less `common`.

    `common` is the share of the commonest class of all data.
    """
    shares = [share for _, share, _ in batches]
    return sum(shares) / len(shares) - common
