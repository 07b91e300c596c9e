"""A rehearsal of a training on this machine: a few steps judged by the rules, then the probes of its processes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.check import Answer, Outcome, ProcessReport
from trackside.contracts.errors import ConfigurationError, TracksideError
from trackside.contracts.run_layout import CHECK
from trackside.contracts.verdict import Outcome as VerdictOutcome
from trackside.contracts.verdict import Severity, State, Verdict
from trackside.environment import RehearsalEnvironment
from trackside.local.run import LocalRun, LocalRunResult, Observer, run_locally
from trackside.storage.open_store import open_store

LOSS_RATIO = 4.0  # as `poor-weight-initialization`
_NEWEST = 5  # losses
_SCRIPT, _LOSS, _RANKS = "script-runs", "loss-at-the-start", "ranks-agree"


@dataclass(frozen=True)
class CheckResult:
    """The result of a rehearsal.

    run      the run that the script's steps left
    steps    optimizer steps made
    answers  answers of all probes
    issues   issues that rules found in these steps, the gravest first
    """

    run: LocalRunResult
    steps: int
    answers: tuple[Answer, ...]
    issues: tuple[Verdict, ...]

    @property
    def faults(self) -> tuple[Answer, ...]:
        """The answers that found a fault."""
        return tuple(each for each in self.answers if each.outcome is Outcome.FAULT)

    @property
    def exit_code(self) -> int:
        """1 if a probe found a fault or a rule a critical issue, else 0."""
        is_critical = any(issue.severity is Severity.CRITICAL for issue in self.issues)
        return int(bool(self.faults) or is_critical)


def rehearsed(run: LocalRun, settings: RehearsalEnvironment) -> LocalRun:
    """Return the run as a rehearsal: its processes end after some steps, and its script prints to stderr."""
    return replace(
        run,
        environment={**run.environment, **settings.variables()},
        capture=_with_labels(run.capture),
        is_output_on_stderr=True,
    )


def check_locally(run: LocalRun, *, observer: Observer, clock: Callable[[], float] = time.time) -> CheckResult:
    """Run the rehearsal to its end, and return the answers.

    Errors: as `run_locally`.
    """
    result = run_locally(run, observer=observer, clock=clock)
    reports = read_reports(result.folder)
    answered = next((report for report in reports if report.answers), None)
    answers = (
        answer_of_script(result, reports),
        answer_of_loss(result.folder, now=clock()),
        *(answered.answers if answered else ()),
        answer_of_ranks(reports),
    )
    opened = [v for v in result.verdicts if v.outcome is VerdictOutcome.ISSUE_FOUND and v.state is State.OPENED]
    gravest = sorted(opened, key=lambda verdict: -verdict.severity.rank)
    return CheckResult(result, max((r.steps for r in reports), default=0), answers, tuple(gravest))


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
    if any(report.is_done for report in reports):
        return Answer(_SCRIPT, Outcome.OK, f"{steps} step{'' if steps == 1 else 's'} made, then ended")
    if reports:
        return Answer(_SCRIPT, Outcome.NOT_TRIED, "the process ended while the probes were asked")
    if result.status != 0:
        return Answer(
            _SCRIPT,
            Outcome.FAULT,
            f"it ended with code {result.status}" if result.status > 0 else f"signal {-result.status} ended it",
            what="The script ended before the rehearsal was over.",
            what_to_do=("Its own message, above, names the reason.",),
        )
    return Answer(_SCRIPT, Outcome.NOT_TRIED, result.capture_problem or "it made no step of a PyTorch optimizer")


def answer_of_loss(folder: Path, *, now: float) -> Answer:
    """Compare the first losses with the loss of the best constant answer to the labels."""
    try:
        return _loss_against_guessing(str(folder), now=now)
    except (TracksideError, LookupError, ValueError) as error:
        return Answer(_LOSS, Outcome.NOT_TRIED, f"the losses cannot be read: {' '.join(str(error).split())[:200]}")


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
    from trackside.rules.diagnosis import training_losses
    from trackside.rules.guessing import best_guess
    from trackside.trial.trial import open_trial

    trial = open_trial(uri)
    if trial.recorded_through < 0:
        return Answer(_LOSS, Outcome.NOT_TRIED, "no step was recorded")
    window = trial.window(trial.recorded_through, now=now)
    columns = training_losses(window)
    if not columns:
        return Answer(_LOSS, Outcome.NOT_TRIED, "no loss was recorded")
    for column in columns:
        guess = best_guess(window, column.tensor, worker=column.worker)
        if guess is None:
            continue
        first, newest = float(column.values[0]), float(median(column.values[-_NEWEST:].tolist()))
        observed = f"first loss {first:.4g}, newest {newest:.4g}; guessing costs {guess.loss:.4g}"
        is_high = not math.isfinite(newest) or min(first, newest) > LOSS_RATIO * guess.loss
        if not is_high:
            return Answer(_LOSS, Outcome.OK, observed)
        return Answer(
            _LOSS,
            Outcome.FAULT,
            observed,
            where=column.tensor,
            what=f"The loss is more than {LOSS_RATIO:g} times that of a constant answer, and stays so.",
            what_to_do=(
                "Look at the scale of inputs, targets and initial weights.",
                "Check that the labels are in the order and range that the loss expects.",
            ),
        )
    return Answer(_LOSS, Outcome.NOT_TRIED, "the cost of guessing is not known for this loss and these labels")


def _with_labels(capture: CaptureRequest) -> CaptureRequest:
    wanted = {name: CollectionRequest(name, Schedule(1)) for name in ("losses", "labels")}
    kept: Mapping[str, CollectionRequest] = {each.name: each for each in capture.collections}
    return replace(capture, collections=tuple({**kept, **wanted}.values()))
