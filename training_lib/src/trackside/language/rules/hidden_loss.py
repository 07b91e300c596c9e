"""hidden-loss: the trainer logs another number in place of a loss that is NaN or infinite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import SHOWN_LOSS
from trackside.contracts.run.recorded_names import LABELLED_TOKENS
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Known
from trackside.evidence.suspects import FirstOf, Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule
from trackside.trial.window import Window


def _has_no_labels(known: Known) -> str | bool:
    """Return a clause if a batch of the step has no label at all, over which a mean has no value."""
    looks = known.window.statistic(LABELLED_TOKENS, "mean", mode=None)
    none = any((column.values[column.steps == known.lead.since_step] == 0).any() for column in looks)
    return "no token of the batch of that step has a label" if none else False


@dataclass(frozen=True)
class HiddenLoss(Rule):
    """The trainer logs another number in place of a loss that is NaN or infinite.

    Why it matters:
        The Trainer of transformers replaces a loss that is not finite by the mean of those before
        (`logging_nan_inf_filter`, on by default): the log of a training that is lost shows a clean curve, while the
        backward pass and the optimizer have used the real one.

    How it decides:
        It compares the losses that it captured with the one that the trainer logged. It fires if

        1. a loss of a step was not finite,
        2. and the number that was logged for that step, or for the steps up to the next log, is finite.

    Example:
        ```python
        import numpy as np
        from trackside.language.rules.hidden_loss import hidden_at

        broken, shown = np.array([7]), np.array([0, 5, 10])
        assert hidden_at(broken, shown, np.array([1.0, 0.9, 0.8])) == 7
        assert hidden_at(broken, shown, np.array([1.0, 0.9, np.nan])) is None
        ```

    References:
        - transformers, `TrainingArguments.logging_nan_inf_filter`; huggingface/trl issue 6702.
    """

    rule_id = "hidden-loss"
    code = "TS507"
    only_of = ("pytorch",)
    watches = ("losses",)
    needs = ()
    paced = True
    since = "0.1"
    likely_causes = (Cause.HIDDEN_LOSS, Cause.LABEL_MASK)
    suspects = (FirstOf((Suspect(Cause.LABEL_MASK, _has_no_labels),), (Suspect(Cause.HIDDEN_LOSS),)),)
    shows_its_cause = True
    what_to_do = (
        "Set logging_nan_inf_filter=False, so that the log shows the loss as it is.",
        "Look at the batch of the named step: a row without any label has a mean over nothing.",
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding if a loss that was not finite was logged as a number."""
        shown = window.statistic(SHOWN_LOSS.recorded, "mean", mode=None)
        found = []
        for column in window.columns("losses", "nonfinite_count", mode="TRAIN") if shown else ():
            broken = column.steps[column.values > 0]
            own = next((each for each in shown if each.worker == column.worker), None)
            step = hidden_at(broken, own.steps, own.values) if own is not None else None
            if step is not None:
                count = float(len(broken))
                found.append(
                    finding_of(
                        window,
                        column.tensor,
                        "losses that were not finite",
                        count,
                        above=0.0,
                        since=step,
                        worker=column.worker,
                        series=(),
                    )
                )
        return found[:1]

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: the first such step."""
        lead = findings[0]
        at = f"{lead.subject} was NaN or infinite at step {lead.since_step}"
        return f"{at}; the trainer's log shows a number there that was not the loss."


def hidden_at(broken: np.ndarray, shown_steps: np.ndarray, shown: np.ndarray) -> int | None:
    """Return the first step with a broken loss and a finite number in the log; None without one.

    Args:
        broken: Steps with a loss that is not finite, ascending, shape (n,).
        shown_steps: Steps at which the trainer logged, ascending, shape (m,).
        shown: The logged losses, shape (m,).
    """
    for step in broken.tolist():
        place = int(np.searchsorted(shown_steps, step))
        if place < len(shown_steps) and np.isfinite(shown[place]):
            return int(step)
    return None
