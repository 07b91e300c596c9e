"""shrunken-weights: the weights have shrunk to a small part of their first size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import MOST_TERMS, loss_term_guess
from trackside.contracts.verdict import Finding
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import FirstOf, Suspect
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.situation.constants import FEWEST, MOST, MOST_OF_THE_TIME, SHORT_STRETCH, USUAL_DECAY
from trackside.situation.medians import median
from trackside.situation.weight_updates import have_shrunk, norms_of_weights
from trackside.trial.window import Column, Window

_MEASURE = "norm of the weight over its first"


def _shrank(known: Known) -> str:
    return f"weights shrank to {median([finding.observed for finding in known.findings]):.2%} of their size"


def _outweighed(known: Known) -> Answer:
    """A usual weight decay outweighs the gradients: beside one that is nearly nothing any decay is too strong."""
    decay = known.seen.weight_decay
    is_so = 0 < decay <= USUAL_DECAY and _outweighs(known.window, decay)
    return is_so and f"{_shrank(known)}: a usual weight decay of {decay:g} outweighs the gradients"


def _decayed(known: Known) -> Answer:
    return known.seen.weight_decay > 0 and _shrank(known) + _beside_zeros(known.findings, known.window)


def _penalised(known: Known) -> Answer:
    """A term of the loss is of weights alone: a constant answer to it costs nothing at any look."""
    names = (loss_term_guess(number) for number in range(MOST_TERMS))
    guesses = (column.values for name in names for column in known.window.statistic(name, "mean", mode=None))
    is_so = any(values.size and not values.any() for values in guesses)
    return is_so and f"{_shrank(known)}, and a term of the loss is of weights alone"


@dataclass(frozen=True)
class ShrunkenWeights(NetworkRule):
    """The weights have shrunk to a small part of their first size.

    Why it matters:
        A penalty on the weights with a factor of 1 where 0.0001 was meant, or a weight decay in another unit, pulls all
        weights to zero. The loss with the penalty falls as it should, by a lot, and the model answers every input with
        the same.

    How it decides:
        For each trained weight of two dimensions or more that did not begin at zero, g is its L2 norm over its first
        one, from three norms on.

        1. It fires where the median of g over all weights of a worker is below `share`, from `start_step` on.
        2. It fires where that median is below `share_by_decay` and a weight decay above 0.01 that is added to gradients
           (SGD, Adam; not AdamW) was larger at the first steps than the gradients themselves, for most weights: then
           the steps follow the decay, and what the data say is noise in them.
        3. It fires there, too, where three of four elements of the gradients are exactly zero beside any weight decay:
           what has no gradient, such as rows of an embedding that are not to be trained, decays all the same.
        4. It names the weights below the limit, the smallest first. A penalty is a cause only where a term of the loss
           is of weights alone.

        Training moves weights away from where they began, and so makes them longer. Of 267 runs that are right, of our
        corpus and of other people's trainers, the smallest median is 0.39. A single layer that shrinks, as a gate or a
        layer that is pruned, is silent.

    Example:
        ```python
        from trackside.situation.weight_updates import have_shrunk

        assert have_shrunk({"a.weight": 0.02, "b.weight": 0.03, "c.weight": 0.9}, share=0.1)
        assert not have_shrunk({"a.weight": 0.02, "b.weight": 0.7, "c.weight": 1.2}, share=0.1)
        ```

    References:
        - Krogh, Hertz: A simple weight decay can improve generalization (1992).
        - Loshchilov, Hutter: Decoupled weight decay regularization (2019): decay and penalty are not the same.
    """

    rule_id = "shrunken-weights"
    code = "TS119"
    watches = ("weights",)
    since = "0.1"
    likely_causes = (Cause.PENALTY_TOO_STRONG, Cause.WEIGHT_DECAY_TOO_STRONG, Cause.VANISHING_GRADIENTS)
    suspects = (
        FirstOf(
            (Suspect(Cause.VANISHING_GRADIENTS, _outweighed), Suspect(Cause.WEIGHT_DECAY_TOO_STRONG)),
            (Suspect(Cause.PENALTY_TOO_STRONG, _penalised), Suspect(Cause.WEIGHT_DECAY_TOO_STRONG, _decayed)),
            (Suspect(Cause.WEIGHT_DECAY_TOO_STRONG, _decayed),),
        ),
    )
    shows_its_cause = True
    what_to_do = (
        "Print each term of the loss times its weight, and divide the weight of a penalty by a hundred.",
        "Use the optimizer's weight_decay in place of a penalty: 0.01 or less for AdamW, 0.0001 for SGD.",
    )

    share: float = parameter(0.1, "norm of the weights over their first, below which they have shrunk", minimum=0)
    share_by_decay: float = parameter(
        0.5, "share of the first norm, under a weight decay larger at first than the gradients", minimum=0, maximum=1
    )
    start_step: int = parameter(20, "step from which on weights can have shrunk", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per shrunken weight, the smallest first, if most have shrunk."""
        if window.step < self.start_step:
            return []
        found: list[Finding] = []
        norms = norms_of_weights(window)
        for worker in dict.fromkeys(column.worker for column in norms):
            own = {c.tensor: c for c in norms if c.worker == worker}
            sizes = {name: float(c.values[-1] / c.values[0]) for name, c in own.items()}
            limit = self.share
            if not have_shrunk(sizes, share=limit) and have_shrunk(sizes, share=self.share_by_decay):
                is_by_decay = _follow_the_decay(window) or _decay_without_gradient(window, tuple(sizes))
                limit = self.share_by_decay if is_by_decay else limit
            if have_shrunk(sizes, share=limit):
                small = sorted((name for name in sizes if sizes[name] < limit), key=sizes.__getitem__)
                found += [self._finding(window, own[name], limit) for name in small]
        return found

    def lacks(self, window: Window) -> str:
        """Name the missing input: norms of weights."""
        return "" if norms_of_weights(window) else f"{FEWEST} norms of trained weights"

    def _finding(self, window: Window, column: Column, limit: float) -> Finding:
        module = window.facts.module_of(column.tensor) if window.facts else None
        shares = column.values / column.values[0]
        above = np.flatnonzero(shares >= limit)
        return finding_of(
            window,
            column,
            _MEASURE,
            float(shares[-1]),
            below=limit,
            since=int(column.steps[above[-1] + 1]),
            series=replace(column, values=shares).series,
            place=module.line if module else "",
        )


