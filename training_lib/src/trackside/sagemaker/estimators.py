"""The SageMaker SDK's own objects as watched ones: `Estimator` of version 2, `ModelTrainer` of version 3.

    from trackside.sagemaker import watch_estimator

    watch_estimator(estimator, "s3://the-deployments-run-bucket/digits/@job")
    estimator.fit(...)

Objects are recognised by their attributes, and `sagemaker` is never imported. Nothing of the user's is overwritten: a
conflicting value is an error, and one error lists all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

from trackside.cloud.rule_statuses import fill_rule_statuses
from trackside.cloud.run_table import RunTable
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.sagemaker.attachment import Attachment, plan_attachment, put_objects

logger = logging.getLogger(__name__)

_SWITCHED_OFF = {"rules": [], "debugger_hook_config": False, "profiler_config": None, "disable_profiler": True}

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html
MOST_VARIABLES, MOST_TAGS = 100, 50


class Attached(Protocol):
    """The additions that make a training job a watched one: variables of its environment, and tags by name."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by name."""

    @property
    def tags(self) -> Mapping[str, str]:
        """Tags by name."""


@dataclass(frozen=True)
class DebuggerArguments:
    """The arguments of an Estimator for SageMaker Debugger, as the user wrote them."""

    rules: tuple[Any, ...] = ()
    debugger_hook_config: Any = None
    profiler_config: Any = None
    tensorboard_output_config: Any = None


def attach_to_estimator(estimator: Any, attachment: Attached) -> None:
    """Add the attachment's variables and tags to an Estimator of the SDK's version 2, for all jobs that `fit` starts.

    Its settings for SageMaker Debugger stay; `take_over` removes them.

    Args:
        estimator: The Estimator.
        attachment: Variables and tags.

    Raises:
        ConfigurationError: Values conflict, or exceed the limits of a training job. Then nothing was changed.
    """
    tags = _pairs(getattr(estimator, "tags", None) or ())
    _check(estimator, attachment, tags)
    estimator.environment = {**(estimator.environment or {}), **attachment.environment}
    new = {key: value for key, value in attachment.tags.items() if key not in tags}
    more = [{"Key": key, "Value": value} for key, value in new.items()]
    estimator.tags = [*_listed(getattr(estimator, "tags", None) or ()), *more]


def attach_to_model_trainer(trainer: Any, attachment: Attached) -> None:
    """Add the attachment's variables and tags to a `ModelTrainer` of the SDK's version 3, which converts the tags.

    Args:
        trainer: The ModelTrainer.
        attachment: Variables and tags.

    Raises:
        ConfigurationError: Values conflict, or exceed the limits of a training job. Then nothing was changed.
    """
    tags = _pairs(getattr(trainer, "tags", None) or ())
    _check(trainer, attachment, tags)
    trainer.environment = {**(trainer.environment or {}), **attachment.environment}
    new = {key: value for key, value in attachment.tags.items() if key not in tags}
    trainer.tags = [*(trainer.tags or ()), *({"key": key, "value": value} for key, value in new.items())]


def take_over(estimator: Any) -> DebuggerArguments:
    """Remove an Estimator's settings for SageMaker Debugger, and return them. Nothing else is changed.

    `rules`, `debugger_hook_config` and `profiler_config` are switched off, because an account without SageMaker
    Debugger requires it, and because the SDK accepts rules of its own classes only. TensorBoard's configuration stays.

    Args:
        estimator: The Estimator.
    """
    taken = DebuggerArguments(
        rules=tuple(getattr(estimator, "rules", None) or ()),
        debugger_hook_config=getattr(estimator, "debugger_hook_config", None),
        profiler_config=getattr(estimator, "profiler_config", None),
        tensorboard_output_config=getattr(estimator, "tensorboard_output_config", None),
    )
    for name, value in _SWITCHED_OFF.items():
        setattr(estimator, name, copy(value))
    return taken


def watch_estimator(estimator: Any, run: str, *, preset: str = "") -> Attachment:
    """Let Trackside do the work that the Estimator requests of SageMaker Debugger.

    Its rules judge each job's run, its hook's configuration decides what is saved, and `fit` and `rule_job_summary`
    show the rules' results. Without rules the deployment's own judge. Settings without a counterpart are logged, and
    listed in `notes` of the result.

    Args:
        estimator: The Estimator.
        run: A location in the deployment's bucket that ends with `/@job`, which stands for the name that `fit` gives a
            job.
        preset: Preset of rules without one of their own.

    Raises:
        ConfigurationError: The settings are wrong or conflict. Then the Estimator is unchanged.
        StorageError: The objects cannot be stored. Then the Estimator is unchanged.
    """
    before = {name: getattr(estimator, name, None) for name in (*_SWITCHED_OFF, "environment", "tags")}
    taken = take_over(estimator)
    try:
        attachment = plan_attachment(run, preset=preset, **{**vars(taken), "rules": taken.rules or None})
        attach_to_estimator(estimator, attachment)
        put_objects(attachment)
    except BaseException:
        for name, value in before.items():
            setattr(estimator, name, value)
        raise
    session = estimator.sagemaker_session
    fill_rule_statuses(session.sagemaker_client, table=lambda: RunTable(client=session.boto_session.client))
    for note in attachment.notes:
        logger.warning("trackside: %s", note)
    return attachment


def _check(owner: Any, attachment: Attached, tags: Mapping[str, Any]) -> None:
    variables = owner.environment or {}
    problems = [
        *_conflicts("environment", variables, attachment.environment),
        *_conflicts("tags", tags, attachment.tags),
        *_overfull("environment", {**variables, **attachment.environment}, MOST_VARIABLES),
        *_overfull("tags", {**tags, **attachment.tags}, MOST_TAGS),
    ]
    if problems:
        raise ConfigurationError(problems, subject=f"The {type(owner).__name__}")


def _conflicts(where: str, existing: Mapping[str, Any], wanted: Mapping[str, str]) -> Iterable[Problem]:
    for name, value in wanted.items():
        if name in existing and existing[name] != value:
            what = f"is {existing[name]!r} already, and should become {value!r}."
            yield Problem(f"{where}[{name!r}]", what, "Leave it out there, or attach with the same value.")


def _overfull(where: str, entries: Mapping[str, Any], most: int) -> Iterable[Problem]:
    if len(entries) > most:
        yield Problem(where, f"would have {len(entries)} entries; a training job takes {most}.", "Take some away.")


def _pairs(tags: Any) -> dict[str, Any]:
    """Return tags by key, from a mapping, boto3's dictionaries, or objects with `key` and `value`."""
    if isinstance(tags, Mapping):
        return dict(tags)
    return dict(_pair(tag) for tag in tags)


def _pair(tag: Any) -> tuple[str, Any]:
    if isinstance(tag, Mapping):
        return (tag["Key"], tag["Value"]) if "Key" in tag else (tag["key"], tag["value"])
    return tag.key, tag.value


def _listed(tags: Any) -> list[Any]:
    """Return an Estimator's tags in its own form."""
    if isinstance(tags, Mapping):
        return [{"Key": key, "Value": value} for key, value in tags.items()]
    return list(tags)
