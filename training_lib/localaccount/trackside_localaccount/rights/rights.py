"""The rights in one account: each request of a role or user, and what services do for them, by the policies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from moto.core.utils import get_service_model
from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

from trackside_localaccount.rights import holdings
from trackside_localaccount.rights.accesses import Access, Place, UnknownAccessError, accesses_of
from trackside_localaccount.rights.conditions import UnknownConditionError
from trackside_localaccount.rights.policy import Decision, Policies, Policy, Principal, Question, decide, parse_policy
from trackside_localaccount.strict.incoming import Incoming

_CONSENT_NEEDED = ("kms:", "sts:AssumeRole")  # a key's policy and a role's trust must allow in any case
_ROLES_BY_ARN = (
    "iam:PassRole",
    "iam:SimulatePrincipalPolicy",
    "sts:AssumeRole",
)  # a request names them so, others by their names
_ALWAYS_ALLOWED = {("sts", "GetCallerIdentity")}
_ADMINISTRATOR: Policy = ({"Effect": "Allow", "Action": "*", "Resource": "*"},)
_ADMINISTRATORS_ROLE = "OrganizationAccountAccessRole"  # Organizations makes it in each account
_SEND_KEYS, _READ_KEYS = ("kms:GenerateDataKey", "kms:Decrypt"), ("kms:Decrypt",)
# What a service does with the customer's key of a resource in the name of whoever uses the resource.
# https://docs.aws.amazon.com/kms/latest/developerguide/service-integration.html
_KEY_USES: Mapping[str, tuple[str, ...]] = {
    "s3:GetObject": _READ_KEYS,
    "s3:GetObjectVersion": _READ_KEYS,
    "s3:PutObject": ("kms:GenerateDataKey",),
    "sqs:SendMessage": _SEND_KEYS,
    "sqs:ReceiveMessage": _READ_KEYS,
    "sns:Publish": _SEND_KEYS,
    "secretsmanager:GetSecretValue": _READ_KEYS,
    "ssm:GetParameter": _READ_KEYS,
    **{
        f"dynamodb:{name}": _READ_KEYS
        for name in (
            *("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan"),
            *("BatchGetItem", "BatchWriteItem", "ConditionCheckItem"),
        )
    },
}


class GapError(Exception):
    """A request that IAM would decide and this account cannot; the message names the gap."""


@dataclass(frozen=True)
class Caller:
    """Whoever signed a request: its principal, its policies, and those that limit it."""

    principal: Principal
    identity: Policy
    limits: tuple[tuple[str, Policy], ...]


class Rights:
    """All decisions of an account. `job_tags(arn)` returns the tags of a job; `listeners` get each question."""

    def __init__(
        self, *, job_tags: Callable[[str], Mapping[str, str]], note: Callable[..., None], are_enforced: bool
    ) -> None:
        self._job_tags, self._are_enforced = job_tags, are_enforced
        self._note = note
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], Any] = {}
        self.listeners: list[Callable[[Question], object]] = []

    # Requests -------------------------------------------------------------------------------------------------------

    def refusal_of(self, incoming: Incoming, *, access_key: str, place: Place) -> str:
        """Return IAM's sentence if it refuses a request, else an empty text. The account's owner may do everything.

        Args:
            incoming: The request.
            access_key: Access key that signed it.
            place: Account and region of the request.

        Raises:
            GapError: This account cannot tell what IAM would decide.
        """
        if not self._are_enforced or (incoming.service, incoming.operation.name) in _ALWAYS_ALLOWED:
            return ""
        caller = caller_of(access_key)
        if caller is None:
            return _refusal_of_owner(incoming, place)
        try:
            accesses = accesses_of(incoming.service, incoming.operation.name, incoming.parameters, place)
            needed = [one for access in accesses for one in self._needed(access, place)]
        except UnknownAccessError as error:
            raise GapError(f"The local account does not know {error}, so it cannot ask IAM about it.") from error
        return self._refusal(caller, [*needed, *_to_learn_of_absence(needed)], place)

    # What services do -----------------------------------------------------------------------------------------------

    def role_refusal(self, role_arn: str, session: str, *accesses: Access) -> str:
        """Return IAM's sentence if a role may not do something that a service does in its name.

        Args:
            role_arn: ARN of the role.
            session: Name of the role's session.
            accesses: Actions and resources.
        """
        if not self._are_enforced:
            return ""
        place = Place(role_arn.split(":")[4], _region_of(accesses))
        needed = [one for access in accesses for one in self._needed(access, place)]
        return self._refusal(_caller_of_role(role_arn, session), needed, place)

    def service_refusal(self, service: str, access: Access, *, source_arn: str) -> str:
        """Return IAM's sentence if a resource's policy does not let a service in.

        Args:
            service: Name of the service, such as `events`.
            access: Action and resource.
            source_arn: ARN of the resource for which the service acts.
        """
        if not self._are_enforced:
            return ""
        account = (source_arn.split(":")[4],)
        source = {"aws:sourcearn": (source_arn,), "aws:sourceaccount": account}
        if service == "cloudwatch":  # which publishes as the account, as a topic's first policy asks for
            source["aws:sourceowner"] = account
        principal = Principal(f"{service}.amazonaws.com", service=f"{service}.amazonaws.com")
        place = Place(access.resource.split(":")[4], access.resource.split(":")[3])
        caller = Caller(principal, (), ())
        needed = [Access(one.action, one.resource, {**one.keys, **source}) for one in self._needed(access, place)]
        return self._refusal(caller, needed, place)

    def simulate(self, role_arn: str, access: Access) -> str:
        """Return IAM's word for an access by a role's policies, without the policy of the resource.

        Args:
            role_arn: ARN of the role.
            access: Action and resource.
        """
        caller = _caller_of_role(role_arn, "simulation")
        question = self._question(caller.principal, access, Place(role_arn.split(":")[4], "us-east-1"))
        decision = decide(question, Policies(identity=caller.identity, limits=caller.limits))
        if decision.is_allowed:
            return "allowed"
        return "explicitDeny" if "explicit deny" in decision.reason else "implicitDeny"

    def account_refusal(self, account: str, access: Access) -> str:
        """Return IAM's sentence if a resource's policy does not let another account in.

        Args:
            account: Number of the account that asks.
            access: Action and resource.
        """
        principal = Principal(f"arn:aws:iam::{account}:root", account)
        place = Place(account, access.resource.split(":")[3])
        return self._refusal(Caller(principal, _ADMINISTRATOR, ()), self._needed(access, place), place)

    def can_assume(self, role_arn: str, service: str) -> bool:
        """Return whether a role exists and trusts a service."""
        if not self._are_enforced:
            return True
        access = Access("sts:AssumeRole", role_arn)
        trust = holdings.policy_of(role_arn)
        return trust is not None and not self.service_refusal(service, access, source_arn=role_arn)

    def environment_of(self, role_arn: str, session: str) -> dict[str, str]:
        """Return the variables by which a process acts as a role; one set for each session."""
        account = role_arn.split(":")[4]
        with self._lock:
            found = self._sessions.get((role_arn, session))
            if found is None:
                found = sts_backends[account]["aws"].assume_role(
                    region_name="us-east-1",
                    role_session_name=session,
                    role_arn=role_arn,
                    policy="",
                    duration=3600,
                    external_id="",
                )
                self._sessions[role_arn, session] = found
        return {
            "AWS_ACCESS_KEY_ID": found.access_key_id,
            "AWS_SECRET_ACCESS_KEY": found.secret_access_key,
            "AWS_SESSION_TOKEN": found.session_token,
        }

    # Decisions ------------------------------------------------------------------------------------------------------

    def _needed(self, access: Access, place: Place) -> Iterator[Access]:
        """Yield the access and those to the key of its resource."""
        is_by_arn = access.action in _ROLES_BY_ARN
        resource = access.resource if is_by_arn else holdings.real_arn(access.resource)
        yield Access(access.action, resource, access.keys)
        uses = _KEY_USES.get(access.action, ())
        if uses and (key := holdings.key_of(resource)):
            via = f"{access.action.partition(':')[0]}.{place.region}.amazonaws.com"
            for action in uses:
                yield Access(action, key, {"kms:viaservice": (via,), "kms:calleraccount": (place.account,)})

    def _refusal(self, caller: Caller, needed: Iterable[Access], place: Place) -> str:
        for access in needed:
            question = self._question(caller.principal, access, place)
            for listen in self.listeners:
                listen(question)
            try:
                decision = decide(question, policies_for(question, caller))
            except UnknownConditionError as error:
                raise GapError(f"The local account does not know {error} of a policy.") from error
            if not decision.is_allowed:
                self._note("denied", who=caller.principal.arn, action=access.action, resource=access.resource)
                return sentence(question, decision)
        return ""

    def _question(self, principal: Principal, access: Access, place: Place) -> Question:
        tags = {**holdings.tags_of(access.resource), **self._job_tags(access.resource)}
        keys: dict[str, tuple[str, ...]] = {
            "aws:currenttime": (datetime.now(timezone.utc).isoformat(),),  # noqa: TID251 - as IAM reads its own clock
            "aws:requestedregion": (place.region,),
            "aws:resourceaccount": (holdings.owner_of(access.resource) or place.account,),
            "s3:resourceaccount": (holdings.owner_of(access.resource) or place.account,),
            "aws:securetransport": ("true",),  # the loopback stands for HTTPS
            "aws:sourceip": ("127.0.0.1",),
            "aws:principalisawsservice": ("true" if principal.service else "false",),
            **{f"aws:resourcetag/{key.lower()}": (value,) for key, value in tags.items()},
        }
        if not principal.service:
            keys["aws:principalarn"] = (principal.role_arn or principal.arn,)
            keys["aws:principalaccount"] = (principal.account,)
            if organization := holdings.organization_of(principal.account):
                keys["aws:principalorgid"] = (organization,)
            keys["aws:principaltype"] = ("AssumedRole" if principal.role_arn else "User",)
        return Question(principal, access.action, access.resource, {**keys, **access.keys})


def _refusal_of_owner(incoming: Incoming, place: Place) -> str:
    """Return IAM's sentence if the account's owner asks to be a role that does not exist."""
    if (incoming.service, incoming.operation.name) != ("sts", "AssumeRole"):
        return ""
    role = str(incoming.parameters["RoleArn"])
    if holdings.role_of(role) is not None or role.endswith(f":role/{_ADMINISTRATORS_ROLE}"):
        return ""
    owner = f"arn:aws:sts::{place.account}:user/moto"  # as moto answers GetCallerIdentity
    return f"User: {owner} is not authorized to perform: sts:AssumeRole on resource: {role}"


def _to_learn_of_absence(needed: Iterable[Access]) -> Iterator[Access]:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html: an object that does not exist is `not found`
    for those who may list its bucket, and forbidden for others. Its name counts as the prefix (ceph/ceph#68577)."""
    for access in needed:
        if access.action == "s3:GetObject":
            bucket, _, key = access.resource.removeprefix("arn:aws:s3:::").partition("/")
            if not holdings.has_object(bucket, key):
                yield Access("s3:ListBucket", f"arn:aws:s3:::{bucket}", {"s3:prefix": (key,)})


