"""Entry point of the custom rule container: a SageMaker processing job that judges one training job by one rule file.

The file is somebody's code and runs with this container's role, so the role may read runs and rule files and write
nothing at all: no verdict file, no event. The outcome is this job's exit message and exit code, which the deployment
(lambdas/report_custom_rule) turns into an event about the training job that the job's environment names.

Contract: `TRACKSIDE_RUN` and `TRACKSIDE_RULE_CONFIGURATION` name the run and the configuration in its request, whose
file must lie below `TRACKSIDE_CUSTOM_RULES_FROM`; or SageMaker Debugger's own variables name the rule, its file and
parameters, as `trackside.containers.rule_container` says. It ends with the first verdict, the run, or SIGTERM,
after what is complete was judged. A restarted job judges from the first step: nothing was kept.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial

from trackside.containers.rule_container import FirstVerdict, Job, check_owner, message_of, patiently, run_container
from trackside.contracts.deployment.custom_rule_job import CLEAN_CODE, CLEAN_PREFIX, ISSUE_CODES, lies_below
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.verdict import Verdict
from trackside.environment import EvaluatorEnvironment
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.results.summary import Summary
from trackside.evaluation.rule_request_file import read_rule_request
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.evaluation.sinks.sink import Sink
from trackside.evaluation.stop_signal import StopSignal
from trackside.storage.open_store import open_store
from trackside.storage.store import Store


def main() -> int:
    """Judge the run. Return the exit code."""
    return run_container(
        _judge, message_of=partial(message_of, with_severity=True), code_without_message=_code_without_message
    )


def _code_without_message(summary: Summary) -> int | None:
    """Return the exit code that holds the outcome where the exit message cannot."""
    if summary.issues:
        return ISSUE_CODES[summary.issues[0].severity]
    return CLEAN_CODE if message_of(summary).startswith(CLEAN_PREFIX) else None


def _judge(job: Job) -> Summary:
    patiently(partial(check_owner, job))
    request = job.request or RuleRequest((_configuration(job),))
    if job.environment.custom_rules_from:
        _check_place(request.rules[0], job.environment.custom_rules_from)
    with tempfile.TemporaryDirectory() as folder, StopSignal() as stop:
        notebook = open_store(folder)
        # Only a managed container has a place for verdicts, which SageMaker uploads: /opt/ml/processing/output/rule.
        verdicts = notebook if job.environment.run_uri else job.open_store(job.run.rule_output)
        first_verdict = FirstVerdict()

        def store_of(uri: str) -> Store:
            return notebook if uri == job.run.rule_output else job.open_store(uri)

        sinks: list[Sink] = [JsonLinesSink(verdicts), first_verdict, _Log()]
        return evaluate(
            job.run,
            request,
            sinks,
            poll_seconds=job.environment.poll_seconds,
            clock=time.time,
            sleep=stop.sleep,
            should_stop=lambda: stop.is_set or first_verdict.has_come or job.must_end(time.time()),
            stores=store_of,
        )


def _configuration(job: Job) -> RuleConfiguration:
    """Return the configuration that this job is for.

    Errors: `ConfigurationError` with every problem; those of the store.
    """
    environment = job.environment
    problems = _missing(environment)
    if problems:
        raise ConfigurationError(problems, subject="The environment of the custom rule")
    request = patiently(lambda: read_rule_request(open_store(job.run.uri)))
    rules = {rule.name: rule for rule in request.rules}
    rule = rules.get(environment.rule_configuration)
    if rule is None:
        what = f"has no configuration {environment.rule_configuration!r}."
        raise ConfigurationError([Problem(job.run.uri, what)], subject="The rule request")
    if rule.custom is None:
        what = "names no file: the evaluator judges it."
        raise ConfigurationError([Problem(rule.name, what)], subject="The rule request")
    return rule


def _missing(environment: EvaluatorEnvironment) -> list[Problem]:
    given = {
        "TRACKSIDE_RULE_CONFIGURATION": (environment.rule_configuration, "the name of a configuration of the request"),
        "TRACKSIDE_CUSTOM_RULES_FROM": (environment.custom_rules_from, "the s3:// prefix below which rule files lie"),
    }
    return [Problem(name, "is not set.", f"Set it to {what}.") for name, (value, what) in given.items() if not value]


def _check_place(rule: RuleConfiguration, place: str) -> None:
    """Raise `ConfigurationError` for a file that the deployment does not run."""
    if rule.custom is not None and not lies_below(rule.custom.source, place):
        what = f"{rule.custom.source} does not lie below {place}, and no other file is run here."
        fix = "The owner of that location must put the file there."
        raise ConfigurationError([Problem(rule.name, what, fix)], subject="The rule request")


class _Log:
    """A sink that writes the whole verdict to the job's log: the exit message has room for a sentence."""

    name = "log"

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            sys.stderr.write(f"{verdict.to_json()}\n")


if __name__ == "__main__":
    sys.exit(main())
