"""The differences between two runs in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from trackside.runs.run_folder import typed_name
from trackside.speed.performance.durations import milliseconds
from trackside.speed.performance.measured import CAPTURE, EVALUATION
from trackside.speed.performance.step_time_gate import Compared, Gate, Measure, RunStep
from trackside.views.comparing.comparison import Comparison, Difference, LossDifference

LEAST_CHANGE = 0.1  # of the pace, to be named
_GROUPED = 999.5, 99_950  # numbers that are written as 1,230, and not as 1.23e+03


def facts_in_order(facts: tuple[Difference, ...]) -> Iterator[Difference]:
    """Yield settings that both runs have before those that one has: new modules come in hundreds."""
    yield from (fact for fact in facts if fact.a and fact.b)
    yield from (fact for fact in facts if not (fact.a and fact.b))


def loss_lines(found: Comparison) -> Iterator[str]:
    """Yield the lines about the losses."""
    for loss in found.losses:
        yield from _of_loss(loss)
    for name, names in (("A", found.only_a), ("B", found.only_b)):
        if names:
            yield f"only {name} has the loss {', '.join(names)}"
    if not found.losses:
        yield "The runs have no loss in common."


def _of_loss(loss: LossDifference) -> Iterator[str]:
    if not loss.steps:
        yield f"{loss.name}: the runs have no step in common"
        return
    yield f"{loss.name}, {loss.steps:,} common steps"
    yield f"  step {loss.first}: A {loss.first_a:.6g}, B {loss.first_b:.6g}"
    yield f"  step {loss.last}: A {loss.last_a:.6g}, B {loss.last_b:.6g}"
    if loss.differs_from is None:
        yield "  equal in every bit"
        return
    yield f"  differs in a bit from step {loss.differs_from} on"
    if loss.parts_from is not None:
        noise = "" if loss.noise is None else f"; noise {loss.noise:.3g} a step"
        yield f"  parts beyond noise from step {loss.parts_from} on: {_average(loss)}{noise}"
    elif loss.noise is None:
        yield "  too few finite steps to weigh the difference against noise"
    else:
        yield f"  the difference stays within the noise of the steps ({loss.noise:.3g})"


def _average(loss: LossDifference) -> str:
    mean = loss.mean_difference
    if mean is not None and math.isfinite(mean):
        return f"B is {_three_digits(abs(mean))} {'higher' if mean > 0 else 'lower'} on average"
    ends = (("A", loss.last_a), ("B", loss.last_b))
    broken = [name for name, value in ends if value is not None and not math.isfinite(value)]
    return f"{' and '.join(broken)} {'are' if len(broken) > 1 else 'is'} not finite" if broken else "B is different"


def verdict_line(found: Comparison) -> str:
    """Return what matters most, in one or a few sentences: who went wrong, where the losses part, who is faster."""
    return " ".join(filter(None, (_who_went_wrong(found), _parting(found), _who_is_faster(found))))


def _who_went_wrong(found: Comparison) -> str:
    runs = (("A", found.is_judged_a, found.issues_a), ("B", found.is_judged_b, found.issues_b))
    judged = [(name, issues) for name, is_judged, issues in runs if is_judged]
    if not judged:
        return ""
    if len(judged) == 1:
        ((name, issues),) = judged
        words = f"{name} went wrong: {_first_of(issues)}." if issues else f"No rule found an issue in {name}."
        return f"{words} {'B' if name == 'A' else 'A'} is not judged."
    alone = [(name, issues) for name, issues in judged if issues]
    if found.issues_both:
        return "Both runs have an issue."
    if len(alone) == 2:
        return "Both runs have an issue, and not the same one."
    if not alone:
        has_doubt = found.reservation_a or found.reservation_b
        return "No rule found an issue in either run." if has_doubt else "Neither run has an issue."
    ((name, issues),) = alone
    return f"Only {name} went wrong: {_first_of(issues)}."


def _first_of(issues: Mapping[str, int]) -> str:
    first = min(issues, key=lambda rule: issues[rule])
    more = f", and {len(issues) - 1} more" if len(issues) > 1 else ""
    return f"{first}, since step {issues[first]}{more}"


def _parting(found: Comparison) -> str:
    parted = [loss.parts_from for loss in found.losses if loss.parts_from is not None]
    if parted:
        return f"The losses part at step {min(parted):,}."
    return "The losses stay together." if any(loss.noise is not None for loss in found.losses) else ""


def _who_is_faster(found: Comparison) -> str:
    # Other work on a machine counts here; `trackside compare --max-step-time` judges the training's own time.
    if not found.pace_a or not found.pace_b:
        return ""
    change = found.pace_b / found.pace_a - 1
    if abs(change) < LEAST_CHANGE:
        return "By the clock both are as fast."
    of_training = [each for each in found.phases if each.phase not in {CAPTURE, EVALUATION}]
    known = [(each.phase, each.a, each.b) for each in of_training if each.a is not None and each.b is not None]
    moved = [one for one in known if (one[1] > one[2]) is (change > 0)]
    words = f"By the clock B is {abs(change):.0%} {'faster' if change > 0 else 'slower'}"
    if not moved:
        return f"{words}."
    phase, a, b = max(moved, key=lambda one: abs(one[1] - one[2]))
    return f"{words}, most of all in {phase}: {milliseconds(a)} a step in A, {milliseconds(b)} in B."


def speed_lines(found: Comparison) -> Iterator[str]:
    """Yield the lines about the speed: the verdict on each, and each phase of a step."""
    if not found.phases:
        return
    yield f"speed: A {found.speed_a}, B {found.speed_b}"
    for each in found.phases:
        a, b = ("-" if seconds is None else milliseconds(seconds) for seconds in (each.a, each.b))
        change = f" ({each.b / each.a - 1:+.0%})" if each.a and each.b else ""
        yield f"  {each.phase}: A {a} a step, B {b}{change}"


def pace_line(found: Comparison) -> str:
    """Return the line about steps and pace."""
    steps = f"steps with a loss: A {found.steps_a:,}, B {found.steps_b:,}"
    if found.pace_a is None or found.pace_b is None:
        return steps
    change = found.pace_b / found.pace_a - 1
    return f"{steps}; steps/s: A {_three_digits(found.pace_a)}, B {_three_digits(found.pace_b)} ({change:+.0%})"


def _three_digits(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}" if _GROUPED[0] <= value < _GROUPED[1] else f"{value:.3g}"


def cure_lines(found: Comparison) -> Iterator[str]:
    """Yield the verdict on the change from A to B, and what it rests on; nothing if no issue stands in A."""
    if found.cure is None:
        return
    yield f"{found.cure.line}."
    for label, names in (("gone", found.cure.gone), ("new", found.cure.new)):
        if names:
            yield f"  {label}: {', '.join(names)}"
    for name in found.cure.unproved:
        yield f"  no proof: {name}"


def issue_lines(found: Comparison) -> Iterator[str]:
    """Yield the lines about the issues."""
    a, b = (found.is_judged_a, found.reservation_a, found.a), (found.is_judged_b, found.reservation_b, found.b)
    for name, (is_judged, reservation, run) in (("A", a), ("B", b)):
        if not is_judged:
            yield f"{name} is not judged: trackside rules run {typed_name(run)}"
        elif reservation:
            yield f"{name}: {reservation}"
    for name, issues in (("A", found.issues_a), ("B", found.issues_b)):
        for rule, step in issues.items():
            yield f"only {name} has an issue: {rule}, since step {step}"
    for rule, (in_a, in_b) in found.issues_both.items():
        yield f"both have an issue: {rule}, since step {in_a} in A and {in_b} in B"
    if found.is_judged_a and found.is_judged_b and not (found.issues_a or found.issues_b or found.issues_both):
        stands = " stands" if found.recovered_a or found.recovered_b else ""
        yield f"No issue{stands} in either run."
    for name, recovered in (("A", found.recovered_a), ("B", found.recovered_b)):
        for rule, step in recovered.items():
            yield f"{name}: {rule} recovered by step {step}"


def gate_lines(found: Gate) -> Iterator[str]:
    """Yield the lines about the time of steps: the verdict, each run, notes."""
    limit = f"limit +{100 * found.limit:.3g} %"
    if found.compared:
        yield f"step time: {found.verdict.value}: {_of_change(found.compared[0])} ({limit})"
    else:
        yield f"step time: {found.verdict.value} ({limit})"
    for way in found.compared[1:]:
        yield f"  {_of_change(way)}"
    for name, runs in (("A", found.before), ("B", found.after)):
        for run in runs:
            yield f"  {name}  {run.run}: {_of_run(run)}"
    for line in (*found.reasons, *found.notes):
        yield f"  {line}"


def _of_change(way: Compared) -> str:
    found, kind = way.change, "average steps" if way.measure is Measure.AVERAGE else "quick steps"
    unit = f" in units of {way.phase}" if way.phase else ""
    return f"{kind}{unit} {100 * found.change:+.1f} %, between {100 * found.low:+.1f} and {100 * found.high:+.1f} %"


def _of_run(run: RunStep) -> str:
    of_which = ", of those that had the processor" if run.is_calm else ""
    return (
        f"{run.milliseconds:.4g} ms, percentile {100 * run.quantile:.0f} of {run.steps:,} of {run.of:,} steps{of_which}"
    )
