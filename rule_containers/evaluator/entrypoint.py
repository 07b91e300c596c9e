"""Entry point of the evaluator container: a SageMaker processing job that judges one training job.

Contract: configuration from the environment, else from `/opt/ml/config/processingjobconfig.json`; the result in one
sentence in `/opt/ml/output/message`; exit code 0 when everything was judged, else one of `evaluation/exit_codes.py`;
a rule from a file that the request names is not run here. Where the deployment has such files judged by jobs of their
own, it is left to them; else it is said not to be evaluated, and the exit code is 2 then.
SIGTERM ends it after what is complete was judged. A restarted job goes on where the last one stopped.
https://docs.aws.amazon.com/sagemaker/latest/dg/build-your-own-processing-container.html

It also stands where SageMaker Debugger starts a container for one rule: see `trackside.evaluation.rule_container`.
"""

from __future__ import annotations

import sys
import time

from trackside.contracts.custom_rule_job import judged_apart
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import TRAINING_JOB_KEY
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.rule_container import FirstWord, Job, check_owner, message_of, run_container
from trackside.evaluation.rule_request_file import read_rule_request
from trackside.evaluation.sinks.event_bridge import connect_event_bridge
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.evaluation.sinks.sink import Sink
from trackside.evaluation.stop_signal import StopSignal
from trackside.evaluation.summary import Summary
from trackside.storage.open_store import open_store


def main() -> int:
    """Judges; returns the exit code."""
    return run_container(_judge, message_of=_message_of)


def _judge(job: Job) -> Summary:
    environment, run = job.environment, job.run
    rule_output = job.open_store(run.rule_output)
    request = job.request or _left_to_this_job(read_rule_request(open_store(run.uri)), environment.custom_rules_from)
    _claim(job)
    if not request.rules and environment.custom_rules_from:
        return Summary((), {}, -1, has_ended=True)
    first_word = FirstWord(rule_output) if job.request else None
    with StopSignal() as stop:
        sinks: list[Sink] = [JsonLinesSink(rule_output)]
        if environment.event_bus:
            sinks.append(connect_event_bridge(bus=environment.event_bus, origin=job.origin, sleep=stop.sleep))
        if first_word:
            sinks.append(first_word)
        return evaluate(
            run,
            request,
            sinks,
            poll_seconds=environment.poll_seconds,
            clock=time.time,
            sleep=stop.sleep,
            should_stop=lambda: stop.is_set or _is_over(first_word, job),
            stores=job.open_store,
            # Its role may write what every run's rules said: code that whoever writes a run names is not run with it.
            runs_custom_rules=False,
        )


def _message_of(summary: Summary) -> str:
    if summary.has_ended and not summary.judged and not summary.verdicts:
        return "No rule is left to this job: rules from files are judged by jobs of their own."
    return message_of(summary)


def _left_to_this_job(request: RuleRequest, place: str) -> RuleRequest:
    """Without the rules from files that the deployment has judged by jobs of their own."""
    apart = judged_apart(request, place=place)
    return RuleRequest(tuple(rule for rule in request.rules if rule not in apart))


def _is_over(first_word: FirstWord | None, job: Job) -> bool:
    return first_word is not None and (first_word.was_said or job.is_asked_to_end(time.time()))


def _claim(job: Job) -> None:
    """One run, one training job. Errors: as `check_owner`."""
    arn = job.environment.training_job_arn
    if arn and not check_owner(job):
        open_store(job.run.rule_output).put(TRAINING_JOB_KEY, arn.encode())


if __name__ == "__main__":
    sys.exit(main())
