"""Trackside as a construct for AWS CDK: `TracksideMonitoring`, and its settings in groups."""

from stacks.deployment_settings import DeploymentSettings
from stacks.settings.accounts import AccountSettings
from stacks.settings.custom_rules import CustomRuleSettings
from stacks.settings.evaluator import EvaluatorSettings
from stacks.settings.fleet import FleetSettings
from stacks.settings.monitoring import MonitoringSettings
from stacks.settings.notices import NoticeSettings
from stacks.settings.place import PlaceSettings
from stacks.settings.retention import RetentionSettings
from stacks.settings.stops import StopSettings
from stacks.settings.team_dashboard import TeamDashboardSettings
from stacks.settings.watching import WatchingSettings
from stacks.trackside_monitoring import TracksideMonitoring
from trackside import __version__
from trackside.contracts.action import Action
from trackside.contracts.errors import ConfigurationError

__all__ = [
    "AccountSettings",
    "Action",
    "ConfigurationError",
    "CustomRuleSettings",
    "DeploymentSettings",
    "EvaluatorSettings",
    "FleetSettings",
    "MonitoringSettings",
    "NoticeSettings",
    "PlaceSettings",
    "RetentionSettings",
    "StopSettings",
    "TeamDashboardSettings",
    "TracksideMonitoring",
    "WatchingSettings",
    "__version__",
]