def _added_decay(window: Window) -> float:
    """Return the largest weight decay that an optimizer adds to gradients."""
    groups = [group for each in window.facts.optimizers for group in each.groups] if window.facts else []
    added = [group for group in groups if not group.get("decoupled_weight_decay")]
    return max((group.get("weight_decay", 0.0) for group in added), default=0.0)


def _follow_the_decay(window: Window) -> bool:
    """Return True if the steps follow a decay that is added to gradients, and is larger than they are."""
    decay = _added_decay(window)
    return decay > USUAL_DECAY and _outweighs(window, decay)


def _decay_without_gradient(window: Window, weights: Sequence[str]) -> bool:
    """Return True if most elements of the weights have no gradient, beside a weight decay of any size."""
    groups = [group for each in window.facts.optimizers for group in each.groups] if window.facts else []
    decays = any(group.get("weight_decay", 0.0) > 0 for group in groups)
    return decays and _zero_share(weights, window) > MOST_OF_THE_TIME


def _zero_share(weights: Sequence[str], window: Window) -> float:
    """Return the share of the newest gradients that is exactly zero, the median over weights."""
    held = [p for name in weights if window.facts and (p := window.facts.parameter(name)) is not None]
    columns = [c for p in held for c in window.statistic(p.gradient, "zero_share", mode=None) if len(c.values)]
    return median([float(column.values[-1]) for column in columns]) if columns else 0.0


def _beside_zeros(findings: Sequence[Finding], window: Window) -> str:
    """Return a clause about weights of which most elements have no gradient and decay all the same; "" for others."""
    share = _zero_share([finding.subject for finding in findings], window)
    return f", though {share:.0%} of their gradient is exactly zero: rows without one decay too" if share > MOST else ""


def _outweighs(window: Window, decay: float) -> bool:
    """Return True if the decay of most matrices was larger at the first steps than their gradients."""
    larger = []
    for weight in norms_of_weights(window):
        held = window.facts.parameter(weight.tensor) if window.facts else None
        columns = window.statistic(held.gradient, "l2", mode=None) if held is not None else ()
        larger += [decay * float(weight.values[0]) > median(c.values[:SHORT_STRETCH]) for c in columns if len(c.values)]
    return bool(larger) and 2 * sum(larger) > len(larger)
