"""A deployment under load, on a simulated clock: the real decisions of the reactions between simulated services.

Real: whether a job is judged (start_evaluation.logic.decide), the ladder before a stop (stop_training.logic), what a
sweep doubts (reconcile.logic.doubts), which run is finished (start_evaluation.end_marker), the order of a job's states
(contracts.deployment.run_table), botocore's retry arithmetic. Simulated: the services, and what a reaction does with
its decision, call by call.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from benchmarks.scale.clock import Clock, Process
from benchmarks.scale.design import BUCKET, Design
from benchmarks.scale.quotas import Quotas
from benchmarks.scale.services import CallFailedError, Environment, ReactionQueue, Steps, World
from lambdas.reconcile.logic import Doubts, Listed, doubts
from lambdas.shared.decisions import Nothing
from lambdas.shared.processing_jobs import processing_job_name
from lambdas.start_evaluation.end_marker import MarkEnd, decide_end
from lambdas.start_evaluation.logic import decide as decide_start
from lambdas.stop_training.logic import Answer, Known, StopRun, Wait, requested_stop, weigh
from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.contracts.deployment.run_table import JobRecord, job_record
from trackside.contracts.deployment.stop_record import DecisionRecord, StopOutcome
from trackside.contracts.event import (
    Evidence,
    RuleEvaluation,
    RuleEvaluationStatus,
    TrainingJob,
    TrainingJobStateChange,
)

START = datetime(2026, 11, 21, tzinfo=timezone.utc).timestamp()
HOUR = 3600.0
MOST_DELAY_SECONDS = 900.0  # lambdas.stop_training.stop_decisions: SQS's longest delay
RULE = "exploding-tensor"
# A training job's secondary states while it is InProgress, each told by an event, and how long each lasts in seconds.
STATES = (("Starting", 60.0), ("Downloading", 90.0), ("Training", 0.0))
GRACE_SECONDS = 30.0  # from StopTrainingJob to Stopped: it may take up to 120
JUDGED_SECONDS = 1.5  # from a step in S3 to its verdict: benchmarks/verdict_latency.py, and S3's own time
POLLS_A_SECOND = 1.0


@dataclass(frozen=True)
class Load:
    """What happens: `jobs` training jobs, `hours` long each, of which the `faulty` share goes wrong.

    `starts_a_second`: how fast they are created; 0: all at once. `together`: all that go wrong do so within a minute,
    once all run; else each at a moment of its own. `rules`: configurations of each job's request (per-rule mode).
    """

    name: str
    jobs: int
    hours: float = 8.0
    faulty: float = 0.1
    starts_a_second: float = 1.0
    together: bool = False
    rules: int = 5


@dataclass
class Training:
    """A training job, and what became of it. Moments are NaN-free: None is not yet."""

    job: TrainingJob
    run_uri: str
    created_at: float
    is_faulty: bool
    fault_at: float
    ends_at: float
    status: str = "InProgress"
    secondary: str = ""
    modified_at: float = 0.0
    evaluators: dict[str, float | None] = field(default_factory=dict)  # name -> since when it judges
    judging_ended: bool = False
    fault_seen_at: float | None = None
    verdict_at: float | None = None
    recorded_at: float | None = None
    notified_at: float | None = None
    counted_at: float | None = None
    stopped_at: float | None = None
    ended_at: float | None = None
    finished_at: float | None = None
    leased_at: float | None = None
    waiting: list[Callable[[], None]] = field(default_factory=list)  # what goes on once it is finished

    @property
    def judged_at(self) -> float | None:
        ready = [at for at in self.evaluators.values() if at is not None]
        return min(ready) if ready else None


@dataclass
class Result:
    """Counts and times of one run of the simulation; `seconds`: of simulated time."""

    load: Load
    mode: str
    trainings: list[Training]
    queues: dict[str, ReactionQueue]
    counts: Counter[str]
    function_seconds: Mapping[str, float]
    evaluator_seconds: float
    worker_seconds: float
    most_workers: int
    seconds: float
    mails: int
    decisions: Counter[str]


class Simulation:
    """One deployment, one load. Equal seeds give equal results."""

    def __init__(self, load: Load, *, mode: str, design: Design, quotas: Quotas, seed: int = 1) -> None:
        self.load, self.mode, self.design = load, mode, design
        self.clock = Clock(START)
        self.world = World(self.clock, random.Random(seed), quotas)  # noqa: S311 - chance, not secrecy
        self.trainings = [self._training(number) for number in range(load.jobs)]
        self._by_arn = {training.job.arn: training for training in self.trainings}
        self._held: dict[str, JobRecord] = {}
        self._decisions: dict[str, list[DecisionRecord]] = {}
        self._hours: dict[str, set[str]] = {}
        self._done: set[tuple[str, ...]] = set()
        self._instances = 0
        self._evaluator_seconds = 0.0
        self._waiting_leases: deque[Training] = deque()
        self._is_leased: set[str] = set()
        self._free: list[int] = []  # room of each worker
        self._workers = self._coming_workers = 0
        self._worker_seconds = 0.0
        self._most_workers = 0
        self._mails = 0
        self._until = max(training.ends_at for training in self.trainings) + 2 * HOUR
        reactions = {
            "start_evaluation": self._start,
            "stop_training": self._stop,
            "notify_owner": self._notify,
            "record_verdict": self._record,
            "reconcile": self._sweep,
        }
        self.queues = {name: self._queue(name, react) for name, react in reactions.items()}

    def run(self) -> Result:
        """Until every job has ended and nothing is on its way, or a week is over."""
        for training in self.trainings:
            self.clock.after(training.created_at - START, partial(self._begin, training))
        self.clock.start(self._schedule())
        if self.mode == "fleet":
            self._free = [self.design.fleet.runs_per_worker] * self.design.fleet.least_workers
            self._workers = self._most_workers = len(self._free)
            self.clock.start(self._scale())
        self.clock.run(until=self._until)
        return Result(
            load=self.load,
            mode=self.mode,
            trainings=self.trainings,
            queues=self.queues,
            counts=self.world.counts,
            function_seconds=self.world.seconds,
            evaluator_seconds=self._evaluator_seconds,
            worker_seconds=self._worker_seconds,
            most_workers=self._most_workers,
            seconds=self.clock.now - START,
            mails=self._mails,
            decisions=Counter(one.outcome.value for found in self._decisions.values() for one in found),
        )

    # SageMaker and EventBridge ---------------------------------------------------------------------------------------

    def _training(self, number: int) -> Training:
        load, chance = self.load, self.world.chance
        created = START + (number / load.starts_a_second if load.starts_a_second else chance.random())
        all_run = START + (load.jobs / load.starts_a_second if load.starts_a_second else 0.0) + HOUR
        is_faulty = chance.random() < load.faulty
        ends = created + load.hours * HOUR
        if load.together:
            fault, ends = all_run + 60 * chance.random(), max(ends, all_run + load.hours * HOUR)
        else:
            fault = created + (0.1 + 0.7 * chance.random()) * load.hours * HOUR
        job = TrainingJob(
            f"job-{number:05d}", f"arn:aws:sagemaker:us-east-1:123456789012:training-job/job-{number:05d}"
        )
        return Training(job, f"s3://{BUCKET}/job-{number:05d}", created, is_faulty, fault, ends)

    def _begin(self, training: Training) -> None:
        self.clock.start(self._live(training))

    def _live(self, training: Training) -> Process:
        for secondary, seconds in STATES:
            if training.status != "InProgress":
                return
            training.secondary = secondary
            self._send_state(training)
            yield self.world.around(seconds) if seconds else 0.0
        if training.is_faulty:
            yield max(0.0, training.fault_at - self.clock.now)
            if training.status == "InProgress":
                training.fault_seen_at = self.clock.now
                self._look_for_verdict(training)
        yield max(0.0, training.ends_at - self.clock.now)
        if training.status == "InProgress":
            self._end(training, "Completed")

    def _end(self, training: Training, status: str) -> None:
        training.status, training.secondary = status, status
        training.ended_at = self.clock.now
        self._send_state(training)

    def _send_state(self, training: Training) -> None:
        training.modified_at = self.clock.now
        change = self._change(training)
        also = ["start_evaluation"] if training.status == "InProgress" or training.ended_at else []
        self._deliver(change, *also, "record_verdict")

    def _change(self, training: Training) -> TrainingJobStateChange:
        return TrainingJobStateChange(
            training.job,
            training.status,
            training.secondary,
            {"trackside:run": training.run_uri},
            created_at=training.created_at,
            started_at=training.created_at,
            ended_at=training.ended_at or 0.0,
            modified_at=training.modified_at,
            instance_type="ml.m5.large",
            instance_count=1,
            max_runtime_seconds=int(self.load.hours * HOUR),
        )

    def _deliver(self, body: Any, *reactions: str, is_durable: bool = False) -> None:
        """EventBridge: half a second later, now and then twice to one of them; AWS's own events are best effort, so one
        may reach nobody."""
        world = self.world
        world.counts["events"] += 1
        if not is_durable and world.chance.random() < world.quotas.event_loss:
            world.counts["events lost"] += 1
            return
        for reaction in reactions:
            copies = 2 if world.chance.random() < world.quotas.event_twice else 1
            for _ in range(copies):
                seconds = world.around(world.quotas.event_seconds, spread=0.5)
                self.clock.after(seconds, partial(self.queues[reaction].send, body))

    # What judges -----------------------------------------------------------------------------------------------------

    def _start(self, change: TrainingJobStateChange, environment: Environment) -> Steps:
        if change.has_ended:
            yield from self._finish(change, environment)
            return
        decision = decide_start(change, self.design.start)
        if isinstance(decision, Nothing):
            return
        training = self._by_arn[change.job.arn]
        if self.mode == "fleet":
            yield from environment.small_calls(dynamodb_write=1)
            if training.job.arn not in self._is_leased:
                self._is_leased.add(training.job.arn)
                self._waiting_leases.append(training)
                self._lease()
            return
        rules = range(self.load.rules) if self.mode == "per-rule" else range(1)
        for rule in rules:
            name = decision.name if self.mode == "per-job" else processing_job_name(change.job, f"rule-{rule}")
            if name in environment.started and self.design.remembers_starts:
                continue
            yield from environment.call("CreateProcessingJob")
            environment.started.add(name)
            if name in training.evaluators:
                continue  # ResourceInUse: an earlier delivery started it
            limit = self.world.quotas.processing_instances
            if limit and self._instances >= limit:
                self.world.counts["refused ResourceLimitExceeded"] += 1
                environment.started.discard(name)
                raise CallFailedError("CreateProcessingJob", "ResourceLimitExceeded")
            self._instances += 1
            training.evaluators[name] = None
            self.clock.start(self._evaluate(training, name))

    def _evaluate(self, training: Training, name: str) -> Process:
        yield self.world.around(self.world.quotas.processing_start_seconds, spread=0.2)
        began = training.evaluators[name] = self.clock.now
        self._look_for_verdict(training)
        self._when_finished(training, lambda: self._leave_off(began))

    def _leave_off(self, began: float) -> None:
        self._evaluator_seconds += self.clock.now - began
        self._instances -= 1

    def _when_finished(self, training: Training, act: Callable[[], None]) -> None:
        if training.finished_at is not None:
            act()
        else:
            training.waiting.append(act)

    def _look_for_verdict(self, training: Training) -> None:
        """Both are needed: a fault, and something that judges."""
        if training.fault_seen_at is None or training.judged_at is None or training.verdict_at is not None:
            return
        training.verdict_at = self.clock.now
        seconds = self.world.around(JUDGED_SECONDS) + self.world.chance.random() / POLLS_A_SECOND
        self.clock.after(seconds, lambda: self._send_verdicts(training))

    def _send_verdicts(self, training: Training) -> None:
        training.verdict_at = self.clock.now
        evaluation = RuleEvaluation(
            training.job,
            RULE,
            RuleEvaluationStatus.ISSUES_FOUND,
            "A loss holds NaN.",
            actions=(Action.STOP_TRAINING, *DEFAULT_ACTIONS),
            run_uri=training.run_uri,
            modified_at=self.clock.now,
            evidence=Evidence(step=100, since_step=100),
        )
        # The evaluator tries PutEvents again until it is taken, and a bus of one's own delivers at least once.
        self._deliver(evaluation, "stop_training", "notify_owner", "record_verdict", is_durable=True)

    # The fleet: modelled after the table of leases and the workers' defaults ------------------------------------------

    def _lease(self) -> None:
        for worker in range(len(self._free)):
            while self._free[worker] and self._waiting_leases:
                self._free[worker] -= 1
                training = self._waiting_leases.popleft()
                self.clock.start(self._judge(training, worker))
            if not self._waiting_leases:
                return

    def _judge(self, training: Training, worker: int) -> Process:
        self.world.counts["call dynamodb_write"] += 1
        training.leased_at = self.clock.now
        yield self.world.chance.random() * self.design.fleet.poll_seconds + 2.0  # a process starts, and opens the run
        began = training.evaluators["fleet"] = self.clock.now
        self._look_for_verdict(training)
        self._when_finished(training, lambda: self._hand_back(worker, began))

    def _hand_back(self, worker: int, began: float) -> None:
        seconds = self.clock.now - began
        self._evaluator_seconds += seconds
        self.world.counts["call dynamodb_write"] += int(seconds / self.design.fleet.renew_seconds)
        self._free[worker] += 1
        self._lease()

    def _scale(self) -> Process:
        """One look a minute; tasks come 20 a second at most, and go as soon as nothing is left for them."""
        fleet, quotas = self.design.fleet, self.world.quotas
        while self.clock.now < self._until:
            leased = fleet.runs_per_worker * self._workers - sum(self._free)
            wanted = math.ceil((leased + len(self._waiting_leases)) / fleet.runs_per_worker / fleet.target_load)
            most = min(fleet.most_workers, quotas.fleet_tasks or fleet.most_workers)
            wanted = max(fleet.least_workers, min(most, wanted))
            for number in range(max(0, wanted - self._workers - self._coming_workers)):
                self._coming_workers += 1
                self.clock.after(number / 20 + self.world.around(quotas.task_start_seconds), self._add_worker)
            idle = [worker for worker, room in enumerate(self._free) if room == fleet.runs_per_worker]
            kept = min(self._workers, max(wanted, self._workers - len(idle)))
            self._worker_seconds += kept * fleet.scale_seconds
            yield fleet.scale_seconds

    def _add_worker(self) -> None:
        self._coming_workers -= 1
        self._workers += 1
        self._most_workers = max(self._most_workers, self._workers)
        self._free.append(self.design.fleet.runs_per_worker)
        self._lease()

    # What follows ----------------------------------------------------------------------------------------------------

    def _record(self, body: TrainingJobStateChange | RuleEvaluation, environment: Environment) -> Steps:
        yield from environment.small_calls(dynamodb_read=1, dynamodb_write=2)
        if isinstance(body, RuleEvaluation):
            training = self._by_arn[body.job.arn]
            training.recorded_at = training.recorded_at or self.clock.now
            return
        record = job_record(body, run_uri=self._by_arn[body.job.arn].run_uri)
        known = self._held.get(body.job.arn)
        if known is None or known.order < record.order:
            self._held[body.job.arn] = replace(record, evaluator=known.evaluator if known else "")

    def _notify(self, evaluation: RuleEvaluation, environment: Environment) -> Steps:
        yield from environment.small_calls(dynamodb_write=4, sns=1)
        training = self._by_arn[evaluation.job.arn]
        training.counted_at = training.counted_at or self.clock.now
        if self._first(Action.NOTIFY.value, evaluation.finding_id, evaluation.job.arn):
            self._mails += 1
            training.notified_at = self.clock.now

    def _stop(self, evaluation: RuleEvaluation, environment: Environment) -> Steps:
        settings = self.design.stop
        stop = requested_stop(evaluation, settings)
        if not isinstance(stop, StopRun):
            return
        yield from environment.small_calls(dynamodb_read=1)
        yield from environment.call("GetParameter", service="ssm")
        found = self._decisions.setdefault(evaluation.job.arn, [])
        known = Known(decisions=tuple(found), job=self._held.get(evaluation.job.arn))
        decision = weigh(evaluation, stop, known, settings, now=self.clock.now)
        if isinstance(decision, Answer):
            yield from environment.small_calls(dynamodb_write=1)
            self._decide(evaluation, decision.outcome)
        elif isinstance(decision, Wait):
            self._look_again(evaluation, decision.seconds)
        elif isinstance(decision, StopRun):
            yield from self._stop_within_budget(evaluation, environment)

    def _stop_within_budget(self, evaluation: RuleEvaluation, environment: Environment) -> Steps:
        most = self.design.stop.stops_per_hour
        now = self.clock.now
        hour = datetime.fromtimestamp(now, tz=timezone.utc).strftime("%Y-%m-%dT%H")
        yield from environment.small_calls(dynamodb_write=1)
        taken = self._hours.setdefault(hour, set())
        if not most or evaluation.job.arn in taken or len(taken) < most:
            taken.add(evaluation.job.arn)
            yield from environment.small_calls(dynamodb_write=2)
            self._decide(evaluation, StopOutcome.STOPPING)
            yield from environment.call("StopTrainingJob")
            yield from environment.small_calls(dynamodb_write=2)
            self._decide(evaluation, StopOutcome.STOPPED)
            self._stopping(self._by_arn[evaluation.job.arn])
            return
        yield from environment.small_calls(dynamodb_write=3, sns=1)
        message = ("over budget", hour) if self.design.one_mail_an_hour else ("over budget", hour, evaluation.job.arn)
        if self._first(*message):
            self._mails += 1
        self._decide(evaluation, StopOutcome.OVER_BUDGET)
        self._look_again(evaluation, HOUR - int(now) % int(HOUR))

    def _stopping(self, training: Training) -> None:
        if training.status != "InProgress":
            return
        training.status, training.stopped_at = "Stopping", self.clock.now
        self._send_state(training)
        self.clock.after(self.world.around(GRACE_SECONDS), lambda: self._end(training, "Stopped"))

    def _look_again(self, evaluation: RuleEvaluation, seconds: float) -> None:
        self.queues["stop_training"].send(evaluation, delay_seconds=max(0.0, min(seconds, MOST_DELAY_SECONDS)))

    def _decide(self, evaluation: RuleEvaluation, outcome: StopOutcome) -> None:
        found = self._decisions.setdefault(evaluation.job.arn, [])
        if all(one.outcome is not outcome for one in found):
            found.append(DecisionRecord(evaluation, outcome, at=self.clock.now, reason=""))

    def _finish(self, change: TrainingJobStateChange, environment: Environment) -> Steps:
        if isinstance(decide_end(change, self.design.start), MarkEnd):
            yield from environment.small_calls(s3_put=1)
            training = self._by_arn[change.job.arn]
            training.finished_at = training.finished_at or self.clock.now
            after, training.waiting = training.waiting, []
            for act in after:
                act()

    def _first(self, *key: str) -> bool:
        if key in self._done:
            return False
        self._done.add(key)
        return True

    # Sweeps ----------------------------------------------------------------------------------------------------------

    def _schedule(self) -> Process:
        while self.clock.now < self._until - HOUR:
            yield self.design.settings.monitoring.reconcile_minutes * 60.0
            self.queues["reconcile"].send("a tick")

    def _sweep(self, _: str, environment: Environment) -> Steps:
        settings, world = self.design.reconcile, self.world
        held = [record for record in self._held.values() if not record.has_ended]
        yield from environment.small_calls(dynamodb_read=1 + len(held) // 1000)
        running = [each for each in self.trainings if each.status == "InProgress" and each.secondary]
        running.sort(key=lambda each: -each.created_at)
        listed: list[Listed] = []
        for page in range(settings.most_pages):
            if page:
                yield float(settings.list_pause_seconds)
            yield from environment.call("ListTrainingJobs")
            listed += [Listed(e.job.name, e.job.arn, e.created_at) for e in running[100 * page : 100 * page + 100]]
            if len(listed) == len(running):
                break
        is_whole = len(listed) == len(running)
        found = doubts(held, listed, is_whole=is_whole, unwatched=(), settings=settings, now=self.clock.now)
        yield from self._describe(found, environment)
        world.counts["sweeps"] += 1
        world.counts["sweeps that left something"] += bool(found.left)

    def _describe(self, found: Doubts, environment: Environment) -> Steps:
        for record in found.may_have_ended:
            yield from environment.call("Describe")
            training = self._by_arn[record.job.arn]
            if training.status != record.status:
                self.queues["record_verdict"].send(self._change(training))
                if training.ended_at:
                    self.world.counts["ends that no event told"] += 1
                    self.queues["start_evaluation"].send(self._change(training))
        for job in found.unknown:
            yield from environment.call("Describe")
            yield from environment.call("Describe")
            self.world.counts["starts that no event told"] += 1
            self.queues["record_verdict"].send(self._change(self._by_arn[job.arn]))
            self.queues["start_evaluation"].send(self._change(self._by_arn[job.arn]))
        for record in found.unjudged:
            yield from environment.call("Describe")
            training = self._by_arn[record.job.arn]
            if training.evaluators:
                self._held[record.job.arn] = replace(
                    self._held[record.job.arn], evaluator=next(iter(training.evaluators))
                )
                yield from environment.small_calls(dynamodb_write=1)
            elif training.status == "InProgress":
                yield from environment.call("Describe")
                self.world.counts["starts that were told again"] += 1
                self.queues["start_evaluation"].send(self._change(training))
        for record in found.judged_by_us:
            yield from environment.small_calls(s3_list=1)
            training = self._by_arn[record.job.arn]
            if training.judged_at is None:
                yield from environment.call("Describe")

    def _queue(self, name: str, react: Any) -> ReactionQueue:
        design = self.design.queue(name)
        return ReactionQueue(
            self.world,
            name,
            react,
            batch_size=design.batch_size,
            most_at_once=design.most_at_once,
            attempts=design.attempts,
            visibility_seconds=design.visibility_seconds,
            timeout_seconds=design.timeout_seconds,
        )


def named_as_lost(result: Result) -> Iterator[tuple[str, str]]:
    """Job and queue of each dead letter: what was given up is named there, and an alarm says so."""
    for name, queue in result.queues.items():
        for message in queue.dead:
            job = getattr(message.body, "job", None)
            yield (job.name if job else "a sweep", name)