def caller_of(access_key: str) -> Caller | None:
    """Return who signed with an access key; None for the account's owner, for whom any unknown key stands."""
    for account in list(sts_backends.values()):
        session = account["aws"].get_assumed_role_from_access_key(access_key)
        if session is not None:
            return _caller_of_session(session)
    for identities in list(iam_backends.values()):
        user = identities["aws"].get_user_from_access_key_id(access_key)
        if user is not None:
            return Caller(Principal(user.arn, user.account_id), *holdings.identity_of_user(user))
    return None


def policies_for(question: Question, caller: Caller) -> Policies:
    """Return all policies that bear on a question."""
    owner = holdings.owner_of(question.resource)
    return Policies(
        identity=caller.identity,
        limits=caller.limits,
        resource=holdings.policy_of(question.resource) if question.resource != "*" else None,
        resource_must_allow=question.resource != "*" and question.action.startswith(_CONSENT_NEEDED),
        is_own=not owner or owner == question.principal.account,
    )


def sentence(question: Question, decision: Decision) -> str:
    """Return AWS's sentence of a refusal."""
    service, _, name = question.action.partition(":")
    action, resource = question.action, question.resource
    if service == "sqs":  # these write the action or the resource in a way of their own
        action = f"sqs:{name.lower()}"
    elif service == "sns":
        action = f"SNS:{name}"
    elif service == "s3":
        resource = f'"{resource}"'
    elif service == "iam" and action not in _ROLES_BY_ARN:
        kind, _, path = resource.rpartition(":")[2].partition("/")
        resource = f"{kind} {path.rpartition('/')[2]}" if path else resource
    reason = decision.reason.replace(question.action, action)
    return f"User: {question.principal.arn} is not authorized to perform: {action} on resource: {resource} {reason}"


