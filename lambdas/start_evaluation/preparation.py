"""The work before a job's evaluator starts: the check if it is watched, its tag, and its chosen rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from botocore.exceptions import ClientError

from lambdas.shared.clients import client, is_missing
from lambdas.shared.decisions import Done, Nothing
from lambdas.start_evaluation.chosen_rules import RuleChoice
from lambdas.start_evaluation.run_request import mistakes_in
from lambdas.start_evaluation.settings import StartEvaluationSettings
from lambdas.start_evaluation.watching import Watched, WrongPlace, who_is_watched
from trackside.contracts.event import TrainingJob, TrainingJobStateChange
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run.resumption import run_continued_by
from trackside.contracts.run_layout import RunLocation


class Preparation:
    """The preparation for one event. Errors of its methods: `ClientError`; the message comes again."""

    def __init__(self, change: TrainingJobStateChange, settings: StartEvaluationSettings) -> None:
        self.change = change  # with the tags that hold for it, once `run` is through
        self.is_to_be_judged = False
        self._settings = settings
        self._rules = RuleChoice(settings)
        self._watched: Watched | None = None

    def run(self) -> Iterator[Done | Nothing]:
        """Carry out the preparation, and yield a sentence about each action."""
        job = self.change.job
        found = who_is_watched(self.change, self._settings, environment_of_job=lambda: _environment(job.name))
        if isinstance(found, Nothing):
            yield found
            return
        if isinstance(found, WrongPlace):
            yield self.complain(found.reason)
            return
        self._watched, self.change = found, found.change
        if found.new_tags:
            yield _tag(job, found.new_tags)
        if found.is_status_only:
            yield Nothing(f"{job.name} wants its states to be recorded, and no rule.")
            return
        if earlier := run_continued_by(self.change.tags):
            yield self._rules.take_over(job, found.run, RunLocation(earlier))
        if found.choice.rules or found.choice.actions or self._settings.default_rules:
            yield self._rules.settle(job, found.run, found.choice)
        self.is_to_be_judged = True

    def complain(self, reason: str) -> Nothing:
        """Report on the bus, and in the log, that the job's wish cannot be fulfilled."""
        run = self._watched.run if self._watched else None
        return self._rules.complain(self.change.job, run, reason)

    def complaints_about(self, request: RuleRequest | Nothing) -> Iterator[Nothing]:
        """Report mistakes in the request of the run, or the reason why it cannot be read."""
        wrong = request.reason if isinstance(request, Nothing) else mistakes_in(request)
        if wrong:
            yield self.complain(wrong)


def _environment(job_name: str) -> Mapping[str, str]:
    """Return the Environment of a job, which no event holds; {} if the job does not exist any more."""
    try:
        description = client("sagemaker").describe_training_job(TrainingJobName=job_name)
    except ClientError as error:
        if not is_missing(error):
            raise
        return {}
    environment: Mapping[str, str] = description.get("Environment") or {}
    return environment


def _tag(job: TrainingJob, tags: Mapping[str, str]) -> Done:
    given = [{"Key": key, "Value": value} for key, value in tags.items()]
    client("sagemaker").add_tags(ResourceArn=job.arn, Tags=given)
    return Done(f"Tagged {job.name}, so that whatever follows it finds its run: {dict(tags)}.")
