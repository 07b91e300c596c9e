"""loss-spike: the training loss leaves its recent level for a higher one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.causes import BREAKS, RISES
from trackside.evidence.suspects import FirstOf, only
from trackside.rules.advice import Advice, Concerns
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.rule import FoldingRule, parameter
from trackside.situation.batches import batches_near
from trackside.situation.constants import COURSE_STEPS, ENOUGH_STEPS, NEWEST, SHORT_STRETCH
from trackside.situation.losses.losses import whole_losses
from trackside.situation.phases import NewPart, new_part, newest_phase, since
from trackside.situation.risen_losses import (
    DRIVEN,
    MainTerm,
    OpenSpikes,
    Reason,
    Spike,
    broken_spike,
    is_back,
    is_regime,
    main_term_of,
    new_spike,
    reason_of,
    steps_above,
)
from trackside.situation.update_growth import may_move
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class SpikeDetails(Details):
    """Details of a finding.

    loss            newest loss
    level_before    level before the spike
    highest_before  highest level of the run before
    steps           steps since the spike began
    steps_lost      newest steps above the highest level before
    not_finite      number of newest losses in a row that are not finite
    reason          evidence that the training is being hurt
    may_move        True for a loss that may rise in a right training
    main_term       course of the largest term of a sum; None for a loss without looks at its terms
    epoch, first_batch, last_batch   batches around its first step; None where no DataLoader is used
    """

    loss: float = 0.0
    level_before: float = 0.0
    highest_before: float = 0.0
    steps: int = 0
    steps_lost: int = 0
    not_finite: int = 0
    reason: Reason = Reason.UNKNOWN
    may_move: bool = False
    main_term: MainTerm | None = None
    epoch: int | None = None
    first_batch: int | None = None
    last_batch: int | None = None


NOT_FINITE = "losses in a row that are not finite"


@dataclass(frozen=True)
class LossSpike(FoldingRule):
    """The training loss has left its recent level for a higher one.

    Why it matters:
        Runs break late: after days of a falling loss a rate that is too high, or a few bad batches, undo in minutes
        all that was learned. The cure is to go back to a checkpoint from before the spike and to leave its batches out,
        and both get dearer with every step that passes.

    How it decides:
        At each step, for each training loss (without addends of another one) and worker. Let m be the median of the
        `window_losses` = 100 losses before, and s their deviation, 1.4826 x MAD.

        1. A loss that is not finite is a finding at once.
        2. From 30 losses on, a one-sided cumulative sum: S = max(0, S + min(4, max(-4, (x - m) / s)) - 1), over the
           newest 24 losses. It fires where S > `threshold` and x is more than `rise_percent` above m, and more than
           as much of all that the run has learned so far, first loss - m. As no loss counts for more than three, a
           single odd batch never fires.
        3. Whatever the length of the run: it fires where even the smallest of the newest three losses is more than
           `level_times` the lowest level (the smallest median of three successive losses) and half of all that was
           learned is lost. So the end of a run whose last losses are many times its best is never called OK.
        4. The spike holds until the median of the newest five losses is back at m, but for the rise that step 2 allows.

        It is a warning where something else shows that the training is being hurt: the updates of the weights are
        larger than any that the run has lived through (1.2 x, and six deviations above the 50 before), or so is a
        learning rate, or the loss is not finite, or each of the newest five is higher than it ever was (than all
        medians of three; of the newest three where that is by half), or both `level_times` the level before and twice
        the loss at which the run began. Otherwise it is a remark, and only after `remark_steps` steps: a curriculum, a
        change of the data and a schedule that goes up and down move a loss as well. A loss computed by hand, and one
        whose targets have moved (returns, bootstrapped values), must be higher than ever and driven: by such updates,
        by such a rate, by updates of a tenth of the weights, or by weights ten times as large. Not a sum of which a
        loss over classes makes nine tenths: the rest, as what balances experts, moves it little.

        Where a DataLoader is used, the finding names the batches of the step before the spike and of its first six, by
        their numbers in the pass over the data. `rule-output/skip_batches.json` in the run's folder lists them all, in
        the form of the file that Lightning's SpikeDetection writes, and keeps those of a run that was resumed.

        Critical where such a spike lasts: three losses in a row that are not finite, or, with such updates or such a
        rate, `critical_steps` steps above all earlier levels or five times as many above the old level. The loss alone
        is never critical: bootstrapped values, sequences that get longer and a penalty that is phased in raise it above
        all earlier levels in runs that are right. Where it ends above its first value, `loss-not-decreasing` judges.

        A new optimizer begins a new baseline, of losses and of updates: two trainings in one process, the second of
        another task, are two runs. Not where optimizers are made again and again. So does a part of the model whose
        weights have their first gradients since the loss rose, as the head of the next task has. Where some weights
        have had no gradient yet, a finite rise is reported once gradients were measured after it. So does a rate that
        was raised and stays, once 30 losses certainly fall by it and half of what was learned before is kept.

        The losses of several models that are trained in turns, and losses that are ever negative, rise as they like:
        of these only numbers that are not finite count.

        It needs no neighbouring steps: in a run that is watched in bursts, counts of losses and of steps are of watched
        ones, and a rate that went on along its warm-up in a rest has not risen.

    Example:
        ```python
        import numpy as np
        from trackside.situation.losses.spikes import first_of_spike

        noise = np.random.default_rng(0).normal(0, 0.05, 200)
        assert first_of_spike(2.4 + noise, threshold=8, rise_percent=5) is None
        late = 2.4 + noise + np.where(np.arange(200) >= 196, 0.4, 0)
        assert first_of_spike(late, threshold=8, rise_percent=5) == 195
        ```

    References:
        - Page: Continuous inspection schemes (1954): the cumulative sum.
        - Chowdhery et al.: PaLM (2022), section 5.1: to go back some 100 steps and leave out 200 to 500 batches.
    """

    rule_id = "loss-spike"
    code = "TS106"
    watches = ("losses",)
    save_interval = 10
    needs = ()
    escalates = True
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.NON_FINITE_DATA)
    suspects = (FirstOf(only(BREAKS, NOT_FINITE), RISES),)
    what_to_do = (
        "Go back to the last checkpoint before the spike.",
        "Lower the learning rate, or the end of its warm-up.",
        Advice("Clip the gradient norm (torch.nn.utils.clip_grad_norm_).", Concerns.UNCLIPPED_LOOPS),
        "Leave out the batches of the steps since the spike began, and look at them.",
    )

    threshold: float = parameter(
        8.0, "cumulative sum of deviations above the recent level, above which it fires", minimum=1
    )
    rise_percent: float = parameter(5.0, "least rise of the loss above its recent level, in percent", minimum=0)
    window_losses: int = parameter(100, "losses that make up the recent level", minimum=ENOUGH_STEPS)
    level_times: float = parameter(10.0, "times the lowest level of the run, above which it fires", minimum=1)
    critical_steps: int = parameter(
        20, "steps above the highest earlier level, driven by updates or a rate, after which it is critical", minimum=1
    )
    remark_steps: int = parameter(20, "steps after which a rise is reported that nothing else confirms", minimum=1)

    def start(self) -> OpenSpikes:
        """Return a state without spikes."""
        return OpenSpikes()

    def fold(self, state: OpenSpikes, window: Window) -> tuple[OpenSpikes, Iterable[Finding]]:
        """Return the spikes that are open after this step, and one finding for each, the oldest first."""
        began, facts = max(newest_phase(window), state.began), window.facts
        columns = since(whole_losses(window), began)
        is_shared = len(columns) > 1 and facts is not None and len(facts.optimizers) > 1
        spikes = {key: spike for key, spike in state.by_loss.items() if spike.since >= began}
        findings = []
        for column in columns:
            key = f"{column.tensor} {column.worker}"
            if column.steps[-1] == window.step:
                spike = self._followed(column, spikes.pop(key, None), window, is_shared=is_shared)
                if spike is not None:
                    spikes[key] = spike
        rose = min((s.since for s in spikes.values() if s.reason and not s.broken), default=window.step)
        late = new_part(window, since=rose - SHORT_STRETCH) if rose < window.step else NewPart.NONE
        if late is NewPart.BEGAN:
            began, spikes = rose, {}
        regimes = [
            spike for c in columns if (spike := spikes.get(f"{c.tensor} {c.worker}")) and is_regime(c, spike, window)
        ]
        if regimes:
            began, spikes = min(spike.since for spike in regimes), {}
        for column in columns:
            key = f"{column.tensor} {column.worker}"
            if key in spikes and spikes[key].reason and (late is NewPart.NONE or spikes[key].broken):
                findings.append(self._finding(column, spikes[key], window))
        if late is NewPart.BEGAN or regimes or spikes != state.by_loss:
            state = OpenSpikes(spikes, began)
        return state, sorted(findings, key=lambda finding: finding.since_step)

    def dump(self, state: OpenSpikes) -> str:
        """Return the state as text; no text without spikes, as at most steps."""
        return super().dump(state) if state.by_loss or state.began else ""

    def lacks(self, window: Window) -> str:
        """Name the missing input: a loss with enough values."""
        most = max((len(column.values) for column in whole_losses(window)), default=0)
        return "" if most >= ENOUGH_STEPS else f"{ENOUGH_STEPS} losses; the run has {most}"

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: how far the loss rose, and since which step."""
        lead = findings[0]
        spike, batches = SpikeDetails.of(lead), ""
        if spike.first_batch is not None:
            batches = f" It began with batches {spike.first_batch} to {spike.last_batch} of epoch {spike.epoch}."
        if spike.not_finite:
            return f"The training loss {lead.subject} is not finite since step {lead.since_step}.{batches}"
        return (
            f"The training loss {lead.subject} rose from {spike.level_before:.4g} to {spike.loss:.4g} since step "
            f"{lead.since_step}.{batches}"
        )

    def _grade(self, spike: SpikeDetails) -> Severity:
        if spike.reason is Reason.MOVED or spike.main_term is MainTerm.STAYS:
            return Severity.INFO
        if spike.not_finite >= NEWEST:
            return Severity.CRITICAL
        lasts = spike.steps >= 5 * self.critical_steps and not spike.may_move
        is_lost = spike.steps_lost >= self.critical_steps or lasts
        is_certain = spike.reason in DRIVEN and is_lost and spike.main_term is not MainTerm.NOT_SEEN
        return Severity.CRITICAL if is_certain else Severity.WARNING

    def _followed(self, column: Column, spike: Spike | None, window: Window, *, is_shared: bool) -> Spike | None:
        """Return the spike of a loss after its newest value: the open one, a new one, or None."""
        values = column.values
        newest = float(values[-1])
        if not math.isfinite(newest):
            return broken_spike(column, spike)
        if spike is not None:
            if is_back(values, spike):
                return None
            spike = replace(spike, broken=0)
        else:
            spike = (
                None
                if is_shared
                else new_spike(
                    column,
                    threshold=self.threshold,
                    rise_percent=self.rise_percent,
                    window_losses=self.window_losses,
                    level_times=self.level_times,
                    is_looking=window.step % COURSE_STEPS == 0 or (window.facts is not None and window.facts.is_of_log),
                )
            )
        if spike is None or spike.reason in {*DRIVEN, Reason.BROKEN_LOSS}:
            return spike
        reason = reason_of(column, spike, window, times=self.level_times) or spike.reason
        if not reason and steps_above(window, column, spike.level + spike.allowed) >= self.remark_steps:
            reason = Reason.MOVED
        return replace(spike, reason=reason)

    def _finding(self, column: Column, spike: Spike, window: Window) -> Finding:
        facts = window.facts.loss(column.tensor) if window.facts else None
        details = SpikeDetails(
            loss=float(column.values[-1]),
            level_before=spike.level,
            highest_before=spike.highest,
            steps=window.watched_since(spike.since),
            steps_lost=steps_above(window, column, spike.highest),
            not_finite=spike.broken,
            reason=spike.reason,
            may_move=may_move(window, column.tensor, worker=column.worker),
            main_term=main_term_of(window, column, spike.since),
        )
        return finding_of(
            window,
            column,
            NOT_FINITE if spike.broken else "largest of the newest losses",
            float(spike.broken) or float(np.nanmax(column.values[-SHORT_STRETCH:])),
            above=0.0 if spike.broken else spike.level + spike.allowed,
            since=spike.since,
            statistics={**batches_near(window, spike.since, worker=column.worker), **details.numbers()},
            place=facts.line if facts else "",
            grade=self._grade(details),
        )
