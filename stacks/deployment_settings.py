"""The settings of one deployment: the `trackside:` entries of cdk.json's context, or `-c trackside:name=value`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stacks.settings.accounts import AccountSettings, account_problems
from stacks.settings.custom_rules import CustomRuleSettings
from stacks.settings.evaluator import EvaluatorSettings
from stacks.settings.fleet import FleetSettings, fleet_problems
from stacks.settings.monitoring import MonitoringSettings
from stacks.settings.notices import NoticeSettings, missing_secrets
from stacks.settings.place import PlaceSettings, bucket_problems, vpc_problems
from stacks.settings.retention import RetentionSettings
from stacks.settings.setting import DeclaredSetting, between, declared_settings, empty_or, matching, setting
from stacks.settings.stops import StopSettings
from stacks.settings.team_dashboard import TeamDashboardSettings, team_dashboard_problems
from stacks.settings.watching import WatchingSettings
from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean

PREFIX = "trackside:"
MOST_COST_TAGS = 20

# A function's variables have 4,096 characters in all (docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html);
# these lists travel in them, beside names and addresses of at most 2,000.
MOST_VARIABLE_CHARACTERS = 2_000
TRAVELLING = (
    ("cost_tags", "watched_jobs", "unwatched_jobs", "spoke_accounts", "vpc_subnets", "vpc_security_groups"),
    ("instance_prices", "spoke_accounts", "resume_roles"),
)


def _check_cost_tags(value: tuple[str, ...]) -> None:
    """Check names and values by the rules of both CloudFormation and SageMaker. A comma divides one tag from the next.

    Tags with a meaning to us are refused.
    """
    wrong = [
        tag for tag in value if not re.fullmatch(r"(?!(?i:aws|trackside):)[\w.:/+@-]{1,128}=[\w .:/+@-]{0,256}", tag)
    ]
    if wrong:
        raise ValueError(f"not like 'cost-center=42': {', '.join(wrong)}")
    if len({tag.split("=")[0] for tag in value}) < len(value):
        raise ValueError("a name stands there twice")
    if len(value) > MOST_COST_TAGS:
        raise ValueError(f"at most {MOST_COST_TAGS} tags")


@dataclasses.dataclass(frozen=True)
class DeploymentSettings:
    """One deployment: settings of the whole, then groups, each beside its checks in `stacks/settings`.

    event_bus_name            name of the bus of verdicts
    environment               `staging`: one of [several deployments](landing-zone.md#several-environments) in an
                              account and region; part of every name
    default_actions           for events of SageMaker Debugger itself, of jobs whose [tags](watching.md#official-events)
                              name no action
    control_calls_per_second  calls to SageMaker of `stop_training`, and of `start_evaluation`
                              ([pace](reliability.md#throttling)); 1 to 100
    cost_tags                 `team=vision,cost-center=42`: on all resources of this deployment and on its processing
                              jobs; `project=trackside` is always among them
    drills                    `true`: also makes the role of the training job of a [drill](drill.md)
    questions                 `true`: also makes [tables and saved questions](query.md#in-athena) in Athena
    keep_data                 `false`: `cdk destroy` also deletes the table of runs, the bucket, if it is empty, and
                              their key
    """

    event_bus_name: str = setting("trackside", matching(r"(?!aws\.|default$)[A-Za-z0-9_.-]{1,64}", "'trackside'"))
    environment: str = setting(
        "", empty_or(matching(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?", "'staging', of at most 20 characters"))
    )
    default_actions: tuple[Action, ...] = setting(DEFAULT_ACTIONS)
    control_calls_per_second: int = setting(2, between(1, 100))
    cost_tags: tuple[str, ...] = setting((), _check_cost_tags)
    drills: bool = setting(False)
    questions: bool = setting(False)
    keep_data: bool = setting(True)
    evaluator: EvaluatorSettings = dataclasses.field(default_factory=EvaluatorSettings)
    fleet: FleetSettings = dataclasses.field(default_factory=FleetSettings)
    custom_rules: CustomRuleSettings = dataclasses.field(default_factory=CustomRuleSettings)
    watching: WatchingSettings = dataclasses.field(default_factory=WatchingSettings)
    stops: StopSettings = dataclasses.field(default_factory=StopSettings)
    notices: NoticeSettings = dataclasses.field(default_factory=NoticeSettings)
    retention: RetentionSettings = dataclasses.field(default_factory=RetentionSettings)
    monitoring: MonitoringSettings = dataclasses.field(default_factory=MonitoringSettings)
    team_dashboard: TeamDashboardSettings = dataclasses.field(default_factory=TeamDashboardSettings)
    place: PlaceSettings = dataclasses.field(default_factory=PlaceSettings)
    accounts: AccountSettings = dataclasses.field(default_factory=AccountSettings)

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> DeploymentSettings:
        """Read the `trackside:` entries of a CDK context; also texts, as `-c` gives them. The environment is in names.

        Raises:
            ConfigurationError: with every problem at once.
        """
        return cls.read(context)._named_for_its_environment()

    @classmethod
    def read(cls, context: Mapping[str, Any]) -> DeploymentSettings:
        """Read the entries as they are: as settings made in Python, for `TracksideMonitoring`.

        Raises:
            ConfigurationError: with every problem at once.
        """
        declared = {one.key: one for one in declared_settings(cls)}
        problems: list[Problem] = []
        given_values: dict[str, Any] = {}
        for key, given in context.items():
            name = key.removeprefix(PREFIX)
            if name == key:
                if name in declared:  # CDK would accept it, and no code would ever read it
                    problems.append(Problem(key, "is not read.", f"Did you mean {PREFIX + key!r}?"))
                continue
            if name not in declared:
                problems.append(Problem(key, "is not a setting.", did_you_mean(name, declared)))
                continue
            try:
                given_values[name] = declared[name].read(given)
                declared[name].check(given_values[name])
            except ValueError as error:
                problems.append(Problem(key, f"is {given!r}: {error}{'' if str(error).endswith('?') else '.'}"))
        values = {**cls().by_key(), **given_values}
        problems += [Problem(PREFIX + name, why) for name, why in _wrong_together(values)]
        if problems:
            raise ConfigurationError(problems, subject="The deployment's settings (cdk.json, -c)")
        return cls()._with(declared.values(), values)

    def checked(self, *, has_key: bool = False) -> DeploymentSettings:
        """Return these settings after the checks of `from_context`, named for their environment.

        Args:
            has_key: True if an existing key is given as an object.

        Raises:
            ConfigurationError: with every problem at once.
        """
        values = self.by_key()
        problems: list[Problem] = []
        for one in declared_settings(type(self)):
            try:
                one.check(values[one.key])
            except ValueError as error:
                problems.append(Problem(one.key, f"is {values[one.key]!r}: {error}."))
        wrong = [pair for pair in _wrong_together(values) if not (has_key and pair[0] == "run_bucket")]
        problems += [Problem(name, why) for name, why in wrong]
        in_one_stack = "is for the app of Trackside's repository: it needs a stack of its own."
        problems += [Problem(name, in_one_stack) for name in ("hub_account", "spoke_accounts") if values[name]]
        if problems:
            raise ConfigurationError(problems, subject="The settings of TracksideMonitoring")
        return self._named_for_its_environment()

    def by_key(self) -> dict[str, Any]:
        """Return the value of each setting by its name in cdk.json, after `trackside:`."""
        return {one.key: one.value_in(self) for one in declared_settings(type(self))}

    def stack_name(self, construct_id: str) -> str:
        """Return the name of a stack: `TracksideStorage`, or `Trackside-staging-Storage`."""
        concern = construct_id.removeprefix("Trackside")
        return f"Trackside-{self.environment}-{concern}" if self.environment else construct_id

    def service_name(self, reaction: str) -> str:
        """Return the name of a reaction in its metrics: `reconcile`, or `staging-reconcile`.

        With one name for two deployments, one that sweeps would hide that the other does not.
        """
        return f"{self.environment}-{reaction}" if self.environment else reaction

    def _with(self, declared: Iterable[DeclaredSetting], values: Mapping[str, Any]) -> DeploymentSettings:
        changes: dict[str, dict[str, Any]] = {}
        for one in declared:
            changes.setdefault(one.group, {})[one.name] = values[one.key]
        own = changes.pop("")
        groups = {name: dataclasses.replace(getattr(self, name), **of_group) for name, of_group in changes.items()}
        return dataclasses.replace(self, **own, **groups)

    def _named_for_its_environment(self) -> DeploymentSettings:
        """Return the settings with the environment in every name that is taken once in an account and region."""
        if not self.environment:
            return self
        evaluator, custom_rules = self.evaluator, self.custom_rules
        return dataclasses.replace(
            self,
            event_bus_name=f"{self.event_bus_name}-{self.environment}",
            evaluator=dataclasses.replace(evaluator, repository=f"{evaluator.repository}-{self.environment}"),
            custom_rules=dataclasses.replace(custom_rules, repository=f"{custom_rules.repository}-{self.environment}"),
        )


def cost_tags(settings: DeploymentSettings) -> tuple[tuple[str, str], ...]:
    """Return name and value of every tag of a deployment: its own, and `project` if it is not among them."""
    given = dict(tag.split("=", 1) for tag in settings.cost_tags)
    return tuple({"project": "trackside", **given}.items())


def _wrong_together(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from vpc_problems(values)
    yield from account_problems(values)
    yield from bucket_problems(values)
    yield from fleet_problems(values)
    yield from missing_secrets(values)
    yield from team_dashboard_problems(values)
    yield from _too_long_for_variables(values)


def _too_long_for_variables(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) of the longest setting that is too long beside the others.

    The deployment would fail half-way.
    """
    for names in TRAVELLING:
        lengths = {name: len(",".join(values[name])) for name in names}
        if sum(lengths.values()) > MOST_VARIABLE_CHARACTERS:
            others = ", ".join(name for name in names if lengths[name])
            why = (
                f"is too long: a function's variables hold {MOST_VARIABLE_CHARACTERS} characters of {others} together."
            )
            yield max(lengths, key=lambda name: lengths[name]), why
