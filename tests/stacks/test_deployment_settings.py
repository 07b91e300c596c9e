"""What one deployment may choose, and what it is told when it chooses wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stacks.deployment_settings import DeploymentSettings, cost_tags
from stacks.settings.setting import DeclaredSetting, declared_settings
from tests.for_each import for_each
from trackside.contracts.action import Action
from trackside.contracts.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]


def test_cdk_json_repeats_no_default() -> None:
    """A default stands in `stacks/settings` and nowhere else: a copy would keep an old one alive."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    given = {key.removeprefix("trackside:"): value for key, value in context.items() if key.startswith("trackside:")}
    read = DeploymentSettings.from_context(context).by_key()
    assert [name for name in given if read[name] == DeploymentSettings().by_key()[name]] == []
    assert DeploymentSettings.from_context(context) == DeploymentSettings()


def test_a_context_that_lists_all_defaults_gives_the_same(previous_context: dict[str, Any]) -> None:
    """The cdk.json of version 0.1 listed each: who has it, or a copy of it, keeps the same deployment."""
    assert len(previous_context) > 60
    assert DeploymentSettings.from_context(previous_context) == DeploymentSettings()


@pytest.fixture
def previous_context() -> dict[str, Any]:
    context: dict[str, Any] = json.loads((Path(__file__).parent / "context_of_0_1.json").read_text())
    return context


@for_each({setting.key: (setting,) for setting in declared_settings(DeploymentSettings)})
def test_every_setting_has_its_meaning_for_the_page(setting: DeclaredSetting) -> None:
    assert setting.meaning, f"write a line for {setting.name!r} in the docstring of its group"


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        pytest.param("dry_run", "true", True, id="a truth as -c gives it"),
        pytest.param("keep_data", False, False, id="a truth as JSON gives it"),
        pytest.param("run_retention_days", "0", 0, id="a number as text"),
        pytest.param("log_retention_days", 731, 731, id="a number"),
        pytest.param("default_actions", "StopTraining,Notify", (Action.STOP_TRAINING, Action.NOTIFY), id="actions"),
        pytest.param("default_actions", [], (), id="no actions"),
        pytest.param("owner_emails", ["a@example.com", "b@example.org"], ("a@example.com", "b@example.org"), id="list"),
        pytest.param("event_bus_name", "my.bus-1", "my.bus-1", id="text"),
        pytest.param("veto_minutes", "0", 0, id="no veto window"),
        pytest.param("stops_per_hour", 0, 0, id="no budget"),
        pytest.param(
            "instance_prices",
            "ml.m5.large=0.12,ml.p4d.24xlarge=38",
            ("ml.m5.large=0.12", "ml.p4d.24xlarge=38"),
            id="prices",
        ),
        pytest.param("cost_tags", "team=vision,cost-center=4 2", ("team=vision", "cost-center=4 2"), id="cost tags"),
        pytest.param("cost_tags", ["project=vision"], ("project=vision",), id="another project"),
        pytest.param("watched_jobs", "nightly-*,digits-01", ("nightly-*", "digits-01"), id="names of jobs"),
        pytest.param("watched_jobs", "*", ("*",), id="every job"),
        pytest.param("watched_jobs", "*-bert-*-v*", ("*-bert-*-v*",), id="as many asterisks as EventBridge takes"),
        pytest.param("unwatched_jobs", "a*b*c*d*e*f*", ("a*b*c*d*e*f*",), id="any number, where no rule is made"),
        pytest.param("untagged_runs", "teams/vision", "teams/vision", id="a place in the bucket"),
        pytest.param("default_rules", "overfit dead-relu@aws-docs", "overfit dead-relu@aws-docs", id="rules in words"),
        pytest.param(
            "default_rules", "ssm:/trackside/trackside/rules/x", "ssm:/trackside/trackside/rules/x", id="rules"
        ),
        pytest.param("custom_rules_from", "", "", id="no custom rules"),
        pytest.param("custom_rules_from", "s3://our-rules", "s3://our-rules", id="a whole bucket"),
        pytest.param("custom_rules_from", "s3://our-rules/a.b/v-1", "s3://our-rules/a.b/v-1", id="a prefix"),
    ],
)
def test_understands(name: str, given: Any, value: Any) -> None:
    assert DeploymentSettings.from_context({f"trackside:{name}": given}).by_key()[name] == value


