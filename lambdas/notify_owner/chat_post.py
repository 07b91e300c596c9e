"""One message to a chat service, by HTTP, and the kinds of its refusal."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of

TIMEOUT_SECONDS = 5
MOST_ANSWER_BYTES = 64 << 10
SHORTEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 60.0, 900.0
SECONDS_A_DAY = 24 * 3600


class NotTakenError(Exception):
    """A chat service has not taken a message.

    service       its name
    error         its own word for the reason, or a description of the failure
    needs_person  True if trying again does not help
    wait_seconds  time until the next attempt
    """

    def __init__(
        self,
        service: str,
        error: str,
        *,
        wait_seconds: float = SHORTEST_WAIT_SECONDS,
        needs_person: bool = False,
    ) -> None:
        self.service, self.error, self.needs_person = service, error, needs_person
        self.wait_seconds = max(SHORTEST_WAIT_SECONDS, min(wait_seconds, LONGEST_WAIT_SECONDS))
        super().__init__(f"{service} did not take the message: {error}")


def secret_of(name: str) -> str:
    """Return the text of a secret, without blanks around it. Errors: `ClientError` of Secrets Manager."""
    secret = client("secretsmanager").get_secret_value(SecretId=name)
    return str(secret.get("SecretString", "")).strip()


def post(
    service: str,
    url: str,
    document: Mapping[str, Any],
    *,
    headers: Mapping[str, str],
    final_codes: frozenset[int] = frozenset(),
) -> bytes:
    """Post a document as JSON, and return the first 64 KiB of the answer.

    Args:
        service: Name of the service, for errors.
        url: The address.
        document: The body.
        headers: Further headers.
        final_codes: Codes of HTTP with which the service refuses for good.

    Errors: `NotTakenError`.
    """
    request = urllib.request.Request(  # noqa: S310 - the address is the deployment's
        url,
        data=json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"),
        headers={"Content-Type": "application/json; charset=utf-8", **headers},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            body: bytes = answer.read(MOST_ANSWER_BYTES)
            return body
    except urllib.error.HTTPError as refused:
        with refused:
            wait, is_final = refused.headers.get("Retry-After", ""), refused.code in final_codes
            seconds = LONGEST_WAIT_SECONDS if is_final else float(wait) if wait.isdecimal() else 0.0
            raise NotTakenError(
                service, f"HTTP {refused.code}", wait_seconds=seconds, needs_person=is_final
            ) from refused
    except (OSError, ValueError) as outage:  # ValueError: of a header that no HTTP request can hold
        raise NotTakenError(service, type(outage).__name__) from outage


def is_first_report(refused: NotTakenError, *, table: str, now: float) -> bool:
    """Return True for one caller a day, service and error. Errors: `ClientError`."""
    item = {
        "id": {"S": f"{refused.service.lower()}#{refused.error}#{int(now // SECONDS_A_DAY)}"},
        "expiration": {"N": str(int(now) + 2 * SECONDS_A_DAY)},
    }
    try:
        client("dynamodb").put_item(TableName=table, Item=item, ConditionExpression="attribute_not_exists(id)")
    except ClientError as error:
        if code_of(error) != "ConditionalCheckFailedException":
            raise
        return False
    return True
