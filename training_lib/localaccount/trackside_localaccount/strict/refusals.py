"""A refusal as AWS answers it: error code, status, and a body in the protocol of the request."""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from botocore.model import OperationNotFoundError
from moto.core.errors import COMMON_ERROR_CODES
from moto.core.exceptions import ServiceException
from moto.core.parse import RequestParserError
from moto.core.responses import ActionResult
from moto.core.utils import get_service_model
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from trackside_localaccount.rights.accesses import Place
from trackside_localaccount.rights.rights import GapError, Rights, code_of
from trackside_localaccount.strict.incoming import Incoming, UnreadableError, read
from trackside_localaccount.strict.limits import LIMITS, BrokenLimit, Request, check_tags
from trackside_localaccount.strict.violations import Violations

_LOG = logging.getLogger(__name__)

# What services say instead of ValidationException (JSON) and ValidationError (query), by the pages "Common errors" and
# the errors of their operations in https://docs.aws.amazon.com/<service>/latest/APIReference.
_CODES = {
    "athena": "InvalidRequestException",
    "cognito-idp": "InvalidParameterException",
    "ec2": "InvalidParameterValue",
    "ecr": "InvalidParameterException",
    "ecs": "InvalidParameterException",
    "logs": "InvalidParameterException",
    "s3": "InvalidArgument",
    "sqs": "InvalidParameterValue",
    "xray": "InvalidRequestException",
}
_UNREADABLE = {"query": "MalformedInput", "ec2": "MalformedInput", "rest-xml": "InvalidArgument"}
# Codes that stand in no model, of which moto would warn.
COMMON_ERROR_CODES.extend(
    [
        "SerializationException",
        "MalformedInput",
        "MalformedXML",
        "RequestEntityTooLargeException",
        "InvalidParameter",
        "NotImplemented",
        "AccessDenied",
        "AccessDeniedException",
    ]
)


class Refused(ServiceException):
    """Of a module of ours: moto takes the service of an exception from the name of its module."""


_violations = Violations()


def refuse_wrong_request(response: Any, *, now: float, rights: Rights) -> None:
    """Refuse a request that breaks its operation's model or a limit of the service, or that IAM does not allow.

    Args:
        response: An instance of moto's `BaseResponse`, set up for a request.
        now: Time, in seconds since 1970.
        rights: Decisions of IAM.

    Raises:
        HTTPException: The refusal, which the server answers with.
    """
    try:
        incoming = read(response)
    except (UnreadableError, RequestParserError) as error:
        raise unreadable(response, error) from error
    if incoming is None:
        return
    shape = incoming.operation.input_shape
    if shape is not None and (found := _violations.of(incoming.service, shape, incoming.parameters)):
        errors = f"{len(found)} validation error{'s' if len(found) > 1 else ''} detected: {'; '.join(found)}"
        raise _refusal(response, validation_code(incoming.service), errors)
    _refuse_without_right(response, incoming, rights)
    try:
        check_tags(incoming.parameters)
        request = Request(response, datetime.fromtimestamp(now, tz=timezone.utc))
        for limit in LIMITS.get((incoming.service, incoming.operation.name), ()):
            limit(incoming.parameters, request)
    except BrokenLimit as broken:
        code = broken.code or validation_code(incoming.service)
        raise _refusal(response, code, str(broken), status=broken.status) from broken


def _refuse_without_right(response: Any, incoming: Incoming, rights: Rights) -> None:
    place = Place(response.current_account, response.region)
    try:
        sentence = rights.refusal_of(incoming, access_key=access_key_of(response), place=place)
    except GapError as error:
        raise not_here(response, str(error)) from error
    if sentence:
        code, status = code_of(incoming.service)
        raise _refusal(response, code, sentence, status=status)


def access_key_of(response: Any) -> str:
    """Return the access key that a request, or a link that was signed before, is signed with.

    Args:
        response: An instance of moto's `BaseResponse`, set up for a request.
    """
    signed: str = response.normalized_request.values.get("X-Amz-Credential", "").partition("/")[0]
    return signed or str(response.access_key)


def not_here(response: Any, sentence: str) -> HTTPException:
    """Return the answer to what this account cannot do: HTTP 501, which SDKs do not try again.

    Args:
        response: An instance of moto's `BaseResponse`.
        sentence: Name of the gap.
    """
    return _refusal(response, "NotImplemented", sentence, status=501)


def unreadable(response: Any, error: Exception) -> HTTPException:
    """Return the refusal of a request of which the protocol can make nothing.

    Args:
        response: An instance of moto's `BaseResponse`.
        error: What could not be read.
    """
    protocol = str(get_service_model(response.boto3_service_name).protocol)
    code = _UNREADABLE.get(protocol, "SerializationException")
    if protocol == "rest-xml" and isinstance(error, RequestParserError):
        code = "MalformedXML"
    return _refusal(response, code, str(error))


@contextlib.contextmanager
def no_internal_error(response: Any) -> Iterator[None]:
    """Answer where moto fails, which would be HTTP 500 and tried again: not found, or what cannot be done here.

    What moto missed is not found only if it is what the request names. Of any other failure nobody knows what AWS would
    answer: that is HTTP 501, with the gap.

    Args:
        response: An instance of moto's `BaseResponse`, whose action runs inside.
    """
    try:
        yield
    except (HTTPException, ServiceException):
        raise
    except Exception as error:
        code = _not_found_code(response)
        if isinstance(error, LookupError) and code and error.args and error.args[0] in _texts_of(response):
            raise _refusal(response, code, "Requested resource not found.") from error
        _LOG.warning("A request was not carried out, for moto failed at it.", exc_info=True)
        place = traceback.extract_tb(error.__traceback__)[-1]
        file = place.filename.rpartition("site-packages/")[2]
        gap = (
            f"The local account cannot carry out {response.boto3_service_name}:{response._get_action()} as it is "
            f"requested: {type(error).__name__}: {error} ({file}:{place.lineno})"
        )
        raise not_here(response, gap) from error


def _texts_of(response: Any) -> frozenset[str]:
    """All texts of a request, at any depth."""
    incoming = read(response)
    return frozenset(_texts(incoming.parameters)) if incoming else frozenset()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in (*value.keys(), *value.values()):
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def validation_code(service: str) -> str:
    """Return the error code by which a service refuses a value that its model forbids.

    Args:
        service: Name of the service, as boto3 has it.
    """
    if service in _CODES:
        return _CODES[service]
    metadata = get_service_model(service).metadata
    protocols = metadata.get("protocols", [metadata.get("protocol")])
    return "ValidationError" if "query" in protocols else "ValidationException"


def _not_found_code(response: Any) -> str:
    try:
        operation = get_service_model(response.boto3_service_name).operation_model(response._get_action())
    except OperationNotFoundError:
        return ""
    names = (str(shape.metadata.get("error", {}).get("code") or shape.name) for shape in operation.error_shapes)
    return next((name for name in names if "NotFound" in name or name.startswith("NoSuch")), "")


def _refusal(response: Any, code: str, message: str, *, status: int = 400) -> HTTPException:
    _, headers, body = response.serialized(ActionResult(Refused(code, message)))
    kept = {name: value for name, value in headers.items() if name.lower() != "status"}
    return HTTPException(response=Response(body, status, kept))
