"""Looks into the graph of a loss at few steps: terms' gradients, attention, two views, columns and places of targets.

A look is taken where `due` has come, in the backward pass of the script, and its numbers are those of the step. Steps
between looks are not touched. Terms and gradients are looked at on steps that follow from their number alone, so that
all ranks look at the same ones; attention as often as its time allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from trackside.capture.ground.irregular import next_place
from trackside.capture.session import RunSession
from trackside.capture.steps.step_engine import TRAIN
from trackside.contracts.run.recorded_names import (
    ATTENTION_AHEAD,
    ATTENTION_ENTROPY,
    ATTENTION_LOGIT,
    LARGE_TARGET_ERROR,
    LOCAL_GRADIENT,
    SAME_VIEWS,
    SMALL_TARGET_ERROR,
    STEP_WEIGHT,
    TARGET_PLACES,
    TARGET_SCALE,
    TOKEN_WEIGHTS,
    TURNED_TARGETS,
    UNRELATED_NOISE,
    VIEW_SPREAD,
    loss_term,
    loss_term_guess,
)
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.losses.attention import attention_nodes, numbers_of
from trackside.frameworks.pytorch.losses.target_columns import column_numbers
from trackside.frameworks.pytorch.losses.target_places import target_places, tokens_of
from trackside.frameworks.pytorch.losses.terms import TermGradients
from trackside.frameworks.pytorch.losses.token_weights import TokenWeights
from trackside.frameworks.pytorch.losses.turned_targets import turned_share
from trackside.frameworks.pytorch.losses.twin_views import views_of
from trackside.frameworks.pytorch.losses.unrelated_noise import unrelated_noise
from trackside.frameworks.pytorch.statistics.readings import PyTorchStatistics

MOST_PARAMETERS = 16  # whose gradients are measured before they are averaged
ATTENTION_SHARE = 1 / 8  # of the budget
MOST_INTERVAL = 500
_NEVER = 1 << 62
_TRIES = 3  # looks without attention, or without two views, after which they are no longer looked for
_ALARM, _DENSE_STEPS = 1.25, 10  # times the usual logit; steps that are looked at after such a look
_REMEMBERED = 50
_CALM_INTERVALS = 4  # usual intervals after a burst, in which no other begins
_INTERVAL_AT_FIRST = 50
_MOST_OF_TARGETS = 12  # looks at the sides of dense targets, and at noise
_FEW_MISSES = 2  # further looks for tokens in a model without any
_PLACES_AT_FIRST = 12  # steps, at each of which the places of targets are looked at
_REGULAR_UNTIL = 200  # where few looks are taken, they lie at irregular places: see `capture/ground/irregular.py`
_PACES = ((20, 5), (200, 20), (2000, 100))  # up to this step one look in so many


def next_look(step: int) -> int:
    """Return the first step after `step` at which terms and gradients are looked at."""
    pace = next((every for limit, every in _PACES if step < limit), MOST_INTERVAL)
    return (step // pace + 1) * pace if step < _REGULAR_UNTIL else next_place(step, pace)


class GraphLooks:
    """The looks of one training.

    Attributes:
        due: The step from which the next look is taken.

    Args:
        session: The run.
        statistics: Readings of the optimizers, and the numbers on their way from devices.
        fuse: Makes functions of ours harmless to the script.
        tokens: Returns the tokens of the newest batches.
    """

    def __init__(
        self,
        session: RunSession,
        *,
        statistics: PyTorchStatistics,
        fuse: Fuse,
        tokens: Callable[[], Sequence[torch.Tensor]] = tuple,
    ) -> None:
        self.due = 1  # the graph of step 0 is there before the run is
        self._engine, self._record = session.engine, session.statistics
        self._statistics, self._numbers = statistics, statistics.numbers
        self._protect = protect = fuse.protect
        fuse.when_blown = self._stop
        self._due_terms = self._due_attention = self._due_places = 1
        self._tokens = tokens
        self._open: TermGradients | None = None
        self._kinds: tuple[str, ...] = ()  # of the terms of the loss that is followed
        self._local: list[torch.Tensor] = []
        self._handles: list[Any] = []
        self._is_open = False
        self._weights: TokenWeights | None = None  # of the open step, at steps that look at terms
        self._view_misses = 0
        self._target_looks = _MOST_OF_TARGETS
        self._other_places = _PLACES_AT_FIRST
        self._attention = _AttentionPace()
        self.backward_begins: Callable[[torch.Tensor], None] = protect(self._backward_begins)
        self._end = protect(self._ended)

    def step_ending(self) -> None:
        """Take the numbers of a look, right before the step ends."""
        if self._is_open:
            self._end()

    def _backward_begins(self, loss: torch.Tensor) -> None:
        step = self._engine.step
        if self._engine.mode != TRAIN or not self._record.is_on or loss.grad_fn is None:
            return
        if self._is_open:
            self._look_at_weights(loss.grad_fn)
            return
        budget = self._record.budget
        began = budget.thread_seconds()
        self._is_open = True
        if step >= self._due_terms:
            self._due_terms = next_look(step)
            self._weights = TokenWeights(self._protect) if self._tokens() else None
            self._look_at_weights(loss.grad_fn)
            self._look_at_terms(loss.grad_fn)
            self._look_at_gradients()
            self._look_at_views(loss.grad_fn)
            self._look_at_columns(loss.grad_fn)
            self._look_at_targets(loss.grad_fn)
        if step >= self._due_places:
            self._look_at_places(loss.grad_fn)
            self._due_places = step + 1 if step < _PLACES_AT_FIRST else self._due_terms
        if step >= self._due_attention:
            self._look_at_attention(loss.grad_fn, began, step)
        self.due = step if self._weights is not None else self._next_due()
        budget.spend_on_rows(began)  # at few steps, which samples would miss

    def _next_due(self) -> int:
        return min(self._due_terms, self._due_attention, self._due_places)

    def _look_at_weights(self, end: Any) -> None:
        if self._weights is None:
            return
        try:
            self._weights.follow(end)
        except RuntimeError:  # the script has written over what the graph keeps
            self._weights = None

    def _look_at_terms(self, end: Any) -> None:
        looked = TermGradients(end, self._protect)
        kinds = tuple(term.name for term in looked.terms)
        if kinds and self._kinds in {(), kinds}:  # of several losses, as of a GAN, the first one
            self._kinds, self._open = kinds, looked
        else:
            looked.sizes()

    def _look_at_views(self, end: Any) -> None:
        if self._view_misses >= _TRIES:
            return
        try:
            found = views_of(end)
        except RuntimeError:  # the script has written over what the graph keeps
            found = None
        self._view_misses = self._view_misses + 1 if found is None else 0
        if found is not None:
            self._add(SAME_VIEWS, "mean", found.same)
            if found.spread is not None:
                self._add(VIEW_SPREAD, "mean", found.spread)

    def _look_at_columns(self, end: Any) -> None:
        try:
            found = column_numbers(end)
        except RuntimeError:  # as above
            return
        if found is not None:
            self._add(TARGET_SCALE, "mean", found.scale)
            self._add(SMALL_TARGET_ERROR, "mean", found.small_error)
            self._add(LARGE_TARGET_ERROR, "mean", found.large_error)

    def _look_at_targets(self, end: Any) -> None:
        if not self._target_looks:
            return
        self._target_looks -= 1
        for name, look in ((TURNED_TARGETS, turned_share), (UNRELATED_NOISE, unrelated_noise)):
            try:
                found = look(end)
            except RuntimeError:  # as above
                continue
            if found is not None:
                self._add(name, "mean", found)

    def _look_at_places(self, end: Any) -> None:
        batches = self._tokens()
        try:
            with torch.no_grad():
                found = target_places(end, batches) if batches else self._places_of_others(end)
        except RuntimeError:  # as above
            return
        if found is not None:
            self._add(TARGET_PLACES, "mean", found)

    def _places_of_others(self, end: Any) -> torch.Tensor | None:
        """Return the place of targets ahead of the tokens of a model that is none of transformers.

        Its targets may well be the tokens themselves, as of an auto-encoder: that is not recorded.
        """
        if not self._other_places:
            return None
        self._other_places -= 1
        tokens = tokens_of(end)
        if not tokens:
            self._other_places = min(self._other_places, _FEW_MISSES)
            return None
        found = target_places(end, tokens)
        return found if found is not None and float(found) > 0 else None

    def _look_at_gradients(self) -> None:
        distributed = torch.distributed
        if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
            return
        found = [p for p in self._statistics.parameters() if p.requires_grad and type(p) is torch.nn.Parameter]
        every = max(1, -(-len(found) // MOST_PARAMETERS))
        add = self._protect(self._add_local)
        self._handles = [torch.Tensor.register_hook(parameter, add) for parameter in found[::every]]  # type: ignore[no-untyped-call]

    def _add_local(self, gradient: torch.Tensor) -> None:
        if not has_memory(gradient):
            return
        values = gradient.detach()
        values = values.coalesce().values() if values.is_sparse else values
        self._local.append(torch.linalg.vector_norm(values.float()))

    def _look_at_attention(self, end: Any, began: float, step: int) -> None:
        pace = self._attention
        self._due_attention = step + pace.interval
        if pace.misses >= _TRIES:
            self._due_attention = _NEVER
            return
        try:
            found = numbers_of(attention_nodes(end))
        except RuntimeError:  # the script has written over what the graph keeps
            found = None
        if found is None:
            pace.misses += 1
            self._due_attention = max(self._due_terms, step + 1)
            return
        pace.misses = 0
        self._add(ATTENTION_LOGIT, "mean", found.largest_logit)
        self._add(ATTENTION_ENTROPY, "mean", found.entropy)
        self._add(ATTENTION_AHEAD, "mean", found.ahead)
        budget = self._record.budget
        logit = math.nan if self._numbers.is_late(found.largest_logit) else float(found.largest_logit)
        usual = budget.costs.step if budget.costs is not None else 0.0
        allowed = math.inf if budget.share >= 1 else ATTENTION_SHARE * budget.share * usual
        pace.looked(budget.thread_seconds() - began, logit, allowed=allowed, step=step)
        self._due_attention = step + pace.interval

    def _ended(self) -> None:
        self._is_open = False
        budget = self._record.budget
        began = budget.thread_seconds()
        self._take()
        budget.spend_on_rows(began)

    def _take(self) -> None:
        weights, self._weights = self._weights, None
        self.due = self._next_due()
        if weights is not None and (found := weights.taken()) is not None:
            self._add(TOKEN_WEIGHTS, "mean", found.ratio)
            self._add(STEP_WEIGHT, "mean", found.total)
        for handle in self._handles:
            handle.remove()
        if self._handles:
            norms = torch.stack([n.to(self._local[0].device) for n in self._local]) if self._local else torch.zeros(1)
            self._add(LOCAL_GRADIENT, "l2", torch.linalg.vector_norm(norms))
        self._handles, self._local = [], []
        looked, self._open = self._open, None
        if looked is None:
            return
        for number, (term, size) in enumerate(zip(looked.terms, looked.sizes(), strict=True)):
            name = loss_term(number)
            for key, value in (
                ((name, "l2"), size),
                ((name, "mean"), term.value),
                ((loss_term_guess(number), "mean"), term.guess),
            ):
                if value is not None:
                    self._add(*key, value)

    def _stop(self) -> None:
        self.due = self._due_terms = self._due_attention = self._due_places = _NEVER
        for handle in self._handles:
            handle.remove()

    def _add(self, name: str, statistic: str, value: torch.Tensor) -> None:
        number = value.detach().reshape(1)
        added = self._record.recorder.numbers.added
        added[name, statistic] = self._numbers.take(number) if self._numbers.is_late(number) else float(number)


class _AttentionPace:
    """The interval between looks at attention: by their time, and short after one that is unlike those before."""

    def __init__(self) -> None:
        self.interval = 1
        self.misses = 0
        self._logits: list[float] = []
        self._dense_until = self._calm_until = 0
        self._logit_then = 0.0  # when the newest burst began

    def looked(self, seconds: float, logit: float, *, allowed: float, step: int) -> None:
        """Note a look.

        Args:
            seconds: The processor time that it took.
            logit: The largest logit that it found; NaN if that is on its way.
            allowed: The processor time a step that looks may take, on average; 0 if a step's time is not known yet.
            step: The step of it.
        """
        by_time = math.ceil(seconds / allowed) if allowed > 0 else _INTERVAL_AT_FIRST
        by_time = max(1, min(MOST_INTERVAL, by_time))
        usual = sorted(self._logits)[len(self._logits) // 2] if self._logits else math.inf
        if math.isfinite(logit):
            self._logits = [*self._logits[1 - _REMEMBERED :], logit]
        was_dense = step < self._dense_until
        if logit > _ALARM * (self._logit_then if was_dense else usual) and (was_dense or step >= self._calm_until):
            self._dense_until, self._logit_then = step + _DENSE_STEPS, logit
            self._calm_until = self._dense_until + _CALM_INTERVALS * by_time
        self.interval = 1 if step < self._dense_until else by_time
