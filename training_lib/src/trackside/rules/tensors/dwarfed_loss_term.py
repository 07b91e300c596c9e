"""dwarfed-loss-term: a term of the loss is so small beside another that it teaches the model nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import (
    LARGE_TARGET_ERROR,
    MOST_TERMS,
    SMALL_TARGET_ERROR,
    TARGET_SCALE,
    loss_term,
    loss_term_guess,
)
from trackside.contracts.verdict import Finding
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.constants import FIRST, HALF_LEARNED, THREEFOLD
from trackside.situation.medians import median
from trackside.situation.phases import newest_phase, since
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class Term(Details):
    """Details of a finding.

    value_over_guess  value of the term over that of a constant answer
    term              number of the term, from 0; None for a column of the target
    """

    value_over_guess: float = 0.0
    term: int | None = None


@dataclass(frozen=True)
class DwarfedLossTerm(PyTorchRule):
    """One term of a summed loss outweighs another, which learns nothing beyond a guess.

    Why it matters:
        The divergence of a variational autoencoder as a sum over the batch, beside a reconstruction that is a mean, is
        thousands of times too large: the code is pulled to the prior, holds nothing, and the decoder returns the mean
        of all samples. The whole loss falls all the while. The columns of one target are terms as well: a price in
        euros beside a rate in per cent leaves the rate unlearned.

    How it decides:
        At few steps the hook measures, for each term, the norm of the gradient that it sends into what the terms share
        (a code, a trunk, weights), its value, and what a constant answer costs: from the targets of that batch.

        1. d is the largest gradient of another term over the term's own. d > `times` at every look. Or they have come
           to rest: the median of d over the first three looks is above `times_at_first`, and d below 3 at each of the
           newest `looks`. Where a code is pulled to the prior for good, both forces on it are small and alike.
        2. The median of the newest `looks` values is above `guess_share` times the cost of a constant answer.
        3. The other term has had its way: its gradient is below `satisfied` times that of its first looks. Where it has
           not, both are still on their way. A penalty on the weights alone need not have had it.
        4. The other term is none that has learned: a main loss far below a constant answer's may leave an auxiliary one
           of a small weight as it is.
        5. All hold from look 2 x `looks` on at the earliest; beside a penalty on the weights alone from look `looks`.
        6. Of a squared error of rows with 2 to 32 columns it also looks at the columns of the largest and the smallest
           deviation. It fires where the one is above `target_scale` times the other at each of the newest `looks`, the
           median of the small one's error is above `guess_share` times its variance, and that of the large one is
           below half of its variance. Columns of few different values (one-hot, flags) do not count.

        Small weights alone are everyday practice (auxiliary losses of 0.01, beta-VAE, warm-ups, GANs) and silent, and
        so are terms without known targets, or with targets that are all alike.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.dwarfed_loss_term import dominances

        own, other = np.array([0.01, 0.005]), np.array([2.0, 0.4])
        assert dominances(own, [other]).tolist() == [200.0, 80.0]
        ```

    References:
        - Kingma and Welling: Auto-encoding variational Bayes (ICLR 2014): both terms of the bound, of one sample.
        - Lucas et al.: Don't blame the ELBO! (NeurIPS 2019): what else lets a posterior collapse.
    """

    rule_id = "dwarfed-loss-term"
    code = "TS121"
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.UNBALANCED_TERMS,)
    shows_its_cause = True
    what_to_do = (
        "Print each term of the loss times its weight.",
        "Reduce all terms alike: a sum over the batch beside a mean is too large by the number of elements.",
    )

    times: float = parameter(10.0, "gradient of another term over its own, above which it is dwarfed", minimum=1)
    times_at_first: float = parameter(
        5.0, "the same at the first looks, above which it is dwarfed if both come to rest", minimum=1
    )
    guess_share: float = parameter(
        0.95, "value over that of a constant answer, above which nothing is learned", minimum=0
    )
    satisfied: float = parameter(0.25, "gradient of the other term over that of its first looks", minimum=0, maximum=1)
    looks: int = parameter(6, "newest looks whose values count", minimum=1)

    target_scale: float = parameter(
        100.0, "deviation of one column of a target over that of another, above which it may drown it", minimum=1
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker and term."""
        began = newest_phase(window)
        found = []
        for number in range(MOST_TERMS):
            for column in _columns(window, number, "mean", began):
                finding = self._judge(window, number, column, began)
                if finding is not None:
                    found.append(finding)
        return [*found, *self._columns_of_targets(window, began)]

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: how much larger the other gradient is, and what the term has learned."""
        lead, of = findings[0], Term.of(findings[0])
        if of.term is None:
            return (
                f"One column of the target has {lead.observed:.3g} times the deviation of another, which costs "
                f"{of.value_over_guess:.2f} times what a constant answer to it costs."
            )
        number, share = of.term + 1, of.value_over_guess
        what = f"term {number} of the loss" if lead.subject == loss_term(number - 1) else lead.subject
        return (
            f"Another term of the loss sends a gradient of at least {lead.observed:.3g} times that of {what} "
            f"into what they share; {what} costs {share:.2f} times what a constant answer costs."
        )

    def _columns_of_targets(self, window: Window, began: int) -> Iterable[Finding]:
        scales, small, large = (
            {c.worker: c for c in since(window.statistic(name, "mean", mode=None), began)}
            for name in (TARGET_SCALE, SMALL_TARGET_ERROR, LARGE_TARGET_ERROR)
        )
        for worker, column in scales.items():
            if worker not in small or worker not in large or len(column.values) < 2 * self.looks:
                continue
            scale = float(column.values[-self.looks :].min())
            of_small, of_large = (median(each[worker].values[-self.looks :]) for each in (small, large))
            if scale > self.target_scale and of_small > self.guess_share and of_large < HALF_LEARNED:
                yield finding_of(
                    window,
                    TARGET_SCALE,
                    "deviation of one column of the target over that of another",
                    scale,
                    above=self.target_scale,
                    since=int(column.steps[-self.looks]),
                    worker=worker,
                    series=small[worker].series,
                    statistics=Term(of_small).numbers(),
                )

    def _judge(self, window: Window, number: int, values: Column, began: int) -> Finding | None:
        guesses, own = (
            next((c for c in _columns(window, number, name, began) if c.worker == values.worker), None)
            for name in ("guess", "l2")
        )
        others = [
            column
            for other in range(MOST_TERMS)
            if other != number
            for column in _columns(window, other, "l2", began)
            if column.worker == values.worker
        ]
        if guesses is None or own is None or not others:
            return None
        counts = {len(column.values) for column in (values, guesses, own, *others)}
        strongest = max(others, key=lambda column: median(column.values))
        is_penalty = _is_penalty(window, strongest, began)
        if len(counts) != 1 or counts.pop() < (self.looks if is_penalty else 2 * self.looks):
            return None
        share = self._share_of_guess(values, guesses)
        dominance, threshold = self._dominance(own, others)
        if not (share > self.guess_share and dominance > threshold):
            return None
        if not is_penalty and not self._has_had_its_way(window, strongest, began):
            return None
        named = [f.name for f in window.facts.losses if f.type_name] if window.facts is not None else []
        return finding_of(
            window,
            named[0] if len(named) == 1 else values.tensor,
            "gradient of another term of the loss over that of this term",
            dominance,
            above=threshold,
            since=int(values.steps[0]),
            worker=values.worker,
            series=own.series,
            statistics=Term(share, number).numbers(),
        )

    def _dominance(self, own: Column, others: Sequence[Column]) -> tuple[float, float]:
        """Return the largest other gradient over the own one, and the threshold above which it dwarfs.

        The least of all looks; that of the first ones, if both terms have come to rest.
        """
        ratios = dominances(own.values, [column.values for column in others])
        at_first = median(ratios[:FIRST])
        is_at_rest = bool((ratios[-self.looks :] < THREEFOLD).all()) and at_first > self.times_at_first
        return (at_first, self.times_at_first) if is_at_rest else (float(ratios.min()), self.times)

    def _share_of_guess(self, values: Column, guesses: Column) -> float:
        """Return the median of the newest values over what a constant answer costs; 0 if one costs nothing."""
        newest = guesses.values[-self.looks :]
        return median(values.values[-self.looks :] / newest) if (newest > 0).all() else 0.0

    def _has_had_its_way(self, window: Window, strongest: Column, began: int) -> bool:
        """Return True if the strongest other term sends far less than at first, and is no loss that has learned."""
        newest = slice(-self.looks, None)
        falls = median(strongest.values[newest]) <= self.satisfied * median(strongest.values[:FIRST])
        return falls and not _has_learned(window, strongest, newest, began)


def dominances(own: NDArray[np.float64], others: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the largest other gradient over the own one at each look, shape (looks,); 0 where any is not finite.

    Args:
        own: Norms of the term's gradients, shape (looks,).
        others: Those of the other terms, at least one, each of shape (looks,).
    """
    largest = np.max(np.stack(others), axis=0)
    is_finite = np.isfinite(largest) & np.isfinite(own)
    return np.where(is_finite, largest, 0.0) / np.where(is_finite, np.maximum(own, np.finfo(np.float32).tiny), 1.0)


def _is_penalty(window: Window, gradient: Column, began: int) -> bool:
    """Return True if the term of this gradient is a penalty on the weights alone."""
    values, guesses = _values_and_guesses(window, gradient, began)
    return values is None and guesses is not None and not guesses.any()


def _has_learned(window: Window, gradient: Column, newest: slice, began: int) -> bool:
    """Return True if the term of this gradient has a known guess, and is below half of it."""
    values, guesses = _values_and_guesses(window, gradient, began)
    if values is None or guesses is None or len(values) != len(guesses):
        return False
    return median(values[newest]) < HALF_LEARNED * median(guesses[newest])


def _values_and_guesses(
    window: Window, gradient: Column, began: int
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return the values of the term of a gradient, and what a constant answer to it costs; None where unknown."""
    number = next(n for n in range(MOST_TERMS) if loss_term(n) == gradient.tensor)
    values, guesses = (
        next((c.values for c in _columns(window, number, name, began) if c.worker == gradient.worker), None)
        for name in ("mean", "guess")
    )
    return values, guesses


def _columns(window: Window, number: int, kind: str, began: int) -> tuple[Column, ...]:
    """Return the columns of a term from a step on: "l2" of its gradient, its value ("mean"), or its "guess"."""
    name = loss_term_guess(number) if kind == "guess" else loss_term(number)
    return since(window.statistic(name, "mean" if kind == "guess" else kind, mode=None), began)
