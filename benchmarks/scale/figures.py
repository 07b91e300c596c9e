"""What is told of one simulation: times, queues, refusals, and what became of every job."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.scale.cost import lines_of
from benchmarks.scale.services import spread
from benchmarks.scale.simulation import Result, Training, named_as_lost


@dataclass(frozen=True)
class Figures:
    """Seconds are [median, p95, maximum]. `unjudged`: jobs that nothing ever judged; `unfinished`: runs whose end
    nobody marked; `unnamed`: jobs that went wrong, were judged, and are neither stopped nor ended nor waiting nor in a
    dead-letter queue; `wrong`: healthy jobs that were stopped."""

    load: str
    jobs: int
    mode: str
    faulty: int
    watched_after: tuple[float, float, float]
    verdict_after: tuple[float, float, float]
    stop_after: tuple[float, float, float]
    verdicts: int
    stopped: int
    over_budget: int
    ended_by_itself: int
    wrong: int
    unjudged: int
    unfinished: int
    unnamed: int
    dead_letters: int
    oldest_start: float
    oldest_stop: float
    throttled_starts: int
    throttled_stops: int
    refused_instances: int
    mails: int
    most_workers: int
    found_by_sweeps: int
    cost_of_100_jobs: float

    def to_document(self) -> dict[str, Any]:
        return asdict(self)


def figures_of(result: Result, prices: dict[str, float]) -> Figures:
    trainings, counts = result.trainings, result.counts
    faulty = [each for each in trainings if each.is_faulty]
    went_wrong = [each for each in faulty if each.fault_seen_at is not None]
    dead = list(named_as_lost(result))
    lost = {name for name, _ in dead}
    stopped = [each for each in faulty if each.stopped_at is not None]
    cost = sum(line.total for line in lines_of(result, prices))
    return Figures(
        load=result.load.name,
        jobs=len(trainings),
        mode=result.mode,
        faulty=len(went_wrong),
        watched_after=_three([each.judged_at - each.created_at for each in trainings if each.judged_at is not None]),
        verdict_after=_three(
            [_since_fault(each, each.verdict_at) for each in went_wrong if each.verdict_at is not None]
        ),
        stop_after=_three([_since_fault(each, each.stopped_at) for each in stopped]),
        verdicts=sum(each.verdict_at is not None for each in faulty),
        stopped=len(stopped),
        over_budget=result.decisions["OverBudget"],
        ended_by_itself=result.decisions["AlreadyEnded"],
        wrong=sum(each.stopped_at is not None and not each.is_faulty for each in trainings),
        unjudged=sum(each.judged_at is None for each in trainings),
        unfinished=sum(each.ended_at is not None and each.finished_at is None for each in trainings),
        unnamed=sum(_is_unnamed(each, lost) for each in went_wrong),
        dead_letters=len(dead),
        oldest_start=result.queues["start_evaluation"].oldest_seconds,
        oldest_stop=result.queues["stop_training"].oldest_seconds,
        throttled_starts=counts["throttled CreateProcessingJob"],
        throttled_stops=counts["throttled StopTrainingJob"] + counts["throttled GetParameter"],
        refused_instances=counts["refused ResourceLimitExceeded"],
        mails=result.mails,
        most_workers=result.most_workers,
        found_by_sweeps=counts["ends that no event told"]
        + counts["starts that no event told"]
        + counts["starts that were told again"],
        cost_of_100_jobs=cost / len(trainings) * 100,
    )


def _since_fault(training: Training, at: float | None) -> float:
    return (at or 0.0) - (training.fault_seen_at or 0.0)


def _is_unnamed(training: Training, lost: set[str]) -> bool:
    is_accounted_for = training.stopped_at is not None or training.ended_at is not None
    return not is_accounted_for and training.job.name not in lost


def _three(values: list[float]) -> tuple[float, float, float]:
    found = spread(values)
    return round(found["p50"], 1), round(found["p95"], 1), round(found["max"], 1)
