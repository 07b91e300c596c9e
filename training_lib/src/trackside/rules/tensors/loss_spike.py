"""loss-spike: the training loss leaves its recent level for a higher one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.recorded_names import (
    BATCH_NUMBER,
    EPOCH,
    ORDER_SEED_HIGH,
    ORDER_SEED_IS_FIRST,
    ORDER_SEED_LOW,
    RECORDED,
)
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import Evidence, certain_causes, error_of_median, why_it_breaks
from trackside.rules.medians import median, medians_of_three
from trackside.rules.phases import NewPart, new_part, newest_phase, since
from trackside.rules.rule import FoldingRule, parameter
from trackside.rules.training_loss import whole_losses
from trackside.rules.update_growth import (
    BEYOND,
    growth_of_updates,
    is_driven,
    is_mostly_of_classes,
    main_term_rose,
    may_move,
    risen_rate,
)
from trackside.trial.window import Column, Window

Losses = NDArray[np.float64]

_FEWEST = 30  # losses before one can stand out
_CLIP = 4.0  # deviations: a single loss, however large, is no spike
_SLACK = 1.0  # deviations by which a loss may always be above its level
_LOOKED_BACK = 24  # losses of which the sum is made up
_NEWEST = 3
_LASTING = 5  # losses that must all be higher than ever before that is harm, unless they are far above
_FAR = 1.5  # times the highest loss
_BACK = 5  # losses of which the median must be back at the old level
_LEVEL_EVERY = 10  # steps between two looks at the whole history
_MAD_TO_DEVIATION = 1.4826

_FIRST_LOOKS = 2  # steps with a look at the terms of a sum, where it has any
_STAYS, _RISEN, _NOT_SEEN = 0.0, 1.0, 2.0  # the largest term of a sum
_SINCE, _PLATEAU, _ALLOWED, _HIGHEST, _REASON, _BROKEN = range(6)
_UNKNOWN, _BY_UPDATES, _BY_RATE, _LOST, _BROKEN_LOSS, _MOVED = 0.0, 1.0, 2.0, 3.0, 4.0, 5.0  # reasons


@dataclass(frozen=True)
class OpenSpikes:
    """The spikes that the losses have not come back from.

    by_loss  "<tensor> <worker>" -> first step, level before, rise above it that is none, highest level of the run
             before, reason why the training is being hurt, number of newest losses in a row that are not finite
    began    step at which the newest part of the model began to train; 0 without one that began late
    """

    by_loss: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    began: int = 0


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

    What to do:
        Go back to the last checkpoint before the spike, and lower the learning rate, or leave out the batches of the
        steps since then.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.loss_spike import first_of_spike

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
    severity = Severity.WARNING
    escalates = True
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.NON_FINITE_DATA)
    what_to_do = (
        "Go back to the last checkpoint before the spike.",
        "Lower the learning rate, or the end of its warm-up.",
        "Clip the gradient norm (torch.nn.utils.clip_grad_norm_).",
        "Leave out the batches of the steps since the spike began, and look at them.",
    )

    threshold: float = parameter(
        8.0, "cumulative sum of deviations above the recent level, above which it fires", minimum=1
    )
    rise_percent: float = parameter(5.0, "least rise of the loss above its recent level, in percent", minimum=0)
    window_losses: int = parameter(100, "losses that make up the recent level", minimum=_FEWEST)
    level_times: float = parameter(10.0, "times the lowest level of the run, above which it fires", minimum=1)
    critical_steps: int = parameter(
        20, "steps above the highest earlier level, driven by updates or a rate, after which it is critical", minimum=1
    )
    remark_steps: int = parameter(20, "steps after which a rise is reported that nothing else confirms", minimum=1)

    def start(self) -> OpenSpikes:
        """Return a state without spikes."""
        return OpenSpikes()

    def fold(self, state: OpenSpikes, window: Window) -> tuple[OpenSpikes, Iterable[Finding]]:
        """Return the spikes that are open after this step, and one finding for each, the oldest first.

        Args:
            state: The spikes that were open before.
            window: The run up to the step to judge.
        """
        began, facts = max(newest_phase(window), state.began), window.facts
        columns = since(whole_losses(window), began)
        is_shared = len(columns) > 1 and facts is not None and len(facts.optimizers) > 1
        spikes = {key: spike for key, spike in state.by_loss.items() if spike[_SINCE] >= began}
        findings = []
        for column in columns:
            key = f"{column.tensor} {column.worker}"
            if column.steps[-1] == window.step:
                spike = self._followed(column, spikes.pop(key, None), window, is_shared=is_shared)
                if spike is not None:
                    spikes[key] = spike
        rose = min((int(s[_SINCE]) for s in spikes.values() if s[_REASON] and not s[_BROKEN]), default=window.step)
        late = new_part(window, since=rose - _BACK) if rose < window.step else NewPart.NONE
        if late is NewPart.BEGAN:
            began, spikes = rose, {}
        regimes = [
            spike for c in columns if (spike := spikes.get(f"{c.tensor} {c.worker}")) and _is_regime(c, spike, window)
        ]
        if regimes:
            began, spikes = int(min(spike[_SINCE] for spike in regimes)), {}
        for column in columns:
            key = f"{column.tensor} {column.worker}"
            if key in spikes and spikes[key][_REASON] and (late is NewPart.NONE or spikes[key][_BROKEN]):
                findings.append(self._finding(column, spikes[key], window))
        if late is NewPart.BEGAN or regimes or spikes != state.by_loss:
            state = OpenSpikes(spikes, began)
        return state, sorted(findings, key=lambda finding: finding.since_step)

    def dump(self, state: OpenSpikes) -> str:
        """Return the state as text; no text without spikes, as at most steps.

        Args:
            state: The open spikes.
        """
        return super().dump(state) if state.by_loss or state.began else ""

    def lacks(self, window: Window) -> str:
        """Name the missing input: a loss with enough values.

        Args:
            window: The run up to the step to judge.
        """
        most = max((len(column.values) for column in whole_losses(window)), default=0)
        return "" if most >= _FEWEST else f"{_FEWEST} losses; the run has {most}"

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return INFO for losses that only moved, CRITICAL where updates or a rate have driven them up for long.

        Args:
            findings: The findings.
        """
        found = [self._severity(finding.statistics) for finding in findings]
        return max(found, key=lambda severity: severity.rank)

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return the reasons that the run's numbers show; none for a loss that only moved.

        Args:
            findings: The findings, worst first.
            window: The run up to the judged step.
        """
        lead = findings[0]
        certain = certain_causes(window)
        if lead.statistics["not_finite"]:
            return why_it_breaks(window, since=lead.since_step)
        growth = growth_of_updates(window, worker=lead.worker)
        rate = risen_rate(window, before=lead.since_step - _LOOKED_BACK)
        if rate is not None:
            because = f"the rate is {rate[1]:.3g}, and was never above {rate[0]:.3g} before"
            return (*certain, Suspicion(Cause.LEARNING_RATE_TOO_HIGH, because))
        if growth is not None:
            because = f"updates of the weights are {growth.times:.3g} times as large as in the 50 steps before"
            return (*certain, Suspicion(Cause.LEARNING_RATE_TOO_HIGH, because), Suspicion(Cause.EXPLODING_GRADIENTS))
        return certain

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: how far the loss rose, and since which step.

        Args:
            findings: The findings, worst first.
        """
        lead = findings[0]
        of, batches = lead.statistics, ""
        if "first_batch" in of:
            span = f"{of['first_batch']:.0f} to {of['last_batch']:.0f}"
            batches = f" It began with batches {span} of epoch {of['epoch']:.0f}."
        if of["not_finite"]:
            return f"The training loss {lead.subject} is not finite since step {lead.since_step}.{batches}"
        return (
            f"The training loss {lead.subject} rose from {of['level_before']:.4g} to {of['loss']:.4g} since step "
            f"{lead.since_step}.{batches}"
        )

    def _severity(self, numbers: Mapping[str, float]) -> Severity:
        if numbers["reason"] == _MOVED or numbers.get("main_term") == _STAYS:
            return Severity.INFO
        if numbers["not_finite"] >= _NEWEST:
            return Severity.CRITICAL
        has_driver = numbers["reason"] in {_BY_UPDATES, _BY_RATE}
        lasts = numbers["steps"] >= 5 * self.critical_steps and not numbers.get("may_move")
        is_lost = numbers["steps_lost"] >= self.critical_steps or lasts
        is_known = numbers.get("main_term") != _NOT_SEEN
        return Severity.CRITICAL if has_driver and is_lost and is_known else Severity.WARNING

    def _followed(
        self, column: Column, spike: tuple[float, ...] | None, window: Window, *, is_shared: bool
    ) -> tuple[float, ...] | None:
        """Return the spike of a loss after its newest value: the open one, a new one, or None."""
        values = column.values
        newest = float(values[-1])
        if not math.isfinite(newest):
            return _broken(column, spike)
        if spike is not None:
            if _is_back(values, spike):
                return None
            spike = (*spike[:_BROKEN], 0.0)
        else:
            spike = None if is_shared else self._new(column, window)
        if spike is None or spike[_REASON] in {_BY_UPDATES, _BY_RATE, _BROKEN_LOSS}:
            return spike
        reason = _reason(column, spike, window, times=self.level_times) or spike[_REASON]
        if not reason and _steps_above(column, spike[_PLATEAU] + spike[_ALLOWED]) >= self.remark_steps:
            reason = _MOVED
        return (*spike[:_REASON], reason, spike[_BROKEN])

    def _new(self, column: Column, window: Window) -> tuple[float, ...] | None:
        values, steps = column.values, column.steps
        allowed = self.rise_percent / 100
        at = first_of_spike(
            values, threshold=self.threshold, rise_percent=self.rise_percent, window_losses=self.window_losses
        )
        if at is not None and not (values < 0).any():
            ends = (at, len(values) - 1)
            level = min(_level(values[max(0, end - self.window_losses) : end]) for end in ends)
            highest = _highest(values[:at])
            return float(steps[at]), level, _rise(level, values, allowed), highest, _UNKNOWN, 0.0
        if len(values) > self.window_losses and window.step % _LEVEL_EVERY:
            return None
        best = level_left(values, times=self.level_times)
        if best is None:
            return None
        at = int(np.flatnonzero(values <= self.level_times * best)[-1]) + 1
        return float(steps[at]), best, _rise(best, values, allowed), _highest(values[:at]), _UNKNOWN, 0.0

    def _finding(self, column: Column, spike: tuple[float, ...], window: Window) -> Finding:
        since, before, newest = int(spike[_SINCE]), spike[_PLATEAU], float(column.values[-1])
        facts = window.facts.loss(column.tensor) if window.facts else None
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=window.step,
            since_step=since,
            measure="losses in a row that are not finite" if spike[_BROKEN] else "largest of the newest losses",
            observed=spike[_BROKEN] or float(np.nanmax(column.values[-_BACK:])),
            relation=">",
            threshold=0.0 if spike[_BROKEN] else before + spike[_ALLOWED],
            statistics={
                **_batches(window, since, worker=column.worker),
                "loss": newest,
                "level_before": before,
                "highest_before": spike[_HIGHEST],
                "steps": float(window.step - since),
                "steps_lost": float(_steps_above(column, spike[_HIGHEST])),
                "not_finite": spike[_BROKEN],
                "reason": spike[_REASON],
                "may_move": float(may_move(window, column.tensor, worker=column.worker)),
                **_main_term(window, column, since),
            },
            series=column.series,
            place=facts.line if facts else "",
        )


