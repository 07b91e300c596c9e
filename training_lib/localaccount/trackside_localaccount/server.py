"""The local AWS account: moto as a server in this process, with what moto lacks. Everything is on loopback."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import boto3
from botocore.config import Config
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.events.models import events_backends
from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.moto_api._internal.models import moto_api_backend
from moto.organizations.models import organizations_backends

from trackside_localaccount import repairs
from trackside_localaccount.alarms import Alarms
from trackside_localaccount.api_destinations import ApiDestinations
from trackside_localaccount.background import Background
from trackside_localaccount.event_delivery import Chaos, EventDelivery, RetryPolicy, send_to_queue
from trackside_localaccount.fault_gate import Application, FaultGate, GatedServer
from trackside_localaccount.faults import Faults, FaultSwitch
from trackside_localaccount.job_process import Image
from trackside_localaccount.jobs import Jobs, JobSettings
from trackside_localaccount.journal import Journal
from trackside_localaccount.lambda_runtime import LambdaRuntime, LambdaSettings
from trackside_localaccount.orphans import OrphanKiller
from trackside_localaccount.provision import create_role
from trackside_localaccount.queue_delivery import QueueDelivery
from trackside_localaccount.rights.rights import Rights
from trackside_localaccount.sandbox import Outcome

ACCOUNT_ID: str = DEFAULT_ACCOUNT_ID
REGION = "us-east-1"
_THREADS = 16
_NOTEBOOK = "AmazonSageMakerFullAccess"


class LocalAccount:
    """An AWS account of your own, empty at first, for as long as the `with` block lasts. One at a time in a process.

    `port` 0 takes a free one. `folder` keeps logs and jobs; without it they are deleted at the end.
    `stop_grace_seconds`: from SIGTERM to SIGKILL when a job is stopped (AWS: 120).
    `retry_seconds`: the pause before anything is tried again; None leaves failed messages invisible for as long as
    their queue says, as AWS does. `chaos` doubles and reorders events; `faults` may do far worse, and can be
    switched at any time (`account.faults.set`). `alarm_tick_seconds`: how often alarms are evaluated.
    `enforces_rights`: functions, jobs and services act by policies alone; False: whatever the policies say.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        folder: Path | None = None,
        stop_grace_seconds: float = 120.0,
        retry_seconds: float | None = 0.1,
        chaos: Chaos | None = None,
        faults: Faults | None = None,
        alarm_tick_seconds: float = 0.25,
        clock: Callable[[], float] = time.time,
        enforces_rights: bool = True,
    ) -> None:
        """Open the account. Errors: `OSError` if the port is taken; `RuntimeError` if another one is open here."""
        _check_is_free(port)
        repairs.apply()
        repairs.attach(self)
        moto_api_backend.reset()
        self._keeps_folder = folder is not None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="trackside-account-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._quiet = logging.getLogger("werkzeug")
        self._level_before = self._quiet.level
        self._quiet.setLevel(logging.WARNING)  # else a line per request
        self.faults = FaultSwitch(faults or (chaos.faults() if chaos else None))
        self._destinations = ApiDestinations()
        self.hops = Journal(clock=clock)
        self.clock = clock
        self._watched: list[str] = []
        self._server = GatedServer("127.0.0.1", port, gate=self._gate)
        self._server.start()
        host, self._port = self._server.get_host_and_port()
        self.endpoint_url = f"http://{host}:{self._port}"
        self.rights = Rights(job_tags=self._job_tags, note=self.hops.write, are_enforced=enforces_rights)
        self._orphans = OrphanKiller()
        self._background = Background(threads=_THREADS)
        self._lambdas = LambdaRuntime(
            LambdaSettings(self.folder / "lambda", self.environment(), retry_seconds or 0.1),
            background=self._background,
            journal=self.hops,
            send_failure=_send_failure,
            orphans=self._orphans,
            rights=self.rights,
        )
        self._events = EventDelivery(
            background=self._background,
            journal=self.hops,
            invoke=self._lambdas.invoke_later,
            retry=RetryPolicy(first_pause_seconds=retry_seconds or 0.1),
            switch=self.faults,
            destinations=self._destinations,
            rights=self.rights,
        )
        self._queues = QueueDelivery(
            invoke=self._lambdas.invoke,
            journal=self.hops,
            retry_seconds=retry_seconds,
            rights=self.rights,
            switch=self.faults,
            clock=clock,
        )
        self.jobs = Jobs(
            JobSettings(self.folder / "jobs", stop_grace_seconds, self.environment()),
            send_event=_send_sagemaker_event,
            journal=self.hops,
            orphans=self._orphans,
            rights=self.rights,
            clock=clock,
        )
        self._alarms = Alarms(journal=self.hops, rights=self.rights, tick_seconds=alarm_tick_seconds, clock=clock)
        self._is_open = True

    def __enter__(self) -> LocalAccount:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything: no process, thread or port is left behind. A second call does nothing."""
        if not self._is_open:
            return
        self._is_open = False
        self._alarms.close()
        self.jobs.close()
        self._lambdas.close()
        self._queues.close()
        self._background.close()
        self._orphans.close()
        self._server.stop()
        repairs.detach()
        moto_api_backend.reset()
        organizations_backends.master_accounts.clear()  # which `reset` forgets
        self._quiet.setLevel(self._level_before)
        if not self._keeps_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _gate(self, application: Application) -> Application:
        return FaultGate(
            self.faults,
            kill=self._kill_function,
            note=self.hops.write,
            application=application,
        )

    def _job_tags(self, arn: str) -> Mapping[str, str]:
        return self.jobs.tags_of(arn)  # made after the rights

    def _kill_function(self, process: str) -> None:
        self._lambdas.kill(process)  # made after the server

    # For programs that speak to the account ---------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """Return the variables by which any AWS SDK in a child process finds this account, and no other."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_SESSION_TOKEN": "testing",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }

    def role_environment(self, role_name: str, *, path: str = "/") -> dict[str, str]:
        """Return `environment` with the credentials of a role, as a notebook or a job has them.

        `sts.get_caller_identity` answers with the assumed role's ARN, `iam.get_role` with the role.

        Args:
            role_name: Name of the role. It is made if it does not exist, with the rights of AWS's
                `AmazonSageMakerFullAccess`.
            path: Path of a new role.
        """
        iam = self.client("iam")
        try:
            arn = iam.get_role(RoleName=role_name)["Role"]["Arn"]
        except iam.exceptions.NoSuchEntityException:
            arn = create_role(self, role_name, _notebook_statements(), path=path)
        given = self.client("sts").assume_role(RoleArn=arn, RoleSessionName="SageMaker")["Credentials"]
        return {
            **self.environment(),
            "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
            "AWS_SESSION_TOKEN": given["SessionToken"],
        }

    def client(self, service: str) -> Any:
        """Return a boto3 client of this account.

        Args:
            service: Name of the service, such as `sagemaker`.
        """
        given = self.environment()
        keys = (given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"], given["AWS_SESSION_TOKEN"])
        return _connect(service, self.endpoint_url, keys)

    def other(self, account_id: str) -> OtherAccount:
        """Return an empty account of the same organization, for events and calls that cross accounts.

        The organization has an id, for policies that ask for it, once `organizations:CreateOrganization` made it.

        Args:
            account_id: Its number, twelve digits.
        """
        organizations_backends.master_accounts[account_id] = (ACCOUNT_ID, "aws")
        role = f"arn:aws:iam::{account_id}:role/OrganizationAccountAccessRole"
        given = self.client("sts").assume_role(RoleArn=role, RoleSessionName="local")["Credentials"]
        keys = (given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
        return OtherAccount(account_id, self.endpoint_url, keys)

    def register_image(
        self,
        name: str,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Register a command that runs in place of a container image, without Docker.

        Args:
            name: Repository or whole URI of the image.
            command: Command of the image's entry point.
            folder: Working folder of the command.
            environment: Variables of the image.
        """
        self.jobs.register_image(name, Image(tuple(command), folder, environment or {}))

    def register_endpoint(self, url: str, local_url: str) -> None:
        """Register a server in place of an endpoint of API destinations. No other endpoint is called.

        Args:
            url: The endpoint's URL.
            local_url: The server's URL, `http://127.0.0.1:…`.
        """
        self._destinations.register(url, local_url)

    # For a person or a test in front of the account -------------------------------------------------------------------

    def job_log(self, name: str) -> str:
        """Return the output of a job's process so far.

        Args:
            name: Name of the job.

        Raises:
            LookupError: No job has that name.
        """
        return self.jobs.log(name)

    def job_pid(self, name: str) -> int | None:
        """Return the id of a job's process, or None if it does not run.

        Args:
            name: Name of the job.

        Raises:
            LookupError: No job has that name.
        """
        return self.jobs.pid(name)

    def function_log(self, name: str) -> str:
        """Return the output of a function so far, of all its processes.

        Args:
            name: Name of the function.
        """
        file = self.folder / "lambda" / "logs" / f"{name}.log"
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""

    def function_pids(self) -> tuple[int, ...]:
        """The processes of functions, warm or busy."""
        return self._lambdas.pids()

    def watch_objects(self, place: str) -> None:
        """From now on the journal has each object that is stored below `place` (`bucket/prefix`) in S3."""
        self._watched.append(place)

    def emit_official_rule_status(self, job: str, statuses: Iterable[tuple[str, str, str]]) -> None:
        """Send what SageMaker Debugger would: the job's event with (rule, status, details) of each of its rules."""
        self.jobs.emit_official_rule_status(job, statuses)

    def emit_event(
        self, source: str, detail_type: str, detail: Mapping[str, Any], *, resources: Iterable[str] = ()
    ) -> None:
        """Send an event of an AWS service onto the default bus. PutEvents refuses sources that begin with `aws.`.

        Args:
            source: Source of the event, such as `aws.s3`.
            detail_type: Type of the event, such as `Object Created`.
            detail: Detail of the event.
            resources: ARNs of what the event is about.
        """
        _send_event(REGION, ACCOUNT_ID, source=source, detail_type=detail_type, detail=detail, resources=resources)

    # For the repairs ------------------------------------------------------------------------------------------------

    def send_event(self, rule: Any, event: Mapping[str, Any]) -> None:
        """An event came onto the bus of moto's `Rule`."""
        self._events.send(rule, event)

    def invoke(self, function: Any, payload: bytes) -> Outcome:
        """Run moto's `LambdaFunction`, and wait for its outcome."""
        return self._lambdas.invoke(function, payload)

    def invoke_later(self, function: Any, payload: bytes) -> None:
        """Run moto's `LambdaFunction` on another thread, with Lambda's retries."""
        self._lambdas.invoke_later(function, payload)

    def queues_changed(self) -> None:
        """Look for messages that a function waits for."""
        if self._is_open:
            self._queues.wake()

    def message_arrived(self, queue: str) -> None:
        """Write it into the journal, and look for a function that waits for it."""
        self.hops.write("message", queue=queue)
        self.queues_changed()

    def object_stored(self, bucket: str, key: str) -> None:
        """Write it into the journal, if somebody watches its place."""
        if f"{bucket}/{key}".startswith(tuple(self._watched)):
            self.hops.write("object", bucket=bucket, key=key)


@dataclass(frozen=True)
class OtherAccount:
    """Clients of one more account of a `LocalAccount`, which runs its functions and jobs, too."""

    account_id: str
    endpoint_url: str
    keys: tuple[str, str, str]

    def client(self, service: str) -> Any:
        """Return a boto3 client of this account.

        Args:
            service: Name of the service, such as `events`.
        """
        return _connect(service, self.endpoint_url, self.keys)


def _connect(service: str, endpoint_url: str, keys: tuple[str, str, str]) -> Any:
    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=endpoint_url,
        aws_access_key_id=keys[0],
        aws_secret_access_key=keys[1],
        aws_session_token=keys[2],
        config=Config(proxies={}),
    )


def _notebook_statements() -> Sequence[Mapping[str, Any]]:
    """https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonSageMakerFullAccess.html"""
    statements: Sequence[Mapping[str, Any]] = json.loads(aws_managed_policies_data)[_NOTEBOOK]["Document"]["Statement"]
    return statements


def _check_is_free(port: int) -> None:
    """moto's server would wait for ever for a port that it cannot have."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise OSError(
                error.errno, f"127.0.0.1:{port} is taken. Choose another port, or 0 for a free one."
            ) from error


def _send_sagemaker_event(detail_type: str, arn: str, detail: Mapping[str, Any]) -> None:
    region, account = arn.split(":")[3:5]
    _send_event(region, account, source="aws.sagemaker", detail_type=detail_type, detail=detail, resources=[arn])


def _send_event(
    region: str, account: str, *, source: str, detail_type: str, detail: Mapping[str, Any], resources: Iterable[str]
) -> None:
    entry = {
        "Source": source,
        "DetailType": detail_type,
        "Detail": json.dumps(detail),
        "Resources": list(resources),
    }
    events_backends[account][region].put_events([entry])


def _send_failure(arn: str, text: str, attributes: Mapping[str, str]) -> None:
    if arn.split(":")[2] == "sqs":
        send_to_queue(arn, text, attributes=attributes)
        return
    from moto.sns.models import sns_backends

    region, account = arn.split(":")[3:5]
    sns_backends[account][region].publish(text, arn=arn)
