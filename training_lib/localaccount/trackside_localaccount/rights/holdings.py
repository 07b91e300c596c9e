"""The state of moto behind IAM's decisions: policies of roles and resources, their tags, keys of encryption."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.cloudformation.models import cloudformation_backends
from moto.core.exceptions import ServiceException
from moto.dynamodb.models import dynamodb_backends
from moto.ecr.models import ecr_backends
from moto.events.models import events_backends
from moto.iam.models import iam_backends
from moto.kms.models import kms_backends
from moto.logs.models import logs_backends
from moto.organizations.models import organizations_backends
from moto.s3.models import s3_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends
from moto.ssm.models import ssm_backends
from werkzeug.exceptions import HTTPException

from trackside_localaccount.rights.policy import Policy, parse_policy

BOUNDARY, SESSION = "permissions boundary", "session policy"
ABSENT = (ServiceException, HTTPException, LookupError, StopIteration)  # how moto says that it holds no such thing
_PARTS = 6


def identity_of(role_arn: str) -> tuple[Policy, tuple[tuple[str, Policy], ...]]:
    """Return the policies of a role, and those that limit it. A role that does not exist has none."""
    role = role_of(role_arn)
    return _identity(role) if role is not None else ((), ())


def identity_of_user(user: Any) -> tuple[Policy, tuple[tuple[str, Policy], ...]]:
    """Return the policies of moto's `User` and of its groups, and those that limit it."""
    backend = iam_backends[user.account_id]["aws"]
    groups = backend.get_groups_for_user(user.name)
    found, limits = _identity(user)
    return found + tuple(each for group in groups for each in _identity(group)[0]), limits


def role_of(role_arn: str) -> Any:
    """Return moto's `Role`, or None."""
    roles = iam_backends[role_arn.split(":")[4]]["aws"].get_roles()
    return next((role for role in roles if role.arn == role_arn), None)


def policy_of(arn: str) -> Policy | None:
    """Return the policy of a resource; None if it has none or does not exist."""
    parts = arn.split(":", _PARTS - 1)
    find = _POLICIES.get(parts[2]) if len(parts) == _PARTS else None
    if find is None:
        return None
    with suppress(*ABSENT):
        document = find(parts)
        return parse_policy(document if isinstance(document, str) else document.decode()) if document else None
    return None


def exists(arn: str) -> bool:
    """Return whether a resource exists, of those that may have a policy."""
    parts = arn.split(":", _PARTS - 1)
    try:
        _POLICIES[parts[2]](parts)
    except ABSENT:
        return False
    return True


def tags_of(arn: str) -> Mapping[str, str]:
    """Return the tags of a resource, as far as its service is known here."""
    parts = arn.split(":", _PARTS - 1)
    find = _TAGS.get(parts[2]) if len(parts) == _PARTS else None
    with suppress(*ABSENT):
        return find(parts) if find else {}
    return {}


def key_of(arn: str) -> str:
    """Return the ARN of the customer's key that a resource is encrypted with, or an empty text."""
    parts = arn.split(":", _PARTS - 1)
    find = _KEYS.get(parts[2]) if len(parts) == _PARTS else None
    with suppress(*ABSENT):
        return find_key(find(parts) or "", parts[4], parts[3]) if find else ""
    return ""


def find_key(name: str, account: str, region: str) -> str:
    """Return the ARN of a customer's key by its id, alias or ARN; an empty text for a key of AWS's own."""
    if not name:
        return ""
    if name.startswith("arn:"):
        _, _, _, region, account, name = name.split(":", _PARTS - 1)
    backend = kms_backends[account][region]
    name = name.removeprefix("key/")
    if name.startswith("alias/"):
        name = backend.get_key_id_from_alias(name) or ""
    with suppress(*ABSENT):
        key = backend.keys[name]
        return "" if key.key_manager == "AWS" else str(key.arn)
    return ""


