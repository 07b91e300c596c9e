"""The dashboard of a team, deployed into the local account: what its container starts lets people of its pool in alone.

The balancer is not played: what is asked here is the container, as if the balancer's sign-in were missing.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from moto.acm.models import acm_backends

from stacks.assembly import assembly
from tests.training_lib.views.dashboard.people import create_client, sign_in
from tests.training_lib.views.dashboard.runs import ISSUE, write_run
from tests.training_lib.views.dashboard.served import Served, served
from trackside.views.dashboard.sign_on import BALANCER_HEADER
from trackside_localaccount.deploy import deploy
from trackside_localaccount.server import LocalAccount

HOST = "runs.example.com"
CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/11111111-2222"
SETTINGS = {
    "trackside:team_dashboard_host": HOST,
    "trackside:team_dashboard_certificate_arn": CERTIFICATE,
    "trackside:team_dashboard_prefix": "jobs",
}
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("local-account")]


@dataclass(frozen=True)
class Deployed:
    """The deployment: its outputs, its pool's client, and the server that its container starts."""

    account: LocalAccount
    outputs: Mapping[str, str]
    client: Mapping[str, Any]
    server: Served

    @property
    def pool(self) -> str:
        return self.outputs["DashboardPoolId"]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with LocalAccount() as account:
        account.register_image("trackside-evaluator", [sys.executable, "-m", "trackside"])
        have_certificate()
        stacks = deploy(assembly(SETTINGS), account)
        outputs = {name: value for each in stacks.values() for name, value in each.items()}
        store_run(account, outputs["RunBucketName"], "jobs/digits")
        store_run(account, outputs["RunBucketName"], "private")  # beside the prefix
        cognito, pool = account.client("cognito-idp"), outputs["DashboardPoolId"]
        (found,) = cognito.list_user_pool_clients(UserPoolId=pool)["UserPoolClients"]
        client = cognito.describe_user_pool_client(UserPoolId=pool, ClientId=found["ClientId"])["UserPoolClient"]
        keys = f"{account.environment()['AWS_ENDPOINT_URL']}/{pool}/.well-known/jwks.json"
        words = [*container(account)["command"], "--keys", keys, "--host", "127.0.0.1", "--port", "0"]
        folder = tmp_path_factory.mktemp("container")
        with served(folder, *words, environment=environment_of_task(account)) as server:
            yield Deployed(account, outputs, client, server)


def have_certificate() -> None:
    """Let the account have the certificate by the name in the settings: one synthesis serves all runs of this test."""
    certificates = acm_backends["123456789012"]["us-east-1"]
    made = certificates.request_certificate(HOST, "once", [], [])
    certificates._certificates[CERTIFICATE] = certificates._certificates.pop(made)


def environment_of_task(account: LocalAccount) -> Mapping[str, str]:
    """Return the credentials of the role of the deployed task: all that its container may do.

    It is looked up in the stack, for moto's tasks forget theirs.
    """
    found = account.client("cloudformation").list_stack_resources(StackName="TracksideDashboard")
    (role,) = [
        each["PhysicalResourceId"]
        for each in found["StackResourceSummaries"]
        if each["ResourceType"] == "AWS::IAM::Role" and each["LogicalResourceId"].startswith("Role")
    ]
    return account.role_environment(role)


def container(account: LocalAccount) -> Mapping[str, Any]:
    """Return the container of the deployed task."""
    ecs = account.client("ecs")
    (arn,) = ecs.list_task_definitions()["taskDefinitionArns"]
    (found,) = ecs.describe_task_definition(taskDefinition=arn)["taskDefinition"]["containerDefinitions"]
    assert found["entryPoint"] == ["python", "-m", "trackside", "serve"]
    described: Mapping[str, Any] = found
    return described


def store_run(account: LocalAccount, bucket: str, prefix: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        write_run(run, verdicts=(ISSUE,))
        for path in run.rglob("*"):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(run).as_posix()}"
                account.client("s3").put_object(Bucket=bucket, Key=key, Body=path.read_bytes())


@pytest.mark.parametrize("path", ["/", "/runs/digits", "/runs/digits/events", "/compare", "/script.js"])
@pytest.mark.parametrize("token", [None, "", "e30.e30.e30"])
def test_strangers_are_refused_whatever_the_balancer_lets_through(
    deployed: Deployed, path: str, token: str | None
) -> None:
    headers = {"Host": HOST} if token is None else {"Host": HOST, BALANCER_HEADER: token}
    answer = deployed.server.ask(path, token=None, headers=headers)
    assert answer.status == 401
    assert "digits" not in answer.text


def test_people_of_the_pool_see_the_runs_below_the_prefix(deployed: Deployed) -> None:
    secret = deployed.client["ClientSecret"]
    token = sign_in(deployed.account, deployed.pool, deployed.client["ClientId"], client_secret=secret)["AccessToken"]
    headers = {"Host": HOST, BALANCER_HEADER: token}
    listed = deployed.server.ask("/", token=None, headers=headers)
    assert listed.status == 200
    assert "digits" in listed.text
    assert "private" not in listed.text
    assert deployed.server.ask("/runs/digits", token=None, headers=headers).status == 200


def test_people_of_another_client_of_the_pool_are_refused(deployed: Deployed) -> None:
    token = sign_in(deployed.account, deployed.pool, create_client(deployed.account, deployed.pool))["AccessToken"]
    headers = {"Host": HOST, BALANCER_HEADER: token}
    assert deployed.server.ask("/", token=None, headers=headers).status == 401


def test_the_balancer_signs_people_in_and_its_health_check_is_a_refusal(deployed: Deployed) -> None:
    balancing = deployed.account.client("elbv2")
    (balancer,) = balancing.describe_load_balancers()["LoadBalancers"]
    (listener,) = balancing.describe_listeners(LoadBalancerArn=balancer["LoadBalancerArn"])["Listeners"]
    assert (listener["Protocol"], listener["Port"]) == ("HTTPS", 443)
    first, second = sorted(listener["DefaultActions"], key=lambda action: str(action["Type"]))
    assert first["Type"] == "authenticate-cognito"
    assert first["AuthenticateCognitoConfig"]["UserPoolClientId"] == deployed.client["ClientId"]
    assert second["Type"] == "forward"
    (target,) = balancing.describe_target_groups()["TargetGroups"]
    # As a health check: by its address, without a proof.
    answer = deployed.server.ask(target["HealthCheckPath"], token=None, headers={"Host": "10.0.0.7:8080"})
    assert str(answer.status) == target["Matcher"]["HttpCode"]


def test_nobody_joins_the_pool_by_himself(deployed: Deployed) -> None:
    pool = deployed.account.client("cognito-idp").describe_user_pool(UserPoolId=deployed.pool)["UserPool"]
    assert pool["AdminCreateUserConfig"]["AllowAdminCreateUserOnly"] is True
    assert deployed.client["AllowedOAuthFlows"] == ["code"]
    assert deployed.client["CallbackURLs"] == [f"https://{HOST}/oauth2/idpresponse"]
