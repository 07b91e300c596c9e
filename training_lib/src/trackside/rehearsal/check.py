"""A rehearsal of a training on this machine: a few steps judged by the rules, then the probes of its processes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import ConfigurationError, TracksideError
from trackside.contracts.issue_group import issue_groups
from trackside.contracts.run.check import Answer, Outcome, ProcessReport
from trackside.contracts.run.exit_code import NOT_JUDGED
from trackside.contracts.run_layout import CHECK, RULE_OUTPUT
from trackside.contracts.verdict import Severity, Verdict
from trackside.environment import RehearsalEnvironment
from trackside.evaluation.results.run_learning import store_learning
from trackside.local.run import LocalRun, LocalRunResult, Observer, run_locally
from trackside.runs.run_summary import store_summary
from trackside.storage.open_store import open_store

FAIL_ON = Severity.WARNING  # a rehearsal is a gate: its few steps leave most rules no time to become critical
LOSS_RATIO = 4.0  # as `poor-weight-initialization`
_COMES_DOWN = 0.9  # of the first loss: what falls below it in a rehearsal may be on its way
_NEWEST = 5  # losses
_ANSWERS = frozenset({Outcome.OK, Outcome.FAULT})
_SCRIPT, _LOSS, _RANKS = "script-runs", "loss-at-the-start", "ranks-agree"


@dataclass(frozen=True)
class CheckResult:
    """The result of a rehearsal.

    run        the run that the script's steps left
    steps      optimizer steps made
    answers    answers of all probes
    issues     issues of the rules that stand at the end, the gravest first
    recovered  number of issues that do not stand any more
    fail_on    severity from which an issue fails the rehearsal; None: no issue does
    """

    run: LocalRunResult
    steps: int
    answers: tuple[Answer, ...]
    issues: tuple[Verdict, ...]
    recovered: int = 0
    fail_on: Severity | None = FAIL_ON

    @property
    def faults(self) -> tuple[Answer, ...]:
        """The answers that found a fault."""
        return tuple(each for each in self.answers if each.outcome is Outcome.FAULT)

    @property
    def failing(self) -> tuple[Verdict, ...]:
        """The issues that fail the rehearsal."""
        return tuple(issue for issue in self.issues if fails(issue, self.fail_on))

    @property
    def not_judged(self) -> str:
        """A clause about why the training was not judged; "" if rules or probes have judged it.

        The script's own end is no answer about its training.
        """
        if self.run.evaluator_problem:
            return self.run.evaluator_problem.rstrip(".")
        is_probed = any(each.outcome in _ANSWERS and each.probe != _SCRIPT for each in self.answers)
        if is_probed or self.run.judged.has_answer:
            return ""
        return self.run.capture_problem.rstrip(".") or "no probe could be tried, and too little for any rule was seen"

    @property
    def exit_code(self) -> int:
        """1 if a probe found a fault, or an issue that fails the rehearsal stands at its end.

        Else `NOT_JUDGED` if the training was not judged, and 0 if it was.
        """
        if self.faults or self.failing:
            return 1
        return NOT_JUDGED if self.not_judged else 0


def fails(issue: Verdict, fail_on: Severity | None) -> bool:
    """Return True if an issue is grave enough to fail the rehearsal."""
    return fail_on is not None and issue.severity.rank >= fail_on.rank


def rehearsed(run: LocalRun, settings: RehearsalEnvironment) -> LocalRun:
    """Return the run as a rehearsal: its processes end after some steps, and its script prints to stderr."""
    return replace(
        run,
        environment={**run.environment, **settings.variables()},
        capture=for_rehearsal(run.capture),
        is_output_on_stderr=True,
    )


def for_rehearsal(capture: CaptureRequest) -> CaptureRequest:
    """Return the request with losses and labels of each step, and statistics that no slow machine thins out."""
    wanted = {name: CollectionRequest(name, Schedule(1)) for name in ("losses", "labels")}
    kept: Mapping[str, CollectionRequest] = {each.name: each for each in capture.collections}
    statistics = replace(capture.statistics, budget=1.0)
    return replace(capture, collections=tuple({**kept, **wanted}.values()), statistics=statistics)


def check_locally(
    run: LocalRun,
    *,
    observer: Observer,
    fail_on: Severity | None = FAIL_ON,
    clock: Callable[[], float] = time.time,
) -> CheckResult:
    """Run the rehearsal to its end, and return the answers.

    Errors: as `run_locally`.
    """
    result = checked(run_locally(run, observer=observer, clock=clock), now=clock(), fail_on=fail_on)
    if result.faults:
        learning = replace(result.run.learning, faults=faults_in_words(result.faults))
        store_learning(open_store(f"{run.folder}/{RULE_OUTPUT}"), learning)
        store_summary(run.folder)
    return result


def faults_in_words(faults: Sequence[Answer]) -> str:
    """Return the faults of a rehearsal as a clause, for all who read its run later.

    Args:
        faults: The answers that found one; not empty.
    """
    names = ", ".join(each.probe for each in faults)
    return f"the rehearsal found {len(faults)} fault{'' if len(faults) == 1 else 's'}: {names}"


def checked(result: LocalRunResult, *, now: float, fail_on: Severity | None = FAIL_ON) -> CheckResult:
    """Return the answers of a rehearsal that has ended, and the issues that stand at its end.

    Args:
        result: The run of the script.
        now: Seconds since the epoch.
        fail_on: Severity from which an issue fails the rehearsal; None: no issue does.
    """
    reports = read_reports(result.folder)
    answered = next((report for report in reports if report.answers), None)
    answers = (
        answer_of_script(result, reports),
        answer_of_loss(result.folder, now=now),
        *(answered.answers if answered else ()),
        answer_of_ranks(reports),
    )
    groups = issue_groups(result.verdicts)
    standing = [issue for group in groups for issue in group.standing]
    return CheckResult(
        result,
        max((report.steps for report in reports), default=0),
        answers,
        tuple(sorted(standing, key=lambda issue: -issue.severity.rank)),
        sum(len(group.issues) for group in groups) - len(standing),
        fail_on,
    )


def read_reports(folder: Path) -> tuple[ProcessReport, ...]:
    """Return the reports of the processes, by worker. A report that cannot be read is left out."""
    store = open_store(f"{folder}/{CHECK}")
    found = []
    for key in store.list():
        try:
            found.append(ProcessReport.from_json(store.get(key)))
        except ConfigurationError:
            continue
    return tuple(sorted(found, key=lambda report: report.worker))


def answer_of_script(result: LocalRunResult, reports: Sequence[ProcessReport]) -> Answer:
    """Return a fault if the script failed before the probes, and could-not-try if it made no step."""
    steps = max((report.steps for report in reports), default=0)
    unused = max((report.unused_gradients for report in reports), default=0)
    if unused and not steps:
        return Answer(
            _SCRIPT,
            Outcome.FAULT,
            f"new gradients were cleared {unused} time{'' if unused == 1 else 's'}, and no optimizer made a step",
            what="The script computes gradients and never uses them.",
            what_to_do=("Call optimizer.step() after each backward pass, and look at the condition around it.",),
        )
    is_cut = any(report.is_cut for report in reports)
    if any(report.is_done for report in reports) and (is_cut or result.status == 0):
        return Answer(_SCRIPT, Outcome.OK, f"{steps} step{'' if steps == 1 else 's'} made, then ended")
    if any(not report.is_done for report in reports):
        return Answer(_SCRIPT, Outcome.NOT_TRIED, "the process ended while the probes were asked")
    if result.status != 0:
        return Answer(
            _SCRIPT,
            Outcome.FAULT,
            f"it ended with code {result.status}" if result.status > 0 else f"signal {-result.status} ended it",
            what="The script ended before the rehearsal was over.",
            what_to_do=("Its own message, above, names the reason.",),
        )
    return Answer(_SCRIPT, Outcome.NOT_TRIED, result.capture_problem or "it made no step that can be seen")


def answer_of_loss(folder: Path, *, now: float) -> Answer:
    """Compare the first losses with the loss of the best constant answer to the labels."""
    try:
        return _loss_against_guessing(str(folder), now=now)
    except (TracksideError, LookupError, ValueError) as error:
        return Answer(_LOSS, Outcome.NOT_TRIED, f"the losses cannot be read: {' '.join(str(error).split())[:200]}")


def what_is_high(losses: NDArray[np.float64], newest: float, guess: float) -> str:
    """Return what is wrong with the losses of a rehearsal; "" for nothing."""
    first, highest = float(losses[0]), float(losses.max())
    if newest > LOSS_RATIO * guess and newest > _COMES_DOWN * first:
        words = "has risen to" if newest > first else "is still"
        return f"The loss {words} more than {LOSS_RATIO:g} times that of a constant answer."
    least = max(first, guess)
    if highest > LOSS_RATIO * least and newest > least:
        return f"The loss has jumped to {highest:.4g}, and has not come back below its first value."
    return ""


def answer_of_ranks(reports: Sequence[ProcessReport]) -> Answer:
    """Compare the parameters and batches of all ranks, at each step that all of them made."""
    world = max((report.world_size for report in reports), default=1)
    if world < 2:
        return Answer(_RANKS, Outcome.DOES_NOT_APPLY, "one process trains")
    by_rank = [{digest.step: digest for digest in report.digests} for report in reports]
    steps = sorted(set.intersection(*(set(digests) for digests in by_rank)))
    lacks = _lack_of_ranks(reports, world, steps)
    if lacks:
        return Answer(_RANKS, Outcome.NOT_TRIED, lacks)
    differing = [step for step in steps if len({digests[step].parameters for digests in by_rank}) > 1]
    if differing:
        return Answer(
            _RANKS,
            Outcome.FAULT,
            f"parameters differ between the {world} ranks from step {differing[0]} on",
            what="Ranks of a data-parallel training hold different parameters.",
            what_to_do=(
                "Call the model through DistributedDataParallel, not its inner module, in the forward pass.",
                "Build the optimizer after the model is wrapped, and clip or change gradients on every rank alike.",
            ),
        )
    batches = [tuple(digests[step].batch for step in steps) for digests in by_rank]
    if len(set(batches)) < world and all(all(row) for row in batches):
        return Answer(
            _RANKS,
            Outcome.FAULT,
            f"parameters agree; some of the {world} ranks train on the same batches",
            what="Ranks of a data-parallel training get the same data.",
            what_to_do=("Give the DataLoader a DistributedSampler, or each rank a share of the data.",),
        )
    return Answer(_RANKS, Outcome.OK, f"{world} ranks, {len(steps)} steps: the same parameters, different batches")


def _lack_of_ranks(reports: Sequence[ProcessReport], world: int, steps: Sequence[int]) -> str:
    if any(report.is_sharded for report in reports):
        return "parameters are sharded over ranks"
    if len(reports) < world:
        return f"{len(reports)} of {world} ranks left a report"
    return "" if steps else "the ranks have no step in common"


def _loss_against_guessing(uri: str, *, now: float) -> Answer:
    from trackside.situation.losses.guessing import best_guess
    from trackside.situation.losses.losses import training_losses
    from trackside.trial.trial import open_trial

    trial = open_trial(uri)
    if trial.recorded_through < 0:
        return Answer(_LOSS, Outcome.NOT_TRIED, "no step was recorded")
    window = trial.window(trial.recorded_through, now=now)
    columns = training_losses(window)
    if not columns:
        return Answer(_LOSS, Outcome.NOT_TRIED, "no loss was recorded")
    lost = next((column for column in columns if not math.isfinite(column.values[-1])), None)
    if lost is not None:
        return Answer(
            _LOSS,
            Outcome.FAULT,
            f"first loss {lost.values[0]:.4g}, newest {lost.values[-1]:.4g}",
            where=lost.tensor,
            what="The loss is no number any more.",
            what_to_do=(
                "Look for NaN and infinity in the data, and for a root, logarithm or division at zero.",
                "Divide the learning rate by ten, or clip gradients.",
            ),
        )
    for column in columns:
        guess = best_guess(window, column.tensor, worker=column.worker)
        if guess is None:
            continue
        first, newest = float(column.values[0]), float(median(column.values[-_NEWEST:].tolist()))
        observed = f"first loss {first:.4g}, newest {newest:.4g}; guessing costs {guess.loss:.4g}"
        what = what_is_high(column.values, newest, guess.loss)
        if not what:
            return Answer(_LOSS, Outcome.OK, observed)
        return Answer(
            _LOSS,
            Outcome.FAULT,
            observed,
            where=column.tensor,
            what=what,
            what_to_do=(
                *(("Divide the learning rate by ten, or clip gradients.",) if newest > first else ()),
                "Look at the scale of inputs, targets and initial weights.",
                "Check that the labels are in the order and range that the loss expects.",
            ),
        )
    return Answer(_LOSS, Outcome.NOT_TRIED, "the cost of guessing is not known for this loss and these labels")