def real_arn(arn: str) -> str:
    """Return the ARN that a resource really has, where a request names it by another: keys, secrets, stacks, roles."""
    parts = arn.split(":", _PARTS - 1)
    find = _REAL.get(parts[2]) if len(parts) == _PARTS else None
    with suppress(*ABSENT):
        return (find(parts) if find else "") or arn
    return arn


def owner_of(arn: str) -> str:
    """Return the account that owns a resource; an empty text for `*` and for what nobody owns."""
    parts = arn.split(":", _PARTS - 1)
    if len(parts) < _PARTS:
        return ""
    if parts[2] != "s3":
        return parts[4]
    name = parts[5].partition("/")[0]
    return next((backend.account_id for backend in _s3() if name in backend.buckets), "")


def organization_of(account: str) -> str:
    """Return the id of the organization that an account made or belongs to, or an empty text."""
    master, _ = organizations_backends.master_accounts.get(account, (account, ""))
    organization = organizations_backends[master]["aws"].org
    return str(organization.id) if organization is not None else ""


def has_object(bucket: str, key: str) -> bool:
    """Return whether an object exists in a bucket."""
    return any(bucket in each.buckets and each.get_object(bucket, key) is not None for each in _s3())


# Of roles and users ---------------------------------------------------------------------------------------------------


def _identity(holder: Any) -> tuple[Policy, tuple[tuple[str, Policy], ...]]:
    inline = holder.policies.values() if isinstance(holder.policies, dict) else holder.policies
    texts = [document if isinstance(document, str) else json.dumps(document) for document in inline]
    texts += [_document(managed) for managed in holder.managed_policies.values()]
    boundary = getattr(holder, "permissions_boundary_arn", None)
    limits = ((BOUNDARY, parse_policy(_managed(holder, boundary))),) if boundary else ()
    return tuple(each for text in texts for each in parse_policy(text)), limits


def _managed(holder: Any, arn: str) -> str:
    backend = iam_backends[holder.account_id]["aws"]
    with suppress(*ABSENT):
        return _document(backend.get_policy(arn))
    return "{}"  # a boundary that does not exist allows nothing


def _document(managed: Any) -> str:
    version = next(each for each in managed.versions if each.is_default)
    return version.document if isinstance(version.document, str) else json.dumps(version.document)


# Of resources ---------------------------------------------------------------------------------------------------------

Parts = list[str]  # of an ARN, split at its first five colons


def _s3() -> Iterator[Any]:
    for account in list(s3_backends.values()):
        yield from account.values()


def _bucket(name: str) -> Any:
    return next(backend.buckets[name] for backend in _s3() if name in backend.buckets)


def _queue(parts: Parts) -> Any:
    return sqs_backends[parts[4]][parts[3]].queues[parts[5]]


def _secret(parts: Parts) -> Any:
    return secretsmanager_backends[parts[4]][parts[3]].secrets[":".join(parts)]


def _bus_policy(parts: Parts) -> Any:
    bus = parts[5].removeprefix("event-bus/")
    return events_backends[parts[4]][parts[3]].describe_event_bus(bus).policy if bus != parts[5] else None


def _function_policy(parts: Parts) -> str:
    function = lambda_backends[parts[4]][parts[3]].get_function(":".join(parts))
    return json.dumps({"Statement": [{**each, "Resource": "*"} for each in function.policy.statements]})


def _logs_policy(parts: Parts) -> str:
    policies = logs_backends[parts[4]][parts[3]].resource_policies.values()
    return json.dumps({"Statement": [s for each in policies for s in json.loads(each.policy_document)["Statement"]]})


def _trust_policy(parts: Parts) -> Any:
    role = role_of(":".join(parts))
    if role is None:
        return None
    document = role.assume_role_policy_document
    return document if isinstance(document, str) else json.dumps(document)


