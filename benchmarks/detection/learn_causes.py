"""Learn the tables of `trackside.diagnosis` from the stored runs of the split `tune`, and write docs/causes.md.

    python -m benchmarks.detection.learn_causes --seeds 1            # judges, learns, writes tables and page
    python -m benchmarks.detection.learn_causes --seeds 1 --dry      # prints the measures only
    python -m benchmarks.detection.learn_causes --seeds 1 --mutants build/mutants      # from planted mistakes too

Three tables are learned: the weights of evidence for causes (`causes.json`), the probability that an issue is real
(`probabilities.json`), and the kinds of harm with which a rule is critical (`critical.json`). All measures are of
programs that the fit has not seen: the programs are divided into folds, and each fold is measured with what was
learned from the others.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.causes_page import write_page
from benchmarks.detection.learned_runs import Run, Told, judge_all, stored_job, stored_mutants
from benchmarks.detection.train import add_choice, chosen_jobs
from benchmarks.engine.documents import write_text
from benchmarks.engine.options import parser
from benchmarks.engine.stored import stored_of
from benchmarks.engine.usual import rules_of
from trackside.contracts.cause import SPEED_CAUSES, Cause, Sign, Suspicion
from trackside.contracts.verdict import Severity
from trackside.diagnosis.harm import Harm
from trackside.diagnosis.learned import CAUSES_FILE, CRITICAL_FILE, PROBABILITIES_FILE, Odds, Weights, weights
from trackside.diagnosis.probability import CERTAIN, PROPERTIES, WITH_OTHERS, probability_of
from trackside.diagnosis.ranking import suspicions_of
from trackside.diagnosis.signs import FOUND, HARM, SHOWN, refuted_by, supported_by
from trackside.evidence.registry import all_questions
from trackside.rules.catalogue import built_in_rules

FOLDS = 5
CAUSES = tuple(cause.value for cause in Cause if cause not in SPEED_CAUSES)
LEAST_PRECISION = 0.99
FEWEST_RIGHT = 3  # runs with a critical issue that was right, before a kind of harm counts for a rule
OUTSIDE_PRECISION = 0.68  # of warnings on a private corpus of programs that nobody here had seen: gaps of November 2026
OUTSIDE_COUNT = 4.0  # issues that this precision counts for, of each rule
SMALLEST_WEIGHT = 0.05  # weights below it are left out of the table
TIGHTNESS = (0.1, 0.3, 1.0)  # candidates for the precision of the prior of weights
_STEPS = 250  # of the fit: the slope is then below a hundredth everywhere

# The kinds of harm that make a rule critical by definition; for other rules `tune` must show that they are right.
# A kind that `tune` contradicts is dropped in both.
_HURT = (Harm.NOT_FINITE, Harm.WORSENED, Harm.NOTHING_LEARNED)
CANDIDATES: Mapping[str, tuple[Harm, ...]] = {
    "exploding-tensor": (Harm.NOT_FINITE,),
    "stalled-training": (Harm.STANDSTILL,),
    "replicas-differ": (Harm.LASTING,),
    "loss-spike": (Harm.NOT_FINITE, Harm.WORSENED),  # a target that moves raises a loss that never falls
    "overfit": (),  # the best checkpoint stands, and right programs of other people overfit as well
    "unsuitable-loss": (*_HURT, Harm.LASTING),
    "gradients-not-cleared": (*_HURT, Harm.LASTING),
    "parameters-not-trained": _HURT,  # parts may be frozen for long on purpose, as in gradual unfreezing
}


# ── causes ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Case:
    """One issue to learn from: its evidence, the causes that name it rightly, and its weight."""

    program: str
    signs: tuple[Sign, ...]
    causes: tuple[str, ...]
    weight: float


def cases_of(runs: Sequence[Run]) -> list[Case]:
    """Return the issues of faulty runs. All issues of a run count as one together."""
    return [
        Case(run.program, told.signs, run.causes, 1 / len(run.true_issues)) for run in runs for told in run.true_issues
    ]


def evidence_names() -> tuple[str, ...]:
    """Return the name of each piece of evidence, in the order of the table."""
    rules = [FOUND + rule.rule_id for rule in built_in_rules().values()]
    return (
        *all_questions(),
        *(SHOWN + cause for cause in CAUSES),
        *(HARM + harm.value for harm in Harm),
        *sorted(set(rules)),
    )


def matrix(cases: Sequence[tuple[Sign, ...]], names: Sequence[str]) -> NDArray[np.float64]:
    """Return a row a case: a constant, then 1 for each present piece, then 1 for each absent one."""
    places = {name: place for place, name in enumerate(names)}
    rows = np.zeros((len(cases), 1 + 2 * len(names)))
    rows[:, 0] = 1
    for row, signs in zip(rows, cases, strict=True):
        for sign in signs:
            if sign.name in places:
                row[1 + places[sign.name] + (0 if sign.is_present else len(names))] = 1
    return rows


def prior_weights(names: Sequence[str]) -> NDArray[np.float64]:
    """Return the weights before anything is learned: what a piece is expected to support."""
    weights = np.zeros((1 + 2 * len(names), len(CAUSES)))
    likely = {
        FOUND + rule.rule_id: [cause for cause in rule.likely_causes if cause not in SPEED_CAUSES]
        for rule in built_in_rules().values()
    }
    for place, name in enumerate(names):
        for cause in supported_by(name):
            weights[1 + place, CAUSES.index(cause.value)] = 3.0 if name.startswith(SHOWN) else 1.5
            if name in all_questions():
                weights[1 + len(names) + place, CAUSES.index(cause.value)] = -0.7
        for rank, cause in enumerate(likely.get(name, ())[:2]):
            weights[1 + place, CAUSES.index(cause.value)] = 1.5 - 0.5 * rank
    return weights


def learn_weights(cases: Sequence[Case], names: Sequence[str], *, tightness: float) -> NDArray[np.float64]:
    """Return the weights (evidence x cause) of a multinomial logistic regression, held near their prior.

    A case with several right causes counts as right if any of them is named. Refuted causes do not compete.

    Args:
        cases: The cases.
        names: The names of the evidence.
        tightness: The precision of the normal prior around `prior_weights`.
    """
    everything, expected = matrix([case.signs for case in cases], names), prior_weights(names)
    seen = everything.any(axis=0)  # what no case shows keeps its expected weights
    rows, prior = everything[:, seen], expected[seen]
    right = np.array([[cause in case.causes for cause in CAUSES] for case in cases], dtype=bool)
    possible = _possible(cases) | right
    share = np.array([case.weight for case in cases])[:, None]
    weights = prior.copy()
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, _STEPS + 1):  # Adam on the whole batch: deterministic
        scores = np.where(possible, rows @ weights, -np.inf)
        parts = np.exp(scores - scores.max(axis=1, keepdims=True))
        chosen = parts / parts.sum(axis=1, keepdims=True)
        wanted = np.where(right, parts, 0)
        wanted /= np.maximum(wanted.sum(axis=1, keepdims=True), 1e-300)
        slope = rows.T @ (share * (chosen - wanted)) + tightness * (weights - prior)
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
        weights = weights - 0.1 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    expected[seen] = weights
    return expected


def _possible(cases: Sequence[Case]) -> NDArray[np.bool_]:
    refuted = [refuted_by(case.signs) for case in cases]
    return np.array([[Cause(cause) not in one for cause in CAUSES] for one in refuted], dtype=bool)


def as_weights(weights: NDArray[np.float64], names: Sequence[str]) -> Weights:
    """Return the table, without weights that change nothing."""
    rounded = np.round(weights, 2)

    def table(first: int) -> dict[str, dict[str, float]]:
        return {
            name: {
                cause: float(weight)
                for cause, weight in zip(CAUSES, rounded[first + place], strict=True)
                if abs(weight) >= SMALLEST_WEIGHT
            }
            for place, name in enumerate(names)
        }

    bias = {cause: float(weight) for cause, weight in zip(CAUSES, rounded[0], strict=True)}
    absent = {name: row for name, row in table(1 + len(names)).items() if row}
    return Weights(bias, table(1), absent)


def log_loss(cases: Sequence[Case], weights: NDArray[np.float64], names: Sequence[str]) -> float:
    """Return the mean of -ln P(a right cause), weighted by run."""
    scores = np.where(_possible(cases), matrix([case.signs for case in cases], names) @ weights, -np.inf)
    parts = np.exp(scores - scores.max(axis=1, keepdims=True))
    right = np.array([[cause in case.causes for cause in CAUSES] for case in cases], dtype=bool)
    chance = np.where(right, parts, 0).sum(axis=1) / parts.sum(axis=1)
    share = np.array([case.weight for case in cases])
    return float(-(share * np.log(np.maximum(chance, 1e-6))).sum() / share.sum())


def fold_of(program: str) -> int:
    """Return the fold of a program, the same on every machine."""
    return int(hashlib.sha256(program.encode()).hexdigest(), 16) % FOLDS


# ── measures ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Named:
    """How well causes are named in faulty runs, of which some issue was found.

    cards   by run: the number of groups
    first   runs of which the first card's first cause is right
    two     runs of which a right cause is among the first two of the first two cards
    unknown runs of which the first card names no cause
    """

    runs: int
    found: int
    first: int
    two: int
    unknown: int
    cards: tuple[int, ...]


def named(runs: Sequence[Run], suspicions: Mapping[str, Mapping[str, Sequence[Suspicion]]]) -> Named:
    """Return the measure. `suspicions` holds by run and group the causes of the newest verdict."""
    faulty = [run for run in runs if run.causes]
    found = [run for run in faulty if _alarms(run)]
    first = two = unknown = 0
    for run in found:
        groups = list(dict.fromkeys(told.group for told in _alarms(run)))
        lists = [[one.cause.value for one in suspicions[run.name][group]] for group in groups]
        first += bool(lists[0]) and lists[0][0] in run.causes
        two += any(cause in run.causes for causes in lists[:2] for cause in causes[:2])
        unknown += not lists[0]
    cards = tuple(len({told.group for told in _alarms(run)}) for run in found)
    return Named(len(faulty), len(found), first, two, unknown, cards)


def _alarms(run: Run) -> tuple[Told, ...]:
    return tuple(told for told in run.true_issues if told.severity != Severity.INFO.value)


def ranked_by(runs: Sequence[Run], weights: Weights) -> dict[str, dict[str, Sequence[Suspicion]]]:
    """Return by run and group the causes of the newest verdict, as these weights rank them."""
    return {
        run.name: {told.group: suspicions_of(told.signs, weights, hints={}) for told in _alarms(run)}
        for run in runs
        if run.causes
    }


# ── probabilities ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Sample:
    """One issue to calibrate on."""

    program: str
    rule: str
    properties: tuple[str, ...]
    is_real: bool
    weight: float


def samples_of(runs: Sequence[Run]) -> list[Sample]:
    """Return every issue. Clean and faulty runs weigh the same in sum, as if every other run were faulty."""
    clean = sum(not run.causes for run in runs) or 1
    faulty = sum(bool(run.causes) for run in runs) or 1
    return [
        Sample(run.program, told.rule, told.properties, told in run.true_issues, 1.0 if run.causes else faulty / clean)
        for run in runs
        for told in run.told
        if run.causes == () or told in run.true_issues
    ]


def learn_odds(samples: Sequence[Sample]) -> Odds:
    """Return the weights of a logistic regression by rule and property (Platt's scaling), held near zero.

    Each rule counts as if it had been seen `OUTSIDE_COUNT` times more, with the precision that a corpus of other
    people's programs showed: rules were changed on the programs that we learn from.
    """
    rules = sorted({sample.rule for sample in samples} | {rule.rule_id for rule in rules_of()})
    rows = [_features(sample.rule, sample.properties, rules) for sample in samples]
    real = [float(sample.is_real) for sample in samples]
    weight = [sample.weight for sample in samples]
    for rule in rules:
        for held in ((), (CERTAIN,), (CERTAIN, WITH_OTHERS)):
            for is_real, share in ((1.0, OUTSIDE_PRECISION), (0.0, 1 - OUTSIDE_PRECISION)):
                rows.append(_features(rule, held, rules))
                real.append(is_real)
                weight.append(OUTSIDE_COUNT / 3 * share)
    features, labels, shares = np.array(rows), np.array(real), np.array(weight)
    penalty = np.array([0.0, *[0.5] * (features.shape[1] - 1)])
    found = np.zeros(features.shape[1])
    for _ in range(50):  # Newton's method
        chance = 1 / (1 + np.exp(-(features @ found)))
        slope = features.T @ (shares * (chance - labels)) + penalty * found
        curve = (features * (shares * chance * (1 - chance))[:, None]).T @ features + np.diag(penalty + 1e-9)
        found = found - np.linalg.solve(curve, slope)
    rounded = [round(float(value), 3) for value in found]
    extra = dict(zip(PROPERTIES, rounded[1 + len(rules) :], strict=True))
    return Odds(rounded[0], dict(zip(rules, rounded[1:], strict=False)), extra)


def _features(rule: str, properties: Sequence[str], rules: Sequence[str]) -> list[float]:
    return [1.0, *[float(rule == one) for one in rules], *[float(name in properties) for name in PROPERTIES]]


@dataclass(frozen=True)
class Calibration:
    """The probabilities of issues of unseen programs, against what was true."""

    predicted: NDArray[np.float64]
    real: NDArray[np.float64]
    weight: NDArray[np.float64]

    @property
    def brier(self) -> float:
        """The mean squared difference."""
        return float(np.average((self.predicted - self.real) ** 2, weights=self.weight))

    @property
    def expected_error(self) -> float:
        """The expected calibration error, over ten bins of equal width."""
        return sum(share * abs(mean - true) for mean, true, share, _ in self.bins())

    def bins(self) -> list[tuple[float, float, float, int]]:
        """Return (mean probability, share that is real, share of weight, issues) of each bin that is not empty."""
        place = np.minimum((self.predicted * 10).astype(int), 9)
        found = []
        for number in range(10):
            inside = place == number
            if inside.any():
                weight = self.weight[inside]
                found.append(
                    (
                        float(np.average(self.predicted[inside], weights=weight)),
                        float(np.average(self.real[inside], weights=weight)),
                        float(weight.sum() / self.weight.sum()),
                        int(inside.sum()),
                    )
                )
        return found


def calibration_of(samples: Sequence[Sample]) -> Calibration:
    """Return the calibration on programs that were left out of the fit."""
    learned = {
        fold: learn_odds([sample for sample in samples if fold_of(sample.program) != fold]) for fold in range(FOLDS)
    }
    predicted = [probability_of(s.rule, s.properties, learned[fold_of(s.program)]) for s in samples]
    return Calibration(
        np.array(predicted),
        np.array([float(sample.is_real) for sample in samples]),
        np.array([sample.weight for sample in samples]),
    )


# ── critical ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Level:
    """Critical issues of a rule with a kind of harm: right ones, and ones of clean runs or before the fault acts."""

    rule: str
    harm: str
    right: int
    wrong: int

    @property
    def is_precise(self) -> bool:
        """True if the precision reaches 99 %, over `FEWEST_RIGHT` runs or for a harm that is one by definition."""
        is_known = self.rule in CANDIDATES or self.right >= FEWEST_RIGHT
        return is_known and self.right >= LEAST_PRECISION * (self.right + self.wrong)


def levels_of(runs: Sequence[Run]) -> list[Level]:
    """Return the candidates for a critical level, each counted on the runs."""
    counts: dict[tuple[str, str], list[int]] = {}
    for rule in rules_of():
        for harm in CANDIDATES.get(rule.rule_id, _HURT):
            counts[rule.rule_id, harm.value] = [0, 0]
    for run in runs:
        seen: set[tuple[str, str]] = set()
        for told in run.told:
            if told.severity != Severity.CRITICAL.value:
                continue
            is_right = told in run.true_issues
            for name in told.own:
                key = (told.rule, name.removeprefix(HARM))
                if key in counts and key not in seen:
                    seen.add(key)
                    counts[key][0 if is_right else 1] += 1
    return [Level(rule, harm, right, wrong) for (rule, harm), (right, wrong) in sorted(counts.items())]


def critical_table(levels: Sequence[Level]) -> dict[str, list[str]]:
    """Return by rule the kinds of harm with which it is critical, none for one that never is."""
    table: dict[str, list[str]] = {rule.rule_id: [] for rule in rules_of()}
    for level in levels:
        if level.is_precise:
            table[level.rule].append(level.harm)
    return table


@dataclass(frozen=True)
class Learned:
    """The learned tables, and their measures on unseen programs.

    losses  by tightness: the mean of -ln P(a right cause)
    """

    weights: Weights
    odds: Odds
    levels: list[Level]
    calibration: Calibration
    losses: Mapping[float, float]
    expected: Named
    unseen: Named


def learn(runs: Sequence[Run]) -> Learned:
    """Return the tables learned from all runs, and measures of what is learned without a program's own fold."""
    names, cases = evidence_names(), cases_of(runs)
    folds = {fold: [case for case in cases if fold_of(case.program) != fold] for fold in range(FOLDS)}
    by_tightness = {
        tightness: {fold: learn_weights(some, names, tightness=tightness) for fold, some in folds.items()}
        for tightness in TIGHTNESS
    }
    by_fold = {tightness: _unseen_losses(cases, learned, names) for tightness, learned in by_tightness.items()}
    losses = {tightness: float(found.mean()) for tightness, found in by_fold.items()}
    best = tightest_as_good(by_fold)
    suspicions: dict[str, dict[str, Sequence[Suspicion]]] = {}
    for fold, learned in by_tightness[best].items():
        mine = [run for run in runs if fold_of(run.program) == fold]
        suspicions.update(ranked_by(mine, as_weights(learned, names)))
    samples = samples_of(runs)
    return Learned(
        weights=as_weights(learn_weights(cases, names, tightness=best), names),
        odds=learn_odds(samples),
        levels=levels_of(runs),
        calibration=calibration_of(samples),
        losses=losses,
        expected=named(runs, ranked_by(runs, as_weights(prior_weights(names), names))),
        unseen=named(runs, suspicions),
    )


def tightest_as_good(by_fold: Mapping[float, NDArray[np.float64]]) -> float:
    """Return the tightest candidate that is no worse than the best by more than that one's standard error.

    What a few programs suggest against all expectation is not believed for a gain that chance explains.

    Args:
        by_fold: By tightness, the loss of each fold.
    """
    best = min(by_fold.values(), key=lambda losses: float(losses.mean()))
    most = float(best.mean() + best.std(ddof=1) / np.sqrt(len(best)))
    return max(tightness for tightness, losses in by_fold.items() if losses.mean() <= most)


def _unseen_losses(
    cases: Sequence[Case], learned: Mapping[int, NDArray[np.float64]], names: Sequence[str]
) -> NDArray[np.float64]:
    found = [
        log_loss(rest, weights, names)
        for fold, weights in learned.items()
        if (rest := [case for case in cases if fold_of(case.program) == fold])
    ]
    return np.array(found)


def main(words: Sequence[str] | None = None) -> int:
    """Judge the stored runs, learn the tables, measure them on unseen programs, and write tables and page."""
    options = parser(__doc__)
    add_choice(options)
    options.add_argument("--mutants", type=Path, help="learn from the stored mutants of `tune` below this folder too")
    options.add_argument("--dry", action="store_true", help="print the measures only")
    arguments = options.parse_args(words)
    jobs = chosen_jobs(arguments)
    stored = [stored_job(job, folder) for job, folder in stored_of(jobs, arguments.root)]
    planted = stored_mutants(arguments.mutants) if arguments.mutants else []
    print(f"{len(stored)} of {len(jobs)} runs are stored, and {len(planted)} mutants", file=sys.stderr)
    stored += planted
    runs = judge_all(stored, processes=arguments.processes)
    found = learn(runs)
    print(f"log loss of unseen programs by tightness: {found.losses}")
    print(f"expected weights: {found.expected}\nlearned, unseen programs: {found.unseen}")
    print(f"weights of today, which may know these programs: {named(runs, ranked_by(runs, weights()))}")
    print(f"Brier {found.calibration.brier:.4f}, expected error {found.calibration.expected_error:.4f}")
    print("\n".join(f"{level} {'' if level.is_precise else 'DROPPED'}" for level in found.levels))
    if not arguments.dry:
        write(found, runs=len(runs))
    return 0


def write(found: Learned, *, runs: int) -> None:
    """Write the three tables and the page."""
    weights, odds = found.weights, found.odds
    _write(CAUSES_FILE, {"bias": weights.bias, "present": weights.present, "absent": weights.absent})
    _write(PROBABILITIES_FILE, {"bias": odds.bias, "rules": odds.rules, "extra": odds.extra})
    _write(CRITICAL_FILE, {"rules": critical_table(found.levels)})
    write_page(
        weights,
        calibration=found.calibration,
        levels=found.levels,
        measures=(found.expected, found.unseen),
        runs=runs,
    )


def _write(path: Path, document: Mapping[str, Any]) -> None:
    note = "Written by `python -m benchmarks.detection.learn_causes`; see docs/causes.md."
    write_text(path, json.dumps({"note": note, "version": 1, **document}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