@pytest.mark.parametrize(
    ("name", "given"),
    [
        pytest.param("dry_run", "perhaps", id="no truth"),
        pytest.param("run_retention_days", -1, id="negative"),
        pytest.param("run_retention_days", True, id="a truth is no number"),
        pytest.param("log_retention_days", 31, id="not offered by CloudWatch"),
        pytest.param("evaluator_max_runtime_seconds", 777_601, id="more than nine days"),
        pytest.param("evaluations_started_at_once", 1, id="fewer than Lambda allows"),
        pytest.param("default_actions", "StopTrainig", id="unknown action"),
        pytest.param("owner_emails", "nobody", id="no address"),
        pytest.param("stops_per_hour", 3_001, id="more jobs than one item of the table holds"),
        pytest.param("stop_after_findings", 0, id="a stop that nothing asks for"),
        pytest.param("reconcile_minutes", 0, id="never"),
        pytest.param("instance_prices", "ml.m5.large", id="no price"),
        pytest.param("instance_prices", "ml.m5.large=-1", id="a negative price"),
        pytest.param("event_bus_name", "aws.bus", id="reserved name"),
        pytest.param("event_bus_name", "", id="empty"),
        pytest.param("event_bus_name", "default", id="the account's own bus"),
        pytest.param("event_bus_name", "verkünder", id="letters that EventBridge does not take"),
        pytest.param("evaluator_image_tag", "fünf", id="letters that ECR does not take"),
        pytest.param("evaluator_max_runtime_seconds", 60, id="as long as a container takes to start"),
        pytest.param("cost_tags", [f"t{n}={'x' * 110}" for n in range(20)], id="more than a function's variables hold"),
        pytest.param("instance_prices", [f"ml.m{n}.large=0.12" for n in range(200)], id="likewise, prices"),
        pytest.param("watched_jobs", "night_ly", id="no name of a job"),
        pytest.param("watched_jobs", "a**b", id="two asterisks"),
        pytest.param("watched_jobs", "a*b*c*d*e*f*", id="more asterisks than EventBridge takes"),
        pytest.param("watched_jobs", "*aaaaaaaa", id="repeated characters after an asterisk"),
        pytest.param("unwatched_jobs", [f"job-{n}" for n in range(21)], id="more names than a pattern holds"),
        pytest.param("untagged_runs", "", id="no place in the bucket"),
        pytest.param("untagged_runs", "/jobs", id="a slash at the beginning"),
        pytest.param("untagged_runs", "@job", id="a place that is none"),
        pytest.param("default_rules", "overfitt", id="no such rule"),
        pytest.param("default_rules", "overfit " * 40, id="too many words"),
        pytest.param("custom_rules_from", "our-rules/approved", id="no place in S3"),
        pytest.param("custom_rules_from", "s3://our-rules/*", id="an asterisk, which a policy would take for anything"),
        pytest.param("custom_rules_from", "s3://our-rules/${aws:username}", id="a variable of policies"),
        pytest.param("custom_rules_from", "s3://our-rules/a/../b", id="dots"),
        pytest.param("custom_rules_from", "s3://our-rules/a/", id="a slash at the end"),
        pytest.param("custom_rules_from", "s3://our-rules//a", id="two slashes"),
        pytest.param("custom_rules_from", f"s3://our-rules/{'a' * 250}", id="too long for a variable"),
        pytest.param("custom_rule_repository", "Upper", id="capitals in the other repository"),
        pytest.param("evaluator_repository", "Upper", id="capitals in a repository"),
        pytest.param("evaluator_instance_type", "t3.medium", id="no SageMaker instance"),
        pytest.param("cost_tags", "vision", id="a tag without a value"),
        pytest.param("cost_tags", "aws:team=vision", id="a tag of AWS"),
        pytest.param("cost_tags", "trackside:run=s3://elsewhere/x", id="a tag that means something to us"),
        pytest.param("cost_tags", "team=a,team=b", id="one tag twice"),
        pytest.param("cost_tags", [f"t{n}=x" for n in range(21)], id="more tags than SageMaker takes with ours"),
        pytest.param("evaluator_silence_minutes", 5, id="as often as a sign of life comes"),
        pytest.param("oldest_message_minutes", 15, id="as long as a veto waits"),
    ],
)
def test_refuses(name: str, given: Any) -> None:
    with pytest.raises(ConfigurationError) as raised:
        DeploymentSettings.from_context({f"trackside:{name}": given})
    assert [problem.where for problem in raised.value.problems] == [f"trackside:{name}"]


def test_lists_every_problem_at_once_and_passes_over_what_is_not_ours() -> None:
    context = {
        "trackside:dry_rum": "true",
        "trackside:evaluator_volume_gb": 0,
        "trackside:evaluator_mode": "pre-job",
        "veto_minutes": "10",
        "@aws-cdk/core:flag": True,
        "of-another-tool": "veto_minutes",
    }
    with pytest.raises(ConfigurationError) as raised:
        DeploymentSettings.from_context(context)
    said = str(raised.value)
    assert "trackside:dry_rum: is not a setting. Did you mean 'dry_run'?" in said
    assert "veto_minutes: is not read. Did you mean 'trackside:veto_minutes'?" in said
    assert "Did you mean 'per-job'?\n" in said
    assert len(raised.value.problems) == 4


@pytest.mark.parametrize(
    ("given", "carried"),
    [
        pytest.param((), {"project": "trackside"}, id="none of its own"),
        pytest.param(("team=vision",), {"project": "trackside", "team": "vision"}, id="one more"),
        pytest.param(("project=vision",), {"project": "vision"}, id="another project"),
        pytest.param(("owner=",), {"project": "trackside", "owner": ""}, id="an empty value"),
    ],
)
def test_cost_tags(given: tuple[str, ...], carried: dict[str, str]) -> None:
    assert dict(cost_tags(DeploymentSettings(cost_tags=given))) == carried