def code_of(service: str) -> tuple[str, int]:
    """Return the error code and HTTP status by which a service reports IAM's refusal.

    https://docs.aws.amazon.com/<service>/latest/APIReference/CommonErrors.html
    """
    if service in _CODES:
        return _CODES[service]
    protocol = str(get_service_model(service).protocol)
    if protocol in {"query", "rest-xml"}:
        return "AccessDenied", 403
    return "AccessDeniedException", 400 if protocol == "json" else 403


_CODES: Mapping[str, tuple[str, int]] = {
    "cloudwatch": ("AccessDenied", 403),
    "ec2": ("UnauthorizedOperation", 403),
    "sns": ("AuthorizationError", 403),
    "sqs": ("AccessDenied", 403),
}


def _caller_of_session(session: Any) -> Caller:
    caller = _caller_of_role(session.role_arn, session.session_name)
    if not session.policy:
        return caller
    return Caller(caller.principal, caller.identity, (*caller.limits, (holdings.SESSION, parse_policy(session.policy))))


def _caller_of_role(role_arn: str, session: str) -> Caller:
    account, name = role_arn.split(":")[4], role_arn.rpartition("/")[2]
    principal = Principal(f"arn:aws:sts::{account}:assumed-role/{name}/{session}", account, role_arn)
    identity, limits = holdings.identity_of(role_arn)
    if name == _ADMINISTRATORS_ROLE and holdings.role_of(role_arn) is None:
        identity = _ADMINISTRATOR
    return Caller(principal, identity, limits)


def _region_of(accesses: Iterable[Access]) -> str:
    named = (access.resource.split(":")[3] for access in accesses if access.resource.startswith("arn:"))
    return next((region for region in named if region), "us-east-1")
