"""outweighed-term: a sum of losses falls, and the loss of the task in it is never learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import chance_level, finite, has_several_aims, training_losses
from trackside.rules.guessing import best_guess
from trackside.rules.medians import median
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

_FEWEST = 8  # losses of a term, of which a quarter stands for each end
_AT_GUESSING = 0.95  # of the loss of a guess
_AS_AT_FIRST = 0.98  # of the term's first losses, where a guess is unknown


@dataclass(frozen=True)
class OutweighedTerm(Rule):
    """A sum of losses falls, and the task's own loss in it is not learned.

    Why it matters:
        A penalty on the weights with a factor of 1 where 0.0001 was meant, or an auxiliary loss in another unit, makes
        the optimizer work for that term alone. The loss that is printed falls as it should, by a lot, and the model
        answers as if it had never been trained.

    How it decides:
        Where a loss is a sum, the hook records its terms too, if they are losses of the framework. For each worker:

        1. The sum has lost at least `share` of its first value, by medians of its first and its newest quarter, at
           `start_step` or later.
        2. No recorded term of it has been learned: the median of its newest quarter is at least 95 % of the loss of the
           best constant answer to the labels; where the labels are unknown, at least 98 % of its first quarter's.

        So what the sum has lost was another term's: one computed by hand, such as a penalty. As long as one recorded
        term is learned, the rule is silent: an adversary's loss in the same sum should stay at guessing. It is silent
        for losses that are ever negative, and for several optimizers, unless these step together. Amazon's Debugger has
        no such rule.

    What to do:
        Print each term times its weight, and the norm of its gradient. Lower the weight of the term that outweighs the
        others until they are of about the same size. A penalty on all weights belongs into the optimizer's
        `weight_decay`.

    Example:
        ```python
        import numpy as np
        from trackside.rules.program.outweighed_term import ends_of

        first, now = ends_of(np.array([95.0, 90.0, 60.0, 30.0, 9.0, 4.0, 3.0, 2.9]))
        assert (first, now) == (92.5, 2.95)
        ```

    References:
        - Kendall, Gal, Cipolla: Multi-task learning using uncertainty to weigh losses (2018): what weights do.
        - Chen et al.: GradNorm (ICML 2018): gradients of a common size for all terms.
    """

    rule_id = "outweighed-term"
    code = "TS217"
    watches = ("losses",)
    save_interval = 10
    needs = ()
    paced = True
    severity = Severity.WARNING
    since = "0.1"
    likely_causes = (Cause.OUTWEIGHED_TERM,)
    shows_its_cause = True
    what_to_do = (
        "Print each term of the loss times its weight, and lower the weight of the one that outweighs the others.",
        "Use the optimizer's weight_decay in place of a penalty on all weights.",
    )

    share: float = parameter(0.5, "share of its first value that the sum must have lost", minimum=0, maximum=1)
    start_step: int = parameter(80, "step from which on a term must have been learned", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker and term that is not learned while the sum falls."""
        facts = window.facts
        if facts is None or window.step < self.start_step or not _sums(facts) or has_several_aims(window):
            return []
        columns = training_losses(window)
        return [found for whole in columns for found in self._judge(window, whole, columns, facts=facts)]

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a program without a sum of known losses."""
        return "" if _sums(facts) else "no loss is a sum of recorded terms"

    def _judge(
        self, window: Window, whole: Column, columns: Iterable[Column], *, facts: ModelFacts
    ) -> Iterable[Finding]:
        terms = _sums(facts).get(whole.tensor, ())
        values = finite(whole)[1]
        parts = [c for c in columns if c.worker == whole.worker and c.tensor in terms and len(c.values) >= _FEWEST]
        if not parts or len(values) < _FEWEST or (values < 0).any():
            return
        first, now = ends_of(values)
        if not now <= (1 - self.share) * first:
            return
        levels = [_unlearned_level(window, part) for part in parts]
        for part, level in zip(parts, levels, strict=True):
            if all(levels) and level is not None:
                loss = facts.loss(part.tensor)
                yield Finding(
                    subject=part.tensor,
                    worker=part.worker,
                    step=window.step,
                    since_step=int(part.steps[0]),
                    measure="loss of the term",
                    observed=ends_of(finite(part)[1])[1],
                    relation=">",
                    threshold=level,
                    statistics={"sum_at_first": first, "sum_now": now},
                    series=part.series,
                    place=loss.line if loss else "",
                )

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: how far the sum fell, and where the term stands."""
        lead = findings[0]
        numbers = lead.statistics
        return (
            f"The loss fell from {numbers['sum_at_first']:.3g} to {numbers['sum_now']:.3g}, and its term "
            f"{lead.subject} is still {lead.observed:.3g}: another term outweighs it."
        )


def ends_of(losses: NDArray[np.float64]) -> tuple[float, float]:
    """Return the median of the first quarter of the losses, and that of the newest.

    Args:
        losses: Finite losses, oldest first, shape (n,), n >= 4.
    """
    quarter = max(1, len(losses) // 4)
    return median(losses[:quarter]), median(losses[-quarter:])


def _sums(facts: ModelFacts) -> dict[str, tuple[str, ...]]:
    """Return by sum of losses the names of its recorded terms."""
    known: dict[str, list[LossFacts]] = {}
    for loss in facts.losses:
        known.setdefault(loss.backward_line, []).append(loss)
    return {
        whole.name: terms
        for line, losses in known.items()
        for whole in losses
        if line and not whole.is_built_in and (terms := tuple(one.name for one in losses if one.is_built_in))
    }


def _unlearned_level(window: Window, term: Column) -> float | None:
    """Return the level that a term has never got below; None if it was learned."""
    values = finite(term)[1]
    if len(values) < _FEWEST:
        return None
    first, now = ends_of(values)
    guess = best_guess(window, term.tensor, worker=term.worker)
    facts = window.facts.loss(term.tensor) if window.facts is not None else None
    chance = guess.loss if guess is not None else chance_level(facts)
    level = _AS_AT_FIRST * first if chance is None else _AT_GUESSING * chance
    return level if now > level > 0 else None