def first_of_spike(losses: Losses, *, threshold: float, rise_percent: float, window_losses: int = 100) -> int | None:
    """Return the index of the first loss of the spike that the newest loss completes; None without one.

    Args:
        losses: The losses, oldest first, shape (n,).
        threshold: The sum of deviations above which it fires.
        rise_percent: The least rise above the recent level, in percent.
        window_losses: The number of losses that make up the recent level.
    """
    end = len(losses)
    if end <= _FEWEST or not _is_above(losses, end - 1, rise_percent / 100, window_losses):
        return None
    total, first = 0.0, end - 1
    begin = max(_FEWEST, end - _LOOKED_BACK)
    levels = _levels_before(losses, begin, window_losses)
    for at, (level, spread) in enumerate(levels, begin):
        deviation = _MAD_TO_DEVIATION * spread
        above = (float(losses[at]) - level) / deviation if deviation > 0 else math.copysign(_CLIP, losses[at] - level)
        if not math.isfinite(above):
            return None
        if total == 0.0:
            first = at
        total = max(0.0, total + min(_CLIP, max(-_CLIP, above)) - _SLACK)
    return first if total > threshold else None


def _levels_before(losses: Losses, begin: int, window_losses: int) -> list[tuple[float, float]]:
    """Return for each loss from `begin` on the median of the losses before, and that of their distances from it."""
    seen = losses[max(0, begin - window_losses) : -1]
    if begin < window_losses or not np.isfinite(seen).all():
        windows = [losses[max(0, at - window_losses) : at] for at in range(begin, len(losses))]
        return [(level := _level(before), _level(np.abs(before - level))) for before in windows]
    half, every = window_losses // 2, np.lib.stride_tricks.sliding_window_view(seen, window_losses)
    levels = np.partition(every, half, axis=1)[:, half]
    spreads = np.partition(np.abs(every - levels[:, None]), half, axis=1)[:, half]
    return list(zip(levels.tolist(), spreads.tolist(), strict=True))


