"""Settings of the Lambdas for tests: as the deployment's defaults make them, with no resource behind them."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, TypeVar, get_type_hints

from lambdas.shared.settings import ActionSettings, EnvironmentSettings
from stacks.deployment_settings import DeploymentSettings, cost_tags
from stacks.paths import LAMBDAS
from trackside.contracts.deployment.metrics import issue_namespace

Settings = TypeVar("Settings", bound=EnvironmentSettings)


def settings_class(reaction: str) -> type[EnvironmentSettings]:
    """The settings of a Lambda: its own, or those of an action that has none."""
    if not (LAMBDAS / reaction / "settings.py").exists():
        return ActionSettings
    module = importlib.import_module(f"lambdas.{reaction}.settings")
    (kind,) = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, EnvironmentSettings) and value.__module__ == module.__name__
    ]
    return kind


def made(kind: type[Settings], **given: Any) -> Settings:
    """Settings with the deployment's defaults; names of resources that are not given are empty."""
    deployment = DeploymentSettings()
    groups: list[Any] = [deployment, deployment.evaluator, deployment.watching, deployment.place, deployment.accounts]
    groups += [deployment.stops, deployment.notices, deployment.monitoring]
    renamed = {
        "cost_tags": tuple("=".join(tag) for tag in cost_tags(deployment)),
        "evaluator_mode": deployment.evaluator.mode,
        "every_minutes": deployment.monitoring.reconcile_minutes,
        "namespace": issue_namespace(deployment.environment),
        "retention_days": deployment.retention.record_days,
        "rule_parameters_below": "/trackside/trackside/rules",
        "untagged_runs": "",
    }
    types = get_type_hints(kind)
    known = {field.name for group in groups for field in dataclasses.fields(group)}
    required = [field for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]
    empty = {field.name: () if "tuple" in str(types[field.name]) else types[field.name]() for field in required}
    of_resources = {name: value for name, value in empty.items() if name not in known}
    values = {**of_resources, **{name: value for name, value in renamed.items() if name in types}, **given}
    return kind.of(*groups, **values)