_POLICIES: Mapping[str, Callable[[Parts], Any]] = {
    "s3": lambda parts: _bucket(parts[5].partition("/")[0]).policy,
    "sqs": lambda parts: sqs_backends[parts[4]][parts[3]].queues[parts[5]].policy,
    "sns": lambda parts: sns_backends[parts[4]][parts[3]].topics[":".join(parts)].policy,
    "kms": lambda parts: kms_backends[parts[4]][parts[3]].keys[parts[5].removeprefix("key/")].policy,
    "events": _bus_policy,
    "lambda": _function_policy,
    "logs": _logs_policy,
    "iam": _trust_policy,
    "secretsmanager": lambda parts: _secret(parts).policy,
    "ecr": lambda parts: ecr_backends[parts[4]][parts[3]].repositories[parts[5].removeprefix("repository/")].policy,
}


def _pairs(tags: Any) -> dict[str, str]:
    if isinstance(tags, Mapping):
        return {str(key): str(value) for key, value in tags.items()}
    return {str(tag.get("Key")): str(tag.get("Value")) for tag in tags or ()}


_TAGS: Mapping[str, Callable[[Parts], dict[str, str]]] = {
    "sqs": lambda parts: _pairs(sqs_backends[parts[4]][parts[3]].queues[parts[5]].tags),
    "sns": lambda parts: _pairs(sns_backends[parts[4]][parts[3]].topics[":".join(parts)]._tags),
    "dynamodb": lambda parts: _pairs(dynamodb_backends[parts[4]][parts[3]].tables[parts[5].split("/")[1]].tags),
    "lambda": lambda parts: _pairs(lambda_backends[parts[4]][parts[3]].get_function(":".join(parts)).tags),
    "iam": lambda parts: _pairs(getattr(role_of(":".join(parts)), "tags", None)),  # a policy is no role
}


def _object_key(parts: Parts) -> str:
    bucket, _, key = parts[5].partition("/")
    encryption = _bucket(bucket).encryption or {}
    rule = encryption.get("Rule", {})
    default = (rule[0] if isinstance(rule, list) else rule).get("ApplyServerSideEncryptionByDefault", {})
    stored = next((backend.get_object(bucket, key) for backend in _s3() if bucket in backend.buckets), None)
    return str((stored.kms_key_id if stored is not None else default.get("KMSMasterKeyID")) or "") if key else ""


_KEYS: Mapping[str, Callable[[Parts], Any]] = {
    "s3": _object_key,
    "sqs": lambda parts: _queue(parts).kms_master_key_id,
    "sns": lambda parts: sns_backends[parts[4]][parts[3]].topics[":".join(parts)].kms_master_key_id,
    "dynamodb": lambda parts: (
        dynamodb_backends[parts[4]][parts[3]].tables[parts[5].split("/")[1]].sse_specification or {}
    ).get("KMSMasterKeyId"),
    "secretsmanager": lambda parts: _secret(parts).kms_key_id,
    "ssm": lambda parts: getattr(
        ssm_backends[parts[4]][parts[3]].get_parameter(f"/{parts[5].removeprefix('parameter/')}"), "keyid", ""
    ),
}


def _secret_arn(parts: Parts) -> str:
    name = parts[5].removeprefix("secret:")
    return str(secretsmanager_backends[parts[4]][parts[3]].secrets[name].arn)


def _stack_arn(parts: Parts) -> str:
    name = parts[5].removeprefix("stack/")
    stacks = cloudformation_backends[parts[4]][parts[3]].stacks.values()
    return next(stack.stack_id for stack in stacks if stack.name == name)


def _key_arn(parts: Parts) -> str:
    name = parts[5].removeprefix("key/")
    return find_key(name, parts[4], parts[3])


def _role_arn(parts: Parts) -> str:
    kind, _, name = parts[5].partition("/")
    return str(iam_backends[parts[4]]["aws"].get_role(name).arn) if kind == "role" else ""


_REAL: Mapping[str, Callable[[Parts], str]] = {
    "iam": _role_arn,
    "kms": _key_arn,
    "secretsmanager": _secret_arn,
    "cloudformation": _stack_arn,
}