def level_left(losses: Losses, *, times: float) -> float | None:
    """Return the lowest level of the losses, if the newest ones are many times as large; else None.

    A level is the median of three successive losses. The newest three must all be above `times` the lowest, and half of
    the way from the first loss down to it.

    Args:
        losses: The losses, oldest first, shape (n,); none is negative.
        times: How many times the lowest level they must be.
    """
    finite = losses[np.isfinite(losses)]
    if len(finite) < 2 * _NEWEST - 1 or float(finite.min()) < 0:
        return None
    now = float(finite[-_NEWEST:].min())
    if now <= times * float(finite.min()):  # the lowest level is no lower
        return None
    best = float(medians_of_three(finite).min())
    return best if now > times * best and now > (best + _first(finite)) / 2 else None


def _is_above(losses: Losses, at: int, allowed: float, window_losses: int) -> bool:
    before, loss = losses[max(0, at - window_losses) : at], float(losses[at])
    if _is_half_above(before, _highest_level_below(loss, _first(losses), allowed)):  # as at most steps
        return False
    level = _level(before)
    return loss > level + _rise(level, losses, allowed)


def _highest_level_below(loss: float, first: float, allowed: float) -> float:
    """Return a level from which on a loss does not stand above it by `_rise`; a little more, for rounding."""
    by_level = loss / (1 + allowed) if loss > 0 else loss
    by_first = (loss - allowed * first) / (1 - allowed) if allowed < 1 else by_level
    return min(by_level, by_first) + 1e-9 * (abs(loss) + abs(first))


