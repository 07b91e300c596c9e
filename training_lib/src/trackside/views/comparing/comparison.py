"""Two runs side by side: what differs in their settings, where their losses part, how fast they are, what was found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.model_facts import ModelFacts, ModuleFacts, OptimizerFacts
from trackside.contracts.observations import CLIPPINGS, PROBABILITY
from trackside.runs.live_run import Curve, training_losses
from trackside.runs.recorded_run import RecordedRun
from trackside.runs.rule_state import RuleState
from trackside.runs.run_folder import RunRecord
from trackside.speed.performance.reading import measured_workers
from trackside.speed.performance.verdict import PerformanceVerdict, judged_workers
from trackside.trial.trial import Trial
from trackside.views.comparing.cure import Cure, CureVerdict, cure_of

BLOCK_STEPS = 16  # common steps whose mean difference is weighed against the noise
PARTED_BLOCKS = 3  # in a row, or all to the end: losses that part do not meet again
NOISE_FACTOR = 4.0  # standard errors of a block's mean
WARM_UP_SHARE = 0.1  # of the steps, left out of the pace
MODULE_FIELDS = ("type_name", "activation", "in_features", "out_features")

NO_SCRIPT = "a notebook, or not known"  # of a program without a file of the user's, or whose adapter does not note it
_MISSING = ""  # a fact that one run lacks


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """One of two runs.

    recorded  its rules and verdicts
    trial     its tensors
    record    the command; None for a run that `trackside run` did not make
    """

    recorded: RecordedRun
    trial: Trial
    record: RunRecord | None = None


@dataclass(frozen=True)
class Difference:
    """A fact that differs; "" stands for a run without it."""

    fact: str
    a: str
    b: str


@dataclass(frozen=True)
class LossDifference:
    """A loss of both runs, over the steps that both have.

    name          its tensor
    steps         the number of common steps
    first, last   the first and last common step; None without any
    first_a, first_b, last_a, last_b   the values there
    differs_from  the first common step with another number; None: equal in every bit
    parts_from    the first step from which the losses differ by more than their noise; None if they do not, or if there
                  are too few steps
    mean_difference  B minus A, over the steps from `parts_from` on; else over all
    noise         the standard deviation of the difference from step to step; None with too few steps
    """

    name: str
    steps: int
    first: int | None = None
    last: int | None = None
    first_a: float | None = None
    first_b: float | None = None
    last_a: float | None = None
    last_b: float | None = None
    differs_from: int | None = None
    parts_from: int | None = None
    mean_difference: float | None = None
    noise: float | None = None


@dataclass(frozen=True)
class PhaseDifference:
    """Seconds a step in one phase, on the slowest worker of each run; None where a run did not measure it."""

    phase: str
    a: float | None
    b: float | None


@dataclass(frozen=True)
class Comparison:
    """The differences between two runs.

    facts      settings that differ: the command, the program, optimizers, losses, the model
    losses     losses of both runs
    only_a, only_b   names of losses that one run has
    pace_a, pace_b   steps a second, after a warm-up; None if unknown
    speed_a, speed_b  the verdict on the speed, in one word: "input-bound"
    phases     the phases of a step, in their order
    reservation_a, reservation_b   why the run may be ill although no issue stands, as `JudgedPart.reservation`
    recovered_a, recovered_b   rules with an issue that recovered, with the step of the recovery
    issues_a, issues_b, issues_both   rules with a standing issue in one run or in both, with its first step
    cure       the verdict on the change from A to B; None if no issue stands in A
    """

    a: str
    b: str
    facts: tuple[Difference, ...]
    losses: tuple[LossDifference, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    steps_a: int = 0
    steps_b: int = 0
    pace_a: float | None = None
    pace_b: float | None = None
    speed_a: str = ""
    speed_b: str = ""
    phases: tuple[PhaseDifference, ...] = ()
    is_judged_a: bool = False
    is_judged_b: bool = False
    reservation_a: str = ""
    reservation_b: str = ""
    recovered_a: Mapping[str, int] = field(default_factory=dict)
    recovered_b: Mapping[str, int] = field(default_factory=dict)
    issues_a: Mapping[str, int] = field(default_factory=dict)
    issues_b: Mapping[str, int] = field(default_factory=dict)
    issues_both: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cure: Cure | None = None

    @property
    def differs_in_any_bit(self) -> bool:
        """True if a common step of a common loss has two values, or if the runs have no loss in common."""
        return not self.losses or any(loss.differs_from is not None for loss in self.losses)

    @property
    def losses_part(self) -> bool:
        """True if a common loss differs by more than its noise."""
        return any(loss.parts_from is not None for loss in self.losses)

    @property
    def is_mended(self) -> bool:
        """True if issues stand in A, and B proves that each is gone and none is new."""
        return self.cure is not None and self.cure.verdict is CureVerdict.MENDED


def compare(a: ComparedRun, b: ComparedRun, *, now: float) -> Comparison:
    """Return what differs. `now` is the time in seconds since the epoch. Errors: those of the stores."""
    curves_a = {curve.name: curve for curve in training_losses(a.trial, now=now)}
    curves_b = {curve.name: curve for curve in training_losses(b.trial, now=now)}
    issues_a, issues_b = standing_issues(a.recorded), standing_issues(b.recorded)
    speed_a, speed_b = _speed(a), _speed(b)
    return Comparison(
        a=a.recorded.location.uri,
        b=b.recorded.location.uri,
        facts=tuple(_differences(facts_of(a), facts_of(b))),
        losses=tuple([_loss(curves_a[name], curves_b[name]) for name in curves_a if name in curves_b]),
        only_a=tuple([name for name in curves_a if name not in curves_b]),
        only_b=tuple([name for name in curves_b if name not in curves_a]),
        steps_a=_steps(curves_a),
        steps_b=_steps(curves_b),
        pace_a=pace_of(a.trial),
        pace_b=pace_of(b.trial),
        speed_a=speed_a.bottleneck.value,
        speed_b=speed_b.bottleneck.value,
        phases=tuple(_phases(speed_a, speed_b)),
        is_judged_a=a.recorded.judged.has_answer,
        is_judged_b=b.recorded.judged.has_answer,
        reservation_a=a.recorded.judged.reservation,
        reservation_b=b.recorded.judged.reservation,
        recovered_a=recovered_rules(a.recorded),
        recovered_b=recovered_rules(b.recorded),
        issues_a={name: step for name, step in issues_a.items() if name not in issues_b},
        issues_b={name: step for name, step in issues_b.items() if name not in issues_a},
        issues_both={name: (step, issues_b[name]) for name, step in issues_a.items() if name in issues_b},
        cure=cure_of(a.recorded, b.recorded) if issues_a else None,
    )


def _speed(run: ComparedRun) -> PerformanceVerdict:
    return judged_workers(measured_workers(run.recorded.location.uri, run.trial))[0][1]


def _phases(a: PerformanceVerdict, b: PerformanceVerdict) -> Iterator[PhaseDifference]:
    of_a, of_b = ({phase.name: phase.seconds for phase in one.phases} for one in (a, b))
    for name in dict.fromkeys((*of_a, *of_b)):
        yield PhaseDifference(name, of_a.get(name), of_b.get(name))


def differing_facts(a: ComparedRun, b: ComparedRun) -> int:
    """Return the number of settings that differ. Reads the facts of both runs alone. Errors: those of the stores."""
    return sum(1 for _ in _differences(facts_of(a), facts_of(b)))


def _steps(curves: Mapping[str, Curve]) -> int:
    return max((len(curve.steps) for curve in curves.values()), default=0)


def standing_issues(recorded: RecordedRun) -> dict[str, int]:
    return {
        rule.name: rule.verdict.shown_since
        for rule in recorded.rules
        if rule.state is RuleState.ISSUE and rule.verdict is not None
    }


def recovered_rules(recorded: RecordedRun) -> dict[str, int]:
    return {
        rule.name: rule.verdict.shown_step
        for rule in recorded.rules
        if rule.state is RuleState.RECOVERED and rule.verdict is not None
    }


def _loss(a: Curve, b: Curve) -> LossDifference:
    steps, in_a, in_b = np.intersect1d(a.steps, b.steps, assume_unique=True, return_indices=True)
    if not len(steps):
        return LossDifference(a.name, 0)
    of_a, of_b = a.values[in_a], b.values[in_b]
    differing = np.flatnonzero(~((of_a == of_b) | (np.isnan(of_a) & np.isnan(of_b))))
    noise, place = parting(of_a, of_b)
    if place is not None and len(differing):
        place = max(place, int(differing[0]))  # a block begins before the step that differs
    with np.errstate(invalid="ignore", over="ignore"):
        difference = float((of_b - of_a)[place or 0 :].mean())
    return LossDifference(
        name=a.name,
        steps=len(steps),
        first=int(steps[0]),
        last=int(steps[-1]),
        first_a=float(of_a[0]),
        first_b=float(of_b[0]),
        last_a=float(of_a[-1]),
        last_b=float(of_b[-1]),
        differs_from=int(steps[differing[0]]) if len(differing) else None,
        parts_from=None if place is None else int(steps[place]),
        mean_difference=difference,
        noise=noise,
    )


def parting(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float | None, int | None]:
    """Return the noise of the difference, and the place from which it is more than noise; None for either if unknown.

    The noise is the deviation of neighbouring steps within each run, from their median, so that neither a trend nor a
    single jump counts. The difference is weighed as means over blocks of `BLOCK_STEPS`; it is more than noise from the
    first block on that begins `PARTED_BLOCKS` in a row beyond `NOISE_FACTOR` standard errors, on one side. A run that
    is not finite where the other one is parts there.
    """
    broken = np.flatnonzero(np.isfinite(a) != np.isfinite(b))
    end = int(broken[0]) if len(broken) else len(a)
    both = np.isfinite(a[:end]) & np.isfinite(b[:end])
    blocks = end // BLOCK_STEPS
    at_break = end if len(broken) else None
    if blocks < PARTED_BLOCKS or not both.all():
        return None, at_break
    noise = math.hypot(_noise(a[:end]), _noise(b[:end]))
    size = max(float(np.abs(a[:end]).mean()), float(np.abs(b[:end]).mean()))
    means = (b - a)[: blocks * BLOCK_STEPS].reshape(blocks, BLOCK_STEPS).mean(axis=1)
    limit = max(NOISE_FACTOR * noise / math.sqrt(BLOCK_STEPS), 1e-6 * size)
    sides = np.where(means > limit, 1, np.where(means < -limit, -1, 0))
    for first in range(blocks - PARTED_BLOCKS + 1):
        if abs(int(sides[first : first + PARTED_BLOCKS].sum())) == PARTED_BLOCKS:
            return noise, first * BLOCK_STEPS
    return noise, at_break


def _noise(values: NDArray[np.float64]) -> float:
    """Return the standard deviation of the values around their trend."""
    return float(np.median(np.abs(np.diff(values)))) * 1.4826 / math.sqrt(2)


def pace_of(trial: Trial) -> float | None:
    """Return the steps a second: of the median step, after the warm-up. None if it is unknown.

    Steps between two recorded ones, which were not watched, took equally long.
    """
    workers = trial.workers
    steps, times = trial.parts.steps.times(workers[0]) if workers else (np.empty(0, np.int64), np.empty(0))
    begin = int(len(steps) * WARM_UP_SHARE)
    made, seconds = np.diff(trial.parts.steps.training_numbers(steps)[begin:]), np.diff(times[begin:])
    is_known = (seconds > 0) & (made > 0)
    made, each = made[is_known], seconds[is_known] / made[is_known]
    if not len(made) or made.max() == 1:
        return 1.0 / float(np.median(each)) if len(made) else None
    order = np.argsort(each)
    middle = int(np.searchsorted(np.cumsum(made[order]), made.sum() / 2))
    return 1.0 / float(each[order][middle])


def _differences(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Difference]:
    for fact in dict.fromkeys((*a, *b)):
        one, other = a.get(fact, _MISSING), b.get(fact, _MISSING)
        if one != other:
            yield Difference(fact, one, other)


def facts_of(run: ComparedRun) -> dict[str, str]:
    """Return the settings of a run as texts, by name, in the order in which users look for causes."""
    facts = run.trial.model_facts
    found = {} if run.record is None else {"command": " ".join(run.record.command)}
    if facts is None:
        return found
    for optimizer in facts.optimizers:
        found |= _of_optimizer(optimizer)
    found |= _of_losses(facts)
    found |= _of_program(facts)
    found |= described_model(facts)
    return found


def _of_optimizer(optimizer: OptimizerFacts) -> dict[str, str]:
    found = {f"optimizer {optimizer.name}": f"{optimizer.type_name} of {optimizer.parameter_count} tensors"}
    for number, group in enumerate(optimizer.groups):
        where = f" (group {number})" if len(optimizer.groups) > 1 else ""
        found |= {f"{optimizer.name} {key}{where}": f"{value:.6g}" for key, value in group.items()}
    return found


def _of_losses(facts: ModelFacts) -> dict[str, str]:
    found: dict[str, str] = {}
    for loss in [one for one in facts.losses if one.name]:
        kind = ", ".join(filter(None, (loss.type_name, loss.reduction, "weighted" if loss.is_weighted else "")))
        found[f"loss {loss.name}"] = kind or "written by hand"
        found[f"loss {loss.name}, input"] = f"{'x'.join(map(str, loss.input_shape))} {loss.input_from}".strip()
        found[f"loss {loss.name}, scale"] = f"{loss.scale:g}"
    return found


def _of_program(facts: ModelFacts) -> dict[str, str]:
    program = facts.program
    return {
        "script": program.script.rpartition("/")[2] or NO_SCRIPT,
        "framework": f"{program.framework} {program.framework_version}".strip(),
        "mixed precision": program.autocast_dtype or "none",
        "gradient scaler": _yes(program.has_grad_scaler),
        "ranks": str(program.world_size),
        "torch.compile": _yes(program.is_compiled),
        "data parallel": program.data_parallel or "none",
        "gradient clipping": ", ".join(f"{each.kind} {each.limit:g}" for each in CLIPPINGS.of(program)) or "none",
    }


def described_model(facts: ModelFacts) -> dict[str, str]:
    """Return the model of a run as texts, by name: its parameters and modules."""
    own = [parameter for parameter in facts.parameters if not parameter.tied_to]
    found = {
        "parameters": f"{sum(parameter.size for parameter in own):,}",
        "trained parameters": f"{sum(p.size for p in own if p.requires_grad and p.optimizer):,}",
        "parameter types": ", ".join(sorted({parameter.dtype for parameter in own})),
    }
    found |= {f"module {module.name}": _described(module) for module in facts.modules}
    return found | {f"parameter {p.name}": "x".join(map(str, p.shape)) or "scalar" for p in own}


def _described(module: ModuleFacts) -> str:
    values: Sequence[object] = [*(getattr(module, name) for name in MODULE_FIELDS), PROBABILITY.of(module)]
    kind, *rest = [str(value) for value in values if value not in {None, ""}]
    return " ".join([kind, *rest]) if kind else ""


def _yes(value: bool) -> str:
    return "yes" if value else "no"
