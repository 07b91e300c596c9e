"""drifting-data: the rows of a data set are changed in place, anew at each pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.observations import DRIFTING_DATA
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import ProgramRule
from trackside.trial.window import Window

MEASURE = "stores of rows that each pass over the data changes"


@dataclass(frozen=True)
class DriftingData(ProgramRule):
    """The rows of a data set are changed in place, and drift from pass to pass.

    Why it matters:
        A row that a data set keeps in memory is the very one that it returns. `row += noise`, `row.mul_(scale)` or
        `row -= mean` in `__getitem__` changes the store: after ten passes the augmentation has been applied ten times,
        and the scaling, too. The training data drift away from those of the evaluation.

    How it decides:
        At the first batch of each pass over a DataLoader the hook compares eight rows of each array, list or dictionary
        of the data set, with rows in the shape of the batch's:

        1. A store drifts where four passes in a row found half of its rows changed or more, each of these like itself
           before (a correlation above 0.5, and no other row more alike or nearer), and all ever farther from the first
           ones, 1.5 times as far at last, or ever larger or smaller, by 2.
        2. It fires where a store drifts.

        Rows that are drawn anew, a ring of the newest samples, and rows made noisy anew from a clean copy are silent.
        Not seen are whole numbers, and what workers of a DataLoader keep.

    Example:
        ```python
        from trackside.contracts.model_facts import ProgramFacts
        from trackside.contracts.observations import DRIFTING_DATA

        assert DRIFTING_DATA.of(ProgramFacts(observed={DRIFTING_DATA: "Images.rows"})) == "Images.rows"
        ```

    References:
        - NumPy, "Copies and views": an index gives a view of the same memory.
    """

    rule_id = "drifting-data"
    code = "TS231"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    paced = True
    since = "0.1"
    likely_causes = (Cause.DATA_CHANGED_IN_PLACE,)
    shows_its_cause = True
    what_to_do = (
        "Copy a row before you change it: row = self.rows[i].clone(), or .copy() of NumPy.",
        "Write row = row + noise in place of row += noise.",
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return a finding for the store that drifts."""
        facts = window.facts
        store = DRIFTING_DATA.of(facts.program) if facts is not None else ""
        if facts is not None and store:
            yield finding_of(window, store, MEASURE, 1.0, above=0.0, since=facts.from_step)

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: the store."""
        return f"The rows of {findings[0].subject} are changed in place: each pass over the data changes them further."