def _is_half_above(losses: Losses, level: float) -> bool:
    """Return True if `_level` of the losses is surely `level` or more. Counting is quicker than sorting."""
    count = len(losses)
    if np.count_nonzero(losses >= level) < count - count // 2:
        return False
    return int(np.count_nonzero(np.isfinite(losses))) == count


def _rise(level: float, losses: Losses, allowed: float) -> float:
    """Return the rise above a level that is no spike: a share of it, and of all that was learned so far."""
    return allowed * max(abs(level), _first(losses) - level)


def _first(losses: Losses) -> float:
    """Return the loss at which the run began: the first one, or the median of the first three if that is larger."""
    first = [loss for loss in losses[:_NEWEST].tolist() if math.isfinite(loss)]
    if len(first) == _NEWEST:
        return float(max(first[0], sorted(first)[1]))
    return max(first[0], statistics.median(first)) if first else 0.0


def _highest(losses: Losses) -> float:
    """Return the largest level of the finite losses: of medians of three successive ones."""
    finite = losses[np.isfinite(losses)]
    if len(finite) < _NEWEST:
        return float(finite.max()) if len(finite) else math.inf
    return float(medians_of_three(finite).max())


def _level(losses: Losses) -> float:
    """Return the median of the finite losses; NaN for none."""
    finite = losses if np.isfinite(losses).all() else losses[np.isfinite(losses)]
    if not len(finite):
        return math.nan
    half, ordered = len(finite) // 2, finite.copy()
    ordered.partition(half)
    return float(ordered[half])


def _broken(column: Column, spike: tuple[float, ...] | None) -> tuple[float, ...]:
    """Return the spike of a loss that is not finite."""
    values = column.values
    sound = np.flatnonzero(np.isfinite(values))
    in_a_row = float(len(values) - 1 - sound[-1]) if sound.size else float(len(values))
    if spike is not None:
        return (*spike[:_REASON], _BROKEN_LOSS, in_a_row)
    level, highest = _level(values[-101:-1]), _highest(values)
    return float(column.steps[-1]), 0.0 if math.isnan(level) else level, 0.0, highest, _BROKEN_LOSS, in_a_row


