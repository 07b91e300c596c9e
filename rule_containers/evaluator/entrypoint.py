"""Entry point of the evaluator container: a SageMaker processing job that judges one training job.

Contract:

- Configuration from the environment, else from `/opt/ml/config/processingjobconfig.json`.
- The result in one sentence in `/opt/ml/output/message`, and in the run (`EvaluatorEnding`), which others depend on.
- Exit code 0 when everything was judged, else one of `evaluation/exit_codes.py`.
- A rule from a file that the request names is not run here. If the deployment has such files judged by jobs of their
  own, it is left to them; else it is reported as not evaluated, and the exit code is 2.
- SIGTERM ends it after the complete steps were judged. A restarted job continues where the last one stopped.

https://docs.aws.amazon.com/sagemaker/latest/dg/build-your-own-processing-container.html

It judges all rules of the request, or the one that `TRACKSIDE_RULE_CONFIGURATION` names, beside others that judge the
others. Shortly before SageMaker would end it (`TRACKSIDE_MAX_RUNTIME_SECONDS`) it leaves off and notes that in its
message (`contracts.deployment.evaluators`), so that another job continues.

It also works where SageMaker Debugger starts a container for one rule: see `trackside.containers.rule_container`. If
`TRACKSIDE_FLEET_TABLE` names a table of leases it is a worker that judges many runs, each by starting this file.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from trackside.containers.container_user import leave_root
from trackside.containers.event_bridge import connect_event_bridge
from trackside.containers.issue_picture import IssuePictureSink
from trackside.containers.rule_container import FirstVerdict, Job, check_owner, message_of, patiently, run_container
from trackside.containers.run_boundary import OwnEndStore, check_readable
from trackside.contracts.deployment.custom_rule_job import judged_separately
from trackside.contracts.deployment.evaluator_ending import EndKind, EvaluatorEnding
from trackside.contracts.deployment.evaluators import CONTINUED_PREFIX, NOTHING_JUDGED, hand_over_seconds
from trackside.contracts.errors import ConfigurationError, Problem, StorageError
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import ENDING_KEY, TRAINING_JOB_KEY, RunLocation, verdicts_key_of
from trackside.contracts.verdict import Verdict
from trackside.environment import EvaluatorEnvironment, FleetEnvironment
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.results.run_learning import store_learning
from trackside.evaluation.results.summary import Summary
from trackside.evaluation.rule_request_file import read_rule_request
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.evaluation.sinks.sink import Sink
from trackside.evaluation.sinks.skip_list import SkipListSink
from trackside.evaluation.stop_signal import StopSignal
from trackside.evaluation.worker_lease import LeasedStore, ProgressSign, WorkerLease
from trackside.speed.run_speed import store_speed
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

if TYPE_CHECKING:
    from trackside.views.report.charts.issue_picture import IssuePictures

_logger = logging.getLogger(__name__)


@dataclass
class HandOver:
    """The moment at which this job leaves off so that another continues.

    - `started_at`: seconds since the epoch
    - `is_made`: True once it has left off
    """

    started_at: float
    is_made: bool = False

    def is_due(self, environment: EvaluatorEnvironment, *, now: float) -> bool:
        """Return True shortly before SageMaker ends the job."""
        limit = environment.max_runtime_seconds
        self.is_made = bool(limit) and now >= self.started_at + hand_over_seconds(limit)
        return self.is_made


def main() -> int:
    """Judge the run. Return the exit code."""
    fleet = FleetEnvironment.read()
    if fleet.table:
        from trackside.cloud.fleet.run import run_worker  # which an evaluator, also one of a worker, does without

        environment = EvaluatorEnvironment.read()
        leave_root(environment.ml_root, user=environment.run_as)
        return run_worker(fleet, command=[sys.executable, __file__])
    hand_over = HandOver(time.time())
    return run_container(partial(_judge, hand_over), message_of=partial(_message_of, hand_over))


def _judge(hand_over: HandOver, job: Job) -> Summary:
    environment, run = job.environment, job.run
    request = job.request or _left_to_this_job(
        _request_of_this_job(patiently(lambda: read_rule_request(open_store(run.uri))), environment),
        environment.custom_rules_from,
    )
    patiently(partial(_claim, job))
    if not request.rules and environment.custom_rules_from:
        summary = Summary((), {}, -1, has_ended=True)
        _store_ending(job, job.open_store(run.rule_output), EndKind.JUDGED, _message_of(hand_over, summary))
        return summary
    with StopSignal() as stop:
        open_output = _output_opener(job, stop)
        rule_output = open_output(run.rule_output)
        first_verdict = FirstVerdict(rule_output) if job.request else None
        sinks: list[Sink] = [JsonLinesSink(rule_output), SkipListSink(rule_output, run=run)]
        if environment.event_bus:
            if not job.request:
                sinks.append(IssuePictureSink(job.open_store(run.rule_output), _drawn_later(run)))
            sinks.append(connect_event_bridge(bus=environment.event_bus, origin=job.origin, sleep=stop.sleep))
        if first_verdict:
            sinks.append(first_verdict)
        summary = evaluate(
            run,
            request,
            sinks,
            poll_seconds=environment.poll_seconds,
            clock=time.time,
            sleep=stop.sleep,
            should_stop=lambda: (
                stop.is_set or _is_over(first_verdict, job) or hand_over.is_due(environment, now=time.time())
            ),
            stores=open_output,
            # Its role may write the verdicts of every run, so it runs no code that the writer of a run names.
            runs_custom_rules=False,
            note_progress=ProgressSign(environment.ml_root).note if environment.has_worker_lease else _note_nothing,
        )
        _store_ending(job, rule_output, _kind_of(hand_over, summary), _message_of(hand_over, summary))
        if summary.has_ended and not job.request and not environment.rule_configuration:
            from trackside.views.report.at_the_end import store_report  # which an evaluator needs once, at its end

            store_learning(rule_output, summary.learning)
            store_speed(run, rule_output, clock=time.time)  # first: the page goes beside its files, too
            store_report(run, clock=time.time, stores=open_output)
        return summary


def _drawn_later(run: RunLocation) -> Callable[[Verdict], bytes | None]:
    """Return what draws issues of a run, loaded at the first one: a run without an issue needs none of it."""

    @cache
    def pictures() -> IssuePictures:
        from trackside.views.report.charts.issue_picture import IssuePictures

        return IssuePictures(run.uri, clock=time.time)

    return lambda verdict: pictures().draw(verdict)


def _note_nothing() -> None:
    """Do nothing: SageMaker watches no progress."""


def _store_ending(job: Job, rule_output: Store, kind: EndKind, message: str) -> None:
    """Store the note about this evaluator's end, on which its successor depends.

    A worker of the fleet has the message of its evaluators, and SageMaker Debugger asks for no note.
    """
    ours = job.training_job
    if not ours.arn or job.request or job.environment.has_worker_lease:
        return
    note = EvaluatorEnding(ours.identity, job.environment.link, kind, message)
    try:
        patiently(lambda: rule_output.put(ENDING_KEY, note.to_json().encode()))
    except StorageError as error:
        _logger.warning("The note about the end cannot be stored: %s", error)


def _kind_of(hand_over: HandOver, summary: Summary) -> EndKind:
    if hand_over.is_made and not summary.has_ended:
        return EndKind.CONTINUED
    return EndKind.NOTHING_JUDGED if message_of(summary).startswith(NOTHING_JUDGED) else EndKind.JUDGED


def _output_opener(job: Job, stop: StopSignal) -> Callable[[str], Store]:
    """Return the function that opens the places of a run.

    A job for one rule writes to a folder of its own. One that a worker of the fleet started writes only while the
    worker's lease holds.
    """
    environment, output = job.environment, job.run.rule_output
    folder = output
    if environment.rule_configuration and not job.request:
        folder = f"{output}/{verdicts_key_of(environment.rule_configuration).rpartition('/')[0]}"
    lease = WorkerLease(sys.stdin.fileno(), wake=stop.wake) if environment.has_worker_lease else None
    if lease:
        lease.start()

    def open_output(uri: str) -> Store:
        if uri == output:
            store = job.open_store(folder)
            return LeasedStore(store, lease) if lease else store
        if not job.training_job.arn or not environment.run_uri:  # no deployment of ours: its role reads one run
            return job.open_store(uri)
        if uri == job.run.tensors:
            return OwnEndStore(job.open_store(uri), job.training_job)
        if uri != job.run.uri and not uri.startswith(f"{job.run.uri}/"):
            check_readable(job.run, job.training_job, uri)
        return job.open_store(uri)

    return open_output


def _message_of(hand_over: HandOver, summary: Summary) -> str:
    if summary.has_ended and not summary.judged and not summary.verdicts:
        return "No rule is left to this job: rules from files are judged by jobs of their own."
    if hand_over.is_made and not summary.has_ended:
        return f"{CONTINUED_PREFIX}judged up to step {summary.last_step}. {message_of(summary)}"
    return message_of(summary)


def _request_of_this_job(request: RuleRequest, environment: EvaluatorEnvironment) -> RuleRequest:
    """Return all rules, the one that this job is for, or those without a job of their own.

    Errors: `ConfigurationError`.
    """
    if not environment.rule_configuration:
        return RuleRequest(request.rules[environment.rules_after :])
    chosen = tuple(rule for rule in request.rules if rule.name == environment.rule_configuration)
    if not chosen:
        problem = Problem("rule-request.json", f"has no configuration {environment.rule_configuration!r}.")
        raise ConfigurationError([problem], subject="The rule request")
    return RuleRequest(chosen)


def _left_to_this_job(request: RuleRequest, place: str) -> RuleRequest:
    """Return the request without the rules from files that the deployment has judged by jobs of their own."""
    separate_rules = judged_separately(request, place=place)
    return RuleRequest(tuple(rule for rule in request.rules if rule not in separate_rules))


def _is_over(first_verdict: FirstVerdict | None, job: Job) -> bool:
    return first_verdict is not None and (first_verdict.has_come or job.must_end(time.time()))


def _claim(job: Job) -> None:
    """Claim the run for this training job. Errors: as `check_owner`."""
    ours = job.training_job
    if ours.arn and not check_owner(job):
        open_store(job.run.rule_output).put(TRAINING_JOB_KEY, ours.identity.encode())


if __name__ == "__main__":
    sys.exit(main())