def _batches(window: Window, since: int, *, worker: str) -> dict[str, float]:
    """Return the epoch and the numbers of the batches around the begin of a spike; nothing if they are unknown.

    They are those of the step before and of the first few, of one epoch: numbers begin anew with each.
    """
    numbers, epochs = (
        next((c for c in window.statistic(name, "mean", mode=None) if c.worker == worker), None)
        for name in (BATCH_NUMBER, EPOCH)
    )
    if numbers is None or epochs is None or len(numbers.values) != len(epochs.values):
        return {}
    near = (numbers.steps >= since - 1) & (numbers.steps <= since + _BACK)
    if not near.any():
        return {}
    epoch = float(epochs.values[near][-1])
    found = numbers.values[near & (epochs.values == epoch)]
    numbered = {"epoch": epoch, "first_batch": float(found.min()), "last_batch": float(found.max())}
    return numbered | _order(window, since, worker=worker)


def _order(window: Window, since: int, *, worker: str) -> dict[str, float]:
    """Return the seed of the order of the pass that a step belongs to, in two halves; nothing if it is unknown."""
    found: dict[str, float] = {}
    for name in (ORDER_SEED_HIGH, ORDER_SEED_LOW, ORDER_SEED_IS_FIRST):
        column = next((c for c in window.statistic(name, "mean", mode=None) if c.worker == worker), None)
        if column is not None and column.steps[0] <= since:
            found[name.removeprefix(RECORDED)] = float(column.values[column.steps <= since][-1])
    return found


def _is_back(values: Losses, spike: tuple[float, ...]) -> bool:
    newest = values[-_BACK:]
    return bool(np.isfinite(newest).all()) and median(newest) <= spike[_PLATEAU] + spike[_ALLOWED]


def _is_regime(column: Column, spike: tuple[float, ...], window: Window) -> bool:
    """Return True if a higher rate has begun a training of its own: it stays, and the loss falls by it.

    Most of what was learned must be kept. A rate that was raised by mistake leaves the loss where it threw it.
    """
    risen = column.values[column.steps >= spike[_SINCE]]
    if spike[_REASON] != _BY_RATE or len(risen) < _FEWEST or not np.isfinite(risen).all():
        return False
    if any(np.ptp(rate.values[rate.steps > spike[_SINCE]]) > 0 for rate in Evidence(window).learning_rates):
        return False
    third = len(risen) // 3
    first, newest = risen[:third], risen[-third:]
    fall = median(first) - median(newest)
    is_kept = median(newest) < (spike[_PLATEAU] + _first(column.values)) / 2
    return is_kept and fall > 2 * math.hypot(error_of_median(first), error_of_median(newest))


def _main_term(window: Window, column: Column, since: int) -> dict[str, float]:
    """Return one number for what the looks at the terms of a sum show; nothing for a loss without looks."""
    rose = main_term_rose(window, column.tensor, worker=column.worker, since=since)
    if rose is None:
        seen = main_term_rose(window, column.tensor, worker=column.worker, since=_FIRST_LOOKS)
        return {} if seen is None else {"main_term": _NOT_SEEN}
    return {"main_term": _RISEN if rose else _STAYS}


def _steps_above(column: Column, level: float) -> int:
    """Return the number of newest steps at which the loss was above a level, or not finite."""
    below = np.flatnonzero(column.values <= level)
    return int(column.steps[-1] - column.steps[below[-1]]) if below.size else 0


def _reason(column: Column, spike: tuple[float, ...], window: Window, *, times: float) -> float:
    """Return why a spike hurts the training; `_UNKNOWN` where nothing but the loss shows it."""
    growth = growth_of_updates(window, worker=column.worker)
    by_updates = growth is not None and growth.now > BEYOND * growth.peak
    by_rate = not by_updates and risen_rate(window, before=int(spike[_SINCE]) - _LOOKED_BACK) is not None
    far, now = (float(column.values[-count:].min()) for count in (_NEWEST, _LASTING))
    many_times = max(times * spike[_PLATEAU], 2 * _first(column.values))
    is_lost = far > _FAR * spike[_HIGHEST] or now > spike[_HIGHEST] or far > many_times
    loss, worker = column.tensor, column.worker
    if (is_lost or by_updates or by_rate) and may_move(window, loss, worker=worker):
        hurts = is_lost and is_driven(window, worker=worker)
        if not hurts and not ((by_updates or by_rate) and is_mostly_of_classes(window, loss, worker=worker)):
            return _UNKNOWN
    if by_updates or by_rate:
        return _BY_UPDATES if by_updates else _BY_RATE
    return _LOST if is_lost else _UNKNOWN
